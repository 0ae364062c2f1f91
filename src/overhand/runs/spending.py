"""What tasks spend, on disk: the reports of their runs, and what children hold of an ancestor's budget.

A child draws on its nearest ancestor that has a budget. Before a run starts, a hold stands in that ancestor's log
(`reserved`, under its lock): how much the child, and what draws on it in turn, may use in all its runs together. When
the child has come to rest, what it really used replaces the hold (`settled`). Both figures are totals, so writing one
again changes nothing; and whether a child is at rest is in its own log, so the next process that takes the ancestor's
lock mends a hold that a crash left behind.

An ancestor with a budget below another one is a child there: what its own children hold is never more than it holds
itself. So one reservation, with the nearest, keeps every cap on the path. But others may have used more than they hold,
so before a start what was really used is compared with every cap on the path, too.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from overhand.agents import find_driver, native_session, stream_summary, translator
from overhand.errors import BudgetExceeded, OverhandError, TaskNotFound
from overhand.policy import (
    CHECKPOINT_LEVEL,
    STOP_LEVEL,
    add_amounts,
    amount_used,
    budget_level,
    capped_measures,
    child_holds,
    child_share,
    estimate_usage,
    larger_amount,
    make_amount,
    own_cap,
    say_budget,
    say_tokens,
    say_usd,
    tally_reports,
    tighter_cap,
)
from overhand.record import (
    LOG_FILE,
    Accepted,
    Amount,
    BudgetReleased,
    BudgetReserved,
    Usage,
    UsageReported,
    fold,
    read_log,
)
from overhand.system import Beneath, epoch_of, now_stamp, size_of

if TYPE_CHECKING:
    from overhand.policy import Actor
    from overhand.record import Event, LockedTask, Run, Store, Task

USAGE_FILE = "usage.jsonl"  # on a run's desk, and copied when it is judged; one line a turn
MOST_HANDOVERS = 5


def reported_usage(files: Beneath, *, last: bool = False) -> Usage | None:
    raw = files.read(USAGE_FILE)
    return tally_reports(raw, last=last) if raw else None


def own(store: Store, task: Task) -> Amount:
    """What a task's own runs have used by now: of one that is not judged, its reports count as they are."""
    live = {run.id: reported_usage(store.desk_files(task.id, run.id)) for run in task.runs if not run.is_judged}
    return add_amounts(*(amount_used(live.get(run.id) or run.usage) for run in task.runs))


def committed(store: Store, task: Task, without: str = "") -> Amount:
    """How much of a task's budget is taken: its own use, and what children hold, or have used if that is more."""
    below = _below(store, task)
    held = [larger_amount(below[child], amount) for child, amount in child_holds(task).items() if child != without]
    return add_amounts(own(store, task), *held)


def tree_spending(store: Store, task: Task) -> Amount:
    """What a task and everything that draws on its budget have really used by now."""
    return add_amounts(own(store, task), *_below(store, task).values())


def _below(store: Store, task: Task) -> dict[str, Amount]:
    """What each child has really used of this task's budget."""
    found = dict(task.settled)
    for child in task.reserved:
        try:
            found[child] = tree_spending(store, store.recorded(child))
        except TaskNotFound:
            found[child] = task.reserved[child]
    return found


def capped_above(store: Store, task: Task) -> list[Task]:
    """The ancestors that have a budget, the nearest first."""
    found = []
    while task.parent:
        above = task.parent.task
        if store.uncapped.get(above) == (size := store.log_size(above)):
            break
        try:
            task = store.recorded(above)
        except OverhandError:
            break  # it was cleaned away, and its budget with it
        if own_cap(task).is_cap:
            found.append(task)
        elif not task.parent:
            store.uncapped[above] = size
    return found


def reserve_budget(actor: Actor, task: Task) -> Amount | None:
    """Before a run: what it may use, None if nothing limits it; raises BudgetExceeded."""
    cap, above = own_cap(task), capped_above(actor.store, task)
    if not above and not cap.is_cap:
        return None
    spent = committed(actor.store, task)
    require_budget_left(actor.store, task)
    for owner in above:  # an open hold does not show what others have used beyond theirs
        limit = own_cap(owner)
        if budget_level(tree_spending(actor.store, owner), limit) >= STOP_LEVEL:
            raise _used_up(owner, committed(actor.store, owner), limit)
    if above:
        cap = tighter_cap(cap, hold(actor, task, above))
    return cap - spent if cap.is_cap else None


