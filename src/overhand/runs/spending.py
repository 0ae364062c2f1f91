"""What tasks spend, on disk: the reports of their runs, and what children hold of an ancestor's budget.

A child draws on its nearest ancestor that has a budget. Before a run starts, a hold stands in that ancestor's log
(`reserved`, under its lock): how much the child, and what draws on it in turn, may use in all its runs together. When
the child has come to rest, what it really used takes the place of the hold (`settled`). Both figures are totals, so
writing one again changes nothing; and whether a child is at rest is in its own log, so a hold that a crash left behind
is mended by whoever takes the ancestor's lock next.

An ancestor with a budget below another one is a child there: what its own children hold is never more than it holds
itself. So one reservation, with the nearest, keeps every cap on the path. But others may have used more than they hold,
so a hold that is open already is no leave to start: what was really used is compared with every cap on the path too.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from overhand.agents import find_driver, sessions, translator
from overhand.errors import BudgetExceeded, OverhandError, TaskNotFound
from overhand.policy import budget
from overhand.record import log, model
from overhand.record.task import Usage
from overhand.system import machine
from overhand.system.files import is_there, read_file, size_of

if TYPE_CHECKING:
    from overhand.policy.actor import Actor
    from overhand.policy.config import Config
    from overhand.record.store import Locked, Store
    from overhand.record.task import Amount, Event, Run, Task

REPORTS = "usage.jsonl"  # in a run's folder; one line a turn
MOST_HANDOVERS = 5
_uncapped: dict[str, int] = {}  # how long the logs are of tasks with no budget and nobody above


# what was used


def reported(place: str, *, last: bool = False) -> Usage | None:
    """What a run has reported so far."""
    path = f"{place}/{REPORTS}"
    raw = read_file(path) if is_there(path) else None
    return budget.tally(raw, last=last) if raw else None


def own(store: Store, state: Task) -> Amount:
    """What a task's own runs have used by now: of one that is not judged, its reports count as they are."""
    spent = budget.amount()
    for run in state.runs:
        usage = run.usage
        if not run.is_judged:
            usage = reported(store.run_folder(state.id, run.id)) or usage
        spent = spent + budget.used(usage)
    return spent


def committed(store: Store, state: Task, without: str = "") -> Amount:
    """What of a task's budget is spoken for: its own use, and what children hold, or have used if that is more."""
    below = _below(store, state)
    held = [budget.larger(below[child], amount) for child, amount in budget.holds(state).items() if child != without]
    return budget.add(own(store, state), *held)


def tree(store: Store, state: Task) -> Amount:
    """What a task and everything that draws on its budget have really used by now."""
    return budget.add(own(store, state), *_below(store, state).values())


def _below(store: Store, state: Task) -> dict[str, Amount]:
    """What each child has really used of this task's budget."""
    found = dict(state.settled)
    for child in state.reserved:
        try:
            found[child] = tree(store, store.state(child))
        except TaskNotFound:
            found[child] = state.reserved[child]
    return found


def capped_above(store: Store, state: Task) -> list[Task]:
    """The ancestors that have a budget, the nearest first."""
    found = []
    while state.parent:
        above = state.parent.task
        if _uncapped.get(place := store.folder(above)) == (size := store.log_size(above)):
            break
        try:
            state = store.state(above)
        except OverhandError:
            break  # it was cleaned away: nobody has a budget there any more
        if budget.explicit(state).is_cap:
            found.append(state)
        elif not state.parent:
            _uncapped[place] = size
    return found


# holding and settling


def reserve(work: Actor, state: Task) -> Amount | None:
    """Before a run: what it may use, None if nothing limits it; raises BudgetExceeded."""
    cap, above = budget.explicit(state), capped_above(work.store, state)
    if not above and not cap.is_cap:
        return None
    spent = committed(work.store, state)
    require_some_left(work.store, state)
    for owner in above:  # a hold that is open already does not tell what others have used beyond theirs
        _require_unspent(work.store, owner)
    if above:
        cap = budget.tighter(cap, hold(work, state, above))
    return cap - spent if cap.is_cap else None


def require_some_left(store: Store, state: Task) -> None:
    """Refuse where a task has used up its own budget."""
    cap = budget.explicit(state)
    if cap.is_cap and budget.level(spent := committed(store, state), cap) >= budget.STOP:
        raise _used_up(state, spent, cap)


def _require_unspent(store: Store, owner: Task) -> None:
    """Refuse where a task and everything below it have really used up its budget, whoever still holds some of it."""
    cap = budget.explicit(owner)
    if budget.level(tree(store, owner), cap) >= budget.STOP:
        raise _used_up(owner, committed(store, owner), cap)


