"""Answer a question in this process and SIGKILL it at the Nth of its writes: `answered_at.py ROOT TASK N`.

A point lies before and behind everything that others can see: the event, the file that gets its name, the bell, the
call of the supervisor. Ends with 0 if there are fewer points.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from overhand import cli, log, questions, summon

if TYPE_CHECKING:
    from collections.abc import Callable

left = int(sys.argv[3])


def between(call: Callable[..., Any]) -> Callable[..., Any]:
    """The same call, with a point before and behind it."""

    def wrapped(*args: Any, **options: Any) -> Any:
        point()
        value = call(*args, **options)
        point()
        return value

    return wrapped


def point() -> None:
    """One more moment at which the process may die."""
    global left  # noqa: PLW0603 -- this whole program is one countdown
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1


os.rename = between(os.rename)
log.write = between(log.write)
questions.ring = between(questions.ring)
summon.call = between(summon.call)
sys.exit(cli.main(["--project", sys.argv[1], "answer", sys.argv[2], "killed"]))
