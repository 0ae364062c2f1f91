"""HANDOFF.md: the task that an agent gets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from overhand.documents.contracts import CONTRACTS, contract_name
from overhand.documents.inline import leading_code
from overhand.documents.layout import (
    Section,
    Sheet,
    bold_pair,
    contain_in_section,
    entries,
    entry,
    escaped,
    heading,
    is_plain,
    list_lines,
    looks_like_path,
    name_of,
    noted_path,
    pair,
    quoted_path,
    read_sheet,
    render_sections,
    split_note,
    texts_of,
    unescaped,
)
from overhand.documents.markdown import markdown_lines, task_lines
from overhand.documents.problems import Problem, by_line, warning
from overhand.documents.problems import as_errors as as_strict
from overhand.documents.text import one_line, shorten, unix_lines

_KNOWN = {
    "task": "task",
    "context": "context",
    "key files": "key_files",
    "constraints": "constraints",
    "expected deliverables": "deliverables",
    "deliverables": "deliverables",
    "return requirements": "return_requirements",
    "execution strategy": "strategy",
    "plan": "plan",
    "contract": "contract",
    "previous worker context": "previous",
}
# the expected result of a task without a deliverable, by kind; prose, so it stays unverified
_EXPECTED = {
    "research": "An answer to the question, with its sources",
    "exploration": "An account of what is there, with the places where it was found",
    "plan": "A plan that somebody else could carry out",
    "review": "A verdict, with every issue and where it is",
    "fix": "The fault no longer occurs",
    "none": "What the task asks for",
}
DEFAULT_RETURN = "- What was done, what was checked, and what is left open"
_CONTEXT_LIMIT = 4000
_WAIVER = "(may be unchanged)"
_PLAIN_ENTRY = re.compile(r"[A-Za-z][\w ,.;:'/-]*[\w.]")
_FENCED = re.compile(r"\A\s*(```+|~~~+)[ \w]*\n(\s*# .*)\n\1\s*\Z", re.DOTALL)  # the whole document in a fence
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1780-\u17ff\u3040-\u9fff\uac00-\ud7af]")  # scripts that write no blanks
_SENTENCE = re.compile(r"(?<=[.!?])\s")
_QUESTION = re.compile(r"(?:^|\s)\(IPC:\s*([^()\s]+)\)$")
_DASH = re.compile(r"(?:^|(?<= ))(?=\\*—(?: |$))")
_ESCAPED_DASH = re.compile(r"(?:^|(?<= ))\\(?=\\*—(?: |$))")
_LINES_IN_FILE = re.compile(r":\d+(?:[-,]\d+)*$")
# a line that is nothing but `Use: RESEARCH_OUTPUT contract`
_USE = re.compile(
    r"^[ \t]*(?:(?:[-*+]|\d+[.)])[ \t]+)?\**use(:?)\**[ \t]+(?:the[ \t]+)?`?([a-z][\w -]*?|\S+\.json)`?[ \t]+contract"
    r"[ \t]*(?:\([^()\n]*\))?[.!]?[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_AND = re.compile(r"\s*,\s*(?:and\s+)?|\s+and\s+|\s*[;+&]\s*")
_PLACEHOLDER = re.compile(r"[\[<{][^\n]*[\]>}]")  # of a template that was not filled in
_NAMES_FILE = re.compile(r"\w[./]\w")
_FEW = 6  # characters
_WORD = re.compile(r"[^\W\d_][\w'-]*")
_VAGUE = (
    " a all analyse analyze and any better bug bugs check clean cleanup code codebase do error errors"
    " everything fix for good handle help improve in issue issues it make me my nice of please problem problems"
    " refactor some something stuff task that the them these thing things this to up update work working "
)


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A file the agent should read, and why."""

    path: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Deliverable:
    """Something that must exist at the end; with a path it is checked, without one it is prose."""

    text: str = ""
    path: str | None = None
    done: bool = False
    may_be_unchanged: bool = False


