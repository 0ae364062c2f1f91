"""Checkpoints and handoffs of real runs: what a run leaves when it ended short, whatever it put in our way."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.scene import QUICK

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.scene import Scene

IN_THE_WAY = {"file": Path.touch, "loop": lambda path: path.symlink_to(path.name)}
OWN = "## Quick Handoff\n**Session:** mine\n**Status:** half\n**Next:** a.py:3\n\nMy own words.\n"


def judged(
    scene: Scene, script: str, *, before: Callable[[Path], object] | None = None, **keys: object
) -> tuple[str, Path, str]:
    """The task, its newest run's folder and its status; `before` is called with where checkpoints are kept."""
    scene.shell("worker", script, **keys)
    task = scene.delegate("do it", "--no-start")
    if before is not None:
        before(Path(scene.store.record(task), "checkpoints"))
    scene.json("run", task)
    status = scene.judged(task).status
    return task, scene.place(task), str(status)


@pytest.mark.parametrize("name", IN_THE_WAY)
def test_something_lies_where_checkpoints_are_kept(scene: Scene, name: str) -> None:
    script = f"echo 'CONTROL: CHECKPOINT REASON: x'; {QUICK}"
    task, _, status = judged(scene, script, before=IN_THE_WAY[name], control=True)
    assert status == "completed"
    (event,) = scene.events(task, "control")
    assert (event["command"], event["ok"]) == ("CHECKPOINT", False)
    assert any("CHECKPOINT was not carried out" in notice for notice in scene.state(task).notices)


def test_a_folder_lies_where_the_latest_one_is_named(scene: Scene) -> None:
    script = f"echo 'CONTROL: CHECKPOINT REASON: x'; {QUICK}"
    task, _, status = judged(scene, script, before=lambda kept: (kept / "latest/x").mkdir(parents=True), control=True)
    assert (status, scene.events(task, "control")[0]["ok"]) == ("completed", True)
    assert Path(scene.store.record(task), "checkpoints/latest").is_file()


def test_an_escalation_that_cannot_be_saved_still_calls_for_a_person(scene: Scene) -> None:
    script = "echo 'CONTROL: ESCALATE REASON: No way out.'; exec sleep 1000"
    task, _, status = judged(scene, script, before=IN_THE_WAY["file"], control=True)
    assert status == "blocked"
    assert any("No way out." in notice for notice in scene.state(task).notices)


ENDS = {
    "failed": "exit 3",
    "needs-input": "echo 'CONTROL: PAUSE REASON: Which?'",
    "blocked": "echo 'CONTROL: ESCALATE'",
}


@pytest.mark.parametrize("status", ENDS)
def test_a_run_that_did_not_complete_leaves_a_quick_handoff(scene: Scene, status: str) -> None:
    _, place, found = judged(scene, ENDS[status], control=True)
    assert found == status
    handoff = (place / "handoff.md").read_text()
    assert f"judged {status}" in handoff
    assert scene.json("check", str(place / "handoff.md"))["document"] == "quick"
    context = (place.parent.parent / "CONTEXT.md").read_text()
    assert f"judged {status}" in context.partition("Quick Handoff")[2] or "**Session:**" in context
    assert scene.json("check", str(place.parent.parent / "CONTEXT.md"))["errors"] == 0


def test_a_completed_run_leaves_none(scene: Scene) -> None:
    _, place, status = judged(scene, QUICK)
    assert (status, (place / "handoff.md").exists()) == ("completed", False)


def test_the_agents_own_handoff_is_kept_and_quoted(scene: Scene) -> None:
    (scene.path / "own").write_text(OWN)
    _, place, _ = judged(scene, 'cat own >"$(dirname "$OVERHAND_OUTPUT")/handoff.md"; exit 3')
    assert (place / "handoff.md").read_text() == OWN
    assert "My own words." in (place.parent.parent / "CONTEXT.md").read_text()


def test_one_that_is_far_too_long_is_set_aside(scene: Scene) -> None:
    (scene.path / "own").write_text(OWN + "word " * 6000)
    _, place, _ = judged(scene, 'cat own >"$(dirname "$OVERHAND_OUTPUT")/handoff.md"; exit 3')
    assert (place / "handoff-refused.md").exists()
    assert "judged failed" in (place / "handoff.md").read_text()


@pytest.mark.parametrize("made", ["mkdir", "mkfifo", "ln -s /etc/passwd"])
def test_something_else_lies_where_the_handoff_belongs(scene: Scene, made: str) -> None:
    _, place, status = judged(scene, f'{made} "$(dirname "$OVERHAND_OUTPUT")/handoff.md"; exit 3')
    assert status == "failed"
    path = place / "handoff.md"
    assert path.is_file()
    assert not path.is_symlink()
    assert "root:" not in path.read_text()


def test_the_phase_of_a_run_is_its_own_and_the_tenth_round_calls_for_a_person(scene: Scene) -> None:
    script = """$OVERHAND step --phase INITIATE; $OVERHAND step --phase IDENTIFY; $OVERHAND step --phase DOCUMENT
    $OVERHAND step --phase SOLVE; for n in 1 2 3 4 5 6 7 8 9 10 11; do
    $OVERHAND step --phase IDENTIFY --reason "round $n" || break; $OVERHAND step --phase DOCUMENT || break
    $OVERHAND step --phase SOLVE; done; exec sleep 1000"""
    scene.shell("worker", script)
    task = scene.delegate()
    scene.json("wait", task, code=1, timeout=300)  # it calls three dozen programs
    state = scene.state(task)
    assert (state.status, state.phase) == ("blocked", "ESCALATED")
    assert state.runs[0].cause == "exit"
    assert len(state.checkpoints) == 1
    assert sum(event.phase == "IDENTIFY" for event in state.phases) == 9
    assert any("calls for a person" in notice for notice in state.notices)
    assert os.path.exists(f"{scene.store.record(task)}/checkpoints/latest")
    scene.shell("worker", f"$OVERHAND step --phase SOLVE --json >refused.json; {QUICK}")
    scene.json("resume", task, "--wait")
    assert '"APPROVAL_REQUIRED"' in (scene.path / "refused.json").read_text()
    assert scene.json("step", task, "--phase", "SOLVE")["phase"] == "SOLVE"
