"""What Python is given has types: parameters, values with attributes, events, and questions that a function answers."""

from __future__ import annotations

import doctest
import inspect
from typing import TYPE_CHECKING

import pytest

from overhand import Call, Project
from overhand.api import project as module
from overhand.drafts.brief import _REPEATED, _SINGLE
from overhand.errors import OverhandError, TimedOut

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from overhand.api.values import Question
    from overhand.testing.project import ProjectDir


@pytest.fixture
def project(overhand_project: ProjectDir, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(overhand_project.config_home))
    monkeypatch.setenv("XDG_STATE_HOME", str(overhand_project.state_home))
    overhand_project.agent("asker", "overhand-ask:Which colour?=red|blue", "output:summary=Painted.")
    overhand_project.run("trust", "--yes", check=True)
    with Project(overhand_project.path) as found:
        yield found


def test_every_option_is_a_parameter_with_a_type() -> None:
    parameters = inspect.signature(Project.delegate).parameters
    assert not [one for one in parameters.values() if one.kind is one.VAR_KEYWORD or one.annotation is one.empty][1:]
    of_the_command_line = {*_SINGLE, *_REPEATED} - {"edit", "wait"}
    assert of_the_command_line <= parameters.keys()


def test_parts_of_a_result_have_attributes_and_keys(project: Project) -> None:
    result = project.delegate("Do it", agent="worker", verify="true").wait()
    (check,) = result.checks
    assert (check.command, check.passed, check.exit) == ("true", True, 0)
    assert (check["command"], result.runs[0].agent, result.runs[0]["agent"]) == ("true", "worker", "worker")
    assert result.verified is False
    with pytest.raises(AttributeError, match="Check has no 'colour'; it has name"):
        _ = check.colour
    assert repr(result) == "<Result 1 'Do it': completed, PASSES>"
    assert repr(project.task(1)) == "<Task 1 'Do it': done>"
    assert repr(check).startswith("Check(name='verify', command='true', passed=True")
    assert [(one.handle, one.title, one.verified) for one in project.tasks()] == [(1, "Do it", False)]


def test_a_function_answers_the_questions_of_a_task(project: Project) -> None:
    asked: list[Question] = []

    def blue(question: Question) -> str:
        asked.append(question)
        return "blue"

    task = project.delegate("Paint it", agent="asker", on_question=blue)
    assert task.wait().summary == "Painted."
    (question,) = asked
    assert (question.text, question.options, question.handle) == ("Which colour?", ["red", "blue"], task.handle)


def test_a_function_answers_the_questions_of_a_function(project: Project) -> None:
    @project.agent("painter")
    def paint(call: Call) -> str:
        return call.ask("Which colour?") + call.ask("Really?")

    replies = iter(["red", "!"])
    result = project.delegate("Paint it", agent="painter").wait(on_question=lambda _: next(replies))
    assert result.summary == "red!"


def test_one_that_is_not_answered_is_asked_once(project: Project) -> None:
    asked: list[Question] = []
    task = project.delegate("Paint it", agent="asker", set="limits.answer_wait=0")
    events = (event for event in task.events() if event.kind == "asked")
    next(events)
    with pytest.raises(TimeoutError) as caught:
        task.wait(0.2, on_question=asked.append)
    assert isinstance(caught.value, TimedOut)
    assert caught.value.hint
    assert len(asked) == 1
    assert [one.text for one in task.questions()] == ["Which colour?"]
    assert task.answer("red").left == 0
    assert task.wait().ok


def test_events_end_with_the_verdict(project: Project) -> None:
    task = project.delegate("Do it", agent="worker")
    kinds = [event.kind for event in task.events()]
    assert kinds[0] == "created"
    assert "run.started" in kinds
    assert "judged" in kinds
    assert [event.kind for event in task.events(follow=False)] == [event.kind for event in task.events()]


def test_the_example_in_the_docstring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    found = doctest.DocTestFinder(recurse=False).find(Project, "Project", module=module)
    runner = doctest.DocTestRunner()
    assert runner.run(found[0]).failed == 0
    assert runner.tries > 0


def test_a_refused_task_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "folder"
    folder.mkdir()
    with Project(folder) as project:
        project.agent("fn")(lambda call: call.title)
        for wrong in ({"title": ""}, {"title": "x", "contract": "gone.json"}, {"title": "x", "timeout": "9d"}):
            with pytest.raises(OverhandError):
                project.delegate(agent="fn", **wrong)  # type: ignore[arg-type]
    assert list(folder.iterdir()) == []
    assert not (tmp_path / "state").exists()
