"""`overhand` without the start of an interpreter: one process has imported the program, and forks for every command.

The child is a process like any other: it has its own pid, folder, environment and standard streams, and ends with the
command. Only its imports are done already; the same holds for a supervisor that such a command starts. Tests whose
subject is the process itself (signals, start-up, a terminal) start one by `ProjectDir.start`, or run it with `cold`.
"""

from __future__ import annotations

import atexit
import ctypes
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
from overhand.system import LINUX
from overhand.testing import project
from overhand.testing.project import ProjectDir, Ran

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BEGAN_WITH = dict(os.environ)
# Not imported ahead: heavy libraries that few commands need, and modules that are programs.
LATER = ("overhand.mcp", "overhand.testing")
ROOM = "-" * 512  # on the command line of the server, for that of a supervisor
LIBRARIES = ("hashlib", "json", "jsonschema_rs", "pathspec", "shutil", "subprocess", "tempfile", "threading", "yaml")


class Project(ProjectDir):
    """A project whose commands need no interpreter of their own."""

    __slots__ = ()

    def run(self, *args: str, check: bool = False, env: Mapping[str, str] | None = None, timeout: float = 60) -> Ran:
        environment = {**self.environment(), **(env or {})}
        if not LINUX or _read_at_start(environment) != _read_at_start(BEGAN_WITH):
            return self.cold(*args, check=check, env=env, timeout=timeout)
        if self.trust and self._changed and args[:1] != ("trust",):
            self.trust_files()
        ran = _server().run(args, str(self.path), environment, timeout)
        if check and ran.code:
            raise AssertionError(f"overhand {' '.join(args)} ended with {ran.code}\n{ran.out}{ran.err}")
        return ran

    def cold(self, *args: str, check: bool = False, env: Mapping[str, str] | None = None, timeout: float = 60) -> Ran:
        """The same in an interpreter of its own."""
        return super().run(*args, check=check, env=env, timeout=timeout)


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """What only a new interpreter heeds: Python's own variables, and those that the C library reads once."""
    return {name: value for name, value in environment.items() if name.startswith(("PYTHON", "LC_", "LANG", "TZ"))}


@functools.wraps(project.make_project)
def make_project(*args: Any, **options: Any) -> Project:
    made = project.make_project(*args, **options)
    return Project(made.path, made.config_home, made.trust, Path(os.environ["XDG_STATE_HOME"]))


# the client's side


@functools.cache
def _server() -> Server:
    return Server()


class Server:
    """The process that forks, from the side of the tests; it ends with its last client."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        outside = {name: value for name, value in BEGAN_WITH.items() if not name.startswith("OVERHAND_")}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno()), ROOM],
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
                    events.close()
                    for mine in (control, client, *(other for _, other in running.values())):
                        mine.close()
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
    for end, standard in ((out, 1), (err, 2)):
        os.dup2(end, standard)
        os.close(end)
    _open_streams()
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv = [str(Path(overhand.__file__).with_name("__main__.py")), *asked["args"]]
    vars(os)["posix_spawn"] = _spawn
    cli.program()


def _open_streams() -> None:
    """New ones: those of the server know what kind of file they began with."""
    sys.stdout = os.fdopen(1, "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors, closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, encoding=sys.stderr.encoding, errors=sys.stderr.errors, closefd=False)


_posix_spawn = os.posix_spawn


def _spawn(path: str, argv: list[str], env: Mapping[str, str], **options: Any) -> int:
    """`posix_spawn`, but a supervisor is forked: it shares no open file with us, and has the command line of one."""
    if argv[1:4] != ["-P", "-m", "overhand.supervisor"] or len("\0".join(argv)) > len(ROOM):
        return _posix_spawn(path, argv, env, **options)
    if pid := os.fork():
        return pid
    code = 1
    try:
        gc.freeze()  # no file of the command may be closed later by its number, which is another file's then
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        os.setsid()
        for action, *words in options["file_actions"]:
            if action == os.POSIX_SPAWN_OPEN:
                number, name, flags, mode = words
                opened = os.open(name, flags, mode)
                os.dup2(opened, number)
                os.close(opened)
        signal.pthread_sigmask(signal.SIG_SETMASK, options["setsigmask"])
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        _open_streams()
        _look_like(argv)
        os.environ.clear()
        os.environ.update(env)
        code = importlib.import_module("overhand.supervisor.__main__").main(argv[4:])
        sys.stdout.flush()
    finally:
        os._exit(code)


def _look_like(argv: Sequence[str]) -> None:
    """Write these words where the kernel reads the command line; the server's own has room for them."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    begin, end = (int(fields[number - 3]) for number in (48, 49))
    ctypes.memmove(begin, "\0".join(argv).encode().ljust(end - begin, b"\0"), end - begin)


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
