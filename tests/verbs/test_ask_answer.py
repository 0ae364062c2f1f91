"""What people and agents read of questions: one golden file per message, and the walk on a real terminal."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from cli.test_table import LIGHT
from cli.test_text import compare
from overhand.record import Store
from support.scene import QUICK, until
from support.warm import make_project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.testing.project import ProjectDir, Ran

OVERHAND = f"{sys.executable} -m overhand"
NEVER = '[limits]\nanswer_wait = "0"\nidle = "2m"\nmax_parallel = 0\n'


def shell(project: ProjectDir, name: str, script: str) -> None:
    project.agent(name, command=["/bin/sh", "-c", script])


def waits(project: ProjectDir, count: int) -> None:
    """Until so many questions are open."""
    store = Store(str(project.path))

    def look() -> bool:
        return sum(len(task.open_questions) for task in store.tasks()) == count

    until(look, f"{count} open questions")


def yard(path: str) -> ProjectDir:
    """Three tasks that wait: one with several questions, one that takes two words only, a child's."""
    project = make_project(path, {}, config=NEVER)
    shell(
        project,
        "two",
        f'{OVERHAND} ask "Which column is the sort key?" --option date --option name --step "Sort the table" >one & '
        f"sleep 0.1; until [ -e .agent-workspaces/$OVERHAND_TASK/ipc/001.question ]; do sleep 0.02; done; "
        f'{OVERHAND} ask "Ascending?" >two & wait; {QUICK}',
    )
    shell(project, "closed", f'{OVERHAND} ask "Delete it?" --option yes --option no --closed >three; {QUICK}')
    shell(project, "child", f'{OVERHAND} ask "Whose child am I?" >four; {QUICK}')
    shell(project, "parent", f"{OVERHAND} delegate 'Look below' --agent child --wait >/dev/null; {QUICK}")
    for number, name in ((2, "two"), (3, "closed"), (4, "parent")):
        project.run("delegate", f"The work of {name}", "--agent", name, check=True)
        waits(project, number)
    return project


@pytest.fixture
def yard_of_questions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProjectDir]:
    project = yard(str(tmp_path_factory.mktemp("yard") / "project"))
    try:
        yield project
    finally:
        project.cleanup()


def test_messages(yard_of_questions: ProjectDir) -> None:
    project = yard_of_questions
    for name, words in (
        ("answer-list", ["answer"]),
        ("answer-list-one", ["answer", "2"]),
        ("answer-several", ["answer", "1", "by date"]),
        ("answer-closed-wrong", ["answer", "2", "perhaps"]),
        ("answer-empty", ["answer", "2", " "]),
        ("answer-one-of-two", ["answer", "1", "2", "yes,", "please"]),
        ("answer-again", ["answer", "1", "2", "no"]),
        ("answer-closed", ["answer", "2", "1"]),
        ("ask-outside", ["ask", "Anybody?"]),
        ("ask-nothing", ["ask"]),
        ("resume-live", ["resume", "1"]),
        ("show-question", ["show", "1"]),
    ):
        ran = project.run(*words)
        compare(name, ran, project)
    project.run("wait", "2", check=True)  # it has its answer
    compare("list-questions", project.run("list"), project)
    assert (project.path / "three").read_text() == "yes\n"


def test_json_of_answers(yard_of_questions: ProjectDir) -> None:
    project = yard_of_questions
    waiting = project.run("answer", "--json").json["questions"]
    assert [(one["handle"], one["seq"], one["closed"]) for one in waiting] == [
        (1, 1, False),
        (1, 2, False),
        (2, 1, True),
        (4, 1, False),
    ]
    assert waiting[3]["path"] == ["user", "parent", "child"]
    assert waiting[0]["options"] == ["date", "name"]
    assert waiting[0]["step"] == "Sort the table"
    told = project.run("answer", "2", "NO", "--json").json
    assert told["answer"] == "no", "an option in other letters is that option"


def inside(project: ProjectDir, script: str) -> Ran:
    """What a command says inside a run."""
    shell(project, "inner", f"{script} >inner.out 2>inner.err; echo $? >inner.code; {QUICK}")
    project.run("delegate", "inside", "--agent", "inner", "--wait")
    from overhand.testing.project import Ran as Told

    read = [(project.path / f"inner.{name}").read_text() for name in ("code", "out", "err")]
    return Told(int(read[0]), read[1], read[2])


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProjectDir]:
    project = make_project(tmp_path_factory.mktemp("quiet") / "project", {}, config=NEVER)
    try:
        yield project
    finally:
        project.cleanup()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ask-timeout", '"Anybody?" --timeout 0.1s'),
        ("ask-empty", '" "'),
        ("ask-closed-without", '"Which?" --closed'),
        ("ask-again-none", "--again 7"),
        ("ask-again-word", "--again seven"),
        ("ask-bad-timeout", '"Which?" --timeout soon'),
        ("ask-many-options", '"Which?" ' + " ".join(f"--option {n}" for n in range(21))),
        ("ask-bare", ""),
    ],
)
def test_messages_inside_a_run(quiet: ProjectDir, name: str, words: str) -> None:
    compare(name, inside(quiet, f"{OVERHAND} ask {words}"), quiet)


