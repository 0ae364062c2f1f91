"""The results of a plan's nodes: read, merged, and written as the plan's own result."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from overhand.contracts import pick_field
from overhand.documents import Output, Section, render_output, wrong
from overhand.errors import OverhandError, StorageUnavailable, storage_failed
from overhand.plans import refs
from overhand.plans.combine import NodeResult
from overhand.plans.merge import merge as merge_results
from overhand.plans.progress import FAILED, SKIPPED, STOPPED, VERIFIED
from overhand.policy import usage_figures, usage_of_task, usage_with_nodes
from overhand.record import ABSENT, PLAN_KIND, Judged, RunEnded, read_log, read_state
from overhand.runs import settle_budget, show_document, tail_of_file, tree_spending
from overhand.system import (
    Probe,
    dump_line,
    epoch_of,
    exit_code,
    lives,
    now_stamp,
    outside_runs,
    probe_process,
    put_file,
    read_file,
    reap_children,
    shim_pid,
    start_detached,
    stop_detached,
    wait_for_exit,
    write_file,
)
from overhand.words import CLAIMS, SHOWN_VERIFICATIONS, VERIFICATIONS, say_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from overhand.plans import progress
    from overhand.plans.model import Merge, Plan
    from overhand.plans.progress import Command, NodeState
    from overhand.policy import Actor
    from overhand.record import Run, Store, Task

MERGED = "merged.json"  # in the plan's run folder
_MOST = 256 * 1024 * 1024
_WORDS = 300  # characters of a summary in the plan's own log
_ROWS = 1000  # nodes that OUTPUT.md names; result.json has all
_WHY = {
    "failed": "a node failed",
    "timeout": "its time was over",
    "budget": "its budget was used up",
    "cancelled": "a person stopped it",
    "won": "",
}
_MOST_RETURNED = 64 * 1024 * 1024  # bytes of what a merge of the plan's own returns
_LOOK_EVERY = 0.1
# A merge of the plan's own. What the function prints goes to stderr: stdout is its return, and nothing else.
_CALL = """\
import importlib, json, os, sys
out = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)
sys.path.insert(0, os.getcwd())
module, _, name = sys.argv[1].partition(":")
found = importlib.import_module(module)
for part in name.split("."):
    found = getattr(found, part)
json.dump(found(json.load(sys.stdin)), out, allow_nan=False)
out.close()
"""


class Value(NamedTuple):
    """What a node returned, as it was judged."""

    data: Any
    summary: str
    checks: Sequence[dict[str, Any]] = ()
    problem: str = ""  # the first error of its result
    size: int = 0  # bytes of the file that it was read from

    @property
    def whole(self) -> Any:
        """What `${node}` means: its data, or its summary where it returned none."""
        return self.summary if self.data is None else self.data


class Execution(NamedTuple):
    """A plan, and what became of its nodes."""

    plan: Plan
    progress: progress.PlanState
    tasks: Mapping[str, str]  # by node
    ends: Mapping[str, Mapping[str, Any]]  # by node: how its last attempt ended, and when


# one node


def ending(store: Store, child: Task, digest: str, value_of: Callable[[str, str], Value]) -> dict[str, Any]:
    """How a node's task ended, in the facts of its event; the result itself stays where it is."""
    last = child.last_run
    facts: dict[str, Any] = {
        "task": child.id,
        "status": child.status,
        "result": child.id,
        "digest": digest,
        "verification": child.verification,
        **({"proof": child.proof} if child.proof else {}),
        "tokens": tree_spending(store, child).tokens,
        "usage": usage_figures(child),
        "seconds": round(sum(max(0.0, _duration(run) - run.waited) for run in child.runs), 3),
        "summary": child.summary[:_WORDS],
    }
    try:
        value = value_of(child.id, digest) if digest else Value(None, "")
    except StorageUnavailable:
        raise
    except OverhandError as error:  # the file was changed since
        return {**facts, "status": "failed", "why": error.message}
    if value.checks:
        facts["checks"] = [sum(bool(check["passed"]) for check in value.checks), len(value.checks)]
    if child.status != "completed":
        facts["why"] = (value.problem or child.summary)[:1000] or f"judged {child.status}"
        if child.status == "cancelled" or (last is not None and last.leftovers):
            facts["again"] = False  # a person stopped it, or processes of it are left
    return {name: value for name, value in facts.items() if value not in ("", None, {})}


def _duration(run: Run) -> float:
    return epoch_of(run.ended) - epoch_of(run.created) if run.ended else 0.0


def digest_of(store: Store, task_id: str) -> str:
    """The hash of the result that the log vouches for; nothing where no run was judged."""
    events = reversed(read_log(store.record(task_id)))
    return str(next((e for e in events if e.get("e") in ("judged", "rechecked")), {}).get("result") or "")


