"""Agent files as people publish them, in the folder of another program: each trait of docs/guide/agent-files.md."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from overhand.agents import Agent, Job, agent_files, find_agent, find_driver, load_agent, runnable_files
from overhand.agents.driver import Driver
from overhand.agents.files import every_agent_file
from overhand.documents import parse_agent_file
from overhand.errors import AgentNotFound, BadInput, ToolMissing
from overhand.policy import Config
from overhand.verbs import open_session
from overhand.verbs.check import check
from support import player

if TYPE_CHECKING:
    from overhand.testing.project import ProjectDir

WILD = Path(__file__).parent / "wild"
WANTED: dict[str, dict[str, Any] | None] = json.loads((WILD / "expected.json").read_text(encoding="utf-8"))
AGENTS = {path: want for path, want in WANTED.items() if want and "name" in want}
OTHERS = [path for path, want in WANTED.items() if want is None]
PAGE = Path(__file__).parents[2] / "docs/guide/agent-files.md"
FOLDER = ".claude/agents"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = tmp_path_factory.mktemp("wild").resolve()
    shutil.copytree(WILD / "agents", found / FOLDER)
    return str(found)


def load(root: str, path: str) -> Agent:
    return load_agent(root, f"{root}/{FOLDER}/{path}", Config())


def launched(agent: Agent, driver: Driver, folder: Path) -> list[str]:
    """The words of its program's command line."""
    program = {"program": str(player.put(folder / "bin", agent.driver) / agent.driver)}
    model = str(agent.options.get("model", ""))
    told = Agent(agent.name, agent.driver, options={**agent.options, **program})
    job = Job("", str(folder), "", "", str(folder), run="sess_1_a", desk=str(folder), model=model)
    return list(driver.launch(told, job).argv)


def test_the_corpus_is_the_table_of_the_guide() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[3])]
    there = {path.relative_to(WILD / "agents").as_posix() for path in (WILD / "agents").rglob("*") if path.is_file()}
    assert sorted(named) == sorted(WANTED), "each file is the example of one row"
    assert there == set(WANTED)
    assert len(there) >= 60


@pytest.mark.parametrize("path", sorted(AGENTS))
def test_each_is_an_agent(root: str, path: str, tmp_path: Path) -> None:
    want = AGENTS[path]
    assert agent_files(root)[want["name"]] == f"{root}/{FOLDER}/{path}"
    agent = load(root, path)
    assert (agent.name, agent.driver) == (want["name"], want.get("driver", "claude"))
    assert agent.description.startswith(want.get("description", ""))
    assert agent.options.get("model", "") == want.get("model", "")
    told = "\n".join(agent.warnings)
    assert (want["warning"] in told) if want.get("warning") else not told
    argv = launched(agent, find_driver(agent.driver), tmp_path)
    model = argv[argv.index("--model") + 1] if "--model" in argv else argv[argv.index("-m") + 1] if "-m" in argv else ""
    assert model == want.get("model", "")
    tools = argv[argv.index("--tools") + 1].split(",") if "--tools" in argv else []
    assert tools == want.get("tools", [])


@pytest.mark.parametrize("path", sorted(AGENTS))
def test_check_has_no_error_to_tell(root: str, path: str) -> None:
    session = open_session(root, "cli", interactive=False, tell=print, progress=print, confirm=None)
    reply = check(session, f"{root}/{FOLDER}/{path}")
    assert (reply.code, reply.payload["document"], reply.payload["errors"]) == (0, "agent", 0)
    codes = {one["code"] for one in reply.payload["problems"]} - {"agent-field", "agent-name", "broken-utf8"}
    assert codes == ({AGENTS[path]["check"]} if "check" in AGENTS[path] else set())


def test_keys_of_other_tools_are_kept() -> None:
    found, _ = parse_agent_file((WILD / "agents/other-keys.md").read_text(encoding="utf-8"))
    assert found is not None
    assert list(found.fields) == ["name", "description", *(AGENTS["other-keys.md"] or {})["keys"]]


@pytest.mark.parametrize("path", OTHERS)
def test_what_is_no_agent_is_no_problem(root: str, path: str) -> None:
    assert f"{root}/{FOLDER}/{path}" not in dict(every_agent_file(root)).values()
    assert f"{FOLDER}/{path}" not in runnable_files(root)


