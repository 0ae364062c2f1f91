"""An `ask` that ended before it had its answer, and is repeated in the same run, is the same question."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from overhand.system import names_in
from support.scene import QUICK, kill, until

if TYPE_CHECKING:
    from support.scene import Scene

LATER = '[limits]\nanswer_wait = "0"\n'


def test_one_that_was_killed_after_its_answer_came(scene: Scene) -> None:
    scene.project.config(LATER)
    scene.shell("worker", f'$OVERHAND ask "Which?" >one & echo $! >pid; wait; $OVERHAND ask "Which?" >two; {QUICK}')
    task = scene.delegate()
    until(lambda: scene.state(task).open_questions, "the question")
    pid = int(scene.appears("pid").read_text())
    until(lambda: any(name.startswith("ask-1-") for name in names_in(f"{scene.place(task)}/waiting")), "its mark")
    os.kill(pid, signal.SIGSTOP)
    scene.json("answer", task, "this one")
    kill(pid)
    assert scene.judged(task).status == "completed"
    assert (scene.path / "one").read_text() == ""
    assert (scene.path / "two").read_text() == "this one\n"
    assert len(scene.state(task).questions) == 1


def test_one_whose_time_was_over_before_its_answer_came(scene: Scene) -> None:
    scene.project.config(LATER)
    scene.shell(
        "worker",
        '$OVERHAND ask "Which?" --timeout 0s >one; echo $? >code; until [ -e go ]; do sleep 0.05; done; '
        f'$OVERHAND ask "Which?" >two; $OVERHAND ask "Which?" --timeout 0s >three; {QUICK}',
    )
    task = scene.delegate()
    until(lambda: (scene.path / "code").exists() and (scene.path / "code").read_text() == "124\n", "its end")
    scene.json("answer", task, "this one")
    (scene.path / "go").touch()
    scene.judged(task)
    assert (scene.path / "two").read_text() == "this one\n"
    assert len(scene.state(task).questions) == 2, "once its answer is read, the same words are asked anew"
