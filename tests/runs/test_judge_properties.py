"""What holds of every verdict, whatever the evidence."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from overhand.documents import Problem, Return
from overhand.runs import Evidence, judge_run
from overhand.runs.judge import CheckFact, FileFact
from overhand.runs.proof import Work
from overhand.words import CAUSES, CLAIMS, STATUSES, VERIFICATIONS

PATHS = st.sampled_from(["a.txt", "b/c.py", "docs", "../x"])
FACTS = st.builds(
    FileFact,
    path=PATHS,
    exists=st.booleans(),
    empty=st.booleans(),
    inside=st.booleans(),
    change=st.sampled_from(["new", "changed", "touched", "untouched"]),
    waived=st.booleans(),
)
CODES = st.one_of(st.none(), st.integers(0, 255))
CHECKS = st.builds(
    CheckFact, name=st.just("tests"), command=st.just("make test"), after=CODES, before=CODES, timed_out=st.booleans()
)
PROBLEMS = st.builds(
    Problem,
    code=st.just("any"),
    message=st.just("Something."),
    level=st.sampled_from(["error", "warning"]),
    of=st.sampled_from(["form", "substance"]),
)
RETURNS = st.builds(Return, status=st.sampled_from([*CLAIMS, None, "cancelled"]), summary=st.text(max_size=5))
STEPS = st.lists(st.tuples(st.sampled_from(" x~?!"), st.just("step")), max_size=3).map(tuple)


def several(values: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(values, max_size=3).map(tuple)


WORK = st.builds(
    Work,
    changed=st.one_of(st.none(), several(PATHS)),
    company=several(st.just("task 7 (worker)")),
    leftovers=st.booleans(),
)
EVIDENCE = st.builds(
    Evidence,
    returned=st.one_of(st.none(), RETURNS),
    problems=several(PROBLEMS),
    complete_form=st.booleans(),
    cause=st.sampled_from(list(CAUSES)),
    exit=CODES,
    deliverables=several(FACTS),
    named=several(FACTS),
    checks=several(CHECKS),
    steps=STEPS,
    open_questions=st.integers(0, 2),
    changed=several(PATHS),
    work=WORK,
    read_only=st.booleans(),
    strict=st.booleans(),
)


@given(EVIDENCE)
def test_a_verdict_is_always_reached_and_says_something(evidence: Evidence) -> None:
    verdict = judge_run(evidence)
    assert verdict.status in STATUSES
    assert verdict.status != "rejected"
    assert verdict.verification.word in VERIFICATIONS
    assert bool(verdict.verification.proof) == (verdict.verification.word == "proved")
    assert verdict.summary


@given(EVIDENCE)
def test_judging_twice_says_the_same(evidence: Evidence) -> None:
    assert judge_run(evidence) == judge_run(evidence)


@given(EVIDENCE)
def test_completed_needs_a_claim_or_a_proof_and_everything_we_checked(evidence: Evidence) -> None:
    verdict = judge_run(evidence)
    if verdict.status == "completed":
        assert verdict.claimed == "completed" or verdict.verification.word == "proved"
        assert all(check.passed for check in evidence.checks)
        assert all(fact.holds for fact in evidence.deliverables)
        assert not evidence.open_questions
        assert not [p for p in verdict.problems if p.level == "error" and p.of == "substance"]


@given(EVIDENCE)
def test_only_what_is_completed_is_proved(evidence: Evidence) -> None:
    verdict = judge_run(evidence)
    assert verdict.verification.word != "proved" or verdict.status == "completed"


@given(EVIDENCE, CHECKS.filter(lambda check: not check.passed))
def test_one_failed_check_always_sinks_a_completed_claim(evidence: Evidence, red: CheckFact) -> None:
    claimed = Return(status="completed", summary="Done.")
    verdict = judge_run(replace(evidence, returned=claimed, checks=(*evidence.checks, red)))
    assert verdict.status in ("failed", "needs-input", "cancelled")
    assert verdict.verification.word == "failing"


@given(EVIDENCE, st.sampled_from([claim for claim in CLAIMS if claim != "completed"]))
def test_any_other_claim_stands_unless_a_person_stopped_it(evidence: Evidence, claim: str) -> None:
    verdict = judge_run(replace(evidence, returned=Return(status=claim, summary="So it is.")))
    assert verdict.status == ("cancelled" if evidence.cause == "cancelled" else claim)


@given(EVIDENCE, FACTS.filter(lambda fact: not fact.exists or not fact.inside or fact.empty))
def test_a_phantom_is_never_accepted(evidence: Evidence, phantom: FileFact) -> None:
    verdict = judge_run(replace(evidence, deliverables=(*evidence.deliverables, phantom)))
    assert verdict.status != "completed"


@given(EVIDENCE, several(PROBLEMS.map(lambda problem: replace(problem, of="form"))))
def test_form_never_sinks_substance(evidence: Evidence, clumsy: tuple[Problem, ...]) -> None:
    lenient = replace(evidence, strict=False)
    assert judge_run(replace(lenient, problems=(*lenient.problems, *clumsy))).status == judge_run(lenient).status


@given(EVIDENCE, PROBLEMS)
def test_strict_makes_any_problem_an_error(evidence: Evidence, problem: Problem) -> None:
    verdict = judge_run(replace(evidence, strict=True, problems=(problem,)))
    assert all(one.level == "error" for one in verdict.problems)
    assert verdict.status != "completed"


@given(EVIDENCE)
def test_strict_is_never_kinder(evidence: Evidence) -> None:
    if judge_run(replace(evidence, strict=True)).status == "completed":
        assert judge_run(replace(evidence, strict=False)).status == "completed"


@given(EVIDENCE)
def test_only_a_check_that_was_red_proves_by_turning_green(evidence: Evidence) -> None:
    found = judge_run(evidence).verification
    if found.word == "proved":
        assert any(check.passed and check.before not in (0, None) for check in evidence.checks)
        assert all(check.passed for check in evidence.checks)
        assert evidence.work.changed
        assert not evidence.work.company


@given(EVIDENCE, st.sampled_from([claim for claim in CLAIMS if claim != "completed"]))
def test_what_the_agent_does_not_claim_is_not_proved(evidence: Evidence, claim: str) -> None:
    assert judge_run(replace(evidence, returned=Return(status=claim, summary="So it is."))).verification.proof == ""


@given(EVIDENCE)
def test_a_task_that_may_write_and_changed_nothing_is_not_verified(evidence: Evidence) -> None:
    idle = replace(evidence, work=Work(()), read_only=False, deliverables=())
    assert judge_run(idle).verification.word in ("none", "failing")
