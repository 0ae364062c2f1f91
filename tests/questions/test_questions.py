"""Questions as files, in every shape an agent may leave them: surfaced, numbered, answered once, never fatal."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from overhand.questions import files, recorded_answer
from overhand.record import Judged, RunEnded
from support.scene import QUICK, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.scene import Scene

    Asker = tuple[Scene, str, Path]

STAMP = "2026-11-15T10:00:00Z"
LATER = '[limits]\nanswer_wait = "10m"\n'


@pytest.fixture
def asker(scene: Scene) -> Iterator[Asker]:
    """An agent that does nothing but live; the test writes into its `ipc/` in its place."""
    scene.project.config(LATER)
    scene.agent("worker", "touch:up", "until:go", "output")
    task = scene.delegate()
    scene.appears("up")
    scene.running(task)
    yield scene, task, Path(scene.store.workspace(task)) / "ipc"
    (scene.path / "go").touch()
    scene.judged(task)


def put(ipc: Path, name: str, text: str | bytes, *, is_old: bool = False) -> None:
    """By rename, as an agent should; what is old is no longer under its writer's hands."""
    raw = text if isinstance(text, bytes) else text.encode()
    (ipc / f".{name[:20]}.new").write_bytes(raw)
    if is_old:
        settled(ipc / f".{name[:20]}.new")
    os.rename(ipc / f".{name[:20]}.new", ipc / name)


def settled(path: Path) -> None:
    """As if it had been written so long ago that its writer has ended."""
    at = time.time() - files.SETTLE
    os.utime(path, (at, at), follow_symlinks=False)


def question(seq: int, text: str, **more: object) -> str:
    return json.dumps({"seq": seq, "timestamp": STAMP, "question": text, **more})


def asked(scene: Scene, task: str, count: int) -> list[str]:
    until(lambda: len(scene.state(task).questions) >= count, f"{count} questions of {task}")
    return [q.text for q in scene.state(task).questions]


def notice(scene: Scene, task: str, words: str) -> str:
    def look() -> str | None:
        return next((n for n in scene.state(task).notices if words in n), None)

    return until(look, f"a notice with {words!r}; there are {scene.state(task).notices}")


def finishes(scene: Scene, task: str) -> dict[str, Any]:
    """Whatever was asked, the run goes on to its end."""
    (scene.path / "go").touch()
    until(lambda: scene.state(task).status, f"{task} judged")
    assert "Traceback" not in (Path(scene.store.own) / "log").read_text()
    shown: dict[str, Any] = scene.json("show", task)
    return shown


def test_several_are_answered_in_any_order_and_once_each(asker: Asker) -> None:
    scene, task, ipc = asker
    for seq in (3, 1, 2):
        put(ipc, f"{seq:03d}.question", question(seq, f"number {seq}", options=["a", "b"], checklist_item="Sort"))
    asked(scene, task, 3)
    (row,) = scene.json("list")["tasks"]
    assert (row["headline"], row["run_state"]) == ("needs you", "waiting")
    for seq, left in ((2, 2), (3, 1), (1, 0)):
        assert scene.json("answer", task, str(seq), f"to {seq}")["left"] == left
        found = json.loads((ipc / f"{seq:03d}.answer").read_text())
        assert (found["seq"], found["answer"]) == (seq, f"to {seq}")
        assert "answered already" in scene.json("answer", task, str(seq), "again", code=3)["error"]["message"]
    shown = finishes(scene, task)
    assert {q["seq"]: q["answer"] for q in shown["questions"]} == {1: "to 1", 2: "to 2", 3: "to 3"}
    assert shown["status"] == "completed"


