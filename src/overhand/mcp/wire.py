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

SAID = "OVERHAND_MCP_SAID"  # set by the shell: what was said is on this descriptor, the last line without an answer
_SAID_FD = 3
_OPENING = 1.0  # seconds of silence after which a shell waits, as long as the SDK is not loaded
_SERVING = 15.0  # and afterwards: loading it again takes most of a second
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
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


class Wire:
    """Stdin and stdout for the client alone: whatever else reads finds nothing, whatever else prints goes to stderr."""

    def __init__(self) -> None:
        self.told = _handed_over()  # read already, and to be read once more
        self.handshake: list[bytes] = []  # what the SDK, or a shell, must be told as well
        self.answered: set[str] = set()  # requests among these that have their answer
        self._reads, self._writes = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        os.close(nothing)
        self._ahead = b""
        self._unsent = b""
        self._open = 0  # requests without an answer
        self._moved = time.monotonic()
        self.patience = _OPENING

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
        line, found, self._ahead = self._ahead.partition(b"\n")
        self._moved = time.monotonic()
        return line + found

    def send(self, text: str) -> None:
        """A line, at once."""
        self._unsent += text.encode()
        self.flush()

    def _doze(self) -> None:
        """Until something is said; a shell waits in our place when that takes long and nobody waits for us."""
        while not select.select([self._reads], [], [], self.patience)[0]:
            if not self._open and time.monotonic() - self._moved >= self.patience:
                self._become_a_shell()

    def _become_a_shell(self) -> NoReturn:
        os.dup2(self._reads, 0)
        os.dup2(self._writes, 1)
        said = b"".join(self.handshake)
        us = (sys.executable, *sys.orig_argv[1:])
        os.execv("/bin/sh", [b"/bin/sh", b"-c", _WAIT.encode(), b"overhand-mcp", said, *map(os.fsencode, us)])

    # as the SDK reads and writes

    def serve(self) -> None:
        """From here on the SDK reads, first of all the handshake."""
        self.told = [*self.handshake, *self.told]
        self.patience = _SERVING

    def readline(self) -> str:
        """The next line; empty at the end."""
        raw = self.next()
        message = read(raw)
        if "method" in message and "id" in message:
            self._open += 1
        return raw.decode("utf-8", "replace")

    def write(self, text: str) -> None:
        """A line, unless it answers what was answered before."""
        head = text[:200]
        if '"id"' in head and '"method"' not in head:  # what merely looks like no answer keeps us awake, and no more
            self._open -= 1
        if self.answered:
            message = json.loads(text)
            if "method" not in message and str(message.get("id")) in self.answered:
                self.answered.discard(str(message["id"]))
                return
        self._unsent += text.encode()

    def flush(self) -> None:
        """Send it."""
        view = memoryview(self._unsent)
        self._unsent = b""
        while view:
            view = view[os.write(self._writes, view) :]
        self._moved = time.monotonic()


def _handed_over() -> list[bytes]:
    """What was said to the shell that waited in our place."""
    if not os.environ.pop(SAID, ""):
        return []
    with os.fdopen(_SAID_FD, "rb") as file:
        return file.readlines()
