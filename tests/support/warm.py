"""`overhand` without the start of an interpreter: one process has imported the program, and forks for every command.

The child is a process like any other: it has its own pid, folder, environment and standard streams, and ends with the
command. Only its imports are done already. Tests whose subject is the process itself (signals, start-up, a terminal)
start one by `ProjectDir.start`, or run it with `cold`.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import overhand
from overhand.testing import project
from overhand.testing.project import ProjectDir, Ran

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# What only a new interpreter heeds: Python's own variables, and what the C library reads once.
COLD = ("PYTHON", "LC_", "LANG", "TZ")
# Not imported ahead: heavy libraries that few commands need, and modules that are programs.
LATER = ("overhand.mcp", "overhand.testing")
LIBRARIES = ("hashlib", "json", "jsonschema_rs", "pathspec", "shutil", "subprocess", "tempfile", "threading", "yaml")


class Project(ProjectDir):
    """A project whose commands need no interpreter of their own."""

    __slots__ = ()

    def run(self, *args: str, check: bool = False, env: Mapping[str, str] | None = None, timeout: float = 60) -> Ran:
        if any(name.startswith(COLD) for name in env or ()):
            return self.cold(*args, check=check, env=env, timeout=timeout)
        if self.trust and self._changed and args[:1] != ("trust",):
            self.trust_files()
        ran = _server().run(args, str(self.path), {**self.environment(), **(env or {})}, timeout)
        if check and ran.code:
            raise AssertionError(f"overhand {' '.join(args)} ended with {ran.code}\n{ran.out}{ran.err}")
        return ran

    def cold(self, *args: str, check: bool = False, env: Mapping[str, str] | None = None, timeout: float = 60) -> Ran:
        """The same in an interpreter of its own."""
        return super().run(*args, check=check, env=env, timeout=timeout)


@functools.wraps(project.make_project)
def make_project(*args: Any, **options: Any) -> Project:
    made = project.make_project(*args, **options)
    return Project(made.path, made.config_home, made.trust)


# the client's side


@functools.cache
def _server() -> Server:
    return Server()


class Server:
    """The process that forks, from the side of the tests; it ends with its last client."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        outside = {name: value for name, value in os.environ.items() if not name.startswith("OVERHAND_")}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno())],
                env={**outside, "PYTHONPATH": str(Path(__file__).parents[1])},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self.close)

    def close(self) -> None:
        self._control.close()
        self._process.wait()

    def run(self, args: Sequence[str], folder: str, environment: Mapping[str, str], timeout: float) -> Ran:
        request = os.memfd_create("request")
        os.write(request, json.dumps({"args": args, "folder": folder, "environment": dict(environment)}).encode())
        os.lseek(request, 0, os.SEEK_SET)
        ours, theirs = socket.socketpair()
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        socket.send_fds(self._control, [b"!"], [request, theirs.fileno(), out_end, err_end])
        theirs.close()
        for end in (request, out_end, err_end):
            os.close(end)
        with ours:
            answer, *printed = _read_all([ours.fileno(), out, err], timeout, args)
        os.close(out)
        os.close(err)
        return Ran(int(answer.split()[1]), *(data.decode() for data in printed))


def _read_all(files: list[int], timeout: float, args: Sequence[str]) -> list[bytes]:
    """What comes from each until its end; the first line of the first is the pid that is killed after the timeout."""
    found = dict.fromkeys(files, b"")
    deadline = time.monotonic() + timeout
    with selectors.DefaultSelector() as open_files:
        for file in files:
            open_files.register(file, selectors.EVENT_READ)
        while open_files.get_map():
            for key, _ in open_files.select(max(0.0, deadline - time.monotonic())):
                data = os.read(key.fd, 65536)
                found[key.fd] += data
                if not data:
                    open_files.unregister(key.fd)
            if time.monotonic() > deadline:
                os.kill(int(found[files[0]].split()[0]), signal.SIGKILL)
                raise subprocess.TimeoutExpired(["overhand", *args], timeout)
    return list(found.values())


# the server's side


def _serve(control: socket.socket) -> None:
    """Fork for every request, and tell its client first the pid, then the exit status."""
    running: dict[int, tuple[int, socket.socket]] = {}  # by pidfd
    with selectors.DefaultSelector() as events:
        events.register(control, selectors.EVENT_READ)
        while True:
            for key, _ in events.select():
                if key.fd != control.fileno():
                    pid, client = running.pop(key.fd)
                    events.unregister(key.fd)
                    os.close(key.fd)
                    _tell(client, f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n")
                    client.close()
                    continue
                _, files, _, _ = socket.recv_fds(control, 1, 4)
                if not files:
                    return
                request, told, out, err = files
                with open(request, "rb") as file:
                    asked = json.load(file)
                client = socket.socket(fileno=told)
                pid = os.fork()
                if pid == 0:
                    control.close()
                    for _, other in running.values():
                        other.close()
                    client.close()
                    _become(asked, out, err)
                os.close(out)
                os.close(err)
                _tell(client, f"{pid}\n")
                watched = os.pidfd_open(pid)
                running[watched] = pid, client
                events.register(watched, selectors.EVENT_READ)


def _tell(client: socket.socket, text: str) -> None:
    try:
        client.sendall(text.encode())
    except OSError:
        pass  # a client that gave up after its timeout


def _become(asked: dict[str, Any], out: int, err: int) -> None:
    """Be `python -m overhand`."""
    from overhand import cli

    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.close(out)
    os.close(err)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv = [str(Path(overhand.__file__).with_name("__main__.py")), *asked["args"]]
    cli.program()


def _import_all() -> None:
    for found in pkgutil.walk_packages(overhand.__path__, "overhand."):
        if not found.name.startswith(LATER) and not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    for name in LIBRARIES:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C is for the tests
    _import_all()
    _serve(socket.socket(fileno=int(sys.argv[1])))
