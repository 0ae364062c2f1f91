"""kill -9 of the supervisor, the shim, the agent, any two, all three: the next verb finds the truth."""

from __future__ import annotations

from itertools import chain, combinations
from typing import TYPE_CHECKING

import pytest

from overhand.system import start_time
from support.scene import QUICK, kill, until
from support.soak import LOT

if TYPE_CHECKING:
    from support.scene import Scene

PROCESSES = ("supervisor", "shim", "agent")
SUBSETS = [*chain.from_iterable(combinations(PROCESSES, n) for n in (1, 2, 3))]
VERBS = ("show", "list", "wait")
# Each verb after each subset; `make test` takes another verb after each.
EACH = [
    pytest.param(killed, verb, marks=() if number % 3 == VERBS.index(verb) else LOT, id=f"{'+'.join(killed)}-{verb}")
    for number, killed in enumerate(SUBSETS)
    for verb in VERBS
]


def victims(scene: Scene, task: str, names: tuple[str, ...]) -> None:
    """Find them all first, then kill them, the watchers before the watched."""
    pids = {"supervisor": scene.supervisor(), "shim": scene.pid(task, "shim"), "agent": scene.pid(task, "pid")}
    for name in names:
        pid = pids[name]
        assert pid is not None
        kill(pid)


def seen_by(scene: Scene, verb: str, task: str) -> dict[str, object]:
    """What a verb says about the task."""
    if verb == "list":
        (row,) = [row for row in scene.json("list")["tasks"] if row["task_id"] == task]
        return dict(row)
    return dict(scene.json(verb, task, code=None))


def is_judged_once(scene: Scene, task: str, runs: int) -> None:
    """Each run began once, was recorded once and judged once."""
    assert scene.starts(task) == runs
    for name in ("run.created", "run.started", "run.ended", "judged"):
        assert [e["run"] for e in scene.events(task, name)] == [run.id for run in scene.state(task).runs], name
    assert len(scene.state(task).runs) == runs


@pytest.mark.parametrize(("killed", "verb"), EACH)
def test_after_kill_9(scene: Scene, killed: tuple[str, ...], verb: str) -> None:
    scene.agent("worker", "print:half way", "touch:up", "until:go", "output")
    task = scene.delegate()
    scene.appears("up")
    scene.running(task)
    old = scene.supervisor()
    victims(scene, task, killed)
    if "agent" in killed:
        is_lost_or_killed(scene, verb, task, "lost" if "shim" in killed else "killed")
    else:
        is_adopted(scene, verb, task, shim_lives="shim" not in killed, changed=old if "supervisor" in killed else None)


def is_adopted(scene: Scene, verb: str, task: str, *, shim_lives: bool, changed: int | None) -> None:
    """A live agent goes on under whichever supervisor there is, with its output and exit code."""
    if verb != "wait":
        shown = seen_by(scene, verb, task)
        assert (shown["run_state"], shown["status"], shown["headline"]) == ("running", None, "working")
        assert scene.supervisor() not in (None, changed)
    (scene.path / "go").touch()
    shown = until(lambda: s if (s := seen_by(scene, verb, task))["status"] else None, "a verdict")
    assert shown["status"] == "completed"
    (run,) = scene.state(task).runs
    assert (run.cause, run.exit) == (("exit", 0) if shim_lives else ("lost", None))
    assert (scene.place(task) / "stdout").read_text() == "half way\n"
    is_judged_once(scene, task, 1)


def is_lost_or_killed(scene: Scene, verb: str, task: str, cause: str) -> None:
    """It is judged by what it left, then it can be run again."""
    shown = until(lambda: s if (s := seen_by(scene, verb, task))["status"] else None, "a verdict")
    assert (shown["status"], shown["cause"]) == ("failed", cause)
    assert scene.state(task).runs[0].exit == (137 if cause == "killed" else None)
    is_judged_once(scene, task, 1)
    (scene.path / "go").touch()
    assert scene.json("run", task, "--wait")["status"] == "completed"
    is_judged_once(scene, task, 2)


def test_a_lost_run_with_a_good_return_is_accepted(scene: Scene) -> None:
    scene.agent("worker", "output", "touch:up", "hang")
    task = scene.delegate()
    scene.appears("up")
    scene.running(task)
    victims(scene, task, PROCESSES)
    shown = scene.json("show", task)
    assert (shown["status"], shown["cause"]) == ("completed", "lost")
    is_judged_once(scene, task, 1)


def test_a_start_that_nobody_lived_to_record_is_recorded_by_whoever_adopts_it(scene: Scene) -> None:
    scene.agent("worker", "touch:up", "until:go", "output")
    task = scene.delegate()
    scene.appears("up")
    scene.running(task)
    scene.kill_supervisor()
    path = scene.place(task).parents[1] / "log.jsonl"
    text = path.read_text()
    path.write_text("".join(line for line in text.splitlines(True) if '"e":"run.started"' not in line))
    assert scene.state(task).run_state == "starting"
    scene.json("list")
    scene.running(task)
    (scene.path / "go").touch()
    assert scene.json("wait", task)["status"] == "completed"
    is_judged_once(scene, task, 1)


