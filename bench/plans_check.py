"""Reading and checking a plan of 100,000 nodes, against `json.loads` of the same text."""

from __future__ import annotations

import gc
import json
import random
import time
from typing import TYPE_CHECKING, Any

from measure import Row, median

from overhand.plans.check import AgentFacts, check
from overhand.plans.reader import read

if TYPE_CHECKING:
    from collections.abc import Callable

_NODES = 100_000
_AGENTS = 7
_FACTS = {f"agent-{number}": AgentFacts() for number in range(_AGENTS)}


def rows(*, quick: bool) -> list[Row]:
    """The output form with a reference, a dependency and an interface at most nodes; then with nodes in any order."""
    rounds = 3 if quick else 7
    texts = {"in order": plan(_NODES), "shuffled": plan(_NODES, shuffled=True)}
    found = {name: _ratio(text, rounds, collecting=False) for name, text in texts.items()}
    worst = max(ratio for ratio, _, _ in found.values())
    usual = max(_ratio(text, rounds, collecting=True)[0] for text in texts.values())
    each = (f"{name} {ratio:.2f} x ({ours:.2f} s, {theirs:.2f})" for name, (ratio, ours, theirs) in found.items())
    return [
        Row(
            f"read and check a plan of {_NODES:,} nodes (references, circles, interfaces), CPU vs `json.loads`",
            f"{worst:.2f} x",
            "≤ 6 x",
            "3 x",
            worst <= 6,
            worst <= 3,
            f"without the garbage collector on either side, medians of {rounds} rounds: {'; '.join(each)}; "
            f"with it, as programs run, {usual:.2f} x (a large plan is read with the collector paused)",
        )
    ]


def _ratio(text: str, rounds: int, *, collecting: bool) -> tuple[float, float, float]:
    """Ours and theirs in turns; the ratio is the median of each round's."""
    assert _check(text) == []
    pairs = [
        (_cpu(lambda: _check(text), collecting), _cpu(lambda: json.loads(text), collecting)) for _ in range(rounds)
    ]
    ratio = median([ours / theirs for ours, theirs in pairs])
    return ratio, median([ours for ours, _ in pairs]), median([theirs for _, theirs in pairs])


def _check(text: str) -> list[Any]:
    found = read(text, "plan.json")
    assert found.plan is not None
    assert len(found.plan.nodes) == _NODES
    return [*found.problems, *check(found.plan, _FACTS, lines=found.lines)]


def _cpu(do: Callable[[], object], collecting: bool) -> float:
    """CPU seconds, with the garbage collector or without; what earlier rounds left behind is swept up before."""
    gc.collect()
    if not collecting:
        gc.disable()
    began = time.process_time()
    do()
    took = time.process_time() - began
    gc.enable()
    return took


def plan(count: int, *, shuffled: bool = False) -> str:
    """A plan as a program would write it; two of three nodes take what the one before them gives."""
    subtasks = [_subtask(number) for number in range(count)]
    if shuffled:
        random.Random(7).shuffle(subtasks)
    return json.dumps(
        {
            "delegation": {"task": "Work through all the parts", "status": "pending"},
            "subtasks": subtasks,
            "interfaces": [_interface(number) for number in range(count) if number % 3],
            "merge_plan": {"strategy": "sequential"},
            "failure_handling": {"policy": "abort", "max_retries": 1, "fallback": None},
        },
        indent=1,
    )


def _subtask(number: int) -> dict[str, Any]:
    given: Any = f"${{node-{number - 1}.records}}" if number % 3 else ["src/**/*.ts"]
    needs = [f"node-{number - 1}"] if number % 3 else []
    if number > 10 and number % 5 == 0:
        needs.append(f"node-{number - 7}")
    return {
        "id": f"node-{number}",
        "agent": f"agent-{number % _AGENTS}",
        "contract": {
            "inputs": {"records": given, "focus": "security"},
            "outputs": {"records": "array of {id, name}", "passed": "boolean"},
            "constraints": {"timeout": "5m", "max_records": 20},
            "verification": {"expression": "len(data.records) > 0"},
        },
        "dependencies": needs,
        "status": "pending",
        "result": None,
    }


def _interface(number: int) -> dict[str, Any]:
    return {
        "from": f"node-{number - 1}",
        "to": f"node-{number}",
        "format": {"records": "array of records"},
        "required_fields": ["id", "name"],
    }