def hold(work: Actor, child: Task, above: list[Task], room: int = budget.STOP) -> Amount:
    """See that a child holds something of the nearest budget above, of which less than `room` per cent is used.

    Where nothing is left, an open hold stays as it is; without one, BudgetExceeded.
    """
    nearest, further = above[0], above[1:]
    cap = budget.explicit(nearest)
    if further:
        cap = budget.tighter(cap, hold(work, nearest, further, budget.CHECKPOINT))
    with work.store.locked(nearest.id, work.by) as task:
        mine = _hold(work, task, child.id, cap, room)
    if further and nearest.id not in work.store.state(further[0].id).reserved:
        hold(work, nearest, further)  # it was settled meanwhile; now that it holds something for us it stays open
    return mine


def _hold(work: Actor, task: Locked, child_id: str, cap: Amount, room: int) -> Amount:
    """The same, under the ancestor's lock, of a budget that is `cap` there."""
    store = work.store
    _mend(store, task, but=child_id)
    child = store.state(child_id)
    used, mine = committed(store, child), task.state.reserved.get(child_id)
    if mine is not None and budget.level(used, mine) < room:
        return mine
    spent = committed(store, task.state, without=child_id) + used
    if budget.level(spent, cap) >= budget.STOP:
        if mine is not None:
            return mine
        raise _used_up(task.state, spent, cap)
    asked = budget.explicit(child) - used
    if budget.level(used, budget.explicit(child)) >= budget.STOP:
        return mine or budget.within(used, cap)  # it has what it asked for, and has used it
    granted = budget.share(cap, spent, asked, work.config.budget.share)
    new = budget.larger(budget.within(used + granted, cap).rounded(), mine or budget.amount())
    if new != mine:
        task.append({"e": "reserved", "child": child_id, **vars(new)})
    return new


def _used_up(state: Task, spent: Amount, cap: Amount) -> BudgetExceeded:
    """Too little is left to start."""
    handle = state.name
    holders = len(state.reserved)
    held = f", with what {holders} of its children hold" if holders else ""
    at_work = state.queued or state.current_run is not None
    return BudgetExceeded(
        f"Task {handle} has a budget of {budget.say(cap)}, and {say(spent, cap)} of it are spoken for{held}: "
        "too little is left to start.",
        "Do this part in the run itself, or wait until others below it have ended."
        if at_work and state.runs
        else f"Give it more: overhand resume {handle} --budget AMOUNT",
        task=state.id,
        budget=vars(cap),
        spent=vars(spent.rounded()),
    )


def say(spent: Amount, cap: Amount) -> str:
    """What was used, in the measures of a cap."""
    tokens = f"{budget.say_tokens(spent.tokens)} tokens" if cap.tokens else ""
    return ", ".join(filter(None, (tokens, budget.say_usd(spent.usd) if cap.usd else "")))


def settle(work: Actor, state: Task) -> None:
    """A task may have come to rest: what it used takes the place of what it held, and so on upwards."""
    try:
        for above in capped_above(work.store, state):
            if state.id not in above.reserved:
                return
            with work.store.locked(above.id, work.by) as task:
                _mend(work.store, task)
                state = task.state
    except OverhandError:
        return  # somebody holds it: whoever reserves there next mends it


def mend(work: Actor, states: list[Task]) -> None:
    """Settle whatever a crash kept from being settled, from the leaves upwards."""
    for state in sorted(states, key=lambda state: -state.depth):
        try:
            if state.reserved:
                with work.store.locked(state.id, work.by) as task:
                    _mend(work.store, task)
        except OverhandError:
            continue  # somebody holds it: whoever reserves there next mends it


def _mend(store: Store, task: Locked, but: str = "") -> None:
    """Settle every child that is at rest; once, because a hold is needed for that, and we have the lock."""
    for child, held in list(task.state.reserved.items()):
        if child == but:
            continue
        try:
            state = store.state(child)
        except TaskNotFound:
            task.append({"e": "settled", "child": child, **vars(held)})  # it was cleaned away: nobody knows better
            continue
        if not state.queued and not state.reserved and state.current_run is None:
            used = committed(store, state).rounded()
            task.append({"e": "settled", "child": child, **vars(used)})


def default(store: Store, config: Config, parent: str | None) -> str | None:
    """The budget of a task that was given none: the project's, unless it draws on one above."""
    text = config.budget.task
    if not text or parent is None:
        return text or None
    above = store.state(parent)
    return None if budget.explicit(above).is_cap or capped_above(store, above) else text


# one run


def close_run(work: Actor, state: Task, ended: Run) -> Task:
    """Record what an ended run used: its reports, else an estimate."""
    usage = final(work.store.run_folder(state.id, ended.id), ended) if not real(ended) else None
    usage = usage or _native(work.store, state, ended)
    if usage is None or usage == ended.usage:
        return state
    with work.store.locked(state.id, work.by) as task:
        task.append(event(ended.id, usage))
        return task.state


def real(run: Run) -> bool:
    """Whether its program tells its usage in its own stream."""
    return translator(run.driver) is not None


