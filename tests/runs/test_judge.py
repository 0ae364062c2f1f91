"""One case per problem that a verdict can name, and the tables of SPEC D7."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from overhand.documents import Problem, Return
from overhand.record import Store, fold
from overhand.runs import Evidence, Returned, judge_run, read_return
from overhand.runs import evidence as collecting
from overhand.runs.judge import CODES, CheckFact, FileFact
from overhand.runs.proof import Work
from overhand.system import detached

DONE = Return(status="completed", summary="Done.")
GREEN = CheckFact("tests", "make test", after=0, before=1)
RED = CheckFact("tests", "make test", after=1, before=0)
WROTE = Work(("a.py",), ("a.py",))
THERE = FileFact("a.txt")
MISSING = FileFact("b.txt", exists=False)

# code: evidence, level, status
CASES: dict[str, tuple[Evidence, str, str]] = {
    "return-missing": (Evidence(), "error", "failed"),
    "deliverable-missing": (Evidence(DONE, deliverables=(MISSING,)), "error", "failed"),
    "deliverable-empty": (Evidence(DONE, deliverables=(FileFact("a.txt", empty=True),)), "error", "failed"),
    "deliverable-outside": (Evidence(DONE, deliverables=(FileFact("../a", inside=False),)), "error", "failed"),
    "deliverable-untouched": (Evidence(DONE, deliverables=(FileFact("a", change="untouched"),)), "error", "failed"),
    "deliverable-same-content": (
        Evidence(DONE, deliverables=(FileFact("a", change="touched"),)),
        "warning",
        "completed",
    ),
    "file-missing": (Evidence(DONE, named=(MISSING,)), "error", "failed"),
    "file-empty": (Evidence(DONE, named=(FileFact("a.txt", empty=True),)), "error", "failed"),
    "file-outside": (Evidence(DONE, named=(FileFact("/etc/x", inside=False),)), "error", "failed"),
    "exit-not-zero": (Evidence(DONE, exit=3), "error", "failed"),
    "exit-unknown": (Evidence(DONE, cause="lost", exit=None), "error", "failed"),
    "check-failed": (Evidence(DONE, checks=(RED,)), "error", "failed"),
    "plan-step-failed": (Evidence(DONE, steps=(("!", "Build"),)), "error", "failed"),
    "plan-step-open": (Evidence(DONE, steps=((" ", "Build"),)), "warning", "completed"),
    "question-open": (Evidence(DONE, open_questions=1), "error", "needs-input"),
    "changed-unlisted": (Evidence(DONE, changed=("x.py",)), "warning", "completed"),
    "final-event": (Evidence(DONE, final="api-error", final_why="500"), "error", "failed"),
    "permission-denied": (Evidence(DONE, final="clean", denied=("Bash",)), "warning", "completed"),
    "read-only-changed": (Evidence(DONE, changed=("x.py",), read_only=True), "error", "failed"),
}
# these are found while the return is collected or shown, not by the pure function
COLLECTED = {
    "document-changed",
    "return-invalid",
    "return-contradicts",
    "section-required",
    "files-many",
    "contract-required",
    "output-stray",
    "output-unreadable",
    "desk-unreadable",
    "decisions-not-kept",
    "check-not-run",
    "promise-missing",
    "inputs-unreadable",
}


def test_every_code_has_its_case() -> None:
    assert CASES.keys() | COLLECTED == CODES.keys()


@pytest.mark.parametrize("code", CASES)
def test_the_problem_is_named_with_its_level(code: str) -> None:
    evidence, level, status = CASES[code]
    verdict = judge_run(evidence)
    assert [p.level for p in verdict.problems if p.code == code] == [level]
    assert verdict.status == status


@pytest.mark.parametrize(
    ("evidence", "status"),
    [
        # a completed claim: failed if a check failed or no file deliverable holds, else partial
        (Evidence(DONE), "completed"),
        (Evidence(DONE, deliverables=(THERE, MISSING)), "partial"),
        (Evidence(DONE, deliverables=(THERE, MISSING), checks=(GREEN,)), "partial"),
        (Evidence(DONE, deliverables=(THERE, MISSING), checks=(RED,)), "failed"),
        (Evidence(DONE, deliverables=(THERE,), named=(MISSING,)), "partial"),
        # no return: partial if all file deliverables hold and no check failed, else failed
        (Evidence(deliverables=(THERE,)), "partial"),
        (Evidence(deliverables=(THERE,), checks=(GREEN,)), "partial"),
        (Evidence(deliverables=(THERE,), checks=(RED,)), "failed"),
        (Evidence(deliverables=(THERE, MISSING)), "failed"),
        (Evidence(checks=(GREEN,)), "failed"),
        # but a proof needs no report, unless something else speaks against it
        (Evidence(checks=(GREEN,), work=WROTE), "completed"),
        (Evidence(deliverables=(THERE,), checks=(GREEN,), work=WROTE), "completed"),
        (Evidence(deliverables=(THERE, MISSING), checks=(GREEN,), work=WROTE), "failed"),
        (Evidence(checks=(GREEN, RED), work=WROTE), "failed"),
        (Evidence(checks=(GREEN,), work=WROTE, final="api-error"), "failed"),
        (Evidence(checks=(GREEN,), work=WROTE, cause="timeout", exit=143), "failed"),
        (Evidence(checks=(GREEN,), work=WROTE, problems=(Problem("status-missing", "None."),)), "completed"),
        (Evidence(checks=(GREEN,), work=WROTE, problems=(Problem("status-unknown", "50 %"),)), "failed"),
        (Evidence(checks=(GREEN,), work=WROTE, open_questions=1), "needs-input"),
        (Evidence(cause="timeout", exit=143, deliverables=(THERE,)), "partial"),
        (Evidence(cause="timeout", exit=143), "failed"),
        # the exit: anything but 0 is an error, only a warning if a check of ours passed
        (Evidence(DONE, exit=3, checks=(GREEN,)), "completed"),
        (Evidence(DONE, exit=3, checks=(GREEN, RED)), "failed"),
        (Evidence(DONE, exit=137, cause="killed", deliverables=(THERE,)), "partial"),
        (Evidence(DONE, exit=None, cause="error"), "failed"),
        # lost or out of time: clean if the form is whole
        (Evidence(DONE, complete_form=True, cause="lost", exit=None), "completed"),
        (Evidence(DONE, complete_form=True, cause="timeout", exit=143), "completed"),
        (Evidence(DONE, complete_form=True, cause="lost", exit=None, checks=(RED,)), "failed"),
        # a person stopped it
        (Evidence(DONE, cause="cancelled", exit=143), "cancelled"),
        (Evidence(cause="cancelled", exit=143), "cancelled"),
        # waived, listed, strict
        (Evidence(DONE, deliverables=(FileFact("a", change="untouched", waived=True),)), "completed"),
        (Evidence(DONE, deliverables=(FileFact("a", exists=False, waived=True),)), "failed"),
        (Evidence(DONE, strict=True, deliverables=(FileFact("a", change="touched"),)), "partial"),
        (Evidence(DONE, strict=True, steps=((" ", "Build"),)), "failed"),
        (Evidence(DONE, problems=(Problem("title-missing", "No title."),)), "completed"),
        (Evidence(DONE, problems=(Problem("data-mismatch", "Wrong.", of="substance"),)), "failed"),
    ],
)
def test_status(evidence: Evidence, status: str) -> None:
    assert judge_run(evidence).status == status


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        (Evidence(DONE, deliverables=(THERE, FileFact("b", change="untouched"))), "what it was before the task began"),
        (Evidence(DONE, deliverables=(THERE, MISSING)), "does not exist"),
        (Evidence(DONE, deliverables=(THERE,), named=(MISSING,)), "does not exist"),
        (Evidence(DONE, deliverables=(THERE,), steps=(("!", "Build"),)), "marked [!]"),
        (Evidence(DONE, deliverables=(THERE,), final="api-error"), "answered with an error"),
        (Evidence(DONE, strict=True, deliverables=(FileFact("a", change="touched"),)), "written again unchanged"),
        (Evidence(deliverables=(THERE,), problems=(Problem("status-unknown", "50 % is no status."),)), "no status"),
        (Evidence(deliverables=(THERE,), cause="timeout", exit=143), ""),
        (Evidence(DONE, cause="cancelled", exit=143), ""),
    ],
)
def test_red_to_green_proves_nothing_where_something_else_is_wrong(evidence: Evidence, said: str) -> None:
    verdict = judge_run(replace(evidence, checks=(GREEN,), work=WROTE))
    assert (verdict.status in ("partial", "cancelled"), verdict.verification.word) == (True, "passing")
    assert said in " ".join(verdict.verification.why)


def test_red_before_and_after_is_not_passed_and_said() -> None:
    check = CheckFact("tests", "make test", after=1, before=2)
    verdict = judge_run(Evidence(DONE, checks=(check,)))
    assert (check.already_red, verdict.status, verdict.verification.word) == (True, "failed", "failing")
    assert "already red" in verdict.problems[-1].message


def test_files_below_a_named_folder_are_listed() -> None:
    verdict = judge_run(Evidence(DONE, deliverables=(FileFact("docs"),), changed=("docs/a.md", "docs2/b.md")))
    assert [p.message for p in verdict.problems] == ["Also changed: docs2/b.md."]


# ---- collecting a return from a run's folder


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "project/.agent-workspaces/task/runs/sess_1_abcdef"
    folder.mkdir(parents=True)
    return folder


def store_of(place: Path) -> Store:
    return Store(str(place.parents[3]), str(place.parents[4] / "record"))


def collect(place: Path, *events: dict[str, Any], **spec: Any) -> Returned:
    """What is judged of a run whose desk is `place`."""
    store = store_of(place)
    folders = store.run_folders("task", place.name)
    os.makedirs(folders.place, exist_ok=True)
    noticed = collecting.collect_return(store, fold("task", events), folders)
    return read_return(folders, spec, noticed=noticed)


def codes(returned: Returned) -> set[str]:
    return {problem.code for problem in returned.problems}


WHOLE = "# Task Complete: x\n\n**Status:** completed\n\n## Summary\nDone.\n"


def test_return_invalid(place: Path) -> None:
    (place / "result.json").write_text('{"status": "completed", "summary": "x", "data": NaN}')
    assert codes(collect(place)) == {"return-invalid"}


def test_return_contradicts(place: Path) -> None:
    (place / "OUTPUT.md").write_text(WHOLE)
    (place / "result.json").write_text(json.dumps({"status": "failed", "summary": "No."}))
    found = collect(place)
    assert "return-contradicts" in codes(found)
    assert found.value is not None
    assert (found.source, found.value.status) == ("OUTPUT.md", "completed")


def test_data_that_contradicts_itself(place: Path) -> None:
    (place / "OUTPUT.md").write_text(f"{WHOLE}\n## Data\n```json\n1\n```\n")
    (place / "data.json").write_text("2")
    assert "return-contradicts" in codes(collect(place))


def test_a_title_claims_nothing(place: Path) -> None:
    (place / "OUTPUT.md").write_text("# Task Complete: x\n\n## Summary\nDone.\n")
    found = collect(place)
    assert codes(found) == {"status-missing"}
    assert not found.complete_form


def test_a_status_elsewhere_is_read(place: Path) -> None:
    (place / "OUTPUT.md").write_text("# Task Complete: x\n\n## Summary\nDone.\n\n**Status:** completed\n")
    found = collect(place)
    assert codes(found) == {"status-filled-in"}
    assert found.complete_form
    assert found.value is not None
    assert (found.value.status, found.value.summary) == ("completed", "Done.")


def test_section_required(place: Path) -> None:
    (place / "OUTPUT.md").write_text(WHOLE)
    assert codes(collect(place, agent={"gives": ["decisions", "summary"]})) == {"section-required"}


def test_contract_required(place: Path) -> None:
    (place / "OUTPUT.md").write_text(WHOLE)
    assert codes(collect(place, contract="RESEARCH_OUTPUT")) == {"contract-required"}


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.symlink_to("/etc/passwd")])
def test_output_unreadable(place: Path, make: Any) -> None:
    make(place / "OUTPUT.md")
    found = collect(place)
    assert codes(found) == {"output-unreadable"}
    assert found.value is None


def test_output_stray_is_kept_aside(place: Path) -> None:
    (place / "OUTPUT.md").write_text(WHOLE)
    (place.parent.parent / "OUTPUT.md").write_text(WHOLE.replace("Done.", "Other."))
    assert codes(collect(place)) == {"output-stray"}
    assert "Other." in (place / "stray-OUTPUT.md").read_text()


def test_an_output_in_the_tasks_folder_is_taken_if_nobody_else_can_have_written_it(place: Path) -> None:
    (place.parent.parent / "OUTPUT.md").write_text(WHOLE)
    found = collect(place)
    assert (codes(found), found.source) == (set(), "OUTPUT.md")
    assert (place / "OUTPUT.md").exists()


@pytest.mark.parametrize(("told", "found"), [({"exit": 1}, set()), ({"cause": "timeout"}, {"output-stray"})])
def test_a_shim_that_has_yet_to_leave_wrote_nothing(place: Path, told: dict[str, Any], found: set[str]) -> None:
    """It has told how the agent of the run before ended; where nobody has, somebody may be left."""
    first = Path(store_of(place).run_folder("task", "sess_0_abcdef"))
    first.mkdir(parents=True)
    (place.parent.parent / "OUTPUT.md").write_text(WHOLE)
    runs = ({"e": "run.created", "run": first.name}, {"e": "run.ended", "run": first.name, **told})
    alive = detached.hold_life(str(first))
    try:
        assert codes(collect(place, *runs, {"e": "run.created", "run": place.name})) == found
    finally:
        os.close(alive)
