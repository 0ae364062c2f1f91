"""`agents` shows what is there and what to do next; `agents test` tries one out; `delegate` finds one by itself."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from overhand.agents import installable
from support import player

if TYPE_CHECKING:
    from pathlib import Path

    from overhand.testing.project import ProjectDir

SYSTEM = "/usr/bin:/bin"
LOGINS = {name: driver.login for name, driver in installable().items() if driver.login}


@pytest.fixture
def desk(overhand_project: ProjectDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProjectDir:
    """A project of a person with a HOME of their own, two programs on PATH, no agent file and no key."""
    for path in (overhand_project.path / ".overhand/agents").glob("*.md"):
        path.unlink()
    for login in LOGINS.values():
        for variable in (*login.variables, login.provider, login.unread):
            monkeypatch.delenv(variable or "NONE", raising=False)
    home = tmp_path / "home"
    home.mkdir()
    for name, value in (("HOME", home), ("XDG_CACHE_HOME", home / "cache"), ("XDG_DATA_HOME", home / "data")):
        monkeypatch.setenv(name, str(value))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{player.put(tmp_path / 'bin', 'claude', 'codex')}:{SYSTEM}")
    return overhand_project


def programs(desk: ProjectDir, *words: str) -> dict[str, Any]:
    return {row["name"]: row for row in desk.run("agents", *words, "--json", check=True).json["programs"]}


def test_every_driver_is_shown_with_version_login_and_what_to_do(desk: ProjectDir, tmp_path: Path) -> None:
    (tmp_path / "home/.codex").mkdir()
    (tmp_path / "home/.codex/auth.json").touch(mode=0o000)  # its presence counts, nobody reads it
    shown = programs(desk)
    assert list(shown) == ["claude", "codex", "gemini", "opencode", "goose", "qwen"]
    assert (shown["claude"]["version"], shown["claude"]["logged_in"]) == ("9.8.7", False)
    assert shown["claude"]["next"] == "log in: claude, then /login"
    assert (shown["codex"]["logged_in"], shown["codex"]["rests_on"]) == (True, "~/.codex/auth.json is there")
    assert shown["codex"]["next"] == "try it: overhand agents test codex"
    assert shown["goose"]["path"] is None
    assert shown["goose"]["next"].startswith("install it: npm install")
    text = desk.run("agents", check=True).out
    assert "not logged in (no key and no login was found)" in text
    assert "Not installed: gemini, opencode, goose, qwen" in text
    assert "npm install" in desk.run("agents", "goose", check=True).out


def test_settings_alone_tell_nothing(desk: ProjectDir, tmp_path: Path) -> None:
    (tmp_path / "home/.codex").mkdir()
    (tmp_path / "home/.codex/config.toml").touch()
    assert programs(desk, "codex")["codex"]["logged_in"] is None


@pytest.mark.parametrize(("name", "variable"), [(n, s.variables[0]) for n, s in LOGINS.items() if s.variables])
def test_a_key_in_the_environment_counts_and_is_never_shown(
    desk: ProjectDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, variable: str
) -> None:
    player.put(tmp_path / "bin", name)
    monkeypatch.setenv(variable, "sesame")
    ran = desk.run("agents", name, "--json", check=True)
    assert ran.json["programs"][0]["logged_in"] is True
    assert "sesame" not in ran.out + desk.run("agents", check=True).out


def test_a_key_that_the_program_does_not_take_is_no_login(desk: ProjectDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sesame")
    codex = programs(desk, "codex")["codex"]
    assert (codex["logged_in"], codex["rests_on"]) == (False, "OPENAI_API_KEY is set, but it does not take that one")
    assert codex["next"] == "log in: printenv OPENAI_API_KEY | codex login --with-api-key"


def test_goose_needs_a_provider_and_its_key(desk: ProjectDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    player.put(tmp_path / "bin", "goose")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sesame")

    def found() -> tuple[object, object]:
        goose = programs(desk, "goose")["goose"]
        return goose["logged_in"], goose["rests_on"]

    assert found() == (False, "no provider was chosen")
    monkeypatch.setenv("GOOSE_PROVIDER", "openai")
    assert found() == (None, "GOOSE_PROVIDER is openai, a key may be elsewhere")
    monkeypatch.setenv("OPENAI_API_KEY", "sesame")
    assert found() == (True, "OPENAI_API_KEY is set")


def test_who_takes_a_task_without_a_name_is_told(desk: ProjectDir, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = desk.run("agents")
    assert "Asking claude, codex for their version …" in ran.err
    assert "delegate takes claude where none is named: it is installed, but no key" in ran.out
    assert "(log in: claude, then /login)" in ran.out
    monkeypatch.setenv("CODEX_API_KEY", "sesame")
    ran = desk.run("agents")
    assert ran.err == "", "the versions are known now"
    assert "delegate takes codex where none is named: it is installed, and CODEX_API_KEY is set" in ran.out
    desk.config('default_agent = "claude"\n')
    assert desk.run("agents", "--json").json["default"] == {"agent": "claude", "why": "the settings say so"}


def test_the_version_is_asked_once_for_each_program(desk: ProjectDir, tmp_path: Path) -> None:
    for _ in range(3):
        assert programs(desk, "claude")["claude"]["version"] == "9.8.7"
    assert [row["words"] for row in player.trail(tmp_path / "bin")] == [["--version"]]
    path = tmp_path / "bin/claude"
    path.write_text(path.read_text().replace("9.8.7", "9.8.10"))  # another version is another file
    assert programs(desk, "claude")["claude"]["version"] == "9.8.10"


def test_a_program_that_does_not_answer_holds_nobody_up(desk: ProjectDir, tmp_path: Path) -> None:
    (tmp_path / "bin/codex").write_text("#!/bin/sh\nsleep 60\n")
    began = time.monotonic()
    shown = programs(desk)
    assert time.monotonic() - began < 20
    assert (shown["claude"]["version"], shown["codex"]["version"]) == ("9.8.7", None)


def test_delegate_takes_what_is_installed_and_logged_in(desk: ProjectDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEX_API_KEY", "sesame")
    ran = desk.run("delegate", "Say something", "--wait", check=True)
    assert "No agent was named; codex is taken: it is installed, and CODEX_API_KEY is set." in ran.err
    monkeypatch.delenv("CODEX_API_KEY")
    ran = desk.run("delegate", "Say something", "--wait", check=True)
    assert "claude is taken: it is installed, but no key and no login was found (log in: claude, then" in ran.err
    desk.config('default_agent = "codex"\n')
    ran = desk.run("delegate", "Say something", "--json", "--no-start", check=True)
    assert (ran.json["agent"], ran.err) == ("codex", "")


def test_the_only_agent_file_comes_before_programs(desk: ProjectDir) -> None:
    desk.agent("worker", "output")
    assert desk.run("delegate", "Say something", "--no-start", "--json", check=True).json["agent"] == "worker"


def test_a_missing_program_is_told_before_a_task_is_made(desk: ProjectDir) -> None:
    ran = desk.run("delegate", "Say something", "--agent", "goose", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (5, "TOOL_UNAVAILABLE")
    assert "npm install" in ran.json["error"]["hint"]
    assert desk.run("list", "--json", check=True).json["tasks"] == []


def test_settings_that_nobody_trusts_choose_no_program(desk: ProjectDir, tmp_path: Path) -> None:
    desk.trust = False
    desk.config('[drivers.claude]\nprogram = "./claude"\n')
    (desk.path / "claude").write_text(f"#!/bin/sh\ntouch {tmp_path}/taken-in\n")
    (desk.path / "claude").chmod(0o755)
    assert desk.run("delegate", "Say something", "--agent", "claude").code == 3
    assert desk.run("delegate", "Say something").code == 3
    assert desk.run("agents", "test", "claude").code == 3
    desk.run("agents", check=True, env={"PATH": f":.:{SYSTEM}"})
    assert not (tmp_path / "taken-in").exists()
    assert desk.run("list", "--json", check=True).json["tasks"] == []


def trial(desk: ProjectDir, name: str) -> tuple[int, dict[str, Any]]:
    ran = desk.run("agents", "test", name, "--json")
    assert ran.err == ""
    return ran.code, ran.json


def test_trying_an_agent_out(desk: ProjectDir, tmp_path: Path) -> None:
    code, told = trial(desk, "claude")
    assert (code, told["outcome"]) == (0, "works")
    assert told["seconds"] > 0
    state = desk.run("show", str(told["handle"]), "--json", check=True).json
    assert (state["level"], state["status"]) == ("read", "completed")
    code, told = trial(desk, "goose")
    assert (code, told["outcome"], told["task_id"]) == (5, "not installed", None)
    (tmp_path / "bin/login").write_text("Invalid API key")
    code, told = trial(desk, "claude")
    assert (code, told["outcome"], told["next"]) == (1, "not logged in", "log in: claude, then /login")
    (tmp_path / "bin/login").unlink()
    (tmp_path / "bin/limit").write_text(f"Claude AI usage limit reached|{int(time.time()) + 3600}")
    code, told = trial(desk, "claude")
    assert (code, told["outcome"]) == (1, "limit reached")
    assert told["message"].startswith("claude is paused until ")
    shown = desk.run("list", "--json", check=True).json["tasks"]
    assert [row["status"] for row in shown][-1] == "cancelled", "nothing of a trial goes on"
    text = desk.run("agents", "test", "codex").out
    assert "codex: " in text


def test_a_command_that_does_not_work_says_why(desk: ProjectDir) -> None:
    desk.agent("lazy", "print:hello", "exit:3")
    code, told = trial(desk, "lazy")
    assert (code, told["outcome"]) == (1, "does not work")
    assert "exit code 3" in told["message"]


def test_bad_words(desk: ProjectDir) -> None:
    for words in (["test"], ["test", "a", "b"]):
        assert desk.run("agents", *words).code == 2, words
    assert desk.run("agents", "claude", "codex").code == 1, "no agent has both words"
    assert desk.run("agents", "nobody").code == 4
    assert desk.run("agents", "test", "nobody").code == 4
    assert "driver: claude" in desk.run("agents", "claude", "--example", check=True).out


def test_a_broken_cache_is_no_hindrance(desk: ProjectDir, tmp_path: Path) -> None:
    cache = tmp_path / "home/cache/overhand/versions.json"
    cache.parent.mkdir(parents=True)
    cache.write_text("{")
    assert programs(desk, "claude")["claude"]["version"] == "9.8.7"
    assert "9.8.7" in json.loads(cache.read_text()).values()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("delegate", "Say something", "--agent", "cluade"), "Did you mean claude?"),
        (("agents", "claud"), "Did you mean claude?"),
        (("agents", "test", "claude", "twice"), "one word too many: 'twice'"),
        (("delegate", "Say something", "--agent", "acp"), "overhand agents acp --example"),
        (("delegate", "Say something", "--level", "everything"), "read, work, full"),
        (("delegate", "Say something", "--level", "full", "--read-only"), "contradict each other"),
    ],
)
def test_what_was_mistyped_is_told(desk: ProjectDir, words: tuple[str, ...], told: str) -> None:
    ran = desk.run(*words)
    assert ran.code in (2, 4)
    assert told in ran.err
    assert desk.run("list", "--json", check=True).json["tasks"] == []


def test_an_example_for_whatever_speaks_acp(desk: ProjectDir) -> None:
    shown = desk.run("agents", "acp", "--example", check=True).out
    assert "  driver: acp\n" in shown
    path = desk.path / ".overhand/agents/acp.md"
    path.write_text(shown)
    assert desk.run("agents", "acp", "--json").json["agents"][0]["problem"] is None


@pytest.mark.parametrize(("level", "may"), [("read", "may read"), ("work", "may edit"), ("full", "whatever it wants")])
def test_the_level_is_chosen_and_told(desk: ProjectDir, level: str, may: str) -> None:
    shown = desk.run("delegate", "Say something", "--agent", "claude", "--level", level, "--no-start", "--json").json
    assert shown["level"] == level
    assert may in shown["may"]
