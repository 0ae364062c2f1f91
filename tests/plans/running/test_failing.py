"""What happens when a node fails: again, by somebody else, without it, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plans.running.stage import FAILED, SKIPPED, STOPPED, VERIFIED, node, states
from support.scene import until

if TYPE_CHECKING:
    from plans.running.stage import Stage

ONCE = 'if [ ! -e tried ]; then touch tried; echo "no luck" >&2; exit 3; fi'
ASK = """if [ ! -e asked ]; then
touch asked; echo '{"status": "needs-input", "summary": "Which one?"}' >"$OVERHAND_RESULT"; exit
fi"""
HANG = "touch up; exec sleep 2147480917"


def test_it_is_tried_again_in_the_same_task_and_told_what_was_wrong(stage: Stage) -> None:
    stage.gives("worker", {"n": 2}, before=ONCE)
    task = stage.plan({"a": node()}, on_failure={"policy": "retry", "max_retries": 1})
    result = stage.result(task)
    assert (result["status"], result["data"]) == ("completed", {"n": 2})
    assert [row["attempts"] for row in result["nodes"]] == [2]
    child = stage.child(task, "a")
    assert stage.starts(child.id) == 2
    again = stage.events(child.id, "accepted")[1]
    assert again["cause"] == "a.2.Start"
    assert again["resume"]["problem"]


def test_then_the_fallback_agent_has_it(stage: Stage) -> None:
    stage.shell("worker", "exit 3")
    stage.gives("other", {"n": 7})
    task = stage.plan({"a": node()}, on_failure={"policy": "retry", "max_retries": 1, "fallback": "other"})
    result = stage.result(task)
    assert (result["status"], result["data"]) == ("completed", {"n": 7})
    assert [run.agent for run in stage.child(task, "a").runs] == ["worker", "worker", "other"]
    assert result["nodes"][0]["agent"] == "other"


def test_abort_stops_what_is_live(stage: Stage) -> None:
    stage.shell("slow", HANG)
    stage.shell("worker", "until [ -e up ]; do sleep 0.01; done; exit 3")
    task = stage.plan({"a": node("slow"), "b": node(), "c": node("worker", "a")})
    result = stage.result(task)
    assert (result["status"], states(result)) == ("failed", {"a": STOPPED, "b": FAILED, "c": SKIPPED})
    assert stage.child(task, "a").status == "cancelled"
    until(lambda: not stage.agents_left(), "nobody is left, not even the shim of the other")


def test_continue_skips_what_depends_on_it(stage: Stage) -> None:
    stage.shell("bad", "exit 3")
    stage.gives("worker", {"n": 1})
    result = stage.run(
        {"a": node("bad"), "b": node("worker", "a"), "c": node("worker", "b"), "d": node()},
        on_failure={"policy": "continue"},
    )
    assert (result["status"], result["data"]) == ("partial", {"n": 1})
    assert states(result) == {"a": FAILED, "b": SKIPPED, "c": SKIPPED, "d": VERIFIED}


def test_who_is_stopped_by_a_person_is_not_tried_again(stage: Stage) -> None:
    stage.shell("slow", HANG)
    task = stage.plan({"a": node("slow")}, on_failure={"policy": "retry", "max_retries": 3})
    stage.appears("up")
    child = stage.child(task, "a").id
    stage.json("stop", child, "--now")
    result = stage.result(task)
    assert (result["status"], states(result), result["nodes"][0]["attempts"]) == ("failed", {"a": FAILED}, 1)


def test_a_question_costs_no_attempt(stage: Stage) -> None:
    stage.gives("worker", {"n": 5}, before=ASK)
    stage.gives("other", {"m": 1})
    task = stage.plan({"a": node(), "b": node("other", "a")})
    child = _asked(stage, task)
    assert stage.state(task).status is None
    stage.json("answer", child, "this one")
    result = stage.result(task)
    assert (result["status"], result["data"]) == ("completed", {"n": 5, "m": 1})
    assert [row["attempts"] for row in result["nodes"]] == [1, 1]


def _asked(stage: Stage, task: str) -> str:
    def look() -> str | None:
        if not stage.is_there(task, "a"):
            return None
        child = stage.child(task, "a")
        return child.id if child.status == "needs-input" else None

    return until(look, "a question")


def test_a_killed_agent_is_a_failed_attempt(stage: Stage) -> None:
    stage.gives("worker", {"n": 1}, before="[ -e tried ] || { touch tried; kill -9 $$; }")
    result = stage.run({"a": node()}, on_failure={"policy": "retry", "max_retries": 1})
    assert (result["status"], result["nodes"][0]["attempts"]) == ("completed", 2)


def test_the_budget_binds_all_nodes_together(stage: Stage) -> None:
    stage.gives("worker", {"n": 1}, before="""echo '{"input": 800}' >>"$OVERHAND_USAGE" """)
    nodes = {"a": node(), "b": node("worker", "a"), "c": node("worker", "b")}
    task = stage.plan(nodes, budget=1000)
    result = stage.result(task)
    assert (result["status"], result["tokens"] >= 800) == ("failed", True)
    assert not stage.is_there(task, "c")
    assert stage.child(task, "a").status == "completed"


def test_what_a_node_is_permitted_is_what_its_plan_was_asked_for(stage: Stage) -> None:
    """Settings of the plan are its nodes' too, and nothing else of it is."""
    stage.gives("worker", {"n": 1})
    path = stage.write({"a": node()})
    task = stage.json("plan", "run", path, "--set", "limits.stop_grace=1s")["task_id"]
    assert stage.result(task)["status"] == "completed"
    assert stage.child(task, "a").settings == {"limits.stop_grace": "1s"}


def test_what_a_guard_refuses_is_told_before_anything_is_made(stage: Stage) -> None:
    stage.gives("worker")
    path = stage.write({"a": node(), "b": node(timeout="100h"), "c": node(timeout="200h")})
    said = stage.json("plan", "run", path, code=None)["error"]["message"]
    assert ("Node b" in said, "Node c" in said, "Node a" in said) == (True, True, False), said
    assert stage.ids() == []
