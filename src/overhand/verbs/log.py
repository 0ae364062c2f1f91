"""`log`: events and what the agent says and does, or all that it printed, in the order they come."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from overhand.agents import stream, translator
from overhand.record import log
from overhand.record.events import KIND
from overhand.system.secrets import mask
from overhand.verbs import Reply, Session
from overhand.verbs.reconcile import refresh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from overhand.agents.stream import Event
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
                    yield from self.shown(line)
        finally:
            os.close(fd)
        if last:
            yield from self.end()

    def end(self) -> Iterator[dict[str, Any]]:
        """What is left when nothing more comes."""
        if self.rest:
            yield from self.shown(self.rest)
            self.rest = b""

    def shown(self, line: bytes) -> Iterator[dict[str, Any]]:
        """A line as an object of the stream."""
        yield self.said(self.name, line.decode("utf-8", "replace"))

    def said(self, name: str, text: str, **more: str) -> dict[str, Any]:
        """An object of the stream."""
        return {KIND: name, "run": self.run, **more, "text": mask(text)}


class Spoken(Tail):
    """What a coding agent says and does, put into words from its own stream of JSON lines."""

    def __init__(self, place: str, run: str, translate: Callable[[dict[str, Any]], Iterable[Event]], root: str) -> None:
        super().__init__(f"{place}/stdout", "stdout", run)
        self.translate, self.folders, self.open, self.why = translate, (place, root), "", ""

    def end(self) -> Iterator[dict[str, Any]]:
        """The last words may have had no end."""
        yield from super().end()
        yield from self.finished()

    def shown(self, line: bytes) -> Iterator[dict[str, Any]]:
        """The events of one line."""
        for found in stream.objects(line):
            for event in self.translate(found):
                yield from self.event(event)

    def event(self, event: Event) -> Iterator[dict[str, Any]]:
        """One event; words that come one by one are put together to lines."""
        if event.kind == "said" and event.data.get("part"):
            *whole, self.open = (self.open + event.text).split("\n")
            yield from (self.said("said", one) for one in whole if one.strip())
            return
        yield from self.finished()
        if event.kind == "said" and event.text.strip():
            yield self.said("said", event.text)
        elif event.kind == "did":
            yield self.said("did", stream.brief(event.data, *self.folders), tool=event.text)
        elif event.kind in ("denied", "noted"):
            yield self.said(event.kind, event.text)
        elif event.kind == "ended" and event.data.get("how") != "clean":
            why = event.text or stream.ENDS.get(str(event.data.get("how")), "")
            if why != self.why:  # some say it twice
                yield self.said("failed", why)
            self.why = why

    def finished(self) -> Iterator[dict[str, Any]]:
        """A line that does not go on."""
        if self.open.strip():
            yield self.said("said", self.open)
        self.open = ""


def events(session: Session, task_id: str, *, follow: bool, out: bool) -> Iterator[dict[str, Any]]:
    """Everything recorded; with `follow` also what comes, until the task is judged."""
    folder = session.store.folder(task_id)
    seen = 0
    tails: dict[str, Tail] = {}
    with session.store.subscribe([task_id]) as bell:
        while True:
            task = refresh(session, session.store.task(task_id))
            recorded = log.read(folder)
            done = task.is_idle or not follow
            for event in recorded[seen:]:
                if event.get("e") == "run.ended":
                    yield from _drain(tails, last=True)
                yield event
                if event.get("e") == "run.created":
                    tails.update(_tails(session, task_id, event, out=out))
            seen = len(recorded)
            yield from _drain(tails, last=done)
            if done:
                return
            bell.wait(0.25 if tails else 5.0)


def _tails(session: Session, task_id: str, created: dict[str, Any], *, out: bool) -> dict[str, Tail]:
    """What is read of a run: all that it printed, or what its stream says in words, where it has one."""
    run, place = created["run"], session.store.run_folder(task_id, created["run"])
    if out:
        return {f"{run}/{name}": Tail(f"{place}/{name}", name, run) for name in ("stdout", "stderr")}
    translate = translator(str(created.get("driver", "")))
    return {run: Spoken(place, run, translate, session.root)} if translate else {}


def _drain(tails: dict[str, Tail], *, last: bool) -> Iterator[dict[str, Any]]:
    for tail in tails.values():
        yield from tail.lines(last=last)


def show_log(session: Session, id: str, follow: bool = False, out: bool = False, window: bool = False) -> Reply:
    """Events, as a stream, here or in a window of their own."""
    from overhand.verbs.log import events

    task_id = session.store.resolve(id)
    task = refresh(session, session.store.task(task_id))
    if window:
        from overhand.supervisor.tmux import watch_in_tmux

        opened = watch_in_tmux(session.root, task)
        payload = {"schema": "overhand.log/1", "task_id": task_id, "handle": task.handle, "window": opened}
        return Reply({**payload, "next": [f"tmux attach -t {opened}"]})
    stream = events(session, task_id, follow=follow, out=out)
    return Reply({"schema": "overhand.log/1", "task_id": task_id, "handle": task.handle}, stream=stream)
