"""Real agents, tried out by `agents test`, found by `delegate`, and told something by `send`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agents.house import FIRST, House, house, returns
from agents.installed import LIMIT

if TYPE_CHECKING:
    from pathlib import Path

SCRIPTS = {
    "ok": [returns(summary="ok"), {"text": "Done."}],
    "stranger": [{"status": 401, "message": "Invalid API key"}],
    "it": [returns(summary="It is blue."), {"text": "Done."}],
    "more": [returns(summary="Now it is green."), {"text": "Done."}],
}


def role(place: House, script: str) -> None:
    """An agent on the same program whose role names the script, as its task cannot."""
    folder = place.path / ".overhand/agents"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mine.md").write_text(f"---\nname: mine\noverhand:\n  driver: {place.name}\n---\nscript:{script}\n")
    place.run("trust", "--yes", check=True)


@pytest.mark.parametrize("name", FIRST)
def test_a_real_agent_is_tried_out(name: str, tmp_path: Path) -> None:
    with house(name, tmp_path, SCRIPTS) as place:
        (row,) = place.run("agents", name, "--json", check=True).json["programs"]
        assert row["version"]
        assert row["logged_in"] is not False
        role(place, "ok")
        ran = place.run("agents", "test", "mine", "--json", timeout=LIMIT)
        assert (ran.code, ran.json["outcome"]) == (0, "works"), ran.json
        role(place, "stranger")
        ran = place.run("agents", "test", "mine", "--json", timeout=LIMIT)
        assert (ran.code, ran.json["outcome"]) == (1, "not logged in"), ran.json
        assert ran.json["next"].startswith("log in: ")


@pytest.mark.parametrize("name", FIRST)
def test_a_real_agent_is_told_something(name: str, tmp_path: Path) -> None:
    with house(name, tmp_path, SCRIPTS) as place:
        assert place.delegate("Which colour? script:it")["summary"] == "It is blue."
        place.run("send", "1", "Paint it. script:more", check=True)
        done = place.judged()
        assert (done["status"], done["summary"]) == ("completed", "Now it is green.")
        assert done["messages"][0]["state"] == "read"
        first, second = place.sessions()
        assert first == second
