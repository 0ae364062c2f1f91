"""The verdict: one pure function over what was claimed, what was found and what we ran ourselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from overhand.documents import Problem, Return, as_errors, one_line, shorten
from overhand.runs.proof import Verification, Work, verification
from overhand.words import CLAIMS

if TYPE_CHECKING:
    from overhand.contracts import TestSummary
    from overhand.words import Status

CODES = {
    "return-missing": "the run left no OUTPUT.md, result.json or JSON on stdout that could be read",
    "return-invalid": "result.json is not valid JSON",
    "return-contradicts": "two returns of one run say different things",
    "deliverable-missing": "a promised file does not exist",
    "deliverable-empty": "a promised file is empty",
    "deliverable-outside": "a promised file is not inside the run's working tree",
    "deliverable-untouched": "a promised file is what it was before the task began",
    "deliverable-same-content": "a promised file was written again with the same bytes",
    "file-missing": "the return names a file that does not exist",
    "file-empty": "the return names a file that is empty",
    "files-many": "the return lists more files than are looked at",
    "file-outside": "the return names a file outside the run's working tree",
    "exit-not-zero": "the agent's program ended with an error",
    "final-event": "the agent's own last event says that it did not end well",
    "permission-denied": "the agent was refused something it wanted to use",
    "exit-unknown": "the run was lost, its exit code is not known",
    "check-failed": "a check that Overhand ran did not pass",
    "check-not-run": "checks were not run, because the task was not made here by a person",
    "plan-step-failed": "a step of the plan is marked as failed or blocked",
    "plan-step-open": "a step of the plan is still open",
    "question-open": "a question is still unanswered",
    "section-required": "the agent's own file says the return must have this section",
    "contract-required": "the task asked for an output contract",
    "changed-unlisted": "files changed that neither the task nor the return names",
    "read-only-changed": "a task that may only read changed files",
    "output-stray": "an OUTPUT.md was written outside the run's folder while another run may have been alive",
    "promise-missing": "a file that the plan says must exist is not there",
    "inputs-unreadable": "the inputs of a plan's node are gone, so what it promised cannot be judged",
    "document-changed": "a document is no longer the one that was judged",
    "output-unreadable": "OUTPUT.md is not a regular file, or longer than 16 MB",
    "desk-unreadable": "the run's folder in the workspace, or one above it, is a link or no folder",
    "decisions-not-kept": "the decisions could not be added to the project's list",
}


@dataclass(frozen=True, slots=True)
class FileFact:
    """One file as it was found: `change` is new, changed, touched (same bytes, written again) or untouched."""

    path: str
    exists: bool = True
    empty: bool = False
    inside: bool = True
    change: str = "new"
    waived: bool = False

    @property
    def holds(self) -> bool:
        return self.exists and self.inside and not self.empty and (self.change != "untouched" or self.waived)


@dataclass(frozen=True, slots=True)
class CheckFact:
    """One check that Overhand ran: exit codes before (on the base) and after."""

    name: str
    command: str
    after: int | None
    before: int | None = None
    seconds: float = 0.0
    evidence: str = ""
    timed_out: bool = False
    files: tuple[str, ...] = ()  # patterns of its own files, from its settings
    tests: TestSummary | None = None  # what a test runner said, where it turned from red to green
    tests_before: TestSummary | None = None  # on the base
    tail: str = ""  # the end of what it printed, if it failed

    @property
    def passed(self) -> bool:
        return self.after == 0

    @property
    def already_red(self) -> bool:
        return not self.passed and self.before not in (0, None)


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that the contract of a plan's node says of its result: what was looked at, and what was wrong."""

    kind: str  # shape (the declared outputs), edge (what the next node needs), expression, exists or schema
    text: str
    problems: tuple[Problem, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.problems

    @property
    def is_check(self) -> bool:
        """Whether the plan asks for just this to be verified; the types of the outputs alone verify little."""
        return self.kind in ("expression", "exists", "schema")


_UNKNOWN = Work()
_ENDINGS = ("exit-not-zero", "final-event")
_NO_SILENCE = ("status-unknown", "status-several", "status-contradicts")  # it said something, if nothing that counts


@dataclass(frozen=True, slots=True)
class Evidence:
    returned: Return | None = None
    source: str = ""
    problems: tuple[Problem, ...] = ()  # of the return's own form and data
    complete_form: bool = False  # status and summary were both there
    cause: str = "exit"
    exit: int | None = 0
    deliverables: tuple[FileFact, ...] = ()
    prose: tuple[str, ...] = ()
    named: tuple[FileFact, ...] = ()
    checks: tuple[CheckFact, ...] = ()
    facts: tuple[Fact, ...] = ()  # of the contract of a plan's node; what is wrong is among the problems too
    unverified: tuple[str, ...] = ()  # what the plan asks for and no program can check
    steps: tuple[tuple[str, str], ...] = ()  # marker and text of the plan's steps; no marker: gone from the plan
    open_questions: int = 0
    paused: bool = False  # it ended to wait for an answer, or while it waited, even if the answer came meanwhile
    by_hand: bool = False  # a person had it on a terminal, and left it as people do
    final: str | None = None  # how its own stream says that it ended, where it has one
    final_why: str = ""
    last_words: str = ""  # of its own stream, or the end of what it printed
    stderr: str = ""  # the end of it
    denied: tuple[str, ...] = ()  # what it wanted and was not allowed
    delegated: int = 0  # tasks that it delegated by a CONTROL line and whose results have not reached it
    escalated: str = ""  # why it called for a person
    changed: tuple[str, ...] = ()  # files this run changed, where that is known
    work: Work = _UNKNOWN  # what all runs of the task changed, and beside whom
    contract: str = ""  # the block or schema that was asked for
    asked_by_person: bool = True  # not by another run
    read_only: bool = False
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What Overhand says about a run."""

    status: Status
    claimed: str | None
    verification: Verification
    summary: str
    problems: tuple[Problem, ...] = ()
    last_words: str = ""  # of an agent that left no return

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(p for p in self.problems if p.level == "error")


def judge_run(evidence: Evidence) -> Verdict:
    """Decide the status of a run: a claim is only a claim."""
    problems = [*evidence.problems, *_ending(evidence), *_files(evidence), *_checks(evidence), *_steps(evidence)]
    problems += _changes(evidence)
    if evidence.strict:
        problems = list(as_errors(problems))
    claim = next((word for word in CLAIMS if evidence.returned and word == evidence.returned.status), None)
    waits = evidence.open_questions or evidence.paused or evidence.escalated or evidence.delegated
    may_be_silent = claim is None and not waits and evidence.cause == "exit" and not evidence.strict
    against = [p.message for p in problems if _counts(evidence, p) or (claim is None and _is_no_silence(p))]
    status = _status(evidence, claim, problems)
    sound = not against and (may_be_silent or status == "completed")
    found = verification(evidence, None if sound else against)
    if claim is None and found.word == "proved":
        status = "completed"
        problems.insert(0, _substance("return-missing", "It left no report; its work is proved.", "warning"))
    elif claim is None and evidence.cause != "cancelled" and not waits:
        said = any(problem.detail for problem in problems if problem.code in _ENDINGS)
        detail = "" if said or (evidence.exit == 0 and evidence.last_words) else evidence.stderr
        problems.insert(0, _substance("return-missing", _no_return(evidence), detail=detail, fix=_where(evidence)))
    last_words = evidence.last_words.strip() if claim is None and status in ("failed", "partial") else ""
    return Verdict(status, claim, found, _summary(evidence, status), tuple(problems), last_words)


def _counts(evidence: Evidence, problem: Problem) -> bool:
    """Whether a problem keeps a result from being completed."""
    return problem.level == "error" and (problem.of == "substance" or evidence.strict)


def _is_no_silence(problem: Problem) -> bool:
    return problem.level == "error" and problem.code in _NO_SILENCE


def _status(evidence: Evidence, claim: Status | None, problems: list[Problem]) -> Status:
    check_failed = any(not check.passed for check in evidence.checks)
    check_failed |= any(fact.is_check and not fact.passed for fact in evidence.facts)
    held = [fact for fact in evidence.deliverables if fact.holds]
    if evidence.cause == "cancelled":
        return "cancelled"
    if evidence.escalated:
        return "blocked"
    if claim is None and (evidence.open_questions or evidence.paused):
        return "needs-input"
    if claim is None and evidence.delegated:
        return "blocked"
    if claim is None:
        return "partial" if held and len(held) == len(evidence.deliverables) and not check_failed else "failed"
    if claim != "completed":
        return claim
    if evidence.open_questions:
        return "needs-input"
    if not any(_counts(evidence, problem) for problem in problems):
        return "completed"
    return "failed" if check_failed or not held else "partial"


def _summary(evidence: Evidence, status: str) -> str:
    if evidence.returned and evidence.returned.summary:
        return evidence.returned.summary
    if evidence.returned and evidence.returned.status:
        return "The agent gave no summary."
    if status == "completed":
        said = f" It said: {shorten(one_line(evidence.last_words), 400)}" if evidence.last_words.strip() else ""
        return f"No report.{said}"
    if evidence.escalated:
        return f"It called for a person: {evidence.escalated}"
    if status == "blocked" and evidence.delegated:
        return f"It waits for {evidence.delegated} task(s) that it delegated, and goes on when they are done."
    if status == "needs-input":
        return "It waits for an answer." if evidence.open_questions else "It asked, and was answered."
    return f"The run ended ({evidence.cause}) without a return; judged {status}."


def _where(evidence: Evidence) -> str:
    """What to mend, if a return lies where none is looked for."""
    misplaced = "OUTPUT.md in the project's folder is no return; write it where OVERHAND_OUTPUT says."
    return misplaced if "OUTPUT.md" in evidence.changed else ""


def _no_return(evidence: Evidence) -> str:
    ends = {
        "answer-timeout": "Nobody answered in time.",
        "budget": "The run used up its budget.",
        "timeout": "The run reached its deadline without a return.",
        "lost": "The run was lost and left no return.",
        "killed": "The agent's program was killed and left no return.",
    }
    by_itself = evidence.cause == "killed" and evidence.final not in (None, "none")  # some exit with such codes
    return ends.get("" if by_itself else evidence.cause, "The run ended without a return that could be read.")


def _substance(code: str, message: str, level: str = "error", fix: str = "", detail: str = "") -> Problem:
    return Problem(code, message, level=level, of="substance", fix=fix, detail=detail)


def _ending(evidence: Evidence) -> list[Problem]:
    """How the program ended; for a return written before our own signal or the crash, the form must be whole."""
    if evidence.cause == "cancelled" or evidence.escalated:
        return []  # we ended it
    if evidence.cause in ("lost", "timeout", "answer-timeout", "budget") or evidence.exit is None:
        if evidence.returned is None:
            return []  # that there is no return says it all
        if evidence.complete_form:
            return [_substance("exit-unknown", f"The run ended by {evidence.cause}; its return was whole.", "warning")]
        return [_substance("exit-unknown", f"The run ended by {evidence.cause} and its return is not whole.")]
    if evidence.final is not None:
        return _final(evidence)
    if evidence.exit == 0:
        return []
    level = "warning" if evidence.by_hand or any(check.passed for check in evidence.checks) else "error"
    text = f"The agent's program ended with exit code {evidence.exit}."
    return [_substance("exit-not-zero", text, level, detail=evidence.stderr)]


def _final(evidence: Evidence) -> list[Problem]:
    """An agent's own last event; its exit code is 0 after errors, denials and signals too."""
    why = f" ({evidence.final_why})" if evidence.final_why else ""
    found = [_substance("permission-denied", f"It was not allowed to use {one}.", "warning") for one in evidence.denied]
    if evidence.final == "clean":
        return found
    ends = {
        "api-error": "The model's service answered with an error",
        "rate-limit": "The model's service wants a pause",
        "auth": "The agent is not logged in, or its key is not accepted",
        "max-turns": "The agent was cut off after its largest number of turns",
        "budget": "The agent's own budget was used up",
        "refused": "The model refused",
        "aborted": "The agent was interrupted",
    }
    broke_off = "The agent's program broke off" if why else "The agent ended without its last event"
    text = ends.get(evidence.final or "", broke_off)
    return [*found, _substance("final-event", f"{text}{why}.", detail=evidence.stderr)]


def _files(evidence: Evidence) -> list[Problem]:
    problems = [problem for fact in evidence.deliverables for problem in _deliverable(fact)]
    promised = {fact.path for fact in evidence.deliverables}
    for fact in evidence.named:
        if fact.path in promised:
            continue
        if not fact.inside:
            problems.append(_substance("file-outside", f"The return names {fact.path}, which is outside the tree."))
        elif not fact.exists:
            problems.append(_substance("file-missing", f"The return names {fact.path}, which does not exist."))
        elif fact.empty:
            problems.append(_substance("file-empty", f"The return names {fact.path}, which is empty."))
    return problems


def _deliverable(fact: FileFact) -> list[Problem]:
    if not fact.inside:
        return [_substance("deliverable-outside", f"{fact.path} is not inside the working tree.")]
    if not fact.exists:
        return [_substance("deliverable-missing", f"{fact.path} was promised and does not exist.")]
    if fact.empty:
        return [_substance("deliverable-empty", f"{fact.path} was promised and is empty.")]
    if fact.waived:
        return []
    if fact.change == "untouched":
        fix = "Write (may be unchanged) behind it in the HANDOFF if that is right."
        return [_substance("deliverable-untouched", f"{fact.path} is what it was before the task began.", fix=fix)]
    if fact.change == "touched":
        return [_substance("deliverable-same-content", f"{fact.path} was written again unchanged.", "warning")]
    return []


def _checks(evidence: Evidence) -> list[Problem]:
    problems = []
    for check in evidence.checks:
        if not check.passed:
            how = "did not end in time" if check.timed_out else f"ended with {check.after}"
            before = "; it was already red before the run" if check.already_red else ""
            text = f"Check {check.name} ({check.command}) {how}{before}."
            problems.append(_substance("check-failed", text, detail=check.tail))
    return problems


def _steps(evidence: Evidence) -> list[Problem]:
    if not evidence.returned or evidence.returned.status != "completed":
        return []
    problems = []
    for marker, text in evidence.steps:
        if not marker:
            said = f"The plan's step «{text}» no longer stands in HANDOFF.md as it was planned: it counts as open."
            problems.append(_substance("plan-step-open", said, "warning"))
        elif marker in "!?":
            problems.append(_substance("plan-step-failed", f"The plan's step «{text}» is marked [{marker}]."))
        elif marker in " ~":
            problems.append(_substance("plan-step-open", f"The plan's step «{text}» is still open.", "warning"))
    if evidence.open_questions:
        problems.append(_substance("question-open", f"{evidence.open_questions} question(s) are unanswered."))
    return problems


def _changes(evidence: Evidence) -> list[Problem]:
    if not evidence.changed:
        return []
    named = () if evidence.read_only else evidence.named
    listed = {fact.path for fact in (*evidence.deliverables, *named)}
    folders = tuple(f"{path.rstrip('/')}/" for path in listed)
    unlisted = [path for path in evidence.changed if path not in listed and not path.startswith(folders)]
    if not unlisted:
        return []
    if evidence.read_only:
        beyond = " beyond what it promises" if evidence.deliverables else ""
        some = f"{beyond}: {', '.join(unlisted[:5])}"
        return [_substance("read-only-changed", f"The task may only read, yet files changed{some}.")]
    return [_substance("changed-unlisted", f"Also changed: {', '.join(unlisted[:10])}.", "warning")]
