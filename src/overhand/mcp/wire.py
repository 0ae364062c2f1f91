"""The client's two pipes; and a shell that waits at them while nobody says anything.

Most of its time an agent thinks, and its server would keep tens of megabytes for that. So after a while of silence the
process becomes a shell of some hundred kilobytes, which waits for the next line and becomes this server again. It has
no memory of its own but the handshake, which is handed on both ways.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from typing import Any, NoReturn

HANDSHAKE = ("initialize", "notifications/initialized")
SAID = "OVERHAND_MCP_SAID"  # set by the shell: what was said to it is on this descriptor
_SAID_FD = 3
_LONG = 100_000  # bytes; a word of a command line has its limit
OPENING = 1.0  # seconds of silence after which a shell waits, as long as the SDK is not loaded
SERVING = 15.0  # and afterwards: loading it again takes most of a second
_WAIT = f"""\
said=$1; shift
IFS= read -r line || exit 0
export {SAID}={_SAID_FD}
exec "$@" {_SAID_FD}<<END
$said$line
END
"""


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
        handed = _handed_over()
        self.handshake = handed[:-1]  # what the SDK, or a shell, must be told as well
        self.told = handed[-1:]  # read already, and to be read once more
        self.answered = {str(read(line)["id"]) for line in self.handshake if "id" in read(line)}
        self._reads, self._writes = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        os.close(nothing)
        self._ahead = self._unsent = b""
        self._asked = self._replied = 0  # requests and answers; one thread counts each
        self._unsaid = 0  # answers that are written and not sent: whoever becomes a shell now would lose them
        self._moved = time.monotonic()
        self._patience = OPENING

    def next(self) -> bytes:
        """The next line; empty at the end."""
        if self.told:
            return self.told.pop(0)
        while b"\n" not in self._ahead:
            if not self._ahead:
                self._doze()
            piece = os.read(self._reads, 1 << 16)
            if not piece:
                break
            self._ahead += piece
        line, end, self._ahead = self._ahead.partition(b"\n")
        self._moved = time.monotonic()
        return line + end

    def send(self, text: str) -> None:
        """A line, at once."""
        self._unsent += text.encode()
        self.flush()

    def _doze(self) -> None:
        """Until something is said; a shell waits in our place when that takes long and nobody waits for us."""
        while not select.select([self._reads], [], [], self._patience)[0]:
            quiet = time.monotonic() - self._moved >= self._patience
            if quiet and self._asked == self._replied and sum(map(len, self.handshake)) < _LONG:
                self._become_a_shell()

    def _become_a_shell(self) -> NoReturn:
        os.dup2(self._reads, 0)
        os.dup2(self._writes, 1)
        said = os.fsdecode(b"".join(self.handshake))
        us = (sys.executable, *sys.orig_argv[1:])
        os.execv("/bin/sh", ("/bin/sh", "-c", _WAIT, "overhand-mcp", said, *us))  # noqa: S606 -- it is a shell

    # as the SDK reads and writes

    def serve(self) -> None:
        """From here on the SDK reads, first of all the handshake."""
        self.told = [*self.handshake, *self.told]
        self._patience = SERVING

    def readline(self) -> str:
        """The next line; empty at the end."""
        raw = self.next()
        message = read(raw)
        if "method" in message and "id" in message:
            self._asked += 1
        if message.get("method") in HANDSHAKE and raw not in self.handshake:
            self.handshake.append(raw)
        return raw.decode("utf-8", "replace")

    def write(self, text: str) -> None:
        """A line, unless it answers what was answered before."""
        head = text[:200]
        if '"id"' in head and '"method"' not in head:  # an answer that is not recognised keeps us awake, no more
            self._unsaid += 1
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
        self._moved = time.monotonic()
        self._replied, self._unsaid = self._replied + self._unsaid, 0


def _handed_over() -> list[bytes]:
    """What was said to the shell that waited in our place: the handshake, and a line that has no answer yet."""
    if not os.environ.pop(SAID, ""):
        return []
    with os.fdopen(_SAID_FD, "rb") as file:
        return file.readlines()
