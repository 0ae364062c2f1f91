"""Where and when we are: clock, boot, machine, pid namespace."""

from __future__ import annotations

import os
import time


def now() -> str:
    """UTC with milliseconds, as every event carries it."""
    seconds = time.time()
    return f"{_second(int(seconds))}.{int(seconds % 1 * 1000):03d}Z"


_seconds: dict[int, str] = {}  # the last formatted second: many events share one


def _second(whole: int) -> str:
    text = _seconds.get(whole)
    if text is None:
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
        _seconds.clear()
        _seconds[whole] = text
    return text


def epoch(stamp: str | None) -> float:
    """Seconds since 1970 of a stamp that `now` made; 0 for none."""
    if not stamp:
        return 0.0
    year, month, day = int(stamp[:4]), int(stamp[5:7]), int(stamp[8:10])
    year -= month < 3  # count years from March, so that a leap day is the last day of a year
    days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * ((month + 9) % 12) + 2) // 5 + day - 719469
    return days * 86400.0 + int(stamp[11:13]) * 3600 + int(stamp[14:16]) * 60 + float(stamp[17:-1])


_known: dict[str, str] = {}


def _once(name: str, path: str) -> str:
    if name not in _known:
        try:
            with open(path, encoding="ascii", errors="replace") as file:
                _known[name] = file.read().strip()
        except OSError:
            _known[name] = ""
    return _known[name]


def boot() -> str:
    """Changes with every boot; monotonic times are comparable only within one."""
    return _once("boot", "/proc/sys/kernel/random/boot_id")[:8] or _boot_time()


def _boot_time() -> str:
    """Without /proc (macOS): the second the machine was booted at, from psutil."""
    if "boot_time" not in _known:
        import psutil

        _known["boot_time"] = str(int(psutil.boot_time()))
    return _known["boot_time"]


def machine() -> str:
    """The same on every boot of one machine, different on another."""
    return _once("machine", "/etc/machine-id")[:12] or os.uname().nodename


def pid_namespace() -> str:
    """The pid namespace, within which alone pids mean something; empty where there are none."""
    name = f"pidns of {os.getpid()}"  # a child may have been put into another
    if name not in _known:
        try:
            _known[name] = os.readlink("/proc/self/ns/pid")[5:-1]
        except OSError:
            _known[name] = ""
    return _known[name]