def _native(store: Store, state: Task, ended: Run) -> Usage | None:
    """What a coding agent's own stream says it used; some count the whole session, so earlier runs are taken off."""
    if not real(ended):
        return None
    place = store.run_folder(state.id, ended.id)
    said = sessions.heard(place, ended.driver)
    if said is None and ended.attached:
        return None  # a person had it on a terminal: nobody knows
    if said is None or not said.usage:
        return reported(place, last=True) or budget.estimate(size_of(f"{place}/prompt.md"), size_of(f"{place}/stdout"))
    used = dict(said.usage)
    if before := _before(store, state, ended):
        for key in find_driver(ended.driver).session_totals(used, before):
            used[key] = max(0, used[key] - before.get(key, 0))
    return Usage(
        input=int(used.get("input", 0)),
        output=int(used.get("output", 0)),
        usd=float(used.get("usd", 0.0)),
        turns=int(used.get("turns", 0)),
        context=0,
        window=0,
        estimated=False,
    )


def _before(store: Store, state: Task, ended: Run) -> dict[str, Any]:
    """What the newest earlier run in the same session said."""
    for run in reversed([r for r in state.runs if r.id != ended.id and r.driver == ended.driver]):
        earlier = sessions.heard(store.run_folder(state.id, run.id), run.driver)
        if earlier and earlier.usage and sessions.native(store, state, run) == sessions.native(store, state, ended):
            return earlier.usage
    return {}


def final(place: str, ended: Run) -> Usage | None:
    """What it used in the end; a function inside somebody's process that reports nothing has used nothing we know."""
    usage = reported(place, last=True)
    if usage is None and ended.usage is None and not ended.attached and os.path.exists(f"{place}/start"):
        usage = budget.estimate(size_of(f"{place}/prompt.md"), size_of(f"{place}/stdout"))
    return usage or ended.usage


def event(run_id: str, usage: Usage) -> Event:
    """How much a run has used so far."""
    return {"e": "usage", "run": run_id, **vars(usage)}


def full(run_id: str) -> str:
    """The limit that is reached when a run's context window is full."""
    return f"{budget.STOP} % of the context window in {run_id}"


def handovers(state: Task) -> int:
    """How often a run of this task ended because its context window was full."""
    return sum(key.startswith(full("")) for key in state.limits)


def hand_over(state: Task, ended: Run, status: str) -> list[Event]:
    """A run that was ended because its window was full goes on in a new one, from its last checkpoint."""
    if ended.cause != "budget" or full(ended.id) not in state.limits or status not in ("partial", "failed"):
        return []
    if state.stop or handovers(state) > MOST_HANDOVERS:
        return []
    how = {"run": ended.id, "why": "context window is full"}
    saved = [str(one["id"]) for one in state.checkpoints if one.get("run") == ended.id]
    return [{"e": "accepted", "resume": {**how, "from": saved[-1]} if saved else how}]


# the day


class Day:
    """What all tasks of the project have used since midnight, UTC; logs that did not change are not read again."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, int, dict[str, Amount]]] = {}

    def spent(self, store: Store) -> Amount:
        """As the reports are now."""
        today = machine.now()[:10]
        midnight = machine.epoch(f"{today}T00:00:00Z")
        sums = [self._of(store, task_id, today, midnight) for task_id in store.ids()]
        return budget.add(*sums)

    def _of(self, store: Store, task_id: str, today: str, midnight: float) -> Amount:
        folder = store.folder(task_id)
        try:
            found = os.stat(f"{folder}/{log.LOG}")
        except OSError:
            return budget.amount()
        known = self._known.get(task_id)
        if known is None or known[:2] != (today, found.st_size):
            if found.st_mtime < midnight:
                return budget.amount()  # whatever reports is noted in its log from time to time
            known = self._known[task_id] = (today, found.st_size, _runs_today(store, task_id, today))
        total = budget.amount()
        for run_id, before in known[2].items():
            if run_id == "":
                total = total + before
            else:  # not judged yet: its reports count as they are now
                usage = reported(store.run_folder(task_id, run_id))
                total = total + (budget.used(usage) - before)
        return total


def _runs_today(store: Store, task_id: str, today: str) -> dict[str, Amount]:
    """Under "" what judged runs used today; for a run that is not judged, what it had used before today."""
    before: dict[str, Amount] = {}
    latest: dict[str, Amount] = {}
    events = log.read(store.folder(task_id))
    for one in events:
        if one.get("e") == "usage" and isinstance(one.get("run"), str):
            amount = budget.amount(one.get("input", 0) + one.get("output", 0), one.get("usd", 0.0))
            latest[one["run"]] = amount
            if str(one.get("t", "")) < today:
                before[one["run"]] = amount
    state = model.fold(task_id, events)
    live = {run.id for run in state.runs if not run.is_judged}
    nothing = budget.amount()
    spent = [amount - before.get(run, nothing) for run, amount in latest.items() if run not in live]
    return {"": budget.add(*spent), **{run: before.get(run, nothing) for run in live}}
