"""The client of the project's supervisor, which starts one where none runs, and the switch of its tag daemon."""

from __future__ import annotations

import os
import sys
import time

from overhand.errors import OverhandError, Refused, storage_failed
from overhand.system import (
    LOCK_PATIENCE,
    boot_id,
    busy_error,
    command_line_has,
    dump_line,
    dump_spaced,
    has_live_holder,
    is_held,
    is_stopped,
    kernel_holder,
    load_line,
    lock_holder,
    names_in,
    now_stamp,
    outside_runs,
    pid_namespace,
    pidfd,
    read_file,
    start_time,
    write_file,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from overhand.record import Store

PROTOCOL = 1  # stands in the first line of every reply; a supervisor that names none is older than that
_PATIENCE = 10.0
_STARTING = 50.0  # seconds more for a supervisor that is alive and not listening yet: a busy machine starts it slowly


def hand_to_supervisor(store: Store, tasks: Iterable[str]) -> bool:
    """Hand tasks to the supervisor, starting one if needed. False where none may be started from here."""
    if store.supervise is not None:
        store.supervise(list(tasks))
        return True
    return _deliver(store, {"tasks": list(tasks), "env": outside_runs(os.environ)}, start=True)


def wake_supervisor(store: Store, tasks: Iterable[str]) -> bool:
    """Have a running supervisor read these tasks again; they keep the environment that it has for them."""
    if store.supervise is not None:
        store.supervise(list(tasks))
        return True
    return _deliver(store, {"tasks": list(tasks), "env": None}, start=False)


def ask_supervisor(store: Store, question: Mapping[str, object]) -> bytes | None:
    """The supervisor's answer; None if none runs, it is of another version, or it doesn't know."""
    found = _exchange(store, question)
    if found is None or found[:2] != ("yes", PROTOCOL) or not found[2].endswith(b"\0"):
        return None
    return found[2][:-1]


def running_supervisor(store: Store) -> int | None:
    """The pid of the supervisor that holds the project's lock, if there is one."""
    path = f"{store.own}/lock"
    return lock_holder(path) if has_live_holder(path) else None


def may_start(store: Store) -> bool:
    """Not from behind a shield, which hides the supervisor's files, nor from another pid namespace than the live runs
    are in: a supervisor in a sandbox would die with it."""
    if store.exists() and not os.access(store.own, os.W_OK) and not names_in(store.own):
        return False
    here = pid_namespace()
    for task in store.tasks():
        run = task.current_run
        if run and run.pidns not in ("", here) and run.boot == boot_id():
            try:
                if store.is_alive(task.id, run):
                    return False
            except OverhandError:
                continue
    return True


def _spawn(store: Store) -> int:
    """Start a supervisor in its own session, without the marker of any run and with nothing of ours open."""
    import signal

    output = f"{store.own}/log"
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        os.close(os.open(output, append | os.O_CLOEXEC, 0o644))  # here: an error of the child would name the program
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-P", "-m", "overhand.supervisor", store.root, store.home],
            outside_runs(os.environ),
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
    for fd in map(int, names_in("/proc/self/fd")):
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
    return os.open(store.own, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)


def _deliver(store: Store, message: Mapping[str, object], *, start: bool) -> bool:
    """Whether a supervisor of this version acknowledged the message."""
    if found := _exchange(store, message):
        if found[:2] == ("ok", PROTOCOL):
            return True
        if found[1] > PROTOCOL:
            raise Refused(
                "The supervisor of this project belongs to a newer version of Overhand.",
                "Use that version here, or try again once its tasks have ended.",
            )
        if not may_start(store):
            return found[0] == "ok"
        _end_older(store)
        start = True
    if not start:
        return False
    if (holder := running_supervisor(store)) and is_stopped(holder):
        raise busy_error(f"{store.own}/lock", "The supervisor's lock")
    if not may_start(store):
        return False
    store.ensure()
    deadline = time.monotonic() + _PATIENCE
    pid = _spawn(store)
    pause = 0.005
    while (found := _exchange(store, message)) is None or found[:2] != ("ok", PROTOCOL):
        foreign = _is_held_by_another_program(store)
        alive = not _has_ended(pid) or (running_supervisor(store) is not None and not foreign)
        if time.monotonic() >= deadline + (_STARTING if alive else 0.0):
            if foreign:
                raise busy_error(f"{store.own}/lock", "The supervisor's lock")
            raise Refused("The supervisor does not answer.", f"Look at {store.own}/log, then try again.")
        if not alive and not foreign:
            pid = _spawn(store)  # it found the lock held by one that was about to leave
        time.sleep(pause)
        pause = min(pause * 1.3, 0.1)
    return True


def _is_held_by_another_program(store: Store) -> bool:
    """Whether a process that is no supervisor holds the lock; none can start before it lets go."""
    pid = kernel_holder(f"{store.own}/lock")
    return pid is not None and start_time(pid) is not None and not command_line_has(pid, "overhand.supervisor")


def _end_older(store: Store) -> None:
    """End a supervisor of an older version, or of the project's former path; the next one adopts its runs."""
    import select
    import signal

    pid = running_supervisor(store)
    process = pidfd(pid) if pid else None
    if process is None:
        return  # it has ended
    try:
        if running_supervisor(store) == pid:  # the descriptor is the lock holder's, not a successor's
            signal.pidfd_send_signal(process, signal.SIGTERM)
            select.select([process], [], [], _PATIENCE)
    finally:
        os.close(process)


def _exchange(store: Store, message: Mapping[str, object]) -> tuple[str, int, bytes] | None:
    """One message and its reply: the first word, the protocol's number (0 if it names none), and what follows.

    None if no supervisor listens. It drops clients that are slow to speak; such a call is repeated once.
    """
    reply = _send(store, message)
    if reply == b"":
        reply = _send(store, message)
    if not reply:
        return None
    line, _, rest = reply.partition(b"\n")
    word, _, number = line.decode("ascii", "replace").partition(" ")
    return word, int(number) if number.isdigit() else 0, rest


def _send(store: Store, message: Mapping[str, object]) -> bytes | None:
    """The whole reply: empty if the supervisor dropped us; None if none listens or it does not reply."""
    import _socket

    if not os.path.exists(f"{store.own}/sock"):
        return None
    try:
        peer, folder = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM), own_folder(store)
    except OSError as error:  # no descriptor is free
        raise storage_failed(error, "Cannot reach the supervisor") from error
    try:
        peer.settimeout(LOCK_PATIENCE)
        peer.connect(address(store, folder))
        known = is_our_supervisor(store, peer)
        if known is False:
            return None  # another program listens there
        sent = message if known else {**message, "env": None}  # the record has the environment, too
        view = memoryview(dump_line(sent).encode("utf-8", "surrogatepass") + b"\n")
        while view:
            view = view[peer.send(view) :]
        parts = []
        while part := peer.recv(1 << 20):
            parts.append(part)
        return b"".join(parts)
    except (BrokenPipeError, ConnectionResetError):
        return b""
    except OSError:
        return None
    finally:
        os.close(folder)
        peer.close()