def result_value(store: Store, task_id: str, digest: str) -> Value:
    """What a task returned; a result that is not the one judged is none."""
    raw = read_file(f"{store.record(task_id)}/result.json", _MOST)
    if raw is None or hashlib.sha256(raw).hexdigest() != (digest or digest_of(store, task_id)):
        raise OverhandError(
            f"result.json of task {task_id} is not the result that was judged.",
            f"See what was judged: overhand show {task_id}",
        )
    found = json.loads(raw)
    problem = next((str(one["message"]) for one in found.get("problems", ()) if one.get("level") == "error"), "")
    return Value(found.get("data"), found.get("summary", ""), found.get("checks", ()), problem, len(raw))


def missing(node: str, wanted: Sequence[tuple[str, str]], value: Value) -> str:
    """The first field that another node refers to and this one did not return, with both nodes; "" if all are there."""
    for consumer, name in wanted:
        try:
            look_up(consumer, refs.Ref(node, name), value)
        except LookupError as error:
            return str(error)
    return ""


def look_up(consumer: str, ref: refs.Ref, value: Value) -> Any:
    """What a reference of a consumer names; LookupError names both nodes."""
    try:
        return pick_field(value.whole, ref.field)
    except LookupError:
        has = f"it has {', '.join(map(str, value.data))}" if isinstance(value.data, dict) else "it returned no object"
        text = f"{ref.node} → {consumer}: the data of {ref.node} have no field {ref.field}; {has}."
        raise LookupError(text) from None


# all of them


def node_result(known: NodeState, value: Value, at: float) -> NodeResult:
    """A verified node as the merge sees it."""
    data = {} if value.data is None and not known.spec.outputs else value.data  # it promised files, or words
    return NodeResult(known.spec.id, known.status, True, data, value.summary, at, known.spec.priority)


def merge(actor: Actor, task_id: str, run_id: str, plan: Plan, given: Sequence[NodeResult]) -> dict[str, Any]:
    """Merge the verified results into the folder of the plan's run; the facts of `Merged`."""
    store = actor.store
    place = store.run_folder(task_id, run_id)
    options = {}
    if plan.merge.strategy == "custom" and (plan.merge.function or plan.merge.command):
        rows = {one.id: {"status": one.status, "summary": one.summary, "data": one.data} for one in given}
        try:
            options["custom"] = _custom_merge(
                plan.merge,
                {"task": plan.task, "nodes": rows},
                f"{place}/merge",
                root=store.root,
                env=actor.env,
                wanted=lambda: not store.recorded(task_id).is_unwanted,
            )
        except _MergeFailed as error:
            return {"status": "failed", "why": str(error)[:1500]}
    merged = merge_results(plan, given, **options)
    write_file(f"{place}/{MERGED}", json.dumps(merged.as_json(), ensure_ascii=False))
    why = next((one.message for one in merged.problems if one.level == "error"), "")
    return {"status": merged.status, **({"why": why[:1000]} if why else {})}


# a merge of the plan's own


class _MergeFailed(Exception):
    """The plan's own code gave no data; the message says why."""


def _custom_merge(
    how: Merge,
    given: Mapping[str, Any],
    place: str,
    *,
    root: str,
    env: Mapping[str, str],
    wanted: Callable[[], bool],
) -> Any:
    """What the plan's own code makes of its nodes' results, as a child process with JSON in and out.

    It is a handle like any other run: one that was at work when its supervisor was killed is taken over, and one that
    hangs, or belongs to a plan that was stopped, is ended with everything it started. Raises _MergeFailed.
    """
    argv = list(how.command) or [sys.executable, "-c", _CALL, how.function]
    shim = _running(argv, given, place, root=root, env=env)
    in_time = _wait(place, shim, how.timeout, wanted)
    if not in_time or lives(place):
        stop_detached(place, f"OVERHAND_MERGE={place}", grace=1.0)  # also whatever it left behind
    reap_children()
    name = how.function or how.command[0]
    if not in_time:
        stopped = "was stopped with the plan" if not wanted() else f"did not end within {how.timeout:g} s"
        raise _MergeFailed(f"The plan's own merge, {name}, {stopped}.{_stderr(place)}")
    code = exit_code(place)
    if code != 0:
        raise _MergeFailed(f"The plan's own merge, {name}, ended with {code}.{_stderr(place)}")
    raw = read_file(f"{place}/stdout", _MOST_RETURNED) or b""
    try:
        if len(raw) > _MOST_RETURNED:
            raise ValueError(f"it is longer than {_MOST_RETURNED} bytes")
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise _MergeFailed(f"What {name} returned is not JSON: {error}.{_stderr(place)}") from None


