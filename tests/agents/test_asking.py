"""Questions of real agents: answered while they wait, or parked and gone on with in the same native session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.real_agents import FIRST, REST, House, house, returns, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.soak  # real agents

ASK: list[dict[str, Any]] = [
    {"ops": [{"bash": {"command": "\"$OVERHAND\" ask 'Which colour?' --option red --option blue"}}]},
    {"ops": [{"write": {"path": "{project}/told.txt", "content": "{result}"}}]},
    returns(summary="Asked and told."),
    {"text": "Over."},
]


def question(place: House) -> dict[str, Any]:
    return dict(until(lambda: place.show()["questions"], "a question")[0])


@pytest.mark.case("question")
@pytest.mark.parametrize("name", [*FIRST, *REST])
def test_answered_while_it_waits(name: str, tmp_path: Path) -> None:
    with house(name, tmp_path, {"ask": ASK}) as place:
        place.delegate("Ask. script:ask", wait=False)
        assert question(place)["options"] == ["red", "blue"]
        place.run("answer", "1", "blue", check=True)
        done = place.judged()
        assert done["status"] == "completed", place.stream(done["runs"][0])
        assert len(done["runs"]) == 1
        assert "blue" in (place.path / "told.txt").read_text()
        assert place.turns("ask") == [0, 1, 2, 3]
        prompt = place.path / done["run_folder"] / "prompt.md"
        assert '`"$OVERHAND" ask' in prompt.read_text()


@pytest.mark.case("question")
@pytest.mark.parametrize("name", [*FIRST, "opencode", "qwen"])
def test_parked_then_gone_on_with_in_its_own_session(name: str, tmp_path: Path) -> None:
    with house(name, tmp_path, {"ask": ASK}, config='[limits]\nanswer_wait = "1s"\nstop_grace = "2s"\n') as place:
        place.delegate("Ask. script:ask", wait=False)
        until(lambda: place.show()["status"] == "needs-input", "parking")
        parked = place.show()
        assert parked["runs"][0]["cause"] == "answer-timeout"
        assert not place.running(parked["runs"][0]["id"])
        asked = len(place.work())
        place.run("answer", "1", "blue", check=True)
        done = place.judged()
        assert done["status"] == "completed", place.stream(done["runs"][-1])
        assert len(done["runs"]) == 2
        went_on = place.work()[asked:]
        # The same conversation: the new message names no script. Goose forgets the call that was interrupted.
        assert [row["turn"] for row in went_on] == ([0, 1, 2, 3] if name == "goose" else [1, 2, 3])
        assert "blue" in went_on[0]["said"]
        assert "script:" not in went_on[0]["said"]
        first, second = place.sessions()
        assert first == second != ""
