"""The table of phases: which move is legal, what counts as an iteration, and when a person is asked."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from overhand.runs import ESCALATED, PHASE_ORDER, IllegalMove, PhaseMove, move_phase, next_phases, phases
from overhand.runs.phases import PHASES, TRACEBACKS

LEGAL = {
    "": {"INITIATE"},
    "INITIATE": {"IDENTIFY", "CHECKPOINT"},
    "IDENTIFY": {"DOCUMENT", "ESCALATED", "CHECKPOINT"},
    "DOCUMENT": {"SOLVE", "CHECKPOINT"},
    "SOLVE": {"CODE", "IDENTIFY", "CHECKPOINT"},
    "CODE": {"DEPLOY", "SOLVE", "CHECKPOINT"},
    "DEPLOY": {"TEST", "CODE", "CHECKPOINT"},
    "TEST": {"VALIDATE", "IDENTIFY", "SOLVE", "CODE", "CHECKPOINT"},
    "VALIDATE": {"COMPLETE", "IDENTIFY", "CHECKPOINT"},
    "COMPLETE": set(),
    "ESCALATED": {"IDENTIFY", "DOCUMENT", "SOLVE", "CODE", "DEPLOY", "TEST", "VALIDATE", "CHECKPOINT"},
}


def go(history: list[str], *steps: str) -> PhaseMove:
    """Make all these moves, the last one returned."""
    made: PhaseMove | IllegalMove | None = None
    for step in steps:
        made = move_phase(history, step)
        assert isinstance(made, PhaseMove), made
        history.append(made.to)
    assert isinstance(made, PhaseMove)
    return made


@pytest.mark.parametrize("frm", LEGAL)
def test_the_table(frm: str) -> None:
    assert set(next_phases([frm] if frm else [])) == LEGAL[frm]


def test_straight_on() -> None:
    history: list[str] = []
    made = go(history, *(one.lower() for one in PHASE_ORDER))
    assert (history, made) == (list(PHASE_ORDER), PhaseMove("VALIDATE", "COMPLETE", 1))
    over = move_phase(history, "IDENTIFY")
    assert over == IllegalMove("COMPLETE", "IDENTIFY", ())
    assert (over.message, over.hint) == (
        "The task is in COMPLETE; IDENTIFY cannot come next.",
        "COMPLETE is the end.",
    )


@pytest.mark.parametrize(
    ("history", "to", "message"),
    [
        ([], "CODE", "The task has no phase yet and cannot begin with CODE."),
        (["INITIATE"], "INITIATE", "The task is in INITIATE already."),
        (["INITIATE"], "code", "The task is in INITIATE; CODE cannot come next."),
        (["INITIATE"], "dance", "DANCE is no phase."),
    ],
)
def test_illegal_moves_name_the_legal_ones(history: list[str], to: str, message: str) -> None:
    made = move_phase(history, to)
    assert isinstance(made, IllegalMove)
    assert made.message == message
    assert made.hint == ("Next may be IDENTIFY, CHECKPOINT." if history else "Next may be INITIATE.")


def test_aside_and_back_to_where_it_was() -> None:
    history = list(PHASE_ORDER[:5])
    for steps in (["CHECKPOINT"], ["CHECKPOINT", "SUSPENDED"]):
        go(history, *steps)
        assert next_phases(history) == ("CODE", "SUSPENDED")[: 3 - len(steps)]
        assert isinstance(move_phase(history, "DEPLOY"), IllegalMove)
        assert go(history, "CODE") == PhaseMove(steps[-1], "CODE", 1)


@pytest.mark.parametrize(
    ("cause", "frm", "to"),
    [
        ("implementation_error", "TEST", "CODE"),
        ("wrong-approach", "VALIDATE", "SOLVE"),
        ("Misidentified Issue", "DEPLOY", "IDENTIFY"),
        ("missing_context", "TEST", "DOCUMENT"),
        ("deployment_failure", "VALIDATE", "DEPLOY"),
        ("unknown", "TEST", ESCALATED),
    ],
)
def test_tracebacks(cause: str, frm: str, to: str) -> None:
    history = list(PHASE_ORDER[: PHASE_ORDER.index(frm) + 1])
    by_cause, by_phase = move_phase(history, cause), move_phase(history, to, cause)
    assert by_cause == by_phase
    assert isinstance(by_cause, PhaseMove)
    assert (by_cause.to, by_cause.iteration) == (to, 1 if to == ESCALATED else 2)
    assert by_cause.escalate is (to == ESCALATED)
    assert isinstance(
        move_phase(PHASE_ORDER[:2], cause), IllegalMove if to not in (ESCALATED, "DOCUMENT") else PhaseMove
    )


def test_a_traceback_leads_back_only() -> None:
    assert isinstance(
        move_phase(PHASE_ORDER[:4], "implementation_error"), PhaseMove
    )  # SOLVE to CODE is the way on anyway
    assert isinstance(move_phase(PHASE_ORDER[:2], "CODE", "implementation_error"), IllegalMove)
    assert isinstance(move_phase(PHASE_ORDER, "unknown"), IllegalMove)


def test_iterations_warnings_and_escalation() -> None:
    history = list(PHASE_ORDER[:4])
    round_and_round = [go(history, "CODE" if history[-1] == "SOLVE" else "SOLVE") for _ in range(18)]
    assert [one.iteration for one in round_and_round[:-1]] == [1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9]
    late = ["at 10 a person has to decide" in " ".join(one.warnings) for one in round_and_round[:-1]]
    assert late == [one.iteration > 5 for one in round_and_round[:-1]]
    last = round_and_round[-1]
    assert (last.to, last.iteration, last.escalate) == (ESCALATED, 9, True)
    assert last.warnings == ("Iteration 10 would begin: a person has to decide how it goes on.",)
    assert not any(one.escalate for one in round_and_round[:-1])


def test_after_an_escalation_a_person_decides() -> None:
    history = [*PHASE_ORDER[:5], *["SOLVE", "CODE"] * 8, ESCALATED]
    made = go(history, "SOLVE")
    assert (made.to, made.iteration, made.escalate) == ("SOLVE", 10, False)
    assert go(history, "CODE", "DEPLOY", "TEST", "VALIDATE").iteration == 10
    assert go(history, "IDENTIFY").to == ESCALATED


def test_going_round_is_told() -> None:
    history = list(PHASE_ORDER[:5])
    assert go(history, "DEPLOY", "CODE").warnings == ("The task goes round: CODE → DEPLOY → CODE.",)
    assert go(history, "CHECKPOINT").warnings == ()


class Course(RuleBasedStateMachine):
    """Any sequence of legal moves."""

    def __init__(self) -> None:
        super().__init__()
        self.history: list[str] = []
        self.moves: list[PhaseMove] = []

    def take(self, made: PhaseMove | IllegalMove) -> None:
        assert isinstance(made, PhaseMove)
        self.history.append(made.to)
        self.moves.append(made)

    @precondition(lambda self: bool(next_phases(self.history)))
    @rule(data=st.data())
    def go_on(self, data: st.DataObject) -> None:
        to = data.draw(st.sampled_from(next_phases(self.history)))
        made = move_phase(self.history, to)
        assert isinstance(made, PhaseMove)
        assert made.to in (to, ESCALATED)
        self.take(made)

    @precondition(lambda self: len(self.history) > 3)
    @rule(to=st.sampled_from(["SOLVE", "CODE", "IDENTIFY"]))
    def go_back(self, to: str) -> None:
        if to in next_phases(self.history):
            self.take(move_phase(self.history, to))

    @rule(cause=st.sampled_from(sorted(TRACEBACKS)))
    def trace_back(self, cause: str) -> None:
        made = move_phase(self.history, cause)
        if isinstance(made, PhaseMove):
            assert made.to in (TRACEBACKS[cause], ESCALATED)
            self.take(made)

    @rule(to=st.sampled_from([*PHASES, "DANCE", ""]))
    def try_anything(self, to: str) -> None:
        made = move_phase(self.history, to)
        assert isinstance(made, PhaseMove) == (to in next_phases(self.history))

    @invariant()
    def every_move_is_in_the_table(self) -> None:
        for made in self.moves:
            assert made.to in PHASES
            legal = LEGAL.get(made.frm, {*PHASE_ORDER[:-1], ESCALATED, "SUSPENDED"})  # from aside: where the task was
            assert made.escalate or made.to in legal or made.to == TRACEBACKS.get(made.why)

    @invariant()
    def complete_is_final(self) -> None:
        assert "COMPLETE" not in self.history[:-1]

    @invariant()
    def iterations_only_grow_and_the_tenth_needs_a_person(self) -> None:
        for before, after in pairwise(self.moves):
            assert before.iteration <= after.iteration <= before.iteration + 1
            if after.iteration > before.iteration and after.iteration >= phases.MOST:
                assert after.frm == ESCALATED
        if self.moves:
            assert self.moves[-1].iteration == phases.iteration(self.history)

    @invariant()
    def warnings_are_told(self) -> None:
        for made in self.moves:
            if made.iteration > phases.WARN_AFTER and not {made.frm, made.to} & set(phases.ASIDE):
                assert made.warnings


def test_every_course() -> None:
    run_state_machine_as_test(
        Course, settings=settings(max_examples=40, stateful_step_count=60, deadline=None, database=None)
    )