@dataclass(frozen=True, slots=True)
class HandoffStep:
    """A line of the plan; marker ` ` open, `x` done, `?` waits for an answer, `!` failed, `~` in progress."""

    marker: str
    text: str
    line: int = field(default=0, compare=False)  # its line in the file; ignored in comparisons
    question: str = ""  # the name of its question (`001.question`)
    error: str = ""  # what went wrong, for a step marked `!`


@dataclass(frozen=True, slots=True)
class Handoff:
    """A task as it is handed over."""

    task: str
    context: str = ""
    key_files: tuple[KeyFile, ...] = ()
    constraints: tuple[str, ...] = ()
    deliverables: tuple[Deliverable, ...] = ()
    return_requirements: str = ""
    strategy: tuple[tuple[str, str], ...] = ()
    """Names and values of the Execution Strategy: Mode, Complexity, Model Hint, Auto-calculated."""
    plan: tuple[HandoffStep, ...] = ()
    contract: str = ""
    previous: str = ""  # what an earlier worker left (Previous Worker Context)
    extra: tuple[Section, ...] = ()

    @property
    def title(self) -> str:
        """The task's first sentence, at most 80 characters."""
        first = self.task.strip().split("\n", 1)[0].lstrip("#").strip()
        sentence = _SENTENCE.split(first, maxsplit=1)[0]
        return shorten(sentence.rstrip(".") or first, 80)


def render_handoff(handoff: Handoff) -> str:
    """HANDOFF.md for `handoff`; `parse` reads it back."""
    bodies = {
        "Task": contain_in_section(handoff.task),
        "Context": contain_in_section(handoff.context),
        "Key Files": list_lines(noted_path(one.path, one.why) for one in handoff.key_files),
        "Constraints": list_lines(handoff.constraints),
        "Expected Deliverables": deliverable_lines(handoff.deliverables),
        "Return Requirements": contain_in_section(handoff.return_requirements),
        "Execution Strategy": list_lines(bold_pair(*one) for one in handoff.strategy),
        "Plan": "\n".join(_step_line(one) for one in handoff.plan),
        "Contract": contain_in_section(handoff.contract),
        "Previous Worker Context": contain_in_section(handoff.previous),
    }
    text = f"{heading('Task Handoff', 1)}\n{render_sections(bodies, handoff.extra, always='Task')}"
    return text.rstrip("\n") + "\n"


def with_kind_defaults(handoff: Handoff, kind: str | None) -> Handoff:
    """The handoff with its kind's defaults for missing deliverables and return requirements."""
    if handoff.deliverables and handoff.return_requirements:
        return handoff
    return replace(
        handoff,
        deliverables=handoff.deliverables or expected_of_kind(kind),
        return_requirements=handoff.return_requirements or DEFAULT_RETURN,
    )


@lru_cache(maxsize=64)
def expected_of_kind(kind: str | None) -> tuple[Deliverable, ...]:
    """What is expected of a task of this kind that names nothing."""
    return (Deliverable(text=_EXPECTED.get(kind or "", _EXPECTED["none"])),)


def deliverable_lines(deliverables: Iterable[Deliverable]) -> str:
    """Deliverables as a list with boxes."""
    rows = []
    for one in deliverables:
        text = escaped(one.text) if one.path is None else noted_path(one.path, one.text)
        rows.append(entry(f"{text} {_WAIVER}" if one.may_be_unchanged else text, "x" if one.done else " "))
    return "".join(rows).rstrip("\n")


def _step_line(step: HandoffStep) -> str:
    text, error = one_line(step.text), one_line(step.error)
    if step.marker == "!" and not error:
        text = _DASH.sub(r"\\", text)
    if step.question:
        text += f" (IPC: {step.question})"
    if step.marker == "!" and error:
        text += " — " + _DASH.sub(r"\\", error)
    return f"- [{step.marker}] {text}"


def parse_handoff(text: str) -> Handoff:
    """The handoff a file holds; anything is accepted, missing sections are empty, unknown ones are kept."""
    return _read(text)[1]


def _read(text: str) -> tuple[Sheet, Handoff]:
    """Parse with a cache for short texts: each is read several times between a delegation and its verdict."""
    return _read_cached(text) if len(text) < 20_000 else _read_any(text)


