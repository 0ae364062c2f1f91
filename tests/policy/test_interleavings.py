"""Eight children and what is below them against one cap, in whatever order things happen: real logs, no processes.

A run takes a turn only after its last one was counted, so one turn per run is in flight. Between any two steps the
supervisor may die: a settlement that it owes is left out, and whoever comes next has to mend it.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import Literal

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from overhand.errors import BudgetExceeded
from overhand.policy import STOP_LEVEL, Actor, Config, add_amounts, budget_level, own_cap
from overhand.policy.config import Budgets
from overhand.record import LOG_FILE, Accepted, Judged, NewTask, RunEnded, Store, Task, read_log
from overhand.runs import (
    capped_above,
    collect_return,
    count_usage,
    mend_spending,
    reject_task,
    reserve_budget,
    run_created,
    settle_budget,
    spending,
    tree_spending,
)

BY = {"kind": "overhand", "via": "test"}
TURN = 60  # the largest
CHILDREN = 8
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)  # to shrink so long a story would take minutes
pick = st.integers(0, 63)


class Tree(RuleBasedStateMachine):
    """A task with a cap, its children, and children of two of them: one with a budget of its own and one without."""

    def __init__(self) -> None:
        super().__init__()
        self.root = tempfile.mkdtemp(prefix="overhand-budget-")
        self.store = Store(self.root)
        self.work = Actor(self.store, Config(), BY, {})
        self.tasks: list[str] = []
        self.uncounted: set[str] = set()
        self.known: dict[str, tuple[int, Task]] = {}  # by the size of the log, which only grows

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    # making it

    @initialize(
        cap=st.sampled_from(["1000 tokens", "$1", "1000 tokens, $1"]),
        own=st.sampled_from(["", "300", "$0.2", "5000 tokens"]),
        part=st.sampled_from([0.1, 0.25, 1.0]),
    )
    def plant(self, cap: str, own: str, part: float) -> None:
        self.work = Actor(self.store, Config(budget=Budgets(share=part)), BY, {})
        top = self.task("top", cap, None)
        self.begin(top)
        for number in range(CHILDREN):
            child = self.task(f"child {number}", own if number == 0 else "", top)
            if number < 2:
                self.begin(child)
                for below in range(2 if self.state(child).runs else 0):
                    self.task(f"below {number}.{below}", "", child)

    def task(self, title: str, cap: str, parent: str | None) -> str:
        created: dict[str, object] = {"title": title, "depth": 1, "path": ["user"], "timeout": 600.0, "level": "work"}
        if cap:
            created["budget"] = cap
        if parent:
            created["parent"] = {"task": parent, "run": self.state(parent).runs[-1].id}
            created["depth"] = self.state(parent).depth + 1
        new = NewTask(agent="worker", handoff=f"# Task Handoff\n\n## Task\n{title}\n", created=created)
        (made,) = self.store.new_tasks([new], BY, start=True, sync=False)
        self.tasks.append(made.id)
        return made.id

    # what is so

    def state(self, task: str) -> Task:
        size = os.path.getsize(f"{self.store.record(task)}/{LOG_FILE}")
        if task not in self.known or self.known[task][0] != size:
            self.known[task] = size, self.store.task(task)
        return self.known[task][1]

    def live(self) -> list[str]:
        return [t for t in self.tasks if (r := self.state(t).current_run) and not r.has_ended]

    def queued(self) -> list[str]:
        return [t for t in self.tasks if self.state(t).queued]

    def ended(self) -> list[str]:
        return [t for t in self.tasks if self.state(t).status not in (None, "rejected")]

    def place(self, task: str) -> str:
        return self.store.desk(task, self.state(task).runs[-1].id)

    # what happens

    def begin(self, task: str) -> None:
        state = self.state(task)
        above = capped_above(self.store, state)
        try:
            reserve_budget(self.work, state)
        except BudgetExceeded as error:
            reject_task(self.work, task, error)
            return
        for owner in above:  # never a start beyond it
            assert budget_level(tree_spending(self.store, owner), own_cap(owner)) < STOP_LEVEL
        with self.store.lock(task, BY) as locked:
            made = run_created(f"sess_1_{len(locked.task.runs):06d}", "worker", "command", 600.0)
            locked.append(made)
        os.makedirs(self.place(task))

    @precondition(lambda self: self.queued())
    @rule(which=pick)
    def start(self, which: int) -> None:
        self.begin(self.queued()[which % len(self.queued())])

    @precondition(lambda self: set(self.live()) - self.uncounted)
    @rule(which=pick, tokens=st.integers(1, TURN), times=st.integers(1, 4))
    def turns(self, which: int, tokens: int, times: int) -> None:
        free = [task for task in self.live() if task not in self.uncounted]
        task = free[which % len(free)]
        for number in range(times):
            self.report(task, tokens)
            if number < times - 1 and not self.count(task):
                return

    def report(self, task: str, tokens: int) -> None:
        with open(f"{self.place(task)}/usage.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps({"input": tokens, "usd": tokens / 1000}) + "\n")
        self.uncounted.add(task)

    def count(self, task: str) -> bool:
        """Whether it may go on."""
        self.uncounted.discard(task)
        if count_usage(self.work, task, note=False).stop:
            self.end(task, "budget", owes=False)
            return False
        return True

    @precondition(lambda self: self.uncounted)
    @rule(which=pick)
    def counted(self, which: int) -> None:
        self.count(sorted(self.uncounted)[which % len(self.uncounted)])

    @precondition(lambda self: self.live()[1:])
    @rule(which=pick, owes=st.booleans())
    def finished(self, which: int, owes: bool) -> None:
        live = self.live()[1:]
        self.end(live[which % len(live)], "exit", owes=owes)

    def end(self, task: str, cause: Literal["exit", "budget"], *, owes: bool) -> None:
        self.uncounted.discard(task)
        state = self.state(task)
        ended = state.runs[-1].id
        with self.store.lock(task, BY) as locked:
            locked.append(RunEnded(run=ended, cause=cause, exit=0))
            state = locked.task
        os.makedirs(self.store.run_folder(task, ended))
        collect_return(self.store, state, self.store.run_folders(task, ended))
        state = spending.close_run(self.work, state, state.runs[-1])
        with self.store.lock(task, BY) as locked:
            locked.append(Judged(run=ended, status="failed", summary=""))
            state = locked.task
        if not owes:
            settle_budget(self.work, state)

    @precondition(lambda self: self.ended())
    @rule(which=pick)
    def resumed(self, which: int) -> None:
        task = self.ended()[which % len(self.ended())]
        with self.store.lock(task, BY) as locked:
            locked.append(Accepted())

    @rule()
    def mended(self) -> None:
        mend_spending(self.work, self.store.tasks())
        for task in self.store.tasks():
            for child in task.reserved:
                below = self.state(child)
                assert below.queued or below.reserved or below.current_run

    # what holds always

    @invariant()
    def no_cap_is_exceeded_by_more_than_the_turns_in_flight(self) -> None:
        for task in self.tasks:
            state = self.state(task)
            cap = own_cap(state)
            if not cap.is_cap:
                continue
            family = [t for t in self.tasks if self.is_below(t, task)]
            turns = sum(max(1, len(self.state(t).runs)) for t in family)
            spent = add_amounts(*(spending.own(self.store, self.state(t)) for t in family))
            if cap.tokens:
                assert spent.tokens < cap.tokens + turns * TURN
            if cap.usd:
                assert spent.usd < cap.usd + turns * TURN / 1000 + 1e-6

    @invariant()
    def holds_are_within_the_cap(self) -> None:
        for task in self.tasks:
            state = self.state(task)
            cap = own_cap(state)
            held = add_amounts(*state.reserved.values())
            assert not cap.tokens or held.tokens <= cap.tokens
            assert not cap.usd or held.usd <= cap.usd + 1e-6

    @invariant()
    def each_hold_is_settled_once(self) -> None:
        for task in self.tasks:
            held: set[str] = set()
            for event in read_log(self.store.record(task)):
                if event["e"] == "reserved":
                    held.add(event["child"])
                elif event["e"] == "settled":
                    held.remove(event["child"])

    def is_below(self, task: str, above: str) -> bool:
        while task != above:
            parent = self.state(task).parent
            if parent is None:
                return False
            task = parent.task
        return True


TestTree = Tree.TestCase
TestTree.settings = settings(
    max_examples=25, stateful_step_count=40, deadline=None, phases=PHASES, suppress_health_check=[HealthCheck.too_slow]
)


# stories that went wrong once


@pytest.fixture
def tree() -> Iterator[Tree]:
    made = Tree()
    yield made
    made.teardown()


def test_an_open_hold_is_no_leave_to_start(tree: Tree) -> None:
    tree.plant(cap="1000 tokens", own="", part=0.25)
    top, child = tree.tasks[:2]
    tree.end(child, "exit", owes=True)
    with tree.store.lock(child, BY) as locked:
        locked.append(Accepted())  # before anybody settled it, as when a run is handed over
    for _ in range(19):
        tree.report(top, 50)
    assert child in tree.state(top).reserved

    tree.begin(child)

    assert len(tree.state(child).runs) == 1
    assert tree.state(child).status == "rejected"


def test_below_the_mark_it_starts_with_the_hold_it_has(tree: Tree) -> None:
    tree.plant(cap="1000 tokens", own="", part=0.25)
    top, child = tree.tasks[:2]
    held = tree.state(top).reserved[child]
    tree.end(child, "exit", owes=True)
    with tree.store.lock(child, BY) as locked:
        locked.append(Accepted())
    for _ in range(18):
        tree.report(top, 50)

    tree.begin(child)

    assert len(tree.state(child).runs) == 2
    assert tree.state(top).reserved[child] == held


STORY: list[tuple[str, *tuple[int, ...]]] = [  # each step and which; of turns, how large and how many; the end owes
    ("turns", 23, 38, 3), ("counted", 54), ("turns", 27, 41, 4), ("turns", 27, 41, 4), ("turns", 8, 45, 1),
    ("counted", 21), ("start", 45), ("turns", 41, 59, 2), ("finished", 37, True), ("resumed", 26),
    ("start", 38), ("start", 57), ("start", 49), ("counted", 38), ("mended",), ("finished", 0, True),
    ("mended",), ("mended",), ("turns", 47, 21, 1), ("turns", 49, 22, 1), ("turns", 41, 18, 3),
    ("turns", 37, 28, 4), ("counted", 58), ("resumed", 14), ("mended",), ("counted", 58), ("start", 12),
    ("start", 11), ("turns", 9, 7, 2), ("turns", 61, 55, 4), ("start", 21), ("counted", 0), ("turns", 6, 23, 3),
]  # fmt: skip


def test_siblings_beyond_their_holds_keep_one_below_a_cap_below_from_starting(tree: Tree) -> None:
    tree.plant(cap="$1", own="300", part=0.1)
    for step, *given in STORY:
        getattr(tree, step)(*given)
        tree.no_cap_is_exceeded_by_more_than_the_turns_in_flight()
        tree.holds_are_within_the_cap()
    (below,) = (task for task in tree.queued() if tree.state(task).title == "below 0.0")
    top, middle = tree.tasks[:2]
    assert middle in tree.state(top).reserved

    tree.begin(below)

    assert tree.state(below).status == "rejected"
    assert not tree.state(below).runs
