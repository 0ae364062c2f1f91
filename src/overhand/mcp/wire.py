"""The client's two pipes, read by the opening first and by the SDK afterwards."""

from __future__ import annotations

import json
import os
from typing import Any

HANDSHAKE = ("initialize", "notifications/initialized")


def read(line: bytes) -> dict[str, Any]:
    """One message; nothing of what is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


class Wire:
    """Stdin and stdout for the client alone: whatever else reads finds nothing, whatever else prints goes to stderr."""

    def __init__(self) -> None:
        self.handshake: list[bytes] = []  # what the SDK must be told as well
        self.told: list[bytes] = []  # read already, and to be read once more
        self.answered: set[str] = set()  # ids of requests that the SDK answers a second time
        self._reads, self._writes = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        os.close(nothing)
        self._ahead = self._unsent = b""

    def next(self) -> bytes:
        """The next line; empty at the end."""
        if self.told:
            return self.told.pop(0)
        while b"\n" not in self._ahead:
            piece = os.read(self._reads, 1 << 16)
            if not piece:
                break
            self._ahead += piece
        line, end, self._ahead = self._ahead.partition(b"\n")
        return line + end

    def send(self, text: str) -> None:
        """A line, at once."""
        self._unsent += text.encode()
        self.flush()

    # as the SDK reads and writes

    def serve(self) -> None:
        """From here on the SDK reads, first of all the handshake."""
        self.told = [*self.handshake, *self.told]

    def readline(self) -> str:
        """The next line; empty at the end."""
        return self.next().decode("utf-8", "replace")

    def write(self, text: str) -> None:
        """A line, unless it answers what was answered before."""
        if self.answered:
            message = json.loads(text)
            if "method" not in message and str(message.get("id")) in self.answered:
                self.answered.discard(str(message["id"]))
                return
        self._unsent += text.encode()

    def flush(self) -> None:
        """Send it."""
        view, self._unsent = memoryview(self._unsent), b""
        while view:
            view = view[os.write(self._writes, view) :]
