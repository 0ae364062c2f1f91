"""The results of a plan's nodes: read, made one, and written down as the plan's own."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

from overhand.contracts.data import pick
from overhand.errors import OverhandError, Refused
from overhand.plans import custom_merge, formats, receipts, refs
from overhand.plans.combine import NodeResult
from overhand.plans.merge import merge as merge_results
from overhand.policy import budget
from overhand.record import log
from overhand.record.events import Judged, RunEnded
from overhand.record.task import PLAN
from overhand.runs import prepare, spending
from overhand.system import machine
from overhand.system.files import put_file, read_file, write_file
from overhand.system.jsonline import dumps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overhand.plans.executor import Carrying
    from overhand.plans.model import Node, Plan
    from overhand.plans.progress import Command
    from overhand.record.store import Store
    from overhand.record.task import Run, Task
    from overhand.words import Cause

PLAN_FILE = "plan.json"
MERGED = "merged.json"  # in the plan's run folder
_MOST = 256 * 1024 * 1024
_WORDS = 300  # characters of a summary in the plan's own log
_KEPT, _SMALL = 256, 64 * 1024  # results that are kept in memory, and how long they may be
_MANY, _TINY = 10_000, 2048


class Value(NamedTuple):
    """What a node returned, as it was judged."""

    data: Any
    summary: str
    checks: Sequence[dict[str, Any]] = ()
    problem: str = ""  # the first thing that was held against it

    @property
    def whole(self) -> Any:
        """What `${node}` means: its data, or what it says where it returned none."""
        return self.summary if self.data is None else self.data


_known: OrderedDict[tuple[str, str], Value] = OrderedDict()  # by file and its hash: mostly read again in a moment


def read_plan(store: Store, task: Task) -> Plan:
    """The plan as it was accepted; one that was changed since is not run."""
    raw = read_file(f"{store.folder(task.id)}/{PLAN_FILE}", _MOST)
    if raw is None or hashlib.sha256(raw).hexdigest() != task.settings.get(PLAN):
        raise Refused(
            f"{PLAN_FILE} of task {task.name} is not the plan that was accepted.",
            "Run the plan's file anew: overhand plan run FILE",
        )
    return formats.load(json.loads(raw))


# one node


def remember(store: Store, child: Task, digest: str, result: dict[str, Any]) -> None:
    """A result that was made and judged in this process need not be read again, however its file looks later."""
    folder = store.folder(child.id)
    if result["data"] is None and not result["checks"] and not result["problems"]:  # nothing that may change later
        _keep(f"{folder}/result.json", digest, Value(None, result["summary"]), len(result["summary"]))


def ending(store: Store, child: Task) -> dict[str, Any]:
    """How a node's task ended, in the facts of its event; the result itself stays where it is."""
    digest = digest_of(store, child.id)
    last = child.last_run
    facts: dict[str, Any] = {
        "task": child.id,
        "status": child.status,
        "result": child.id,
        "digest": digest,
        "verified": child.verified,
        "tokens": spending.tree(store, child).tokens,
        "usage": budget.figures(child),
        "seconds": round(sum(_seconds(run) for run in child.runs), 3),
        "summary": child.summary[:_WORDS],
    }
    try:
        value = value_of(store, child.id, digest) if digest else Value(None, "")
    except OverhandError as error:  # somebody wrote to it since
        return {**facts, "status": "failed", "why": error.message}
    if checks := value.checks:
        facts["checks"] = [sum(bool(check["passed"]) for check in checks), len(checks)]
    if child.status != "completed":
        facts["why"] = (value.problem or child.summary)[:1000] or f"judged {child.status}"
        if child.status == "cancelled" or (last is not None and last.leftovers):
            facts["again"] = False  # a person stopped it, or somebody of it is still there
    return {name: value for name, value in facts.items() if value not in ("", None, {})}


def _seconds(run: Run) -> float:
    over = machine.epoch(run.ended) - machine.epoch(run.created) if run.ended else 0.0
    return max(0.0, over - run.waited)


def digest_of(store: Store, task_id: str) -> str:
    """The hash of the result that the log vouches for; nothing where no run was judged."""
    events = reversed(log.read(store.folder(task_id)))
    return str(next((e for e in events if e.get("e") in ("judged", "rechecked")), {}).get("result") or "")


def value_of(store: Store, task_id: str, digest: str = "") -> Value:
    """What a task returned; a result that is not the one judged is none."""
    digest = digest or digest_of(store, task_id)
    path = f"{store.folder(task_id)}/result.json"
    if known := _known.get((path, digest)):
        return known
    raw = read_file(path, _MOST)
    if raw is None or hashlib.sha256(raw).hexdigest() != digest:
        raise OverhandError(f"result.json of task {task_id} is not the result that was judged.")
    return _keep(path, digest, _value(json.loads(raw)), len(raw))


