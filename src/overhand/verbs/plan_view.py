"""A plan that has become a task: the tree that `plan show` draws from its events, the nodes in a receipt."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from overhand.errors import NotFound, OverhandError, Refused
from overhand.plans import (
    FAILED,
    HELD,
    LIVE_STATES,
    NODE_STATES,
    RUNNING,
    SKIPPED,
    STARTING,
    STOPPED,
    VERIFIED,
    VERIFYING,
    WAITING,
    PlanEvent,
    PlanState,
    advance_plan,
    new_plan_state,
    plan_event,
)
from overhand.policy import NODE_MEASURES, usage_of_task, usage_with_nodes
from overhand.record import parse_log, whole_appends
from overhand.verbs.tasks import read_result, with_reports
from overhand.verbs.verb import Session
from overhand.words import SHOWN_VERIFICATIONS, is_task_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from overhand.plans import Plan
    from overhand.record import Task

    Row = dict[str, Any]

SCHEMA = "overhand.plan/1"
EVENTS = "plan.jsonl"
_PART = 1 << 20
_FEW = 200  # nodes whose tasks and results are read
# The word for a verified node is that of its task: whether anything was checked is shown beside it.
WORDS = {**{state: state for state in NODE_STATES}, VERIFIED: "completed"}
_SAID = {HELD: "waits for your approval", VERIFYING: "being checked"}
_SHORT = (FAILED, SKIPPED, STOPPED)
_LIVE = (STARTING, RUNNING, WAITING)
_WHYS = {
    "won": "another node was first",
    "failed": "another node failed",
    "budget": "the plan's budget is used up",
    "timeout": "the plan's time is over",
    "cancelled": "the plan was stopped",
}


class View:
    """A plan, read from its events; each look reads only new ones."""

    def __init__(self, session: Session, task_id: str) -> None:
        from overhand.plans import accepted_plan

        self.session, self.store, self.task_id = session, session.store, task_id
        self.plan: Plan = accepted_plan(session.store, session.store.task(task_id))
        self.state = new_plan_state(self.plan)
        self.tasks: dict[str, str] = {}  # by node
        self.began: dict[str, float] = {}  # by node, of the attempt that runs
        self.took: dict[str, float] = {}  # by node, of all attempts that ended
        self.proofs: dict[str, str] = {}  # by node, how far its result is verified
        self.first = self.last = 0.0  # of the whole plan
        self._handles: dict[str, int | None] = {}
        self._place = 0
        self._indents = _indents(self.plan)

    def look(self) -> bool:
        """Read on; whether anything was new."""
        try:
            fd = os.open(f"{self.store.record(self.task_id)}/{EVENTS}", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return False
        parts, place = [], self._place
        try:
            while part := os.pread(fd, _PART, place):
                parts.append(part)
                place += len(part)
        finally:
            os.close(fd)
        whole = whole_appends(b"".join(parts))
        self._place += len(whole)
        for event in filter(None, map(plan_event, parse_log(whole))):
            try:
                self._take(event)
            except (LookupError, TypeError, ValueError, AttributeError):
                continue  # damaged: what is shown is what the other events say
        return bool(whole)

    def _take(self, event: PlanEvent) -> None:
        advance_plan(self.plan, self.state, event)
        self.first = self.first or event.at
        self.last = event.at
        node = event.node
        if event.what == "Started":
            if is_task_id(event.facts.get("task", "")):
                self.tasks[node] = event.facts["task"]
            self.began[node] = event.at
        if event.what == "Ended":
            self.proofs[node] = str(event.facts.get("verification", "none"))
        if event.what in ("Ended", "Stopped") and node in self.began:
            took = self.took.get(node, 0.0) + max(0.0, event.at - self.began.pop(node))
            self.took[node] = float(event.facts.get("seconds", took))  # of all its runs, without the queue

    def states(self) -> dict[str, str]:
        """By node, in a word."""
        return {name: WORDS[self.state.nodes[name].state] for name in self.plan.nodes}

    def asks(self) -> bool:
        """Whether one of its nodes waits for a person; it is held a moment before its question is recorded."""
        nodes = self.state.nodes.items()
        if any(known.state == HELD for _, known in nodes) and self._asked(self.store.task(self.task_id)):
            return True
        waiting = [name for name, known in nodes if known.state == WAITING and name in self.tasks]
        return any(self._question(self.tasks[name]) for name in waiting)

    def payload(self, *, handles: bool = True) -> Row:
        """The tree of `plan show`; without `handles`, those of many finished nodes are not looked up."""
        own = self.store.task(self.task_id)
        asked = self._asked(own)
        now = time.time()
        rows = [self._row(name, now, asked, handles=handles) for name in self._indents]
        self._say_paused(rows)
        over = own.status is not None and not own.queued
        follow = [f"overhand plan show {own.name} --watch", f"overhand stop {own.name}"]
        if own.status is not None:
            resume = [] if own.status == "completed" else [f"overhand resume {own.name}"]
            follow = [f"overhand show {own.name}", *resume]
        return {
            "schema": SCHEMA,
            "do": "show",
            "task_id": self.task_id,
            **{
                key: getattr(own, key) for key in ("handle", "title", "status", "verification", "verified", "run_state")
            },
            "state": _state(own, self.state),
            "phase": self.state.phase,
            "seconds": round((self.last if over else now) - self.first, 1) if self.first else None,
            "tokens": self.state.spent,
            "strategy": self.plan.strategy or None,
            "merge": self.plan.merge.strategy,
            "counts": _counts([row["state"] for row in rows]),
            "nodes": rows,
            "next": follow,
        }

    def _row(self, name: str, now: float, asked: dict[str, str], *, handles: bool) -> Row:
        known = self.state.nodes[name]
        task_id = self.tasks.get(name)
        seconds = self.took.get(name, 0.0) + (now - self.began[name] if name in self.began else 0.0)
        waits = known.state in (HELD, WAITING)
        question = asked.get(name) or (self._question(task_id) if waits and task_id else None)
        whom = self.task_id if name in asked or not task_id else task_id
        looked_up = handles or known.state != VERIFIED or len(self.plan.nodes) <= _FEW
        said = _SAID.get(known.state, known.state)
        if known.state == VERIFIED:
            said = f"{known.status} {SHOWN_VERIFICATIONS.get(self.proofs.get(name, 'none'), '')}"
        elif known.state == WAITING:
            said = "waits for an answer" if question else "waits"
        return {
            "node": name,
            "indent": self._indents[name],
            "agent": known.agent,
            "state": WORDS[known.state],
            "said": said,
            "status": known.status or None,
            "verification": self.proofs.get(name),
            "attempt": known.attempt,
            "seconds": round(seconds, 1) if name in self.began or name in self.took else None,
            "tokens": known.spent,
            "needs": list(known.spec.needs),
            "task_id": task_id,
            "handle": self._handle(task_id) if task_id and looked_up else None,
            "question": question,
            "answer": f"overhand answer {self._handle(whom)} {'yes' if name in asked else 'TEXT'}"
            if question
            else None,
            "why": _WHYS.get(known.why, known.why) if known.state in _SHORT else "",
        }

    def _say_paused(self, rows: list[Row]) -> None:
        """Of nodes that a provider's limit keeps from going on, until when."""
        from overhand.agents import all_pauses, describe_pause, driver_of_task
        from overhand.policy import Config, load_config

        if not (paused := all_pauses(self.store)):
            return
        try:
            settings = load_config(self.store.root)
        except OverhandError:
            settings = Config()  # the error is reported where the settings matter
        for row in rows:
            if row["task_id"] and row["state"] in _LIVE:
                child = _task(self.session, row["task_id"])
                driver = driver_of_task(self.store.root, child, settings) if child and child.queued else ""
                row["said"] = describe_pause(driver, paused[driver]) if driver in paused else row["said"]

    def _handle(self, task_id: str) -> int | None:
        if task_id not in self._handles:
            child = _task(self.session, task_id)
            self._handles[task_id] = child.handle if child else None
        return self._handles[task_id]

    def _asked(self, own: Task) -> dict[str, str]:
        """By node, what a person is asked before it may begin."""
        from overhand.questions import full_question

        return {
            one.step.rpartition(".")[0]: full_question(self.store, self.task_id, one)
            for one in own.open_questions
            if one.step and one.step.rpartition(".")[0] in self.plan.nodes
        }

    def _question(self, task_id: str) -> str | None:
        from overhand.questions import full_question

        task = _task(self.session, task_id)
        asked = task.open_questions if task else []
        return full_question(self.store, task_id, asked[0]) if asked else None


