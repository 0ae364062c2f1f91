"""`connect` changes one entry of a client's configuration and takes it back exactly."""

from __future__ import annotations

import json
import os
import stat
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from overhand.documents.agentfile import load_yaml
from overhand.verbs.connect import clients
from support.warm import make_project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from overhand.testing.project import ProjectDir, Ran

FILES = {
    "claude": ".claude.json",
    "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json",
    "opencode": ".config/opencode/opencode.json",
}
HERE = {
    "claude": ".mcp.json",
    "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json",
    "opencode": "opencode.json",
}
# as a person may have laid it out: none of it may change
OTHERS = {
    "claude": '{"numStartups": 7,  "mcpServers": {"x": {"command": "x"}}}',
    "codex": 'model = "gpt"  # mine\n\n[mcp_servers.x]\ncommand = "x"\n\n\n',
    "gemini": '{\n\t"theme": "dark"\n}',
    "opencode": '{"$schema": "https://opencode.ai/config.json", "mcp": {}}\n\n',
}


class House:
    """A project, and a HOME of its own."""

    def __init__(self, project: ProjectDir, home: Path) -> None:
        self.project, self.home = project, home

    def connect(self, *words: str, code: int = 0) -> Ran:
        env = {"HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home / ".config")}
        ran = self.project.run("connect", *words, env={**env, "CLAUDE_CONFIG_DIR": "", "CODEX_HOME": ""})
        assert ran.code == code, ran.err
        return ran

    def put(self, client: str, text: str) -> Path:
        path = self.home / FILES[client]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o600)
        return path


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    (tmp_path / "home").mkdir()
    project = make_project(tmp_path / "p", trust=False)
    try:
        yield House(project, tmp_path / "home")
    finally:
        project.cleanup()


def read(path: Path) -> dict[str, Any]:
    text = path.read_text()
    return tomllib.loads(text) if path.suffix == ".toml" else dict(json.loads(text))


def servers(path: Path) -> dict[str, Any]:
    found = read(path)
    return dict(found.get("mcpServers") or found.get("mcp_servers") or found.get("mcp") or {})


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("client", clients())
def test_printed_and_nothing_else(house: House, client: str) -> None:
    shown = house.connect(client, "--json").json
    assert shown["did"] == "print"
    assert shown["path"] == str(house.home / FILES[client])
    assert "overhand" in shown["entry"]
    assert shown["path"] in house.connect(client).out
    assert everything(house.home) == []


@pytest.mark.parametrize("client", clients())
def test_written_once_and_taken_back_exactly(house: House, client: str) -> None:
    path = house.put(client, OTHERS[client])
    before = read(path)
    house.connect(client, "--write")
    added = servers(path)["overhand"]
    assert "mcp" in (added.get("args") or added["command"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    changed = path.read_bytes()
    assert house.connect(client, "--write", "--json").json["did"] == "nothing"
    assert path.read_bytes() == changed
    kept = {key: value for key, value in read(path).items() if not key.startswith("mcp")}
    assert kept == {key: value for key, value in before.items() if not key.startswith("mcp")}
    house.connect(client, "--remove")
    assert path.read_text() == OTHERS[client]
    assert everything(house.home) == [FILES[client]]
    assert house.connect(client, "--remove", "--json").json["did"] == "nothing"


@pytest.mark.parametrize("client", clients())
def test_what_the_client_changes_meanwhile_stays(house: House, client: str) -> None:
    path = house.put(client, OTHERS[client])
    house.connect(client, "--write")
    if client == "codex":
        path.write_text(path.read_text() + '\n[later]\nx = "y"\n')
    else:
        path.write_text(json.dumps({**read(path), "later": {"x": "y"}}))
    house.connect(client, "--remove")
    assert read(path)["later"] == {"x": "y"}
    assert "overhand" not in servers(path)
    assert ("x" in servers(path)) == (client in ("claude", "codex"))
    assert everything(house.home) == [FILES[client]]


@pytest.mark.parametrize("client", clients())
def test_a_file_that_was_not_there_is_gone_again(house: House, client: str) -> None:
    house.connect(client, "--write")
    assert list(servers(house.home / FILES[client])) == ["overhand"]
    house.connect(client, "--remove")
    assert everything(house.home) == []


@pytest.mark.parametrize("client", clients())
def test_in_the_project(house: House, client: str) -> None:
    house.connect(client, "--here", "--write")
    assert "overhand" in servers(house.project.path / HERE[client])
    house.connect(client, "--here", "--remove")
    assert not (house.project.path / HERE[client]).exists()
    assert everything(house.home) == []


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("claude", '{\n  // it reads no comments\n  "theme": "dark"\n}'),
        ("gemini", '{\n  "theme": "dark",\n  "broken": \n}'),
        ("opencode", '{"mcp": "none"}'),
        ("claude", "[]"),
        ("claude", '{"mcpServers": []}'),
        ("codex", "model = \n"),
        ("codex", 'mcp_servers = {x = {command = "x"}}\n'),
        ("codex", '[mcp_servers.overhand]\ncommand = "mine"\n'),
    ],
)
def test_what_cannot_be_edited_safely_is_left_alone(house: House, client: str, text: str) -> None:
    path = house.put(client, text)
    house.connect(client, "--write", code=3)
    assert path.read_text() == text
    assert everything(house.home) == [FILES[client]]