def _read_any(text: str) -> tuple[Sheet, Handoff]:
    sheet = read_sheet(_FENCED.sub(r"\n\2", unix_lines(text)), _KNOWN)
    task, preamble = sheet.body("task"), sheet.preamble
    if "task" not in sheet.bodies:  # a file written by hand: its title and first paragraphs are the task
        title = sheet.title or ""
        if name_of(title).startswith("task handoff"):
            title = title.partition(":")[2].strip()
        task, preamble = "\n\n".join(part for part in (title, preamble) if part), ""
    raw = sheet.raw
    steps = task_lines(raw("plan"), 0, None, sheet.lines.get("plan", 0) + 1)
    return sheet, Handoff(
        task=task,
        context=sheet.body("context"),
        key_files=tuple(_key_file(text) for text in texts_of(raw("key_files"))),
        constraints=texts_of(raw("constraints")),
        deliverables=read_deliverables(raw("deliverables")),
        return_requirements=sheet.body("return_requirements"),
        strategy=tuple(pair(text) for text in texts_of(raw("strategy"))),
        plan=tuple(_step(one.text, one.box, one.number) for one in steps),
        contract=sheet.body("contract"),
        previous=sheet.body("previous"),
        extra=sheet.unknown(preamble),
    )


_read_cached = lru_cache(maxsize=128)(_read_any)


def _key_file(text: str) -> KeyFile:
    if found := quoted_path(text):
        return KeyFile(*found)
    head, rest = split_note(text)
    return KeyFile(head, rest) if rest and " " not in head else KeyFile(text)


def read_deliverables(body: str) -> tuple[Deliverable, ...]:
    """The deliverables that a list names."""
    return tuple(read_deliverable(text, one.box) for one in entries(body, boxes=True) for text in _each(one.text))


def _each(text: str) -> Iterator[str]:
    """An entry, or several: `` `a.md`, `b.md` and `c.md` — pages `` promises three files."""
    waiver = f" {_WAIVER}" if text.lower().endswith(_WAIVER) else ""
    while (quoted := leading_code(text)) and looks_like_path(quoted[0]):
        match = _AND.match(text, quoted[1])
        following = leading_code(text[match.end() :]) if match else None
        if not match or not following or not looks_like_path(following[0]):
            break
        yield text[: quoted[1]] + waiver
        text = text[match.end() :]
    yield text


def read_deliverable(text: str, box: str) -> Deliverable:
    """The deliverable that an entry of the list names."""
    waived = text.lower().endswith(_WAIVER)
    if waived:
        text = text[: -len(_WAIVER)].rstrip()
    note, path = unescaped(text), None
    if found := quoted_path(text):
        path, note = found
    return Deliverable(note, path, box == "x", waived)


def _step(text: str, marker: str, line: int) -> HandoffStep:
    error = ""
    if marker == "!":
        text, dash, error = text.rpartition(" — ")
        if not dash:
            text, error = _ESCAPED_DASH.sub("", error), ""
        error = _ESCAPED_DASH.sub("", error)
    question = ""
    if text.endswith(")") and (match := _QUESTION.search(text)):
        text, question = text[: match.start()], match.group(1)
    return HandoffStep(marker, text.rstrip(), line, question, error)


def promises_files(handoff: Handoff) -> bool:
    """Whether it names files to check at the end."""
    for one in handoff.deliverables:  # noqa: SIM110 -- of a generator, each task would make four
        if one.path:
            return True
    return False


def wanted_contract(handoff: Handoff) -> str | None:
    """The contract named by `Use: RESEARCH_OUTPUT contract` in the return requirements."""
    for match in _USE.finditer(handoff.return_requirements):
        name = match[2].strip()
        name = name if name.endswith(".json") else contract_name(name)
        if match[1] or name in CONTRACTS:  # without the colon it may be prose: “Use our data contract.”
            return name
    return None


