"""Whatever is typed or lies about: no traceback, what is so, what was needed, what to type next."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from overhand.record import Store
from support.warm import make_project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from overhand.testing.project import ProjectDir


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProjectDir]:
    project = make_project(tmp_path_factory.mktemp("shop") / "project")
    project.agent("absent", command=["/nowhere/program"])
    project.run("list", check=True)
    try:
        yield project
    finally:
        project.cleanup()


# words after `delegate`: exit code, error code
REFUSED: dict[str, tuple[list[str], int, str]] = {
    "empty title": ([""], 2, "VALIDATION_FAILED"),
    "blank title": (["  \n "], 2, "VALIDATION_FAILED"),
    "huge title": (["x" * 5000], 2, "VALIDATION_FAILED"),
    "no title": ([], 2, "VALIDATION_FAILED"),
    "negative time": (["x", "--timeout", "-1"], 2, "VALIDATION_FAILED"),
    "no time": (["x", "--timeout", "0"], 2, "VALIDATION_FAILED"),
    "no number": (["x", "--timeout", "soon"], 2, "VALIDATION_FAILED"),
    "not a number": (["x", "--timeout", "nan"], 2, "VALIDATION_FAILED"),
    "too much time": (["x", "--timeout", "99h"], 3, "LIMIT_EXCEEDED"),
    "too much for its kind": (["x", "--kind", "plan", "--timeout", "61m"], 3, "LIMIT_EXCEEDED"),
    "set nothing": (["x", "--set", "foo"], 2, "VALIDATION_FAILED"),
    "set the unknown": (["x", "--set", "foo=1"], 2, "VALIDATION_FAILED"),
    "set dots": (["x", "--set", "..=1"], 2, "VALIDATION_FAILED"),
    "set a table": (["x", "--set", "checks=3"], 2, "VALIDATION_FAILED"),
    "set below nothing": (["x", "--set", "limits.max_parallel=-1"], 2, "VALIDATION_FAILED"),
    "unknown agent": (["x", "--agent", "nobody"], 4, "AGENT_NOT_FOUND"),
    "agent by path": (["x", "--agent", "../../etc/passwd"], 4, "AGENT_NOT_FOUND"),
    "driver without a file": (["x", "--agent", "function"], 4, "AGENT_NOT_FOUND"),
    "missing program": (["x", "--agent", "absent"], 5, "TOOL_UNAVAILABLE"),
    "kind of two words": (["x", "--kind", "a b"], 2, "VALIDATION_FAILED"),
    "unknown contract": (["x", "--contract", "nope"], 2, "VALIDATION_FAILED"),
    "missing contract": (["x", "--contract", "nope.json"], 4, "FILE_NOT_FOUND"),
    "after nothing": (["x", "--after", "99"], 4, "TASK_NOT_FOUND"),
    "empty check": (["x", "--verify", " "], 2, "VALIDATION_FAILED"),
    "no terminal to edit": (["x", "--edit"], 2, "VALIDATION_FAILED"),
    "missing handoff": (["--handoff", "nope.md"], 4, "FILE_NOT_FOUND"),
    "folder as handoff": (["--handoff", "/tmp"], 4, "FILE_NOT_FOUND"),
    "empty handoff": (["--handoff", "/dev/null"], 4, "FILE_NOT_FOUND"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_delegation_makes_no_task(shop: ProjectDir, name: str) -> None:
    words, code, error = REFUSED[name]
    more = [] if "--agent" in words else ["--agent", "worker"]
    ran = shop.run("delegate", *words, *more, "--json")
    assert (ran.code, ran.json["error"]["code"]) == (code, error), ran.json
    assert ran.json["error"]["message"]
    assert ran.json["error"]["hint"]
    assert ran.err == ""
    tasks = shop.path / ".agent-workspaces"
    assert not tasks.exists() or [name for name in os.listdir(tasks) if not name.startswith(".")] == []


@pytest.mark.parametrize(
    ("raw", "title"),
    [
        (b"\xef\xbb\xbf# Task Handoff\r\n\r\n## Task\r\nWrite it\r\n", "Write it"),
        (b"# Task Handoff\n\n## Task\nWrite \xff it\n", "Write \ufffd it"),
        ("# Task Handoff\n\n## Task\nÜber ☃\n".encode(), "Über ☃"),
        (b"Just do it, somehow.\n", "Just do it, somehow"),
    ],
)
def test_a_handoff_from_standard_input(overhand_project: ProjectDir, raw: bytes, title: str) -> None:
    overhand_project.run("trust", "--yes", check=True)
    argv = [sys.executable, "-m", "overhand", "delegate", "--handoff", "-", "--no-start", "--json"]
    done = subprocess.run(
        argv, input=raw, cwd=overhand_project.path, env=overhand_project.environment(), capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b""), done.stdout
    assert overhand_project.run("show", "1", "--json").json["title"] == title
    (made,) = overhand_project.path.glob(".agent-workspaces/*/HANDOFF.md")
    assert b"\r" not in made.read_bytes()


def test_too_large_a_handoff(overhand_project: ProjectDir) -> None:
    (overhand_project.path / "big.md").write_bytes(b"x" * (17 * 1024 * 1024))
    ran = overhand_project.run("delegate", "--handoff", "big.md", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (2, "VALIDATION_FAILED")


SETTINGS = {
    "broken": "x = [",
    "unknown": "[limits]\nmax_paralel = 3\n",
    "wrong types": '[checks]\na = 3\n[drivers]\ncommand = 3\n[kinds.research]\nlevel = "god"\ntimeout = "x"\n',
}


@pytest.mark.parametrize("name", SETTINGS)
def test_broken_settings_are_told_and_do_not_hide_the_tasks(overhand_project: ProjectDir, name: str) -> None:
    overhand_project.run("delegate", "Before", "--no-start", check=True)
    overhand_project.trust = False
    overhand_project.config(SETTINGS[name])
    for words in (["delegate", "x"], ["run", "1"], ["agents"]):
        ran = overhand_project.run(*words)
        assert (ran.code, ".overhand/config.toml" in ran.err, "Traceback" in ran.err) == (2, True, False)
    for words in (["list"], ["show", "1"], [], ["log", "1"], ["stop", "1"]):
        ran = overhand_project.run(*words)
        assert (ran.code, ran.err) == (0, "")


# an agent file's bytes, and what must be said about it
AGENT_FILES = {
    "broken": (b"---\nname: broken\noverhand: {driver: [\n---\nx", "is not YAML"),
    "shell": (
        b'---\nname: shell\noverhand: {driver: command, command: "rm -rf x"}\n---\nx',
        "a list, not a shell string",
    ),
    "magic": (b"---\nname: magic\noverhand: {driver: magic}\n---\nx", "driver 'magic' is not available"),
    "odd": (
        b'---\nname: odd\ncapabilities: 4\noverhand: {driver: command, command: ["true"]}\n---\nx',
        "must be a list",
    ),
    "switch": (
        b'---\nname: switch\noverhand: {driver: command, command: ["true"], control: "no"}\n---\nx',
        "overhand.control must be true or false",
    ),
    "patient": (
        b'---\nname: patient\noverhand: {driver: command, command: ["true"], max_block: long}\n---\nx',
        "overhand.max_block must be a duration",
    ),
    "inner": (b"---\nname: inner\noverhand: 3\n---\nx", "overhand: must be a mapping"),
}


# files that describe no agent: said only to whoever names them
NO_AGENTS = {
    "plain": (b"no front matter", "has no front matter"),
    "binary": (b"\xff\xfe\x00\x00", "has no front matter"),
    "list": (b"---\n- a\n---\nx", "not a mapping"),
    "page": (b"---\ntitle: A page\n---\nx", "no name and no description"),
    "differs": (
        b'---\nname: other\noverhand: {driver: command, command: ["true"]}\n---\nx',
        "agents/differs.md describes other",
    ),
}


def test_bad_agent_files_are_told_one_by_one(overhand_project: ProjectDir) -> None:
    folder = overhand_project.path / ".overhand/agents"
    for name, (raw, _) in (AGENT_FILES | NO_AGENTS).items():
        (folder / f"{name}.md").write_bytes(raw)
    os.mkfifo(folder / "pipe.md")
    (folder / "folder.md").mkdir()
    (folder / "link.md").symlink_to("worker.md")
    overhand_project.trust = False
    assert overhand_project.run("trust", "--yes").code == 3
    rows = {row["name"]: row for row in overhand_project.run("agents", "--json").json["agents"]}
    assert rows["worker"]["problem"] is None
    for name, (_, part) in AGENT_FILES.items():
        assert part in rows[name]["problem"], name
        ran = overhand_project.run("delegate", "x", "--agent", name)
        assert (ran.code, part in ran.err, "Traceback" in ran.err) == (2, True, False), name
    for name, (_, part) in NO_AGENTS.items():
        ran = overhand_project.run("delegate", "x", "--agent", name)
        assert (ran.code in (2, 4), part in ran.err, name in rows) == (True, True, False), name
    for name in ("pipe", "folder", "link"):
        assert "not a regular file" in rows[name]["problem"]
        assert overhand_project.run("delegate", "x", "--agent", name).code == 2
    assert overhand_project.run("delegate", "x", "--agent", "worker", "--wait").code == 0


def test_a_folder_that_is_gone(tmp_path: Path, overhand_project: ProjectDir) -> None:
    code = (
        "import os, sys; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone');"
        "from overhand.cli import main; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "list", "--json"],
        cwd=tmp_path, env=overhand_project.environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (4, "")
    assert "is gone" in done.stdout


def test_a_file_where_the_folder_should_be(tmp_path: Path, overhand_project: ProjectDir) -> None:
    place = tmp_path / "odd"
    place.mkdir()
    (place / ".agent-workspaces").write_text("I was here first.\n")
    overhand_project.trust = False
    (place / ".overhand/agents").mkdir(parents=True)
    shutil.copy(overhand_project.path / ".overhand/agents/worker.md", place / ".overhand/agents")
    for words in (["trust", "--yes"], ["init"], ["delegate", "x", "--agent", "worker"], ["list"], []):
        ran = overhand_project.run("--project", str(place), *words)
        assert "Traceback" not in ran.err
        assert ran.code in (0, 3)
    assert (place / ".agent-workspaces").read_text() == "I was here first.\n"


def test_a_refused_delegation_writes_nothing(tmp_path: Path, overhand_project: ProjectDir) -> None:
    place = tmp_path / "cloned"
    (place / ".overhand/agents").mkdir(parents=True)
    shutil.copy(overhand_project.path / ".overhand/agents/worker.md", place / ".overhand/agents")
    overhand_project.trust = False
    records = sorted(overhand_project.state_home.rglob("project.json"))
    for words, code in ((["x", "--agent", "worker"], 3), (["x", "--agent", "wrker"], 4), ([""], 2)):
        ran = overhand_project.run("--project", str(place), "delegate", *words)
        assert ran.code == code, ran.err
    assert sorted(path.relative_to(place).as_posix() for path in place.rglob("*")) == [
        ".overhand",
        ".overhand/agents",
        ".overhand/agents/worker.md",
    ]
    assert sorted(overhand_project.state_home.rglob("project.json")) == records


def test_a_log_full_of_nonsense_does_not_end_in_a_trace(overhand_project: ProjectDir) -> None:
    Store(str(overhand_project.path)).ensure()
    folder = overhand_project.task_record("odd-1")
    folder.mkdir()
    (folder / "log.jsonl").write_text(
        '{"e": "created", "handle": "x", "title": 5, "checks": 3}\n[]\n{]\n{"e": "run.created"}\n'
    )
    for words in (["list"], [], ["show", "odd-1"], ["list", "--json"], ["stop", "odd-1"]):
        ran = overhand_project.run(*words)
        assert "Traceback" not in ran.err + ran.out
        if "--json" in words:
            assert ran.json
