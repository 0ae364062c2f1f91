"""Whatever a run leaves behind is judged, with the reason, and a run can always be stopped."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.scene import QUICK, until

if TYPE_CHECKING:
    from support.scene import Scene

BIG = "head -c 50000000 /dev/zero | tr '\\0' 'x'"
DEEP = """awk 'BEGIN { for (i = 0; i < 200000; i++) printf "[" }'"""
DEEPER = """awk 'BEGIN { for (i = 0; i < 200000; i++) printf "{\\"a\\":" }'"""
HEAD = "# Task Complete: x\\n\\n**Status:** completed\\n\\n## Summary\\n"
LEFT: dict[str, str] = {
    "NUL bytes": f"printf '{HEAD}a\\0b\\n\\n## Files Modified\\n- `a\\0b.py`\\n' >\"$OVERHAND_OUTPUT\"",
    "only NUL bytes": 'head -c 1000000 /dev/zero >"$OVERHAND_OUTPUT"',
    "NUL bytes in JSON": 'printf \'{"status":"completed","summary":"a\\\\u0000b","artifacts":'
    '[{"type":"file","path":"a\\\\u0000b","summary":"x"}]}\' >"$OVERHAND_RESULT"',
    "a surrogate": f"printf '{HEAD}a\\355\\240\\200b\\n\\n## Decisions Made\\n- **\\355\\240\\200**: x\\n' "
    '>"$OVERHAND_OUTPUT"',
    "a surrogate in JSON": 'printf \'{"status":"completed","summary":"\\\\ud800","data":{"\\\\udfff":"\\\\ud800"},'
    '"artifacts":[{"type":"file","path":"\\\\ud800","summary":"\\\\ud800"}]}\' >"$OVERHAND_RESULT"',
    "a surrogate on stdout": 'printf \'{"status":"completed","summary":"\\\\ud800","next_steps":["\\\\ud800"]}\'',
    "runs is a file": 'rm -r "$OVERHAND_WORKSPACE/runs"; echo x >"$OVERHAND_WORKSPACE/runs"',
    "its folder is a file": 'd=$(dirname "$OVERHAND_OUTPUT"); rm -r "$d"; echo x >"$d"',
    "no workspace": 'rm -r "$OVERHAND_WORKSPACE"',
    "the workspace is a file": 'rm -r "$OVERHAND_WORKSPACE"; echo x >"$OVERHAND_WORKSPACE"',
    "OUTPUT is a FIFO": 'mkfifo "$OVERHAND_OUTPUT"',
    "OUTPUT is a folder": 'mkdir "$OVERHAND_OUTPUT"',
    "CONTEXT is a folder": 'mkdir "$OVERHAND_WORKSPACE/CONTEXT.md" "$(dirname "$OVERHAND_OUTPUT")/CONTEXT.md"',
    "handoff is a FIFO": 'mkfifo "$(dirname "$OVERHAND_OUTPUT")/handoff.md"; rm "$OVERHAND_HANDOFF"; '
    'mkfifo "$OVERHAND_HANDOFF"',
    "deep JSON in OUTPUT": f"{{ printf '{HEAD}x\\n\\n## Data\\n```json\\n'; {DEEP}; }} >\"$OVERHAND_OUTPUT\"",
    "deep JSON": f'{DEEP} >"$OVERHAND_RESULT"; {DEEPER} >"$OVERHAND_DATA"; {DEEPER}',
    "deep lists": """awk 'BEGIN { for (i = 0; i < 3000; i++) { printf "%*s- > * x\\n", i, "" } }' """
    f">x; {{ printf '{HEAD}'; cat x; }} >\"$OVERHAND_OUTPUT\"; rm x",
    "50 MB": f'{BIG} >"$OVERHAND_OUTPUT"; {BIG} >"$OVERHAND_RESULT"; {BIG} >"$OVERHAND_DATA"; {BIG}; {BIG} >&2',
    "50 MB of summary": f"{{ printf '{HEAD}'; {BIG}; }} >\"$OVERHAND_OUTPUT\"",
    "50 MB of JSON": f'{{ printf \'{{"status":"completed","summary":"\'; {BIG}; printf \'"}}\'; }} >"$OVERHAND_RESULT"',
    "50 MB of lines": 'yes "- `a.py` — x" | head -c 50000000 >"$OVERHAND_OUTPUT"; yes | head -c 50000000',
    "50 MB of messages": 'yes \'{"a": 1}\' | head -c 50000000 >"$OVERHAND_USAGE"',
    "a name without end": f"printf '{HEAD}x\\n\\n## Files Modified\\n- `%s`\\n' "
    "$(head -c 100000 /dev/zero | tr '\\0' 'a') >\"$OVERHAND_OUTPUT\"",
    "strange exit": "exit 255",
    "questions that are none": 'cd "$OVERHAND_WORKSPACE/ipc"; mkfifo 001.question; mkdir 002.question; '
    f"{DEEP} >003.question; printf '\\355\\240\\200\\0' >004.question",
}
ENDLESS = ("50 MB", "50 MB of lines")  # to print


def says_no_traceback(scene: Scene) -> None:
    log = Path(f"{scene.store.own}/log")
    assert "Traceback" not in (log.read_text() if log.exists() else "")


@pytest.mark.parametrize("name", LEFT)
def test_what_a_run_leaves_is_judged_with_the_reason(scene: Scene, name: str) -> None:
    scene.shell("worker", f'cd "$OVERHAND_PROJECT"; {LEFT[name]}')
    task = scene.delegate("make it", "--set=shield=off", "--deliverable", "made.txt")
    found = scene.judged(task)
    assert found.status == "failed"
    shown = scene.json("show", task)
    assert shown["summary"]
    assert any(one["level"] == "error" for one in shown["problems"])
    assert scene.project.run("show", task).code == 0
    assert scene.project.run("wait", task).code == 1
    if name not in ENDLESS:
        scene.project.run("log", task, "-o", check=True)
    says_no_traceback(scene)
    scene.shell("worker", QUICK)
    again = scene.json("resume", task, "--wait", code=None)  # it has no HANDOFF.md where there is no workspace
    assert (again["status"], bool(again["summary"])) in [("failed", True), ("rejected", True)]
    says_no_traceback(scene)


WAITS = "touch there; until [ -e go ]; do sleep 0.05; done; "


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("how", [fifo, folder, Path.unlink])
@pytest.mark.parametrize("name", ["stdout", "stderr", "prompt.md"])
def test_what_is_swapped_in_the_record_is_judged(scene: Scene, name: str, how: object) -> None:
    scene.shell("worker", WAITS + QUICK)
    task = scene.delegate("make it", "--set=shield=off")
    until((scene.path / "there").exists, "the agent")
    assert callable(how)
    how(scene.place(task) / name)
    (scene.path / "go").touch()
    assert scene.judged(task).status == "completed"
    scene.json("show", task)
    scene.project.run("log", task, "-o", check=True)
    says_no_traceback(scene)


@pytest.mark.parametrize("name", ["runs is a file", "the workspace is a file", "no workspace", "OUTPUT is a FIFO"])
def test_a_run_that_damages_its_folders_can_be_stopped(scene: Scene, name: str) -> None:
    scene.shell("worker", f'cd "$OVERHAND_PROJECT"; {LEFT[name]}; touch there; while :; do sleep 0.05; done')
    task = scene.delegate("make it", "--set=shield=off")
    until((scene.path / "there").exists, "the agent")
    scene.json("stop", task)
    assert scene.judged(task).status == "cancelled"
    says_no_traceback(scene)


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_run_whose_output_is_a_fifo_can_be_stopped(scene: Scene, name: str) -> None:
    scene.shell("worker", "touch there; while :; do sleep 0.05; done")
    task = scene.delegate("make it", "--set=shield=off")
    until((scene.path / "there").exists, "the agent")
    fifo(scene.place(task) / name)
    scene.json("stop", task)
    assert scene.judged(task).status == "cancelled"
    says_no_traceback(scene)