ODD = {
    "plain text": ("001.question", b"Which column is it?\n", "Which column is it?", "plain text"),
    "no timestamp": ("001.question", b'{"seq":1,"question":"Which?"}', "Which?", "not quite in the format"),
    "other number": ("002.question", question(1, "Which?").encode(), "Which?", "not quite in the format"),
    "bom": ("001.question", b"\xef\xbb\xbf" + question(1, "Which?").encode(), "Which?", ""),
    "no number": ("first.question", question(1, "Which?").encode(), "Which?", ""),
    "number 0": ("000.question", question(1, "Which?").encode(), "Which?", "not quite in the format"),
    "large number": ("99999999999999999999.question", b'{"question":"Which?"}', "Which?", "seq is missing"),
    "empty": ("001.question", b"", None, "cannot be read as a question"),
    "cut off": ("001.question", b'{"seq":1,"quest', None, "cannot be read as a question"),
    "binary": ("001.question", bytes(range(256)) * 40, None, "cannot be read as a question"),
    "a list": ("001.question", b'["Which?"]', None, "cannot be read as a question"),
    "no question": ("001.question", b'{"seq":1,"timestamp":"x"}', None, "cannot be read as a question"),
    "deep": ("001.question", b"[" * 100_000, None, "cannot be read as a question"),
    "long name": (f"{'n' * 240}.question", b"Which?", None, "name that cannot be used"),
    "name with a newline": ("a\nb.question", b"Which?", None, "name that cannot be used"),
    "name of bytes": (os.fsdecode(b"\xff\xfe.question"), b"Which?", None, "name that cannot be used"),
}


@pytest.mark.parametrize("case", ODD)
def test_an_odd_file_is_surfaced_and_nothing_breaks(asker: Asker, case: str) -> None:
    scene, task, ipc = asker
    name, raw, text, told = ODD[case]
    put(ipc, name, raw, is_old=True)
    if text is not None:
        assert asked(scene, task, 1) == [text]
    if told:
        notice(scene, task, told)
    put(ipc, "777.question", question(777, "And a good one?"))
    count = 1 if text is None else 2
    assert asked(scene, task, count)[-1] == "And a good one?"
    for one in scene.state(task).open_questions:
        scene.json("answer", task, str(one.seq), "this")
        assert json.loads((ipc / f"{one.stem}.answer").read_text())["answer"] == "this"
    shown = finishes(scene, task)
    assert len(shown["questions"]) == count
    assert len([n for n in scene.events(task, "notice") if "ipc/" in n["text"]]) == bool(told), "told once"


@pytest.mark.parametrize("kind", ["link", "fifo", "folder", "dangling"])
def test_what_is_no_file_is_not_read(asker: Asker, kind: str) -> None:
    scene, task, ipc = asker
    path = ipc / ".new"
    if kind in ("link", "dangling"):
        target = scene.path / "secret"
        if kind == "link":
            target.write_text(question(1, "the secret"))
        path.symlink_to(target)
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    settled(path)
    path.rename(ipc / "001.question")
    notice(scene, task, "ipc/001.question is no regular file")
    assert scene.state(task).questions == []
    assert finishes(scene, task)["status"] == "completed"


def test_a_half_written_question_is_taken_when_it_is_whole(asker: Asker) -> None:
    scene, task, ipc = asker
    for seq in range(1, 20, 2):
        began, whole = time.time(), question(seq, "Which one is it?")
        with (ipc / f"{seq:03d}.question").open("w") as file:
            file.write(whole[:30])
            file.flush()
            put(ipc, f"{seq + 1:03d}.question", question(seq + 1, "Other?"))
            assert asked(scene, task, seq)[-1] == "Other?"
            file.write(whole[30:])
        in_time = time.time() - began < files.SETTLE
        assert asked(scene, task, seq + 1)[-1] == "Which one is it?"
        if in_time:
            break  # else it may have been told of, as one that nobody goes on with
    assert not [notice for notice in scene.state(task).notices if f"{seq:03d}.question" in notice]


