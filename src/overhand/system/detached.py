"""A detached process and the folder that records its state.

`start` claims the right to run (made with O_EXCL, once), `life` is a FIFO that has a reader for as long as the shim or
its child lives, `exit` holds the exit code. Pids (`shim`, `pid`) say what to signal; they never decide what is alive.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from overhand.system import files, machine, members

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Makes the shim a child subreaper, so that whatever the agent detaches stays its descendant, and restores the two
# signals that Python ignores, because the agent would inherit that. The agent starts only after this: Perl, where it
# is installed, does it in a seventh of the time, and the core of ctypes imports faster than the whole.
_PERL = "/usr/bin/perl"
_QUICKLY = "delete $ENV{PERL_BADLANG};syscall(%d,36,1,0,0,0);exec{$ARGV[0]}@ARGV;exit 126"
_PRCTL = {"x86_64": 157, "aarch64": 167}  # system call numbers
_ENTER = """\
import _signal, posix, sys
_signal.signal(_signal.SIGPIPE, _signal.SIG_DFL)
_signal.signal(_signal.SIGXFSZ, _signal.SIG_DFL)
try:
    import _ctypes
    _ctypes.call_function(_ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl"), (36, 1, 0, 0, 0))
except (ImportError, AttributeError):
    import ctypes
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
posix.execv(sys.argv[1], sys.argv[1:])
"""

# The traps are handlers, not `ignore`: they keep the shim alive to report the exit code and are reset in its child.
# A file is valid once it ends in a newline, so these single short writes need no rename.
_SHIM = """\
place=$1; tree=$2; shift 2
set -C; { true >"$place/start"; } 2>/dev/null || exit 125; set +C
trap : TERM INT HUP QUIT
echo $$ >"$place/shim"
/bin/sh -c 'echo $$ >"$1/pid"; cd "$2" || exit 126; shift 2; exec "$@"' overhand-agent "$place" "$tree" "$@"
code=$?
echo $code >"$place/exit"
while kids=; { read -r kids </proc/$$/task/$$/children; } 2>/dev/null; [ -n "$kids" ]; do sleep 1; done
"""
_LIFE_FD = 9
_FORBIDDEN = b"never began\n"  # in `start`: written by `probe`, not by a shim
_SHELL = "/bin/sh"
_LOOKS = 300  # scans before processes that survive every SIGKILL are given up: at least five seconds
_REFUSALS = 20  # scans in a row after which processes of another user are given up
_spawning = threading.Lock()
_children: set[int] = set()  # shims that this process started and has not reaped, as the kernel has them


@dataclass(frozen=True, slots=True)
class Probe:
    """What became of a process: `alive`, `ended` (with its exit code), `lost`, or `unbegun`."""

    what: str
    exit: int | None = None


def hold_life(place: str) -> int:
    """Make the FIFO `life` and open its read end: the run is alive until every process that inherits it has ended.

    Unlike a lock, which any holder of the descriptor can release for all of them, a read end can only be closed by each
    process for itself. The FIFO gets its name after it has its reader, so it is never seen without one before the run
    is over, and write-only permissions, so that a process of another run can't open it for reading.
    """
    new = f"{place}/life.new"
    try:
        os.mkfifo(new, 0o600)
    except FileExistsError:  # of a starter that was killed
        os.unlink(new)
        os.mkfifo(new, 0o600)
    fd = os.open(new, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.fchmod(fd, 0o200)
        os.rename(new, f"{place}/life")
    except OSError:
        os.close(fd)
        raise
    return fd


def start_detached(
    place: str, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], stdin: str = os.devnull
) -> int:
    """Start argv behind a shim in its own session; returns the shim's pid. Raises OSError if nothing was started."""
    life = hold_life(place)
    shim = [_SHELL, "-c", _SHIM, "overhand-shim", place, cwd, *argv]
    if sys.platform == "linux" and _has_perl(env):
        shim = [_PERL, "-e", _QUICKLY % _PRCTL[os.uname().machine], *shim]
        env = {**env, "PERL_BADLANG": "0"}  # else its locale warnings end up in the agent's output
    elif sys.platform == "linux":
        shim = [sys.executable, "-IS", "-c", _ENTER, *shim]
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        with _spawning:  # `is_child` waits until the pid is recorded
            pid = os.posix_spawn(
                shim[0],
                shim,
                dict(env),
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, life, _LIFE_FD),
                    (os.POSIX_SPAWN_OPEN, 0, stdin, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, f"{place}/stdout", append, 0o644),
                    (os.POSIX_SPAWN_OPEN, 2, f"{place}/stderr", append, 0o644),
                ],
                setsid=True,
                setsigmask=[],
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
            )
            _children.add(pid)
        return pid
    finally:
        os.close(life)


