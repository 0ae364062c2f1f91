"""How the scripted agent waits, asks, misbehaves and ends: real processes, real signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from overhand.system import environment_of, process_table, send_signal
from overhand.testing.processes import KINDS
from support.scene import until

if TYPE_CHECKING:
    from pathlib import Path

    from testing.conftest import Desk


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def appears(path: Path) -> None:
    """Wait for a file that another process makes, and for what it writes there."""
    until(lambda: path.exists() and path.stat().st_size, f"{path} written")


def open_files(pid: int) -> set[str]:
    found = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except FileNotFoundError:
            continue  # closed while we looked
    return found


def environ_of(pid: int) -> dict[str, str]:
    names = ("OVERHAND_RUN", "OVERHAND_PROJECT")
    return {name: value for name in names if (value := environment_of(pid, name)) is not None}


def test_hang_ends_by_a_signal_only(desk: Desk) -> None:
    with desk.start("print:up", "hang", "output") as process:
        assert line_of(process) == "up\n"
        assert process.poll() is None
        process.terminate()
    assert process.returncode == -signal.SIGTERM
    assert not desk.output.exists()


@pytest.mark.parametrize("name", ["KILL", "TERM", "ABRT"])
def test_die_ends_by_that_signal(desk: Desk, name: str) -> None:
    assert desk.act("output", f"die:{name}").returncode == -getattr(signal, f"SIG{name}")
    assert desk.output.exists()


def test_ignore_term_notes_it_and_goes_on(desk: Desk) -> None:
    term = desk.workspace / "term"
    with desk.start("ignore-term", "print:up", "hang") as process:
        line_of(process)
        process.terminate()
        appears(term)
        assert process.poll() is None
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert term.read_text() == "TERM\n"


def test_until_waits_for_a_file(desk: Desk) -> None:
    with desk.start("print:up", "until:$OVERHAND_WORKSPACE/go", "touch:seen") as process:
        line_of(process)
        assert not (desk.project / "seen").exists()
        (desk.workspace / "go").touch()
    assert process.returncode == 0
    assert (desk.project / "seen").exists()


def test_until_waits_for_a_byte_in_a_fifo(desk: Desk) -> None:
    os.mkfifo(desk.project / "go")
    # The second opens when the agent has opened it, too.
    with desk.start("until:go", "output") as process, open(desk.project / "go", "wb") as fifo:
        assert process.poll() is None
        assert not desk.output.exists()
        fifo.write(b".")
    assert process.returncode == 0
    assert desk.output.exists()


def test_ask_writes_a_question_and_prints_the_answer(desk: Desk) -> None:
    ipc = desk.workspace / "ipc"
    ipc.mkdir()
    (ipc / "001.question").write_text("{}")
    with desk.start("ask:Red or blue?") as process:
        appears(ipc / "002.question")
        asked = json.loads((ipc / "002.question").read_text())
        assert (asked["seq"], asked["question"]) == (2, "Red or blue?")
        time.strptime(asked["timestamp"], "%Y-%m-%dT%H:%M:%SZ")
        answer = ipc / "002.answer.tmp"
        answer.write_text(json.dumps({"seq": 2, "timestamp": asked["timestamp"], "answer": "Blue"}))
        answer.rename(ipc / "002.answer")
        assert line_of(process) == "Blue\n"
    assert process.returncode == 0


@pytest.mark.parametrize("kind", KINDS)
def test_strays_outlive_the_agent_each_in_its_own_way(desk: Desk, kind: str) -> None:
    with desk.start(f"spawn:{kind}", "print:up", "until:go") as process:
        line_of(process)
        table = process_table()
        living = desk.strays()
        assert len(living) == (2 if kind == "grandchild" else 1)
        parents = {table[pid].parent for pid in living}
        sessions = {table[pid].session for pid in living}
        assert (process.pid in parents) == (kind not in ("double-fork", "daemon"))
        assert (sessions == {os.getsid(0)}) == (kind not in ("setsid", "daemon"))
        marked = [bool(environ_of(pid)) for pid in living]
        assert all(marked) == (kind not in ("clean-env", "daemon"))
        (desk.project / "go").touch()
        process.wait(timeout=30)
        assert desk.strays() == living
        for pid, started in living.items():
            send_signal(pid, started, signal.SIGTERM)
    assert process.returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_strays_of_a_stubborn_agent_are_stubborn(desk: Desk) -> None:
    desk.act("ignore-term", "spawn:daemon")
    (pid,) = desk.strays()
    with open(f"/proc/{pid}/status") as file:
        ignored = next(int(line.split()[1], 16) for line in file if line.startswith("SigIgn"))
    assert ignored & 1 << (signal.SIGTERM - 1)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_daemon_keeps_no_file_of_the_agent_open(desk: Desk) -> None:
    desk.act("spawn:daemon")  # returns although the daemon lives: it holds neither stdout nor stderr
    (pid,) = desk.strays()
    # a program that begins opens its libraries for a moment
    until(lambda: open_files(pid) == {os.devnull}, "no open file but the one without content")


def test_an_unknown_kind_of_stray_is_refused(desk: Desk) -> None:
    done = desk.act("spawn:gremlin")
    assert done.returncode == 1
    assert "no spawn:gremlin" in done.stderr


def test_a_missing_variable_is_named() -> None:
    bare = {name: value for name, value in os.environ.items() if not name.startswith("OVERHAND_")}
    argv = [sys.executable, "-m", "overhand.testing.agent", "output"]
    done = subprocess.run(argv, env=bare, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "overhand.testing.agent: OVERHAND_OUTPUT is not set; a run sets it, or set it yourself.\n"
