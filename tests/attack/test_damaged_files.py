"""One damaged file hurts one task: it says so, every other task goes on, and nothing ends in a traceback."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overhand.errors import OverhandError
from overhand.verbs import VERB_BY_NAME, Session
from support.scene import QUICK, until

if TYPE_CHECKING:
    from pathlib import Path

    from support.scene import Scene

BAD = {
    "no JSON": b"{x\n",
    "no object": b"[1]\n",
    "no run": b'{"e":"run.created"}\n',
    "no kind": b'{"e":["x"]}\n',
    "no number": b'{"e":"asked"}\n',
    "wrong number": b'{"e":"asked","seq":"1","options":3}\n',
    "wrong parent": b'{"e":"created","parent":{"task":1}}\n',
    "no UTF-8": b"\xff\xfe\x00\n",
    "out of range": b'{"e":"run.created","run":"sess_1_aaaaaa","timeout":1e400}\n',
    "nested": b'{"e":"created","settings":' + b'{"a":' * 5000 + b"1" + b"}" * 5001 + b"\n",
}
READING: list[tuple[str, dict[str, Any]]] = [
    ("list", {}),
    ("list", {"live": True}),
    ("list", {"cost": True}),
    ("list", {"resumable": True}),
    ("show", {"id": "TASK"}),
    ("show", {"id": "OTHER"}),
    ("show", {"id": "TASK", "output": True}),
    ("show", {"id": "TASK", "report": True}),
    ("status", {}),
    ("log", {"id": "TASK"}),
    ("doctor", {}),
]


@pytest.fixture
def damaged(scene: Scene) -> tuple[Scene, str, str]:
    """Two finished tasks, of which the first is to be damaged; nothing runs."""
    scene.shell("worker", QUICK)
    tasks = scene.delegate("first"), scene.delegate("second")
    for task in tasks:
        scene.judged(task)
    scene.kill_supervisor()
    return scene, *tasks


def read_everything(scene: Scene, task: str, other: str) -> None:
    """Every reading verb, in this process; an error has to be one of ours, and only the damaged task's own."""
    for verb, words in READING:
        given = {name: {"TASK": task, "OTHER": other}.get(value, value) for name, value in words.items()}
        try:
            reply = VERB_BY_NAME[verb].function()(Session(str(scene.path)), **given)
            rows = list(reply.stream) if reply.stream else [reply.payload]
        except OverhandError:
            if given.get("id") == task:
                continue
            raise
        text = json.dumps(rows)
        if verb == "list" and not words:
            assert {row["task_id"]: row["status"] for row in rows[0]["tasks"]}[other] == "completed"
        assert text


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_line_is_named_and_hurts_no_other_task(damaged: tuple[Scene, str, str], kind: str) -> None:
    scene, task, other = damaged
    log = scene.project.task_record(task) / "log.jsonl"
    count = len(log.read_bytes().splitlines())
    with log.open("ab") as file:
        file.write(BAD[kind])
    read_everything(scene, task, other)
    ((number, _),) = scene.state(task).damage
    assert number == count + 1
    assert any("is damaged" in text for text in scene.json("show", task)["notices"])
    (found,) = [one for one in scene.json("doctor", code=1)["findings"] if one["code"] == "damaged-log"]
    assert f"{task}/log.jsonl, line {number}" in found["what"]
    assert scene.json("show", other)["status"] == "completed"
    assert scene.json("delegate", "third", "--agent", "worker", "--wait")["status"] == "completed"
    assert "is damaged" in scene.json("send", task, "go on", code=3)["error"]["message"]


def test_light_verbs_read_a_bad_line_without_the_json_module(damaged: tuple[Scene, str, str]) -> None:
    """Python 3.11 has no exception to raise there as long as `json.decoder` is not imported."""
    scene, task, _ = damaged
    with (scene.project.task_record(task) / "log.jsonl").open("ab") as file:
        file.write(b'{"e" "x"}\n{,}\n')
    code = "import sys; from overhand.system import load_line; assert 'json' not in sys.modules\ntry: load_line('{x')\n"
    code += "except ValueError: print('fine')"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "fine\n"
    for verb in (("list",), ("show", task), ()):
        ran = subprocess.run(
            [sys.executable, "-m", "overhand", *verb],
            cwd=scene.path,
            env=scene.project.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ran.returncode, "mistake in Overhand" in ran.stderr) == (0, False), ran.stderr


