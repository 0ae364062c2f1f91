"""In which group of the first screen a task stands, and what moves it: seen, dismissed, checked again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from overhand.record import fold
from support.terminal import at_a_terminal

if TYPE_CHECKING:
    from overhand.testing.project import ProjectDir

CREATED = {"e": "created", "v": 1, "task": "t", "handle": 1, "title": "x", "t": "2026-11-18T10:00:00.000Z"}
RUN = {"e": "run.created", "run": "sess_1_abcdef", "agent": "worker", "driver": "command", "timeout": 60.0}
ENDED = {"e": "run.ended", "run": "sess_1_abcdef", "cause": "exit", "exit": 0}
INSIDE = {**CREATED, "parent": {"task": "p", "run": "sess_2_abcdef"}}


def judged(status: str, word: str = "passing") -> dict[str, Any]:
    return {"e": "judged", "run": "sess_1_abcdef", "status": status, "verification": word, "summary": "x"}


RED = {"e": "rechecked", "verification": "failing", "result": "0f", "output": None}
SEEN, DISMISSED, AGAIN = {"e": "seen"}, {"e": "dismissed"}, {"e": "accepted"}


@pytest.mark.parametrize(
    ("events", "group"),
    [
        ([CREATED], "needs you"),
        ([CREATED, AGAIN], "queued"),
        ([CREATED, AGAIN, RUN], "working"),
        ([CREATED, RUN, ENDED, judged("completed")], "ready"),
        ([CREATED, RUN, ENDED, judged("completed"), SEEN], "done"),
        ([CREATED, RUN, ENDED, judged("completed"), RED], "failed"),
        ([CREATED, RUN, ENDED, judged("completed"), DISMISSED], "done"),
        ([INSIDE, RUN, ENDED, judged("completed")], "done"),
        *(([CREATED, RUN, ENDED, judged(status)], "failed") for status in ("failed", "partial", "rejected")),
        *(([CREATED, RUN, ENDED, judged(status), SEEN], "done") for status in ("failed", "partial", "rejected")),
        *(([CREATED, RUN, ENDED, judged(status), SEEN], "needs you") for status in ("blocked", "needs-input")),
        ([CREATED, RUN, ENDED, judged("blocked"), DISMISSED], "done"),
        ([CREATED, RUN, ENDED, judged("blocked"), DISMISSED, AGAIN], "queued"),
        ([CREATED, RUN, ENDED, judged("cancelled")], "done"),
    ],
)
def test_the_group_follows_from_the_log(events: list[dict[str, Any]], group: str) -> None:
    assert fold("t", events).headline == group


def test_old_words_of_the_log_read_as_passing() -> None:
    old = {"e": "judged", "run": "sess_1_abcdef", "status": "completed", "verified": "all", "summary": "x"}
    task = fold("t", [CREATED, RUN, ENDED, old])
    assert (task.verification, task.verified, task.proof) == ("passing", False, "")


def test_a_check_that_turns_red_is_red_everywhere(overhand_project: ProjectDir) -> None:
    overhand_project.agent("worker", "touch:a.txt", "output")
    overhand_project.run("delegate", "Make it", "--verify", "test -e a.txt", "--wait", check=True)
    (overhand_project.path / "a.txt").unlink()
    checked = overhand_project.run("check", "1", "--json")
    assert (checked.code, checked.json["verification"], checked.json["before"]) == (1, "failing", "passing")
    row = overhand_project.run("list", "--json").json["tasks"][0]
    shown = overhand_project.run("show", "1", "--json").json
    for one in (row, shown):
        assert (one["headline"], one["verification"], one["verified"]) == ("failed", "failing", False)
    assert "completed FAILING" in overhand_project.run("list").out
    assert "COMPLETED · FAILING" in overhand_project.run("show", "1").out
    assert "failed (1)" in overhand_project.run("status").out
    (overhand_project.path / "a.txt").touch()
    assert overhand_project.run("check", "1").out.startswith("1  PASSES (before: FAILING)")
    assert overhand_project.run("show", "1", "--json").json["headline"] == "ready"


def test_seen_on_a_terminal_it_is_done_and_still_says_failed(overhand_project: ProjectDir) -> None:
    overhand_project.agent("worker", "claim:never.txt")
    overhand_project.run("delegate", "Lie", "--wait")
    assert "failed (1)" in (screen := overhand_project.run("status").out)
    assert "never.txt, which does not exist" in screen
    code, _ = at_a_terminal(overhand_project, "wait", "1")
    assert code == 1
    row = overhand_project.run("list", "--json").json["tasks"][0]
    assert (row["headline"], row["status"]) == ("done", "failed")


def test_the_caller_that_asked_for_it_has_taken_it(overhand_project: ProjectDir) -> None:
    overhand_project.agent("worker", "output")
    assert overhand_project.run("delegate", "Do it", "--wait", "--json").json["headline"] == "ready"
    assert overhand_project.run("list", "--json").json["tasks"][0]["headline"] == "done"


def test_what_is_dismissed_is_done_until_it_is_resumed(overhand_project: ProjectDir) -> None:
    overhand_project.agent("worker", "output:status=blocked")
    overhand_project.run("delegate", "Try", "--wait")
    overhand_project.run("delegate", "Perhaps", "--no-start", check=True)
    assert "needs you (2)" in overhand_project.run("status").out
    said = overhand_project.run("dismiss", "1", "2", check=True).out
    assert said.startswith("1  dismissed · take it back: overhand resume 1")
    rows = overhand_project.run("list", "--json").json["tasks"]
    assert [row["headline"] for row in rows] == ["done", "done"]
    assert overhand_project.run("resume", "1", "--wait", "--json").json["headline"] == "needs you"


def test_unseen_failures_are_never_cleaned(overhand_project: ProjectDir) -> None:
    overhand_project.agent("worker", "claim:never.txt")
    overhand_project.run("delegate", "Lie", "--wait")
    clean = ("clean", "--older", "0s", "--yes", "--json")
    assert overhand_project.run(*clean).json["removed"] == []
    overhand_project.run("dismiss", "1", check=True)
    assert len(overhand_project.run(*clean).json["removed"]) == 1