def _has_perl(env: Mapping[str, str]) -> bool:
    """Whether Perl is installed and no environment variable makes it run other code first."""
    known = sys.maxsize > 1 << 32 and os.uname().machine in _PRCTL
    return known and not any(name.startswith("PERL") for name in env) and os.access(_PERL, os.X_OK)


def is_child(pid: int | None) -> bool:
    """Whether we started it and have not reaped it: its pid can't have been reused, whatever its command line says."""
    with _spawning:
        return pid in _children


def reap_children() -> None:
    """Reap the shims that this process started and the orphans it inherited; its other children are left alone."""
    if not _has_zombie_child():
        return
    for pid in {*_children, *members.dead_orphans(_children)}:
        try:
            done, _ = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            done = pid
        if done:
            _children.discard(pid)


def _has_zombie_child() -> bool:
    """Whether any child is a zombie: one system call instead of one per child, of which there may be hundreds."""
    if not hasattr(os, "waitid"):
        return True
    try:
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return bool(_children)


def exit_code(place: str) -> int | None:
    """The agent's exit code, once it is completely written."""
    raw = files.read_file(f"{place}/exit", limit=32)  # raises where no descriptor is free: it may be written
    try:
        return int(raw) if raw and raw.endswith(b"\n") else None
    except ValueError:
        return None


def _number(path: str) -> int | None:
    try:
        with open(path, "rb") as file:
            raw = file.read(32)
        return int(raw) if raw.endswith(b"\n") else None
    except (OSError, ValueError):
        return None


def lives(place: str) -> bool:
    """Whether a process of the run still has its `life` open for reading."""
    return files.has_reader(f"{place}/life")


def probe_process(place: str) -> Probe:
    """Find out what became of it, in the one order that cannot start it twice; the caller holds the task's lock."""
    if (code := exit_code(place)) is not None:
        return Probe("ended", code)
    if lives(place):
        return Probe("alive")
    if (code := exit_code(place)) is not None:  # it may have ended between the two checks
        return Probe("ended", code)
    return Probe("unbegun" if _forbid_start(place) else "lost")


def _forbid_start(place: str) -> bool:
    """Claim the right to run before a late shim does; False if a shim already has it.

    The file has its content from the moment it exists, so the next process understands it even if we are killed then.
    """
    if not os.path.isdir(place):
        return True
    try:
        if not os.path.exists(f"{place}/start"):
            with open(f"{place}/start.new", "wb") as file:
                file.write(_FORBIDDEN)
            os.link(f"{place}/start.new", f"{place}/start")
    except FileExistsError:
        pass  # the shim was first
    with open(f"{place}/start", "rb") as file:
        return file.read(len(_FORBIDDEN)) == _FORBIDDEN


def shim_pid(place: str, recorded: int | None = None) -> int | None:
    """The living shim of this place; a reused pid doesn't have the place in its command line."""
    pid = _number(f"{place}/shim") or recorded
    return pid if pid and machine.command_line_has(pid, place) else None


