"""What `stop` does where the record or the supervisor fails it: signals first, the record when possible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overhand.errors import Busy, OverhandError, StorageFailed
from overhand.policy import Actor, Config, find_caller
from overhand.record import Task
from overhand.runs import COULD_NOT_END, end_members, living_runs, same_pid_world, still_alive, stop_run, tell_left
from overhand.verbs.tasks import looks_dead

if TYPE_CHECKING:
    from collections.abc import Callable

    from overhand.verbs.verb import Session


class StopAnyway:
    """One call of `stop`: which tasks could not be recorded as stopped, and why."""

    def __init__(self, session: Session) -> None:
        self._session, self._store = session, session.store
        self.unrecorded: dict[str, str] = {}  # by task

    def _actor(self) -> Actor:
        return Actor(self._store, Config(), find_caller(self._store).by(self._session.via))

    def attempt(self, task_id: str, ask: Callable[[], str], grace: float) -> str:
        """Ask for the stop; if that can't be recorded, end the processes and try again: they may have been the cause.

        A damaged log can raise anything; what the caller may not do is refused as usual.
        """
        try:
            was = ask()
            if self.task(task_id).damage:
                self.end(task_id, grace)  # a lost line may have told of a run
            return was
        except Exception as error:
            if isinstance(error, OverhandError) and not isinstance(error, (Busy, StorageFailed)):
                raise
        self.end(task_id, grace)
        try:
            was = ask()
            return "asked" if was == "nothing ran" else was  # the supervisor was quicker
        except Exception as error:  # noqa: BLE001 -- whatever is wrong with its record, it is told
            self.unrecorded[task_id] = _reason(error)
            return "ended"

    def end(self, task_id: str, grace: float) -> None:
        """End the processes of its runs, whatever its log says."""
        for place in living_runs(self._store, task_id):
            end_members(self._actor(), place, "cancelled", grace)

    def not_handed_over(self, task_id: str, error: OverhandError, grace: float) -> None:
        """No supervisor takes it: end its processes from here."""
        self.end(task_id, grace)
        self.unrecorded[task_id] = _reason(error)

    def help_out(self, task_id: str) -> None:
        """Stop a run from here, since the supervisor should have done it by now; if it can't be recorded, say why."""
        try:
            if not self._store.task(task_id).is_plan:
                stop_run(self._actor(), task_id, "cancelled", 0.0)
        except Exception as error:  # noqa: BLE001 -- as above
            self.unrecorded[task_id] = _reason(error)

    def is_dead(self, task_id: str) -> bool:
        """Whether its run is over and that isn't recorded."""
        try:
            task = self._store.task(task_id)
            return bool(task.current_run and not task.current_run.has_ended) and looks_dead(self._session, task)
        except OverhandError:
            return False

    def has_given_up(self, task: Task) -> bool:
        """Whether the supervisor said that it can't end processes of its live run."""
        run = task.current_run
        return run is not None and not run.has_ended and any(note.startswith(COULD_NOT_END) for note in task.notices)

    def task(self, task_id: str) -> Task:
        """What is recorded, or as good as nothing if that can't be read."""
        try:
            return self._store.task(task_id)
        except Exception as error:  # noqa: BLE001 -- as above
            self.unrecorded.setdefault(task_id, _reason(error))
            return Task(task_id)

    def left(self, task: Task) -> list[int]:
        """Processes that can't be ended; a notice names them."""
        places = living_runs(self._store, task.id)
        last = task.last_run
        if last is not None and not (last.attached or last.is_plan_run) and same_pid_world(last):
            places = [*dict.fromkeys([*places, self._store.run_folder(task.id, last.id)])]
        left: list[int] = []
        for place in places:
            if still_alive(self._store, place):
                left += end_members(self._actor(), place, None, 0.0)
        if left:
            try:
                with self._store.lock(task.id, self._actor().by) as locked:
                    tell_left(locked, left)
            except OverhandError as error:
                self.unrecorded.setdefault(task.id, _reason(error))
        return left


def _reason(error: Exception) -> str:
    if isinstance(error, OverhandError):
        return f"{error.message} {error.hint}".strip()
    return f"its log cannot be read ({type(error).__name__}: {error})"
