"""Where and when we are: clock, boot, machine, pid namespace."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def now_stamp() -> str:
    """UTC with milliseconds, as every event carries it."""
    seconds = time.time()
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{int(seconds % 1 * 1000):03d}Z"


def epoch_of(stamp: str | None) -> float:
    """Seconds since 1970 of a stamp that `now` made; 0 for none."""
    if not stamp:
        return 0.0
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
        except OSError:
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
