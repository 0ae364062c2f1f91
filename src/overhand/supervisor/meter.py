"""The meter: what live runs report is counted against every limit, and the day's budget holds the queue back."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from overhand.policy import STOP_LEVEL, budget_level, say_budget
from overhand.record import Amount
from overhand.runs import NOTE_EVERY, USAGE_FILE, capped_above, count_usage, spent_today, stop_run
from overhand.supervisor.context import Changed
from overhand.system import now_stamp, remove_file, write_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from overhand.policy import Config
    from overhand.record import Task
    from overhand.runs import Counted
    from overhand.supervisor.context import LoopContext
    from overhand.system import Beneath

HELD = "held"  # in the supervisor's folder: why nothing starts, and on which day
_DAY_EVERY = 1.0  # seconds between counts of the day's usage while it holds the queue back


@dataclass(slots=True)
class _Reports:
    """What was counted of one run."""

    desk: Beneath
    counted: int = -1  # bytes of its reports; unknown at first: another supervisor may have counted before
    asked: int = 0  # how often other tasks used a budget that it draws on
    answered: int = 0  # the value of `asked` at its last count
    noted: float = 0.0  # when its usage was last recorded


class Meter:
    """Counts the usage of live runs, and says whether the day's budget is used up."""

    def __init__(self, context: LoopContext) -> None:
        self._store, self._jobs, self._mail, self._actor = context.store, context.jobs, context.mail, context.actor
        self._runs: dict[str, _Reports] = {}
        self.held = False  # whether the day's budget held something back at the last check
        self._day = (float("-inf"), Amount())  # when it was counted, and how much it was

    # one run

    def is_due(self, task_id: str, desk: Beneath, *, limited: bool) -> bool:
        """Whether this run has reported something new, or another task used a budget that it draws on."""
        known = self._runs.get(task_id)
        if known is None or known.desk.inside != desk.inside:
            known = self._runs[task_id] = _Reports(desk)
        size = _size(desk)
        if known.counted < 0 and not size and not limited:
            known.counted = 0
        return size != known.counted or known.asked != known.answered

    def count(self, task_id: str, grace: float) -> bool:
        """Count it in a job; the run is stopped if a limit is reached. False if another job is under way."""
        known = self._runs[task_id]
        size, asked, now = _size(known.desk), known.asked, time.monotonic()
        note = now - known.noted >= NOTE_EVERY
        actor = self._actor(task_id)

        def work() -> Counted:
            counted = count_usage(actor, task_id, note=note)
            if counted.stop:
                stop_run(actor, task_id, "budget", grace)
            return counted

        def then(counted: Counted) -> None:
            known.counted, known.answered = size, asked
            known.noted = now if note else known.noted
            self.recount(counted.again)

        return self._jobs.run(task_id, work, then)

    def recount(self, task_ids: Iterable[str]) -> None:
        """Count those of these tasks that run once more: a budget that they draw on has changed."""
        for task_id in task_ids:
            if (known := self._runs.get(task_id)) is not None:
                known.asked += 1
                self._mail.post(Changed(task_id))

    def ended(self, task: Task) -> None:
        """Recount the tasks whose budget an ended run draws on: it may have used more than it had reported."""
        if task.parent:
            self.recount(above.id for above in capped_above(self._store, task))

    def forget(self, task_id: str) -> None:
        self._runs.pop(task_id, None)

    # the day

    def is_held(self, config: Config) -> bool:
        """Whether the day's budget is used up, so that nothing starts; `list` shows the reason."""
        cap = config.budget.day
        held = cap.is_cap and budget_level(self._today(), cap) >= STOP_LEVEL
        if held != self.held:
            path = f"{self._store.own}/{HELD}"
            if held:
                why = f"the budget of {say_budget(cap)} a day is used up; it goes on after midnight UTC"
                write_file(path, f"{now_stamp()[:10]} {why}\n")
            else:
                remove_file(path)
            self.held = held
        return held

    def _today(self) -> Amount:
        """Today's usage: counted before every start, and about once a second while nothing may start."""
        now = time.monotonic()
        if not self.held or now - self._day[0] >= _DAY_EVERY:
            self._day = now, spent_today(self._store)
        return self._day[1]


def _size(desk: Beneath) -> int:
    """How much a run has reported, in bytes."""
    found = desk.look(USAGE_FILE)
    return found.st_size if found is not None else 0
