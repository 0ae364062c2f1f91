"""A plan's tree on a terminal, drawn again in place whenever it changes; it stays when the plan has ended."""

from __future__ import annotations

import os
import sys

from overhand.cli.plan import tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_UP, _REST_OF_LINE, _BELOW = "\x1b[{}A", "\x1b[K", "\x1b[J"
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"  # a line that is too long ends at the edge: each takes one row


class Picture:
    """What was drawn last, so that the next one covers it."""

    def __init__(self) -> None:
        self._before: list[str] = []

    def draw(self, payload: dict[str, Any]) -> None:
        """Over what stands there, in one write; nothing if nothing is different."""
        lines = self._fitted(payload)
        if lines == self._before:
            return
        up = f"\r{_UP.format(len(self._before))}" if self._before else ""
        text = "".join(f"{line}{_REST_OF_LINE}\r\n" for line in lines)
        sys.stderr.write(f"{up}{_NO_WRAP}{text}{_WRAP}{_BELOW}")
        sys.stderr.flush()
        self._before = lines

    @staticmethod
    def _fitted(payload: dict[str, Any]) -> list[str]:
        """No more than fit: what stands above the screen cannot be drawn over."""
        try:
            room = max(6, os.get_terminal_size(2).lines - 2)
        except OSError:
            room = 22
        lines = list(tree(payload))
        if len(lines) <= room:
            return lines
        return list(tree(payload, most=max(3, room // 2 - 3)))[:room]  # a question takes three lines
