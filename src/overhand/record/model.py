"""The words of Overhand and the fold: what a task's events mean.

Events are plain dictionaries, as they stand in the log; what they add up to is a `Task`.
"""

from __future__ import annotations

from overhand.record.task import Amount, Check, Item, Message, Parent, Question, Run, ShownTag, Task, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from overhand.record.task import Event

_CREATED = ("handle", "title", "agent", "kind", "priority", "path", "depth", "level", "timeout",
            "contract", "after", "settings", "model", "budget", "strict", "handoff", "seal",
            "cause", "node", "plan")  # fmt: skip


def fold(task_id: str, events: Iterable[Event]) -> Task:
    """What the events of one task add up to; unknown events change nothing."""
    task = Task(task_id)
    for event in events:
        apply(task, event)
    return task


def apply(task: Task, event: Event) -> None:
    """Take one event into the task, in place."""
    name = event.get("e")
    if name in _FOLDS:
        _FOLDS[name](task, event)
        if "cause" in event and name not in ("run.ended", "created"):  # an effect of output: carried out once
            task.causes[event["cause"]] = str(name)


def _created(task: Task, event: Event) -> None:
    task.created = event.get("t")
    vars(task).update({key: event[key] for key in _CREATED if key in event})
    if event.get("parent"):
        task.parent = Parent(**event["parent"])
    if event.get("checks"):
        task.checks = [Check(**check) for check in event["checks"]]
    if event.get("item"):
        task.item = Item(**event["item"])


def _accepted(task: Task, event: Event) -> None:
    task.queued, task.queued_at = True, event.get("t")
    task.status = task.judged = task.stop = None
    task.seen = False
    task.resume, task.staged = event.get("resume"), None
    task.paused = event.get("limit")
    if event.get("limit"):  # its provider's limit: nothing is spent, and what it was about stays
        if task.runs and not task.runs[-1].is_judged:
            task.runs[-1].status = "limit"
            task.queued_at = task.runs[-1].queued_at  # it keeps its place
        task.agent = event.get("agent") or task.agent
    elif event.get("repair"):
        task.repairs += 1
        task.runs[-1].status = "repair"
    else:
        task.repairs = 0
        task.requeued = task.requeued + 1 if event["e"] == "requeued" else 0
        task.agent = event.get("agent") or task.agent
        task.budget = event.get("budget") or task.budget


def _run_created(task: Task, event: Event) -> None:
    task.runs.append(_new_run(event, task.queued_at))
    task.queued, task.queued_at = False, None
    task.paused = None
    if task.tag:
        task.tag.claiming = True
    for message in task.pending_messages:
        if message.n in event.get("messages", ()):
            message.run = event["run"]


def _run_started(task: Task, event: Event) -> None:
    run = task.run(event.get("run"))
    if run and run.state == "starting":
        run.state, run.shim = "running", event.get("shim")


def _notice(task: Task, event: Event) -> None:
    task.notices = [*task.notices, str(event.get("text", ""))][-20:]


def _new_run(event: Event, queued_at: str | None) -> Run:
    return Run(
        id=event["run"], agent=event.get("agent", ""), driver=event.get("driver", ""),
        attached=bool(event.get("attached")), state="starting", cause=None, exit=None,
        created=event.get("t", ""), mono=event.get("mono", 0.0), boot=event.get("boot", ""),
        machine=event.get("machine", ""), pidns=event.get("pidns", ""),
        timeout=event.get("timeout", 0.0), shim=None, ended=None, status=None, leftovers=[],
        control=bool(event.get("control")), waiting=None, waited=0.0, usage=None, queued_at=queued_at,
    )  # fmt: skip


def _end_run(task: Task, event: Event) -> None:
    run = task.run(event.get("run"))
    if run is None or run.has_ended:
        return
    if event.get("never_began"):  # nothing ran: no attempt is spent and the task is queued again
        task.runs.remove(run)
        task.queued, task.queued_at = True, event.get("t")
        for message in task.messages:
            if message.run == run.id:
                message.run = None  # nobody has read it
        return
    if run.waiting is not None:  # who ends soon after its answer was not seen to go on
        run.waited += max(0.0, event.get("mono", 0.0) - run.waiting)
    run.state, run.ended, run.leftovers = "ended", event.get("t"), event.get("leftovers", [])
    run.cause, run.exit = event.get("cause"), event.get("exit")


def _judge(task: Task, event: Event) -> None:
    run = task.run(event.get("run"))
    if run:
        run.status = event.get("status")
    task.status, task.verified = event.get("status"), event.get("verified", "none")
    task.summary, task.output = event.get("summary", ""), event.get("output")
    task.judged, task.judged_run = event.get("t"), event.get("run")
    task.queued, task.queued_at, task.stop = False, None, None


