"""Reaching the project's supervisor, and starting it where none runs."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING

from overhand.errors import OverhandError, Refused, storage_failed
from overhand.record import model
from overhand.system import lock, machine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from overhand.record.store import Store

_PATIENCE = 10.0
_ON_ITS_WAY = 50.0  # seconds more for one that lives and has yet to listen: a machine with much to do starts it slowly


def call(store: Store, tasks: Iterable[str]) -> bool:
    """Hand tasks to the supervisor; it is started if need be. False where none may be started from here."""
    message = {"tasks": list(tasks), "env": {k: v for k, v in os.environ.items() if not k.startswith("OVERHAND_")}}
    line = (json.dumps(message) + "\n").encode()
    if _send(store, line):
        return True
    if (holder := running(store)) and lock.is_stopped(holder):
        raise lock.busy(f"{store.own}/lock", "The supervisor's lock")
    if not may_start(store):
        return False
    store.ensure()
    deadline = time.monotonic() + _PATIENCE
    pid = _spawn(store)
    pause = 0.005
    while not _send(store, line):
        comes = not _has_ended(pid) or running(store) is not None
        if time.monotonic() >= deadline + (_ON_ITS_WAY if comes else 0.0):
            raise Refused("The supervisor does not answer.", f"Look at {store.own}/log, then try again.")
        if not comes:
            pid = _spawn(store)  # it found the lock held by one that was about to leave
        time.sleep(pause)
        pause = min(pause * 1.3, 0.1)
    return True


def remind(store: Store, tasks: Iterable[str]) -> bool:
    """Have the supervisor look at tasks it may not know of, without a word about their environment."""
    return _send(store, (json.dumps({"tasks": list(tasks), "env": None}) + "\n").encode())


def running(store: Store) -> int | None:
    """The pid of the supervisor that holds the project's lock, if there is one."""
    path = f"{store.own}/lock"
    return lock.holder(path) if lock.is_held(path) else None


def may_start(store: Store) -> bool:
    """Not from another pid namespace than the live runs are in: a supervisor in a sandbox would die with it."""
    here = machine.pid_namespace()
    for state in store.states():
        run = model.current_run(state)
        if run and run["pidns"] not in ("", here) and run["boot"] == machine.boot():
            from overhand.system import detached  # nearly never needed

            try:
                if detached.lives(store.run_folder(state["task_id"], run["id"])):
                    return False
            except OverhandError:
                continue
    return True


def _spawn(store: Store) -> int:
    """Start a supervisor in its own session, without the marker of any run and with nothing of ours open."""
    import signal

    env = {name: value for name, value in os.environ.items() if not name.startswith("OVERHAND_")}
    output = f"{store.own}/log"
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-P", "-m", "overhand.supervisor", store.root],
            env,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, output, append, 0o644),
                (os.POSIX_SPAWN_OPEN, 2, output, append, 0o644),
                *((os.POSIX_SPAWN_CLOSE, fd) for fd in _inherited()),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP],
        )
    except OSError as error:
        raise storage_failed(error, "Cannot start the supervisor") from error


def _inherited() -> Iterator[int]:
    """Descriptors that our own caller let through, such as the `life` of the run we are called from."""
    try:
        names = os.listdir("/proc/self/fd")
    except OSError:
        names = []
    for name in names:
        fd = int(name)
        try:
            if fd > 2 and os.get_inheritable(fd):
                yield fd
        except OSError:
            continue  # the listing's own descriptor


def _has_ended(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


def address(store: Store, folder: int) -> str:
    """The socket's address; a long path goes through the open folder, for the kernel takes 107 bytes."""
    path = f"{store.own}/sock"
    return path if len(os.fsencode(path)) < 100 else f"/proc/self/fd/{folder}/sock"


def own_folder(store: Store) -> int:
    """A descriptor of the supervisor's folder."""
    return os.open(store.own, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)


def _send(store: Store, line: bytes) -> bool:
    """Whether a supervisor took the message over: it says so. It drops who dawdles, and is told once more then."""
    said = _say(store, line)
    return (_say(store, line) if said == b"" else said) == b"ok\n"


def _say(store: Store, line: bytes) -> bytes | None:
    """What it says to a message: nothing if it dropped us; None if nobody listens, or says anything."""
    import _socket

    if not os.path.exists(f"{store.own}/sock"):
        return None
    peer = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    folder = own_folder(store)
    try:
        peer.settimeout(lock.PATIENCE)
        peer.connect(address(store, folder))
        view = memoryview(line)
        while view:
            view = view[peer.send(view) :]
        return peer.recv(3)
    except (BrokenPipeError, ConnectionResetError):
        return b""
    except OSError:
        return None
    finally:
        os.close(folder)
        peer.close()
