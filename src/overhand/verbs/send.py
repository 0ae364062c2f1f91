"""`send`: a message to an agent, into its run where it reads messages, else with its next turn in the same session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from overhand.agents import find_agent, lookup, translator
from overhand.drafts import read_document
from overhand.errors import BadInput, NotAllowed, Refused
from overhand.policy import config_of_task, find_caller, load_config, require_known, require_trusted
from overhand.questions import Asking, deliver_answer, hand_over_events
from overhand.record import Accepted, keep_environment
from overhand.runs import message_event, require_budget_left
from overhand.verbs.control import require_runnable
from overhand.verbs.resume import unanswered_refusal
from overhand.verbs.tasks import reason_to_wait, refresh_task
from overhand.verbs.verb import Reply, Session, about_task

if TYPE_CHECKING:
    from overhand.policy import Caller
    from overhand.record import LockedTask, Task

_MOST = 100_000  # characters


def send_message(session: Session, id: str, text: list[str] | str | None = None, file: str | None = None) -> Reply:
    """Record a message, once; the process that runs the task delivers it."""
    message = _text(text, file)
    caller = find_caller(session.store)
    require_known(caller, "Sending a message")
    task_id = session.store.resolve(id)
    task = refresh_task(session, session.store.task(task_id))
    _may_send(session, caller, task)
    if task.is_plan:
        return Reply(_to_nodes(session, caller, task, message))
    return Reply(_to_one(session, caller, task_id, message) or {})


def _to_one(session: Session, caller: Caller, task_id: str, text: str, *, again: bool = True) -> dict[str, Any] | None:
    """Record it, and see that it is delivered; without `again`, a task that has ended is left alone."""
    with session.store.lock(task_id, caller.by(session.via)) as locked:
        if not again and not _is_open(locked.task):
            return None
        if not (locked.task.queued or locked.task.current_run):
            keep_environment(session.store, task_id, session.env)
        how = _record(locked, text)
        task = locked.task
    if how == "into its run":
        deliver_answer(session.store, task_id, task.questions[-1], text)
    held = session.hand_over([task_id]) if task.queued or task.current_run else ""
    reason = held or (reason_to_wait(session, task_id) if how == "in a new run" else None)
    return _receipt(
        task,
        state="queued" if task.messages[-1].run is None else "delivered",
        how=how,
        message=_TOLD["in a later run" if reason else how].format(agent=task.agent),
        reason=reason,
    )


def _receipt(task: Task, **more: Any) -> dict[str, Any]:
    head = about_task("send", task, "title", "agent")
    follow = [f"overhand wait {task.name}", f"overhand show {task.name}"]
    return {**head, "n": task.messages[-1].n, **more, "next": follow}


def _is_open(task: Task) -> bool:
    return bool(task.status is None or task.queued or task.current_run)


def _to_nodes(session: Session, caller: Caller, task: Task, text: str) -> dict[str, Any]:
    """A message to a plan goes to every node that has not ended; nodes that begin later find it in their context."""
    task_id, current = task.id, task.current_run
    with session.store.lock(task_id, caller.by(session.via)) as locked:
        locked.append(message_event(locked.record, text).replace(run=current.id if current else None), sync=True)
        task = locked.task
    held = session.hand_over([task_id])
    reached = []
    for child in session.store.tasks():
        if child.status is None and child.node and child.parent and child.parent.task == task_id:
            node = refresh_task(session, session.store.task(child.id))
            if _is_open(node):  # one that has ended is not started again: its plan has its result
                _may_send(session, caller, node)
                if sent := _to_one(session, caller, node.id, text, again=False):
                    reached.append({key: sent[key] for key in ("task_id", "handle", "how")})
    return _receipt(
        task,
        state="delivered" if current else "queued",
        how="to its nodes",
        message=f"Nodes at work that get it now: {len(reached)}; every node that begins later gets it too.",
        reason=held or None,
        nodes=reached,
    )


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


def _may_send(session: Session, caller: Caller, task: Task) -> None:
    """A person may, or the run that delegated the task; and its agent must be able to take a message."""
    handle = task.name
    if not caller.is_person and not (task.parent and task.parent.run == caller.run):
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
        raise unanswered_refusal(task)
    require_runnable(session, task, again=True)
    config = config_of_task(session.root, load_config(session.root), task.settings)
    require_trusted(session.root, find_agent(session.root, task.agent, config).trusted_with)
    require_budget_left(session.store, task)


def _record(locked: LockedTask, text: str) -> str:
    """The message and what it starts, in one write: a crash leaves both or none."""
    task, made = locked.task, message_event(locked.record, text)
    current = task.current_run
    if task.queued or (task.status is None and current is None):
        locked.append(made, sync=True)
        return "with its next run"
    if current is None:
        going_on = Accepted(resume={"run": task.runs[-1].id, "why": "a message"})
        locked.append(made, going_on, sync=True)
        return "in a new run"
    driver = lookup(current.driver)
    if not (driver and driver.reads_ipc and current.control and current.state == "running"):
        locked.append(made, sync=True)  # no coding agent looks at its ipc folder within a turn
        return "when its run ends"
    n = len(task.messages) + 1
    handed = Asking(text=f"Message {n}", via="control", cause=f"message:{n}")
    locked.append(made.replace(run=current.id), *hand_over_events(locked, current.id, handed, text), sync=True)
    return "into its run"
