"""The machine and its processes: clock, boot, pid namespace; parent, start, command line and environment of a process.

Also what may be shown of an environment: not the values of variables with secret-sounding names.
"""

from __future__ import annotations

import os
import sys
import time

from overhand.errors import EXHAUSTED, storage_failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

LINUX = sys.platform == "linux"
SHIM_NAME = b"overhand-shim"
_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")


def home_of_run() -> str:
    """The project of the run around this process, as the environment says; empty outside of one.

    A run works in that project or in a tree of its own, which OVERHAND_PROJECT names.
    """
    return os.environ.get("OVERHAND_HOME") or os.environ.get("OVERHAND_PROJECT", "")


def find_program(name: str, path: str | None = None) -> str | None:
    """Where a program is installed; as `shutil.which`, without its imports.

    A relative folder on PATH depends on the current one, which may be somebody else's project: it does not count.
    """
    folders = (os.environ.get("PATH", os.defpath) if path is None else path).split(os.pathsep)
    beside = [os.path.dirname(sys.executable)] if name == "overhand" else []  # in a virtual environment
    for folder in (*folders, *beside):
        found = f"{folder}/{name}"
        if folder.startswith("/") and os.path.isfile(found) and os.access(found, os.X_OK):
            return found
    return None


def now_stamp() -> str:
    """UTC with milliseconds, as every event carries it."""
    seconds = time.time()
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{int(seconds % 1 * 1000):03d}Z"


def epoch_of(stamp: str | None) -> float:
    """Seconds since 1970 of a stamp that `now` made; 0 for none, and for a damaged one."""
    if not stamp:
        return 0.0
    try:
        return _epoch(stamp)
    except (ValueError, OverflowError):
        return 0.0


def _epoch(stamp: str) -> float:
    year, month, day = int(stamp[:4]), int(stamp[5:7]), int(stamp[8:10])
    year -= month < 3  # count years from March, so that a leap day is the last day of a year
    days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * ((month + 9) % 12) + 2) // 5 + day - 719469
    return days * 86400.0 + int(stamp[11:13]) * 3600 + int(stamp[14:16]) * 60 + float(stamp[17:-1])


# What the kernel says about this process and never changes, read once: a later read may lack a descriptor.
_kernel: dict[str, str] = {}


def _once(name: str, read: Callable[[], str]) -> str:
    if name not in _kernel:
        try:
            _kernel[name] = read()
        except (OSError, ImportError):
            _kernel[name] = ""
    return _kernel[name]


