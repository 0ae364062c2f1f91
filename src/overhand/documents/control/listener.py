"""Recognizes CONTROL lines in a stream, however it is cut into chunks.

A command begins at the first column of a line, outside fences, indented code and comments; a quoted line begins with
`>`, so it is not one. Its offset in the stream identifies it: reading the same bytes again finds the same commands at
the same offsets, so each can be executed once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from overhand.documents.control import lines
from overhand.documents.markdown import MarkdownLine, Scanner
from overhand.documents.problems import Problem, warning

LINE_LIMIT = 64 * 1024
BLOCK_LIMIT = 32 * 1024
PARAGRAPH_LIMIT = 4 * 1024

_BLOCK = re.compile(r"[ \t]*delegation[ \t]*:[ \t\r]*$")
_TO_AGENT = re.compile(r"^[ \t]*to_agent[ \t]*:[ \t]*[\"']?([^\s\"'#]+)", re.MULTILINE)
# A block that lost its indentation is still a block while its lines begin like this.
_FLAT = re.compile(
    r"(?:from_agent|to_agent|task|description|scope|deliverable|expected_output|context|current_phase|token_budget"
    r"|priority|timeout)[ \t]*:|- "
)


@dataclass(frozen=True, slots=True)
class ControlCommand:
    """A CONTROL line and what belongs to it; without a word it could not be parsed, and a problem says why."""

    word: str
    target: str = ""  # the checkpoint of a RESUME (none: the latest), or the agent of a DELEGATE
    reason: str = ""
    offset: int = 0  # where the line begins, in bytes from the start of the stream
    line: int = 1
    paragraph: str = ""  # the text before the line, which is the question of a PAUSE without a reason
    block: str = ""  # the `delegation:` block after a DELEGATE, verbatim
    problems: tuple[Problem, ...] = ()

    @property
    def refused(self) -> Problem | None:
        """Why it is not executed, as far as the text alone shows."""
        bad = (one for one in self.problems if one.level == "error" or one.code == "control-no-task")
        return next(bad, None)


class _Paragraph:
    """The paragraph before a line; a list goes with the paragraph that leads to it."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.size = 0
        self.ended = True

    def add(self, line: MarkdownLine, text: str) -> None:
        text = line.text if line.kind == "heading" else text.rstrip()
        if not text.strip("-*_=~ \t"):  # a rule, or the line under a heading
            self.ended = True
            return
        if self.ended or line.kind == "heading":
            if self.kept and (line.kind == "item" or line.depth):
                self._keep("")
            else:
                self.forget()
        self._keep(text[-PARAGRAPH_LIMIT:])
        self.ended = line.kind == "heading"

    def _keep(self, text: str) -> None:
        self.kept.append(text)
        self.size += len(text) + 1
        while self.size > PARAGRAPH_LIMIT + 1:
            self.size -= len(self.kept.pop(0)) + 1

    def forget(self) -> None:
        """Drop the paragraph once it has been asked; the next question needs its own."""
        self.kept, self.size = [], 0

    def text(self) -> str:
        """The paragraph; of a very long one, its end."""
        return "\n".join(self.kept).strip("\n")


class _Pending:
    """A command that may continue on the next line."""

    def __init__(self, attempt: lines.Attempt, offset: int, number: int, paragraph: str) -> None:
        self.attempt, self.offset, self.number, self.paragraph = attempt, offset, number, paragraph
        self.reason, self.delegates = attempt.reason, attempt.word == "DELEGATE"
        self.first = True  # no line after it was seen yet
        self.inside = ""  # `plain` or `fence`, while its block is read
        self.block: list[str] = []
        self.size = 0

    def add(self, text: str) -> bool:
        """Add a line to the block; False if the block gets too large."""
        self.size += len(text) + 1
        if self.size > BLOCK_LIMIT:
            return False
        self.block.append(text)
        return True

    def command(self) -> ControlCommand:
        """The command, with every problem that the text alone shows."""
        word, target, _, problem = self.attempt
        block = "\n".join(self.block).rstrip() + "\n" if self.block else ""
        problems = [problem] if problem else []
        if self.size > BLOCK_LIMIT:
            message = "The delegation: block is longer than 32 KB."
            fix = "Put long material into files and name them under scope."
            problems.append(Problem("control-block-long", message, line=self.number, fix=fix))
        elif self.delegates:
            if not target and (match := _TO_AGENT.search(block)):
                target = match.group(1)
            if not target:
                fix = "Write `CONTROL: DELEGATE` and the agent's name; `overhand agents` shows them."
                problem = Problem("control-agent-missing", "DELEGATE names no agent.", line=self.number, fix=fix)
                problems.append(problem)
            if not block and not self.reason:
                message = "DELEGATE says who, but not what: it is refused."
                fix = "Add `REASON:` and the task on the same or the next line, or a `delegation:` block behind it."
                problems.append(warning("control-no-task", message, self.number, fix))
        elif word == "PAUSE" and not self.reason and not self.paragraph:
            message = "PAUSE asks nothing: it has no reason, and no paragraph before it."
            problems.append(warning("control-no-question", message, self.number, "Add `REASON:` and the question."))
        return ControlCommand(
            word, target, self.reason, self.offset, self.number, self.paragraph, block, tuple(problems)
        )


