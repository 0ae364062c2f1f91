"""A driver says everything that is known about it, in one file; nothing else names it."""

from __future__ import annotations

import ast
import os
import re
import shutil
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import overhand
from overhand.agents import (
    Agent,
    Job,
    StreamSummary,
    all_drivers,
    drivers,
    find_driver,
    installable,
    lookup,
    translator,
)
from overhand.agents.driver import Driver, driver_names, is_plain_name, is_uuid
from overhand.errors import BadInput, ToolMissing
from overhand.words import LEVELS
from support.warm import make_project

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(overhand.__file__).parent
PLAIN = ("command", "external", "function")  # names that are words of their own as well
DRIVERS = {name: find_driver(name) for name in driver_names()}
PROGRAMS = {name: driver for name, driver in DRIVERS.items() if driver.program}

# Texts outside the drivers that may name one, each for a reason; one that is gone must go here too.
ALLOWED = {
    "contracts/check_files.py": {  # what lies there steers agents, too
        *(".claude/*", ".codex/*", ".gemini/*", ".goose/*", ".opencode/*", ".qwen/*", "CLAUDE.md", "GEMINI.md"),
    },
    "verbs/table.py": {  # help
        "claude, codex, gemini or opencode",
        "go on in a session that was started elsewhere, such as claude:ID",
        "write a Claude Code plugin with /dispatch and a skill into this folder",
    },
}


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Every module but the drivers' own."""
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith("agents/drivers/"):
            yield name, ast.parse(path.read_text(encoding="utf-8"))


