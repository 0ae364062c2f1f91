"""One agent at the other end of two pipes: JSON-RPC, a line per message; its process, and how to end it.

Nothing heavy is imported here: this is loaded once per running agent, for as long as it runs.
"""

from __future__ import annotations

import os
import select
import time

from overhand.system import dump_line, load_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Message = dict[str, Any]

_PART = 1 << 16
_LONGEST = 64 << 20  # bytes of a line; a longer one is not a message
_SLOW = 5.0  # seconds between checks, if no bell rings
TERM, KILL = 15, 9


class Over(Exception):
    """The conversation is over: how it ended, and why."""

    def __init__(self, how: str, why: str = "", code: int | None = None) -> None:
        super().__init__(why)
        self.how, self.why, self.code = how, why, code


class Wire:
    """The agent's process, messages to and from it, and other descriptors to wait for."""

    def __init__(
        self, receive: Callable[[Message], None], look: Callable[[], None], ends: tuple[int, int, int]
    ) -> None:
        self._receive, self._look = receive, look
        self.bells: set[int] = set()  # descriptors that end a wait
        self._buffer, self._seen = bytearray(), 0
        self._out = bytearray()
        self._answers: dict[int, Message] = {}
        self.pid, self._to, self._from = ends
        self._number = 0
        self.ended = False
        os.set_blocking(self._to, False)
        os.set_blocking(self._from, False)

    def send(self, message: Message) -> None:
        """Queue a message; it goes out while we wait."""
        self._out += dump_line({"jsonrpc": "2.0", **message}).encode("utf-8", "replace") + b"\n"

    def ask(self, method: str, params: Message) -> int:
        self._number += 1
        self.send({"id": self._number, "method": method, "params": params})
        return self._number

    def call(self, method: str, params: Message, seconds: float) -> Message:
        """Send a request and wait for its result; raises Over where it fails or takes too long."""
        number, until = self.ask(method, params), time.monotonic() + seconds
        while number not in self._answers:
            left = until - time.monotonic()
            if left <= 0:
                raise Over("error", f"The agent did not answer {method} within {seconds:.0f} s.")
            self.turn(left)
        return self.result(number)

    def has(self, number: int) -> bool:
        return number in self._answers

    def result(self, number: int) -> Message:
        """The result of this request; an error ends the conversation."""
        answer = self._answers.pop(number)
        if "error" in answer:
            error = answer["error"] if isinstance(answer["error"], dict) else {}
            why = f"{error.get('message', 'error')} {dump_line(error['data']) if error.get('data') else ''}".strip()
            code = error.get("code")
            raise Over("error", why, code if isinstance(code, int) else None)
        result = answer.get("result")
        return result if isinstance(result, dict) else {}

    def bell(self) -> int:
        """A descriptor: a byte written to it ends a wait."""
        hears, rings = os.pipe()
        os.set_blocking(hears, False)
        os.set_blocking(rings, False)
        self.bells.add(hears)
        return rings

    def turn(self, seconds: float = _SLOW) -> None:
        """Wait for an event, at most this long, and handle it."""
        if self.ended:
            raise Over("error", f"The agent ended before its turn did ({_say(self.wait(2.0))}).")
        poll = select.poll()
        poll.register(self._from, select.POLLIN)
        if self._out:
            poll.register(self._to, select.POLLOUT)
        for fd in self.bells:
            poll.register(fd, select.POLLIN)
        for fd, _ in poll.poll(max(0.0, min(seconds, _SLOW)) * 1000):
            if fd == self._from:
                self._read()
            elif fd == self._to:
                self._write()
            else:
                _empty(fd)
        self._look()

    def _write(self) -> None:
        try:
            del self._out[: os.write(self._to, self._out[:_PART])]
        except BlockingIOError:
            return
        except OSError:
            self._out.clear()  # it stopped reading: the other pipe reports its end

    def _read(self) -> None:
        try:
            part = os.read(self._from, _PART)
        except BlockingIOError:
            return
        self.ended = not part
        self._buffer += part
        while (end := self._buffer.find(b"\n", self._seen)) >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._seen = 0
            self._take(line)
        self._seen = len(self._buffer)
        if self._seen > _LONGEST:
            raise Over("error", f"The agent sent a line of more than {_LONGEST >> 20} MB.")

    def _take(self, line: bytes) -> None:
        try:
            message = load_line(line.decode("utf-8", "replace"))
        except ValueError:
            message = None
        if not isinstance(message, dict):
            if line.strip():
                os.write(2, b"not a message: " + line[:300] + b"\n")
        elif "method" in message:
            self._receive(message)
        elif isinstance(message.get("id"), int):
            self._answers[message["id"]] = message

    def wait(self, seconds: float) -> int | None:
        """Its wait status once it has ended; its remaining output is dropped, so that no full pipe blocks it."""
        until, pause = time.monotonic() + seconds, 0.002
        while True:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                return None
            if pid:
                return status
            if time.monotonic() >= until:
                return None
            time.sleep(pause)
            pause = min(pause * 2, 0.05)
            try:
                while os.read(self._from, _PART):
                    pass
            except OSError:
                pass

    def end(self, patience: float) -> None:
        """End the agent: close its input, then SIGTERM to its group, then SIGKILL."""
        try:
            os.close(self._to)
        except OSError:
            pass
        for signal, seconds in ((0, patience), (TERM, 2.0), (KILL, 2.0)):
            if signal:
                try:
                    os.killpg(self.pid, signal)
                except OSError:
                    pass
            if self.wait(seconds) is not None:
                break
        try:
            os.killpg(self.pid, KILL)  # the rest of its group
        except OSError:
            return


def spawn(argv: Sequence[str]) -> tuple[int, int, int]:
    """Start it in a group of its own: a SIGTERM to ours lets us end its turn first."""
    theirs, ours = os.pipe()
    mine, yours = os.pipe()
    try:
        pid = os.posix_spawnp(
            argv[0],
            list(argv),
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, theirs, 0), (os.POSIX_SPAWN_DUP2, yours, 1)],
            setpgroup=0,
        )
    except OSError as error:
        raise Over("error", f"{argv[0]} cannot be started: {error.strerror}.") from None
    finally:
        os.close(theirs)
        os.close(yours)
    return pid, ours, mine


def _empty(fd: int) -> None:
    try:
        os.read(fd, 4096)
    except OSError:
        return  # already empty


def _say(status: int | None) -> str:
    if status is None:
        return "it closed its output"
    return f"signal {status & 127}" if status & 127 else f"exit code {status >> 8}"
