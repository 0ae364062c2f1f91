"""Going on with a task: the next run's HANDOFF.md tells what the last one left, and which answers came."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from overhand.documents import context as contexts
from overhand.documents.layout import contain
from overhand.documents.markdown import headings, sections
from overhand.documents.text import decode, shorten
from overhand.questions import record
from overhand.record import model
from overhand.runs import context as closing
from overhand.runs import messages, steps
from overhand.system.edits import edit
from overhand.system.files import read_file

if TYPE_CHECKING:
    from overhand.documents.markdown import Part
    from overhand.record.store import Store
    from overhand.record.task import State

_HEADING = re.compile(r"^(#{1,6} )", re.MULTILINE)
TITLE = "Previous Worker Context"
_MOST = 6000  # characters of an earlier worker's words; the rest is one file away


def write_previous(store: Store, state: State) -> None:
    """Put what the next run must know into HANDOFF.md, and open the steps again that were stuck; once or again."""
    if state["resume"] is None or not state["runs"]:
        return
    path = f"{store.folder(state['task_id'])}/HANDOFF.md"
    body = previous(store, state)
    edit(path, lambda raw: _section(raw, body))
    edit(path, _reopened)


def previous(store: Store, state: State) -> str:
    """What is known from earlier runs, for the next worker."""
    how = state["resume"] or {}
    last = next((run for run in state["runs"] if run["id"] == how.get("run")), state["runs"][-1])
    place = store.run_folder(state["task_id"], last["id"])
    ended = f"Run {last['id']} by {last['agent']} ended ({last['cause']})"
    how_it_went = "at its provider's limit" if last["status"] == "limit" else f"judged {last['status']}"
    parts = [f"{ended}, {how_it_went}. Steps marked `[x]` are done; go on with the first that is not."]
    if how.get("problem"):
        parts.append(f"**What was wrong with it:** {how['problem']}")
    if how.get("note"):
        parts.append(f"**From the person:** {how['note']}")
    if sent := [f"- {messages.whole(store, state['task_id'], one)}" for one in state["messages"] if one["run"]]:
        parts.append("**Sent to the worker before:**\n\n" + shorten("\n".join(sent), _MOST))
    if answers := [
        f"- Question {q['seq']}: {record.text_of(store, state['task_id'], q)}\n"
        f"  **Answer:** {record.whole_answer(store, state['task_id'], q)}"
        for q in state["questions"]
        if q["answered"] is not None
    ]:
        parts.append("**Answered since it was asked:**\n\n" + "\n".join(answers))
    if how.get("from"):
        parts.append(_checkpoint(store, state, str(how["from"])))
    parts.append(_left_behind(place, store.relative(place)))
    return "\n\n".join(part for part in parts if part)


def _checkpoint(store: Store, state: State, name: str) -> str:
    raw = read_file(f"{store.folder(state['task_id'])}/checkpoints/{name}.md")
    if raw is None:
        return ""
    return f"**Go on from checkpoint {name}:**\n\n" + shorten(decode(raw)[0].strip(), _MOST)


def _left_behind(place: str, shown: str) -> str:
    """The gist of the last CONTEXT.md, which was moved to its run's folder or still lies in the task's."""
    folder = os.path.dirname(os.path.dirname(place))
    raw = read_file(f"{place}/CONTEXT.md") or read_file(f"{folder}/CONTEXT.md")
    if raw is None:
        return ""
    context, _ = contexts.parse(decode(raw.removesuffix(closing.OURS))[0])
    told = [
        f"**{title}:**\n\n{shorten(body, _MOST)}"
        for title, body in (
            ("Progress", context.progress),
            ("Where it stood", context.state),
            ("What stopped it", context.blocking),
            ("Handoff", context.handoff),
        )
        if body.strip()
    ]
    return "\n\n".join([*told, f"The whole of it: `{shown}/CONTEXT.md`."])


def _section(raw: bytes, body: str) -> tuple[int, int, bytes] | None:
    """Where our section stands, or will stand, and what it is to say; the other bytes stay as they are."""
    text = raw.decode("utf-8", "surrogateescape")
    ending = "\r\n" if "\r\n" in text else "\n"
    level = _level(text)
    shown = contain(body) if level == 2 else _HEADING.sub(r"\\\1", contain(body))
    told = f"{'#' * level} {TITLE}\n\n{shown}\n".replace("\n", ending)
    ours = _ours(text)
    if ours:
        start, end = ours[0].start, ours[0].end
        told += ending if end < len(text) else ""
    else:
        start = end = len(text)
        at_end = ("" if text.endswith("\n") or not text else ending) + ending + told
        earlier = [part.start for part in sections(text, level) if part.level]
        if _ours(text + at_end) or not earlier:
            told = at_end
        else:  # a fence or a comment was never closed: nothing behind it would be seen as a section
            start = end = next((at for at in reversed(earlier) if _ours(text[:at] + told + text[at:])), earlier[0])
            told += ending
    new = told.encode("utf-8", "surrogateescape")
    at = len(text[:start].encode("utf-8", "surrogateescape"))
    until = len(text[:end].encode("utf-8", "surrogateescape"))
    return None if raw[at:until] == new else (at, until, new)


def _level(text: str) -> int:
    """Of the document's sections: whoever writes ### means it throughout."""
    return max(2, min((one[0] for one in headings(text)), default=2))


def _ours(text: str) -> list[Part]:
    return [part for part in sections(text, _level(text)) if part.title.strip().casefold() == TITLE.casefold()]


def _reopened(raw: bytes) -> tuple[int, int, bytes] | None:
    """Steps that waited, failed or were under way are open again, without what stood behind them."""
    new = raw
    while stuck := next((item for item in steps.read(new) if item.marker in "?!~"), None):
        new = steps.change(new, stuck, " ", "")
    return None if new == raw else (0, len(raw), new)


def is_resumable(state: State) -> bool:
    """Whether a task ended short and nobody is at it."""
    short = state["status"] in ("partial", "blocked", "needs-input", "failed", "cancelled")
    return short and not state["queued"] and model.current_run(state) is None and bool(state["runs"])
