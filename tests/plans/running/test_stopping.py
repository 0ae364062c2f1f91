"""A plan is stopped, goes on, runs out of time, is sent something, is permitted something, is saved."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from overhand.questions import record
from overhand.record import StopRequested
from overhand.runs import message_event
from overhand.system import start_time
from overhand.verbs import Session, refresh_task, send, send_message
from plans.running.stage import SKIPPED, STOPPED, VERIFIED, node, states
from support.scene import until

if TYPE_CHECKING:
    import pytest

    from overhand.record import Task
    from plans.running.stage import Stage

WAIT = "touch up; until [ -e go ]; do sleep 0.02; done"
BY = {"kind": "person", "via": "test"}


def test_stop_ends_every_node_and_resume_goes_on_without_repeating_any(stage: Stage) -> None:
    stage.gives("quick", {"n": 1})
    stage.gives("worker", {"m": 2}, before=WAIT)
    task = stage.plan({"a": node("quick"), "b": node("worker", "a"), "c": node("quick", "b")})
    stage.appears("up")
    stopped = stage.json("stop", task)["tasks"][0]
    assert (stopped["status"], stopped["cause"]) == ("cancelled", "cancelled")
    assert states(stage.json("show", task)) == {"a": VERIFIED, "b": STOPPED, "c": SKIPPED}
    until(lambda: not stage.agents_left(), "nobody is left, not even the shim of the first")
    (stage.path / "go").touch()
    stage.json("resume", task)
    result = stage.result(task)
    assert (result["status"], result["data"]) == ("completed", {"n": 1, "m": 2})
    assert stage.began(task) == {"a": 1, "b": 2, "c": 1}


def test_stop_all_ends_plans_too(stage: Stage) -> None:
    stage.gives("worker", before=WAIT)
    task = stage.plan({"a": node(), "b": node("worker", "a")})
    stage.appears("up")
    stage.json("stop", "--all", "--now")
    assert stage.state(task).status == "cancelled"
    assert not stage.agents_left()


def test_it_is_cancelled_even_if_a_node_that_was_stopped_with_it_is_heard_first(stage: Stage) -> None:
    stage.gives("worker", before=WAIT)
    task = stage.plan({"a": node()})
    stage.appears("up")
    stage.kill_supervisor()
    child = stage.child(task, "a").id
    for one in (task, child):  # all that `stop --all` writes down
        with stage.store.lock(one, BY) as known:
            known.append(StopRequested(why="now"))
    assert ends_unseen(stage, child) == "cancelled"
    result = stage.result(task)
    assert (result["status"], result["cause"]) == ("cancelled", "cancelled")


def ends_unseen(stage: Stage, child: str) -> str:
    """A node's agent ends while nobody carries its plan, and is judged before anybody does."""
    shim = stage.pid(child, "shim")
    (stage.path / "go").touch()
    until(lambda: start_time(shim) is None, "the end of the run")
    return str(stage.json("show", child)["status"])


def test_its_time_is_over(stage: Stage) -> None:
    stage.gives("worker", before=WAIT)
    result = stage.run({"a": node(), "b": node("worker", "a")}, timeout="1s")
    assert (result["status"], result["cause"]) == ("failed", "timeout")
    assert states(result) == {"a": STOPPED, "b": SKIPPED}
    assert not stage.agents_left()


def test_its_time_was_over_before_a_node_failed(stage: Stage) -> None:
    stage.gives("worker", before=f"{WAIT}; exit 3")
    task = stage.plan({"a": node()}, timeout="1s")
    stage.appears("up")
    over = time.time() + 1
    stage.kill_supervisor()
    until(lambda: time.time() > over, "its time is over")
    assert ends_unseen(stage, stage.child(task, "a").id) != "completed"
    result = stage.result(task)
    assert (result["status"], result["cause"], states(result)) == ("failed", "timeout", {"a": STOPPED})


def test_a_failed_plan_is_run_again(stage: Stage) -> None:
    stage.gives("quick", {"n": 1})
    stage.gives("worker", {"m": 2}, before="[ -e go ] || exit 3")
    task = stage.plan({"a": node("quick"), "b": node("worker", "a")})
    assert stage.result(task)["status"] == "failed"
    (stage.path / "go").touch()
    assert stage.json("run", task, "--wait")["status"] == "completed"
    assert stage.began(task) == {"a": 1, "b": 2}


