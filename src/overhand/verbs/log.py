"""`log`: events and what the agent says and does, or all that it printed, in the order of arrival."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any

from overhand.agents import STREAM_ENDS, brief_tool_use, json_lines, translator
from overhand.record import EVENT_KIND, read_log
from overhand.system import mask_secrets, open_to_read
from overhand.verbs.tasks import look_at_task
from overhand.verbs.verb import Reply, Session, about_task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from overhand.agents import StreamEvent
    from overhand.record import Run

_PART, _LONGEST = 1 << 20, 16 << 20  # bytes that are read at once, and of a line


class Tail:
    """New bytes of a growing file, whole lines at a time."""

    def __init__(self, path: str, name: str, run: str) -> None:
        self.path, self.name, self.run, self.place, self.rest = path, name, run, 0, b""

    def lines(self, *, last: bool = False) -> Iterator[dict[str, Any]]:
        """Lines that were added since the last call; with `last` also one without an end."""
        try:
            fd = open_to_read(self.path)  # a pipe in its place does not block us
        except OSError:
            return
        try:
            while stat.S_ISREG(os.fstat(fd).st_mode) and (part := os.pread(fd, _PART, self.place)):
                self.place += len(part)
                *whole, self.rest = (self.rest + part).split(b"\n")
                for line in whole:
                    yield from self.shown(line)
                if len(self.rest) > _LONGEST:
                    yield from self.end()
        finally:
            os.close(fd)
        if last:
            yield from self.end()

    def end(self) -> Iterator[dict[str, Any]]:
        if self.rest:
            yield from self.shown(self.rest)
            self.rest = b""

    def shown(self, line: bytes) -> Iterator[dict[str, Any]]:
        """The objects of the stream that a line becomes."""
        yield self.row(self.name, line.decode("utf-8", "replace"))

    def row(self, name: str, text: str, **more: str) -> dict[str, Any]:
        """An object of the stream."""
        return {EVENT_KIND: name, "run": self.run, **more, "text": mask_secrets(text)}


class AgentMessages(Tail):
    """What a coding agent says and does, put into words from its own stream of JSON lines."""

    def __init__(
        self, place: str, run: str, translate: Callable[[dict[str, Any]], Iterable[StreamEvent]], root: str
    ) -> None:
        super().__init__(f"{place}/stdout", "stdout", run)
        self.translate, self.folders, self.open, self.why = translate, (place, root), "", ""

    def end(self) -> Iterator[dict[str, Any]]:
        yield from super().end()
        yield from self.finished()

    def shown(self, line: bytes) -> Iterator[dict[str, Any]]:
        for found in json_lines(line):
            for event in self.translate(found):
                yield from self.event(event)

    def event(self, event: StreamEvent) -> Iterator[dict[str, Any]]:
        """One event; parts of a message are joined to lines."""
        if event.kind == "said" and event.data.get("part"):
            *whole, self.open = (self.open + event.text).split("\n")
            yield from (self.row("said", line) for line in whole if line.strip())
            return
        yield from self.finished()
        if event.kind == "said" and event.text.strip():
            yield self.row("said", event.text)
        elif event.kind == "did":
            yield self.row("did", brief_tool_use(event.data, *self.folders), tool=event.text)
        elif event.kind in ("denied", "noted"):
            yield self.row(event.kind, event.text)
        elif event.kind == "ended" and event.data.get("how") != "clean":
            why = event.text or STREAM_ENDS.get(str(event.data.get("how")), "")
            if why != self.why:  # some programs report it twice
                yield self.row("failed", why)
            self.why = why

    def finished(self) -> Iterator[dict[str, Any]]:
        """The line that was begun, if any."""
        if self.open.strip():
            yield self.row("said", self.open)
        self.open = ""


def log_events(session: Session, task_id: str, *, follow: bool, out: bool) -> Iterator[dict[str, Any]]:
    """Everything recorded; with `follow` also what comes, until the task is judged."""
    folder = session.store.record(task_id)
    seen = 0
    tails: list[Tail] = []
    with session.store.subscribe([task_id]) as bell:
        while True:
            task = look_at_task(session, session.store.task(task_id))
            recorded = read_log(folder)
            done = task.is_idle or not follow
            for event in recorded[seen:]:
                if event.get("e") == "run.ended":
                    for tail in tails:
                        yield from tail.lines(last=True)
                yield event
                if event.get("e") == "run.created" and (run := task.run(event.get("run"))):
                    tails += _tails(session, task_id, run, out=out)
            seen = len(recorded)
            for tail in tails:
                yield from tail.lines(last=done)
            if done:
                return
            bell.wait(0.25 if tails else 5.0)


def _tails(session: Session, task_id: str, run: Run, *, out: bool) -> list[Tail]:
    """What is read of a run: all that it printed, or its translated stream, where it has one."""
    place = session.store.run_folder(task_id, run.id)
    if out:
        return [Tail(f"{place}/{name}", name, run.id) for name in ("stdout", "stderr")]
    translate = translator(run.driver)
    return [AgentMessages(place, run.id, translate, session.root)] if translate else []


def show_log(session: Session, id: str, follow: bool = False, out: bool = False, window: bool = False) -> Reply:
    """Events, as a stream, here or in a window of their own."""
    task = look_at_task(session, session.store.task(session.store.resolve(id)))
    head = about_task("log", task)
    if window:
        from overhand.supervisor import watch_in_tmux

        opened = watch_in_tmux(session.root, task)
        return Reply({**head, "window": opened, "next": [f"tmux attach -t {opened}"]})
    return Reply(head, stream=log_events(session, task.id, follow=follow, out=out))
