"""What the next run is told: what a run that ended short leaves to it (`handoff.md` in its folder, CONTEXT.md, and what
HANDOFF.md then says of it), and what a person sends."""

from __future__ import annotations

import os
import re
from textwrap import indent
from typing import TYPE_CHECKING, Any

from overhand.agents import read_end, stream_summary
from overhand.documents import (
    Context,
    Quick,
    contain_in_section,
    decode_text,
    done_entry,
    markdown_headings,
    markdown_sections,
    parse_context,
    parse_quick,
    quick_text,
    render_context,
    render_quick,
    shorten,
    too_wordy,
    upcoming_entry,
)
from overhand.questions import full_answer, full_question, keep_text, kept_text
from overhand.record import MessageSent
from overhand.runs import steps
from overhand.runs.checks import last_lines
from overhand.system import dump_line, now_stamp, random_text, read_file, write_file

if TYPE_CHECKING:
    from overhand.documents import Part
    from overhand.record import Message, Run, RunFolders, Store, Task
    from overhand.runs.judge import Verdict
    from overhand.runs.steps import StepItem

TITLE = "Previous Worker Context"
_FOUND = "Found By Overhand"  # below what the agent says itself
_OURS = b"<!-- overhand -->\n"
_MANY = 12  # steps and problems that are listed; a handoff is read in a minute
_MOST = 6000  # characters of an earlier worker's text; the rest is one file away
_HEADING = re.compile(r"^(#{1,6} )", re.MULTILINE)
_LONG = 1500  # characters; what is longer is kept in a file
_ROOM = 3500


def _quick_handoff(task: Task, run: Run, verdict: Verdict, plan: list[StepItem]) -> Quick:
    left = [item.text for item in plan if item.marker != "x"]
    progress = f"{len(plan) - len(left)}/{len(plan)} steps · " if plan else ""
    gotchas = [p.message for p in verdict.errors[:5]]
    if alive := run.leftovers:
        gotchas.append(f"Processes of this run were still alive: {', '.join(map(str, alive[:10]))}.")
    return Quick(
        session=run.id,
        status=f"{progress}ended by {run.cause}, judged {verdict.status}",
        next=left[0] if left else f"HANDOFF.md of task {task.id}",
        text=verdict.summary,
        state=marked(plan),
        gotchas=tuple(gotchas),
    )


def _context(store: Store, task: Task, run: Run, verdict: Verdict, plan: list[StepItem], handoff: str) -> Context:
    """CONTEXT.md, from the log, the plan, the questions and the last output; `handoff` is quoted in it."""
    tail = verdict.last_words or tail_of_file(f"{store.run_folder(task.id, run.id)}/stdout")
    asked = [f"- Question {q.seq} is open: {full_question(store, task.id, q)}" for q in task.open_questions]
    progress = "The task has no plan to measure progress by."
    if plan:
        done = sum(item.marker == "x" for item in plan)
        listed = [f"- [{item.marker}] {item.text}" for item in plan[:50]]
        progress = "\n".join([f"{done} of {len(plan)} steps are done.", "", *listed])
    return Context(
        task_id=task.id,
        dumped=now_stamp(),
        reason=run.cause or "exit",
        progress=progress,
        state=f"Run {run.id} by {run.agent} ended ({run.cause}), judged {verdict.status}."
        + (f"\n\nThe end of what it printed:\n\n```text\n{tail}\n```" if tail else ""),
        blocking="\n".join([*asked, *_errors(verdict)]) or verdict.summary,
        resume=_how_to_resume(task, verdict),
        handoff=handoff,
    )


def _errors(verdict: Verdict) -> list[str]:
    """What is wrong, each with the end of what a program printed about it."""
    shown = ((one.message, one.detail) for one in verdict.errors[:_MANY])
    return [f"- {message}{in_fence(detail)}" for message, detail in shown]


def in_fence(text: str) -> str:
    """What a program printed, below the entry of a list."""
    return f"\n\n  ```text\n{indent(text, '  ')}\n  ```\n" if text else ""


