"""`step --phase`: the phases of a task that wants them; which move is legal is in phases.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overhand.errors import NotAllowed, Refused, StaleRun
from overhand.record import ABSENT, ControlHandled, Notice, PhaseMoved
from overhand.runs import ESCALATED, PHASE_ORDER, IllegalMove, PhaseMove, create_checkpoint, move_phase, next_phases
from overhand.supervisor import hand_to_supervisor
from overhand.verbs.verb import Reply, Session, about_task

if TYPE_CHECKING:
    from overhand.policy import Caller
    from overhand.record import Task


def go(session: Session, who: Caller, task_id: str, to: str, why: str) -> Reply:
    """Move a task to another phase, and do what that phase means."""
    with session.store.lock(task_id, who.by(session.via)) as locked:
        _require_holder(locked.task, who)
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
        "checkpoint": _carry_out(session, who, task, moved),
        "next": list(next_phases([*history, moved.to])),
    }
    return Reply({**about_task("step", task), **more})


def _require_holder(task: Task, who: Caller) -> None:
    if who.is_person:
        return
    current = task.current_run
    if current is None or current.id != who.run:
        raise StaleRun(f"Run {who.run} no longer holds task {task.id}.")
    if task.phase == ESCALATED:
        raise NotAllowed(
            "The task was escalated: a person decides how it goes on.",
            f"overhand step {task.handle} --phase {PHASE_ORDER[1]}",
        )


def _carry_out(session: Session, who: Caller, task: Task, moved: PhaseMove) -> str | None:
    """CHECKPOINT saves; ESCALATED saves, calls for a person, and ends the run."""
    if moved.to not in ("CHECKPOINT", ESCALATED):
        return None
    current = task.current_run
    run_id = current.id if current else None
    by = who.by(session.via)
    reason = moved.why or (moved.warnings[0] if moved.warnings else f"phase {moved.to}")
    saved = create_checkpoint(session.store, task.id, by, run=run_id, reason=reason, why="phase")
    if moved.to == ESCALATED and run_id is not None:
        with session.store.lock(task.id, by) as locked:
            locked.append(
                ControlHandled(command="ESCALATE", arg="", run=run_id, reason=reason, ok=True),
                Notice(text=f"It calls for a person: {reason}"),
            )
        hand_to_supervisor(session.store, [task.id])
    return saved
