"""Somebody rewrites the file all the time while its item lives: one run, and none of their lines is lost."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from overhand.errors import Busy, NotFound
from overhand.items import handle_changed_file, reconcile_items
from overhand.runs import finish_run, settle_run, start_run
from support.items import AT, BY
from support.scene import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.items import House


class Editor(threading.Thread):
    """Adds line after line in one of the ways in which programs write files."""

    def __init__(self, path: Path, how: str) -> None:
        super().__init__(daemon=True)
        self.path, self.how, self.lines, self.over = path, how, 0, threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.002):
            line = f"line {self.lines} of somebody else\n"
            if self.how == "append":
                with self.path.open("a") as file:
                    file.write(line)
            else:
                text = self.path.read_text() + line
                if self.how == "truncate":
                    self.path.write_text(text)
                else:
                    beside = self.path.with_name(".beside")
                    beside.write_text(text)
                    os.rename(beside, self.path)
            self.lines += 1


def patiently(do: Callable[[], object]) -> None:
    """A file that is written all the time may be busy: whoever wants to write tries again."""

    def once() -> bool:
        try:
            do()
        except (Busy, NotFound):  # just truncated
            return False
        return True

    until(once, "a moment in which the file was left alone")


@pytest.mark.parametrize("how", ["append", "rename", "truncate"])
def test_one_run_and_no_line_lost(house: House, how: str) -> None:
    one = house.another("edited")
    file = one.write()
    with file.open("a") as end:
        end.write("\n## Lines\n")
    editor = Editor(file, how)
    editor.start()
    try:
        patiently(lambda: (reconcile_items(one.store, BY) and one.items()) or one.prepared())
        reconcile_items(one.store, BY)
        (task,) = one.items()
        patiently(lambda: one.state(task).runs or start_run(one.work, task))
        one.agent_ended(task)
        patiently(lambda: settle_run(one.work, task))
        finish_run(one.work, task)
        patiently(lambda: one.show(task))
        until(lambda: editor.lines > 50, "some lines of the editor")
    finally:
        editor.over.set()
        editor.join()
    patiently(lambda: one.show(task))
    assert (one.starts(task), one.state(task).status) == (1, "completed"), one.events(task)
    if one.state(task).notices:  # it was put right five times, and then left alone
        assert "again and again" in one.state(task).notices[-1]
    else:
        assert (one.tags(), one.read().count("## Response")) == ([("#done-fix", task)], 1)
    text = one.read()
    missing = [n for n in range(editor.lines) if f"line {n} of somebody else\n" not in text]
    assert not missing, f"{len(missing)} of {editor.lines} lines are lost"


def test_what_is_half_written_is_not_taken_for_gone(house: House) -> None:
    """An editor that has truncated the file and is held up: nobody withdraws or refuses anything because of it."""
    one = house.another("held-up")
    one.write()
    task = one.prepared()
    text = one.read()
    with (one.path / AT).open("w") as file:
        for do in (
            lambda: one.show(task),
            lambda: start_run(one.work, task),
            lambda: handle_changed_file(one.store, one.work.config, AT, BY),
            one.prepared,
        ):
            with pytest.raises(Busy, match="written by another process"):
                do()
        file.write(text)
    assert (one.state(task).status, one.state(task).queued) == (None, True)
    assert start_run(one.work, task)
    one.agent_ended(task)
