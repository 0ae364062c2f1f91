"""A run that waits for an answer: known to be blocked, parked without a process, going on once it is answered."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from overhand.questions import WaitingMark, leave_waiting_mark
from overhand.questions import blocked as parking
from overhand.questions.record import record_answer
from overhand.record import LOG_FILE, fold
from overhand.supervisor.live_runs import _is_touched
from overhand.system import Bell, Beneath, dump_line, ring_bells
from supervisor.parts import Watched
from support.scene import QUICK, kill, lines, until
from support.soak import lots, was_killed

if TYPE_CHECKING:
    from overhand.record import Question
    from support.scene import Scene

SOON = '[limits]\nanswer_wait = "0.3s"\nstop_grace = "0.2s"\n'
LATER = '[limits]\nanswer_wait = "10m"\n'
ASK = f'$OVERHAND ask "Which one?" --step "Sort it" >"$OVERHAND_PROJECT/said" && {QUICK}'
KILLED_AT = Path(__file__).with_name("answered_at.py")


def asked(scene: Scene, task: str, count: int = 1) -> list[Question]:
    """The open questions, once there are so many."""
    until(lambda: len(scene.state(task).open_questions) >= count, f"{count} open questions of {task}")
    return scene.state(task).open_questions


def blocked(scene: Scene, task: str) -> None:
    """Until the supervisor knows that the newest run is blocked."""
    until(lambda: (runs := scene.state(task).runs) and runs[-1].waiting is not None, f"{task} blocked")


def parked(scene: Scene, task: str) -> None:
    """Ended for want of an answer, judged, no process left."""
    state = scene.judged(task)
    assert (state.status, state.runs[-1].cause) == ("needs-input", "answer-timeout")
    until(lambda: not scene.agents_left(), "no agent left")


def completed(scene: Scene, task: str, runs: int) -> dict[str, Any]:
    """Judged completed after so many runs, each of which began once."""
    until(lambda: scene.state(task).status == "completed", f"{task} completed")
    assert len(scene.state(task).runs) == runs == scene.starts(task)
    assert len(scene.events(task, "run.created")) == runs
    shown: dict[str, Any] = scene.json("show", task)
    return shown


def test_a_parked_run_leaves_no_process_and_the_answer_goes_on_with_it(scene: Scene) -> None:
    scene.project.config(SOON)
    scene.shell("worker", ASK)
    task = scene.delegate("sort", "--step", "Sort it")
    shown = scene.json("wait", task, code=1)
    assert (shown["status"], shown["cause"], shown["headline"]) == ("needs-input", "answer-timeout", "needs you")
    parked(scene, task)
    said = scene.json("answer", task, "by date")
    assert (said["resumed"], said["left"], said["seq"]) == (True, 0, 1)
    shown = scene.json("wait", task)
    assert (scene.path / "said").read_text() == "by date\n", "the same question was not put again"
    assert [(q["seq"], q["answer"]) for q in shown["questions"]] == [(1, "by date")]
    assert completed(scene, task, 2)["questions"] == shown["questions"]


def test_a_parked_run_and_one_that_waits_hold_no_slot(scene: Scene) -> None:
    scene.project.config('[limits]\nanswer_wait = "0"\nmax_parallel = 1\n')
    scene.shell("worker", ASK)
    scene.shell("quick", QUICK)
    scene.shell("writer", 'echo "Which?" >"$OVERHAND_WORKSPACE/ipc/001.question"; read line <gate')
    os.mkfifo(scene.path / "gate")
    first = scene.delegate("ask")
    asked(scene, first)
    second = scene.delegate("write", "--agent", "writer")
    asked(scene, second)
    third = scene.delegate("be quick", "--agent", "quick")
    assert scene.judged(third).status == "completed"
    assert scene.state(first).status is scene.state(second).status is None, "answer_wait = 0 waits for ever"
    scene.json("answer", first, "this")
    assert completed(scene, first, 1)
    scene.json("stop", second)


def an_hour_ago(scene: Scene, task: str) -> None:
    """As if everything that is recorded of a task had happened an hour ago; nobody may be writing."""
    path = Path(scene.store.record(task)) / LOG_FILE
    path.write_text("".join(f"{dump_line({**event, 'mono': event['mono'] - 3600})}\n" for event in lines(path)))


def test_the_deadline_stands_still_while_it_is_blocked(scene: Scene) -> None:
    scene.project.config('[limits]\nanswer_wait = "0"\n')
    scene.shell("worker", ASK)
    scene.shell("sleeper", "exec sleep 600")
    task = scene.delegate("sort", "--timeout", "10m")
    # a second run of the same age is past its deadline: so would this one be
    other = scene.delegate("sleep", "--agent", "sleeper", "--timeout", "10m")
    blocked(scene, task)
    scene.running(other)
    scene.kill_supervisor()
    an_hour_ago(scene, task)
    an_hour_ago(scene, other)
    scene.json("list")
    assert scene.judged(other).runs[0].cause == "timeout"
    assert scene.state(task).status is None
    scene.json("answer", task, "this")
    assert completed(scene, task, 1)
    assert scene.state(task).runs[0].waited > 3500


def test_who_is_not_seen_to_go_on_has_waited_until_its_end() -> None:
    begun = [{"e": "run.created", "run": "r", "mono": 0.0}, {"e": "run.started", "run": "r", "mono": 1.0}]
    blocked = {"e": "run.waiting", "run": "r", "mono": 2.0}
    (run,) = fold("worker-1", [*begun, blocked, {"e": "run.ended", "run": "r", "mono": 62.0}]).runs
    assert (run.state, run.waited) == ("ended", 60.0)


def test_an_agent_that_works_on_is_not_ended_for_an_open_question(scene: Scene) -> None:
    scene.project.config('[limits]\nanswer_wait = "0.1s"\n')
    scene.shell(
        "worker",
        'echo "Which?" >"$OVERHAND_WORKSPACE/ipc/001.question"; while [ ! -e go ]; do echo on; sleep 0.2; done; exit 3',
    )
    scene.shell("silent", 'echo "Which?" >"$OVERHAND_WORKSPACE/ipc/001.question"; exec sleep 600')
    task = scene.delegate("go on")
    other = scene.delegate("be silent", "--agent", "silent")
    asked(scene, task)
    parked_one = scene.judged(other)  # the silent one asked later, and is parked by now
    assert (parked_one.status, parked_one.runs[0].cause) == ("needs-input", "answer-timeout")
    assert scene.events(task, "run.waiting") == []
    (scene.path / "go").touch()
    state = scene.judged(task)
    assert (state.runs[0].cause, state.status) == ("exit", "needs-input"), "its question is open"


def test_ask_returns_after_max_block_and_again_keeps_it_blocked(scene: Scene) -> None:
    scene.project.config('[limits]\nanswer_wait = "10m"\nmax_block = "0.2s"\n')
    scene.shell(
        "worker",
        '$OVERHAND ask "Which?" --json >first; echo "$?" >>first; touch between; '
        f"while [ ! -e go ]; do sleep 0.05; done; $OVERHAND ask --again 1 --timeout 60s >said && {QUICK}",
    )
    task = scene.delegate()
    scene.appears("between")
    first = (scene.path / "first").read_text()
    assert first.endswith("\n124\n")
    assert '"seq":1' in first.replace(" ", "")
    assert "overhand ask --again 1" in first
    blocked(scene, task)
    assert scene.events(task, "run.going") == [], "told to call again: it still counts as blocked"
    (scene.path / "go").touch()
    until(lambda: list((scene.place(task) / "waiting").glob("ask-1-*")), "the second call")
    scene.json("answer", task, "that")
    assert completed(scene, task, 1)
    assert (scene.path / "said").read_text() == "that\n"


# races


def test_a_call_that_just_says_to_call_again_counts_as_blocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves its mark and lets go of its lock after somebody has looked into the folder and before the next look."""
    desk, really = Beneath(str(tmp_path)), Beneath.is_locked
    call = WaitingMark(desk, 1)
    call.__enter__()

    def meanwhile(marks: Beneath, name: str) -> bool:
        monkeypatch.undo()
        leave_waiting_mark(desk, 1)
        call.__exit__()
        return really(marks, name)

    monkeypatch.setattr(Beneath, "is_locked", meanwhile)
    assert parking.is_asking((desk,), fold("worker-1", [{"e": "asked", "seq": 1}]))
    assert not parking.is_asking((desk,), fold("worker-1", [])), "nothing is open"


