"""Do one step of an item's life here and SIGKILL this process at the Nth write: `killed_at.py ROOT N STEP WORD`

A point lies before and behind everything that a successor can see: events, folders, files that get or lose a name, two
files that change places. Ends with 0 if the step has fewer points. What is wrapped is wrapped in this process only.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from overhand.items import approve, item, typed
from overhand.policy import config
from overhand.policy.actor import Actor
from overhand.policy.caller import Caller
from overhand.record import log, store
from overhand.runs import finish, run
from overhand.system import edits, files
from overhand.testing.countdown import Countdown

if TYPE_CHECKING:
    from collections.abc import Callable

countdown = Countdown(int(sys.argv[2]))
between = countdown.between


def once(call: Callable[..., Any]) -> Callable[..., Any]:
    """The same call; it is the last thing that happens."""

    def wrapped(*args: Any, **options: Any) -> Any:
        call(*args, **options)
        countdown.die()

    return wrapped


exchange = vars(edits)["_exchange"]
vars(edits)["_exchange"] = lambda: between(exchange())
os.posix_spawn = between(os.posix_spawn)
os.rename = between(os.rename)
os.mkdir = between(os.mkdir)
os.link = between(os.link)
os.unlink = between(os.unlink)
log.write = between(log.write)
countdown.everywhere(files.write_new)


def main(root: str, step: str, word: str) -> None:
    work = Actor(store.Store(root), config.load(root), {"kind": "overhand", "via": "test"})
    if step == "record":  # an approval that dies as soon as the record is made
        log.write = once(log.write)
        step = "approve"
    if step == "approve":
        approve.approve(work.store, work.config, item.resolve(root, root, word), Caller().by("test"))
    elif step == "heed":
        typed.heed(work.store, work.config, word, work.by)
    elif step == "start":
        run.start(work, word)
    else:
        run.settle(work, word)
        finish.finish(work, word)


main(sys.argv[1], sys.argv[3], sys.argv[4])
