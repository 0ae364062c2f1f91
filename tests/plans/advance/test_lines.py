"""Lines of plan.jsonl: what is an event comes back as it was, everything else is none."""

from __future__ import annotations

from typing import Any

import pytest

from overhand.plans import PlanEvent, plan_event
from overhand.plans.progress import as_json


@pytest.mark.parametrize(
    "event",
    [PlanEvent("PlanStarted", 1.5, "", 1, {"run": "r"}), PlanEvent("Ended", 2, "a", 3, {"task": "t-1", "tokens": 4})],
)
def test_there_and_back(event: PlanEvent) -> None:
    assert plan_event(as_json(event)) == event


@pytest.mark.parametrize(
    "line",
    [
        {},
        {"foo": 1},
        {"what": "Ended", "at": "now"},
        {"what": "Ended", "at": 1, "node": 5},
        {"what": "Ended", "at": 1, "attempt": "1"},
        {"what": "Ended", "at": 1, "facts": []},
        {"what": "Ended", "at": 1, "facts": {"task": 5}},
        {"what": "Ended", "at": 1, "facts": {"tokens": "5"}},
        {"what": "LimitsChanged", "at": 1, "facts": {"max_parallel": None}},
    ],
)
def test_what_is_no_event(line: dict[str, Any]) -> None:
    assert plan_event(line) is None