def lint_handoff(text: str, *, exists: Callable[[str], bool] | None = None, strict: bool = False) -> list[Problem]:
    """Everything that is wrong with a HANDOFF.md; `exists` says whether a path exists."""
    sheet, handoff = _read(text)
    problems = [*sheet.problems, *_lint(handoff, sheet.lines)]
    if exists and handoff.key_files:
        problems += _lint_key_files(sheet, handoff, exists)
    return as_strict(by_line(problems)) if strict else by_line(problems)


def is_flawless(handoff: Handoff) -> bool:
    """Whether its HANDOFF.md is read back as this very value, and nothing is wrong with it: then neither need be done.

    Only what is plain is recognised; a HANDOFF with files, steps or Markdown in its lists has to be read.
    """
    if handoff.key_files or handoff.strategy or handoff.plan or handoff.extra:
        return False
    for one in handoff.deliverables:
        if one.path is not None or one.done or one.may_be_unchanged or not _PLAIN_ENTRY.fullmatch(one.text):
            return False
    bodies = (handoff.task, handoff.context, handoff.return_requirements, handoff.contract, handoff.previous)
    are_plain = all(map(is_plain, bodies)) and all(map(_PLAIN_ENTRY.fullmatch, handoff.constraints))
    return are_plain and not _lint(handoff, {})


def _lint(handoff: Handoff, at: Mapping[str, int]) -> list[Problem]:
    """What is wrong with a handoff whose sections begin at these lines."""
    problems = _lint_task(handoff, at.get("task", 1))
    if len(handoff.context) > _CONTEXT_LIMIT:
        message = f"The context has {len(handoff.context)} characters; more than {_CONTEXT_LIMIT} is pasting."
        fix = "Refer to files under Key Files instead."
        problems.append(warning("context-long", message, at.get("context"), fix))
    if not handoff.deliverables:
        fix = "Add `## Expected Deliverables` with `- [ ] `path` — what`."
        problems.append(warning("no-deliverable", "Nothing is expected back.", at.get("deliverables"), fix))
    if not handoff.return_requirements:
        fix = "Add `## Return Requirements`: what the caller must know."
        message = "The handoff does not say what to report."
        problems.append(warning("no-return-requirement", message, at.get("return_requirements"), fix))
    for step in handoff.plan:
        if not step.text:
            problems.append(warning("step-unclear", "A plan step has no text.", step.line, "Say what it does."))
    return problems


def _lint_task(handoff: Handoff, line: int) -> list[Problem]:
    task = handoff.task
    if "\n" in task or "<!--" in task:
        task = "\n".join(task[one.start : one.end] for one in markdown_lines(task) if one.kind != "comment")
    if not task.strip():
        fix = "Say under `## Task` what is to be done."
        return [Problem("empty-task", "The task is empty.", line=line, fix=fix)]
    if is_vague(task):
        fix = "Name what to change, where, and how one sees that it is done."
        return [warning("vague-task", f"The task “{shorten(one_line(task), 40)}” is vague.", line, fix)]
    return []


def is_vague(task: str) -> bool:
    """Whether a task is too short, or made of words that fit every task."""
    if _UNSPACED.search(task):
        return len(task.strip()) < _FEW
    if _PLACEHOLDER.fullmatch(task.strip()):
        return True
    if len(task.split(maxsplit=3)) < 3:
        return not _NAMES_FILE.search(task)
    words = 0
    for match in _WORD.finditer(task, 0, 2000):
        if f" {match[0].lower()} " not in _VAGUE:
            return False
        words += 1
    return words > 0


def _lint_key_files(sheet: Sheet, handoff: Handoff, exists: Callable[[str], bool]) -> list[Problem]:
    found = entries(sheet.raw("key_files"), sheet.lines.get("key_files", 0) + 1)
    problems: list[Problem] = []
    for one, key in zip(found, handoff.key_files, strict=True):
        if not quoted_path(one.text) and not looks_like_path(key.path):
            continue  # prose among the key files
        path = _LINES_IN_FILE.sub("", key.path)
        if not exists(path):
            fix = "Correct the path or remove the line."
            problems.append(warning("key-file-missing", f"The key file {path} is not there.", one.line, fix))
    return problems
