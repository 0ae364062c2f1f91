"""Many requests at once: what is copied from the first is exactly what would have been worked out again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overhand import Project
from overhand.api import functions
from overhand.documents import handoff as handoffs
from overhand.policy import caller
from overhand.verbs.drafts import Drafted, alike
from overhand.verbs.request import request_of

if TYPE_CHECKING:
    from overhand.testing.project import ProjectDir

PIECES = ("a", "Fix", "x.", "1.", "- ", "# ", "```", "~~~", "<!--", "-->", "=== A ===", "\\", "|", "`p.py`", ":", "é")
TITLES = (
    st.lists(st.sampled_from((*PIECES, " ", "  ", "\n", "\t", "\u2028", "\r")), min_size=1).map("".join) | st.text()
)
SHAPES: tuple[dict[str, Any], ...] = (
    {},
    {"kind": "review"},
    {"context": "It is old.", "step": ["Look", "Tell"], "deliverable": ["a.txt", "A good word"]},
    {"verify": ["true"], "budget": "5k tokens", "constraint": "None", "set": ["limits.stall=1m"]},
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TITLES, st.sampled_from(SHAPES))
def test_another_title_is_the_same_as_from_the_beginning(
    overhand_project: ProjectDir, title: str, shape: dict[str, Any]
) -> None:
    project = _project(overhand_project)
    batch = functions.Batch(project.session, project._settings(), caller.Caller(), shared=True)
    first = _whole(project, batch, {"title": "Do it well", **shape})
    copied = alike(first, title)
    if copied is not None:
        assert copied[1:] == _whole(project, batch, {"title": title, **shape})[1:]


def test_words_are_copied_and_what_could_mean_more_is_not(overhand_project: ProjectDir) -> None:
    project = _project(overhand_project)
    batch = functions.Batch(project.session, project._settings(), caller.Caller(), shared=True)
    first = _whole(project, batch, {"title": "Do it well"})
    assert alike(first, "Do the next, and `this`: well") is not None
    for title in ("", "# A heading", "- a point", "two\nlines", " blanks", "x" * 3000, None, 3):
        assert alike(first, title) is None
    strict = _whole(project, batch, {"title": "Do a.py thoroughly, please", "strict": True})
    assert alike(strict, "Do b.py thoroughly, please") is None


def test_each_task_of_a_batch_has_its_own_words(overhand_project: ProjectDir) -> None:
    with _project(overhand_project) as project:
        wanted = [
            {"title": title, "agent": "helper"} for title in ("One is to be done", "# Two", "Three is to be done")
        ]
        wanted[2]["kind"] = "review"
        results = [task.wait() for task in project.delegate_all(wanted)]
        assert [result.title for result in results] == ["One is to be done", "Two", "Three is to be done"]
        assert [result.kind for result in results] == [None, None, "review"]
        texts = [(project.root / str(result.json["folder"]) / "HANDOFF.md").read_text() for result in results]
        assert [handoffs.parse(text).task for text in texts] == [one["title"] for one in wanted]


def _project(folder: ProjectDir) -> Project:
    project = Project(folder.path)
    project.agent("helper")(lambda call: f"{call.handoff.task}: done.")
    return project


def _whole(project: Project, batch: functions.Batch, words: dict[str, Any]) -> Drafted:
    """The draft of a request, with nothing to copy from."""
    request = request_of({**words, "agent": "helper"})
    draft = batch._draft(request, project._functions["helper"])
    return Drafted(request, draft, handoffs.parse(draft[1]))