def wait_for_exit(place: str, shim: int | None, seconds: float) -> bool:
    """Wait until `exit` is written or the run is dead; False on timeout."""
    deadline = time.monotonic() + seconds
    pause = 0.001
    watched = machine.pidfd(shim) if shim is not None else None
    try:
        while exit_code(place) is None and lives(place):
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            if watched is not None:
                select.select([watched], [], [], min(left, 0.2))
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, 0.05)
        return True
    finally:
        if watched is not None:
            os.close(watched)


def stop_detached(place: str, marker: str, *, grace: float, spare: frozenset[int] = frozenset()) -> list[int]:
    """End every member of a run: SIGTERM to the agent's group, SIGKILL to what is left, the shim last.

    Returns the pids that could not be ended: of another user, or (on Linux) stuck in the kernel.
    """
    run = members.Members(place, marker, spare)
    found = run.scan()
    agent = _number(f"{place}/pid")
    if agent in found:
        try:
            os.killpg(os.getpgid(agent), signal.SIGTERM)
        except (ProcessLookupError, PermissionError):
            pass  # it has just ended, or all of its group belong to another user
    else:
        for pid, started in found.items():
            members.send_signal(pid, started, signal.SIGTERM)
    if found:
        wait_for_exit(place, None, grace)
    left = _kill_all(place, run)
    reap_children()  # orphans of a killed shim are dead, but look alive while they are zombies
    return left


def _kill_all(place: str, run: members.Members) -> list[int]:
    """Kill until two scans in a row find no member.

    Scans are counted, not seconds: on a busy machine killed processes take long to die.
    """
    empty, refused, found = 0, 0, {}
    for _ in range(_LOOKS):
        found = run.scan()
        empty = 0 if found else empty + 1
        if empty == 2:
            shim = shim_pid(place)
            if shim is None or not (unseen := members.restless(shim)):
                _end_shim(place)
                return []
            members.end_groups(set(unseen.values()), run.spare)
            empty, found = 0, dict.fromkeys(unseen, 0.0)
            continue
        sent = [members.send_signal(pid, started, signal.SIGKILL) for pid, started in found.items()]
        refused = refused + 1 if found and not any(sent) else 0
        if refused == _REFUSALS:
            break
        time.sleep(0.05 if not found else 0.01)
    return sorted(found)


def _end_shim(place: str) -> None:
    """End the shim, which goes last, after it has written the exit code."""
    if (shim := shim_pid(place)) is None:
        return
    deadline = time.monotonic() + 1.0
    while exit_code(place) is None and time.monotonic() < deadline and machine.start_time(shim) is not None:
        time.sleep(0.005)
    started = machine.start_time(shim)
    members.send_signal(shim, started, signal.SIGSTOP)  # so that it doesn't start another `sleep`
    pauses = members.pauses(shim)
    members.send_signal(shim, started, signal.SIGKILL)
    for pid, began in pauses.items():
        members.send_signal(pid, began, signal.SIGKILL)
    for pid in (shim, *pauses):
        deadline = time.monotonic() + 1.0
        while machine.start_time(pid) is not None and time.monotonic() <= deadline:
            time.sleep(0.01)


def living_leftovers(place: str, marker: str, spare: frozenset[int] = frozenset(), patience: float = 0.0) -> list[int]:
    """Members that outlived their agent; the shim stays exactly as long as it has any.

    With `patience`, members that are about to end get that many seconds.
    """
    began = time.monotonic()
    stays = exit_code(place) is not None  # else the shim was killed and didn't wait for them
    next_scan = began + 0.1 if stays else began
    while lives(place) or not stays:
        if (now := time.monotonic()) >= next_scan:
            scanned = members.Members(place, marker, spare).scan()
            # one that ended during the scan may be the shim, whose command line is empty by then
            found = sorted(pid for pid, started in scanned.items() if machine.start_time(pid) == started)
            if not found and (shim := shim_pid(place)) is not None and stays:
                found = sorted(members.restless(shim))
            if not found or now >= began + patience:
                return found
            next_scan = now + 0.1
        time.sleep(0.002)
    return []
