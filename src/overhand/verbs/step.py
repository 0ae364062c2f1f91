"""`step`: mark a step of the plan in HANDOFF.md or show them all; with --phase, move the task to another phase."""

from __future__ import annotations

from overhand.errors import BadInput, NotAllowed, NotFound, OverhandError, Refused, StaleRun
from overhand.policy import find_caller
from overhand.record import ABSENT, StepMarked
from overhand.runs import STEP_STATES, asked_suffix, failed_suffix, mark_step, read_steps, step_progress
from overhand.verbs.verb import Reply, Session, about_task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from overhand.policy import Caller
    from overhand.record import LockedTask, Task
    from overhand.runs import PhaseMove, StepItem
    from overhand.system import Beneath


_LONG = 200  # characters of a step's text in the log and of a reason in the file


def step(
    session: Session,
    id: str | None = None,
    step: str | None = None,
    state: list[str] | None = None,
    reason: str | None = None,
    question: str | None = None,
    phase: str | None = None,
) -> Reply:
    """Mark a step of the plan; without a step, show the plan."""
    caller = find_caller(session.store)
    words = [word for word in (id, step, *(state or ())) if word is not None]
    if caller.task is None:
        if not words:
            raise BadInput("step needs ID outside a run.", "overhand step ID N done")
        task_id = session.store.resolve(words.pop(0))
    else:
        task_id = str(caller.task)
    if phase is not None:
        return _move_phase(session, caller, task_id, phase, reason or " ".join(words))
    workspace = session.store.workspace_files(task_id)
    if not words:
        task, raw = session.store.task(task_id), workspace.read("HANDOFF.md")
        if raw is None:
            raise NotFound(f"Task {task_id} has no HANDOFF.md that can be read.", "Write one into its folder.")
        shown: dict[str, Any] = {"steps": [_row(item) for item in read_steps(raw)]}
    else:
        select, wanted, rest = _parsed(words, caller)
        suffix = _suffix(wanted, " ".join(rest) if rest else reason, question)
        with session.store.lock(task_id, caller.by(session.via)) as locked:
            task = locked.task
            _require_holder(task, caller)
            see = f"overhand step {task.name}" if caller.is_person else "overhand step"
            marked = mark_step(workspace, select, STEP_STATES[wanted], suffix, see)
            _record(locked, workspace, marked, caller)
        raw = workspace.read("HANDOFF.md") or b""
        shown = {"step": _row(marked)}
    done, total, _ = step_progress(raw)
    return Reply({**about_task("step", task), **shown, "progress": {"done": done, "total": total}})


def _row(item: StepItem) -> dict[str, Any]:
    shown = {"n": item.number, "text": item.text, "marker": item.marker, "state": item.state}
    more = {"question": item.question, "error": item.error}
    return {**shown, **{name: value for name, value in more.items() if value}}


def _parsed(words: list[str], caller: Caller) -> tuple[str, str, list[str]]:
    """Which step, which state, and the words behind `error`: they are the reason."""
    at = len(words) - 1
    if len(words) > 1 and words[0].isascii() and words[0].isdigit() and words[1] in STEP_STATES:
        at = 1
    elif words[-1] not in STEP_STATES:
        at = words.index("error", 1) if "error" in words[1:] else -1
    usage = f"overhand step {'ID ' if caller.is_person else ''}N|TEXT {'|'.join(STEP_STATES)}"
    if at < 0:
        raise BadInput(f"{words[-1]!r} is no state of a step: say which step, then what it is.", usage)
    if at == 0:
        raise BadInput(f"Which step is {words[0]}?", usage)
    if len(words) > at + 1 and words[at] != "error":
        raise BadInput(f"{words[at + 1]!r} is one word too many: only an error has a reason.", usage)
    if at > 1 and not caller.is_person and words[0].isdigit() and words[1].isdigit():
        raise BadInput("Inside a run no task is named: its own is meant.", usage)
    return " ".join(words[:at]), words[at], words[at + 1 :]


