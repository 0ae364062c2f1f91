"""`check FILE` and `delegate` read an agent file with the same eyes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overhand.agents import agent_files, find_agent
from overhand.errors import OverhandError, ToolMissing
from overhand.policy import load_config
from overhand.verbs import open_session
from overhand.verbs.check import check

if TYPE_CHECKING:
    from pathlib import Path

    from overhand.verbs import Session

DEFAULTS = {
    "none": "",
    "a driver": 'default_driver = "command"\n',
    "a command": 'default_driver = "command"\n[drivers.command]\ncommand = ["true"]\n',
    "odd": 'default_driver = "command"\n[drivers.command]\ncommand = "true"\nlevel = "any"\nhooks = 3\n',
}


def _silent(_text: str) -> None:
    """Nobody watches."""


class Desk:
    """A project with one agent file in it."""

    def __init__(self, folder: Path, config: str) -> None:
        self.folder = folder.resolve()
        (self.folder / ".overhand/agents").mkdir(parents=True, exist_ok=True)
        (self.folder / ".overhand/config.toml").write_text(config)
        self.file = self.folder / ".overhand/agents/it.md"
        self.session: Session = open_session(
            str(self.folder), "cli", interactive=False, tell=_silent, progress=_silent, confirm=None
        )

    def checked(self, raw: bytes) -> list[str]:
        """The errors that `check` tells."""
        self.file.write_bytes(raw)
        answer = check(self.session, str(self.file))
        assert answer.payload["document"] == "agent"
        found = [one["message"] for one in answer.payload["problems"] if one["level"] == "error"]
        assert bool(found) == bool(answer.code)
        return found

    def delegated(self, raw: bytes) -> list[str]:
        """What `delegate` would refuse it for."""
        self.file.write_bytes(raw)
        root = str(self.folder)
        name = next(iter(agent_files(root)), "it")  # by the name that stands in the file, if it does
        try:
            find_agent(root, name, load_config(root))
        except ToolMissing:
            return []  # nothing is wrong with the file
        except OverhandError as error:
            return [error.message.removeprefix(".overhand/agents/it.md: ")]
        return []


ODD = [
    b"",
    b"no front matter",
    b"\xff\xfe\x00\x00",
    b"---\nname: [\n---\nx",
    b"---\n- a\n---\nx",
    b"---\n1: 2\n---\nx",
    b"---\n---\nx",
    b"---\r\nname: it\r\noverhand: {driver: claude}\r\n---\r\nx",
    b"\xef\xbb\xbf---\nname: it\noverhand: {driver: claude}\n---\nx",
    b"---\nname: it\nsince: 2026-01-01\noverhand: {driver: claude}\n---\n",
    b"---\nname: other\noverhand: {driver: claude}\n---\nx",
    b"---\nname: IT\noverhand: {driver: claude}\n---\nx",
    b"---\noverhand: {driver: a2a}\n---\nx",
    b"---\noverhand: {driver: goose, allow: [x]}\n---\nx",
    b"---\noverhand: {driver: function}\n---\nx",
    b"---\noverhand: {driver: acp, command: [a], mode: 3, deny: x}\n---\nx",
    b"---\ncdp: {input_requirements: [moon phase]}\noverhand: {driver: claude}\n---\nx",
    b"---\na: &a [*a]\noverhand: {driver: claude}\n---\nx",
]


@pytest.mark.parametrize("config", DEFAULTS)
def test_odd_files(tmp_path: Path, config: str) -> None:
    desk = Desk(tmp_path, DEFAULTS[config])
    for raw in ODD:
        found = desk.checked(raw)
        assert desk.delegated(raw) == ([" ".join(found)] if found else []), raw


odd = st.sampled_from([None, 0, 1.5, True, "", "x", "it", "yes", [], ["x"], [1], {}, {"x": 1}, "30s", "read"])
_values: dict[str, st.SearchStrategy[Any]] = {
    "driver": st.sampled_from(["command", "function", "external", "claude", "goose", "acp", "telnet", None, 3]),
    "command": st.sampled_from([["true"], "true x", [], None, ["x", 3]]),
    "function": st.sampled_from(["a:b", "a", None]),
    "start": st.sampled_from([["a"], "a"]),
    "poll": st.sampled_from([["a"], []]),
    "collect": st.sampled_from([["a"], 1]),
    **dict.fromkeys(("level", "control", "hooks", "on_limit", "max_block", "allow", "deny", "every", "mode"), odd),
}
_ours = st.fixed_dictionaries({}, optional=_values)
_files = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["it", "other", "", 3, None]),
        "description": odd,
        "capabilities": odd,
        "cdp": st.one_of(odd, st.fixed_dictionaries({}, optional={"input_requirements": odd, "output_includes": odd})),
        "overhand": st.one_of(_ours, odd),
    },
)


@settings(deadline=None, max_examples=150)
@given(keys=_files, config=st.sampled_from(sorted(DEFAULTS)))
def test_any_file(tmp_path_factory: pytest.TempPathFactory, keys: dict[str, Any], config: str) -> None:
    desk = Desk(tmp_path_factory.getbasetemp() / "agent-files", DEFAULTS[config])
    raw = f"---\n{json.dumps(keys)}\n---\nDo it.\n".encode()  # JSON is YAML
    found = desk.checked(raw)
    assert desk.delegated(raw) == ([" ".join(found)] if found else [])
