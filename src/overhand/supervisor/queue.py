"""Who may start next: order and caps of the queue."""

from __future__ import annotations

import os

from overhand.errors import OverhandError
from overhand.record.task import Item
from overhand.system import lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from overhand.policy.config import Config
    from overhand.record.store import Store
    from overhand.record.task import Task


def in_order(states: Iterable[Task]) -> list[Task]:
    """Queued tasks as they will start: weight, then the route's priority of items, then the time they were accepted."""
    return sorted(states, key=_place)


def _place(task: Task) -> tuple[str, float, str, str, int]:
    item = task.item or Item()
    return task.priority, float(item.rank), task.queued_at or "", item.path, task.handle or 0


def fits(task: Task, holding: dict[str, Task], config: Config) -> bool:
    """Whether one more run of this agent and kind may start now; one that is P0 keeps all others from starting."""
    urgent = task.priority == "P0"
    if not urgent and any(s.priority == "P0" for s in holding.values()):
        return False
    if holding and (task.settings.get("exclusive") or any(s.settings.get("exclusive") for s in holding.values())):
        return False
    if writes_here(task) and any(writes_here(s) for s in holding.values()):
        return False
    if config.max_parallel and len(holding) >= config.max_parallel + urgent:
        return False
    cap = config.per_agent.get(task.agent, 0)
    if cap and sum(s.agent == task.agent for s in holding.values()) >= cap:
        return False
    cap = config.per_kind.get(task.kind or "", 0)
    return not (cap and sum(s.kind == task.kind for s in holding.values()) >= cap)


def writes_here(task: Task) -> bool:
    """Whether a coding agent works in the checkout itself: until each has a tree of its own, one at a time."""
    return bool(task.settings.get("real")) and task.level != "read"


def leaves_its_place(task: Task, slots: Mapping[str, Task]) -> bool:
    """Whether the next run may start while this one, which has ended, is being judged.

    Not where its checks are run in the tree, and not where it was alone: then what changed there is its own work, and
    a run that began before the verdict would be taken for it.
    """
    ended = task.runs and task.runs[-1].has_ended
    others = len(slots) > 1
    return bool(ended and others and not task.checks and not task.settings.get("exclusive") and not writes_here(task))


def waits_for(store: Store, task: Task) -> str | None:
    """`--after`: None once that task is judged completed; why this one never can start, or "" while it may yet."""
    if not task.after:
        return None
    try:
        status = store.state(task.after).status
    except OverhandError:
        status = "failed"
    if status == "completed":
        return None
    return "" if status is None else f"It was to start after {task.after}, which was judged {status}."


def waits_for_child(store: Store, task: Task) -> bool:
    """Whether the run is blocked, or one of its processes waits for a task it delegated: it holds no slot then."""
    current = task.current_run
    if current is None or current.waiting is not None:
        return current is not None
    folder = f"{store.run_folder(task.id, current.id)}/waiting"
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    return any(lock.is_held(f"{folder}/{name}") for name in names)
