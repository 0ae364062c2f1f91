"""An agent that delegates and hides where the call comes from: `hostile.py MANNER AGENT OUT`, the answer in OUT."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time

MANNERS = ("plain", "unset", "altered", "env-i", "setsid", "double-fork", "everything", "headless")


def environment(manner: str) -> dict[str, str]:
    """Without our variables, with false ones, or with next to nothing."""
    if manner in ("env-i", "everything", "headless"):
        return {name: os.environ[name] for name in ("PATH", "XDG_CONFIG_HOME")}
    if manner == "altered":
        false = {"OVERHAND_TASK": "nobody-20200101-000000", "OVERHAND_RUN": "sess_1_aaaaaa", "OVERHAND_DEPTH": "0"}
        return {**os.environ, **false}
    if manner in ("unset", "double-fork"):
        return {name: value for name, value in os.environ.items() if not name.startswith("OVERHAND_")}
    return dict(os.environ)


def main(manner: str, agent: str, out: str) -> None:
    given = dict(os.environ)
    if manner in ("setsid", "double-fork", "everything", "headless"):
        if os.fork():
            while not os.path.exists(out):
                time.sleep(0.01)
            return report(given)
        os.setsid()
        if manner in ("double-fork", "everything") and os.fork():
            os._exit(0)
    program = f'"$0" -m overhand delegate below --agent {agent} --wait --json >{out}.new 2>&1; mv {out}.new {out}'
    argv = ["/bin/sh", "-c", program, sys.executable]
    if manner == "headless":
        behead(argv)
    if manner in ("setsid", "double-fork", "everything"):
        os.execve(argv[0], argv, environment(manner))  # noqa: S606 -- the words are ours
    os.spawnve(os.P_WAIT, argv[0], argv, environment(manner))  # noqa: S606 -- as above
    return report(given)


def behead(argv: list[str]) -> None:
    """The process looks dead, for its first thread is; another one goes on, and is the parent of what it starts."""

    def go_on() -> None:
        while stat("self").split()[0] != "Z":
            time.sleep(0.01)
        os.spawnve(os.P_WAIT, argv[0], argv, environment("headless"))  # noqa: S606 -- the words are ours
        os._exit(0)

    threading.Thread(target=go_on).start()
    ctypes.CDLL(None).syscall(ctypes.c_long({"x86_64": 60, "aarch64": 93}[os.uname().machine]), ctypes.c_long(0))


def stat(pid: str) -> str:
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2]


def report(given: dict[str, str]) -> None:
    from overhand.testing.returns import output_md

    with open(given["OVERHAND_OUTPUT"], "w", encoding="utf-8") as file:
        file.write(output_md("x", "hostile"))


if __name__ == "__main__":
    main(*sys.argv[1:4])
