"""Verbs that a run calls reach the supervisor by files: with the same output as if they had acted themselves."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.scene import QUICK, Scene
from support.warm import make_project

if TYPE_CHECKING:
    from collections.abc import Iterator

# The supervisor's own delegation for a CONTROL line acts directly: with its variable every verb does.
DIRECTLY = "export OVERHAND_CAUSE=none; "
COMMANDS = """
step 1 doing --json
step 1 done
step 9 done
step 1 sleeping
step error
step --phase CHECKPOINT --reason half
checkpoint create --reason half --json
checkpoint create --name twice
checkpoint create 99
checkpoint list
ask Which? --timeout 0s
ask Which? --timeout 0s --json --option a --closed
ask --again 7
ask --again 1 --timeout 0s
ask
ask Which? --closed
ask Which? --timeout soon
delegate prepared --agent child --no-start --json
delegate prepared --agent child --no-start
delegate
delegate x --agent nobody
delegate x --agent child --verify true
delegate x --agent child --level full --json
delegate x --agent child --handoff missing.md
delegate x --agent child --handoff given.md --no-start
delegate x --agent child --contract missing.json
delegate x --agent child --contract schema.json --no-start --json
delegate waited --agent child --wait
delegate waited --agent child --wait --json
delegate later --agent child --json
wait later --json
wait later
wait 77
send later more --json
wait later
send 1 hello
send prepared
stop later --json
stop 1
stop
run 1
run prepared-2
resume later
resume 1
answer 1 blue
answer later blue
answer 1
item
item new fix Broken
item approve noted.md#fix
item claim noted.md#fix
item done noted.md#fix --summary Done
item nothing
alert raise The disk is slow --what Everything --json
alert raise The disk is slow
alert resolve disk
alert list
plan run plan.yaml
plan run missing.yaml
plan check plan.yaml
clean
trust --yes
finish --status completed
finish --status strange --summary x
finish --data {
finish --summary Done. --json
finish --summary Done.
list --delegated
"""


def does(scene: Scene, *lines: str, agent: str = "worker", before: str = "") -> None:
    """The agent calls these verbs one after the other; what each printed and its exit status are kept."""
    calls = [f"$OVERHAND {line} >out.$n 2>err.$n; echo $? >code.$n; n=$((n+1)); " for line in lines]
    scene.shell(agent, f"{before}n=0; mkdir -p $OVERHAND_PROJECT/said; cd $OVERHAND_PROJECT/said; {''.join(calls)}"
                f"cd ..; test -s $OVERHAND_OUTPUT || {QUICK}")  # fmt: skip


def said(scene: Scene, count: int) -> list[tuple[str, ...]]:
    """Exit status, output and errors of each call; ids, times and numbers differ from run to run."""
    found = []
    for n in range(count):
        code, *texts = ((scene.path / "said" / f"{name}.{n}").read_text() for name in ("code", "out", "err"))
        plain = [text.replace(str(scene.path), "PROJECT").replace(scene.store.home, "RECORD") for text in texts]
        masked = [re.sub(r"sess_\w+|(?<=worker|.child)(-\d+){2,3}|[0-9a-f]{8,64}", "ID", text) for text in plain]
        masked = [re.sub(r"\d+([.,:]\d+)*", "N", text) for text in masked]
        found.append((code.strip(), *(re.sub(r"(N worker|N child): .*\n", "", text) for text in masked)))
    return found


def furnish(scene: Scene) -> None:
    scene.shell("child", QUICK)
    files = {
        "given.md": "# Task Handoff\n\n## Task\nGiven.\n",
        "schema.json": '{"type": "object"}',
        "noted.md": "# Notes\n\nThis is broken. #needs-fix\n",
        "plan.yaml": "task: A plan\nnodes:\n  a: {agent: child, task: One}\n",
    }
    (scene.path / "said").mkdir()
    for name, text in files.items():
        (scene.path / "said" / name).write_text(text)


@pytest.fixture
def scenes(tmp_path: Path) -> Iterator[tuple[Scene, Scene]]:
    projects = [make_project(tmp_path / name / "project") for name in ("one", "two")]
    try:
        yield Scene(projects[0]), Scene(projects[1])
    finally:
        for project in projects:
            project.cleanup()


def test_every_verb_prints_the_same_as_if_it_had_acted_itself(scenes: tuple[Scene, Scene]) -> None:
    lines = [line for line in COMMANDS.splitlines() if line]
    results = []
    for scene, before in zip(scenes, (DIRECTLY, ""), strict=True):
        furnish(scene)
        does(scene, *lines, before=before)
        task = scene.delegate("the whole", "--step", "one")
        scene.judged(task)
        results.append(said(scene, len(lines)))
        called = "".join(json.dumps(event) for t in scene.ids() for event in scene.events(t)).count('"call"')
        assert bool(called) == (before == ""), "who acted"
    different = [triple for triple in zip(lines, *results, strict=True) if triple[1] != triple[2]]
    assert not different