def test_a_question_that_is_overwritten_keeps_its_first_wording(asker: Asker) -> None:
    scene, task, ipc = asker
    put(ipc, "001.question", question(1, "x" * 600))
    asked(scene, task, 1)
    put(ipc, "001.question", question(1, "y" * 600))
    notice(scene, task, "was changed after it was asked")
    (one,) = scene.json("answer")["questions"]
    assert one["question"].startswith("xxx")
    assert "y" not in one["question"]
    assert scene.json("answer", task, "this")["seq"] == 1


def test_numbers_go_on_behind_those_of_files(asker: Asker) -> None:
    scene, task, ipc = asker
    put(ipc, "041.question", question(41, "Which?"))
    put(ipc, "41.question", question(41, "The same number?"))
    asked(scene, task, 2)
    assert sorted(q.seq for q in scene.state(task).questions) == [41, 42]
    for stem, seq in (("041", 41), ("41", 42)):
        chosen = next(q.seq for q in scene.state(task).questions if q.stem == stem)
        scene.json("answer", task, str(chosen), stem)
        assert json.loads((ipc / f"{stem}.answer").read_text())["answer"] == stem, seq


def test_a_thousand_questions(asker: Asker) -> None:
    scene, task, ipc = asker
    for seq in range(1, 1001):
        (ipc / f"{seq:03d}.question").write_text(question(seq, f"number {seq}"))
    asked(scene, task, 1000)
    assert sorted(q.seq for q in scene.state(task).questions) == [*range(1, 1001)]
    scene.json("answer", task, "1000", "the last one")
    assert json.loads((ipc / "1000.answer").read_text())["answer"] == "the last one"


LONG = {
    "long": "Which of these? " * 640,
    "lines": "First line\n\n## Plan\n\n- [ ] no step\n```\nfence\n",
    "unicode": "Größe? 日本語 🙂\u202e \u2028 end " * 60,
    "escapes": '\x01\x02"\\\t' * 700,
}


@pytest.mark.parametrize("case", LONG)
def test_long_and_strange_words_arrive_whole(asker: Asker, case: str) -> None:
    scene, task, ipc = asker
    text = LONG[case]
    put(ipc, "001.question", question(1, text, options=[text[:90]] * 20, checklist_item=text[:300]))
    asked(scene, task, 1)
    (one,) = scene.json("answer")["questions"]
    assert one["question"] == text
    assert scene.json("answer", task, text)["answer"] == text
    assert json.loads((ipc / "001.answer").read_text())["answer"] == text
    assert "\x1b" not in scene.project.run("show", task).out
    assert finishes(scene, task)["status"] == "completed"


@pytest.mark.parametrize(
    "raw",
    [json.dumps({"seq": 1, "timestamp": STAMP, "answer": "by hand"}), '{"answer": "by hand"}', "by hand\n", "{"],
)
def test_an_answer_that_overhand_did_not_write_is_none(asker: Asker, raw: str) -> None:
    """The agent that asks may write there, too."""
    scene, task, ipc = asker
    put(ipc, "001.question", question(1, "Which?"))
    asked(scene, task, 1)
    put(ipc, "001.answer", raw)
    told = notice(scene, task, "ipc/001.answer is no answer")
    assert f"overhand answer {scene.state(task).handle} TEXT" in told
    assert told in scene.json("show", task)["notices"]
    assert not scene.events(task, "answered")
    scene.json("answer", task, "a person's")
    assert json.loads((ipc / "001.answer").read_text())["answer"] == "a person's"
    assert recorded_answer(scene.store, task, 1) == "a person's"


def test_an_answer_by_hand_does_not_wake_ask(scene: Scene) -> None:
    scene.project.config(LATER)
    scene.shell("worker", f'$OVERHAND ask "Which?" --option a --option b --closed >said && {QUICK}')
    task = scene.delegate()
    until(lambda: scene.state(task).open_questions, "the question")
    put(Path(scene.store.workspace(task)) / "ipc", "001.answer", '{"answer": "b"}')
    notice(scene, task, "is no answer")
    scene.json("answer", task, "a")
    until(lambda: scene.state(task).status == "completed", "completed")
    assert (scene.path / "said").read_text() == "a\n"


