"""Nobody hands on more than they may do themselves, and no run permits anything."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from overhand.agents.permissions import Policy, ToolRequest, begin
from overhand.questions import record
from support.scene import until

if TYPE_CHECKING:
    from support.scene import Scene

RETURN = (
    'printf "# Task Complete: it\\n\\n**Status:** completed\\n\\n## Summary\\nIt is done.\\n" >"$OVERHAND_OUTPUT"; '
)


@pytest.mark.parametrize(
    ("parent", "words", "level"),
    [
        (("--kind", "research"), "", "read"),
        (("--kind", "research"), "--kind fix", "read"),
        ((), "", "work"),
        ((), "--read-only", "read"),
        ((), "--kind bold", "work"),  # though its kind is level full
    ],
)
def test_a_part_may_do_no_more_than_the_whole(scene: Scene, parent: tuple[str, ...], words: str, level: str) -> None:
    scene.project.config('[kinds.bold]\nlevel = "full"\n')
    scene.shell("part", RETURN)
    scene.shell("worker", f'$OVERHAND delegate "a part" --agent part {words} --wait >&2; {RETURN}')
    scene.judged(scene.delegate("the whole", *parent))
    child = next(task for task in scene.store.tasks() if task.agent == "part")
    assert child.level == level


def test_who_may_only_read_cannot_have_a_file_written(scene: Scene) -> None:
    scene.shell("part", RETURN)
    scene.shell(
        "worker",
        f'$OVERHAND delegate "a part" --agent part --deliverable a.txt --json >"$OVERHAND_WORKSPACE/said"; {RETURN}',
    )
    task = scene.delegate("the whole", "--kind", "review")
    scene.judged(task)
    said = json.loads(Path(scene.store.workspace(task), "said").read_text())["error"]
    assert said["code"] == "REFUSED"
    assert "is to write a.txt" in said["message"]
    assert "--read-only" in said["hint"]
    assert len(scene.ids()) == 1


def test_an_agent_that_may_only_read_is_refused_a_task_that_writes(scene: Scene) -> None:
    scene.shell("reader", RETURN, level="read")
    refused = scene.json("delegate", "Mend it", "--agent", "reader", "--deliverable", "a.txt", code=3)["error"]
    assert "agent reader may only read" in refused["message"]
    scene.json("delegate", "Mend it", "--agent", "reader", "--kind", "fix", code=3)
    assert scene.ids() == []
    for words in (("--read-only",), ("--kind", "research")):
        assert scene.json("delegate", "Look", "--agent", "reader", *words)["level"] == "read"
    scene.shell("odd", RETURN, level="some")
    assert "level must be one of" in scene.json("delegate", "Look", "--agent", "odd", code=2)["error"]["message"]


# permissions


def asks_for_permission(scene: Scene, task: str) -> int:
    run = scene.running(task).runs[-1].id
    reading = Policy("read", str(scene.path), str(scene.desk(task)))
    asked = begin(scene.store, task, run, ToolRequest("execute", "sh", "rm -rf x;"), reading, "test")
    assert not isinstance(asked, str)
    return asked.seq


def test_a_run_above_cannot_permit_what_a_part_asks_for(scene: Scene) -> None:
    scene.shell("part", "until test -e over; do sleep 0.05; done; " + RETURN)
    scene.shell(
        "worker",
        '$OVERHAND delegate "a part" --agent part; until test -e asked; do sleep 0.05; done; '
        f"$OVERHAND answer 2 'Allow once' --json >said; touch over; {RETURN}",
    )
    task = scene.delegate("the whole")
    part = until(lambda: next((s.id for s in scene.store.tasks() if s.agent == "part"), None), "the part")
    asks_for_permission(scene, part)
    (scene.path / "asked").touch()
    scene.judged(task)
    assert json.loads((scene.path / "said").read_text())["error"]["code"] == "APPROVAL_REQUIRED"
    assert scene.state(part).open_questions


def test_a_file_in_the_tasks_folder_permits_nothing(scene: Scene) -> None:
    scene.shell("worker", "until test -e over; do sleep 0.05; done; " + RETURN)
    task = scene.delegate("it")
    seq = asks_for_permission(scene, task)
    ipc = record.ipc_files(scene.store, task).shown()
    with open(f"{ipc}/.tmp", "w", encoding="utf-8") as file:
        file.write(json.dumps({"seq": seq, "timestamp": "2026-01-01T00:00:00Z", "answer": "Allow once"}))
    os.rename(f"{ipc}/.tmp", f"{ipc}/{seq:03d}.answer")
    (scene.path / "over").touch()
    scene.judged(task)
    assert [q.answered for q in scene.state(task).questions] == [None]
    assert any("is no answer" in e["text"] for e in scene.events(task, "notice"))
    scene.json("answer", task, "Reject")
    assert scene.state(task).questions[0].answer == "Reject"
