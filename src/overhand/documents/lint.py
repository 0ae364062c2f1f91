"""Which kind of document a file is, and what is wrong with it: `overhand check FILE`."""

from __future__ import annotations

import re
from collections.abc import Callable

from overhand.documents import agentfile, alert, checkpoint, context, contracts, handoff, ipc, output, quick, request
from overhand.documents.markdown import front_matter
from overhand.documents.problems import Problem, by_line, has_errors
from overhand.documents.problems import as_errors as as_strict
from overhand.documents.returns import parse_return
from overhand.documents.text import decode_text, load_json, load_object

_ACCEPTED = (
    "HANDOFF.md, OUTPUT.md, CONTEXT.md, NNN.question, NNN.answer, result.json, a request (KIND_REQUEST_TOPIC.md),"
    " an alert (ALERT_TOPIC.md), a quick handoff, a checkpoint (ckpt_NAME.json or its document), an agent file"
    " (Markdown with YAML front matter), a plan (YAML or JSON), a contract block (=== NAME ===) or a text with"
    " CONTROL: lines"
)
_NAMES = {"handoff.md": "handoff", "output.md": "output", "context.md": "context", "result.json": "return"}
_KEYS = {"answer": "answer", "question": "question", "checkpoint_id": "checkpoint", "status": "return"}
_IPC = re.compile(r"(\d+)\.(question|answer)")
_HEADING = re.compile(r"^#{1,2}[ \t]+(.*)$", re.MULTILINE)
_REQUEST = re.compile(r"[A-Z][A-Z0-9_]*_REQUEST_.+\.md")
_REQUESTED = re.compile(r"[a-z][a-z0-9-]* request(?::.*)?")
_BLOCK = re.compile(r"^[ \t]*={3,}[ \t]*[A-Za-z][A-Za-z _]*={3,}[ \t]*$", re.MULTILINE)
_PARSERS: dict[str, Callable[[str], tuple[object, list[Problem]]]] = {
    "output": output.parse_output,
    "context": context.parse_context,
    "alert": alert.parse_alert,
    "checkpoint": checkpoint.parse_checkpoint,
    "contract": contracts.parse_block,
    "agent": agentfile.parse_agent_file,
}


def lint_document(
    name: str,
    raw: bytes,
    *,
    exists: Callable[[str], bool] | None = None,
    size_of: Callable[[str], int | None] | None = None,
    strict: bool = False,
) -> tuple[str, list[Problem]]:
    """The kind of document `raw` is (`name` is a hint) and everything that is wrong with it, by line.

    `exists` checks the files it names, `size_of` (a file's number of lines) the lines it refers to.
    """
    text, problems = decode_text(raw)
    if has_errors(problems):
        return "unknown", problems
    base = name.replace("\\", "/").rsplit("/", 1)[-1]
    kind = document_kind(base, text)
    problems = by_line(problems + _check(kind, base, text, exists, size_of))
    return kind, as_strict(problems) if strict else problems


def document_kind(base: str, text: str) -> str:
    """The kind of a document by its file's name, else by its beginning; `unknown` if neither helps."""
    if known := _NAMES.get(base.lower()):
        # A run's handoff.md is a quick one, even on a file system that ignores case.
        return "quick" if known == "handoff" and _heading_kind(text) == "quick" else known
    if match := _IPC.fullmatch(base):
        return match.group(2)
    if _REQUEST.fullmatch(base):
        return "request"
    if base.startswith("ALERT_") and base.endswith(".md"):
        return "alert"
    if base.startswith("ckpt_") and base.endswith(".json"):
        return "checkpoint"
    start = text.lstrip()
    if start.startswith("{"):
        value, _ = load_json(start)
        return next((kind for key, kind in _KEYS.items() if isinstance(value, dict) and key in value), "unknown")
    if front_matter(start)[0] is not None:
        return "agent"
    if block := _BLOCK.search(text):
        before = text[: block.start()].strip().strip("`~").strip()
        if before in ("", "markdown", "text"):
            return "contract"
    return _heading_kind(text)


def _heading_kind(text: str) -> str:
    head = _HEADING.search(text)
    title = head.group(1).strip().lower() if head else ""
    if title.startswith("task handoff"):
        return "handoff"
    if title.startswith(("task complete", "task output", "task result")):
        return "output"
    if "context dump" in title:
        return "context"
    if title.endswith("checkpoint"):
        return "full"
    if _REQUESTED.fullmatch(title):
        return "request"
    if title.startswith("alert:"):
        return "alert"
    return "quick" if "quick handoff" in title else "unknown"


def _check(
    kind: str, base: str, text: str, exists: Callable[[str], bool] | None, size_of: Callable[[str], int | None] | None
) -> list[Problem]:
    if parse := _PARSERS.get(kind):
        return parse(text)[1]
    numbered = _IPC.fullmatch(base)
    seq = int(numbered.group(1)) if numbered else None
    match kind:
        case "handoff":
            return handoff.lint_handoff(text, exists=exists)
        case "request":
            return request.lint(text, name=base)
        case "quick":
            return quick.lint_quick(text, size_of)
        case "full":
            return checkpoint.lint_full(text, size_of)
        case "question":
            return ipc.parse_question(text, seq)[1]
        case "answer":
            return ipc.parse_answer(text, seq)[1]
        case "return":
            value, error = load_json(text)
            return load_object(text)[1] if error else parse_return(value)[1]
    message = f"It cannot be told which document {base or 'this'} is."
    return [Problem("unknown-document", message, fix=f"Name or begin it like one of {_ACCEPTED}.")]
