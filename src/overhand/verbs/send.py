"""`send`: a message to an agent, into its run where it can take one, else with its next turn in the same session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from overhand.agents import files, lookup, translator
from overhand.drafts.handoff import read_document
from overhand.errors import BadInput, NotAllowed, Refused
from overhand.policy import config as configs
from overhand.policy import trust
from overhand.policy.caller import caller
from overhand.questions import record
from overhand.record.events import Accepted
from overhand.runs import messages, spending
from overhand.supervisor import client
from overhand.verbs import Reply, Session
from overhand.verbs.control import may_run
from overhand.verbs.reconcile import refresh
from overhand.verbs.resume import unanswered
from overhand.verbs.tasks import waits

if TYPE_CHECKING:
    from overhand.policy.caller import Caller
    from overhand.record.store import LockedTask
    from overhand.record.task import Run, Task

_MOST = 100_000  # characters


def send(session: Session, id: str, text: list[str] | str | None = None, file: str | None = None) -> Reply:
    """Record a message, once; whoever runs the task hands it over."""
    said = _text(text, file)
    who = caller(session.store)
    task_id = session.store.resolve(id)
    task = refresh(session, session.store.task(task_id))
    _may_send(session, who, task)
    if task.is_plan:
        return _to_nodes(session, who, task, said)
    return Reply(_to_one(session, who, task_id, said) or {})


def _to_one(session: Session, who: Caller, task_id: str, said: str, *, again: bool = True) -> dict[str, Any] | None:
    """Record it, and see that it gets there; without `again`, a task that has ended is left alone."""
    with session.store.lock(task_id, who.by(session.via)) as locked:
        if not again and not _is_open(locked.task):
            return None
        how = _record(locked, said)
        task = locked.task
    message = task.messages[-1]
    if how == "into its run":
        record.deliver(session.store, task_id, task.questions[-1], said)
    if task.queued or task.current_run:
        client.hand_over(session.store, [task_id])
    handle = task.handle or task_id
    reason = waits(session, task_id) if how == "in a new run" else None
    return {
        "schema": "overhand.send/1",
        "task_id": task_id,
        "handle": task.handle,
        "title": task.title,
        "agent": task.agent,
        "n": message.n,
        "state": "queued" if message.run is None else "delivered",
        "how": how,
        "message": _TOLD["in a later run" if reason else how].format(agent=task.agent),
        "reason": reason,
        "next": [f"overhand wait {handle}", f"overhand show {handle}"],
    }


def _is_open(task: Task) -> bool:
    return bool(task.status is None or task.queued or task.current_run)


def _to_nodes(session: Session, who: Caller, task: Task, said: str) -> Reply:
    """What is sent to a plan goes to every node that has not ended; those that begin later find it in their context."""
    task_id, current = task.id, task.current_run
    with session.store.lock(task_id, who.by(session.via)) as locked:
        locked.append(messages.event(locked.folder, said).replace(run=current.id if current else None), sync=True)
        task = locked.task
    client.hand_over(session.store, [task_id])
    nodes = [s for s in session.store.tasks() if s.node and s.parent and s.parent.task == task_id]
    told = [one for s in nodes if s.status is None and (one := _to_node(session, who, s.id, said))]
    handle = task.handle or task_id
    return Reply(
        {
            "schema": "overhand.send/1",
            "task_id": task_id,
            "handle": task.handle,
            "title": task.title,
            "agent": task.agent,
            "n": task.messages[-1].n,
            "state": "delivered" if current else "queued",
            "how": "to its nodes",
            "message": f"Nodes at work that get it now: {len(told)}; every node that begins later gets it too.",
            "reason": None,
            "nodes": [{"task_id": one["task_id"], "handle": one["handle"], "how": one["how"]} for one in told],
            "next": [f"overhand wait {handle}", f"overhand show {handle}"],
        }
    )


def _to_node(session: Session, who: Caller, task_id: str, said: str) -> dict[str, Any] | None:
    """A node that has ended meanwhile is not begun again: its plan has its result."""
    task = refresh(session, session.store.task(task_id))
    if not _is_open(task):
        return None
    _may_send(session, who, task)
    return _to_one(session, who, task_id, said, again=False)


_TOLD = {
    "into its run": "{agent} found it as an answer in its ipc folder.",
    "when its run ends": "{agent} takes no message at work; it gets this when its run ends, in the same session.",
    "with its next run": "{agent} gets it with its next run.",
    "in a later run": "{agent} goes on with it as soon as it may, in the same session where it has one.",
    "in a new run": "{agent} goes on with it now, in the same session where it has one.",
}


def _text(text: list[str] | str | None, file: str | None) -> str:
    if text is not None and file is not None:
        raise BadInput("Words and --file at once are one too many.", "Put all of it into the file, or all into words.")
    if text is None and file is None:
        raise BadInput("Send what?", 'Either words or a file: overhand send 3 "use tabs", or --file notes.md')
    words = text if isinstance(text, str) else " ".join(text or ())
    said = (read_document(file) if file is not None else words).strip()
    if not said:
        raise BadInput("The message is empty.", "Write what the agent is to know.")
    if len(said) > _MOST:
        raise BadInput(
            f"The message has {len(said)} characters; {_MOST} are the most.",
            "Put it into a file of the project and name that.",
        )
    return said


def _may_send(session: Session, who: Caller, task: Task) -> None:
    """A person, or the run that delegated the task; and somebody must be there who can be told."""
    handle = task.name
    if not who.is_person and not (task.parent and task.parent.run == who.run):
        raise NotAllowed(
            f"Task {handle} was not delegated by this run; it cannot send to it.", "Ask the person who started it."
        )
    if task.created is None:
        raise Refused(f"Task {handle} is a folder that nobody started.", f"Start it: overhand run {handle}")
    if task.runs and task.runs[-1].attached and translator(task.runs[-1].driver) is None:
        raise Refused(
            f"{task.agent} is a function in a Python process; it cannot be sent anything.",
            "Delegate a new task to it.",
        )
    if _is_open(task):
        return
    if task.is_plan:
        raise Refused(f"Task {handle} is a plan that has ended.", "Send it to the node that is to go on.")
    if not task.runs:
        raise Refused(f"Task {handle} never ran ({task.status}).", f"Start it again: overhand run {handle}")
    if task.open_questions:
        raise unanswered(task)
    may_run(session, task, again=True)
    config = configs.of_task(session.root, configs.load(session.root), task.settings)
    trust.require(session.root, files.find(session.root, task.agent, config).trusted_with)
    trust.require_seal(task)
    spending.require_some_left(session.store, task)


def _record(locked: LockedTask, text: str) -> str:
    """One write: the message, and what it starts; who dies before it has sent nothing, who dies after it has."""
    task, made = locked.task, messages.event(locked.folder, text)
    current = task.current_run
    if task.queued or (task.status is None and current is None):
        locked.append(made, sync=True)
        return "with its next run"
    if current is None:
        going_on = Accepted(resume={"run": task.runs[-1].id, "why": "a message"})
        locked.append(made, going_on, sync=True)
        return "in a new run"
    if not _takes_messages(current):
        locked.append(made, sync=True)
        return "when its run ends"
    n = len(task.messages) + 1
    handed = record.Asking(text=f"Message {n}", via="control", cause=f"message:{n}")
    locked.append(made.replace(run=current.id), *record.handed_over(locked, current.id, handed, text), sync=True)
    return "into its run"


def _takes_messages(current: Run) -> bool:
    """A command that hears us by CONTROL lines also looks at its ipc folder; no coding agent does within a turn."""
    driver = lookup(current.driver)
    return bool(driver and driver.reads_ipc) and current.control and current.state == "running"
