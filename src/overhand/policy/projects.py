"""The projects of this user: one path per line in their own folder, for a screen that shows them all."""

from __future__ import annotations

import os

from overhand.errors import OverhandError
from overhand.policy import config
from overhand.system import Lock, read_file, write_file

_MAX = 1 << 20


def place() -> str:
    return os.path.join(config.user_folder(), "projects")


def remember_project(root: str) -> None:
    """Add a project to the list, once; failing to write it is not an error."""
    if "\n" in root or root in _listed():
        return
    try:
        os.makedirs(config.user_folder(), mode=0o700, exist_ok=True)
        with _locked() as lock:
            if root not in _listed():
                end = os.fstat(lock.fd).st_size
                torn = end > 0 and os.pread(lock.fd, 1, end - 1) != b"\n"
                os.write(lock.fd, f"{chr(10) if torn else ''}{root}\n".encode("utf-8", "surrogateescape"))
    except (OverhandError, OSError):
        return


def known_projects() -> list[str]:
    """The projects that still exist."""
    listed = _listed()
    there = [root for root in listed if os.path.isdir(root)]
    gone = {root for root in listed if root not in there and os.path.isdir(os.path.dirname(root))}
    if gone:
        try:
            with _locked():
                kept = "".join(f"{root}\n" for root in _listed() if root not in gone)
                write_file(place(), kept.encode("utf-8", "surrogateescape"), mode=0o600)
        except OverhandError:
            pass  # the next call tries again
    return there


def _listed() -> list[str]:
    """Absolute paths, each once."""
    try:
        raw = read_file(place(), _MAX) or b""
    except OverhandError:
        return []
    lines = raw.decode("utf-8", "surrogateescape").split("\n")
    return list(dict.fromkeys(line for line in lines if line.startswith("/") and "\0" not in line))


def _locked() -> Lock:
    return Lock(place(), "The list of projects", 0.5, signed=False)
