"""The environment in which a task runs: that of the verb that queued it, kept until the task is judged.

The supervisor may be started by another verb, or may have been replaced by the time a task starts; a message alone
would come too late or not at all. The files are for the user only, and are removed with the verdict.
"""

from __future__ import annotations

import os

from overhand.errors import OverhandError, storage_failed
from overhand.system import dump_line, load_line, names_in, outside_runs, read_file, remove_file, write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from overhand.record.store import Store

_MAX = 4 * 1024 * 1024  # bytes; the kernel allows less than that


def _folder(store: Store) -> str:
    return f"{store.own}/environments"


def keep_environment(store: Store, task_id: str, env: Mapping[str, str]) -> None:
    """Keep it for the next run of a task; to be called before the event that queues the task."""
    text = dump_line(outside_runs(env)).encode("utf-8", "surrogatepass")
    try:
        os.makedirs(_folder(store), mode=0o700, exist_ok=True)
    except OSError as error:
        raise storage_failed(error, "Cannot keep the environment of this task") from error
    write_file(f"{_folder(store)}/{task_id}", text, mode=0o600)


def kept_environment(store: Store, task_id: str) -> dict[str, str] | None:
    """What was kept for this task; None if nothing was, or it cannot be read."""
    try:
        raw = read_file(f"{_folder(store)}/{task_id}", _MAX)
        found = load_line(raw.decode("utf-8", "surrogatepass")) if raw else None
    except (ValueError, OverhandError):
        return None
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else None


def drop_environment(store: Store, task_id: str) -> None:
    remove_file(f"{_folder(store)}/{task_id}")


def tasks_with_environment(store: Store) -> list[str]:
    return names_in(_folder(store))
