"""What a person sends to an agent: recorded once, handed over once, with a run or into one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from overhand.agents import stream_summary
from overhand.documents import shorten
from overhand.questions import keep_text, kept_text
from overhand.record import MessageSent
from overhand.system import dump_line

if TYPE_CHECKING:
    from overhand.record import Message, Store, Task

_LONG = 1500  # characters; what is longer is kept in a file
_ROOM = 3500


def message_event(task_folder: str, text: str) -> MessageSent:
    """The event of a message; a long one is kept in a file first."""
    made = MessageSent(text=text)
    if len(text) > _LONG or len(dump_line(made.line)) > _ROOM:
        return made.replace(text=shorten(text, _LONG // 4), blob=keep_text(task_folder, text))
    return made


def whole_message(store: Store, task_id: str, message: Message) -> str:
    """The message as it was sent, however long."""
    return kept_text(store, task_id, message.blob, message.text)


def shown_messages(store: Store, task: Task) -> list[dict[str, Any]]:
    """Each message and its state: queued, delivered (a run has it), read (that run has printed something since)."""
    return [
        {"n": one.n, "text": one.text, "sent": one.sent, "run": one.run, "state": _came(store, task, one)}
        for one in task.messages
    ]


def _came(store: Store, task: Task, message: Message) -> str:
    if message.run is None:
        return "queued"
    run = task.run(message.run)
    if run is None or run.created < message.sent:  # it was running already, so its output tells nothing
        return "delivered"
    summary = stream_summary(store.run_folder(task.id, run.id), run.driver)
    return "read" if summary is not None and (summary.text or summary.tools) else "delivered"
