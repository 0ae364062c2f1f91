"""Whether a person wants to hear of it: decided from two states and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overhand.errors import BadInput
from overhand.policy import Notify, load_config
from overhand.policy.settings import NOTE_KINDS
from overhand.record import fold
from overhand.supervisor.notes import Note, note_of
from overhand.words import HEADLINES, STATUSES

if TYPE_CHECKING:
    from pathlib import Path

    from overhand.record import Task
    from overhand.record.task import Line

START: list[Line] = [
    {"e": "created", "t": "t0", "handle": 3, "title": "Mend it", "agent": "worker"},
    {"e": "accepted", "t": "t1"},
    {"e": "run.created", "t": "t2", "run": "sess_1_aaaaaa"},
    {"e": "run.started", "run": "sess_1_aaaaaa"},
]
ASKED: Line = {"e": "asked", "t": "t3", "seq": 1, "question": "Which?", "options": ["a", "b"], "run": "sess_1_aaaaaa"}


def state(*more: Line, **changes: Any) -> Task:
    folded = fold("worker-20261115-205025", [*START, *more])
    return folded.but(**changes)


def ended(status: str, cause: str = "exit", **more: Any) -> list[Line]:
    run = "sess_1_aaaaaa"
    return [
        {"e": "run.ended", "t": "t4", "run": run, "cause": cause},
        {"e": "judged", "t": "t5", "run": run, "status": status, "summary": "what the agent says", **more},
    ]


def told(before: Task | None, after: Task) -> tuple[str, str, str] | None:
    note = note_of(before, after, "/home/me/planets")
    return (note.kind, note.text, note.command) if note else None


@pytest.mark.parametrize(
    ("events", "wanted"),
    [
        ([ASKED], ("question", "worker asks: Which? [a | b]", "overhand answer 3")),
        (
            [ASKED, *ended("needs-input", "answer-timeout")],
            ("parked", "It waits for an answer: Which? [a | b]", "overhand answer 3"),
        ),
        (ended("completed", verification="proved"), ("ready", "Judged completed, VERIFIED.", "overhand show 3")),
        (ended("completed"), ("ready", "Judged completed, UNVERIFIED.", "overhand show 3")),
        (
            ended("failed", "timeout"),
            ("stopped", "Judged failed (timeout): it did not produce what was asked for.", "overhand show 3"),
        ),
        (ended("partial"), ("stopped", "Judged partial: some of it is done.", "overhand show 3")),
        (
            ended("blocked"),
            ("blocked", "Judged blocked: it cannot go on without something from outside.", "overhand show 3"),
        ),
        (ended("cancelled", "cancelled"), None),
        ([{"e": "notice", "text": "No sign of life."}], ("notice", "No sign of life.", "overhand show 3")),
        ([{"e": "limit", "key": "k"}], ("budget", "A level of its budget was reached: k.", "overhand show 3")),
        ([{"e": "step", "n": 1, "marker": "x"}], None),
    ],
)  # fmt: skip
def test_what_is_told(events: list[Line], wanted: tuple[str, str, str] | None) -> None:
    assert told(state(), state(*events)) == wanted
    assert told(state(*events), state(*events)) is None, "nothing new"


def test_a_note_says_which_task_of_which_project() -> None:
    note = note_of(state(), state(ASKED), "/home/me/planets/")
    assert note == Note(
        "question", "worker-20261115-205025", 3, "Mend it", "worker", "needs you", "worker asks: Which? [a | b]",
        "overhand answer 3", "planets", "worker-20261115-205025 question 1",
    )  # fmt: skip


def test_a_second_question_is_told_and_an_answer_is_not() -> None:
    second = {**ASKED, "seq": 2, "question": "And when?"}
    answer: Line = {"e": "answered", "seq": 2, "answer": "now"}
    assert told(state(ASKED), state(ASKED, second)) == (
        "question",
        "worker asks: And when? [a | b]",
        "overhand answer 3",
    )
    assert told(state(ASKED, second), state(ASKED, second, answer)) is None
    both = told(state(), state(ASKED, second))
    assert both
    assert both[1] == "worker asks: Which? [a | b] (and 1 more)"


def test_of_a_task_that_nobody_looked_at_only_what_waits_is_told() -> None:
    assert told(None, state(ASKED)) == told(state(), state(ASKED))
    assert told(None, state(*ended("blocked")))
    assert told(None, state(*ended("completed"))) is None
    assert told(None, state(*ended("failed"))) is None
    assert told(None, state({"e": "notice", "text": "x"})) is None


def test_a_childs_result_is_for_its_parent_its_question_for_a_person() -> None:
    parent = {"task": "boss-1", "run": "sess_1_bbbbbb"}
    assert told(state(parent=parent), state(*ended("completed"), parent=parent)) is None
    assert told(state(parent=parent), state(*ended("failed"), parent=parent)) is None
    assert told(state(parent=parent), state(ASKED, parent=parent))


_EVENTS = st.lists(
    st.sampled_from([
        ASKED,
        {**ASKED, "seq": 2},
        {"e": "answered", "t": "t3", "seq": 1, "answer": "a"},
        {"e": "accepted", "t": "t6"},
        {"e": "seen"},
        {"e": "notice", "text": "n"},
        {"e": "limit", "key": "k"},
        *(event for status in STATUSES for event in ended(status)),
    ]),
    max_size=12,
)  # fmt: skip


@given(_EVENTS)
def test_whatever_happens_a_thing_is_told_once_and_without_the_agents_words(events: list[Line]) -> None:
    before, keys = state(), []
    for number in range(len(events) + 1):
        after = state(*events[:number])
        note = note_of(before, after, "/p")
        assert note_of(after, after, "/p") is None
        if note:
            assert note.kind in NOTE_KINDS
            assert note.headline in HEADLINES
            assert "what the agent says" not in repr(note)
            keys.append(note.key)
        before = after
    questions = [key for key in keys if " question " in key]
    assert len(questions) == len(set(questions))


# settings


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("desktop = 1", 'notify.desktop: true, false or "auto" was needed.'),
        ('command = "notify-me --now"', "notify.command: a list of words such as"),
        ('command = [""]', "the first word must name a program"),
        ('webhook = "file:///etc/s3cret"', "notify.webhook: an http:// or https:// address, or env:NAME"),
        ('slack = "$HOOK_s3cret"', "notify.slack: an http:// or https:// address"),
        ('ntfy = "env:1 s3cret"', "notify.ntfy: an http:// or https:// address"),
        ('on = ["question", "everything"]', "notify.on: a list of question, parked,"),
        ('hook = "x"', "notify.hook is unknown"),
    ],
)
def test_bad_settings_are_named_without_their_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, problem: str
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "overhand").mkdir()
    (tmp_path / "overhand/config.toml").write_text(f"[notify]\n{text}\n")
    with pytest.raises(BadInput) as caught:
        load_config(str(tmp_path))
    assert problem in caught.value.message
    assert "s3cret" not in caught.value.message


def test_good_settings_and_whose_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for folder, text in (("overhand", 'ntfy = "env:NTFY_URL"\non = ["question"]'), (".overhand", 'command = ["x"]')):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "config.toml").write_text(f"[notify]\n{text}\n")
    both = load_config(str(tmp_path)).notify
    assert both == Notify(ntfy="env:NTFY_URL", on=("question",), command=("x",))
    mine = load_config(str(tmp_path), project=False).notify
    assert mine.command == ()
    assert mine.ntfy == "env:NTFY_URL"