def require_budget_left(store: Store, task: Task) -> None:
    """Refuse where a task has used up its own budget."""
    cap = own_cap(task)
    if cap.is_cap and budget_level(spent := committed(store, task), cap) >= STOP_LEVEL:
        raise _used_up(task, spent, cap)


def hold(actor: Actor, child: Task, above: list[Task], room: int = STOP_LEVEL) -> Amount:
    """Let a child hold something of the nearest budget above, of which less than `room` per cent is used.

    If nothing is left, an open hold stays as it is; without one, BudgetExceeded.
    """
    nearest, further = above[0], above[1:]
    cap = own_cap(nearest)
    if further:
        cap = tighter_cap(cap, hold(actor, nearest, further, CHECKPOINT_LEVEL))
    with actor.store.lock(nearest.id, actor.by) as locked:
        mine = _hold(actor, locked, child.id, cap, room)
    if further and nearest.id not in actor.store.recorded(further[0].id).reserved:
        hold(actor, nearest, further)  # it was settled meanwhile; now it stays open, as it holds something for us
    return mine


def _hold(actor: Actor, locked: LockedTask, child_id: str, cap: Amount, room: int) -> Amount:
    """The same, under the ancestor's lock, of a budget that is `cap` there."""
    store = actor.store
    _mend(store, locked, but=child_id)
    child = store.recorded(child_id)
    used, mine = committed(store, child), locked.task.reserved.get(child_id)
    if mine is not None and budget_level(used, mine) < room:
        return mine
    spent = committed(store, locked.task, without=child_id) + used
    if budget_level(spent, cap) >= STOP_LEVEL:
        if mine is not None:
            return mine
        raise _used_up(locked.task, spent, cap)
    asked = own_cap(child) - used
    if budget_level(used, own_cap(child)) >= STOP_LEVEL:
        return mine or capped_measures(used, cap)  # it has what it asked for, and has used it
    granted = child_share(cap, spent, asked, actor.config.budget.share)
    new = larger_amount(capped_measures(used + granted, cap).rounded(), mine or make_amount())
    if new != mine:
        locked.append(BudgetReserved(child=child_id, **vars(new)))
    return new


def _used_up(task: Task, spent: Amount, cap: Amount) -> BudgetExceeded:
    held = f", with what {len(task.reserved)} of its children hold" if task.reserved else ""
    hint = f"Give it more: overhand resume {task.name} --budget AMOUNT"
    if task.runs and (task.queued or task.current_run is not None):
        hint = "Do this part in the run itself, or wait until others below it have ended."
    return BudgetExceeded(
        f"Task {task.name} has a budget of {say_budget(cap)}, and {say(spent, cap)} of it are spoken for{held}: "
        "too little is left to start.",
        hint,
        task=task.id,
        budget=vars(cap),
        spent=vars(spent.rounded()),
    )


def say(spent: Amount, cap: Amount) -> str:
    """What was used, in the measures of a cap."""
    tokens = f"{say_tokens(spent.tokens)} tokens" if cap.tokens else ""
    return ", ".join(filter(None, (tokens, say_usd(spent.usd) if cap.usd else "")))


def settle_budget(actor: Actor, task: Task) -> None:
    """If a task has come to rest, replace what it held by what it used, and so on upwards."""
    try:
        for above in capped_above(actor.store, task):
            if task.id not in above.reserved:
                return
            with actor.store.lock(above.id, actor.by) as locked:
                _mend(actor.store, locked)
                task = locked.task
    except OverhandError:
        return  # another process holds the lock: the next reservation there mends it


def mend_spending(actor: Actor, states: list[Task]) -> None:
    """Settle whatever a crash kept from being settled, from the leaves upwards."""
    for task in sorted(states, key=lambda task: -task.depth):
        try:
            if task.reserved:
                with actor.store.lock(task.id, actor.by) as locked:
                    _mend(actor.store, locked)
        except OverhandError:
            continue  # another process holds the lock: the next reservation there mends it


def _mend(store: Store, locked: LockedTask, but: str = "") -> None:
    """Settle every child that is at rest; once, because a hold is needed for that, and we have the lock."""
    for child, held in list(locked.task.reserved.items()):
        if child == but:
            continue
        try:
            task = store.recorded(child)
        except TaskNotFound:
            locked.append(BudgetReleased(child=child, **vars(held)))  # it was cleaned away: no better figure exists
            continue
        if not task.queued and not task.reserved and task.current_run is None:
            used = committed(store, task).rounded()
            locked.append(BudgetReleased(child=child, **vars(used)))


