"""A supervisor that SIGKILLs itself at the Nth write of its plans: `dying.py ROOT N`.

A point lies before and behind everything that the next supervisor can see: events of the plan, folders and files of its
nodes, events of their tasks, its documents. What its nodes' own runs write is killed elsewhere, and is no point here.
It leaves as soon as it has nothing to do; then fewer points than N were there.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from overhand.plans import PlanExecutor, begin_plan
from overhand.record import append_lines
from overhand.supervisor.__main__ import main
from overhand.system import write_new
from overhand.testing.countdown import Countdown

if TYPE_CHECKING:
    from collections.abc import Callable

executing_now = threading.local()


class OfPlans(Countdown):
    """Only what is done for a plan counts."""

    def point(self) -> None:
        if getattr(executing_now, "depth", 0):
            super().point()


def for_a_plan(call: Callable[..., Any]) -> Callable[..., Any]:
    """The same call, whose writes count."""

    def wrapped(*args: Any, **options: Any) -> Any:
        executing_now.depth = getattr(executing_now, "depth", 0) + 1
        try:
            return call(*args, **options)
        finally:
            executing_now.depth -= 1

    return wrapped


countdown = OfPlans(int(sys.argv[2]))
between = countdown.between
os.rename = between(os.rename)
os.mkdir = between(os.mkdir)
os.posix_spawn = between(os.posix_spawn)
countdown.everywhere(append_lines)
countdown.everywhere(write_new)
for name in ("handle", "resume"):
    setattr(PlanExecutor, name, for_a_plan(getattr(PlanExecutor, name)))
countdown.everywhere(begin_plan, for_a_plan)

sys.exit(main(sys.argv[1:2]))