def _task(session: Session, task_id: str | None) -> Task | None:
    """A node's task, unless it was removed."""
    try:
        return session.store.task(task_id) if task_id else None
    except NotFound:
        return None


def _indents(plan: Plan) -> dict[str, int]:
    """Every node below the last one that it waits for, and so how far to the right; in the order of the tree."""
    below: dict[str, list[str]] = {}
    roots = []
    place = {name: number for number, name in enumerate(plan.nodes)}
    for name, node in plan.nodes.items():
        before = [one for one in node.needs if one in place]
        if before:
            below.setdefault(max(before, key=place.__getitem__), []).append(name)
        else:
            roots.append(name)
    found: dict[str, int] = {}
    line = [(name, 0) for name in reversed(roots)]
    while line:
        name, indent = line.pop()
        if name not in found:
            found[name] = indent
            line += [(one, indent + 1) for one in reversed(below.get(name, ()))]
    return found | {name: 0 for name in plan.nodes if name not in found}


def _counts(states: list[str]) -> dict[str, int]:
    """How many are in each state, the last states first."""
    found = dict.fromkeys(reversed(WORDS.values()), 0)
    for state in states:
        found[state] += 1
    return {state: count for state, count in found.items() if count}


def _state(own: Task, state: PlanState) -> str:
    """The state of the whole plan, in a word."""
    if own.status is not None and not own.queued:
        return str(own.status)
    if own.queued or not own.runs:
        return "queued" if own.queued else "prepared"
    return state.phase


