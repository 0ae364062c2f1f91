"""`life`: a FIFO with a reader for as long as a process of the run lives, whatever its agent does with it."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from overhand.system import detached, hold_life, lives, probe_process, start_detached
from support.scene import kill, until

if TYPE_CHECKING:
    from pathlib import Path

RUN = f"life-{os.getpid()}"  # other tests run at the same time, and end what has their mark
MARKER = f"OVERHAND_RUN={RUN}"
NOBODY = 65534
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

# Everything that an agent can try with the descriptor it inherits and with the name behind it.
TRICKS = {
    "unlocks": "fcntl.flock(9, fcntl.LOCK_UN)",
    "locks and unlocks": "fcntl.flock(9, fcntl.LOCK_EX); fcntl.flock(9, fcntl.LOCK_UN)",
    "closes it": "os.close(9)",
    "replaces it": "os.dup2(0, 9)",
    "truncates it": "os.ftruncate(9, 0)",
    "writes into it": "os.write(9, b'x')",
    "writes through its name": "os.write(os.open(path, os.O_WRONLY | os.O_NONBLOCK), b'x')",
    "empties it": "os.read(9, 100)",
    "forbids all": "os.chmod(path, 0)",
    "forbids all by descriptor": "os.fchmod(9, 0)",
    "blocks readers": "fcntl.fcntl(9, fcntl.F_SETFL, 0)",
    "fills it": "fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK); [os.write(fd, bytes(4096)) for _ in range(99)]",
}
AGENT = """
import fcntl, os, signal, sys
path = sys.argv[2] + "/life"
try:
    {trick}
except OSError as error:
    print(error)
os.close(os.open("tried", os.O_WRONLY | os.O_CREAT))
signal.pause()
"""


def start(place: Path, script: str) -> int:
    """An agent that is a Python script; the shim's pid."""
    argv = [sys.executable, "-c", script, "agent", str(place)]
    env = {"PATH": os.environ["PATH"], "OVERHAND_RUN": RUN}
    return start_detached(str(place), argv, cwd=str(place), env=env)


def end(place: Path, shim: int) -> None:
    """End the agent and see that nothing of the run is alive afterwards."""
    kill(int(until((place / "pid").read_text, "the agent's pid")))
    os.waitpid(shim, 0)
    assert not lives(str(place))


@pytest.mark.parametrize("trick", TRICKS.values(), ids=TRICKS)
def test_an_agent_cannot_make_its_run_look_dead(tmp_path: Path, trick: str) -> None:
    shim = start(tmp_path, AGENT.format(trick=trick))
    until((tmp_path / "tried").exists, "the trick")
    assert lives(str(tmp_path))
    assert probe_process(str(tmp_path)).what == "alive"
    end(tmp_path, shim)
    assert probe_process(str(tmp_path)) == detached.Probe("ended", 128 + signal.SIGKILL)


def test_without_its_shim_the_agent_keeps_the_run_alive(tmp_path: Path) -> None:
    shim = start(tmp_path, AGENT.format(trick="fcntl.flock(9, fcntl.LOCK_UN)"))
    until((tmp_path / "tried").exists, "the trick")
    agent = int((tmp_path / "pid").read_text())
    os.kill(shim, signal.SIGKILL)
    os.waitpid(shim, 0)
    assert probe_process(str(tmp_path)).what == "alive"
    kill(agent)
    until(lambda: not lives(str(tmp_path)), "its end")
    assert probe_process(str(tmp_path)).what == "lost"


def test_it_is_never_seen_without_a_reader_while_the_run_lives(tmp_path: Path) -> None:
    assert not lives(str(tmp_path)), "there is none yet"
    fd = hold_life(str(tmp_path))
    try:
        assert stat.S_IMODE(os.stat(tmp_path / "life").st_mode) == 0o200
        assert stat.S_ISFIFO(os.stat(tmp_path / "life").st_mode)
        assert os.listdir(tmp_path) == ["life"]
        assert lives(str(tmp_path))
    finally:
        os.close(fd)
    assert not lives(str(tmp_path))


KILLED_AT = """
import os, signal, sys
from overhand.system import detached
left = int(sys.argv[2])
def counted(real):
    def call(*args, **options):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **options)
    return call
for name in ("mkfifo", "open", "fchmod", "rename", "posix_spawn", "close"):
    setattr(os, name, counted(getattr(os, name)))
print(detached.start_detached(sys.argv[1], ["/bin/sh", "-c", "echo >>begun; exec sleep 600"], cwd=sys.argv[1], env={}))
"""