def _how_to_resume(task: Task, verdict: Verdict) -> str:
    handle = task.name
    answers = [f"overhand answer {handle} {q.seq} TEXT" for q in task.open_questions]
    after = "The next run starts by itself, from the first open step."
    if verdict.status == "cancelled":  # an answer alone does not undo a person's stop
        after = f"It was stopped by a person. To go on after all: overhand resume {handle}"
    if answers:
        return f"1. Answer: {' · '.join(answers)}\n2. {after}"
    if verdict.status == "cancelled":
        return f"1. {after}"
    return f"1. Look at it: overhand show {handle}\n2. Go on from here: overhand resume {handle}"


def plan_of(store: Store, task_id: str) -> list[StepItem]:
    """The steps of the plan as they are marked now."""
    raw = store.workspace_files(task_id).read("HANDOFF.md")
    return steps.read_steps(raw) if raw is not None else []


def marked(plan: list[StepItem]) -> tuple[str, ...]:
    """The last steps that are done and the first that are not, as a quick handoff lists them."""
    done = [done_entry(item.text) for item in plan if item.marker == "x"]
    left = [upcoming_entry(item.text) for item in plan if item.marker != "x"]
    return (*done[-_MANY:], *left[:_MANY])


def leave(store: Store, task: Task, ended: Run, verdict: Verdict) -> str:
    """Write the run's handoff.md and return the text of CONTEXT.md; what the agent wrote itself comes first."""
    plan = plan_of(store, task.id)
    place = store.run_folder(task.id, ended.id)
    handoff = _own_handoff(f"{place}/handoff.md")
    if handoff is None:
        made = _quick_handoff(task, ended, verdict, plan)
        write_file(f"{place}/handoff.md", _signed(render_quick(made)))
        handoff = quick_text(made)
    for kept in (read_file(f"{place}/CONTEXT.md"), store.workspace_files(task.id).read("CONTEXT.md")):
        if kept is not None and kept.strip() and not kept.endswith(_OURS):
            found = f"\n\n## {_FOUND}\n\n" + "\n".join(_errors(verdict)) if verdict.errors else ""
            return decode_text(kept)[0].rstrip() + found.rstrip() + "\n"
    return _signed(render_context(_context(store, task, ended, verdict, plan, handoff)))


def _own_handoff(path: str) -> str | None:
    """The agent's own handoff.md as it is quoted; what cannot be one is moved aside."""
    raw = read_file(path)
    if raw is not None and not raw.endswith(_OURS):
        text = decode_text(raw)[0]
        if not any(p.code == "handoff-too-long" for p in too_wordy(text, text)):
            return quick_text(parse_quick(text)[0])
        os.rename(path, f"{path[:-3]}-refused.md")
    elif os.path.isdir(path) and not os.path.islink(path):
        os.rename(path, f"{path}-aside-{random_text(6)}")
    return None


def _signed(text: str) -> str:
    return f"{text.rstrip()}\n\n{_OURS.decode()}"


def tail_of_file(path: str, size: int = 1500) -> str:
    """The end of what was printed, as it may stand in a fence."""
    return last_lines(read_end(path, size)[0].decode("utf-8", "ignore"))


def write_previous_runs(store: Store, task: Task) -> None:
    """Put what the next run must know into HANDOFF.md, and open the steps again that were stuck; once or again."""
    if task.resume is None or not task.runs:
        return
    files, body = store.workspace_files(task.id), previous(store, task)
    files.edit("HANDOFF.md", lambda raw: _section(raw, body))
    files.edit("HANDOFF.md", _reopened)


