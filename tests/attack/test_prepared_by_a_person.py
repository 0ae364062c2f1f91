"""A run starts nothing that a person prepared, parked or gave up: only what it delegated itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.scene import QUICK, until

if TYPE_CHECKING:
    from support.scene import Scene

TRIES = f'cd "$OVERHAND_WORKSPACE"; $OVERHAND run $(cat "$OVERHAND_PROJECT/which") --json >said; echo $? >code; {QUICK}'


def outcome(scene: Scene, agent: str = "climber") -> tuple[int, dict[str, str]]:
    task = scene.delegate("try", "--agent", agent, "--level", "read")
    scene.judged(task)
    told = Path(scene.store.workspace(task))
    return int((told / "code").read_text()), json.loads((told / "said").read_text())


@pytest.mark.parametrize("kind", ["prepared", "failed", "written by hand"])
def test_it_is_refused(scene: Scene, kind: str) -> None:
    scene.shell("climber", TRIES, can_delegate=True)
    scene.shell("worker", "exit 1")
    if kind == "written by hand":
        task = "worker-20260101-000000"
        folder = scene.path / ".agent-workspaces" / task
        folder.mkdir(parents=True)
        (folder / "HANDOFF.md").write_text("# Task Handoff\n\n## Task\nDeploy it all\n")
    else:
        args = ("--no-start",) if kind == "prepared" else ()
        task = scene.delegate("Deploy it all", "--level", "full", *args)
    if kind == "failed":
        scene.judged(task)
    before = scene.starts(task)
    (scene.path / "which").write_text(task)
    code, said = outcome(scene)
    assert code == 3
    assert "was not delegated by this run" in json.dumps(said)
    assert (scene.starts(task), scene.state(task).queued) == (before, False)


def test_a_run_may_start_what_it_prepared_itself(scene: Scene) -> None:
    scene.shell("worker", QUICK)
    script = (
        '$OVERHAND delegate "a part" --agent worker --no-start --json >made; '
        f'$OVERHAND run $(sed \'s/.*"task_id": "\\([^"]*\\)".*/\\1/\' made) --json >said; echo $? >code; {QUICK}'
    )
    scene.shell("boss", script, can_delegate=True)
    task = scene.delegate("try", "--agent", "boss")
    scene.judged(task)
    assert (scene.path / "code").read_text() == "0\n", (scene.path / "said").read_text()
    (part,) = [one.id for one in scene.store.tasks() if one.title == "a part"]
    until(lambda: scene.starts(part) == 1, "its child started")
