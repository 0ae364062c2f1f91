"""The examples with their frameworks' own fake models, in an environment that has the frameworks: `make examples`.

Each is delegated to twice: as a function of this process, and from an agent file, as a process of its own.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from overhand import Project
from overhand.testing.project import ProjectDir

EXAMPLES = Path(__file__).resolve().parent


@pytest.fixture(autouse=True)
def examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples can be imported, here and in child processes; no key is there, so that nothing real can be asked."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    path = os.pathsep.join(filter(None, (str(EXAMPLES), os.environ.get("PYTHONPATH"))))
    monkeypatch.setenv("PYTHONPATH", path)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def delegated(project: ProjectDir, name: str, function: str, *words: str) -> dict[str, Any]:
    """Through an agent file, as a process of its own."""
    project.agent(name, driver="function", function=function, command=[])
    return dict(project.run("delegate", *words, "--agent", name, "--wait", "--json").json)


def test_langgraph(overhand_project: ProjectDir) -> None:
    import langgraph_notes

    (overhand_project.path / "planets.txt").write_text("Venus\nMars\n")
    project = Project(overhand_project.path)
    project.agent("notes")(langgraph_notes.work)
    done = project.delegate("Say what is named", agent="notes", file=["planets.txt"]).wait()
    assert (done.status, done.summary) == ("completed", "Two planets are named.")
    assert done.data == {"files": ["planets.txt"], "note": "Two planets are named."}
    shown = delegated(overhand_project, "notes", "langgraph_notes:work", "Say what is named", "--file", "planets.txt")
    assert (shown["status"], shown["data"]) == ("completed", done.data)


def test_openai_agents_sdk(overhand_project: ProjectDir) -> None:
    import openai_release
    from fakes import openai_model

    (overhand_project.path / "CHANGELOG.md").write_text("- Faster.\n")
    project = Project(overhand_project.path)
    project.agent("release")(partial(openai_release.work, model=openai_model()))
    done = project.delegate("Write the notes of 1.2", agent="release").wait()
    assert (done.status, done.summary) == ("completed", "The tool said: - Faster.")
    assert (done.usage["input"], done.usage["output"]) == (20, 10), "two turns of ten and five tokens"
    shown = delegated(overhand_project, "release", "fakes:release", "Write the notes of 1.2")
    assert (shown["status"], shown["summary"]) == ("completed", done.summary)


def test_pydantic_ai(overhand_project: ProjectDir) -> None:
    import pydantic_triage
    from fakes import pydantic_model

    project = Project(overhand_project.path)
    project.agent("triage")(partial(pydantic_triage.work, model=pydantic_model("high")))
    done = project.delegate("The engine stops in mid-air", agent="triage").wait()
    assert (done.status, done.summary) == ("completed", "high: because")
    assert done.data == {"severity": "high", "reason": "because"}
    shown = delegated(overhand_project, "triage", "fakes:triage", "The engine stops in mid-air")
    assert (shown["status"], shown["data"]) == ("completed", done.data)


def test_pydantic_ai_asks_a_person(overhand_project: ProjectDir) -> None:
    import pydantic_triage
    from fakes import pydantic_model

    project = Project(overhand_project.path)
    project.agent("triage")(partial(pydantic_triage.work, model=pydantic_model("unsure")))
    task = project.delegate("A lamp flickers", agent="triage")
    overhand_project.run("monitor", str(task.handle), check=True)
    task.answer("low")
    assert task.wait(60).summary == "low: a person said so; because"
