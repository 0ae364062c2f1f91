"""The return as JSON: `result.json`, or what an agent printed; and its two-way bridge to OUTPUT.md."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from overhand.documents.decisions import Decision, is_nothing
from overhand.documents.layout import FileNote
from overhand.documents.outline import outline, read_status
from overhand.documents.output import QUOTING, Listed, Output, read_output
from overhand.documents.paths import Look, NamedFile, artifact_in, named_in
from overhand.documents.problems import Problem, warning, wrong
from overhand.documents.text import is_texts, load_json, missing, mistyped, plain_quotes
from overhand.words import STATUSES, duration

# The tokens that a search for JSON needs: whole strings (an unclosed one ends with its line, because no
# JSON string spans lines), braces, and nothing else. Each character is read once.
_TOKEN = re.compile(r'"([^"\\\n]*(?:\\.[^"\\\n]*)*)("[ \t\r\n]*:|"|)|[{}]')
_NEEDS_INPUT = "needs_input"


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file that was made or changed."""

    path: str
    type: str = ""
    summary: str = ""


@dataclass(frozen=True, slots=True)
class ReturnError:
    """Something that went wrong, and what to do about it."""

    message: str
    type: str = ""
    recoverable: bool | None = None
    recommendation: str = ""


@dataclass(frozen=True, slots=True)
class Return:
    """A return in JSON, as the agent claims it."""

    status: str | None  # one of the seven statuses, or None if there was no valid one
    summary: str
    artifacts: tuple[Artifact, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    errors: tuple[ReturnError, ...] = ()
    next_steps: str = ""
    data: object | None = None
    decisions: tuple[Decision, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)  # keys that are not part of the format, kept

    def as_json(self) -> dict[str, Any]:
        """The return as an object that `parse_return` reads back; empty parts are left out."""
        shown: dict[str, Any] = {"status": self.status} if self.status else {}
        shown["summary"] = self.summary
        shown["artifacts"] = [_filled(one) for one in self.artifacts]
        if self.metadata:
            shown["metadata"] = dict(self.metadata)
        shown["errors"] = [_filled(one) for one in self.errors]
        if self.next_steps:
            shown["next_steps"] = self.next_steps
        if self.decisions:
            shown["decisions"] = [_filled(one) for one in self.decisions]
        if self.data is not None:
            shown["data"] = self.data
        return shown | dict(self.extra)


def _filled(one: Artifact | ReturnError | Decision) -> dict[str, Any]:
    """The fields that are not empty; false is not empty."""
    return {name: value for name in one.__dataclass_fields__ if (value := getattr(one, name)) not in (None, "")}


class _FieldReader:
    """Reads fields of an object and collects every problem on the way."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def bad(self, path: str, needed: str) -> None:
        self.problems.append(mistyped(path, needed))

    def text(self, source: Mapping[str, Any], key: str, path: str, *, required: bool = False) -> str:
        """A string field; a required one must not be blank."""
        value = source.get(key)
        if value is None and not required:
            return ""
        if value is None or (required and isinstance(value, str) and not value.strip()):
            self.problems += missing({}, [path + key])
            return ""
        if not isinstance(value, str):
            self.bad(path + key, "a string")
            return ""
        return value

    def rows(self, source: Mapping[str, Any], key: str, word: str) -> list[tuple[str, Mapping[str, Any]]]:
        """A list of objects, each with its path; a bare string stands for an object with only `word`."""
        value = source.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self.bad(key, "a list")
            return []
        found: list[tuple[str, Mapping[str, Any]]] = []
        for index, one in enumerate(value):
            if isinstance(one, (str, dict)):
                found.append((f"{key}[{index}].", {word: one} if isinstance(one, str) else one))
            else:
                self.bad(f"{key}[{index}]", "an object")
        return found


_FILES = ("files_modified", "files_created", "files_changed", "files", "deliverables")  # other names for artifacts
_KEYS = frozenset(
    ("status", "summary", "artifacts", "metadata", "errors", "next_steps", "data", "decisions", "schema", *_FILES)
)


def parse_return(value: object) -> tuple[Return | None, list[Problem]]:
    """The return in a JSON value and everything that is wrong with it.

    Anything but an object is no return at all; of an object, every readable part is kept.
    """
    if not isinstance(value, dict):
        fix = 'Return one object: {"status": …, "summary": …}.'
        return None, [Problem("not-an-object", "The return is not a JSON object.", fix=fix)]
    read = _FieldReader()
    status = None
    if raw := read.text(value, "status", "", required=True):
        status, read.problems = read_status(raw)
    summary = read.text(value, "summary", "", required=True)
    artifacts = [
        Artifact(
            read.text(row, "path", path, required=True), read.text(row, "type", path), read.text(row, "summary", path)
        )
        for path, row in read.rows(value, "artifacts", "path")
    ]
    for key in _FILES:
        artifacts += [Artifact(str(row.get("path", ""))) for _, row in read.rows(value, key, "path")]
    errors = [_read_error(row, path, read) for path, row in read.rows(value, "errors", "message")]
    decisions = [
        Decision(read.text(row, "what", path, required=True), read.text(row, "why", path))
        for path, row in read.rows(value, "decisions", "what")
    ]
    metadata = value.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        read.bad("metadata", "an object")
    steps = value.get("next_steps")
    if isinstance(steps, list):
        if not is_texts(steps):
            read.bad("next_steps", "a string or a list of strings")
        next_steps = "\n".join(steps) if is_texts(steps) else ""
    else:
        next_steps = read.text(value, "next_steps", "")
    extra = {key: one for key, one in value.items() if key not in _KEYS}
    if extra:
        message = f"Not part of a return, kept: {', '.join(sorted(extra))}."
        read.problems.append(warning("field-unknown", message, fix="Put results under `data`."))
    if status == "blocked" and any(one.type.replace("-", "_").lower() == _NEEDS_INPUT for one in errors):
        status = "needs-input"
    found = Return(
        status=status,
        summary=summary,
        artifacts=tuple(one for one in artifacts if one.path),
        metadata=metadata if isinstance(metadata, dict) else {},
        errors=tuple(one for one in errors if one.message),
        next_steps=next_steps,
        data=value.get("data"),
        decisions=tuple(one for one in decisions if one.what and not is_nothing(one.what)),
        extra=extra,
    )
    return found, read.problems


def _read_error(row: Mapping[str, Any], path: str, read: _FieldReader) -> ReturnError:
    recoverable = row.get("recoverable")
    if recoverable is not None and not isinstance(recoverable, bool):
        read.bad(f"{path}recoverable", "true or false")
        recoverable = None
    message = read.text(row, "message", path, required=True)
    return ReturnError(message, read.text(row, "type", path), recoverable, read.text(row, "recommendation", path))


def load_return(text: str) -> tuple[object, str]:
    """The JSON value and "", or None and an error message; one object with two different statuses says nothing."""
    value, error = load_json(text)
    if error or text.count('"status"') < 2:
        return value, error
    import json

    def read(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        said = [str(value) for key, value in pairs if key == "status"]
        if len(set(said)) > 1:
            raise ValueError(f"one object says {' and '.join(said)}")
        return dict(pairs)

    try:
        json.loads(text, object_pairs_hook=read)
    except (ValueError, RecursionError) as problem:
        return None, str(problem)
    return value, ""


def find_return(text: str) -> object | None:
    """The last JSON object in `text` that looks like a return: plain, fenced, or in the middle of prose."""
    if '"status"' not in text:
        return None
    spans = _candidates(text)
    # Each attempt costs at most its length; hostile nesting must not make that the square of the text.
    allowance = 4 * len(text) + 65536
    for start, end in reversed(spans):
        allowance -= end - start
        if allowance < 0:
            return None
        value, error = load_return(text[start:end])
        if not error:
            return value
    return None


def _candidates(text: str) -> list[tuple[int, int]]:
    """Spans of balanced braces that hold the keys of a return, in the order of their ends."""
    found: list[tuple[int, int]] = []
    starts: list[int] = []
    keys: list[int] = []  # bit 1: status; bit 2: summary or artifacts
    position = text.find("{")
    while position >= 0:
        match = _TOKEN.search(text, position)
        if not match:
            break
        position = match.end()
        first = text[match.start()]
        if first == "{":
            starts.append(match.start())
            keys.append(0)
        elif first == '"':
            if match.group(2)[1:]:  # a colon follows: it is a key
                word = match.group(1)
                keys[-1] |= 1 if word == "status" else 2 if word in ("summary", "artifacts") else 0
        else:
            start = starts.pop()
            if keys.pop() == 3:
                found.append((start, position))
            if not starts:  # outside braces quotes have no meaning
                position = text.find("{", position)
    return found


@dataclass(frozen=True, slots=True)
class Reading:
    """A document read as a return: as an OUTPUT.md, or as JSON in its place (then there is no `output`)."""

    value: Return | None
    output: Output | None
    problems: list[Problem]
    listed: tuple[Listed, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether status and summary are both there."""
        return self.value is not None and bool(self.value.status and self.value.summary)


def read_document(text: str) -> Reading:
    """The return in a document: Markdown, also in a fence as a whole; or JSON, alone or with prose around it."""
    output, problems, listed = read_output(text)
    reading = Reading(return_from_output(output), output, problems, listed)
    plain = plain_quotes(text)
    if '"status"' not in plain:
        return reading
    if output.status is None and any(one.code == "status-missing" for one in problems):
        return _read_json(plain, reading) or reading
    found = find_return(_without(plain, ("data", "for_primary")))
    said = parse_return(found)[0] if isinstance(found, dict) else None
    if output.status and said and said.status not in (None, output.status):
        message = f"The document says {output.status}, the JSON in it {said.status}."
        problems.append(wrong("status-contradicts", message, fix="Leave only the one that holds."))
    return reading


def _read_json(text: str, markdown: Reading) -> Reading | None:
    """A document that is JSON, unless it has sections of its own or speaks of the JSON as of an example."""
    found = find_return(text)
    has_sections = markdown.listed or (markdown.output and (markdown.output.summary or markdown.output.decisions))
    around = f"{text.partition('{')[0]} {text.rpartition('}')[2]}"
    if found is None or has_sections or QUOTING.search(around):
        return None
    value, problems = parse_return(found)
    return Reading(value, None, problems)


def _without(text: str, names: tuple[str, ...]) -> str:
    """A document without its sections of these names."""
    parts = [part for part in outline(text).parts if part.name not in names]
    return "\n".join(part.body(text) for part in parts)


def named_files(value: Return | None, listed: tuple[Listed, ...] | None, look: Look) -> list[NamedFile]:
    """The files that a return names as made, changed or deleted: in its lists, or as artifacts of JSON."""
    if listed is not None:
        return [one for body, gone, files in listed for one in named_in(body, look, gone=gone, files=files)]
    artifacts = value.artifacts if value else ()
    return [one for made in artifacts for one in artifact_in(made.path, made.summary or made.type, look)]


def return_from_output(output: Output) -> Return:
    made = [Artifact(one.path, "deliverable", one.note) for one in output.deliverables if one.path]
    changed = [Artifact(one.path, "modified", one.note) for one in output.files_modified if one.path]
    metadata: dict[str, Any] = {}
    if output.agent:
        metadata["agent_type"] = output.agent
    if (seconds := _seconds(output.duration)) is not None:
        metadata["duration_seconds"] = seconds
    return Return(
        status=output.status,
        summary=output.summary,
        artifacts=tuple(made + changed),
        metadata=metadata,
        next_steps=output.for_primary,
        data=output.data,
        decisions=output.decisions,
    )


def return_to_output(value: Return, title: str = "", agent: str = "") -> Output:
    seconds = value.metadata.get("duration_seconds")
    spent = f"{seconds:g}s" if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) else ""
    notes = [(one.type, FileNote(one.path, one.summary)) for one in value.artifacts]
    named = [(f"{one.type}: " if one.type else "", one) for one in value.errors]
    errors = "\n".join([f"- {f'{kind}{one.message} {one.recommendation}'.strip()}" for kind, one in named])
    return Output(
        title=title,
        status=value.status if value.status in STATUSES else None,
        duration=spent,
        agent=agent or str(value.metadata.get("agent_type") or ""),
        summary=value.summary.strip(),
        deliverables=tuple(note for kind, note in notes if kind != "modified"),
        decisions=value.decisions,
        for_primary="\n\n".join(part for part in (value.next_steps.strip(), errors) if part),
        files_modified=tuple(note for kind, note in notes if kind == "modified"),
        data=value.data,
    )


def _seconds(text: str) -> float | None:
    """A duration in seconds; agents also write `12 minutes`."""
    match = re.fullmatch(r"(?:~|about )?(\d+(?:\.\d+)?) ?([a-z]*)", text.strip().lower())
    if not match:
        return None
    number, unit = match.groups()
    try:
        return duration(number + {"minute": "m", "second": "s", "hour": "h"}.get(unit.rstrip("s") or unit, unit))
    except ValueError:
        return None
