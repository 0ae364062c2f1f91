"""A terminal that shows the headline screen and draws it again in place, until q or Ctrl-C."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios

from overhand.cli.headline import columns, screen
from overhand.cli.text import colour, counted, cut
from overhand.verbs import Headline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from overhand.verbs import Session

_HIDE, _SHOW = "\x1b[?25l", "\x1b[?25h"
_HOME, _REST_OF_LINE, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


def watch(session: Session, *, all: bool) -> int:
    """Draw whenever something is different; looking costs at most a hundredth of one core."""
    headline = Headline(session, all=all)
    with _Terminal() as terminal:
        before: list[str] = []
        while True:
            payload = headline.payload()
            lines = _fitted(list(screen(payload)))
            if lines != before or terminal.resized:
                terminal.resized = False
                terminal.draw(lines)
                before = lines
            if terminal.wait(headline.pause) == "q":
                return 0


def _fitted(lines: list[str]) -> list[str]:
    """No more than fit: a line more, and the terminal would scroll."""
    height = max(4, os.get_terminal_size(sys.stdout.fileno()).lines)
    hint = colour(cut("q leaves; the work goes on without this screen", columns()), "dim")
    if len(lines) > height - 1:
        more = len(lines) - (height - 2)
        return [*lines[: height - 2], colour(f"      … {counted(more, 'more line')}: overhand", "dim"), hint]
    return [*lines, hint]


class _Terminal:
    """Without echo and cursor while we draw; as it was when we leave, however that happens."""

    def __init__(self) -> None:
        self.resized = False
        self._in, self._out = sys.stdin.fileno(), sys.stdout.fileno()
        self._wake, self._waker = os.pipe()  # a signal handler ends `wait` through it
        self._mode = termios.tcgetattr(self._in)
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Terminal:
        for number, handler in (
            (signal.SIGWINCH, self._resize),
            (signal.SIGTSTP, self._suspend),
            (signal.SIGTERM, _leave),
            (signal.SIGHUP, _leave),
        ):
            self._before[number] = signal.signal(number, handler)
        self._take()
        self._write("\n" * (os.get_terminal_size(self._out).lines - 1))  # what stood there can be scrolled back to
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        for number in self._before:
            signal.signal(number, signal.SIG_IGN)  # nothing comes between us and the restored terminal
        self._give_back()
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._wake)
        os.close(self._waker)

    def _take(self) -> None:
        """Keys come one by one and are not shown, nor is the cursor."""
        quiet = termios.tcgetattr(self._in)
        quiet[3] &= ~(termios.ECHO | termios.ICANON)
        termios.tcsetattr(self._in, termios.TCSADRAIN, quiet)
        self._write(_HIDE)

    def _give_back(self) -> None:
        try:
            termios.tcsetattr(self._in, termios.TCSADRAIN, self._mode)
            self._write(f"\r{_REST_OF_LINE}{_SHOW}")
        except (OSError, termios.error):
            return  # the terminal is gone

    def _resize(self, _number: int, _frame: FrameType | None) -> None:
        self.resized = True
        os.write(self._waker, b"!")

    def _suspend(self, number: int, _frame: FrameType | None) -> None:
        """Ctrl-Z gives the terminal back; `fg` takes it again."""
        self._give_back()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, self._suspend)
        self._take()
        self._resize(number, None)

    def draw(self, lines: list[str]) -> None:
        """Over what stands there, in one write: nothing is cleared before it is written again."""
        self._write(_HOME + "\r\n".join(f"{line}{_REST_OF_LINE}" for line in lines) + _BELOW)

    def wait(self, seconds: float) -> str:
        """The key that was pressed, if one is within this time; the end of input counts as q."""
        ready, _, _ = select.select([self._in, self._wake], [], [], seconds)
        if self._wake in ready:
            os.read(self._wake, 100)
        if self._in in ready:
            return os.read(self._in, 1).decode("ascii", "replace").lower() or "q"
        return ""

    def _write(self, text: str) -> None:
        left = memoryview(text.encode(sys.stdout.encoding, "backslashreplace"))
        while left:
            left = left[os.write(self._out, left) :]


def _leave(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
