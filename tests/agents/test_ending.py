"""Ending real agents: stopped, out of time, killed with -9, their supervisor killed; and going on afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from overhand.testing import processes
from support.installed import SESSIONS, holds
from support.real_agents import FIRST, LIMIT, REST, House, house, kill, returns, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.soak  # real agents

PATIENT = {"yield_time_ms": 30000}  # else Codex leaves a command behind after ten seconds and goes on
ONCE = "test -e begun || { touch begun; while sleep 0.5; do :; done; }"
SLOW: list[dict[str, Any]] = [
    {"text": "I begin.", "ops": [{"bash": {"command": ONCE, "extra": PATIENT}}]},
    {"ops": [{"bash": {"command": "echo two > two.txt"}}]},
    returns(summary="Gone on with."),
    {"text": "Over."},
]
QUICK = '[limits]\nstop_grace = "2s"\n'


def begun(place: House) -> str:
    """Delegate, and wait until the agent's tool is at work and its session has the call: the run."""
    place.delegate("Do it. script:slow", wait=False)
    until((place.path / "begun").exists, "its command")
    if place.name != "goose":  # it saves a call only with its result
        # The others start the tool first and save a moment later: killed in between they would begin again.
        until(lambda: holds(place.home / SESSIONS.get(place.name, ""), b"touch begun"), "its saved session")
    return str(place.show()["runs"][-1]["id"])


def assert_goes_on(place: House, asked: int) -> None:
    """A resume goes on in the native session: its conversation has the turn that was interrupted."""
    place.run("resume", "1", "--wait", timeout=LIMIT)
    done = place.show()
    assert done["status"] == "completed", place.stream(done["runs"][-1])
    went_on = place.work()[asked:]
    # Goose forgets the call that was interrupted, and makes it again.
    assert [row["turn"] for row in went_on] == ([0, 1, 2, 3] if place.name == "goose" else [1, 2, 3])
    assert "script:" not in went_on[0]["said"]
    assert len(set(place.sessions())) == 1
    place.is_over(done["runs"][-1]["id"])


@pytest.mark.case("stop")
@pytest.mark.parametrize("name", [*FIRST, *REST])
def test_nothing_is_left_after_a_stop(name: str, tmp_path: Path) -> None:
    with house(name, tmp_path, {"slow": SLOW}, config=QUICK) as place:
        run = begun(place)
        assert any("sleep" in line for line in place.running(run).values())
        place.run("stop", "1", check=True)
        done = place.judged()
        assert (done["status"], done["runs"][0]["leftovers"]) == ("cancelled", [])
        assert place.running(run) == {}
        assert_goes_on(place, len(place.work()))


@pytest.mark.parametrize("name", FIRST)
def test_nothing_is_left_after_its_time(name: str, tmp_path: Path) -> None:
    with house(name, tmp_path, {"slow": SLOW}, config=QUICK) as place:
        for handle, limit in enumerate(("12s", "30s", "60s", "120s"), 1):  # a busy machine may need more to begin
            place.delegate("Do it. script:slow", "--timeout", limit, wait=False)
            done = place.judged(handle)
            assert (done["status"], done["cause"]) == ("failed", "timeout")
            assert place.running(str(done["runs"][-1]["id"])) == {}
            if (place.path / "begun").exists():
                return
        pytest.fail("its command never began")


@pytest.mark.case("killed")
@pytest.mark.parametrize("name", [*FIRST, *REST])
def test_killed_and_gone_on_with(name: str, tmp_path: Path) -> None:
    """Launcher and real program are killed at once; what its tool ran is ended too, before the next run."""
    with house(name, tmp_path, {"slow": SLOW}, config=QUICK) as place:
        run = begun(place)
        agent = place.processes_of_agent(run)
        assert agent, place.running(run)
        kill(agent)
        done = place.judged()
        assert (done["status"], done["cause"]) == ("failed", "killed"), done
        # Codex takes its command along: whoever was left was about to end, and may have done so.
        if done["runs"][0]["leftovers"] and name != "codex":
            assert place.run("resume", "1").code == 3  # not while they live
        place.run("stop", "1")
        place.is_over(run)
        assert_goes_on(place, len(place.work()))


@pytest.mark.parametrize("name", ["codex", "qwen"])
def test_the_real_program_does_not_outlive_its_launcher(name: str, tmp_path: Path) -> None:
    with house(name, tmp_path, {"slow": SLOW}, config=QUICK) as place:
        run = begun(place)
        agent = place.processes_of_agent(run)
        kill([min(agent)])
        place.judged()
        place.run("stop", "1")
        place.is_over(run)


@pytest.mark.parametrize("name", FIRST)
def test_it_outlives_its_supervisor(name: str, tmp_path: Path) -> None:
    hang: list[dict[str, Any]] = [
        {"text": "I begin.", "ops": [{"bash": {"command": "touch begun; while ! test -e go; do sleep 0.1; done"}}]},
        *SLOW[1:],
    ]
    with house(name, tmp_path, {"slow": hang}, config=QUICK) as place:
        begun(place)
        supervisor = processes.supervisors(place.path)
        assert supervisor
        kill(list(supervisor))
        (place.path / "go").touch()
        done = place.judged()
        assert (done["status"], len(done["runs"])) == ("completed", 1)
        assert place.turns("slow") == [0, 1, 2, 3]
