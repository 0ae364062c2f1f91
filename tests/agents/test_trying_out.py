"""Real agents, tried out by `agents test`, found by `delegate`, and told something by `send`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from support.installed import LIMIT
from support.real_agents import FIRST, REST, House, house, output, returns, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.soak  # real agents

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


def told(place: House) -> list[dict[str, Any]]:
    """What `agents` says of it; a program that takes too long to say its version on a busy machine is asked again."""
    rows: list[dict[str, Any]] = place.run("agents", place.name, "--json", check=True).json["programs"]
    return rows if rows[0]["version"] or place.name in REST else []


@pytest.mark.parametrize("name", [*FIRST, *REST])
def test_a_real_agent_is_tried_out(name: str, tmp_path: Path) -> None:
    with house(name, tmp_path, SCRIPTS) as place:
        (row,) = until(partial(told, place), "its version")
        assert row["logged_in"] is not False
        role(place, "ok")
        ran = place.run("agents", "test", "mine", "--json", timeout=LIMIT)
        assert (ran.code, ran.json["outcome"]) == (0, "works"), ran.json
        role(place, "stranger")
        ran = place.run("agents", "test", "mine", "--json", timeout=LIMIT)
        assert (ran.code, ran.json["outcome"]) == (1, "not logged in"), ran.json
        assert ran.json["next"].startswith("log in: ")


@pytest.mark.parametrize("name", REST)
def test_its_last_words_may_be_its_return(name: str, tmp_path: Path) -> None:
    script = [{"ops": [{"read": {"path": "{project}/a.txt"}}]}, {"text": output(summary="Read.")}]
    with house(name, tmp_path, {"read": script}) as place:
        (place.path / "a.txt").write_text("what is in it\n")
        done = place.delegate("Read a.txt. script:read", "--read-only")
        assert (done["status"], done["summary"], len(done["runs"])) == ("completed", "Read.", 1), done["problems"]
        assert "what is in it" in place.rows("read")[1]["results"][0]


@pytest.mark.case("message")
@pytest.mark.parametrize("name", [*FIRST, *REST])
def test_a_real_agent_is_told_something(name: str, tmp_path: Path) -> None:
    with house(name, tmp_path, SCRIPTS) as place:
        assert place.delegate("Which colour? script:it")["summary"] == "It is blue."
        place.run("send", "1", "Paint it. script:more", check=True)
        done = place.judged()
        assert (done["status"], done["summary"]) == ("completed", "Now it is green.")
        assert done["messages"][0]["state"] == "read"
        first, second = place.sessions()
        assert first == second


@pytest.mark.parametrize(
    ("name", "session", "told"),
    [
        ("claude", "97d4045c-c945-5a40-a6ca-2d639dcc2999", "No conversation found"),
        ("codex", "01a1e221-29d3-7283-bfe5-43dcbafd4e00", "no rollout found"),
        ("goose", "nobody", "No session found"),
    ],
)
def test_a_session_that_is_not_there_is_told_in_the_programs_own_words(
    name: str, session: str, told: str, tmp_path: Path
) -> None:
    with house(name, tmp_path, SCRIPTS) as place:
        done = place.delegate("Go on. script:it", "--session", f"{name}:{session}")
        errors = [one["message"] for one in done["problems"] if one["code"] == "final-event"]
        assert done["status"] == "failed"
        assert len(errors) == 1
        assert errors[0].startswith("The agent's program broke off (")
        assert told in errors[0]
