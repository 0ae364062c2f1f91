"""The switch that makes a supervisor watch tags: a small file beside its lock that exists while it is on."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from overhand.errors import OverhandError
from overhand.system import now_stamp, pid_namespace, read_file, start_time, write_file

if TYPE_CHECKING:
    from overhand.record import Store

NAME = "daemon"
_LOG_SIZE = 1_000_000  # bytes; one older file of this size is kept


def place(store: Store) -> str:
    return f"{store.own}/{NAME}"


def turn_daemon_on(store: Store, pid: int | None = None) -> None:
    """Switch tag watching on; with a pid, for as long as that process lives."""
    store.ensure()
    holder = {"pid": pid, "started": start_time(pid), "pidns": pid_namespace()} if pid else {}
    write_file(place(store), json.dumps({"since": now_stamp(), **holder}) + "\n")


def turn_daemon_off(store: Store) -> bool:
    """Switch tag watching off; returns whether it was on."""
    try:
        os.unlink(place(store))
    except FileNotFoundError:
        return False
    return True


def daemon_state(store: Store) -> dict[str, Any] | None:
    """The content of the switch; None if it is off or its process is gone."""
    try:
        found = json.loads(read_file(place(store)) or b"null")
    except (ValueError, OverhandError):
        return {}  # unreadable, but it was switched on
    if not isinstance(found, dict):
        return None
    pid = found.get("pid")
    if pid and found.get("pidns") == pid_namespace() and start_time(int(pid)) != found.get("started"):
        return None
    return found


# what was done, and why


def daemon_log(store: Store) -> str:
    """The daemon's log: one JSON object per line."""
    return f"{store.own}/daemon.jsonl"


def note(store: Store, what: str, **more: object) -> None:
    """Append one line to the daemon's log; a full disk must not stop the daemon."""
    path = daemon_log(store)
    line = json.dumps({"t": now_stamp(), "what": what, **more}, ensure_ascii=False) + "\n"
    try:
        if os.path.exists(path) and os.path.getsize(path) > _LOG_SIZE:
            os.replace(path, f"{path}.1")
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.write(fd, line.encode("utf-8", "replace"))
        finally:
            os.close(fd)
    except OSError:
        return