def test_a_queued_task_with_a_bad_line_is_not_started_and_the_supervisor_goes_on(scene: Scene) -> None:
    """The line may have said that it runs already."""
    scene.shell("worker", QUICK)
    scene.json("list")
    bad = scene.accepted()
    with (scene.project.task_record(bad) / "log.jsonl").open("ab") as file:
        file.write(b'{"e":"run.created"}\n')
    good = scene.delegate()
    assert scene.judged(good).status == "completed"
    assert (scene.starts(bad), scene.state(bad).status) == (0, "failed")
    assert "line 3 is damaged" in scene.json("wait", bad, code=1)["summary"]


@pytest.mark.parametrize("which", ["its own", "--all"])
def test_a_run_whose_event_is_damaged_can_be_stopped(scene: Scene, which: str) -> None:
    scene.agent("worker", "touch:up", "until:go", "output")
    task = scene.delegate()
    scene.appears("up")
    scene.running(task)
    scene.kill_supervisor()
    log = scene.project.task_record(task) / "log.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"run.created"', b'["run.created"]'))
    assert scene.state(task).runs == []
    scene.json("stop", *([task] if which == "its own" else ["--all"]), code=None)
    assert not scene.agents_left()


def test_a_log_that_is_a_folder_hides_no_other_task(damaged: tuple[Scene, str, str]) -> None:
    scene, task, other = damaged
    log = scene.project.task_record(task) / "log.jsonl"
    log.unlink()
    log.mkdir()
    read_everything(scene, task, other)
    rows = {row["task_id"]: row for row in scene.json("list")["tasks"]}
    assert "cannot be read" in rows[task]["summary"]
    assert rows[other]["status"] == "completed"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
STATE_FILES = ("log.jsonl", "result.json", "contract.json", "inputs.json", "baseline.json", "OUTPUT.md", "HANDOFF.md")
RUN_FILES = ("judged.json", "spec.json", "usage", "exit", "pid", "shim", "report.json", "stdout", "facts.json")


@st.composite
def mutated(draw: st.DrawFn, raw: bytes) -> bytes:
    """Other bytes: cut off, with something in between, with a field of another shape, deeply nested, or anything."""
    how = draw(st.sampled_from(("cut", "bytes", "field", "line", "nested", "anything", "nothing")))
    at = len(raw) * draw(st.integers(0, 1000)) // 1000
    if how == "cut":
        return raw[:at]
    if how == "bytes":
        return raw[:at] + draw(st.binary(max_size=20)) + raw[at:]
    if how == "nested":
        return b"[" * 20_000 + raw[:at]
    if how == "anything":
        return draw(st.binary(max_size=60))
    if how == "nothing":
        return b""
    lines = raw.split(b"\n")
    index = (len(lines) - 1) * draw(st.integers(0, 1000)) // 1000
    try:
        value = json.loads(lines[index] if how == "line" else raw)
    except ValueError:
        try:
            value = json.loads(lines[index])
        except ValueError:
            value = {"e": "run.created", "run": "sess_1_aaaaaa"}
    if isinstance(value, dict) and value:
        value[sorted(value)[(len(value) - 1) * draw(st.integers(0, 1000)) // 1000]] = draw(JSON)
    line = json.dumps(value).encode()
    return b"\n".join([*lines[:index], line, *lines[index + 1 :]]) if how == "line" else line + b"\n"


@given(data=st.data())
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_no_mutation_of_a_file_ends_in_a_traceback(damaged: tuple[Scene, str, str], data: st.DataObject) -> None:
    scene, task, other = damaged
    folder = scene.project.task_record(task)
    kept = scene.path.parent / "kept"
    shutil.copytree(folder, kept, ignore=_special)
    place = _file(folder, scene, task, data)
    try:
        before = place.read_bytes() if place.exists() else b'{"a": 1}\n'
        place.write_bytes(data.draw(mutated(before), label=place.name))
        read_everything(scene, task, other)
    finally:  # a verb may have judged it again, or started a supervisor
        until(scene.is_quiet, "no process left")
        shutil.rmtree(folder)
        kept.rename(folder)


def _special(folder: str, names: list[str]) -> list[str]:
    """Pipes cannot be copied; nothing reads those of an ended run."""
    return [name for name in names if stat.S_ISFIFO(os.lstat(f"{folder}/{name}").st_mode)]


def _file(folder: Path, scene: Scene, task: str, data: st.DataObject) -> Path:
    name = data.draw(st.sampled_from((*STATE_FILES, *(f"run/{name}" for name in RUN_FILES))), label="file")
    return scene.place(task) / name[4:] if name.startswith("run/") else folder / name


def test_the_project_is_as_before(damaged: tuple[Scene, str, str]) -> None:
    """The scene that the mutations start from is sound."""
    scene, task, other = damaged
    read_everything(scene, task, other)
    until(lambda: scene.state(task).damage == (), "no damage")
