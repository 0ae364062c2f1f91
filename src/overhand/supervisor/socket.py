"""The supervisor's socket, where verbs hand over tasks, and the pipe by which jobs wake its loop."""

from __future__ import annotations

import json
import os
import select
import socket
import time
from typing import TYPE_CHECKING, Any

from overhand.supervisor.client import PROTOCOL, peer_pid, peer_uid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Answering = Callable[[dict[str, Any]], bytes | None]

_MAX_MESSAGE = 8 * 1024 * 1024
_SECONDS = 1.0  # in which a client says all that it has to say


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

    def receive(
        self, answer: Answering, is_moved: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[list[str], dict[str, str] | None]]:
        """Every waiting message: task ids, and the environment to run them in, if given.

        Questions are answered here. If the project was moved, the client ends this supervisor and starts another.
        """
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            with peer:
                message = _read(peer) if peer_uid(peer) in (None, os.getuid()) else None
                if message is None:
                    continue
                if "ask" in message:
                    found = answer({**message, "peer": peer_pid(peer)})
                    # a NUL ends the answer, so that half of one is detected
                    _send(peer, b"no %d\n" % PROTOCOL if found is None else b"yes %d\n%b\0" % (PROTOCOL, found))
                    continue
                try:
                    env = message["env"]
                    handed = [str(task) for task in message["tasks"]], env and {str(k): str(v) for k, v in env.items()}
                except (KeyError, TypeError, AttributeError):
                    continue
                if is_moved():
                    _send(peer, b"moved %d\n" % PROTOCOL)
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
    """One line of JSON; a client that is slow or sends anything else is dropped. The limit is for the whole of it."""
    until = time.monotonic() + _SECONDS
    parts: list[bytes] = []
    size = 0
    try:
        while not parts or not parts[-1].endswith(b"\n"):
            if (left := until - time.monotonic()) <= 0:
                return None
            peer.settimeout(left)
            part = peer.recv(65536)
            size += len(part)
            if not part or size > _MAX_MESSAGE:
                return None
            parts.append(part)
        message = json.loads(b"".join(parts))
        peer.settimeout(_SECONDS)
        return message if isinstance(message, dict) else None
    except (OSError, ValueError, RecursionError):
        return None


def _send(peer: socket.socket, reply: bytes) -> None:
    try:
        peer.sendall(reply)
    except OSError:
        return  # the client has gone; a task is on disk and in our tables by now, so nothing is lost