def docstrings(tree: ast.Module) -> set[int]:
    """The nodes that only say something to a reader."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def named(text: str) -> bool:
    """Whether a text has the name of a driver in it that is not a word of its own."""
    names = "|".join(name for name in DRIVERS if name not in PLAIN)
    return re.search(rf"(?<![a-z])(?:{names})(?![a-z])", text.lower()) is not None


def test_no_other_module_names_a_driver() -> None:
    found: dict[str, set[str]] = {}
    for name, tree in modules():
        told = docstrings(tree)
        for node in ast.walk(tree):
            texts = []
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
                texts = [node.value]
            elif isinstance(node, ast.Name | ast.Attribute):
                texts = [node.id if isinstance(node, ast.Name) else node.attr]
            elif isinstance(node, ast.Import | ast.ImportFrom):
                texts = [alias.name for alias in node.names]
            for text in texts:
                if named(text):
                    found.setdefault(name, set()).add(text)
    assert found == ALLOWED


def test_no_other_module_compares_a_driver_with_a_name() -> None:
    found = [
        f"{name}:{node.lineno}"
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare) and "driver" in ast.unparse(node)
        if any(isinstance(one, ast.Constant) and one.value in DRIVERS for one in ast.walk(node))
    ]
    assert found == []


def test_the_folder_is_the_list() -> None:
    folder = SOURCE / "agents/drivers"
    there = {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert set(driver_names()) == there - {"__init__"}
    found = list(all_drivers().values())
    assert [driver.rank for driver in found] == sorted(driver.rank for driver in found)
    first = ["claude", "codex", "gemini", "opencode", "goose", "qwen"]
    assert [name for name in installable() if name in first] == first


def test_what_is_no_driver() -> None:
    for name in ("plan", "__init__", "../driver", "", "claude.py"):
        assert lookup(name) is None
        assert translator(name) is None
        with pytest.raises(BadInput, match="this version has command, function, external, claude"):
            find_driver(name)


@pytest.mark.parametrize("name", DRIVERS)
def test_every_driver_is_whole(name: str) -> None:
    driver = DRIVERS[name]
    assert isinstance(driver, Driver)
    assert [other for other, one in DRIVERS.items() if one.rank == driver.rank] == [name]
    assert set(driver.personal_files) <= set(driver.project_files)
    assert not any(os.path.isabs(file) for file in driver.project_files)
    assert driver.permit is None or driver.asks
    assert all(isinstance(problem, str) for problem in driver.problems(Agent("it", name)))
    if driver.translate is not None:
        for line in ({}, {"type": "no such"}, {"type": None, "kind": ""}):
            assert list(driver.translate(line)) == []
    else:
        assert (driver.program, driver.asks, driver.open_session) == ("", False, ())


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_has_all_that_people_are_told_of_it(name: str) -> None:
    driver = PROGRAMS[name]
    assert driver.title
    assert driver.install
    assert driver.translate
    assert driver.open_session
    assert driver.login is not None
    assert driver.login.command.startswith(driver.program)
    made = driver.own_session("sess_1", StreamSummary(end="clean"))
    assert not made or driver.is_session(made)
    assert not driver.is_session("--help")
    assert not driver.is_session("")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_started_at_every_level_with_the_prompt_on_stdin(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = PROGRAMS[name]
    place = str(tmp_path)
    job = Job(
        "Go.",
        place,
        f"{place}/HANDOFF.md",
        f"{place}/OUTPUT.md",
        place,
        place=place,
        desk=place,
        run="sess_1",
        model="m",
    )
    monkeypatch.setenv("PATH", place)
    with pytest.raises(ToolMissing, match=f"needs the program {driver.program}") as missing:
        driver.launch(Agent(name, name), job)
    assert driver.install in missing.value.hint
    (tmp_path / driver.program).touch(mode=0o755)
    for level in LEVELS:
        wanted = replace(job, level=level, mcp=("overhand", "mcp"))
        found = driver.launch(Agent(name, name, options={"args": ["--more"]}), wanted)
        assert found.argv[0] == f"{place}/{driver.program}"
        assert "--more" in found.argv
        assert found.prompt_on_stdin
        assert "Go." not in found.argv
        assert "m" in (*found.argv, *found.env.values())


@pytest.mark.parametrize("name", [name for name, driver in DRIVERS.items() if driver.client])
def test_a_client_has_a_file_of_its_own_and_one_in_the_project(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = DRIVERS[name].client
    assert client is not None
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert client.path(None).startswith(f"{tmp_path}/home/")
    assert client.path(str(tmp_path / "project")).startswith(f"{tmp_path}/project/")
    assert "/bin/overhand" in str(client.entry(["/bin/overhand", "mcp"]))


def test_what_can_name_a_session() -> None:
    assert is_uuid("5f0c2e9a-3f57-4c0e-9a55-0b1c2d3e4f50")
    assert not is_uuid("5f0c2e9a3f574c0e9a550b1c2d3e4f50")
    assert is_plain_name("ses_4f.a-1")
    assert not any(map(is_plain_name, ("-x", "a b", "a/b", "", "a" * 201)))


# a driver that nobody has written yet: all that it needs is its file

TOY = '''
"""Driver `toy`: a program that says what it does in lines of JSON."""

from overhand.agents.driver import Driver, Launch, Login
from overhand.agents.programs import require
from overhand.agents.stream import StreamEvent


def launch(agent, job):
    return Launch((require(agent), "--go", *(["--on", job.session] if job.session else [])))


def translate(line):
    if line.get("toy") == "hello":
        yield StreamEvent("session", line["id"])
    elif line.get("toy") == "bye":
        yield StreamEvent("used", data={"input": 7, "output": 3, "turns": 1})
        yield StreamEvent("ended", data={"how": "clean"})


DRIVER = Driver(
    rank=99,
    title="Toy",
    launch=launch,
    translate=translate,
    program="toy-agent",
    install="buy one",
    login=Login((), (), (), "toy-agent login"),
    open_session=("--on",),
    project_files=(".toy.json",),
    unheld="A toy holds to nothing",
)
'''
PROGRAM = """\
#!/bin/sh
[ "$1" = --version ] && echo toy-agent 1.2.3 && exit
echo '{"toy": "hello", "id": "5f0c2e9a-3f57-4c0e-9a55-0b1c2d3e4f50"}'
printf '# Task Complete: it\\n\\n**Status:** completed\\n\\n## Summary\\nPlayed.\\n' > "$OVERHAND_OUTPUT"
echo '{"toy": "bye"}'
"""


def test_a_new_driver_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(SOURCE, tmp_path / "lib/overhand", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "lib/overhand/agents/drivers/toy.py").write_text(TOY)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/toy-agent").write_text(PROGRAM)
    (tmp_path / "bin/toy-agent").chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "lib"))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    project = make_project(tmp_path / "project", {})
    try:
        row = project.run("agents", "toy", "--json", check=True).json["programs"][0]
        assert (row["version"], row["next"]) == ("1.2.3", "log in: toy-agent login")
        assert "driver: toy" in project.run("agents", "toy", "--example", check=True).out
        started = project.run(
            "delegate", "Play.", "--agent", "toy", "--read-only", "--set=shield=off", "--json", check=True
        ).json
        assert "A toy holds to nothing" in started["may"]
        done = project.run("wait", "1", "--json", check=True).json
        assert (done["status"], done["summary"], done["usage"]["output"]) == ("completed", "Played.", 3)
        (project.path / ".toy.json").write_text("{}")
        refused = project.run("delegate", "Play.", "--agent", "toy")
        assert (refused.code, "Not trusted yet: .toy.json" in refused.err) == (3, True)
    finally:
        project.cleanup()


def test_a_driver_that_another_thread_is_importing_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half, whole = threading.Event(), threading.Event()
    monkeypatch.setattr(threading, "half_and_whole", (half, whole), raising=False)
    (tmp_path / "slow.py").write_text(
        "import threading\nhalf, whole = threading.half_and_whole\nhalf.set()\nwhole.wait()\n"
        "from overhand.agents.drivers.command import DRIVER\n"
    )
    monkeypatch.setattr(drivers, "__path__", [*drivers.__path__, str(tmp_path)])
    found: list[Driver | None] = []
    threads = [threading.Thread(target=lambda: found.append(lookup("slow"))) for _ in range(2)]
    try:
        threads[0].start()
        assert half.wait(60)
        threads[1].start()
        threads[1].join(0.2)  # it would have come back with nothing by now
        whole.set()
        for thread in threads:
            thread.join()
    finally:
        whole.set()
        sys.modules.pop(f"{drivers.__name__}.slow", None)
    assert found == [find_driver("command")] * 2