def _running(argv: list[str], given: Mapping[str, Any], place: str, *, root: str, env: Mapping[str, str]) -> int | None:
    """Its shim: the one that is at work or has ended already, else a new one."""
    found = probe_process(place) if os.path.isdir(place) else Probe("unbegun")
    if found.what in ("alive", "ended"):
        return shim_pid(place)
    shutil.rmtree(place, ignore_errors=True)
    write_file(f"{place}.json", json.dumps(given, ensure_ascii=False))
    try:
        os.makedirs(place)
        environment = {**outside_runs(env), "OVERHAND_MERGE": place, "OVERHAND_PROJECT": root, "PWD": root}
        return start_detached(place, argv, cwd=root, env=environment, stdin=f"{place}.json")
    except OSError as error:
        raise storage_failed(error, "Cannot start the plan's own merge") from error


def _wait(place: str, shim: int | None, seconds: float, wanted: Callable[[], bool]) -> bool:
    """Whether it ends in time, counted from its start, while the plan is wanted."""
    try:
        age = max(0.0, time.time() - os.stat(f"{place}/start").st_mtime)
    except OSError:
        age = 0.0
    deadline = time.monotonic() + seconds - age
    while wanted():
        left = deadline - time.monotonic()
        if wait_for_exit(place, shim, max(0.0, min(left, _LOOK_EVERY))):
            return True
        if left <= 0:
            return False
    return False


def _stderr(place: str) -> str:
    tail = tail_of_file(f"{place}/stderr", 600)
    return f" It said: {tail}" if tail else ""


# the plan's own result


def finish(actor: Actor, task_id: str, run_id: str, command: Command, execution: Execution) -> None:
    """The plan's own OUTPUT.md, result.json and verdict, in the order of every result: documents, then the event."""
    store = actor.store
    folder, place = store.record(task_id), store.run_folder(task_id, run_id)
    merged = read_state(f"{place}/{MERGED}", _MOST) or {}
    result = _result(store, store.recorded(task_id), run_id, command, execution, merged)
    output = _output(execution.plan, result).encode("utf-8", "replace")
    put_file(f"{place}/OUTPUT.md", output)
    put_file(f"{folder}/OUTPUT.md", output)
    show_document(store.workspace_files(task_id), "OUTPUT.md", output)
    encoded = (dump_line(result) + "\n").encode("utf-8", "replace")
    put_file(f"{folder}/result.json", encoded)
    ended = RunEnded(run=run_id, cause=result["cause"], exit=None)
    judged = Judged(
        run=run_id,
        status=result["status"],
        claimed=result["claimed"],
        verification=result["verification"],
        proof=result["proof"] or ABSENT,
        summary=result["summary"][:500],
        output=hashlib.sha256(output).hexdigest(),
        result=hashlib.sha256(encoded).hexdigest(),
        errors=sum(one["level"] == "error" for one in result["problems"]),
    )
    with store.lock(task_id, actor.by) as locked:
        current = locked.task.current_run
        if current is not None and current.id == run_id:
            locked.append(ended, judged, sync=True)  # in one write: a plan is never seen ended and not judged
    settle_budget(actor, locked.task)


def _result(
    store: Store, task: Task, run_id: str, command: Command, execution: Execution, merged: Mapping[str, Any]
) -> dict[str, Any]:
    """The plan's result in the fields of every result; also the provenance of each field and a row for each node."""
    plan, state, tasks, ends = execution
    status, why = command.facts["status"], command.facts.get("why", "")
    cause = "cancelled" if status == "cancelled" else why
    rows = [_row(state.nodes[name], tasks.get(name), ends.get(name, {})) for name in plan.nodes]
    run = task.runs[-1]
    return {
        "schema": "overhand.result/1",
        "task_id": task.id,
        "run_id": run_id,
        "status": status,
        "claimed": status if status in CLAIMS else None,
        **_verification(rows, state.winner, status),
        "cause": cause if cause in ("timeout", "budget", "cancelled") else "exit",
        "summary": _summary(state, status, why, merged),
        "data": merged.get("data"),
        "deliverables": [],
        "decisions": [],
        "for_primary": "",
        "files_modified": [],
        "errors": [],
        "next_steps": "" if status == "completed" else f"overhand resume {task.handle}: verified nodes stay.",
        "problems": [*merged.get("problems", ()), *_failures(state)],
        "checks": [],
        "usage": usage_with_nodes(usage_of_task(task), [one.get("usage", {}) for one in ends.values()]),
        "source": "plan",
        "output": store.relative(f"{store.workspace(task.id)}/OUTPUT.md"),
        "run_folder": store.relative(store.run_folder(task.id, run_id)),
        "look_at": {"changed": None, "alone": True, "sensitive": [], "leftovers": []},
        "repairs": 0,
        "nodes": rows,
        "tokens": sum(row["tokens"] for row in rows),
        "seconds": round(epoch_of(now_stamp()) - epoch_of(run.created), 3),
        "merge": plan.merge.strategy,
        "winner": state.winner or None,
        "conflicts": merged.get("conflicts", []),
        "provenance": merged.get("provenance", {}),
        "variants": merged.get("variants", []),
        "unfilled": merged.get("unfilled", []),
        "missing": merged.get("missing", []),
    }


