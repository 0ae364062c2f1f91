"""While nobody says anything, a shell waits in the server's place; nothing that is said is lost by that."""

from __future__ import annotations

import json
import os
import select
import time
from typing import TYPE_CHECKING

import pytest

from mcp_server.test_door import READY, Line, hello

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/exe"), reason="needs /proc")

# It notes whether the SDK was loaded, for nobody can tell from outside how long it stays so.
IMPATIENT = """
import sys
from overhand.mcp import wire
wire.OPENING = wire.SERVING = 0.2
become = wire.Wire._become_a_shell
def noted(self):
    with open("had-sdk", "w") as file:
        file.write(str("pydantic_core" in sys.modules))
    become(self)
wire.Wire._become_a_shell = noted
sys.argv = ["overhand", "mcp"]
from overhand.cli import main
sys.exit(main())
"""
CALL = {"method": "tools/call", "params": {"name": "status", "arguments": {}}}
LONG = {
    "method": "tools/call",
    "params": {"name": "status", "arguments": {"no such": 'a \\n "b" $HOME `id` ü\n' * 9000}},
}


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    made = Line(tmp_path, "-c", IMPATIENT)
    try:
        yield made
    finally:
        made.close()


def becomes_a_shell(line: Line) -> bool:
    """Whether it is one within a minute."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with open(f"/proc/{line.process.pid}/cmdline", encoding="utf-8") as file:
            if "overhand-mcp" in file.read():
                return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("version", ["2025-03-26", "2025-11-25", "1999-01-01"])  # the last: the SDK shakes hands
def test_what_is_said_to_the_shell_is_answered(line: Line, version: str, tmp_path: Path) -> None:
    opened = line.ask(hello(version))
    line.say(READY)
    listed = line.ask({"id": 1, "method": "tools/list"})
    assert becomes_a_shell(line)
    assert line.ask({"id": 1, "method": "tools/list"}) == listed
    assert becomes_a_shell(line)
    assert (tmp_path / "had-sdk").read_text() == str(version == "1999-01-01")
    assert line.ask({"id": "a", **CALL})["result"]["structuredContent"]["tasks"] == []
    assert becomes_a_shell(line)
    assert (tmp_path / "had-sdk").read_text() == "True"
    assert "there is no argument no such" in line.ask({"id": 2, **LONG})["result"]["content"][0]["text"]
    assert becomes_a_shell(line)
    assert line.ask({"id": 0, "method": "ping"})["result"] == {}
    assert line.ask(hello(version) | {"id": 7})["result"] == opened["result"]


def test_the_era_without_a_handshake_needs_none_here(line: Line) -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    listed = line.ask({"id": 1, "method": "tools/list", "params": {"_meta": meta}})
    assert becomes_a_shell(line)
    assert line.ask({"id": 1, "method": "tools/list", "params": {"_meta": meta}}) == listed


def test_who_waits_for_an_answer_gets_it(line: Line) -> None:
    line.ask(hello("2025-11-25"))
    line.say(READY)
    for number in range(3):  # the SDK takes longer to load than the silence that is allowed
        line.say({"id": number, **CALL})
    assert line.process.stdout is not None
    assert [b"structuredContent" in line.process.stdout.readline() for _ in range(3)] == [True] * 3
    assert becomes_a_shell(line)


def test_a_call_that_takes_long_keeps_it_awake(tmp_path: Path) -> None:
    slow = (
        "from overhand.mcp import calls; import time; status = calls._CALLS['status']\n"
        "calls._CALLS['status'] = lambda *given: (time.sleep(1.5), status(*given))[1]\n"
    )
    line = Line(tmp_path, "-c", slow + IMPATIENT)
    try:
        line.ask(hello("2025-11-25"))
        line.say(READY)
        assert line.ask({"id": 1, **CALL})["result"]["structuredContent"]["tasks"] == []
        assert becomes_a_shell(line)
    finally:
        line.close()


def test_an_answer_that_is_not_sent_yet_is_not_lost(tmp_path: Path) -> None:
    """It is written by one thread while another one finds that all has been quiet for long."""
    late = """
import threading, types
from overhand.mcp import wire
looks, flush, select = threading.Semaphore(0), wire.Wire.flush, wire.select.select
def look(*given):
    found = select(*given)
    looks.release()
    return found
def sent_after_two_looks(self):
    if b"structuredContent" in self._unsent:
        while looks.acquire(blocking=False):
            pass
        looks.acquire()
        looks.acquire()
    flush(self)
wire.select, wire.Wire.flush = types.SimpleNamespace(select=look), sent_after_two_looks
"""
    line = Line(tmp_path, "-c", late + IMPATIENT)
    try:
        line.ask(hello("2025-11-25"))
        line.say(READY)
        line.say({"id": 1, **CALL})
        assert line.process.stdout is not None
        assert select.select([line.process.stdout], [], [], 60)[0], "the answer was lost"
        assert json.loads(line.process.stdout.readline())["id"] == 1
        assert becomes_a_shell(line)
    finally:
        line.close()


def test_the_shell_ends_with_its_client(line: Line) -> None:
    line.ask(hello("2025-11-25"))
    assert becomes_a_shell(line)
    assert line.process.stdin is not None
    line.process.stdin.close()
    assert line.process.wait(60) == 0
