"""How far a result is verified: one pure function, four words, and the proof that a person could accept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from overhand.contracts import own_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from overhand.runs.judge import CheckFact, Evidence
    from overhand.words import VerificationWord

RED_GREEN, DATA = "red-green", "data"
NOTHING_CHANGED = "nothing changed"
_MOST = 3  # files that are named as doubts


@dataclass(frozen=True, slots=True)
class Work:
    """What a task's runs did to the working tree, as far as that is known."""

    changed: tuple[str, ...] | None = None  # tracked content and new files, since its first run; None: unknown
    suspects: tuple[str, ...] = ()  # those of them, and ignored files, that can be a check's own
    inline_tests: tuple[str, ...] = ()  # source files among them in which tests stand
    company: tuple[str, ...] = ()  # other tasks that had a run in the same checkout meanwhile
    leftovers: bool = False  # processes of the run live on


@dataclass(frozen=True, slots=True)
class Verification:
    """The word, what proves it, and why it is not more."""

    word: VerificationWord
    proof: str = ""  # red-green or data, of what is proved
    why: tuple[str, ...] = ()


def verification(evidence: Evidence, withheld: Sequence[str] | None = None) -> Verification:
    """Whether what was asked for is proved, passes, fails, or rests on nothing that Overhand found itself.

    With `withheld` something else is wrong with the result, which is said: then nothing proves it.
    """
    holds = [*(check.passed for check in evidence.checks), *(fact.passed for fact in evidence.facts)]
    contract = _contract_holds(evidence)
    holds += [contract] if contract is not None else []
    if not all(holds):
        return Verification("failing")
    nothing = _changed_nothing(evidence)
    proof, doubts = _proof(evidence, nothing=nothing)
    claim = evidence.returned.status if evidence.returned else None
    if proof and withheld is None and claim in (None, "completed"):
        return Verification("proved", proof)
    if nothing:
        return Verification("none", why=(NOTHING_CHANGED,))
    if not holds and not any(fact.holds for fact in evidence.deliverables):
        return Verification("none")
    return Verification("passing", why=(*(withheld or ())[:_MOST], *doubts))


def _contract_holds(evidence: Evidence) -> bool | None:
    """Whether a block or schema that was asked for is there and right; None where there is nothing to look at."""
    if not evidence.contract or evidence.facts or evidence.returned is None:
        return None
    if evidence.returned.status != "completed":
        return None
    broken = [one for one in evidence.problems if one.level == "error" and one.code.startswith(("contract-", "data-"))]
    return not broken


def _changed_nothing(evidence: Evidence) -> bool:
    """Whether the task may write and is known to have changed nothing."""
    if evidence.read_only and not evidence.deliverables:
        return False
    made = any(fact.holds and fact.change in ("new", "changed") for fact in evidence.deliverables)
    return evidence.work.changed == () and not made


def _proof(evidence: Evidence, *, nothing: bool) -> tuple[str, tuple[str, ...]]:
    """What proves the result, or why a check that turned from red to green does not."""
    if evidence.asked_by_person and _proved_by_data(evidence):
        return DATA, ()
    turned = [check for check in evidence.checks if check.passed and check.before not in (0, None)]
    doubts: list[str] = []
    for check in turned:
        found = [*_doubts_of_work(evidence.work, nothing=nothing), *_doubts_of_check(check, evidence.work)]
        if not found:
            return RED_GREEN, ()
        doubts += found
    return "", tuple(dict.fromkeys(doubts))


def _proved_by_data(evidence: Evidence) -> bool:
    """Whether an expression or schema that was written for this task holds on its data."""
    if any(fact.kind in ("expression", "schema") and fact.passed for fact in evidence.facts):
        return True
    has_schema = evidence.contract.endswith(".json") and bool(_contract_holds(evidence))
    return has_schema and evidence.returned is not None and evidence.returned.data is not None


def _doubts_of_work(work: Work, *, nothing: bool) -> Iterator[str]:
    """Why the change of a check's colour may not be this task's doing."""
    if work.changed is None:
        yield "red before, green now, but git cannot tell here what this task changed"
    elif nothing or not work.changed:
        yield NOTHING_CHANGED
    if work.company:
        yield f"red before, green now, but it was not alone in your checkout: {', '.join(work.company[:_MOST])}"
    if work.leftovers:
        yield "red before, green now, but processes of the run live on"


def _doubts_of_check(check: CheckFact, work: Work) -> Iterator[str]:
    """Why a check that turned from red to green proves nothing by itself."""
    own = own_files(check.command, work.suspects, check.files)
    yield from (one.doubt for one in own[:_MOST])
    if len(own) > _MOST:
        yield f"{len(own) - _MOST} more files of the check were changed or added"
    yield from (f"{path}, which holds tests, was changed" for path in work.inline_tests[:_MOST])
    if check.before in (126, 127):
        yield "the check could not be started before"
    if check.tests_before is not None:
        yield from _doubts_of_tests(check)


def _doubts_of_tests(check: CheckFact) -> Iterator[str]:
    """A test runner that passes says how many tests it ran; `os._exit(0)` in the code leaves no such summary."""
    before, now = check.tests_before, check.tests
    if before is None:
        return
    if now is None or now.runner != before.runner:
        yield f"it passed without the summary of {before.runner}: nothing shows that a test ran"
    elif not now.passed:
        yield "no test ran"
    elif now.passed < before.passed + before.failed:
        yield f"fewer tests passed than ran before ({now.passed} of {before.passed + before.failed})"
    elif now.skipped > before.skipped:
        yield f"tests are skipped now that were not before ({now.skipped}, before {before.skipped})"