def previous(store: Store, task: Task) -> str:
    """What is known from earlier runs, for the next worker."""
    how = task.resume or {}
    last = task.run(how.get("run")) or task.runs[-1]
    ended = f"Run {last.id} by {last.agent} ended ({last.cause})"
    outcome = "at its provider's limit" if last.status == "limit" else f"judged {last.status}"
    parts = [f"{ended}, {outcome}. Steps marked `[x]` are done; go on with the first that is not."]
    if how.get("problem"):
        parts.append(f"**What was wrong with it:** {how['problem']}")
    if how.get("note"):
        parts.append(f"**From the person:** {how['note']}")
    if sent := [f"- {whole_message(store, task.id, one)}" for one in task.messages if one.run]:
        parts.append("**Sent to the worker before:**\n\n" + shorten("\n".join(sent), _MOST))
    if answers := [
        f"- Question {q.seq}: {full_question(store, task.id, q)}\n  **Answer:** {full_answer(store, task.id, q)}"
        for q in task.questions
        if not q.is_open
    ]:
        parts.append("**Answered since it was asked:**\n\n" + "\n".join(answers))
    if (name := how.get("from")) and (raw := read_file(f"{store.record(task.id)}/checkpoints/{name}.md")) is not None:
        parts.append(f"**Go on from checkpoint {name}:**\n\n" + shorten(decode_text(raw)[0].strip(), _MOST))
    parts.append(_left_behind(store.run_folders(task.id, last.id), store.relative(store.desk(task.id, last.id))))
    return "\n\n".join(part for part in parts if part)


def _left_behind(folders: RunFolders, shown: str) -> str:
    """The gist of the last CONTEXT.md, which still lies at the task's or was moved to its run's folder."""
    raw = read_file(f"{folders.record}/CONTEXT.md") or read_file(f"{folders.place}/CONTEXT.md")
    if raw is None:
        return ""
    context, _ = parse_context(decode_text(raw.removesuffix(_OURS))[0])
    shown_parts = [
        f"**{title or 'Notes'}:**\n\n{shorten(body, _MOST)}"
        for title, body in (
            ("Progress", context.progress),
            ("Where it stood", context.state),
            ("What stopped it", context.blocking),
            ("Handoff", context.handoff),
            *((one.title, one.body) for one in context.extra),
        )
        if body.strip()
    ]
    return "\n\n".join([*shown_parts, f"The whole of it: `{shown}/CONTEXT.md`."])


def _section(raw: bytes, body: str) -> tuple[int, int, bytes] | None:
    """The edit that puts our section in, or updates it; the other bytes stay as they are."""
    text = raw.decode("utf-8", "surrogateescape")
    ending = "\r\n" if "\r\n" in text else "\n"
    level = _level(text)
    shown = contain_in_section(body) if level == 2 else _HEADING.sub(r"\\\1", contain_in_section(body))
    section = f"{'#' * level} {TITLE}\n\n{shown}\n".replace("\n", ending)
    ours = _ours(text)
    if ours:
        start, end = ours[0].start, ours[0].end
        section += ending if end < len(text) else ""
    else:
        start = end = len(text)
        at_end = ("" if text.endswith("\n") or not text else ending) + ending + section
        earlier = [part.start for part in markdown_sections(text, level) if part.level]
        if _ours(text + at_end) or not earlier:
            section = at_end
        else:  # a fence or a comment was never closed: nothing behind it would be seen as a section
            start = end = next((at for at in reversed(earlier) if _ours(text[:at] + section + text[at:])), earlier[0])
            section += ending
    new = section.encode("utf-8", "surrogateescape")
    at = len(text[:start].encode("utf-8", "surrogateescape"))
    until = len(text[:end].encode("utf-8", "surrogateescape"))
    return None if raw[at:until] == new else (at, until, new)


def _level(text: str) -> int:
    """The heading level of the document's sections, which may all be `###`."""
    return max(2, min((one[0] for one in markdown_headings(text)), default=2))


def _ours(text: str) -> list[Part]:
    return [part for part in markdown_sections(text, _level(text)) if part.title.strip().casefold() == TITLE.casefold()]


def _reopened(raw: bytes) -> tuple[int, int, bytes] | None:
    """The edit that opens steps again that waited, failed or were under way, and drops what stood behind them."""
    new = raw
    while stuck := next((item for item in steps.read_steps(new) if item.marker in "?!~"), None):
        new = steps.change(new, stuck, " ", "")
    return None if new == raw else (0, len(raw), new)


def is_resumable(task: Task) -> bool:
    """Whether a task ended short and has no run."""
    short = task.status in ("partial", "blocked", "needs-input", "failed", "cancelled")
    return short and not task.queued and task.current_run is None and bool(task.runs)


# what a person sends: recorded once, handed over once, with a run or into one


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