@pytest.mark.parametrize(("client", "key"), [("gemini", "mcpServers"), ("opencode", "mcp")])
def test_comments_and_layout_stay_as_they_are(house: House, client: str, key: str) -> None:
    text = f'// mine\n{{\n\t"theme": "dark", // at night\n\t"{key}": {{\n\t\t"x": {{}}, /* that */\n\t}},\n}}\n'
    path = house.put(client, text)
    house.connect(client, "--write")
    changed = path.read_text()
    assert changed.startswith(text.partition("\n\t}")[0])
    assert '\n\t\t"overhand": {\n\t\t\t"' in changed
    path.write_text(changed.replace("dark", "light"))  # so that what was kept aside is of no use
    house.connect(client, "--remove")
    assert path.read_text() == text.replace("dark", "light")


def test_the_file_with_comments_is_opencodes_if_it_has_that(house: House) -> None:
    path = house.home / ".config/opencode/opencode.jsonc"
    path.parent.mkdir(parents=True)
    path.write_text('{\n  // mine\n  "theme": "x"\n}\n')
    assert house.connect("opencode", "--write", "--json").json["path"] == str(path)
    house.connect("opencode", "--remove")
    assert path.read_text() == '{\n  // mine\n  "theme": "x"\n}\n'


@pytest.mark.parametrize("client", clients())
def test_what_is_no_text_is_left_alone(house: House, client: str) -> None:
    path = house.put(client, "")
    path.write_bytes(b'{"a": "\xff"}')
    for what in ("--write", "--remove"):
        told = house.connect(client, what, code=3).err
        assert f"{path} cannot be changed" in told
        assert "UTF-8" in told
    assert path.read_bytes() == b'{"a": "\xff"}'
    path.unlink()
    path.mkdir()
    assert "is no file" in house.connect(client, "--write", code=3).err
    assert list(path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_told(house: House) -> None:
    (house.home / ".codex").write_text("not a folder")
    ran = house.connect("codex", "--write", code=3)
    assert str(house.home / ".codex") in ran.err
    assert "Traceback" not in ran.err


def test_a_link_stays_a_link(house: House, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text("{}")
    (house.home / ".claude.json").symlink_to(real)
    house.connect("claude", "--write")
    assert (house.home / ".claude.json").is_symlink()
    assert "overhand" in servers(real)


def test_the_plugin_is_written_and_taken_back(house: House, tmp_path: Path) -> None:
    folder = tmp_path / "plugin"
    house.connect("claude", "--plugin", str(folder))
    house.connect("claude", "--plugin", str(folder))
    files = [".claude-plugin/plugin.json", ".mcp.json", "README.md", "commands/dispatch.md", "skills/overhand/SKILL.md"]
    assert everything(folder) == files
    manifest = read(folder / ".claude-plugin/plugin.json")
    assert manifest["name"] == "overhand"
    skill = (folder / "skills/overhand/SKILL.md").read_text()
    front = load_yaml(skill.split("---")[1])
    assert isinstance(front, dict)
    assert front["name"] == "overhand"
    assert 0 < len(front["description"]) <= 1024
    house.connect("claude", "--plugin", str(folder), "--remove")
    assert not folder.exists() or everything(folder) == []
    house.connect("codex", "--plugin", str(folder), code=2)


def test_a_folder_of_somebody_else_is_left_alone(house: House, tmp_path: Path) -> None:
    folder = tmp_path / "plugin"
    (folder / "commands").mkdir(parents=True)
    (folder / "commands/dispatch.md").write_text("mine")
    house.connect("claude", "--plugin", str(folder), code=3)
    assert everything(folder) == ["commands/dispatch.md"]


def test_a_run_connects_nothing(house: House) -> None:
    import sys

    command = [sys.executable, "-m", "overhand", "connect", "claude", "--write"]
    house.project.trust = True
    house.project.agent("sly", command=command)
    shown = house.project.run(
        "delegate", "Try", "--agent", "sly", "--wait", "--json", env={"HOME": str(house.home)}
    ).json
    assert "for a person" in (house.project.path / shown["run_folder"] / "stderr").read_text()
    assert not os.path.exists(house.home / ".claude.json")