def _asked(task: Task, event: Event) -> None:
    known = task.question(event.get("seq"))
    if known is not None:  # asked again by a later run: the same record
        known.run = event.get("run")
        return
    task.questions.append(Question(
        seq=event["seq"], stem=event.get("stem") or f"{event['seq']:03d}",
        text=event.get("question", ""), options=event.get("options", []),
        closed=bool(event.get("closed")), step=event.get("step", ""), via=event.get("via", "file"),
        run=event.get("run"), asked=event.get("t", ""), answered=None, answer=None, blob=None,
        sha=event.get("sha", ""),
    ))  # fmt: skip


def _answered(task: Task, event: Event) -> None:
    known = task.question(event.get("seq"))
    if known is not None and known.is_open:
        known.answered, known.answer = event.get("t", ""), event.get("answer")
        known.blob = event.get("blob")


def _waiting(task: Task, event: Event) -> None:
    run = task.run(event.get("run"))
    if run and not run.has_ended and run.waiting is None:
        run.waiting = event.get("mono", 0.0)


def _going(task: Task, event: Event) -> None:
    run = task.run(event.get("run"))
    if run and run.waiting is not None:
        run.waited += max(0.0, event.get("mono", 0.0) - run.waiting)
        run.waiting = None


def _usage(task: Task, event: Event) -> None:
    run = task.run(event.get("run"))
    if run:
        run.usage = Usage(
            input=event.get("input", 0), output=event.get("output", 0), usd=event.get("usd", 0.0),
            turns=event.get("turns", 0), context=event.get("context", 0), window=event.get("window", 0),
            estimated=bool(event.get("estimated")),
        )  # fmt: skip


def _reserved(task: Task, event: Event) -> None:
    task.reserved[event["child"]] = Amount(tokens=event.get("tokens", 0), usd=event.get("usd", 0.0))


def _settled(task: Task, event: Event) -> None:
    task.reserved.pop(event["child"], None)
    task.settled[event["child"]] = Amount(tokens=event.get("tokens", 0), usd=event.get("usd", 0.0))


def _phase(task: Task, event: Event) -> None:
    task.phase = event.get("phase")
    task.phases.append(event)


def _tagged(task: Task, event: Event) -> None:
    repairs = [*(task.tag.repairs if task.tag else ()), *([event["t"]] if event.get("repair") else ())]
    task.tag = ShownTag(
        stage=event.get("stage", ""), path=event.get("path", ""), run=event.get("run", ""),
        claiming=event.get("stage") == "claimed", repairs=repairs[-10:],
    )  # fmt: skip


def _staged(task: Task, event: Event) -> None:
    task.staged = event
    task.queued, task.queued_at = False, None


def _message(task: Task, event: Event) -> None:
    task.messages.append(Message(
        n=len(task.messages) + 1, text=event.get("text", ""), blob=event.get("blob"),
        sent=event.get("t", ""), run=event.get("run"),
    ))  # fmt: skip


def _stop(task: Task, event: Event) -> None:
    task.stop = event.get("why") or "stopped"


def _seen(task: Task, _event: Event) -> None:
    task.seen = True


_FOLDS: dict[object, Callable[[Task, Event], None]] = {
    "created": _created, "accepted": _accepted, "requeued": _accepted,
    "run.created": _run_created, "run.started": _run_started, "run.ended": _end_run, "judged": _judge,
    "stop": _stop,
    "notice": _notice, "asked": _asked, "answered": _answered,
    "seen": _seen,
    "run.waiting": _waiting, "run.going": _going, "usage": _usage, "reserved": _reserved, "settled": _settled,
    "phase": _phase, "tagged": _tagged, "staged": _staged, "message": _message,
    "checkpoint": lambda state, event: state.checkpoints.append(event),
    "control": lambda state, event: state.controls.append(event),
    "limit": lambda state, event: state.limits.append(str(event.get("key"))),
}  # fmt: skip


def headline(task: Task) -> str:
    """The one grouping people see."""
    status = task.status
    if status in ("needs-input", "blocked"):
        return "needs you"
    if status not in ("completed", "cancelled", "rejected") and not task.queued and task.open_questions:
        return "needs you"
    if status == "completed":
        return "done" if task.seen else "ready"
    if status is not None:
        return "stopped"
    if task.queued and task.paused and "to" not in task.paused:
        return "working"  # it waits for its provider
    if is_for_a_person(task):
        return "needs you"
    return "working" if task.current_run and not task.queued else "queued"


def is_for_a_person(task: Task) -> bool:
    """Whether it is an approved item that a person is to open: its route says so."""
    item, shown = task.item, task.tag
    if item is None or shown is None or item.mode != "interactive" or shown.stage != "delegated":
        return False
    return task.status is None and not task.queued and not task.staged and task.current_run is None
