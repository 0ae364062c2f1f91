"""The stream behind `log`: events and, if wanted, what the agent printed, in the order they come."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from overhand import log, waiting
from overhand.masking import mask
from overhand.verbs.look import at_rest
from overhand.verbs.reconcile import refresh

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.verbs import Session

_PART = 1 << 16


class Tail:
    """New bytes of a growing file, whole lines at a time."""

    def __init__(self, path: str, name: str, run: str) -> None:
        self.path, self.name, self.run, self.place, self.rest = path, name, run, 0, b""

    def lines(self, *, last: bool = False) -> Iterator[dict[str, Any]]:
        """What was added since the last call."""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return
        try:
            while part := os.pread(fd, _PART, self.place):
                self.place += len(part)
                *whole, self.rest = (self.rest + part).split(b"\n")
                for line in whole:
                    yield self.shown(line)
        finally:
            os.close(fd)
        if last and self.rest:
            yield self.shown(self.rest)
            self.rest = b""

    def shown(self, line: bytes) -> dict[str, Any]:
        """A line as an object of the stream."""
        return {"e": self.name, "run": self.run, "text": mask(line.decode("utf-8", "replace"))}


def events(session: Session, task_id: str, *, follow: bool, out: bool) -> Iterator[dict[str, Any]]:
    """Everything recorded; with `follow` also what comes, until the task is judged."""
    folder = session.store.folder(task_id)
    seen = 0
    tails: dict[str, Tail] = {}
    with waiting.bell(session.store, [task_id]) as bell:
        while True:
            state = refresh(session, session.store.state(task_id))
            recorded = log.read(folder)
            done = at_rest(state) or not follow
            for event in recorded[seen:]:
                if event.get("e") == "run.ended":
                    yield from _drain(tails, last=True)
                yield event
                if out and event.get("e") == "run.created":
                    place = session.store.run_folder(task_id, event["run"])
                    for name in ("stdout", "stderr"):
                        tails[f"{event['run']}/{name}"] = Tail(f"{place}/{name}", name, event["run"])
            seen = len(recorded)
            yield from _drain(tails, last=done)
            if done:
                return
            bell.wait(0.25 if out else 5.0)


def _drain(tails: dict[str, Tail], *, last: bool) -> Iterator[dict[str, Any]]:
    for tail in tails.values():
        yield from tail.lines(last=last)
