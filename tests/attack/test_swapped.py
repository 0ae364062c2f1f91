"""An agent without a shield puts something else in the place of what Overhand is about to read or write.

A link leads to a folder of the user that looks like the one that it replaced. Nothing in there is changed, nothing of
it gets into the record or is shown, nothing waits for a FIFO or a device, and the task is judged with a word about it.
"""

from __future__ import annotations

import os
import subprocess
from itertools import chain
from typing import TYPE_CHECKING

import pytest

from overhand.supervisor import hand_to_supervisor
from support.scene import until
from support.soak import variants

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from overhand.testing.project import Ran
    from support.scene import Scene
    from support.tally import Tally

SECRET = "correct-horse-battery"  # noqa: S105 -- of a test
# What the folder of the user is like: a workspace, a desk and an `ipc` at once.
LOOKALIKE = r"""
look_like() {
  mkdir -p "$1/waiting" "$1/runs/$OVERHAND_RUN/waiting" "$1/ipc"
  for at in "$1" "$1/runs/$OVERHAND_RUN" "$1/ipc"; do
    printf '# Task Complete: x\n\n**Status:** completed\n\n## Summary\nSECRET\n' >"$at/OUTPUT.md"
    printf '# Context\n\n## Progress\nSECRET\n' >"$at/CONTEXT.md"
    printf '# Task Handoff\n\n## Task\nSECRET\n\n## Plan\n- [ ] SECRET\n' >"$at/HANDOFF.md"
    printf '{"status": "completed", "summary": "SECRET"}' >"$at/result.json"
    printf '{"text": "SECRET"}' >"$at/data.json"
    printf '{"input": 7654321, "model": "SECRET"}\n' >"$at/usage.jsonl"
    printf '# Handoff\nSECRET\n' >"$at/handoff.md"
    printf 'SECRET\n' >"$at/WORK.md"
    printf '# Decisions\n\nSECRET\n' >"$at/DECISIONS.md"
    printf '{"seq": 2, "question": "SECRET"}' >"$at/002.question"
    printf '{"seq": 1, "answer": "SECRET"}' >"$at/001.answer.old"
    mkfifo "$at/.001-1-abcd.bell"
  done
}
snapshot() { find "$1" -printf '%p %i %s %m %T@\n' | sort; }
swap() {  # PATH KIND
  target=$victim; test -d "$1" || target=$victim/${1##*/}
  test -e "$target" || printf SECRET >"$target"
  snapshot "$victim" >"$victim.before"
  rm -rf "$1"
  case $2 in
    link) ln -s "$target" "$1";;
    hard) ln "$target" "$1";;
    fifo) mkfifo "$1";;
    folder) mkdir "$1"; echo x >"$1/x";;
    file) echo x >"$1";;
    huge) truncate -s 64G "$1";;
    device) mknod "$1" c 1 5;;
  esac || touch "$victim.impossible"
}
""".replace("SECRET", SECRET)
# The first run swaps what its title names and ends short; the second one completes the task.
AGENT = (
    LOOKALIKE
    + r"""
W=$OVERHAND_WORKSPACE; D=${OVERHAND_OUTPUT%/*}
set -- $(sed -n '/^## Task/{n;p}' "$OVERHAND_HANDOFF" || cat "$victim.title")
victim=VICTIMS/$OVERHAND_TASK
if test -e "$victim.before"; then
  echo '{"status": "completed", "summary": "Done.", "data": null}'; exit
fi
look_like "$victim"
case $1 in
  ipc|runs|HANDOFF.md|WORK.md|OUTPUT.md|CONTEXT.md) place=$W/$1;;
  workspace) place=$W;;
  desk) place=$D;;
  desk/*) place=$D/${1#desk/};;
esac
case $2 in folder|file|fifo|huge|device) ;; *) test -e "$place" || : >"$place";; esac
swap "$place" "$2"
echo '{"status": "partial", "summary": "Half of it."}'
"""
)
FOLDERS = ["ipc", "runs", "desk", "desk/waiting", "workspace"]
FILES = [
    *("HANDOFF.md", "WORK.md", "OUTPUT.md", "CONTEXT.md"),
    *(f"desk/{name}" for name in ("OUTPUT.md", "result.json", "data.json", "CONTEXT.md", "usage.jsonl", "handoff.md")),
]
CASES = [
    *((place, kind) for place in FOLDERS for kind in ("link", "fifo", "file")),
    *((place, kind) for place in FILES for kind in ("link", "fifo", "folder", "huge", "device")),
    *((place, "hard") for place in ("HANDOFF.md", "CONTEXT.md")),  # only writing matters: it is no link
]
# What a person types afterwards, on tasks in which a link was put in the place of something.
VERBS: list[tuple[str, ...]] = [
    ("show", "ID"), ("show", "ID", "--output"), ("log", "ID"), ("step", "ID"), ("step", "ID", "1", "done"),
    ("checkpoint", "create", "ID", "--handoff", "full"), ("monitor", "ID", "--timeout", "100ms"), ("check", "ID"),
]  # fmt: skip