def _text(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read().strip()


def boot_id() -> str:
    """Changes with every boot; monotonic times are comparable only within one."""
    return _once("boot", lambda: _text("/proc/sys/kernel/random/boot_id")[:8]) or _once("boot time", _boot_time)


def _boot_time() -> str:
    """Without /proc (macOS): the second the machine was booted at."""
    import psutil

    return str(int(psutil.boot_time()))


def machine_id() -> str:
    """The same on every boot of one machine, different on another."""
    return _once("machine", lambda: _text("/etc/machine-id")[:12]) or os.uname().nodename


def pid_namespace() -> str:
    """The pid namespace, within which alone pids mean something; empty where there are none."""
    # by pid: a forked child may have been put into another
    return _once(f"pid namespace of {os.getpid()}", lambda: os.readlink("/proc/self/ns/pid")[5:-1])


# processes


class Process:
    """One row of the process table."""

    __slots__ = ("parent", "session", "started")

    def __init__(self, parent: int, session: int, started: float) -> None:
        self.parent, self.session, self.started = parent, session, started


def stat_fields(pid: int) -> list[bytes] | None:
    """The fields after the name in /proc/PID/stat: state, parent, group, session, …; None for a zombie.

    A process whose first thread has ended looks like a zombie, but works and keeps its locks until its last one ends.
    """
    fields = _fields(pid)
    return None if not fields or (fields[0] in b"ZX" and int(fields[17]) < 2) else fields


def _fields(pid: int) -> list[bytes]:
    """The same fields, also for a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError as error:
        if error.errno in EXHAUSTED:
            raise storage_failed(error, "Cannot look at a process") from error  # it may well exist
        return []


def process_row(pid: int) -> Process | None:
    fields = stat_fields(pid)
    return Process(int(fields[1]), int(fields[3]), float(fields[19])) if fields else None


def start_time(pid: int) -> float | None:
    """When the process began, in the system's own unit; None if it is gone or a zombie."""
    if LINUX:
        row = process_row(pid)
        return row.started if row else None
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else float(process.create_time())
    except psutil.Error:
        return None


def read_proc(pid: int, what: str) -> bytes:
    """`cmdline` or `environ` of a process, NUL-separated; empty if it is gone or not ours."""
    if LINUX:
        try:
            with open(f"/proc/{pid}/{what}", "rb") as file:
                return file.read()
        except OSError:
            return b""
    import psutil

    try:
        process = psutil.Process(pid)
        parts = process.cmdline() if what == "cmdline" else [f"{k}={v}" for k, v in process.environ().items()]
    except (psutil.Error, OSError):
        return b""
    return b"\0".join(part.encode("utf-8", "surrogateescape") for part in parts)


def command_line_has(pid: int, word: str) -> bool:
    """Whether `word` is one of the process's arguments."""
    return word.encode("utf-8", "surrogateescape") in read_proc(pid, "cmdline").split(b"\0")


def environment_of(pid: int, name: str) -> str | None:
    """A variable of the environment a process was started with."""
    wanted = name.encode() + b"="
    for entry in read_proc(pid, "environ").split(b"\0"):
        if entry.startswith(wanted):
            return entry[len(wanted) :].decode("utf-8", "replace")
    return None


def pidfd(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends; None if it has ended, or the system has none."""
    try:
        return os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    except OSError:
        return None


def ancestors_of(pid: int) -> list[int]:
    """The process, its parent and so on up; the children of one that ends meanwhile have a new parent."""
    chain = [pid]
    while True:
        above = parent_of(chain[-1])
        if above is None and len(chain) > 1:
            chain.pop()
        elif not above or above == 1 or above in chain:
            return chain
        else:
            chain.append(above)


def parent_of(pid: int) -> int | None:
    """The parent of a process, None if it is gone; one that looks like a zombie may still have running threads."""
    if LINUX:
        fields = _fields(pid)
        return int(fields[1]) if fields else None
    import psutil

    try:
        return int(psutil.Process(pid).ppid())
    except psutil.Error:
        return None


def shim_place(pid: int) -> str | None:
    """The folder of the run whose shim this is."""
    words = read_proc(pid, "cmdline").split(b"\0")
    if SHIM_NAME not in words[:-1]:
        return None
    place = words[words.index(SHIM_NAME) + 1].decode("utf-8", "surrogateescape")
    try:
        with open(f"{place}/shim", "rb") as file:
            return place if file.read(32) == b"%d\n" % pid else None
    except OSError:
        return None


def held_lives(pid: int) -> list[str]:
    """The runs' `life` that a process has open for reading; one that only probes it has it open for writing."""
    if not LINUX:
        return []  # without /proc we can't read the open files of other processes
    found = []
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        names = []  # it has ended, or is another user's
    for name in names:
        try:
            path = os.readlink(f"/proc/{pid}/fd/{name}")
            if path.endswith("/life"):
                with open(f"/proc/{pid}/fdinfo/{name}", "rb") as file:
                    flags = next(int(line[6:], 8) for line in file if line.startswith(b"flags:"))
                if flags & os.O_ACCMODE != os.O_WRONLY and not flags & os.O_PATH:
                    found.append(path)
        except OSError:
            continue
    return found


def known_sessions(place: str) -> dict[int, float]:
    """Sessions in which members of this run were seen, with the start time of their leader."""
    known: dict[int, float] = {}
    try:
        with open(f"{place}/sessions", encoding="ascii", errors="replace") as file:
            for line in file.read().splitlines():
                session, _, leader = line.partition(" ")
                if session.isdigit():
                    known[int(session)] = float(leader or 0)
    except (OSError, ValueError):
        return known
    return known


# environments


STATE_VARIABLE = "OVERHAND_STATE"  # the user's folder for records: not a run's, but the user's own setting


def outside_runs(env: Mapping[str, str]) -> dict[str, str]:
    """An environment without the variables of a run: what is started belongs to another one, or to none."""
    return {name: value for name, value in env.items() if not name.startswith("OVERHAND_") or name == STATE_VARIABLE}


def secret_variables(env: Mapping[str, str], also: Collection[str] = ()) -> dict[str, str]:
    """The variables that have a secret-sounding name or are named in `also`; values of a few characters are none."""
    names = [name for name in env if name in also or _sounds_secret(name.upper())]
    return {name: env[name] for name in names if len(env[name]) >= 8}


def _sounds_secret(name: str) -> bool:
    for word in _SECRET_NAMES:  # noqa: SIM110 -- a generator for each variable takes twice the time
        if word in name:
            return True
    return False


def mask_secrets(text: str, env: Mapping[str, str] | None = None, also: Collection[str] = ()) -> str:
    """Replace the values of secret variables."""
    for name, value in secret_variables(os.environ if env is None else env, also).items():
        text = text.replace(value, f"<{name}>")
    return text


def shown_address(url: object) -> str:
    """An http URL reduced to what may be shown, its scheme and host; any other value is returned unchanged."""
    scheme, found, rest = str(url).partition("://")
    if not found or scheme.lower() not in ("http", "https"):
        return str(url)
    host = rest.replace("?", "/").replace("#", "/").replace("\\", "/").partition("/")[0].rpartition("@")[2]
    return f"{scheme}://{host}/…"
