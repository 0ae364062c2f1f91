"""Every kind of line in a task's log, byte for byte: logs of earlier versions and tools outside read them."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from overhand.record import (
    Accepted,
    Answered,
    Asked,
    BudgetReleased,
    BudgetReserved,
    CheckpointSaved,
    ChildRefused,
    ControlHandled,
    Created,
    Dismissed,
    Event,
    Judged,
    LateReturn,
    LimitReached,
    Merged,
    MessageSent,
    Notice,
    PhaseMoved,
    Rechecked,
    Requeued,
    RunBlocked,
    RunCreated,
    RunEnded,
    RunNeverBegan,
    RunStarted,
    RunUnblocked,
    Seen,
    StageSet,
    StepMarked,
    StopRequested,
    TagHeldBack,
    TagWritten,
    TreeReady,
    UsageReported,
    log,
    log_lines,
    parse_log,
)
from overhand.record.events import KINDS, read

GOLDEN = Path(__file__).with_name("log_lines.jsonl")
STAMP: dict[str, Any] = {
    "t": "2026-11-18T01:12:10.000Z",
    "mono": 12.5,
    "boot": "b-1",
    "by": {"kind": "person", "user": "ana", "via": "cli"},
}
RUN, CHILD = "sess_1763428330_abc123", "worker-20261118-011210"
EVENTS: list[Event] = [
    Created(
        v=1,
        task=CHILD,
        handle=7,
        title="Sort «it»",
        kind="implementation",
        priority="P1",
        parent={"task": "lead-1", "run": RUN},
        depth=2,
        path=["user", "lead"],
        timeout=600.0,
        level="work",
        contract="work",
        checks=[{"name": "t", "command": "make test"}],
        after="lead-1",
        settings={"shell": True},
        model="m",
        budget="5 USD",
        strict=True,
        cause="c@1",
        item={"path": "a.md", "kind": "bug"},
        node="n",
        plan=3,
        agent="worker",
        handoff="0f",
    ),
    Accepted(),
    Accepted(agent="worker", resume={"run": RUN, "why": "resumed"}, budget="9 USD"),
    Accepted(cause="c@2", resume={"why": "attempt 2 of its plan"}, agent="other"),
    Accepted(limit={"driver": "claude", "until": 1.5, "why": "spent"}, resume={"run": RUN, "why": "its limit"}),
    Accepted(repair=RUN),
    Requeued(run=RUN, why="its process was lost", resume={"run": RUN, "why": "its process was lost"}),
    RunCreated(
        run=RUN,
        agent="worker",
        driver="command",
        timeout=600.0,
        machine="m-1",
        pidns="4026531836",
        control=True,
        attached=True,
        messages=[1, 2],
    ),
    RunStarted(run=RUN),
    RunStarted(run=RUN, shim=4711),
    RunBlocked(run=RUN),
    RunUnblocked(run=RUN),
    RunEnded(run=RUN, cause="exit", exit=0, leftovers=[12]),
    RunEnded(run=RUN, cause="lost", exit=None),
    RunEnded(run=RUN, cause="error", why="No such program."),
    RunNeverBegan(run=RUN),
    RunNeverBegan(run=RUN, why="its job goes on"),
    Judged(
        run=RUN,
        status="completed",
        claimed=None,
        verification="proved",
        proof="data",
        summary="Done.",
        output=None,
        result="1f",
        errors=0,
    ),
    Judged(run=None, status="rejected", code="REFUSED", summary="No."),
    Rechecked(verification="passing", output="0f", result="1f"),
    Seen(),
    Dismissed(),
    StopRequested(why="stopped"),
    Notice(text="Something.", cause="c@3"),
    ChildRefused(code="REFUSED", agent="worker", title="Do it", why="Too deep."),
    ChildRefused(code="REFUSED", title="item approve", why="No person."),
    Asked(seq=1, question="Which?", options=["a", "b"], step="2", via="ask", run=RUN, closed=True, cause="c@4"),
    Asked(seq=2, question="Which?", options=[], step="", via="file", run=None, stem="q2", sha="2f"),
    Asked(seq=1, run=RUN, again=True),
    Asked(seq=3, question="Message 1", via="control", run=RUN, cause="message:1"),
    Answered(seq=1, answer="a", via="verb", blob="3f"),
    MessageSent(text="Hello", blob="4f", run=RUN),
    UsageReported(run=RUN, input=5, output=6, usd=0.5, turns=1, context=7, window=8, estimated=False),
    LimitReached(key="75 % of the budget"),
    BudgetReserved(child=CHILD, tokens=30, usd=0.0),
    BudgetReleased(child=CHILD, tokens=20, usd=0.25),
    CheckpointSaved(id="ckpt_a_7_1", run=RUN, reason="under way", why="control", cause="c@5"),
    ControlHandled(
        command="CHECKPOINT", arg="", run=RUN, at="c@5", reason="under way", ok=True, checkpoint="ckpt_a_7_1"
    ),
    ControlHandled(command="DELEGATE", arg="worker", run=RUN, at="c@6", reason="", ok=False, error="Too deep."),
    ControlHandled(command="ESCALATE", arg="", run=RUN, reason="stuck", ok=True),
    PhaseMoved(phase="PLAN", came_from="IDENTIFY", iteration=1, why="found it"),
    StepMarked(n=2, text="Sort", marker="x", run=RUN),
    TagWritten(stage="claimed", path="a.md", run=RUN, repair=True),
    TagWritten(stage="delegated", path="a.md"),
    StageSet(stage="done", how="verb"),
    TagHeldBack(run=RUN, item="a.md#bug"),
    LateReturn(run=RUN, kept=None, code="STALE_RUN"),
    TreeReady(
        path="/t/1-x",
        folder="/t/1-x/sub",
        base="0a",
        start="0b",
        behind=2,
        carried=3,
        left=["a: big"],
        ports=[20000, 10],
    ),
    Merged(into="refs/heads/main", old="0a", commit="0c"),
]


@pytest.mark.parametrize("number", range(len(EVENTS)), ids=[f"{n}-{e.e}" for n, e in enumerate(EVENTS)])
def test_line(number: int) -> None:
    written = log_lines([EVENTS[number].replace(**STAMP).line]).decode()
    assert written == GOLDEN.read_text(encoding="utf-8").splitlines(keepends=True)[number]


def test_nothing_is_left_over() -> None:
    assert len(GOLDEN.read_text(encoding="utf-8").splitlines()) == len(EVENTS)


def test_every_kind_is_here() -> None:
    assert {event.e for event in EVENTS} == KINDS.keys()


@pytest.mark.parametrize("number", range(len(EVENTS)))
def test_a_line_is_read_as_the_event_that_wrote_it(number: int) -> None:
    event = EVENTS[number]
    (line,) = parse_log(log_lines([event.replace(**STAMP).line]))
    found = read(line)
    assert type(found) is type(event)
    assert found is not None
    assert found.line == {**event.line, **STAMP}


def test_a_kind_of_a_later_version_changes_nothing() -> None:
    assert read({"e": "unheard-of", "run": RUN}) is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_line_without_its_fields_reads_as_empty(kind: str) -> None:
    event = read({"e": kind})
    assert event is not None
    for name in type(event)._empty:
        getattr(event, name)


def test_events_are_made_by_their_classes_alone() -> None:
    """No dictionary with the key of a kind outside the module that defines them."""
    source = Path(log.__file__).parents[1]
    found = [
        f"{path.relative_to(source)}:{node.lineno}"
        for path in sorted(source.rglob("*.py"))
        if path != source / "record/events.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Dict) and any(isinstance(key, ast.Constant) and key.value == "e" for key in node.keys)
    ]
    assert found == []