def _value(found: dict[str, Any]) -> Value:
    wrong = next((str(one["message"]) for one in found.get("problems", ()) if one.get("level") == "error"), "")
    return Value(found.get("data"), found.get("summary", ""), found.get("checks", ()), wrong)


def _keep(path: str, digest: str, value: Value, size: int) -> Value:
    """Many that are tiny, or a few: the oldest are forgotten."""
    if size <= _SMALL:
        _known[path, digest] = value
        while len(_known) > (_KEPT if size > _TINY else _MANY):
            _known.popitem(last=False)
    return value


def missing(node: str, wanted: Sequence[tuple[str, str]], value: Value) -> str:
    """Which field that others name is not there, with both ends; nothing if all are."""
    for consumer, name in wanted:
        try:
            pick(value.whole, name)
        except LookupError:
            return _not_there(node, consumer, name, value)
    return ""


def _not_there(node: str, consumer: str, name: str, value: Value) -> str:
    there = f"it has {', '.join(map(str, value.data))}" if isinstance(value.data, dict) else "it returned no object"
    return f"{node} → {consumer}: the data of {node} have no field {name}; {there}."


def named(node: Node, ref: refs.Ref, value: Value) -> Any:
    """What a reference of this node names; LookupError names both ends."""
    try:
        return pick(value.whole, ref.field)
    except LookupError:
        raise LookupError(_not_there(ref.node, node.id, ref.field, value)) from None


# all of them


def merge(carried: Carrying, command: Command) -> dict[str, Any]:
    """Make one of the verified results, keep it in the run's folder, and say how that went."""
    plan, store = carried.plan, carried.work.store
    place = store.run_folder(carried.task_id, carried.run_id)
    try:
        results = [_result(carried, name) for name in command.facts["results"]]
    except OverhandError as error:  # it was there when it was verified
        return {"status": "failed", "why": error.message}
    given = {}
    if plan.merge.strategy == "custom" and (plan.merge.function or plan.merge.command):
        try:
            given["custom"] = custom_merge.merge(
                plan.merge,
                {"task": plan.task, "nodes": {one.id: _shown(one) for one in results}},
                f"{place}/merge",
                root=store.root,
                env=carried.work.env,
                wanted=lambda: not prepare.is_unwanted(store, carried.task_id),
            )
        except custom_merge.Failed as error:
            return {"status": "failed", "why": str(error)[:1500]}
    merged = merge_results(plan, results, **given)
    write_file(f"{place}/{MERGED}", json.dumps(merged.as_json(), ensure_ascii=False))
    told = next((one.message for one in merged.problems if one.level == "error"), "")
    return {"status": merged.status, **({"why": told[:1000]} if told else {})}


def _result(carried: Carrying, name: str) -> NodeResult:
    known = carried.state.nodes[name]
    value = value_of(carried.work.store, carried.tasks[name], known.digest)
    data = {} if value.data is None and not known.spec.outputs else value.data  # it promised files, or words
    at = float(carried.ends.get(name, {}).get("at", 0.0))
    return NodeResult(name, known.status, True, data, value.summary, at, known.spec.priority)


def _shown(one: NodeResult) -> dict[str, Any]:
    return {"status": one.status, "summary": one.summary, "data": one.data}


def finish(carried: Carrying, command: Command) -> Task:
    """The plan's own OUTPUT.md, result.json and verdict, in the order of every result: documents, then the event."""
    work, task_id = carried.work, carried.task_id
    folder, task = work.store.folder(task_id), work.store.task(task_id)
    place = work.store.run_folder(task_id, carried.run_id)
    raw = read_file(f"{place}/{MERGED}", _MOST)
    result, output = receipts.result_of(carried, command, task, json.loads(raw) if raw else {})
    put_file(f"{place}/OUTPUT.md", output)
    put_file(f"{folder}/OUTPUT.md", output)
    encoded = (dumps(result) + "\n").encode("utf-8", "replace")
    put_file(f"{folder}/result.json", encoded)
    judged = Judged(
        run=carried.run_id,
        status=result["status"],
        claimed=result["claimed"],
        verified=result["verified"],
        summary=result["summary"][:500],
        output=hashlib.sha256(output).hexdigest(),
        result=hashlib.sha256(encoded).hexdigest(),
        errors=sum(one["level"] == "error" for one in result["problems"]),
    )
    return close(carried, result["cause"], judged)


def close(carried: Carrying, cause: Cause, judged: Judged) -> Task:
    """End and verdict in one write: a plan is never seen ended and not judged."""
    work = carried.work
    with work.store.lock(carried.task_id, work.by) as locked:
        current = locked.task.current_run
        if current is not None and current.id == carried.run_id:
            locked.append(RunEnded(run=carried.run_id, cause=cause, exit=None), judged, sync=True)
        task = locked.task
    spending.settle(work, task)
    return task
