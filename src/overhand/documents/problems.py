"""What can be wrong with a document: one value for all of them, and the list of every code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, where, and what to do about it."""

    code: str
    message: str
    level: str = "error"  # `error` or `warning`
    of: str = "form"  # `form` (sections, lengths, headings) or `substance` (phantom file, failed check, wrong data)
    line: int | None = None
    fix: str = ""
    detail: str = ""  # the end of what a program printed about it

    def as_json(self) -> dict[str, object]:
        """The problem as `--json` shows it, without what is empty."""
        names = ("code", "level", "of", "message", "line", "fix", "detail")
        return {name: value for name in names if (value := getattr(self, name)) not in (None, "")}


def warning(code: str, message: str, line: int | None = None, fix: str = "") -> Problem:
    """A warning about form."""
    return Problem(code, message, "warning", "form", line, fix)


def wrong(code: str, message: str, line: int | None = None, fix: str = "") -> Problem:
    """An error of substance."""
    return Problem(code, message, "error", "substance", line, fix)


def as_errors(problems: Iterable[Problem]) -> list[Problem]:
    """The same problems with every warning an error."""
    return [replace(one, level="error") for one in problems]


def by_line(problems: Iterable[Problem]) -> list[Problem]:
    """Problems in reading order, those without a line first."""
    return sorted(problems, key=lambda one: (one.line or 0, one.code))


def has_errors(problems: Iterable[Problem]) -> bool:
    return any(one.level == "error" for one in problems)


CODES: dict[str, str] = {
    # any document
    "broken-utf8": "Bytes that are not UTF-8 were replaced.",
    "nul-byte": "The text holds NUL bytes, which no editor writes.",
    "too-large": "The file is larger than any document may be.",
    "unknown-document": "It cannot be told which document this is.",
    "duplicate-section": "A section occurs twice; the first one counts.",
    "heading-level": "Sections are not at level two; they were read all the same.",
    "wrapped-in-fence": "The whole document is inside a code fence; it was unwrapped.",
    # HANDOFF.md
    "empty-task": "The handoff does not say what is to be done.",
    "vague-task": "The task is too short or too general to be done by somebody else.",
    "no-deliverable": "Nothing is expected, so nothing can be checked.",
    "no-return-requirement": "The handoff does not say what the caller needs to know.",
    "key-file-missing": "A key file is not there.",
    "context-long": "The context is pasted instead of referred to.",
    "step-unclear": "A plan step has no text.",
    # OUTPUT.md
    "title-missing": "There is no `# Task Complete: title`.",
    "status-missing": "There is no `**Status:**` line.",
    "status-unknown": "The status is not one of the seven words.",
    "status-synonym": "The status was read from another word.",
    "status-several": "Several statuses are listed; none of them is a claim.",
    "status-contradicts": "Two statuses of one document say different things.",
    "status-filled-in": "The status stands in the wrong place; it was read all the same.",
    "summary-missing": "There is no summary.",
    "summary-long": "The summary is longer than five sentences, 100 tokens or 500 characters.",
    "data-invalid": "`## Data` is not one block of valid JSON.",
    "data-several": "`## Data` holds several blocks; the first one counts.",
    # CONTEXT.md
    "context-field-missing": "Task ID, Dumped or Reason is missing.",
    "context-section-missing": "A section that a successor needs is missing.",
    "reason-unknown": "The reason is not one of the causes a run ends with.",
    # requests
    "request-empty": "The request does not say what is wanted.",
    "request-kind": "The file's name and its tag disagree about the kind of work.",
    "request-section-missing": "A section that says why, what to deliver, how to tell, or who asks is missing.",
    "request-tag-missing": "The Tags line is missing, or has no tag such as `#needs-fix`.",
    # alerts
    "alert-empty": "The alert has no title.",
    "alert-section-missing": "What changed, its impact, its duration or a workaround is missing.",
    "alert-tag-missing": "The Tags line has neither `#active-alert` nor `#done-alert`.",
    # quick handoffs, checkpoint documents
    "handoff-field-missing": "A field that a successor needs (Status, Next …) is missing.",
    "handoff-long": "The quick handoff has more than 300 words.",
    "handoff-too-long": "The handoff has more than 5,000 words.",
    "handoff-code": "Code is pasted into the handoff instead of referred to.",
    "reference-missing": "A file that is referred to is not there.",
    "reference-beyond": "A line that is referred to is not in the file.",
    # JSON: questions, answers, returns, checkpoints
    "not-json": "The text is not valid JSON.",
    "not-an-object": "A JSON object was needed.",
    "field-missing": "A required field is missing.",
    "field-type": "A field has the wrong type or form.",
    "field-unknown": "A field that is not part of the format was kept or ignored.",
    "seq-mismatch": "The number inside differs from the number in the file's name.",
    "budget-mismatch": "The percentage does not fit what was used of the limit.",
    "budget-exceeded": "More was used than the limit allows.",
    # output contracts
    "contract-missing": "There is no `=== NAME ===` block.",
    "contract-unknown": "The block's name is not one of the three contracts.",
    "contract-unclosed": "The block has no `=== END ===`.",
    "contract-field-missing": "A required field of the contract is missing.",
    "contract-value": "A field's value is not one of those the contract allows.",
    "contract-line": "A line of the block was not understood; it was kept.",
    "contract-part-missing": "An entry lacks a part that the contract asks for.",
    "contract-long": "The block is longer than 2,000 tokens.",
    # contracts by JSON Schema
    "schema-invalid": "The contract's JSON Schema is not a schema.",
    "data-mismatch": "The data do not match the contract's JSON Schema.",
    # agent files
    "front-matter-missing": "The file does not begin with YAML between `---` lines.",
    "front-matter-invalid": "The front matter is not valid YAML.",
    "front-matter-lines": "The front matter is not valid YAML, but its lines could be read one by one.",
    "agent-name": "The agent's name is missing or not of the form `[A-Za-z0-9][A-Za-z0-9._-]*`.",
    "agent-field": "A field of the agent file has the wrong type or value.",
    "agent-prompt-missing": "The agent file has no role prompt below its front matter.",
}