def test_one_that_was_meant_as_an_agent_says_what_is_missing(root: str) -> None:
    with pytest.raises(BadInput, match="no front matter"):
        find_agent(root, "unclosed", Config())
    with pytest.raises(AgentNotFound, match=r"another-name.md describes harbour-pilot"):
        find_agent(root, "another-name", Config())


def test_of_two_files_with_one_name_the_first_counts(root: str) -> None:
    both = [path for name, path in every_agent_file(root) if name == "beacon"]
    assert both == [f"{root}/{FOLDER}/{group}/beacon.md" for group in ("01-coast", "02-open sea")]
    assert agent_files(root)["beacon"] == both[0]


@pytest.mark.parametrize("driver", ["claude", "codex", "gemini", "opencode"])
def test_a_file_runs_on_the_program_whose_folder_it_is_in(tmp_path: Path, driver: str) -> None:
    folder = tmp_path / f".{driver}/agents"
    folder.mkdir(parents=True)
    (folder / "it.md").write_text("---\nname: it\ndescription: Does it.\n---\nDo it.\n")
    assert find_agent(str(tmp_path), "it", Config(default_driver="command")).driver == driver


def test_elsewhere_it_runs_on_the_default_or_on_what_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ".overhand/agents"
    folder.mkdir(parents=True)
    (folder / "it.md").write_text("---\nname: it\ndescription: Does it.\n---\nDo it.\n")
    monkeypatch.setenv("PATH", str(player.put(tmp_path / "bin", "codex")))
    assert find_agent(str(tmp_path), "it", Config(default_driver="goose")).driver == "goose"
    assert find_agent(str(tmp_path), "it", Config()).driver == "codex"
    (tmp_path / "bin/codex").unlink()
    with pytest.raises(ToolMissing, match="No coding agent is installed that could run it"):
        find_agent(str(tmp_path), "it", Config())


def test_words_of_another_program_are_not_passed_on(tmp_path: Path) -> None:
    folder = tmp_path / ".codex/agents"
    folder.mkdir(parents=True)
    (folder / "it.md").write_text("---\nname: it\nmodel: sonnet\ntools: Read\n---\nDo it.\n")
    agent = find_agent(str(tmp_path), "it", Config())
    assert agent.warnings == (
        "model: 'sonnet' is no model of codex, which takes its own.",
        "codex cannot be limited to the tools that the file names.",
    )
    assert "sonnet" not in launched(agent, find_driver("codex"), tmp_path)


def collection(folder: Path, count: int) -> None:
    """Many agents in groups, as collections have them."""
    for number in range(count):
        path = folder / f".claude/agents/group-{number % 8}/agent-{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        about = f"Looks after lighthouse {number}: and its lamp"
        path.write_text(f"---\nname: keeper-{number}\ndescription: {about}\nmodel: sonnet\n---\nKeep it.\n")
    (folder / ".claude/agents/README.md").write_text("# Keepers\n")


def test_four_hundred_agents(overhand_project: ProjectDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collection(overhand_project.path, 400)
    overhand_project.trust = False
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    text = overhand_project.run("agents", check=True).out
    assert "\n.claude/agents/group-3  50\n" in text
    assert re.search(r"^401 agents\. Find some: overhand agents WORD", text, re.MULTILINE)
    assert len(text.splitlines()) < 120
    assert text.count("claude is not installed") == 1
    assert "and 400 of these agents need it: npm install" in text
    assert "400 are not trusted yet: overhand trust" in text
    assert "README" not in text
    text = overhand_project.run("agents", "lighthouse", "39", check=True).out
    assert text.splitlines()[-1] == "14 agents with lighthouse and 39 in the name, the description or the path."
    assert "keeper-39 " in text
    assert "keeper-40 " not in text
    found = overhand_project.run("agents", "GROUP-7", "--json", check=True).json
    assert (len(found["agents"]), found["words"]) == (50, ["GROUP-7"])
    assert overhand_project.run("agents", "keeper", "submarine").code == 1
    assert "Did you mean keeper-" in overhand_project.run("agents", "keepr-7").err
    one = overhand_project.run("agents", "keeper-7", check=True).out
    assert ".claude/agents/group-7/agent-7.md" in one
    assert "keeper" not in overhand_project.run("doctor").out.replace(".claude/agents", "")
