"""The supervisor's objects without its loop: jobs are done at once, and messages stay in the mailbox."""

from __future__ import annotations

import select
from typing import TYPE_CHECKING

from overhand.policy import Actor, Config
from overhand.supervisor.context import Jobs, LoopContext, Mailbox
from overhand.supervisor.live_runs import LiveRuns
from overhand.supervisor.meter import Meter

if TYPE_CHECKING:
    from collections.abc import Callable

    from overhand.record import Run, Store, Task
    from overhand.supervisor.live_runs import Watch


class Inline:
    """A pool whose jobs are done at once, in the thread that asks for them."""

    def submit(self, fn: Callable[[], None], /) -> None:
        fn()


def context_of(actor: Actor) -> LoopContext:
    """What the loop would give to its objects, for this actor."""
    jobs, mail = Jobs(Inline().submit, lambda: None), Mailbox(lambda: None)
    return LoopContext(actor.store, select.poll(), jobs, mail, lambda _: actor, lambda: actor.config, print)


class Watched:
    """Live runs of a store, their poll and their mailbox."""

    def __init__(self, store: Store) -> None:
        actor = Actor(store, Config(), {"kind": "overhand", "via": "test"})
        context = context_of(actor)
        self.poll, self.mail, self.jobs, self.config = context.poll, context.mail, context.jobs, actor.config
        self.meter = Meter(context)
        self.runs = LiveRuns(context, self.meter, lambda _: actor.config, lambda _: False)

    def keep(self, task: Task, current: Run) -> Watch:
        """Keep an eye on a run, whatever the log says about it."""
        return self.runs._keep(task, current, self.config)

    def stirred(self) -> list[str]:
        """Tasks in whose folders something happened."""
        return self.runs._stirred()