def test_the_exit_code_of_an_adopted_agent_is_kept(scene: Scene) -> None:
    scene.agent("worker", "touch:up", "until:go", "exit:7")
    task = scene.delegate()
    scene.appears("up")
    scene.running(task)
    scene.kill_supervisor()
    scene.json("list")
    (scene.path / "go").touch()
    assert scene.json("wait", task, code=1)["runs"][0]["exit"] == 7
    is_judged_once(scene, task, 1)


def test_a_run_that_ends_while_nobody_watches_is_judged_by_the_next_verb(scene: Scene) -> None:
    scene.agent("worker", "touch:up", "until:go", "output")
    task = scene.delegate()
    shim = scene.pid(task, "shim")
    scene.running(task)
    scene.kill_supervisor()
    (scene.path / "go").touch()
    until(lambda: start_time(shim) is None, "the end of the run")
    assert scene.json("show", task)["status"] == "completed"
    assert scene.supervisor() is None, "nothing was left to do for a supervisor"
    is_judged_once(scene, task, 1)


def test_many_verbs_at_once_judge_once(scene: Scene) -> None:
    scene.agent("worker", "touch:up", "until:go", "output")
    task = scene.delegate()
    shim = scene.pid(task, "shim")
    scene.running(task)
    scene.kill_supervisor()
    (scene.path / "go").touch()
    until(lambda: start_time(shim) is None, "the end of the run")
    verbs = [scene.project.start(verb, task, "--json") for verb in ("show", "wait", "show", "wait", "show", "wait")]
    for verb in verbs:
        verb.communicate(timeout=60)
    is_judged_once(scene, task, 1)
    assert scene.state(task).status == "completed"


def test_the_supervisor_is_killed_again_and_again(scene: Scene) -> None:
    scene.agent("worker", "touch:up", "until:go", "output")
    task = scene.delegate()
    scene.appears("up")
    scene.running(task)
    for _ in range(5):
        scene.kill_supervisor()
        assert scene.json("show", task)["run_state"] == "running"
    (scene.path / "go").touch()
    assert scene.json("wait", task)["status"] == "completed"
    is_judged_once(scene, task, 1)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_check_at_work_is_taken_over(scene: Scene, when: str) -> None:
    """The supervisor dies while a check runs: that check goes on and counts, it is not run a second time."""
    scene.agent("worker", "output")
    number = {"before": 1, "after": 2}[when]
    done = f"[ -e go ] || [ $(wc -l <checks) != {number} ]"
    waits = f"echo x >>checks; touch up-$(wc -l <checks); until {done}; do sleep 0.05; done"
    task = scene.delegate("checked", "--verify", waits)
    scene.appears(f"up-{number}")
    scene.kill_supervisor()
    assert scene.json("show", task)["status"] is None
    (scene.path / "go").touch()
    shown = scene.json("wait", task)
    assert (shown["status"], shown["verification"]) == ("completed", "passing")
    assert (scene.path / "checks").read_text() == "x\n" * 2
    is_judged_once(scene, task, 1)


def test_an_agent_that_removes_its_workspace_lives_on(scene: Scene) -> None:
    returns = f'mkdir -p "$(dirname "$OVERHAND_OUTPUT")"; {QUICK}'
    scene.shell("worker", f'rm -r "$OVERHAND_WORKSPACE"; touch up; until [ -e go ]; do sleep 0.01; done; {returns}')
    task = scene.delegate()
    scene.appears("up")
    scene.kill_supervisor()
    assert scene.json("show", task)["run_state"] == "running"
    (scene.path / "go").touch()
    assert (scene.json("wait", task)["status"], scene.starts(task)) == ("completed", 1)


def test_an_agent_that_removes_its_runs_record_is_not_started_again(scene: Scene) -> None:
    """Without `life` nobody can see that it lives: it is lost, its processes are leftovers, `stop` ends them."""
    scene.shell("worker", 'until [ -s go ]; do sleep 0.01; done; rm -r "$(cat go)"; touch up; exec sleep 2147480917')
    task = scene.delegate("x", "--set", "shield=off")  # behind it, it could not
    scene.running(task)  # a supervisor that looks at it after this takes it for lost by itself
    (scene.path / "go").write_text(str(scene.place(task).parent))
    scene.appears("up")
    scene.kill_supervisor()
    until(lambda: scene.json("show", task)["status"], "a verdict")
    state = scene.state(task)
    (run,) = state.runs
    assert (state.status, run.cause, scene.starts(task)) == ("failed", "lost", 1)
    assert run.leftovers
    assert "still alive" in scene.json("run", task, code=3)["error"]["message"]
    assert scene.json("stop", task)["tasks"][0]["was"] == "leftovers ended"
    until(lambda: not scene.agents_left(), "no agent left")
