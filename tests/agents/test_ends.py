"""How real agents end: by their own last event, whatever the exit code; and what they used, also after a resume."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.real_agents import FIRST, REST, House, house, returns, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.soak  # real agents

OVER = {"text": "Over."}


def problem(done: dict[str, Any], code: str) -> str:
    found = [one["message"] for one in done["problems"] if one["code"] == code]
    assert len(found) == 1, done["problems"]
    return str(found[0])


def failed_once(place: House, script: str) -> dict[str, Any]:
    """Judged failed after one run: an error of the service is nothing that a better return would mend."""
    done = place.delegate(f"Do it. script:{script}")
    assert (done["status"], len(done["runs"])) == ("failed", 1), place.stream(done["runs"][-1])
    return done


@pytest.mark.case("error")
@pytest.mark.parametrize("name", [*FIRST, *REST])
def test_a_key_that_is_refused(name: str, tmp_path: Path) -> None:
    with house(name, tmp_path, {"no": [{"status": 401, "message": "No such key."}]}) as place:
        told = problem(failed_once(place, "no"), "final-event")
        assert "not logged in, or its key is not accepted" in told
        assert "No such key." in told


@pytest.mark.case("error")
@pytest.mark.parametrize("name", FIRST)
def test_an_error_of_the_service_after_some_work(name: str, tmp_path: Path) -> None:
    script = [{"ops": [{"bash": {"command": "echo one > one.txt"}}]}, {"status": 500, "message": "Out of order."}]
    with house(name, tmp_path, {"sick": script}) as place:
        told = problem(failed_once(place, "sick"), "final-event")
        assert "service answered with an error" in told
        assert (place.path / "one.txt").exists()


@pytest.mark.parametrize("name", FIRST)
def test_an_error_after_the_return_is_told(name: str, tmp_path: Path) -> None:
    with house(name, tmp_path, {"late": [returns(), {"status": 500, "message": "Out of order."}]}) as place:
        done = failed_once(place, "late")
        assert done["claimed"] == "completed"
        assert "service answered with an error" in problem(done, "final-event")


@pytest.mark.case("error")
@pytest.mark.parametrize("name", REST)
def test_a_request_that_the_service_does_not_take(name: str, tmp_path: Path) -> None:
    with house(name, tmp_path, {"no": [{"status": 400, "message": "No such thing."}]}) as place:
        told = problem(failed_once(place, "no"), "final-event")
        assert "service answered with an error" in told
        assert "No such thing." in told


@pytest.mark.parametrize("name", ["claude", "opencode"])  # the others say nothing about it
def test_a_model_that_refuses(name: str, tmp_path: Path) -> None:
    with house(name, tmp_path, {"no": [{"text": "I will not do that.", "refuses": True}] * 9}) as place:
        assert "The model refused" in problem(failed_once(place, "no"), "final-event")


@pytest.mark.case("limit")
@pytest.mark.parametrize("name", [*FIRST, "gemini", "opencode"])  # Qwen Code tries again and again, and says nothing
def test_a_limit_of_the_service_pauses_it(name: str, tmp_path: Path) -> None:
    limit: dict[str, Any] = {"status": 429, "message": "Rate limit reached."}
    limit |= {"resets_in": 3600} if name == "gemini" else {}  # a short one it waits for itself
    script = [{"ops": [{"bash": {"command": "echo one > one.txt"}}]}, limit]
    with house(name, tmp_path, {"limit": script}) as place:
        place.delegate("Do it. script:limit", wait=False)
        until(lambda: place.show().get("paused"), "the pause")
        waits = place.show()
        assert (waits["paused"], waits["run_state"], waits["status"]) == (name, "queued", None)
        assert (len(waits["runs"]), waits["headline"]) == (1, "working")
        assert name in waits["reason"]


@pytest.mark.parametrize(
    ("name", "word"), [("claude", "--max-turns"), ("goose", "--max-turns"), ("qwen", "--max-session-turns")]
)
def test_cut_off_after_its_largest_number_of_turns(name: str, word: str, tmp_path: Path) -> None:
    script = [{"ops": [{"bash": {"command": "true"}}]}, {"ops": [{"bash": {"command": "true"}}]}, returns(), OVER]
    with house(name, tmp_path, {"many": script}, config=f'[drivers.{name}]\nargs = ["{word}", "2"]\n') as place:
        assert "largest number of turns" in problem(failed_once(place, "many"), "final-event")


@pytest.mark.parametrize("name", [*FIRST, *REST])
def test_what_was_used_is_right_after_a_resume(name: str, tmp_path: Path) -> None:
    script: list[dict[str, Any]] = [
        {"ops": [{"bash": {"command": "echo one > one.txt"}}], "usage": {"input": 700, "output": 11}},
        {**returns(status="partial", summary="Half."), "usage": {"input": 900, "output": 13}},
        {"text": "Half of it.", "usage": {"input": 1100, "output": 17}},
        {"ops": [{"bash": {"command": "echo two > two.txt"}}], "usage": {"input": 1300, "output": 19}},
        {**returns(summary="Whole."), "usage": {"input": 1700, "output": 23}},
        {"text": "All of it.", "usage": {"input": 1900, "output": 29}},
    ]
    with house(name, tmp_path, {"parts": script}) as place:
        first = place.delegate("Do it. script:parts")
        assert first["status"] == "partial"
        assert (first["usage"]["input"], first["usage"]["output"]) == (2700, 41)
        place.run("resume", "1", "--wait", check=True)
        done = place.show()
        assert (done["status"], place.turns("parts")) == ("completed", [0, 1, 2, 3, 4, 5])
        assert len(set(place.sessions())) == 1
        assert (done["usage"]["input"], done["usage"]["output"]) == place.spent() == (7600, 112)
        if name == "claude":  # its sum of money is the session's
            last = place.stream(done["runs"][-1]).partition('"total_cost_usd":')[2].partition(",")[0]
            assert done["usage"]["usd"] == pytest.approx(float(last))
            assert done["usage"]["usd"] > first["usage"]["usd"] > 0