def test_an_answer_while_the_supervisor_is_stopped_before_it_parks(scene: Scene) -> None:
    scene.project.config('[limits]\nanswer_wait = "1s"\nstop_grace = "0.2s"\n')
    scene.shell("worker", ASK)
    for _ in range(10):
        task = scene.delegate()
        blocked(scene, task)
        with scene.supervisor_standing_still(task):
            if (scene.place(task) / "stopped").exists():
                continue  # it was quicker than we were
            assert scene.json("answer", task, "now")["resumed"] is False
            waiting = scene.state(task).runs[0].waiting or 0.0
            until(lambda since=waiting: time.monotonic() > since + 1, "when it would be parked")  # type: ignore[misc]
            break
    until(lambda: scene.state(task).status == "completed", "completed")
    assert (scene.path / "said").read_text() == "now\n"
    assert len(scene.events(task, "answered")) == len(scene.state(task).runs) == 1


@pytest.mark.parametrize("when", ["before the verdict", "while it is judged"])
def test_an_answer_between_the_end_and_the_verdict(scene: Scene, when: str) -> None:
    """A check that waits holds the verdict up; with a STOP of the supervisor nothing is gathered yet either."""
    scene.project.config(SOON)
    scene.shell("worker", f"until test -e go; do sleep 0.02; done; {ASK}")
    os.mkfifo(scene.path / "gate")
    check = "test -e judged || { touch checking; cat gate; touch judged; }"
    task = scene.delegate("sort", "--verify", f"test $(ls -a $OVERHAND_CHECK | wc -l) -gt 0; {check}")
    (scene.path / "gate").write_text("the check on the base\n")
    (scene.appears("judged")).unlink()
    (scene.path / "checking").unlink()
    (scene.path / "go").touch()
    if when == "before the verdict":
        blocked(scene, task)
        place = scene.place(task)
        until((place / "stopped").exists, "it is being parked")
        with scene.supervisor_standing_still(task):
            assert scene.state(task).status is None
            assert scene.json("answer", task, "this")["resumed"] is False
        (scene.path / "gate").write_text("go\n")
    else:
        scene.appears("checking")
        assert scene.state(task).runs[0].has_ended
        assert scene.json("answer", task, "this")["resumed"] is False
        (scene.path / "gate").write_text("go\n")
    until(lambda: scene.state(task).status == "completed", "completed")
    assert scene.starts(task) == 2 or when == "before the verdict", "it may have heard the answer before it ended"
    assert (scene.path / "said").read_text() == "this\n"
    assert len(scene.events(task, "answered")) == 1


