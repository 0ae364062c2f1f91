"""What a run that ended short leaves to the next one: a quick handoff in its folder, and CONTEXT.md."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from overhand.documents import context as contexts
from overhand.documents import quick
from overhand.documents.text import decode
from overhand.questions import record
from overhand.record import model
from overhand.runs import steps
from overhand.system import machine
from overhand.system.files import random_text, read_file, write_file

if TYPE_CHECKING:
    from overhand.record.store import Store
    from overhand.record.task import Run, State
    from overhand.runs.judge import Verdict
    from overhand.runs.steps import Item

OURS = b"<!-- overhand -->\n"
_MANY = 12  # steps and problems that are told; a handoff is read in a minute


def context_document(store: Store, state: State, ended: Run, verdict: Verdict) -> str:
    """CONTEXT.md: the agent's own if it wrote one, else from the log, the checklist, the last output, the questions."""
    folder = store.folder(state["task_id"])
    place = store.run_folder(state["task_id"], ended["id"])
    handoff = handoff_of(store, state, ended, verdict)
    for kept in (read_file(f"{place}/CONTEXT.md"), read_file(f"{folder}/CONTEXT.md")):
        if kept is not None and kept.strip() and not kept.endswith(OURS):
            return decode(kept)[0]
    tail = tail_of(f"{place}/stdout")
    document = contexts.Context(
        task_id=state["task_id"],
        dumped=machine.now(),
        reason=ended["cause"] or "exit",
        progress=_progress(plan_of(store, state["task_id"])),
        state=f"Run {ended['id']} by {ended['agent']} ended ({ended['cause']}), judged {verdict.status}."
        + (f"\n\nThe end of what it printed:\n\n```text\n{tail}\n```" if tail else ""),
        blocking=_blocking(store, state, verdict),
        resume=_how_to_resume(state, verdict),
        handoff=handoff,
    )
    return contexts.render(document).rstrip() + f"\n\n{OURS.decode()}"


def plan_of(store: Store, task_id: str) -> list[Item]:
    """The steps of the plan as they are marked now."""
    raw = read_file(f"{store.folder(task_id)}/HANDOFF.md")
    return steps.read(raw) if raw is not None else []


def _progress(plan: list[Item]) -> str:
    if not plan:
        return "The task has no plan to measure progress by."
    done = sum(item.marker == "x" for item in plan)
    lines = [f"{done} of {len(plan)} steps are done.", ""]
    return "\n".join(lines + [f"- [{item.marker}] {item.text}" for item in plan[:50]])


def _blocking(store: Store, state: State, verdict: Verdict) -> str:
    asked = [
        f"- Question {q['seq']} is open: {record.text_of(store, state['task_id'], q)}"
        for q in model.open_questions(state)
    ]
    return "\n".join(asked + [f"- {p.message}" for p in verdict.errors[:_MANY]]) or verdict.summary


def _how_to_resume(state: State, verdict: Verdict) -> str:
    handle = state["handle"] or state["task_id"]
    still_open = model.open_questions(state)
    if still_open:
        answers = [f"overhand answer {handle} {q['seq']} TEXT" for q in still_open]
        after = "The next run starts by itself, from the first open step."
        if verdict.status == "cancelled":  # the answer alone does not undo a person's stop
            after = f"It was stopped by a person. To go on after all: overhand resume {handle}"
        return f"1. Answer: {' · '.join(answers)}\n2. {after}"
    if verdict.status == "cancelled":
        return f"1. It was stopped by a person. To go on after all: overhand resume {handle}"
    return f"1. Look at it: overhand show {handle}\n2. Go on from here: overhand resume {handle}"


def handoff_of(store: Store, state: State, ended: Run, verdict: Verdict) -> str:
    """The quick handoff as it is quoted: the agent's own `handoff.md`, else one from the record."""
    path = f"{store.run_folder(state['task_id'], ended['id'])}/handoff.md"
    raw = read_file(path)
    if raw is not None and not raw.endswith(OURS):
        text = decode(raw)[0]
        if not any(p.code == "handoff-too-long" for p in quick.wordy(text, text)):
            return quick.quick_text(quick.parse_quick(text)[0])
        os.rename(path, f"{path[:-3]}-refused.md")
    elif os.path.isdir(path) and not os.path.islink(path):
        os.rename(path, f"{path}-aside-{random_text(6)}")
    made = quick_of(plan_of(store, state["task_id"]), state, ended, verdict)
    write_file(path, quick.render_quick(made).rstrip() + f"\n\n{OURS.decode()}")
    return quick.quick_text(made)


def quick_of(plan: list[Item], state: State, ended: Run, verdict: Verdict) -> quick.Quick:
    """A quick handoff from the record."""
    done = [item for item in plan if item.marker == "x"]
    left = [item for item in plan if item.marker != "x"]
    told = f"{len(done)}/{len(plan)} steps · " if plan else ""
    marked = [quick.done(item.text) for item in done[-_MANY:]] + [quick.upcoming(item.text) for item in left[:_MANY]]
    gotchas = [p.message for p in verdict.errors[:5]]
    if ended["leftovers"]:
        gotchas.append(f"Processes of this run were still alive: {', '.join(map(str, ended['leftovers'][:10]))}.")
    return quick.Quick(
        session=ended["id"],
        status=f"{told}ended by {ended['cause']}, judged {verdict.status}",
        next=left[0].text if left else f"HANDOFF.md of task {state['task_id']}",
        text=verdict.summary,
        state=tuple(marked),
        gotchas=tuple(gotchas),
    )


def tail_of(path: str, size: int = 1500) -> str:
    """The end of what was printed, as it may stand in a fence."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        raw = os.pread(fd, size, max(0, os.fstat(fd).st_size - size))
    except OSError:
        return ""  # a pipe in its place
    finally:
        os.close(fd)
    text = raw.decode("utf-8", "ignore").replace("\r\n", "\n").replace("```", "'''")
    return "".join(c for c in text if c in "\n\t" or c.isprintable()).strip()