@pytest.fixture
def unshielded(scene: Scene) -> Scene:
    own = scene.project.config_home / "overhand"
    own.mkdir(parents=True, exist_ok=True)
    (own / "config.toml").write_text('shield = "off"\n')
    scene.project.config("[limits]\nmax_parallel = 12\n")
    return scene


def snapshot(folder: Path) -> str:
    shown = subprocess.run(
        ["find", str(folder), "-printf", "%p %i %s %m %T@\\n"], capture_output=True, text=True, check=True
    )
    return "".join(sorted(shown.stdout.splitlines(keepends=True)))


def assert_untouched(victim: Path) -> None:
    before = "".join(sorted((victim.parent / f"{victim.name}.before").read_text().splitlines(keepends=True)))
    assert snapshot(victim) == before, f"{victim} was changed"


def kept_bytes(folder: str) -> Iterator[tuple[str, bytes]]:
    for place, _, names in os.walk(folder):
        for name in names:
            path = f"{place}/{name}"
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    yield path, file.read()


def judged_cases(scene: Scene, victims: Path, cases: list[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Each case as a task that was judged; what this machine cannot make is left out."""
    victims.mkdir()
    scene.shell("worker", AGENT.replace("VICTIMS", str(victims)))
    scene.json("list")
    tasks = {case: scene.accepted(" ".join(case)) for case in cases}
    hand_to_supervisor(scene.store, tasks.values())
    for task in tasks.values():
        until(lambda task=task: scene.state(task).status, f"{task} judged")  # type: ignore[misc]
    return {case: task for case, task in tasks.items() if not (victims / f"{task}.impossible").exists()}


def assert_unread(case: tuple[str, str], folder: str) -> None:
    """Nothing of the user's file has come into the record."""
    for path, raw in kept_bytes(folder) if case[1] != "hard" else ():
        assert SECRET.encode() not in raw, f"{case}: {path}"


def test_what_a_run_left_is_judged_without_what_lies_elsewhere(unshielded: Scene, tmp_path: Path, tally: Tally) -> None:
    scene, victims = unshielded, tmp_path / "victims"
    tasks = judged_cases(scene, victims, CASES)
    tally("files and folders of a workspace swapped in a run", len(tasks))
    for case, task in tasks.items():
        state = scene.state(task)
        assert state.status == "partial", f"{case}: {state.status}, {state.summary}"
        assert len(state.runs) == 1, case
        assert_untouched(victims / task)
        assert_unread(case, scene.store.record(task))
        assert (state.runs[0].usage.input if state.runs[0].usage else 0) < 7654321, case
    for case in [case for case in tasks if case[0] in ("desk", "runs")]:
        told = [problem["code"] for problem in scene.json("show", tasks[case], code=None)["problems"]]
        assert "desk-unreadable" in told, f"{case}: {told}"
    assert scene.project.run("list").code == 0
    assert scene.project.run("doctor").code in (0, 1)
    for task in tasks.values():
        assert_untouched(victims / task)


def test_what_is_typed_afterwards_and_the_next_run_touch_nothing(
    unshielded: Scene, tmp_path: Path, tally: Tally
) -> None:
    scene, victims = unshielded, tmp_path / "victims"
    tasks = judged_cases(scene, victims, [(place, "link") for place in [*FOLDERS, *FILES]])
    tally("verbs after a link in a workspace", len(tasks) * (len(VERBS) + 1))
    ran: dict[tuple[str, str], list[Ran]] = {}
    for case, task in tasks.items():
        ran[case] = [scene.project.run(*(task if word == "ID" else word for word in verb)) for verb in VERBS]
        ran[case].append(scene.project.run("resume", task))
    for case, task in tasks.items():
        refused = "is a symbolic link" if case[0] == "workspace" else "HANDOFF.md" if case[0] == "HANDOFF.md" else ""
        until(lambda task=task: scene.state(task).is_idle, f"the end of {task}")  # type: ignore[misc]
        state = scene.state(task)
        if refused:
            assert state.status != "completed", case
            assert refused in f"{state.summary} {' '.join(one.err for one in ran[case])}", f"{case}: {state.summary}"
        else:
            assert state.status == "completed", f"{case}: {state.status}, {state.summary}"
        for one in ran[case]:
            assert SECRET not in one.out + one.err, case
            assert "Traceback" not in one.err, f"{case}: {one.err}"
        assert_untouched(victims / task)
        assert_unread(case, scene.store.record(task))
    cleaned = scene.project.run("clean", "--older", "0s", "--yes")
    assert cleaned.code == 0, cleaned.err
    for task in tasks.values():
        assert_untouched(victims / task)


# an agent that asks, and then swaps the folder of its questions before it is answered
ASKS = (
    LOOKALIKE
    + r"""
W=$OVERHAND_WORKSPACE; victim=VICTIMS/$OVERHAND_TASK; look_like "$victim"
set -- $(sed -n '/^## Task/{n;p}' "$OVERHAND_HANDOFF")
printf '{"seq": 1, "timestamp": "2026-01-01T00:00:00Z", "question": "Which?"}' >"$W/ipc/.new"
mv "$W/ipc/.new" "$W/ipc/001.question"
until test -e "$victim.asked"; do sleep 0.02; done
case $1 in answer) place=$W/ipc/001.answer; : >"$place";; ipc) place=$W/ipc;; workspace) place=$W;; esac
swap "$place" "$2"; touch "$victim.swapped"
until test -e "$victim.answered"; do sleep 0.02; done
echo '{"status": "completed", "summary": "Answered."}'
"""
)
ANSWERS = [
    *(("ipc", kind) for kind in ("link", "fifo", "file", "huge")), ("workspace", "link"), ("workspace", "file"),
    *(("answer", kind) for kind in ("link", "hard", "fifo", "folder", "device")),
]  # fmt: skip


def test_an_answer_is_written_nowhere_else(unshielded: Scene, tmp_path: Path, tally: Tally) -> None:
    scene, victims = unshielded, tmp_path / "victims"
    victims.mkdir()
    scene.shell("worker", ASKS.replace("VICTIMS", str(victims)))
    scene.json("list")
    tasks = {case: scene.accepted(" ".join(case)) for case in ANSWERS}
    tally("answers to a question whose folder was swapped", len(tasks))
    hand_to_supervisor(scene.store, tasks.values())
    for task in tasks.values():
        until(lambda task=task: scene.state(task).open_questions, f"the question of {task}")  # type: ignore[misc]
        (victims / f"{task}.asked").touch()
        until((victims / f"{task}.swapped").exists, "the swap")
    for case, task in tasks.items():
        ran = scene.project.run("answer", task, "the second")
        assert "Traceback" not in ran.err, case
        if case[0] == "workspace":
            assert "link" in ran.err or "no folder" in ran.err, f"{case}: {ran.out}{ran.err}"
        else:
            assert ran.code == 0, f"{case}: {ran.err}"
        assert scene.state(task).questions[0].answer == "the second", case
        assert_untouched(victims / task)
    for case, task in tasks.items():
        (victims / f"{task}.answered").touch()
        until(lambda task=task: scene.state(task).status, f"{task} judged")  # type: ignore[misc]
        assert_untouched(victims / task)
        assert_unread(case, scene.store.record(task))
        assert [q.text for q in scene.state(task).questions] == ["Which?"], "no question of the user's folder is taken"


# an agent that swaps that folder all the time
FLIPS = (
    LOOKALIKE
    + r"""
W=$OVERHAND_WORKSPACE; victim=VICTIMS/$OVERHAND_TASK; look_like "$victim"; snapshot "$victim" >"$victim.before"
for n in $(seq 12); do
  printf '{"seq": %d, "timestamp": "2026-01-01T00:00:00Z", "question": "Which of %d?"}' $n $n >"$W/ipc/.new"
  mv "$W/ipc/.new" "$W/ipc/$(printf %03d $n).question"
done
until test -e "$victim.asked"; do sleep 0.02; done
echo >"$victim.swapped"
while ! test -e "$victim.answered"; do
  mv "$W/ipc" "$W/real"; ln -s "$victim" "$W/ipc"; rm "$W/ipc"; mv "$W/real" "$W/ipc" || exit 1
done 2>/dev/null
echo '{"status": "completed", "summary": "Answered."}'
"""
)


def test_a_folder_that_is_swapped_all_the_time(unshielded: Scene, tmp_path: Path, tally: Tally) -> None:
    scene, victims = unshielded, tmp_path / "victims"
    victims.mkdir()
    scene.shell("worker", FLIPS.replace("VICTIMS", str(victims)))
    task = scene.delegate()
    until(lambda: len(scene.state(task).open_questions) == 12, "the questions")
    (victims / f"{task}.asked").touch()
    until((victims / f"{task}.swapped").exists, "the swaps")
    tally("answers into a folder that is swapped all the time", 12)
    for seq in range(1, 13):
        ran = scene.project.run("answer", task, str(seq), "the second")
        assert "Traceback" not in ran.err
        refused = any(why in ran.err for why in ("link", "no folder", "No such file"))  # the last in mid-swap
        assert ran.code == 0 or refused, ran.err
        assert_untouched(victims / task)
    (victims / f"{task}.answered").touch()
    scene.judged(task)
    assert [question.answer for question in scene.state(task).questions] == ["the second"] * 12
    assert_untouched(victims / task)


# what belongs to the whole project
OURS = {
    "agent-workspaces": ".agent-workspaces", "project": ".agent-workspaces/.project",
    "gitignore": ".agent-workspaces/.gitignore", "decisions": ".agent-workspaces/DECISIONS.md",
    "overhand": ".overhand", "agents": ".overhand/agents", "plans": ".overhand/plans",
    "config": ".overhand/config.toml", "worker": ".overhand/agents/worker.md",
}  # fmt: skip
DECIDES = (
    LOOKALIKE
    + r"""
victim=VICTIMS/$OVERHAND_TASK; look_like "$victim"; mkdir -p "$victim/agents" "$victim/plans" .overhand/plans
printf -- '---\nname: worker\noverhand:\n  driver: command\n  command: [touch, SECRET]\n---\n' >"$victim/worker.md"
cp "$victim/worker.md" "$victim/agents"
printf 'approval = "SECRET"\n' >"$victim/config.toml"
swap "PLACE" KIND
echo '{"status": "completed", "summary": "Done.", "decisions": [{"what": "This", "why": "because"}]}'
"""
)
PROJECT_VERBS: list[tuple[str, ...]] = [
    ("list",), ("list", "--prepared"), ("show", "1"), ("agents",), ("doctor",), ("init",), ("step", "1"),
    ("plan", "new", "Build a house", "--agents", "worker"), ("delegate", "more", "--agent", "worker", "--no-start"),
    ("run", "1"), ("stop", "--all"), ("clean", "--older", "0s", "--yes"),
]  # fmt: skip


@pytest.mark.parametrize("place", variants(OURS, every=3))
@pytest.mark.parametrize("kind", ["link", "fifo", "huge"])
def test_folders_of_ours_in_the_project(unshielded: Scene, tmp_path: Path, place: str, kind: str, tally: Tally) -> None:
    scene, victims = unshielded, tmp_path / "victims"
    victims.mkdir()
    script = DECIDES.replace("VICTIMS", str(victims)).replace("SECRET", SECRET)
    scene.shell("worker", script.replace("PLACE", f"$OVERHAND_PROJECT/{OURS[place]}").replace("KIND", kind))
    task = scene.delegate()
    tally("verbs after something of the project's was swapped", len(PROJECT_VERBS))
    assert scene.judged(task).status == "completed"
    scene.project._changed = False  # what the agent left is not trusted on the way
    for verb in PROJECT_VERBS:
        ran = scene.project.run(*verb)
        assert "Traceback" not in ran.err, f"{verb}: {ran.err}"
        assert SECRET not in ran.out + ran.err, f"{verb}: {ran.out}{ran.err}"
        assert_untouched(victims / task)
    for _, raw in chain(kept_bytes(scene.store.home), kept_bytes(str(scene.project.config_home))):
        assert SECRET.encode() not in raw
    assert_untouched(victims / task)
