"""A fresh clone runs nothing until a person has trusted exactly these bytes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from overhand import Project
from overhand.agents import find_driver, program_files
from overhand.errors import NotTrusted
from overhand.record import LOG_FILE
from overhand.system import is_held
from support.scene import until
from support.terminal import at_a_terminal
from support.warm import make_project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.testing.project import ProjectDir

AGENT = '---\nname: {name}\noverhand: {{driver: command, command: ["sh", "-c", "touch PWNED"]}}\n---\nEvil.\n'
CONFIG = """\
default_agent = "helper"
default_driver = "command"
[drivers.command]
command = ["sh", "-c", "touch PWNED"]
[checks]
evil = "touch PWNED"
"""
RUN = "sess_1700000000_abcdef"


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProjectDir]:
    """Somebody else's repository: agents, settings, checks, and tasks that were never made here."""
    project = make_project(tmp_path / "clone", {}, config=CONFIG, trust=False)
    for folder, name in ((".overhand/agents", "helper"), (".claude/agents", "plain")):
        (project.path / folder).mkdir(parents=True, exist_ok=True)
        (project.path / folder / f"{name}.md").write_text(AGENT.format(name=name))
    (project.path / ".overhand/local.toml").write_text('[checks]\nmore = "touch PWNED"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(project.config_home))
    try:
        yield project
    finally:
        project.cleanup()


def plant(project: ProjectDir, *events: dict[str, Any]) -> str:
    """A task's folder as a repository may bring it along."""
    folder = project.path / ".agent-workspaces/helper-20260101-000000"
    (folder / "runs" / RUN).mkdir(parents=True)
    (folder / "HANDOFF.md").write_text("# Task Handoff\n\n## Task\nBe evil\n")
    created = {
        "e": "created", "v": 1, "handle": 1, "title": "Be evil", "agent": "helper", "depth": 1, "level": "full",
        "path": ["user", "helper"], "timeout": 60.0, "checks": [{"name": "evil", "command": "touch PWNED"}],
    }  # fmt: skip
    stamp = {"t": "2026-01-01T00:00:00.000Z", "by": {"kind": "person"}}
    lines = [json.dumps({**event, **stamp}) + "\n" for event in (created, *events)]
    (folder / "log.jsonl").write_text("".join(lines))
    return folder.name


ENDED = (
    {"e": "accepted"},
    {"e": "run.created", "run": RUN, "agent": "helper", "driver": "command", "timeout": 60.0},
    {"e": "run.ended", "run": RUN, "cause": "exit", "exit": 0},
)
JUDGED = {"e": "judged", "run": RUN, "status": "failed", "summary": "x"}

VERBS = [
    ["delegate", "x", "--wait"], ["delegate", "x", "--agent", "plain", "--wait"], ["delegate", "x", "--no-start"],
    ["agents"], ["list"], ["status"], ["list", "--live"], ["init"], ["clean", "--yes"], ["trust"],
]  # fmt: skip


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_no_verb_runs_anything(clone: ProjectDir, words: list[str]) -> None:
    ran = clone.run(*words)
    assert not (clone.path / "PWNED").exists()
    assert "Traceback" not in ran.err
    if words[0] in ("delegate", "trust"):
        assert ran.code == 3
        assert ".overhand/config.toml" in ran.err
        assert "overhand trust" in ran.err
        assert clone.run("list", "--json").json["tasks"] == []
    if words[0] == "agents":
        assert "not trusted yet" in ran.out


@pytest.mark.parametrize("events", [({"e": "accepted"},), ENDED, (*ENDED, JUDGED)], ids=["queued", "ended", "judged"])
def test_tasks_that_came_with_the_files_are_only_documents(
    clone: ProjectDir, events: tuple[dict[str, Any], ...]
) -> None:
    """Whatever they say of themselves: nothing of it is run, judged, followed or written, and the list names them."""
    task = plant(clone, *events)
    agents = clone.config_home / "overhand/agents"  # an agent of the user's own needs no trust in the project
    agents.mkdir(parents=True)
    for path in (
        ".overhand/agents/helper.md",
        ".claude/agents/plain.md",
        ".overhand/config.toml",
        ".overhand/local.toml",
    ):
        (clone.path / path).unlink()
    (agents / "helper.md").write_text(AGENT.format(name="helper"))
    brought = contents(clone.path)
    assert clone.run("show", "1").code == 4, "its number came along, too"
    refused = ["check"], ["resume"], ["answer", "x"], ["send", "x"], ["step", "1", "done"], ["checkpoint"]
    for verb, *words in (["list"], ["status"], ["show"], ["log"], ["wait"], ["stop"], ["clean", "--yes"], *refused):
        named = [] if verb in ("list", "status", "clean") else [task]
        ran = clone.run(verb, *named, *words)
        assert "Traceback" not in ran.err
        assert [verb] not in refused or ran.code in (1, 2, 3), (verb, ran.err)
        assert not (clone.path / "PWNED").exists(), verb
    assert contents(clone.path) == brought, "nothing was written"
    assert clone.run("list", "--json").json["tasks"] == []
    assert "1 prepared folder: overhand list --prepared" in clone.run("status").out
    (row,) = clone.run("list", "--prepared", "--json").json["tasks"]
    assert (row["task_id"], row["handle"], row["status"], row["runs"]) == (task, None, None, 0)
    shown = clone.run("show", task, "--json").json
    assert (shown["status"], shown["record"], shown["checks"], shown["wanted_checks"]) == (None, None, [], [])


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_a_person_starts_takes_only_the_handoff_over(clone: ProjectDir) -> None:
    """Its log, its checks and its level stay where they were: the record begins with what the person said."""
    task = plant(clone, {"e": "accepted"})
    refused = clone.run("run", task, "--json")
    assert (refused.code, refused.json["error"]["code"]) == (3, "NOT_TRUSTED")
    for name in ("config.toml", "local.toml"):
        (clone.path / ".overhand" / name).unlink()
    clone.agent("helper", "output")
    clone.run("trust", "--yes", check=True)
    ran = clone.run("run", task, "--wait", "--json")
    assert (ran.code, ran.json["status"], ran.json["handle"]) == (0, "completed", 1)
    assert not (clone.path / "PWNED").exists()
    shown = clone.run("show", task, "--json").json
    assert (shown["level"], shown["wanted_checks"], len(shown["runs"])) == ("work", [], 1)
    assert clone.run("list", "--prepared", "--json").json["tasks"] == []


def test_a_function_of_ones_own_does_not_run_the_projects_checks(clone: ProjectDir) -> None:
    with Project(clone.path) as project:
        project.agent("mine")(lambda _: "Done.")
        with pytest.raises(NotTrusted):
            project.delegate("x", agent="mine")
    assert not (clone.path / "PWNED").exists()


def test_json_names_what_would_be_trusted(clone: ProjectDir) -> None:
    error = clone.run("delegate", "x", "--json").json["error"]
    assert error["code"] == "NOT_TRUSTED"
    assert {".overhand/config.toml", ".overhand/local.toml", ".overhand/agents/helper.md"} == set(error["files"])


def test_trust_shows_every_command(clone: ProjectDir) -> None:
    out = clone.run("trust", "--yes", check=True).out
    for line in (
        "checks.evil: touch PWNED",
        "checks.more: touch PWNED",
        "drivers.command.command: ['sh', ",
        "driver: command",
    ):
        assert line in out
    assert "default_agent: helper" in out


def test_trust_is_bound_to_the_content(overhand_project: ProjectDir) -> None:
    overhand_project.run("delegate", "x", "--wait", check=True)
    overhand_project.trust = False
    path = overhand_project.agent("worker", "touch:other", "output")
    assert overhand_project.run("delegate", "x").code == 3
    overhand_project.run("trust", "--yes", check=True)
    assert overhand_project.run("delegate", "x", "--wait").code == 0
    overhand_project.config("[checks]\na = 'true'\n")
    assert overhand_project.run("delegate", "x").code == 3
    assert overhand_project.run("run", "1").code == 3
    text = path.read_text()
    path.unlink()
    (overhand_project.path / "moved.md").write_text(text)
    path.symlink_to(overhand_project.path / "moved.md")
    ran = overhand_project.run("trust", "--yes", "--json")
    assert (ran.code, ran.json["refused"]) == (3, [".overhand/agents/worker.md"])
    assert overhand_project.run("delegate", "x").code == 2, "a link is not even read"


def test_a_waiting_task_is_asked_again_when_its_agent_changes(overhand_project: ProjectDir) -> None:
    overhand_project.run("delegate", "x", "--no-start", check=True)
    overhand_project.agent("worker", "touch:PWNED", "output")
    overhand_project.trust = False
    ran = overhand_project.run("run", "1", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (3, "NOT_TRUSTED")
    assert not (overhand_project.path / "PWNED").exists()


def test_init_trusts_only_what_it_wrote(tmp_path: Path, overhand_project: ProjectDir) -> None:
    fresh = tmp_path / "fresh"
    (fresh / ".overhand/agents").mkdir(parents=True)
    (fresh / "Makefile").write_text("test:\n\ttrue\n")
    (fresh / ".overhand/agents/helper.md").write_text(AGENT.format(name="helper"))
    overhand_project.trust = False
    made = overhand_project.run("--project", str(fresh), "init", "--json").json
    ours = [".agent-workspaces/.gitignore", ".agent-workspaces/.project"]
    assert made["wrote"] == [".overhand/config.toml", ".overhand/.gitignore", *ours]
    assert '# tests = "make test"' in (fresh / ".overhand/config.toml").read_text(), "proposed, not switched on"
    files = {str(path.relative_to(fresh)) for path in fresh.rglob("*") if path.is_file()}
    assert files == {*made["wrote"], "Makefile", ".overhand/agents/helper.md"}
    error = overhand_project.run("--project", str(fresh), "delegate", "x", "--json").json["error"]
    assert error["files"] == [".overhand/agents/helper.md"]
    assert overhand_project.run("--project", str(fresh), "init", "--json").json["wrote"] == []


def test_trust_is_kept_in_the_users_own_folder(overhand_project: ProjectDir) -> None:
    overhand_project.run("trust", "--yes", check=True)
    folder = overhand_project.config_home / "overhand"
    assert (folder / "trust.json").stat().st_mode & 0o077 == 0
    (folder / "trust.json").write_text("{]")
    overhand_project.trust = False
    ran = overhand_project.run("delegate", "x", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (3, "STORAGE_FAILED")


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 3), ("", 3)])
def test_on_a_terminal_the_question_is_asked_where_it_arises(
    overhand_project: ProjectDir, answer: str, code: int
) -> None:
    overhand_project.trust = False
    overhand_project.agent("worker", "touch:RAN", "output")
    got, screen = at_a_terminal(overhand_project, "delegate", "Do it", "--wait", answer=answer)
    assert (got, (overhand_project.path / "RAN").exists()) == (code, code == 0), screen
    assert ".overhand/agents/worker.md" in screen
    assert "Traceback" not in screen