def close_run(actor: Actor, task: Task, ended: Run) -> Task:
    """Record what an ended run used: its reports, else an estimate."""
    if translator(ended.driver) is not None:  # its program reports its usage in its own stream
        usage = _native(actor.store, task, ended)
    else:
        usage = final_usage(actor.store.run_folder(task.id, ended.id), ended)
    if usage is None or usage == ended.usage:
        return task
    with actor.store.lock(task.id, actor.by) as locked:
        locked.append(usage_event(ended.id, usage))
        return locked.task


def _native(store: Store, task: Task, ended: Run) -> Usage | None:
    """What a coding agent's own stream reports; some count the whole session, so earlier runs are subtracted."""
    place = store.run_folder(task.id, ended.id)
    summary = stream_summary(place, ended.driver)
    if summary is None and ended.attached:
        return None  # a person ran it on a terminal: its usage is unknown
    if summary is None or not summary.usage:
        return reported_usage(Beneath(place), last=True) or _estimate(place)
    used = dict(summary.usage)
    if before := _before(store, task, ended):
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


def _before(store: Store, task: Task, ended: Run) -> dict[str, Any]:
    """The usage in the stream of the newest earlier run of the same session."""
    for run in reversed([r for r in task.runs if r.id != ended.id and r.driver == ended.driver]):
        earlier = stream_summary(store.run_folder(task.id, run.id), run.driver)
        if earlier and earlier.usage and native_session(store, task, run) == native_session(store, task, ended):
            return earlier.usage
    return {}


def final_usage(place: str, ended: Run) -> Usage | None:
    """What it used in the end; for a function in a caller's process that reports nothing there is no estimate."""
    usage = reported_usage(Beneath(place), last=True)
    if usage is None and ended.usage is None and not ended.attached and os.path.exists(f"{place}/start"):
        usage = _estimate(place)
    return usage or ended.usage


def _estimate(place: str) -> Usage:
    return estimate_usage(size_of(f"{place}/prompt.md"), size_of(f"{place}/stdout"))


def usage_event(run_id: str, usage: Usage) -> UsageReported:
    return UsageReported(run=run_id, **vars(usage))


def full(run_id: str) -> str:
    """The limit that is reached when a run's context window is full."""
    return f"{STOP_LEVEL} % of the context window in {run_id}"


def handovers(task: Task) -> int:
    """How often a run of this task ended because its context window was full."""
    return sum(key.startswith(full("")) for key in task.limits)


def hand_over(task: Task, ended: Run, status: str) -> list[Event]:
    """A run that was ended because its window was full continues in a new one, from its last checkpoint."""
    if ended.cause != "budget" or full(ended.id) not in task.limits or status not in ("partial", "failed"):
        return []
    if task.stop or handovers(task) > MOST_HANDOVERS:
        return []
    how = {"run": ended.id, "why": "context window is full"}
    saved = [one.id for one in task.checkpoints if one.run == ended.id]
    return [Accepted(resume={**how, "from": saved[-1]} if saved else how)]


def spent_today(store: Store) -> Amount:
    """What all tasks of the project have used since midnight, UTC, as the reports are now."""
    today = now_stamp()[:10]
    midnight = epoch_of(f"{today}T00:00:00Z")
    total = Amount()
    for task_id in store.ids():
        try:
            if os.stat(f"{store.record(task_id)}/{LOG_FILE}").st_mtime < midnight:
                continue  # what a live run uses is noted in its log from time to time
        except OSError:
            continue
        try:
            total += _spent_since(store, task_id, today)
        except OverhandError:
            continue  # its log cannot be read: the task itself says so
    return total


def _spent_since(store: Store, task_id: str, today: str) -> Amount:
    total = Amount()
    lines = read_log(store.record(task_id))
    task = fold(task_id, lines)
    yesterday = fold(task_id, (line for line in lines if str(line.get("t", "")) < today))
    for run in task.runs:
        earlier = yesterday.run(run.id)
        usage = run.usage if run.is_judged else reported_usage(store.desk_files(task_id, run.id))
        total += amount_used(usage) - amount_used(earlier.usage if earlier else None)
    return total
