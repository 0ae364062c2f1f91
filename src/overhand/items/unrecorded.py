"""What was seen of tags without a record: when all of them were known, and which wait for a person.

A `#delegated-X` without a record is a person's typing only if no run was alive since all tags were last known, or while
its file was seen to change. Losing these files loses nothing but that knowledge: then all that is not recorded waits.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, Any

from overhand.errors import OverhandError
from overhand.system import Lock, epoch_of, has_reader, now_stamp, read_file, write_file

if TYPE_CHECKING:
    from overhand.record import Run, Store, Task

_GONE = "leftovers-gone"  # in a run's folder: since when it is known that nothing it left behind lives
MARGIN = 5.0  # seconds: a change is noticed a little later than it was made


def _load(store: Store) -> dict[str, Any]:
    try:
        found = json.loads(read_file(f"{store.own}/sightings") or b"{}")
    except (ValueError, OverhandError):
        found = {}
    return found if isinstance(found, dict) else {}


def _change(
    store: Store, known: float | None = None, park: dict[str, Any] | None = None, keep: set[str] | None = None
) -> None:
    store.ensure()
    with Lock(f"{store.own}/sightings.lock", "The list of tags that wait"):
        found = _load(store)
        waiting = dict(found.get("waiting") or {})
        if keep is not None:
            waiting = {key: why for key, why in waiting.items() if key in keep}
        waiting.update(park or {})
        seen = {"known": found.get("known", 0.0) if known is None else known, "waiting": waiting}
        write_file(f"{store.own}/sightings", json.dumps(seen))


def tags_known_at(store: Store) -> float:
    """When every tag of the project was last looked at; 0 if that is unknown."""
    at = _load(store).get("known", 0.0)
    return float(at) if isinstance(at, int | float) else 0.0


def remember_tags(store: Store, at: float) -> None:
    """Every tag that was there at this time is recorded, or waits."""
    _change(store, known=at)


def unrecorded_tags(store: Store) -> dict[str, dict[str, Any]]:
    """Unrecorded tags that wait for a person: by item, since when and why."""
    found = _load(store).get("waiting") or {}
    return {str(key): dict(why) for key, why in found.items() if isinstance(why, dict)}


def park(store: Store, key: str, why: str) -> None:
    _change(store, park={key: {"since": now_stamp(), "why": why}})


def forget(store: Store, key: str) -> None:
    """It is recorded, or gone."""
    if key in (there := unrecorded_tags(store)):
        _change(store, keep={*there} - {key})


def alive_since(store: Store, at: float, until: float | None, margin: float) -> list[tuple[Task, Run]]:
    """Runs that may have written to the project since then; where it is known until when, later ones have not."""
    return [
        (task, run)
        for task in store.tasks()
        for run in task.runs
        if (until is None or epoch_of(run.created) <= until)
        and (
            run.ended is None
            or epoch_of(run.ended) >= at - margin
            or (run.leftovers and not _left_before(f"{store.run_folder(task.id, run.id)}", at - margin))
        )
    ]


def _left_before(place: str, at: float) -> bool:
    """Whether what a run left behind is known to have ended before this time.

    Nothing records when it ends: the first look that finds it gone does, and counts as a time when it may have lived.
    """
    if has_reader(f"{place}/life"):  # a leftover process keeps the run's shim alive, which keeps `life` open
        return False
    try:
        return os.stat(f"{place}/{_GONE}").st_mtime < at
    except OSError:
        write_file(f"{place}/{_GONE}", "")
        return False


def note_ended_leftovers(place: str) -> None:
    """Note in a run's folder that what it left behind has ended: tags that appear later are not its own."""
    with contextlib.suppress(OverhandError):  # the folder is gone, or cannot be written
        _left_before(place, 0.0)
