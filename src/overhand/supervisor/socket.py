"""The supervisor's socket, where verbs hand over tasks, and the pipe by which jobs wake its loop."""

from __future__ import annotations

import json
import os
import select
import socket
from typing import TYPE_CHECKING, Any

from overhand.supervisor.client import PROTOCOL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Answering = Callable[[dict[str, Any]], bytes | None]

_MAX_MESSAGE = 8 * 1024 * 1024


class Server:
    """Messages are acknowledged, so a verb knows whether a supervisor that is about to leave has taken its task."""

    def __init__(self, address: str, path: str) -> None:
        self.path = path
        if os.path.lexists(path):
            os.unlink(path)  # left by a dead supervisor: we hold the lock
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(address)
        os.chmod(path, 0o600)
        self.listener.listen(128)
        self.listener.setblocking(False)
        self.woken, self._waker = os.pipe()
        os.set_blocking(self.woken, False)
        os.set_blocking(self._waker, False)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.close()

    def receive(self, answer: Answering) -> Iterator[tuple[list[str], dict[str, str] | None]]:
        """Every waiting message: task ids, and the environment to run them in, if given.

        Questions are answered here.
        """
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            with peer:
                message = _read(peer)
                if message is None:
                    continue
                if "ask" in message:
                    found = answer(message)
                    # a NUL ends the answer, so that half of one is detected
                    _send(peer, b"no %d\n" % PROTOCOL if found is None else b"yes %d\n%b\0" % (PROTOCOL, found))
                    continue
                try:
                    env = message["env"]
                    handed = [str(task) for task in message["tasks"]], env and {str(k): str(v) for k, v in env.items()}
                except (KeyError, TypeError, AttributeError):
                    continue
                yield handed
                _send(peer, b"ok %d\n" % PROTOCOL)

    def wake(self) -> None:
        """Wake the loop, from any thread."""
        try:
            os.write(self._waker, b"\n")
        except BlockingIOError:
            return  # the pipe is full of wake-up bytes already

    def drain(self) -> None:
        """Empty the pipe after the loop has woken up."""
        try:
            while os.read(self.woken, 4096):
                pass
        except BlockingIOError:
            return

    def close_if_quiet(self) -> bool:
        """Stop listening, unless a client has just connected; later ones are refused and start another supervisor."""
        if select.select([self.listener], [], [], 0)[0]:
            return False
        os.unlink(self.path)
        if select.select([self.listener], [], [], 0)[0]:
            self.listener.close()  # a late client gets no acknowledgement and starts a supervisor itself
        return True


def _read(peer: socket.socket) -> dict[str, Any] | None:
    """One line of JSON; a client that is slow or sends anything else is dropped."""
    peer.settimeout(1.0)
    parts: list[bytes] = []
    try:
        while not parts or not parts[-1].endswith(b"\n"):
            part = peer.recv(65536)
            if not part or sum(map(len, parts)) > _MAX_MESSAGE:
                return None
            parts.append(part)
        message = json.loads(b"".join(parts))
        return message if isinstance(message, dict) else None
    except (OSError, ValueError):
        return None


def _send(peer: socket.socket, reply: bytes) -> None:
    try:
        peer.sendall(reply)
    except OSError:
        return  # the client has gone; a task is on disk and in our tables by now, so nothing is lost
