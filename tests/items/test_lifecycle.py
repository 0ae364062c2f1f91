"""Who may make which step, all of them; and what a log, whatever stands in it, says of the tag."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overhand.documents import TAG_STAGES
from overhand.items import DISMISSED, approve, is_tag_behind, sync, wanted_stage
from overhand.record import fold
from overhand.words import STATUSES

ALLOWED = {
    *(("person", "needs", to) for to in ("delegated", "next", "done", "dismissed")),
    ("person", "delegated", "needs"),
    ("person", "next", "needs"),
    *(("person", "claimed", to) for to in ("delegated", "needs", "done")),
    ("person", "done", "needs"),
    ("run", "delegated", "claimed"),
    ("run", "next", "claimed"),
    *(("overhand", "claimed", to) for to in ("done", "delegated", "next", "needs")),
}
STEPS = [*product(("person", "run", "overhand"), TAG_STAGES, (*TAG_STAGES, "dismissed"))]


@pytest.mark.parametrize(("who", "now", "to"), STEPS, ids="-".join)
def test_every_step(who: str, now: str, to: str) -> None:
    assert approve.allows(who, now, to) == ((who, now, to) in ALLOWED)
    assert approve.allows(who, now, to, live=True) == (
        (who, now, to) in ALLOWED and not (who == "person" and now == "claimed")
    )
    message, hint = approve.refusal(who, now, to, "x.md#fix")
    assert message.startswith("x.md#fix cannot be ")
    assert "overhand item " in hint
    assert "None" not in message + hint


def test_a_refusal_names_who_holds_it() -> None:
    message, hint = approve.refusal("person", "claimed", "needs", "x.md#fix", "task 7")
    assert "held by task 7" in message
    assert hint == "Stop it first: overhand stop 7"


RUNS = ("sess_1_aaaaaa", "sess_2_bbbbbb")
EVENTS: list[dict[str, Any]] = [
    {"e": "accepted"},
    {"e": "accepted", "resume": {"run": RUNS[0]}},
    *({"e": name, "run": run} for name in ("run.created", "run.started", "run.ended", "requeued") for run in RUNS),
    *({"e": "run.ended", "run": run, "never_began": True} for run in RUNS),
    *({"e": "judged", "run": run, "status": status} for run in (*RUNS, None) for status in STATUSES),
    *({"e": "staged", "stage": stage} for stage in (*TAG_STAGES[2:], DISMISSED)),
    *({"e": "tagged", "stage": stage, "path": "x.md", "run": ""} for stage in TAG_STAGES),
]
CREATED = {"e": "created", "item": {"path": "x.md", "kind": "fix", "stage": "delegated"}}


def sound(events: list[dict[str, Any]]) -> bool:
    """Runs are made once, and nothing happens to one that was not made."""
    made: list[str] = []
    for event in events:
        if event["e"] == "run.created":
            if event["run"] in made:
                return False
            made.append(event["run"])
    return True


@given(st.lists(st.sampled_from(EVENTS), max_size=14).filter(sound))
def test_what_a_log_says_of_the_tag(events: list[dict[str, Any]]) -> None:
    stamped = [{**event, "t": f"2026-11-16T00:00:{n:02d}.000Z"} for n, event in enumerate([CREATED, *events])]
    task = fold("worker-20261116-000000", stamped)
    stage = wanted_stage(task)
    assert stage in (*TAG_STAGES, DISMISSED)
    if task.staged:
        assert stage == task.staged.stage
    elif task.status is not None:
        assert stage == ("done" if task.status == "completed" else "needs"), "what has ended allows nothing"
    else:
        held = task.current_run is not None
        assert stage == "claimed" if held else stage in ("claimed", "delegated")
    tagged = {"e": "tagged", "stage": stage, "path": "x.md", "run": sync.outcome(task), "t": stamped[-1]["t"]}
    assert not is_tag_behind(fold(task.id, [*stamped, tagged])), "once it is written, nothing is owed"
