"""What a landing is about to do to a checkout, written down before it begins."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, NamedTuple

from overhand.errors import storage_failed
from overhand.system import dump_line, load_line, read_file

_LIMIT = 1 << 30


class Mark(NamedTuple):
    """What tells a file from another one, and from itself before a change."""

    inode: int
    size: int
    mtime: int
    mode: int
    digest: str = ""  # of the content, for a file that was written a moment ago


class Act(NamedTuple):
    """A file to add (no `old`), to delete (no `new`) or to change.

    `aside` is where the new one waits, and where the old one goes. It is a path in the journal's folder; for a file on
    another disk it is a name in the file's own folder.
    """

    path: str
    aside: str
    old: Mark | None
    new: Mark | None
    beside: bool = False


@dataclass(frozen=True)
class Plan:
    """All acts of a landing, and the folders that make place for files (the innermost first), with their modes."""

    acts: tuple[Act, ...] = ()
    cleared: tuple[tuple[str, int], ...] = ()
    made: tuple[str, ...] = ()  # folders that do not exist yet, the outermost first

    def as_json(self) -> dict[str, Any]:
        return {"acts": self.acts, "cleared": self.cleared, "made": self.made}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Plan:
        def mark(given: list[Any] | None) -> Mark | None:
            return Mark(*given) if given else None

        acts = (Act(path, aside, mark(old), mark(new), beside) for path, aside, old, new, beside in value["acts"])
        return cls(tuple(acts), tuple((path, mode) for path, mode in value["cleared"]), tuple(value["made"]))


class Journal:
    """The folder of one landing, and the lines in it that say how far it came."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def write(self, event: str, **facts: object) -> None:
        """Add a line, and have it on the disk before anything else happens."""
        line = (dump_line({"step": event, **facts}) + "\n").encode("utf-8", "surrogateescape")
        try:
            with open(f"{self.folder}/journal", "ab+") as file:
                if file.tell() and os.pread(file.fileno(), 1, file.tell() - 1) != b"\n":
                    line = b"\n" + line  # behind a line that a kill cut off
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise storage_failed(error, "Cannot write the journal of a landing") from error

    def read(self) -> dict[str, dict[str, Any]]:
        """What was written, by event; a line that a kill cut off was not."""
        raw = read_file(f"{self.folder}/journal", _LIMIT) or b""
        found = {}
        for line in raw.split(b"\n")[:-1]:
            try:
                event = load_line(line.decode("utf-8", "surrogateescape"))
            except ValueError:
                continue
            found[event["step"]] = event
        return found