class ControlListener:
    """Reads a stream chunk by chunk; it keeps no more than a line, a paragraph and a block in memory."""

    def __init__(self) -> None:
        self._scanner = Scanner()
        self._before = _Paragraph()
        self._pending: _Pending | None = None
        self._line = bytearray()  # the current line, up to the length of a command
        self._size = 0  # how long that line is so far
        self._start = 0  # where it begins
        self._number = 1

    @property
    def waiting(self) -> bool:
        """Whether a command was read whose next line is not known yet."""
        return self._pending is not None

    def feed(self, chunk: bytes | str) -> list[ControlCommand]:
        """The commands that this chunk completes; text counts as UTF-8."""
        data = chunk.encode("utf-8", "surrogatepass") if isinstance(chunk, str) else chunk
        found: list[ControlCommand] = []
        begin = 0
        while (end := data.find(b"\n", begin)) >= 0:
            self._keep(data, begin, end)
            found += self._end_line()
            begin = end + 1
        self._keep(data, begin, len(data))
        return found

    def quiet(self) -> list[ControlCommand]:
        """The pending command, when no next line comes: an agent that asked may itself be waiting."""
        if self._pending:
            self._before.ended = True
        return self._done()

    def finish(self) -> list[ControlCommand]:
        """What is left at the end of the stream; a last line needs no newline."""
        found = self._end_line() if self._size else []
        return found + self._done()

    def _keep(self, data: bytes, begin: int, end: int) -> None:
        room = LINE_LIMIT + 1 - len(self._line)
        self._line += data[begin : min(end, begin + room)]
        self._size += end - begin

    def _end_line(self) -> list[ControlCommand]:
        text = self._line.decode("utf-8", "replace")
        start, number, short = self._start, self._number, self._size <= LINE_LIMIT
        self._line.clear()
        self._start, self._size, self._number = start + self._size + 1, 0, number + 1
        if start == 0:
            text = text.removeprefix("\ufeff")
        return self._read(text.rstrip("\r"), start, number, short)

    def _done(self) -> list[ControlCommand]:
        pending, self._pending = self._pending, None
        return [pending.command()] if pending else []

    def _read(self, text: str, start: int, number: int, short: bool) -> list[ControlCommand]:
        found: list[ControlCommand] = []
        pending = self._pending
        if pending and pending.inside == "plain":
            if not text.strip() or text[0] in " \t" or (pending.block[-1].strip() and _FLAT.match(text)):
                return [] if pending.add(text) else self._done()
            found = self._done()
            self._scanner.end_paragraph()
        line = self._scanner.line(text, number)
        if self._pending:
            found, taken = self._behind(self._pending, line, text, short)
            if taken:
                return found
        if line is None or line.kind not in ("text", "heading", "item"):
            self._before.ended = True
        elif attempt := lines.read(text, number) if short and line.kind == "text" else None:
            self._pending = _Pending(attempt, start, number, self._before.text())
            self._before.ended = True
            if attempt.word == "PAUSE":
                self._before.forget()
            if attempt.reason and not self._pending.delegates:
                found += self._done()
        else:
            self._before.add(line, text)
        return found

    def _behind(
        self, pending: _Pending, line: MarkdownLine | None, text: str, short: bool
    ) -> tuple[list[ControlCommand], bool]:
        """The commands that a line after a command completes, and whether the line belongs to it."""
        if pending.inside:
            return self._fenced(pending, text), line is None or line.kind == "code"
        first, pending.first = pending.first, False
        reason = lines.reason_of(text) if first and short and line and line.kind == "text" else None
        if reason is not None and not pending.reason:
            pending.reason = reason
            return ([] if pending.delegates else self._done()), True
        if pending.delegates:
            if line is None:
                self._before.ended = True
                return [], True
            if line.kind == "text" and _BLOCK.match(text) and text[0] == "d":
                pending.inside = "plain"
                pending.add(text)
                return [], True
            if line.kind == "code" and self._scanner.hidden:
                pending.inside = "fence"
                return [], True
        return self._done(), False

    def _fenced(self, pending: _Pending, text: str) -> list[ControlCommand]:
        if not self._scanner.hidden:  # this line closed the fence
            return self._done()
        if pending.block or _BLOCK.match(text):
            return [] if pending.add(text) else self._done()
        return self._done() if text.strip() else []
