"""kill -9 of the supervisor, at every write of a plan and at any other moment: the next one goes on.

No node that has ended runs again, none runs twice at once, and what is merged is the same.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from overhand.plans import make_plan_task
from overhand.policy import Actor, find_caller, trusted_config
from overhand.system import start_time
from overhand.verbs import Session, check_source, plan_source
from plans.running.stage import COPY, PLAN_EVENTS, VERIFIED, node, states
from support.scene import kill, until
from support.soak import lots, was_killed

if TYPE_CHECKING:
    from plans.running.stage import Stage

DYING = str(Path(__file__).with_name("dying.py"))
LOTS = 48
ONCE = "if [ ! -e tried ]; then touch tried; exit 3; fi"
NODES: dict[str, Any] = {
    "a": node("quick", outputs={"n": "integer"}),
    "b": node("copier", inputs={"x": "${a.n}"}),
    "c": node("flaky", "a"),
    "d": node("copier", "c", inputs={"x": "${b.got.x}", "y": "${c.m}"}),
}
KEYS: dict[str, Any] = {"merge": "sequential", "on_failure": {"policy": "retry", "max_retries": 2}}
MERGED = {"got": {"x": 1, "y": 2}}


@pytest.fixture
def ready(stage: Stage) -> Stage:
    stage.gives("quick", {"n": 1})
    stage.gives("flaky", {"m": 2}, before=ONCE)
    stage.shell("copier", COPY)
    stage.project.config("[limits]\nidle = '0.1s'\n")
    stage.json("list")  # trusts what is there now
    return stage


def accepted(stage: Stage, nodes: dict[str, Any], **keys: Any) -> str:
    """A plan that is queued while nobody is there to carry it."""
    session = Session(str(stage.path))
    found = check_source(session, plan_source(stage.write(nodes, **keys)))
    assert found.plan is not None
    who = find_caller(session.store)
    actor = Actor(session.store, trusted_config(session.root), who.by(session.via))
    return make_plan_task(actor, who, found.plan, "", {"trusted": True}).id


def is_as_if_nothing_had_happened(stage: Stage, task: str) -> None:
    result = stage.result(task)
    assert (result["status"], result["data"]) == ("completed", MERGED), result
    assert states(result) == dict.fromkeys(NODES, VERIFIED)
    assert stage.began(task) == {"a": 1, "b": 1, "c": 2, "d": 1}
    assert [e["e"] for e in stage.events(task)] == PLAN_EVENTS
    for name in NODES:
        child = stage.child(task, name)
        assert len(stage.events(child.id, "judged")) == (2 if name == "c" else 1)


@pytest.mark.parametrize("lot", lots(LOTS))
def test_at_every_write(ready: Stage, lot: int) -> None:
    """Each lot takes every 48th point, one after the other; the last one has no more."""
    for number in range(lot, 1000, LOTS):
        (ready.path / "tried").unlink(missing_ok=True)
        task = accepted(ready, NODES, **KEYS)
        code = subprocess.run([sys.executable, DYING, str(ready.path), str(number)], timeout=60, check=False).returncode
        is_as_if_nothing_had_happened(ready, task)
        until(lambda: ready.supervisor() is None, "the end of the supervisor")
        if not was_killed(code):
            assert number > 20, "there are more points than that"
            return
    pytest.fail("it never came to an end")


@pytest.mark.parametrize("seed", lots(25))
def test_at_any_moment(ready: Stage, seed: int) -> None:
    """Two kills while agents are at work, fifty in all; each agent is adopted, none is started twice."""
    chance = random.Random(seed)
    stage, kills = ready, 0
    stage.gives("quick", {"n": 1}, before="sleep 0.2")
    while kills < 2:
        (stage.path / "tried").unlink(missing_ok=True)
        task = stage.plan(NODES, **KEYS)
        while kills < 2 and stage.state(task).status is None:
            time.sleep(chance.uniform(0.0, 0.4))
            if (pid := stage.supervisor()) is not None:
                kill(pid)
                kills += 1
            stage.json("show", task)
        is_as_if_nothing_had_happened(stage, task)


def test_nobody_looks_until_all_agents_have_ended(ready: Stage) -> None:
    """What ended while no supervisor was there is found by the next one."""
    ready.gives("quick", {"n": 1}, before="touch up; until [ -e go ]; do sleep 0.01; done")
    task = ready.plan(NODES, **KEYS)
    ready.appears("up")
    ready.kill_supervisor()
    shim = ready.pid(ready.child(task, "a").id, "shim")
    (ready.path / "go").touch()
    until(lambda: start_time(shim) is None, "the end of the run")
    is_as_if_nothing_had_happened(ready, task)


def test_a_merge_at_work_is_taken_over(stage: Stage) -> None:
    stage.gives("worker", {"n": 1})
    script = "echo x >>merges; until [ -e go ]; do sleep 0.01; done; echo '{\"all\": 1}'"
    task = stage.plan({"a": node()}, merge={"strategy": "custom", "command": ["/bin/sh", "-c", script]})
    stage.appears("merges")
    stage.kill_supervisor()
    stage.json("show", task)
    (stage.path / "go").touch()
    result = stage.result(task)
    assert (result["status"], result["data"]) == ("completed", {"all": 1})
    assert (stage.path / "merges").read_text() == "x\n"


def test_a_stop_that_was_cut_short_is_carried_on(stage: Stage) -> None:
    stage.gives("worker", before="touch up-$OVERHAND_TASK; exec sleep 2147480917")
    task = stage.plan({"a": node(), "b": node()})
    until(lambda: len(list(stage.path.glob("up-*"))) == 2, "both at work")
    stage.kill_supervisor()
    stage.json("stop", task, "--now")
    assert stage.state(task).status == "cancelled"
    assert not stage.agents_left()


def test_a_plan_whose_file_was_changed_is_not_run(stage: Stage) -> None:
    stage.gives("worker", before="[ -e go ] || exit 3")
    task = stage.plan({"a": node()})
    assert stage.result(task)["status"] == "failed"
    path = Path(stage.store.record(task)) / "plan.json"
    path.write_text(path.read_text().replace("worker", "other"))
    result = stage.json("run", task, "--wait", code=1)
    assert result["status"] == "rejected"
    assert "not the plan that was accepted" in result["summary"]


def test_a_plan_whose_file_was_changed_while_nobody_carried_it_has_failed(stage: Stage) -> None:
    stage.gives("worker", before="touch up; until [ -e go ]; do sleep 0.01; done")
    task = stage.plan({"a": node()})
    stage.appears("up")
    stage.kill_supervisor()
    path = Path(stage.store.record(task)) / "plan.json"
    path.write_text(path.read_text().replace("worker", "other"))
    result = stage.result(task)
    assert result["status"] == "failed"
    assert "not the plan that was accepted" in result["summary"]
    (stage.path / "go").touch()
    stage.judged(stage.child(task, "a").id)