def test_a_starter_killed_at_any_call_leaves_no_wrong_answer(tmp_path: Path) -> None:
    """Either a shim was spawned and the run is alive, or nothing was and the next starter begins it."""
    code, calls = -signal.SIGKILL, 0
    while code == -signal.SIGKILL:
        place = tmp_path / str(calls)
        place.mkdir()
        starter = subprocess.run([sys.executable, "-c", KILLED_AT, str(place), str(calls)], check=False)
        code = starter.returncode
        spawned = calls > 4 or code == 0
        if spawned:
            until((place / "begun").exists, "the agent")
            assert probe_process(str(place)).what == "alive"
        else:
            assert not lives(str(place))
            os.close(hold_life(str(place)))  # the next starter isn't held up by what this one left
            assert probe_process(str(place)).what == "unbegun"
        assert detached.stop_detached(str(place), MARKER, grace=0.0) == []
        assert not lives(str(place))
        calls += 1
    assert (code, calls) == (0, 7)


def test_what_is_no_fifo_is_not_alive(tmp_path: Path) -> None:
    for name in ("file", "folder", "link", "alive"):
        (tmp_path / name).mkdir()
    (tmp_path / "file/life").touch()
    (tmp_path / "folder/life").mkdir()
    (tmp_path / "link/life").symlink_to(tmp_path / "alive/life")
    fd = hold_life(str(tmp_path / "alive"))
    try:
        seen = {name: lives(str(tmp_path / name)) for name in ("file", "folder", "link", "alive")}
        assert seen == {"file": False, "folder": False, "link": False, "alive": True}
    finally:
        os.close(fd)


AS_ANOTHER = """
import os, sys
from overhand.errors import StorageFailed
from overhand.system import lives
path = sys.argv[1] + "/life"
os.setgroups([])
os.setgid(int(sys.argv[2]))
os.setuid(int(sys.argv[2]))
{look}
"""


def as_another(place: Path, uid: int, look: str) -> str:
    """What Python code prints as another user; what it needs is imported before it becomes that user."""
    program = [sys.executable, "-c", AS_ANOTHER.format(look=look), str(place), str(uid)]
    return subprocess.run(program, capture_output=True, text=True, check=True).stdout.strip()


def opening(flags: str) -> str:
    return f"try: os.open(path, {flags} | os.O_NONBLOCK); print('open')\nexcept OSError as e: print(e.strerror)"


@ROOT
@pytest.mark.parametrize("flags", ["os.O_RDONLY", "os.O_RDWR"])
def test_no_other_process_of_the_same_user_can_become_a_reader(tmp_path: Path, flags: str) -> None:
    tmp_path.chmod(0o755)
    fd = hold_life(str(tmp_path))
    try:
        os.chown(tmp_path / "life", NOBODY, NOBODY)
        assert as_another(open_up(tmp_path), NOBODY, opening(flags)) == "Permission denied"
        assert as_another(tmp_path, NOBODY, "print(lives(sys.argv[1]))") == "True"
    finally:
        os.close(fd)
    assert as_another(tmp_path, NOBODY, "print(lives(sys.argv[1]))") == "False"


@ROOT
def test_its_owner_gets_back_a_permission_that_the_agent_took_away(tmp_path: Path) -> None:
    fd = hold_life(str(open_up(tmp_path)))
    try:
        os.chown(tmp_path / "life", NOBODY, NOBODY)
        os.chmod(tmp_path / "life", 0)
        assert as_another(tmp_path, NOBODY, "print(lives(sys.argv[1]))") == "True"
    finally:
        os.close(fd)
    os.chmod(tmp_path / "life", 0)
    assert as_another(tmp_path, NOBODY, "print(lives(sys.argv[1]))") == "False"


@ROOT
def test_who_may_not_look_takes_nobody_for_dead(tmp_path: Path) -> None:
    os.close(hold_life(str(open_up(tmp_path))))
    look = "try: lives(sys.argv[1])\nexcept StorageFailed as error: print(error.message)"
    assert "permission denied" in as_another(tmp_path, NOBODY, look)


def open_up(place: Path) -> Path:
    """Let other users in, from the top of the test's own folders down."""
    for folder in (place, *place.parents):
        if folder.stat().st_uid == os.geteuid() and folder.stat().st_mode & 0o005 != 0o005:
            folder.chmod(folder.stat().st_mode | 0o055)
    return place