def peer_uid(peer: Any) -> int | None:
    """The user at the other end of a connected socket, as the kernel says; None where it doesn't."""
    found = _credentials(peer)
    return found[1] if found else None


def peer_pid(peer: Any) -> int | None:
    """The process at the other end; 0 if it is in no pid namespace that can be seen from this one."""
    found = _credentials(peer)
    return found[0] if found else None


def is_our_supervisor(store: Store, peer: Any) -> bool | None:
    """Whether the supervisor of this record listens there: the process of this user that holds its lock.

    None if the kernel names no process, as it does for one outside of our container.
    """
    found = _credentials(peer)
    if found is None:
        return True  # no way to ask; the record's folder is open to this user only
    pid, uid = found
    path = f"{store.own}/lock"
    if uid != os.getuid() or not is_held(path):
        return False
    return (pid == (kernel_holder(path) or lock_holder(path))) if pid else None


def _credentials(peer: Any) -> tuple[int, int] | None:
    """Process and user at the other end of a connected socket."""
    import _socket

    option = getattr(_socket, "SO_PEERCRED", None)
    if option is None:
        return None
    found = peer.getsockopt(_socket.SOL_SOCKET, option, 12)  # pid, uid, gid, as three ints
    return int.from_bytes(found[:4], sys.byteorder), int.from_bytes(found[4:8], sys.byteorder)


# The switch that makes a supervisor watch tags: a small file beside its lock that exists while it is on.


def _switch(store: Store) -> str:
    return f"{store.own}/daemon"


def turn_daemon_on(store: Store, pid: int | None = None) -> None:
    """Switch tag watching on; with a pid, for as long as that process lives."""
    store.ensure()
    holder = {"pid": pid, "started": start_time(pid), "pidns": pid_namespace()} if pid else {}
    write_file(_switch(store), dump_spaced({"since": now_stamp(), **holder}) + "\n")


def turn_daemon_off(store: Store) -> bool:
    """Switch tag watching off; returns whether it was on."""
    try:
        os.unlink(_switch(store))
    except FileNotFoundError:
        return False
    return True


def daemon_state(store: Store) -> dict[str, Any] | None:
    """The content of the switch; None if it is off or its process is gone."""
    try:
        found = load_line((read_file(_switch(store)) or b"null").decode())
    except (ValueError, OverhandError):
        return {}  # unreadable, but it was switched on
    if not isinstance(found, dict):
        return None
    pid = found.get("pid")
    if pid and found.get("pidns") == pid_namespace() and start_time(int(pid)) != found.get("started"):
        return None
    return found


def daemon_log(store: Store) -> str:
    """The daemon's log: one JSON object per line."""
    return f"{store.own}/daemon.jsonl"