def test_nothing_waits(tmp_path: str) -> None:
    project = make_project(f"{tmp_path}/project", {"worker": ("output",)})
    try:
        project.run("delegate", "Do it", "--agent", "worker", "--wait", check=True)
        compare("answer-nothing", project.run("answer"), project)
        compare("answer-no-question", project.run("answer", "1", "yes"), project)
        compare("resume-completed", project.run("resume", "1"), project)
    finally:
        project.cleanup()


# the walk


class Terminal:
    """A person at a terminal in front of `overhand ARGS`."""

    def __init__(self, project: ProjectDir, *args: str) -> None:
        self.mine, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "overhand", *args],
            cwd=project.path,
            env={**project.environment(), "TERM": "xterm", "COLUMNS": "100"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.text = ""

    def read(self, words: str) -> str:
        """Everything up to these words."""
        began, deadline = len(self.text), time.monotonic() + 30
        while words not in self.text[began:]:
            assert time.monotonic() < deadline, f"no {words!r} in {self.text!r}"
            if select.select([self.mine], [], [], 1)[0]:
                self.text += os.read(self.mine, 65536).decode("utf-8", "replace")
        return self.text[began:]

    def type(self, line: str) -> None:
        os.write(self.mine, f"{line}\n".encode())

    def end(self) -> tuple[int, str]:
        began = len(self.text)
        while True:
            try:
                part = os.read(self.mine, 65536)
            except OSError:
                break
            if not part:
                break
            self.text += part.decode("utf-8", "replace")
        os.close(self.mine)
        return self.process.wait(30), self.text[began:]


def test_the_walk_goes_through_everything(yard_of_questions: ProjectDir) -> None:
    project = yard_of_questions
    person = Terminal(project, "answer")
    shown = person.read("q to leave: ")
    assert "1 of 4" in shown
    assert "at the step: Sort the table" in shown
    assert "1. date" in shown
    person.type("2")
    assert "Ascending?" in person.read("q to leave: ")
    person.type("")  # later
    assert "Delete it?" in person.read("q to leave: ")
    person.type("perhaps")
    assert "One of these is needed: yes, no." in person.read("q to leave: ")
    project.run("answer", "2", "no", check=True)  # somebody else is quicker
    person.type("yes")
    shown = person.read("q to leave: ")
    assert "answered already: no" in shown
    assert "user → parent → child" in shown
    person.type("the parent's")
    code, shown = person.end()
    assert code == 0
    assert "Ascending?" in shown, "what is left for later is listed"
    said = {"one": "name\n", "three": "no\n", "four": "the parent's\n"}  # each file is there before its answer is
    until(lambda: {name: (project.path / name).read_text() for name in said} == said, "the answers")
    assert project.run("answer", "1", "yes").code == 0


@pytest.mark.parametrize("leave", ["q\n", "\x04", "Ctrl-C"])
def test_the_walk_can_be_left(yard_of_questions: ProjectDir, leave: str) -> None:
    person = Terminal(yard_of_questions, "answer", "1")
    person.read("q to leave: ")
    if leave == "Ctrl-C":
        person.process.send_signal(signal.SIGINT)
        while not select.select([person.mine], [], [], 5)[0]:
            # pressed again, as a person would: between the prompt and the reading Python only remembers it
            person.process.send_signal(signal.SIGINT)
    else:
        os.write(person.mine, leave.encode())
    code, text = person.end()
    assert code == (130 if leave == "Ctrl-C" else 0)
    assert "Traceback" not in text
    waits(yard_of_questions, 4)


def test_ask_and_answer_import_nothing_heavy(quiet: ProjectDir) -> None:
    """Also in the run itself, where `ask` writes a call and waits for the reply."""
    code = (
        f"import sys; sys.path[:0] = {sys.path!r}; from overhand.cli import main; code = main(sys.argv[1:]); "
        "print(*sorted(sys.modules), file=sys.stderr); sys.exit(code)"
    )
    (quiet.path / "loaded.py").write_text(code)
    shell(quiet, "light", f'{sys.executable} -S loaded.py ask "Light?" --option a 2>asked.err; {QUICK}')
    shown = quiet.run("delegate", "be light", "--agent", "light", "--json", check=True).json
    store = Store(str(quiet.path))
    until(lambda: store.task(shown["task_id"]).open_questions, "the question")
    done = subprocess.run(
        [sys.executable, "-S", "loaded.py", "answer", shown["task_id"], "a"],
        cwd=quiet.path, env=quiet.environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    quiet.run("wait", shown["task_id"], check=True)
    called = (quiet.path / "asked.err").read_text()
    for loaded, ours in (done.stderr, "overhand.questions.record"), (called, "overhand.verbs.calls"):
        assert ours in loaded.split()
        assert set(loaded.split()).isdisjoint(LIGHT), set(loaded.split()) & set(LIGHT)