def test_two_people_answer_at_once(scene: Scene) -> None:
    scene.project.config(SOON)
    scene.shell("worker", ASK)
    task = scene.delegate()
    scene.judged(task)
    callers = [scene.project.start("answer", task, f"number {n}") for n in range(8)]
    ended = [(caller.communicate(), caller.returncode) for caller in callers]
    assert sorted(code for _, code in ended) == [0] + [3] * 7
    (answer,) = scene.events(task, "answered")
    losers = [err for (_, err), code in ended if code == 3]
    assert all(f"answered already: {answer['answer']}" in err or "no open question" in err for err in losers), losers
    assert completed(scene, task, 2)
    assert (scene.path / "said").read_text() == f"{answer['answer']}\n"


@pytest.mark.parametrize("state", ["parked", "waiting"])
@pytest.mark.parametrize("point", lots(8))
def test_kill_9_of_answer_at_every_write(scene: Scene, state: str, point: int) -> None:
    """Not recorded: it can be given again. Recorded: it arrives, whatever else was not written."""
    scene.project.config(SOON if state == "parked" else LATER)
    scene.shell("worker", ASK)
    task = scene.delegate()
    scene.judged(task) if state == "parked" else blocked(scene, task)
    scene.project.run("version")
    import subprocess

    done = subprocess.run(
        [sys.executable, str(KILLED_AT), str(scene.path), task, str(point)],
        cwd=scene.path,
        env=scene.project.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    was_killed(done.returncode)
    if not scene.events(task, "answered"):
        scene.json("answer", task, "killed")
    scene.json("list")
    completed(scene, task, 2 if state == "parked" else 1)
    assert (scene.path / "said").read_text() == "killed\n"
    assert len(scene.events(task, "answered")) == 1
    assert (Path(scene.store.workspace(task)) / "ipc/001.answer").exists()


def test_an_answer_that_was_half_written_can_be_given_again(scene: Scene) -> None:
    """The answer and the next run are one append: what a kill between the two events left counts as no answer."""
    scene.project.config(SOON)
    scene.shell("worker", ASK)
    task = scene.delegate()
    parked(scene, task)
    scene.kill_supervisor()
    path = Path(scene.store.record(task)) / LOG_FILE
    before = path.read_bytes()
    with scene.store.lock(task, {"kind": "user", "via": "test"}) as locked:
        assert record_answer(locked, locked.task.open_questions[0], "lost", "test")
    answered, accepted = path.read_bytes()[len(before) :].splitlines(keepends=True)
    path.write_bytes(before + answered + accepted[: len(accepted) // 2])
    assert [q["answer"] for q in scene.json("show", task)["questions"]] == [None]
    assert scene.json("answer", task, "this")["resumed"]
    completed(scene, task, 2)
    assert (scene.path / "said").read_text() == "this\n"


@pytest.mark.parametrize("state", ["parked", "waiting"])
def test_an_answer_without_a_supervisor(scene: Scene, state: str) -> None:
    scene.project.config(SOON if state == "parked" else LATER)
    scene.shell("worker", ASK)
    task = scene.delegate()
    scene.judged(task) if state == "parked" else blocked(scene, task)
    scene.kill_supervisor()
    scene.json("answer", task, "this")
    completed(scene, task, 2 if state == "parked" else 1)
    assert (scene.path / "said").read_text() == "this\n"


def test_an_answer_while_the_supervisor_is_stopped_is_recorded(scene: Scene) -> None:
    scene.project.config(SOON)
    scene.shell("worker", ASK)
    task = scene.delegate()
    parked(scene, task)
    supervisor = scene.supervisor()
    assert supervisor
    os.kill(supervisor, signal.SIGSTOP)
    try:
        ran = scene.project.run("answer", task, "this")
        assert "is stopped" in ran.err
        recorded = len(scene.events(task, "answered"))
        assert ran.code == (0 if recorded else 3), "it may have been stopped while it held the task's lock"
    finally:
        os.kill(supervisor, signal.SIGCONT)
    scene.json("show" if recorded else "answer", task, *([] if recorded else ["this"]))
    completed(scene, task, 2)


def test_a_killed_supervisor_is_followed_by_one_that_parks(scene: Scene) -> None:
    scene.project.config('[limits]\nanswer_wait = "2s"\nstop_grace = "0.2s"\n')
    scene.shell("worker", ASK)
    task = scene.delegate()
    blocked(scene, task)
    scene.kill_supervisor()
    scene.json("list")
    parked(scene, task)
    scene.json("answer", task, "this")
    completed(scene, task, 2)


def test_kill_9_of_ask_ends_the_blocking(scene: Scene) -> None:
    scene.project.config(LATER)
    scene.shell(
        "worker",
        f'$OVERHAND ask "Which?" & echo $! >asker.new; mv asker.new asker; wait; touch gone; cat gate; {QUICK}',
    )
    os.mkfifo(scene.path / "gate")
    task = scene.delegate()
    blocked(scene, task)
    kill(int(scene.appears("asker").read_text()))
    scene.appears("gone")
    until(lambda: scene.events(task, "run.going"), "it is known to go on")
    scene.json("answer", task, "too late, and still recorded")
    (scene.path / "gate").write_text("go\n")
    completed(scene, task, 1)
    assert not list((Path(scene.store.workspace(task)) / "ipc").glob(".*.bell")), "the bell of the killed one is gone"


def test_an_answer_by_hand_does_not_go_on_with_a_parked_task(scene: Scene) -> None:
    scene.project.config(SOON)
    scene.shell("worker", ASK)
    task = scene.delegate()
    parked(scene, task)
    (Path(scene.store.workspace(task)) / "ipc/001.answer").write_text('{"seq":1,"answer":"by hand"}')
    assert any("is no answer" in text for text in scene.json("show", task)["notices"])
    assert scene.state(task).status == "needs-input"
    scene.json("answer", task, "by the verb")
    completed(scene, task, 2)
    assert (scene.path / "said").read_text() == "by the verb\n"


# children


def test_a_parent_waits_over_its_childs_parking(scene: Scene) -> None:
    scene.project.config('[limits]\nanswer_wait = "0.3s"\nstop_grace = "0.2s"\nmax_parallel = 1\n')
    scene.shell("child", ASK)
    scene.shell("parent", f"$OVERHAND delegate below --agent child --wait --json >below; echo $? >code; {QUICK}")
    top = scene.delegate("above", "--agent", "parent", "--timeout", "20s")
    below = until(lambda: next((t for t in scene.ids() if t != top), None), "the child")
    scene.judged(below)
    blocked(scene, top)
    assert scene.state(top).status is None, "the parent waits on"
    (one,) = scene.json("answer")["questions"]
    assert (one["task_id"], one["path"]) == (below, ["user", "parent", "child"])
    assert scene.json("answer", below, "this")["resumed"]
    completed(scene, top, 1)
    assert (scene.path / "code").read_text() == "0\n"
    assert scene.state(below).status == "completed"


def test_a_return_that_needs_input_reaches_the_parent(scene: Scene) -> None:
    scene.agent("child", "output:status=needs-input,summary=Which one?")
    scene.shell(
        "parent",
        "$OVERHAND delegate below --agent child --wait --json >below; echo $? >code; "
        f"$OVERHAND answer 2 this --no-resume >given && {QUICK}",
    )
    top = scene.delegate("above", "--agent", "parent")
    completed(scene, top, 1)
    assert (scene.path / "code").read_text() == "1\n"
    below = next(t for t in scene.ids() if t != top)
    (answer,) = scene.events(below, "answered")
    assert (answer["answer"], answer["by"]["kind"]) == ("this", "run")


def test_the_path_of_a_childs_child_is_shown_and_answered_at_the_top(scene: Scene) -> None:
    scene.project.config(LATER)
    scene.shell("third", ASK)
    scene.shell("second", f"$OVERHAND delegate three --agent third --wait >/dev/null && {QUICK}")
    scene.shell("first", f"$OVERHAND delegate two --agent second --wait >/dev/null && {QUICK}")
    top = scene.delegate("one", "--agent", "first")
    lowest = until(lambda: next((s.id for s in scene.store.tasks() if s.depth == 3), None), "the third")
    asked(scene, lowest)
    text = scene.project.run("answer").out
    assert "user → first → second → third" in text
    until(lambda: scene.state(top).runs[0].waiting is not None, "the waiting has reached the top")
    scene.json("answer", lowest, "this")
    completed(scene, top, 1)
    assert {s.status for s in scene.store.tasks()} == {"completed"}


def test_a_bell_that_is_being_hung_is_not_taken_away_by_one_who_rings(tmp_path: Path) -> None:
    """Whoever rings takes away bells to which nobody listens; one who is about to listen must find its own."""
    done = threading.Event()

    def ring() -> None:
        while not done.is_set():
            ring_bells(str(tmp_path), ".001-")

    ringer = threading.Thread(target=ring)
    ringer.start()
    try:
        for _ in range(300):
            with Bell() as bell:
                fd = bell.hang(str(tmp_path), ".001-")
                assert select.select([fd], [], [], 40)[0], "it was not rung"
    finally:
        done.set()
        ringer.join()


def test_what_was_made_in_a_folder_before_it_was_watched_is_found(scene: Scene) -> None:
    """A run makes its folders when it needs them: whoever asks meanwhile must not be missed."""
    scene.agent("worker", "touch:up", "until:go", "output")
    task = scene.delegate()
    scene.appears("up")
    current = scene.running(task).current_run
    assert current
    scene.kill_supervisor()  # it makes files of its own there
    place = Path(scene.store.desk(task, current.id))
    watched = Watched(scene.store)
    watch = watched.keep(scene.state(task), current)
    assert (_is_touched(watch), _is_touched(watch)) == (True, False)
    (place / "waiting").mkdir()
    assert watched.stirred() == [task]
    assert (_is_touched(watch), _is_touched(watch)) == (True, False)
    (place / "waiting/ask-1").touch()
    assert watched.stirred() == []
    watched.keep(scene.state(task), current)
    assert _is_touched(watch)
    watched.keep(scene.state(task), current)
    assert not _is_touched(watch)
    watched.runs.drop(task)
    (scene.path / "go").touch()
    scene.json("wait", task)