def test_show_on_a_terminal_marks_a_result_as_seen(overhand_project: ProjectDir) -> None:
    overhand_project.run("delegate", "Do it", "--wait", check=True)
    shown = overhand_project.run("show", "1", "--json").json
    assert shown["headline"] == "ready"
    judged = Path(shown["record"], LOG_FILE)
    until(lambda: not is_held(str(judged)), "the verdict on the disk: `show` does not wait for a busy task")
    code, screen = at_a_terminal(overhand_project, "show", "1")
    assert (code, "UNVERIFIED" in screen) == (0, True)
    assert overhand_project.run("show", "1", "--json").json["headline"] == "done"


@pytest.mark.parametrize(
    ("driver", "name"),
    [
        ("claude", ".claude/settings.json"),
        ("codex", ".codex/config.toml"),
        ("gemini", ".gemini/settings.json"),
        ("opencode", ".opencode/plugin/evil.js"),
        ("qwen", ".qwen/settings.json"),
    ],
)
def test_what_an_agents_own_program_would_run(tmp_path: Path, driver: str, name: str) -> None:
    """Hooks of a clone: the program would run them without asking."""
    project = make_project(tmp_path / "clone", {})
    try:
        refused = project.run("delegate", "x", "--agent", driver, "--no-start", "--json")
        assert refused.json.get("error", {}).get("code") in (None, "TOOL_UNAVAILABLE")
        (project.path / name).parent.mkdir(parents=True, exist_ok=True)
        (project.path / name).write_text("{}")
        refused = project.run("delegate", "x", "--agent", driver, "--no-start", "--json")
        error = refused.json["error"]
        assert (error["code"], error["files"], refused.code) == ("NOT_TRUSTED", [name], 3)
        assert name in project.run("trust", "--yes", "--json", check=True).out
        trusted = project.run("delegate", "x", "--agent", driver, "--no-start", "--json")
        assert trusted.json.get("error", {}).get("code") in (None, "TOOL_UNAVAILABLE")
    finally:
        project.cleanup()


def test_settings_of_ones_own_need_no_trust(tmp_path: Path) -> None:
    project = make_project(tmp_path / "clone", {})
    try:
        own = project.path / ".claude/settings.local.json"
        own.parent.mkdir()
        own.write_text("{}")
        assert program_files(str(project.path), find_driver("claude")) == [".claude/settings.local.json"]
        subprocess.run(["git", "init", "-q", str(project.path)], check=True)
        assert program_files(str(project.path), find_driver("claude")) == []
        subprocess.run(["git", "-C", str(project.path), "add", "-f", str(own)], check=True)
        assert program_files(str(project.path), find_driver("claude")) == [".claude/settings.local.json"]
    finally:
        project.cleanup()