def _failures(state: progress.PlanState) -> list[dict[str, object]]:
    failed = [known for known in state.order if known.state == FAILED]
    texts = [f"Node {known.spec.id} ({known.agent}) failed: {known.why}" for known in failed]
    return [wrong("node-failed", text).as_json() for text in texts]


def _row(known: NodeState, task_id: str | None, facts: Mapping[str, Any]) -> dict[str, Any]:
    """How a node ended, by the facts of its Ended event."""
    passed = facts.get("checks")
    return {
        "node": known.spec.id,
        "task_id": task_id,
        "agent": known.agent,
        "state": known.state,
        "status": known.status or None,
        "verification": facts.get("verification", "none"),
        "proof": facts.get("proof"),
        "attempts": known.attempt,
        "seconds": facts.get("seconds", 0.0),
        "tokens": facts.get("tokens", 0),
        "checks": {"passed": passed[0], "of": passed[1]} if passed else None,
        "summary": facts.get("summary", ""),
        "why": known.why,
    }


def _verification(rows: list[dict[str, Any]], winner: str, status: str) -> dict[str, Any]:
    """The weakest of the nodes that the merge takes."""
    taken = [row for row in rows if row["state"] == VERIFIED and winner in ("", row["node"])]
    if status in ("failed", "cancelled"):
        taken = []
    word = min((row["verification"] for row in taken), key=list(VERIFICATIONS).index, default="none")
    proof = next((row["proof"] for row in taken if row["proof"]), None) if word == "proved" else None
    return {"verification": word, "verified": word == "proved", "proof": proof, "doubts": []}


def _summary(state: progress.PlanState, status: str, why: str, merged: Mapping[str, Any]) -> str:
    nodes = state.order
    count = {kind: [k.spec.id for k in nodes if k.state == kind] for kind in (VERIFIED, FAILED, SKIPPED, STOPPED)}
    whole = f"{len(nodes)} nodes are" if len(nodes) != 1 else "1 node is"
    parts = [f"{len(count[VERIFIED])} of {whole} completed"]
    parts += [
        f"{kind}: {', '.join(names[:5])}{' …' if len(names) > 5 else ''}"
        for kind, names in count.items()
        if names and kind != VERIFIED
    ]
    text = "; ".join(parts) + "."
    reason = _WHY.get(why, why)
    if status != "completed" and reason:
        text += f" It ended {status}: {reason.rstrip('.')}."
    if conflicts := merged.get("conflicts"):
        text += f" {len(conflicts)} {'conflicts were' if len(conflicts) != 1 else 'conflict was'} solved by rule."
    return text


def _output(plan: Plan, result: dict[str, Any]) -> str:
    lines = ["| Node | Agent | Task | Verified | Checks | Attempts | Time | Tokens |", "|---" * 8 + "|"]
    for row in result["nodes"][:_ROWS]:
        text = row["state"] if row["status"] in (None, "completed") else f"{row['state']} ({row['status']})"
        passed = f"{row['checks']['passed']} of {row['checks']['of']}" if row["checks"] else "-"
        cells = (
            row["node"],
            row["agent"],
            text,
            SHOWN_VERIFICATIONS[row["verification"]],
            passed,
            row["attempts"],
            f"{row['seconds']:.1f}s",
        )
        lines.append("| " + " | ".join(str(cell).replace("|", "\\|") for cell in (*cells, row["tokens"])) + " |")
    if len(result["nodes"]) > _ROWS:
        lines.append(f"\nThe other {len(result['nodes']) - _ROWS} are in result.json.")
    extra = [Section("Nodes", "\n".join(lines))]
    if result["conflicts"]:
        extra.append(Section("Conflicts", _fenced(result["conflicts"])))
    if result["provenance"]:
        extra.append(Section("Where It Came From", _fenced(result["provenance"])))
    if result["problems"]:
        text = "\n".join(f"- {one['message']}" for one in result["problems"][:100])
        extra.append(Section("Problems", text))
    return render_output(
        Output(
            title=plan.task.strip().split("\n")[0][:120] or "A plan",
            status=result["status"],
            duration=say_duration(result["seconds"]),
            agent=PLAN_KIND,
            summary=result["summary"],
            for_primary=result["next_steps"],
            data=result["data"],
            extra=tuple(extra),
        )
    )


def _fenced(value: Any) -> str:
    from overhand.documents import dump_json

    return f"```json\n{dump_json(value)}\n```"
