"""Every kind of line in a task's log, byte for byte: logs of earlier versions and tools outside read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from overhand.record import log

GOLDEN = Path(__file__).with_name("log_lines.jsonl")
STAMP: dict[str, Any] = {
    "t": "2026-11-18T01:12:10.000Z",
    "mono": 12.5,
    "boot": "b-1",
    "by": {"kind": "person", "user": "ana", "via": "cli"},
}
RUN, CHILD = "sess_1763428330_abc123", "worker-20261118-011210"
EVENTS: list[dict[str, Any]] = [
    {"e": "created", "v": 1, "task": CHILD, "handle": 7, "title": "Sort «it»", "kind": "implementation",
     "priority": "P1", "parent": {"task": "lead-1", "run": RUN}, "depth": 2, "path": ["user", "lead"],
     "timeout": 600.0, "level": "work", "contract": "work", "checks": [{"name": "t", "command": "make test"}],
     "after": "lead-1", "settings": {"shell": True}, "model": "m", "budget": "5 USD", "strict": True, "cause": "c@1",
     "item": {"path": "a.md", "kind": "bug"}, "node": "n", "plan": 3, "seal": "s", "agent": "worker",
     "handoff": "0f"},
    {"e": "accepted"},
    {"e": "accepted", "agent": "worker", "resume": {"run": RUN, "why": "resumed"}, "budget": "9 USD"},
    {"e": "accepted", "cause": "c@2", "resume": {"why": "attempt 2 of its plan"}, "agent": "other"},
    {"e": "accepted", "limit": {"driver": "claude", "until": 1.5, "why": "spent"},
     "resume": {"run": RUN, "why": "its limit"}},
    {"e": "accepted", "repair": RUN},
    {"e": "requeued", "run": RUN, "why": "its process was lost", "resume": {"run": RUN, "why": "its process was lost"}},
    {"e": "run.created", "run": RUN, "agent": "worker", "driver": "command", "timeout": 600.0, "machine": "m-1",
     "pidns": "4026531836", "control": True, "attached": True, "messages": [1, 2]},
    {"e": "run.started", "run": RUN},
    {"e": "run.started", "run": RUN, "shim": 4711},
    {"e": "run.waiting", "run": RUN},
    {"e": "run.going", "run": RUN},
    {"e": "run.ended", "run": RUN, "cause": "exit", "exit": 0, "leftovers": [12]},
    {"e": "run.ended", "run": RUN, "cause": "lost", "exit": None},
    {"e": "run.ended", "run": RUN, "cause": "error", "why": "No such program."},
    {"e": "run.ended", "run": RUN, "never_began": True},
    {"e": "run.ended", "run": RUN, "never_began": True, "why": "its job goes on"},
    {"e": "judged", "run": RUN, "status": "completed", "claimed": None, "verified": "all", "summary": "Done.",
     "output": None, "result": "1f", "errors": 0},
    {"e": "judged", "run": None, "status": "rejected", "code": "REFUSED", "summary": "No."},
    {"e": "rechecked", "verified": "all", "output": "0f", "result": "1f"},
    {"e": "seen"},
    {"e": "stop", "why": "stopped"},
    {"e": "notice", "text": "Something.", "cause": "c@3"},
    {"e": "refused", "code": "REFUSED", "agent": "worker", "title": "Do it", "why": "Too deep."},
    {"e": "refused", "code": "REFUSED", "title": "item approve", "why": "No person."},
    {"e": "asked", "seq": 1, "question": "Which?", "options": ["a", "b"], "step": "2", "via": "ask", "run": RUN,
     "closed": True, "cause": "c@4"},
    {"e": "asked", "seq": 2, "question": "Which?", "options": [], "step": "", "via": "file", "run": None,
     "stem": "q2", "sha": "2f"},
    {"e": "asked", "seq": 1, "run": RUN, "again": True},
    {"e": "asked", "seq": 3, "question": "Message 1", "via": "control", "run": RUN, "cause": "message:1"},
    {"e": "answered", "seq": 1, "answer": "a", "via": "verb", "blob": "3f"},
    {"e": "message", "text": "Hello", "blob": "4f", "run": RUN},
    {"e": "usage", "run": RUN, "input": 5, "output": 6, "usd": 0.5, "turns": 1, "context": 7, "window": 8,
     "estimated": False},
    {"e": "limit", "key": "75 % of the budget"},
    {"e": "reserved", "child": CHILD, "tokens": 30, "usd": 0.0},
    {"e": "settled", "child": CHILD, "tokens": 20, "usd": 0.25},
    {"e": "checkpoint", "id": "ckpt_a_7_1", "run": RUN, "reason": "under way", "why": "control", "cause": "c@5"},
    {"e": "control", "command": "CHECKPOINT", "arg": "", "run": RUN, "at": "c@5", "reason": "under way", "ok": True,
     "checkpoint": "ckpt_a_7_1"},
    {"e": "control", "command": "DELEGATE", "arg": "worker", "run": RUN, "at": "c@6", "reason": "", "ok": False,
     "error": "Too deep."},
    {"e": "control", "command": "ESCALATE", "arg": "", "run": RUN, "reason": "stuck", "ok": True},
    {"e": "phase", "phase": "PLAN", "from": "IDENTIFY", "iteration": 1, "why": "found it"},
    {"e": "step", "n": 2, "text": "Sort", "marker": "x", "run": RUN},
    {"e": "tagged", "stage": "claimed", "path": "a.md", "run": RUN, "repair": True},
    {"e": "tagged", "stage": "delegated", "path": "a.md"},
    {"e": "staged", "stage": "done", "how": "verb"},
    {"e": "parked", "run": RUN, "item": "a.md#bug"},
    {"e": "late", "run": RUN, "kept": None, "code": "STALE_RUN"},
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(EVENTS)), ids=[f"{n}-{e['e']}" for n, e in enumerate(EVENTS)])
def test_line(number: int) -> None:
    written = log.lines_of([EVENTS[number]], STAMP).decode()
    assert written == GOLDEN.read_text(encoding="utf-8").splitlines(keepends=True)[number]


def test_nothing_is_left_over() -> None:
    assert len(GOLDEN.read_text(encoding="utf-8").splitlines()) == len(EVENTS)