def line(view: View) -> str:
    """The plan in one line."""
    own, nodes = view.store.task(view.task_id), view.state.nodes.values()
    counts = _counts([WORDS[known.state] for known in nodes])
    live = [known.spec.id for known in nodes if known.state in LIVE_STATES][:4]
    text = f"{own.handle} plan: {_state(own, view.state)}"
    text += "".join(f", {count} {state}" for state, count in counts.items())
    return f"{text} · {', '.join(live)}" if live else text


def parts(session: Session, task: Task, result: Mapping[str, Any]) -> Row:
    """The nodes as they are, each with its checks, and the parts of the merge's result."""
    rows = result.get("nodes")
    if rows is None:
        rows = _by_now(session, task)
    for row in rows[:_FEW]:
        row.update(_checked(session, row["task_id"]))
    merged: Row = {name: result.get(name, []) for name in ("conflicts", "variants", "unfilled", "missing")}
    return {**merged, "nodes": rows, "provenance": result.get("provenance", {})}


def usage(session: Session, task: Task, result: Mapping[str, Any]) -> Row:
    """What it has used, which is what its nodes have: in its result, or as they are now."""
    own = usage_of_task(task)
    if "usage" in result:
        return {**own, **{name: result["usage"][name] for name in NODE_MEASURES}}
    ours = [s for s in session.store.tasks() if s.node and s.parent and s.parent.task == task.id]
    return usage_with_nodes(own, [usage_of_task(with_reports(session, one)) for one in ours])


def _by_now(session: Session, task: Task) -> list[Row]:
    """Nodes of a plan that is not judged, in the form of a result."""
    try:
        view = View(session, task.id)
    except Refused:
        return []  # its plan.json was changed
    view.look()
    seen = {row["node"]: row for row in view.payload(handles=False)["nodes"]}
    return [
        {
            "node": name,
            "task_id": view.tasks.get(name),
            "agent": known.agent,
            "state": known.state,
            "status": known.status or None,
            "verification": view.proofs.get(name, "none"),
            "attempts": known.attempt,
            "seconds": seen[name]["seconds"] or 0.0,
            "tokens": known.spent,
            "checks": None,
            "summary": "",
            "why": known.why,
        }
        for name, known in view.state.nodes.items()
    ]


def _checked(session: Session, task_id: str | None) -> Row:
    """The checks in a node's own result, and what was not verified."""
    task = _task(session, task_id)
    result = read_result(session, task) if task else {}
    facts = [(one["command"], one.get("kind", "command"), one["passed"]) for one in result.get("checks", ())]
    promised = [one for one in result.get("deliverables", ()) if "path" in one]
    facts += [(f"{one['path']} ({one['state']})", "deliverable", one["holds"]) for one in promised]
    return {
        "handle": task.handle if task else None,
        "checked": [{"command": text, "kind": kind, "passed": bool(passed)} for text, kind, passed in facts],
        "unverified": list(result.get("unverified", ())),
    }