def _suffix(wanted: str, reason: str | None, question: str | None) -> str | None:
    """What stands behind the step's text in this state."""
    if question is not None:
        number = question.removesuffix(".question")
        if wanted != "blocked":
            raise BadInput(f"--question is for a step that is blocked, not {wanted}.", "Leave it out.")
        if not (number.isascii() and number.isdigit() and len(number) < 7 and int(number) > 0):
            raise BadInput(f"{question!r} is not the number of a question.", "Write it as --question 1")
        return asked_suffix(int(number))
    if reason is None:
        return None
    if wanted != "error":
        raise BadInput(
            f"--reason is for an error; {wanted} has none.",
            'What blocks you is asked: overhand ask "…"' if wanted == "blocked" else "Leave it out.",
        )
    return failed_suffix(reason if len(reason) <= _LONG else reason[: _LONG - 1] + "…") or None


def _require_holder(task: Task, caller: Caller) -> None:
    """A run marks the steps of its own task, and only while it holds it."""
    run = task.current_run
    if not caller.is_person and (run is None or run.id != caller.run or run.has_ended):
        raise StaleRun(
            f"Run {caller.run} no longer holds task {task.id}; it cannot mark its steps.",
            f"A person can: overhand step {task.name} N done",
        )


def _record(locked: LockedTask, workspace: Beneath, marked: StepItem, caller: Caller) -> None:
    """One event per change; a mark that cannot be recorded is undone."""
    before = marked.before
    if before is None:
        return
    if (before.marker, before.question, before.error) == (marked.marker, marked.question, marked.error):
        return
    event = StepMarked(n=marked.number, text=marked.text[:_LONG], marker=marked.marker, run=caller.run or ABSENT)
    try:
        locked.append(event)
    except OverhandError:
        question = f" (IPC: {before.question})" if before.question else ""
        suffix = question + (failed_suffix(before.error) if before.error else "")
        mark_step(workspace, str(marked.number), before.marker, suffix)
        raise


def _move_phase(session: Session, caller: Caller, task_id: str, to: str, why: str) -> Reply:
    """Move a task to another phase, and do what that phase means."""
    from overhand.record import PhaseMoved
    from overhand.runs import IllegalMove, move_phase, next_phases

    with session.store.lock(task_id, caller.by(session.via)) as locked:
        _require_phase_holder(locked.task, caller)
        history = [event.phase for event in locked.task.phases]
        moved = move_phase(history, to, why)
        if isinstance(moved, IllegalMove):
            raise Refused(moved.message, moved.hint, legal=list(moved.legal))
        why = moved.why[:500] or ABSENT
        locked.append(PhaseMoved(phase=moved.to, came_from=moved.frm, iteration=moved.iteration, why=why))
        task = locked.task
    more = {
        "phase": moved.to,
        "from": moved.frm or None,
        "iteration": moved.iteration,
        "warnings": list(moved.warnings),
        "escalated": moved.escalate,
        "checkpoint": _carry_out(session, caller, task, moved),
        "next": list(next_phases([*history, moved.to])),
    }
    return Reply({**about_task("step", task), **more})


def _require_phase_holder(task: Task, caller: Caller) -> None:
    from overhand.runs import ESCALATED, PHASE_ORDER

    if caller.is_person:
        return
    current = task.current_run
    if current is None or current.id != caller.run:
        raise StaleRun(f"Run {caller.run} no longer holds task {task.id}.", "Stop here: this run is over.")
    if task.phase == ESCALATED:
        raise NotAllowed(
            "The task was escalated: a person decides how it goes on.",
            f"overhand step {task.handle} --phase {PHASE_ORDER[1]}",
        )


def _carry_out(session: Session, caller: Caller, task: Task, moved: PhaseMove) -> str | None:
    """CHECKPOINT saves; ESCALATED saves, calls for a person, and ends the run."""
    from overhand.record import ControlHandled, Notice
    from overhand.runs import ESCALATED, NewCheckpoint, create_checkpoint
    from overhand.supervisor import hand_to_supervisor

    if moved.to not in ("CHECKPOINT", ESCALATED):
        return None
    current = task.current_run
    run_id = current.id if current else None
    by = caller.by(session.via)
    reason = moved.why or (moved.warnings[0] if moved.warnings else f"phase {moved.to}")
    saved = create_checkpoint(session.store, task.id, by, NewCheckpoint(run=run_id, reason=reason, why="phase"))
    if moved.to == ESCALATED and run_id is not None:
        with session.store.lock(task.id, by) as locked:
            locked.append(
                ControlHandled(command="ESCALATE", arg="", run=run_id, reason=reason, ok=True),
                Notice(text=f"It calls for a person: {reason}"),
            )
        hand_to_supervisor(session.store, [task.id])
    return saved
