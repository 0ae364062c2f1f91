"""Telling a person who is not looking: desktop, any command, webhook, ntfy, Slack.

Every channel is a program that is given one note and ended after ten seconds; a POST is one too (posting.py). So
nothing that a channel does can hold or hurt the supervisor. Each has one thread while it has something to tell, and one
line in the log when it fails.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from overhand.policy.notes import KINDS, Note, note_of
from overhand.supervisor import post
from overhand.supervisor.channels import Delivery, deliveries
from overhand.system.files import read_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from overhand.policy.config import Config

__all__ = ["KINDS", "Note", "Notifier", "note_of"]

SECONDS = 10.0  # for one attempt
_PAUSE = 2.0  # before the second and last one
_MOST = 100  # notes that may wait for one channel
_MEMORY = 1_000_000  # bytes of keys that are kept


@dataclass(slots=True)
class _Channel:
    """What waits to be told in one way, the thread that tells it, and the program it has started."""

    waiting: deque[Delivery] = field(default_factory=deque)
    thread: threading.Thread | None = None
    process: subprocess.Popen[bytes] | None = None
    lost: int = 0


class Notifier:
    """Tells notes in every way that the settings name; it never raises and never blocks."""

    def __init__(
        self,
        config: Config,
        env: Mapping[str, str],
        say: Callable[[str], None],
        *,
        memory: str | None = None,
        seconds: float = SECONDS,
        pause: float = _PAUSE,
    ) -> None:
        """`say` writes one line of the supervisor's log; `memory` is a file that remembers what was told."""
        self.config, self.env = config, env
        self._say, self._memory, self._seconds, self._pause = say, memory, seconds, pause
        self._channels: dict[str, _Channel] = {}
        self._lock = threading.Lock()
        self._hurry = threading.Event()
        self._given_up = threading.Event()
        self._told = _read_memory(memory)

    def use(self, config: Config, env: Mapping[str, str]) -> None:
        """Settings and environment for the notes that come."""
        self.config, self.env = config, env

    def tell(self, note: Note) -> None:
        """Tell it once, beside whatever goes on; returns at once."""
        if self._hurry.is_set() or note.kind not in self.config.notify.on or (note.key and _mark(note) in self._told):
            return
        try:
            found, problems = deliveries(note, self.config.notify, self.env, self._seconds)
            for problem in problems:
                self._report(problem)
            if found and note.key:
                self._remember(_mark(note))
            for delivery in found:
                self._put(delivery)
        except Exception as error:  # noqa: BLE001 -- a note that cannot be told is a line in the log, never more
            self._report(f"{type(error).__name__} while telling of {note.task_id}")

    def close(self, timeout: float) -> None:
        """Wait for what is under way, at most this long; then end it. Nothing is told afterwards."""
        self._hurry.set()
        deadline = time.monotonic() + timeout
        with self._lock:
            threads = [channel.thread for channel in self._channels.values() if channel.thread]
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if not any(thread.is_alive() for thread in threads):
            return
        self._given_up.set()
        with self._lock:
            for channel in self._channels.values():
                channel.lost += len(channel.waiting)
                channel.waiting.clear()
                if channel.process:
                    _kill(channel.process)
        for thread in threads:
            thread.join(1.0)

    # one channel

    def _put(self, delivery: Delivery) -> None:
        with self._lock:
            channel = self._channels.setdefault(delivery.channel, _Channel())
            if len(channel.waiting) >= _MOST:
                channel.lost += 1
                return
            channel.waiting.append(delivery)
            if channel.thread is None:
                name = f"notify {delivery.channel}"
                channel.thread = threading.Thread(target=self._work, args=(channel,), name=name, daemon=True)
                channel.thread.start()

    def _work(self, channel: _Channel) -> None:
        while True:
            with self._lock:
                lost, name = channel.lost, threading.current_thread().name
                delivery = channel.waiting.popleft() if channel.waiting else None
                if delivery is None:
                    channel.thread, channel.lost = None, 0
            if delivery is None:
                if lost:
                    why = "the supervisor ended" if self._given_up.is_set() else "there were too many at once"
                    self._report(f"{name.removeprefix('notify ')}: {lost} not sent, {why}")
                return
            try:
                problem = self._deliver(channel, delivery)
            except Exception as error:  # noqa: BLE001 -- its text may hold an address; its name does not
                problem = type(error).__name__
            if problem:
                self._report(f"{delivery.label}: {problem}")

    def _deliver(self, channel: _Channel, delivery: Delivery) -> str:
        """One attempt, and another where that makes sense; what went wrong, or nothing."""
        problem, again = self._attempt(channel, delivery)
        if again and not self._given_up.is_set():
            self._hurry.wait(self._pause)
            problem, _ = self._attempt(channel, delivery)
        return problem

    def _attempt(self, channel: _Channel, delivery: Delivery) -> tuple[str, bool]:
        """Run the program; what went wrong, and whether to try again."""
        if self._given_up.is_set():
            return "not sent, the supervisor ended", False
        try:
            process = subprocess.Popen(
                delivery.argv,
                cwd=delivery.cwd,
                env=delivery.env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if delivery.posts else subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                process_group=0,  # ended with all it started; not a session, for the supervisor buries those
            )
        except OSError as error:
            return f"cannot be started: {error.strerror}", False
        channel.process = process
        if self._given_up.is_set():  # `close` may have looked a moment too early
            _kill(process)
        try:
            said, _ = process.communicate(delivery.stdin, timeout=self._seconds)
        except subprocess.TimeoutExpired:
            return f"no end within {self._seconds:g}s; it was ended", False
        finally:
            _kill(process)
            _close_pipes(process)
            channel.process = None
        if self._given_up.is_set():
            return "not finished when the supervisor ended; it was ended", False
        if process.returncode == 0:
            return "", False
        if delivery.posts and said:
            return said.decode("utf-8", "replace").strip(), process.returncode == post.TRY_AGAIN
        return f"it ended with {process.returncode}", False

    # what was told, and what went wrong

    def _remember(self, mark: str) -> None:
        self._told.add(mark)
        if self._memory:
            try:
                with open(self._memory, "a", encoding="ascii") as file:
                    file.write(mark + "\n")
            except OSError as error:
                self._report(f"what was told cannot be kept: {error.strerror}")

    def _report(self, text: str) -> None:
        with self._lock:
            self._say("notify " + " ".join(text.split()))


def _mark(note: Note) -> str:
    return hashlib.sha256(note.key.encode("utf-8", "replace")).hexdigest()[:20]


def _read_memory(path: str | None) -> set[str]:
    """The marks of what was told before; a file that has grown too long is begun again, with its newer half."""
    if path is None or not (raw := read_file(path)):
        return set()
    marks = raw.decode("ascii", "replace").split()
    if len(raw) > _MEMORY:
        from overhand.system.files import write_file

        marks = marks[len(marks) // 2 :]
        write_file(path, "\n".join(marks) + "\n")
    return set(marks)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a program and its group, if it has not ended by itself."""
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return
        try:
            process.wait(1.0)
        except subprocess.TimeoutExpired:
            return  # in the kernel's hands; it has been told


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        try:
            if pipe:
                pipe.close()
        except OSError:
            continue  # what was still to be written has no reader
