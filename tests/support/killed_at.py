"""Do one step of an item's life here and SIGKILL this process at the Nth write: `killed_at.py ROOT N STEP WORD`

A point lies before and behind everything that a successor can see: events, folders, files that get or lose a name, two
files that change places. Ends with 0 if the step has fewer points. What is wrapped is wrapped in this process only.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from overhand.items import approve_item, handle_changed_file, resolve_item
from overhand.policy import Actor, Caller, load_config
from overhand.record import Store, append_lines
from overhand.runs import finish_run, settle_run, start_run
from overhand.system import edits, write_new
from overhand.testing.countdown import Countdown

if TYPE_CHECKING:
    from collections.abc import Callable

countdown = Countdown(int(sys.argv[2]))
between = countdown.between


def last_for_a_record(call: Callable[..., Any]) -> Callable[..., Any]:
    """The same call; where it makes a task's record, it is the last thing that happens."""

    def wrapped(source: str, *args: Any, **options: Any) -> None:
        call(source, *args, **options)
        if "/tasks/.new-" in source:
            countdown.die()

    return wrapped


edits.Renames.exchange = between(edits.Renames.exchange)  # type: ignore[method-assign]
os.posix_spawn = between(os.posix_spawn)
os.rename = between(os.rename)
os.mkdir = between(os.mkdir)
os.link = between(os.link)
os.unlink = between(os.unlink)
countdown.everywhere(append_lines)
countdown.everywhere(write_new)


def main(root: str, step: str, word: str) -> None:
    work = Actor(Store(root), load_config(root), {"kind": "overhand", "via": "test"})
    if step == "record":  # an approval that dies as soon as the record is made
        os.rename = last_for_a_record(os.rename)
        step = "approve"
    if step == "approve":
        approve_item(Actor(work.store, work.config, Caller().by("test")), resolve_item(root, root, word))
    elif step == "heed":
        handle_changed_file(work.store, work.config, word, work.by)
    elif step == "start":
        start_run(work, word)
    else:
        settle_run(work, word)
        finish_run(work, word)


main(sys.argv[1], sys.argv[3], sys.argv[4])
