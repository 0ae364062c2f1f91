"""The scripted agents as functions, called as a function agent is called."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from overhand.testing import functions

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Call:
    """As much of a call as the scripted functions use."""

    title: str
    workspace: Path
    project: Path


@pytest.fixture
def call(tmp_path: Path) -> Call:
    (tmp_path / "task").mkdir()
    return Call("Tidy the shed", tmp_path / "task", tmp_path)


def test_completes_writes_its_files_and_names_them(call: Call) -> None:
    returned = functions.completes("Tidied.", {"shed/list.txt": "rake\n"}, data={"rakes": 1})(call)
    assert (call.project / "shed/list.txt").read_text() == "rake\n"
    assert (returned["status"], returned["summary"], returned["data"]) == (
        "completed",
        "Tidied.",
        {"rakes": 1},
    )
    assert returned["artifacts"] == [{"type": "file", "path": "shed/list.txt", "summary": "Written by a script"}]


def test_completes_without_files_or_data(call: Call) -> None:
    assert functions.completes()(call) == {
        "status": "completed",
        "summary": "Did the scripted work.",
        "artifacts": [],
    }


def test_reports_another_status(call: Call) -> None:
    assert functions.reports("blocked", "No key.")(call)["status"] == "blocked"


def test_claims_falsely_writes_nothing(call: Call) -> None:
    returned = functions.claims_falsely("phantom.txt")(call)
    assert returned["status"] == "completed"
    assert "phantom.txt" in json.dumps(returned["artifacts"])
    assert not (call.project / "phantom.txt").exists()


def test_returns_rubbish_is_no_status_that_exists(call: Call) -> None:
    assert functions.returns_rubbish()(call)["status"] == "splendid"


def test_raises(call: Call) -> None:
    with pytest.raises(ZeroDivisionError, match="by nobody"):
        functions.raises(ZeroDivisionError("divided by nobody"))(call)


def test_hangs_until_the_event(call: Call) -> None:
    event, done = threading.Event(), threading.Event()

    def work() -> None:
        functions.hangs(event)(call)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    assert not done.is_set()
    event.set()
    thread.join(30)
    assert done.is_set()


def test_asks_and_returns_the_answer(call: Call) -> None:
    ipc = call.workspace / "ipc"

    def person() -> None:
        while not (ipc / "001.question").exists():
            time.sleep(0.005)
        (ipc / "001.tmp").write_text(json.dumps({"seq": 1, "timestamp": "", "answer": "Blue"}))
        (ipc / "001.tmp").rename(ipc / "001.answer")

    thread = threading.Thread(target=person)
    thread.start()
    assert functions.asks("Red or blue?")(call)["summary"] == "Blue"
    thread.join(30)
    assert json.loads((ipc / "001.question").read_text())["question"] == "Red or blue?"