def test_an_agent_that_asks_and_exits_is_parked(scene: Scene) -> None:
    """Plain text, without a word of JSON, and gone before anybody could look."""
    scene.shell(
        "worker",
        'if [ -e "$OVERHAND_WORKSPACE/ipc/001.answer" ]; then '
        f'{QUICK}; else echo "Which column?" >"$OVERHAND_WORKSPACE/ipc/001.question"; fi',
    )
    task = scene.delegate()
    shown = scene.json("wait", task, code=1)
    assert (shown["status"], shown["cause"]) == ("needs-input", "exit")
    assert [q["question"] for q in shown["questions"]] == ["Which column?"]
    assert scene.json("answer", task, "the first")["resumed"]
    assert scene.json("wait", task)["status"] == "completed"


def test_the_same_file_question_after_a_resume_is_answered_at_once(scene: Scene) -> None:
    scene.project.config('[limits]\nanswer_wait = "0.1s"\nstop_grace = "0.2s"\n')
    scene.agent("worker", "ask:Which column?", "output")
    task = scene.delegate()
    scene.judged(task)
    scene.json("answer", task, "the first")
    assert scene.json("wait", task)["status"] == "completed"
    assert (scene.place(task) / "stdout").read_text() == "the first\n"
    assert [e["via"] for e in scene.events(task, "answered")] == ["cli", "again"]


def test_the_same_words_twice_in_one_run_are_two_questions(scene: Scene) -> None:
    scene.project.config(LATER)
    scene.shell("worker", f'$OVERHAND ask "Sure?" >one; $OVERHAND ask "Sure?" >two; {QUICK}')
    task = scene.delegate()
    for seq, text in ((1, "yes"), (2, "no")):
        until(lambda seq=seq: [q.seq for q in scene.state(task).open_questions] == [seq], f"question {seq}")  # type: ignore[misc]
        scene.json("answer", task, text)
    scene.json("wait", task)
    assert [(scene.path / name).read_text() for name in ("one", "two")] == ["yes\n", "no\n"]


def test_questions_that_only_begin_alike_are_two(scene: Scene) -> None:
    scene.project.config('[limits]\nanswer_wait = "0.2s"\nstop_grace = "0.2s"\n')
    long = "x" * 1000
    scene.shell("worker", f'if [ -e second ]; then $OVERHAND ask "{long} two"; else $OVERHAND ask "{long} one"; fi')
    task = scene.delegate()
    scene.judged(task)
    (scene.path / "second").touch()
    scene.json("answer", task, "to the first")
    until(lambda: len(scene.state(task).questions) == 2, "another question")
    assert scene.state(task).open_questions[0].seq == 2
    scene.judged(task)
    text = scene.json("answer")["questions"][0]["question"]
    assert text == f"{long} two"


def test_needs_input_in_the_output_is_a_question(scene: Scene) -> None:
    scene.shell(
        "worker",
        'if grep -q "by date" "$OVERHAND_HANDOFF"; then '
        f"{QUICK}; else printf '# Task: x\\n\\n**Status:** needs-input\\n\\n## Summary\\nHow is it sorted?\\n'"
        ' >"$OVERHAND_OUTPUT"; fi',
    )
    task = scene.delegate()
    shown = scene.json("wait", task, code=1)
    assert [(q["seq"], q["question"], q["via"]) for q in shown["questions"]] == [(1, "How is it sorted?", "return")]
    context = (Path(scene.store.workspace(task)) / "CONTEXT.md").read_text()
    assert "Question 1 is open: How is it sorted?" in context
    assert scene.json("answer", task, "by date")["resumed"]
    assert scene.json("wait", task)["status"] == "completed"


# who may answer


MANNERS = ("plain", "clean", "double-fork")