def test_what_is_sent_reaches_nodes_that_begin_later(stage: Stage) -> None:
    stage.gives("worker", {"n": 1}, before=WAIT)
    stage.gives("quick", {"m": 2})
    task = stage.plan({"a": node(), "b": node("quick", "a")})
    stage.appears("up")
    sent = stage.json("send", task, "use tabs everywhere")
    assert (sent["how"], len(sent["nodes"])) == ("to its nodes", 1)
    (stage.path / "go").touch()
    assert stage.result(task)["status"] == "completed"
    folder = stage.path / ".agent-workspaces" / stage.child(task, "b").id
    assert "use tabs everywhere" in (folder / "HANDOFF.md").read_text()
    assert [m.text for m in stage.child(task, "a").messages] == ["use tabs everywhere"]


def test_what_was_sent_counts_from_when_it_is_recorded(stage: Stage) -> None:
    """Whoever sent it may not have come to tell the supervisor yet."""
    stage.gives("worker", {"n": 1}, before=WAIT)
    stage.gives("quick", {"m": 2})
    task = stage.plan({"a": node(), "b": node("quick", "a")})
    stage.appears("up")
    with stage.store.lock(task, BY) as plan:
        run = plan.task.current_run
        assert run is not None
        plan.append(message_event(plan.record, "use tabs everywhere").replace(run=run.id))
    (stage.path / "go").touch()
    until(lambda: stage.is_there(task, "b"), "the next node")  # no verb comes before that
    assert stage.result(task)["status"] == "completed"
    folder = stage.path / ".agent-workspaces" / stage.child(task, "b").id
    assert "use tabs everywhere" in (folder / "HANDOFF.md").read_text()


def test_a_node_that_ends_while_something_is_sent_is_not_begun_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.gives("worker", {"n": 1}, before=WAIT)
    stage.gives("other", {"m": 2}, before="until [ -e over ]; do sleep 0.02; done")
    task = stage.plan({"a": node(), "b": node("other")})
    stage.appears("up")

    def refresh(session: Session, state: Task) -> Task:
        if state.node == "a":  # it was open when it was found, and ends before it can be told
            (stage.path / "go").touch()
            stage.judged(state.id)
        return refresh_task(session, state)

    monkeypatch.setattr(send, "refresh_task", refresh)
    told = send_message(Session(str(stage.path)), task, "use tabs everywhere").payload
    assert [one["task_id"] for one in told["nodes"]] == [stage.child(task, "b").id]
    (stage.path / "over").touch()
    result = stage.result(task)
    assert (result["status"], result["data"]) == ("completed", {"n": 1, "m": 2})
    assert stage.began(task)["a"] == 1


def test_a_node_that_needs_approval_waits_for_it(stage: Stage) -> None:
    stage.gives("worker", {"n": 1})
    task = stage.plan({"a": node(), "b": node("worker", "a", requires_approval=True)})
    until(lambda: stage.state(task).questions, "a question")
    assert not stage.is_there(task, "b")
    stage.json("answer", task, "yes")
    result = stage.result(task)
    assert (result["status"], stage.began(task)) == ("completed", {"a": 1, "b": 1})


def test_an_approval_counts_although_whoever_gave_it_told_nobody(stage: Stage) -> None:
    """As after a kill between the answer and the word to the supervisor."""
    stage.gives("worker", {"n": 1})
    task = stage.plan({"a": node(), "b": node(requires_approval=True)})
    (question,) = until(lambda: stage.state(task).questions, "a question")
    until(lambda: stage.is_there(task, "a") and stage.child(task, "a").status, "the other is done")
    with stage.store.lock(task, BY) as plan:
        plan.append(record.answered(plan.record, question.seq, "yes", "test"))
    result = stage.result(task)
    assert (result["status"], stage.began(task)) == ("completed", {"a": 1, "b": 1})


def test_a_node_that_is_not_approved_has_failed(stage: Stage) -> None:
    stage.gives("worker", {"n": 1})
    task = stage.plan({"a": node(requires_approval=True)})
    until(lambda: stage.state(task).questions, "a question")
    stage.json("answer", task, "no")
    assert stage.result(task)["status"] == "failed"
    assert not stage.is_there(task, "a")


def test_a_checkpoint_is_made_where_the_plan_says_so(stage: Stage) -> None:
    stage.gives("worker", {"n": 1})
    task = stage.plan({"a": node(checkpoint_after=True), "b": node("worker", "a")})
    assert stage.result(task)["status"] == "completed"
    assert [one.reason for one in stage.state(task).checkpoints] == ["Node a is done"]