@pytest.mark.parametrize("manner", MANNERS)
def test_nobody_answers_their_own_question(scene: Scene, manner: str) -> None:
    scene.project.config(LATER)
    answer = f"{sys.executable} -m overhand --project {scene.path} answer 1 me"
    home = scene.project.config_home
    how = {
        "plain": f"{answer}; echo $? >code",
        "clean": f"env -i PATH=$PATH XDG_CONFIG_HOME={home} {answer}; echo $? >code",
        "double-fork": f"(env -i PATH=$PATH XDG_CONFIG_HOME={home} setsid sh -c '{answer}; echo $? >code' &) ; "
        "while [ ! -s code ]; do sleep 0.02; done",
    }[manner]
    scene.shell("worker", f'printf "Which?" >"$OVERHAND_WORKSPACE/ipc/001.question"; {how}; exit 1')
    task = scene.delegate()
    assert until(lambda: (p := scene.path / "code").exists() and p.read_text(), "the code") == "3\n"
    scene.judged(task)
    assert scene.events(task, "answered") == []


def test_a_parent_may_answer_its_child(scene: Scene) -> None:
    scene.project.config(LATER)
    scene.shell("child", f'$OVERHAND ask "Which?" >said && {QUICK}')
    scene.shell(
        "parent",
        "$OVERHAND delegate below --agent child >/dev/null; "
        'until $OVERHAND answer 2 "from above" >given 2>&1; do sleep 0.05; done; '
        f"$OVERHAND wait 2 >/dev/null && {QUICK}",
    )
    top = scene.delegate("above", "--agent", "parent")
    until(lambda: scene.state(top).status == "completed", "completed")
    assert (scene.path / "said").read_text() == "from above\n"


def test_another_task_may_not_answer(scene: Scene) -> None:
    scene.project.config(LATER)
    scene.shell("worker", '$OVERHAND ask "Which?"')
    scene.shell("meddler", "$OVERHAND answer 1 me --json >meddled; exit 1")
    task = scene.delegate()
    until(lambda: scene.state(task).open_questions, "the question")
    scene.judged(scene.delegate("meddle", "--agent", "meddler"))
    assert "may not answer" in (scene.path / "meddled").read_text()
    assert scene.events(task, "answered") == []
    scene.json("stop", task)


def test_a_question_of_a_run_that_was_ended_is_not_taken(scene: Scene) -> None:
    scene.shell("worker", "trap '' TERM; touch up; cat gate; $OVERHAND ask late --json >late; true")
    os.mkfifo(scene.path / "gate")
    task = scene.delegate()
    scene.appears("up")
    with scene.store.lock(task, {"kind": "test"}) as locked:
        run = locked.task.runs[0].id
        locked.append(RunEnded(run=run, cause="lost"))
        locked.append(Judged(run=run, status="failed", summary=""))
    (scene.path / "gate").write_text("go")
    until(lambda: (p := scene.path / "late").exists() and "no longer holds" in p.read_text(), "the refusal")
    assert scene.state(task).questions == []


def test_a_stopped_lock_holder_does_not_keep_others_from_being_listed(scene: Scene) -> None:
    scene.project.config(LATER)
    scene.shell("worker", '$OVERHAND ask "Which?"')
    task = scene.delegate()
    until(lambda: scene.state(task).open_questions, "the question")
    held = scene.accepted("other")
    (Path(scene.store.workspace(held)) / "ipc").mkdir(exist_ok=True)
    put(Path(scene.store.workspace(held)) / "ipc", "001.question", question(1, "Held?"))
    holder = scene.project.start("wait", task)
    pid = os.fork()
    if pid == 0:
        with scene.store.lock(held, {"kind": "test"}):
            (scene.path / "held").touch()
            os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    try:
        scene.appears("held")
        shown = scene.json("answer")
        assert [one["task_id"] for one in shown["questions"]] == [task]
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        holder.kill()
        holder.communicate()
        scene.json("stop", task, held)  # the supervisor has found the other one, too
