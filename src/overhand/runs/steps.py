"""The steps under `## Plan` of a HANDOFF.md: read from its bytes, and marked in place without touching another byte.

`documents.handoff` says what a step is. What is usual is found here without it, since a light verb cannot afford its
imports; whatever is not (front matter, tabs, headings and fences inside list items, lone CRs) is left to it.
"""

from __future__ import annotations

from overhand.errors import BadInput, NotFound
from overhand.system.files import MAX_DOCUMENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.system.edits import Patch

STATES = {"open": " ", "doing": "~", "blocked": "?", "error": "!", "done": "x"}
WORDS = {marker: word for word, marker in STATES.items()}
_MARKERS = b" xX?!~"
_BULLETS = b"-+*"
_DIGITS = b"0123456789"
_SPECIAL = b"\t_#`~<" + _BULLETS + _DIGITS  # what may mean something at the beginning of an item
_BOM = b"\xef\xbb\xbf"
_DASH = " — "


class Item:
    """One step: what it says and where it stands."""

    __slots__ = (
        "at",
        "before",
        "end",
        "error",
        "line",
        "marker",
        "number",
        "question",
        "start",
        "stop",
        "tail",
        "text",
    )

    def __init__(self, raw: bytes, number: int, line: int, start: int, end: int, at: int) -> None:
        self.number, self.line = number, line  # both from 1
        self.start, self.end, self.at = start, end, at  # the line without its end, and the marker's byte
        self.before: Item | None = None  # as it was, after `mark`
        self.marker = chr(raw[at]).lower()
        shown = raw[at + 2 : end]
        self.tail = at + 2 + len(shown.rstrip(b" \t"))
        begin = end - len(shown.lstrip(b" \t"))
        text = raw[begin : self.tail].decode("utf-8", "surrogateescape")
        bare, question, error = _split(text, self.marker)
        self.stop = self.tail  # where the text ends and what we put behind it begins
        if question or error:
            self.stop = begin + len(bare.encode("utf-8", "surrogateescape")) if bare else at + 2
        if self.marker == "!" and not error:
            bare, question, _ = _split(_unescaped(text), " ")
        self.text = _readable(bare.rstrip())
        self.question, self.error = _readable(question), _readable(_unescaped(error))

    @property
    def state(self) -> str:
        """The marker as a word."""
        return WORDS[self.marker]


def _split(text: str, marker: str) -> tuple[str, str, str]:
    """A step's text without what stands behind it: the question it waits for, and its error."""
    error = ""
    if marker == "!" and _DASH in text:
        text, _, error = text.rpartition(_DASH)
    if text.endswith(")"):
        head, _, rest = text.rpartition("(")
        name = rest[4:-1].lstrip()
        if rest.startswith("IPC:") and name and ")" not in name and name.split() == [name]:
            if not head:
                return "", name, error
            if head[-1].isspace():
                return head[:-1], name, error
    return text, "", error


def _unescaped(text: str) -> str:
    """A dash that is no separator is written with a backslash."""
    words = text.split(" ") if "\\" in text else ()
    return " ".join(w[1:] if w[:1] == "\\" and w.lstrip("\\") == "—" else w for w in words) if words else text


def _readable(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def read(raw: bytes) -> list[Item]:
    """The steps, in order."""
    if len(raw) > MAX_DOCUMENT:
        return []
    usual = read_usual(raw)
    return _read_any(raw) if usual is None else usual


def _read_any(raw: bytes) -> list[Item]:
    """What the parser of the whole document finds, by its lines."""
    from overhand.documents.handoff import parse
    from overhand.documents.text import decode

    wanted = {step.line: number for number, step in enumerate(parse(decode(raw)[0]).plan, 1)}
    return [
        Item(raw, wanted[line], line, start, end, raw.index(b"[", start) + 1)
        for line, start, end in _lines(raw)
        if line in wanted
    ]


def _lines(raw: bytes) -> Iterator[tuple[int, int, int]]:
    """Number, start and end of each line, without the BOM and the line's end."""
    start = len(_BOM) if raw.startswith(_BOM) else 0
    for number, line in enumerate(raw.removeprefix(_BOM).splitlines(keepends=True), 1):
        yield number, start, start + len(line.rstrip(b"\r\n"))
        start += len(line)


class _Unusual(Exception):
    """It takes more than this to read the document."""


def read_usual(raw: bytes) -> list[Item] | None:
    """The steps of a document that is easy to read; None for one that is not."""
    if b"plan" not in raw.lower():
        return []
    if raw.count(b"\r") != raw.count(b"\r\n") or raw.removeprefix(_BOM).startswith(b"---"):
        return None
    plan = _Plan(raw)
    try:
        for number, start, end in _lines(raw):
            plan.take(number, start, end)
    except _Unusual:
        return None
    return None if plan.perhaps and not plan.found else plan.items


def _notable(rest: bytes) -> bytes:
    """The mark of a heading, a fence or a comment that `rest` begins with."""
    first = rest[:1]
    run = rest[: len(rest) - len(rest.lstrip(first))]
    if first == b"#":
        return run if len(run) <= 6 and rest[len(run) : len(run) + 1] in (b"", b" ", b"\t") else b""
    if first in (b"`", b"~"):
        return run if len(run) >= 3 and not (first == b"`" and b"`" in rest[len(run) :]) else b""
    return b"<!--" if rest.startswith(b"<!--") else b""


def _hides_something(rest: bytes) -> bool:
    """Whether a heading, fence or comment stands behind a bullet."""
    inner = rest.lstrip(b" \t-+*.)0123456789")
    return len(inner) < len(rest) and bool(_notable(inner))


def _closes(line: bytes, rest: bytes, opener: bytes) -> bool:
    if opener == b"<!--":
        return b"-->" in line
    pad = line[: len(line) - len(rest)]
    tail = rest.rstrip(b" \t")
    return len(pad) < 4 and b"\t" not in pad and tail.startswith(opener) and not tail.strip(opener[:1])


def _title(line: bytes, level: int) -> bytes:
    """A heading's title without a closing run of `#`."""
    title = line[level:].strip(b" \t")
    bare = title.rstrip(b"#")
    return bare.rstrip(b" \t") if bare != title and bare[-1:] in (b"", b" ", b"\t") else title


class _Plan:
    """The plan's section, found line by line."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.items: list[Item] = []
        self.found = self.inside = False
        self.perhaps = False  # a heading of another level may be the plan's
        self.opener = b""  # what opened the fence or comment we are in
        self.stack: list[int] = []  # columns at which the content of the open list items begins
        self.paragraph = False  # could the next line continue a paragraph?

    def take(self, number: int, start: int, end: int) -> None:
        """Read the next line."""
        line = self.raw[start:end]
        rest = line.lstrip(b" \t")
        if self.opener:
            if _closes(line, rest, self.opener):
                self.opener = b""
        elif not rest:
            self.paragraph = False
        elif mark := _notable(rest):
            if len(rest) < len(line):
                raise _Unusual
            self._interrupt(line, mark)
        elif _hides_something(rest):
            raise _Unusual
        elif self.inside:
            self._read(number, start, end, len(line) - len(rest))

    def _interrupt(self, line: bytes, mark: bytes) -> None:
        """A heading, fence or comment at the margin: every list is over."""
        self.stack.clear()
        self.paragraph = False
        if mark[:1] != b"#":
            self.opener = b"" if mark == b"<!--" and b"-->" in line else mark
            return
        title = _title(line, len(mark)).lower()
        self.perhaps = self.perhaps or b"plan" in title
        if len(mark) <= 2:
            if not self.found and b"plan" in title and (title, len(mark)) != (b"plan", 2):
                raise _Unusual  # perhaps it is meant
            self.inside = not self.found and title == b"plan"
            self.found = self.found or self.inside

    def _read(self, number: int, start: int, end: int, indent: int) -> None:
        """A line of the plan itself."""
        rest = self.raw[start + indent : end]
        if b"\t" in self.raw[start : start + indent]:
            raise _Unusual
        depth = len(self.stack)
        while depth and indent < self.stack[depth - 1]:
            depth -= 1
        inner = self.stack[depth - 1] if depth else 0
        bullet = _bullet(rest) if indent - inner < 4 else 0
        if bullet:
            content = rest[bullet:].lstrip(b" ")
            gap = len(rest) - bullet - len(content)
            within = self.paragraph and depth == len(self.stack)
            if not 1 <= gap <= 4 or content[:1] in _SPECIAL or (within and rest[:1] not in _BULLETS):
                raise _Unusual
            self.stack[depth:] = [indent + bullet + gap]
            self.paragraph = True
            if _is_box(content):
                at = start + indent + bullet + gap + 1
                self.items.append(Item(self.raw, len(self.items) + 1, number, start, end, at))
            return
        if rest[:1] in b"-*_" and not rest.strip(rest[:1] + b" \t"):
            raise _Unusual  # a rule, or an empty item
        if not self.paragraph:
            del self.stack[depth:]
            self.paragraph = indent - inner < 4


def _bullet(rest: bytes) -> int:
    """How long the bullet is that `rest` begins with."""
    size = 1 if rest[0] in _BULLETS else 0
    if rest[0] in _DIGITS:
        digits = len(rest) - len(rest.lstrip(_DIGITS))
        size = digits + 1 if digits <= 9 and rest[digits : digits + 1] in (b".", b")") else 0
    return size if size and rest[size : size + 1] in (b"", b" ", b"\t") else 0


def _is_box(content: bytes) -> bool:
    box = content[:1] == b"[" and content[2:3] == b"]" and content[1] in _MARKERS
    return box and content[3:4] in (b"", b" ", b"\t")


def progress(raw: bytes) -> tuple[int, int, str]:
    """How many steps are done, how many there are, and what the current one says."""
    return progress_of(read(raw))


def progress_of(items: list[Item]) -> tuple[int, int, str]:
    """The same, of steps that were read already."""
    done = sum(item.marker == "x" for item in items)
    current = next((item.text for markers in ("~", "?!", " ") for item in items if item.marker in markers), "")
    return done, len(items), current


def choose(items: list[Item], select: str, see: str = "overhand step") -> Item:
    """The step of this number, of these words, or the only one that contains them."""
    if not items:
        raise NotFound("The HANDOFF.md has no steps.", "Write a section `## Plan` with lines like `- [ ] what to do`.")
    wanted = " ".join(select.split())
    if wanted.isascii() and wanted.isdigit():
        if 0 < int(wanted[:9]) <= len(items) and len(wanted) <= 9:
            return items[int(wanted) - 1]
        raise NotFound(f"There is no step {wanted}; the plan has {len(items)}.", f"See them: {see}")
    if not wanted:
        raise BadInput("Which step?", "Say its number or a part of its text.")
    folded = wanted.casefold()
    named = [(" ".join(item.text.split()), item) for item in items]
    found = (
        [item for text, item in named if text == wanted]
        or [item for text, item in named if text.casefold() == folded]
        or [item for text, item in named if folded in text.casefold()]
    )
    if len(found) == 1:
        return found[0]
    if found:
        some = ", ".join(f"{item.number} ({item.text[:40]})" for item in found[:5])
        raise BadInput(f"{wanted!r} fits {len(found)} steps: {some}.", "Say the number.")
    raise NotFound(f"No step says {wanted!r}.{_nearest(folded, items)}", f"See them with their numbers: {see}")


def _nearest(folded: str, items: list[Item]) -> str:
    from difflib import get_close_matches

    texts = {item.text.casefold(): item for item in items}
    near = get_close_matches(folded, texts, 1, 0.5)
    return f" Did you mean {texts[near[0]].number}: {texts[near[0]].text[:60]}?" if near else ""


def asked(seq: int) -> str:
    """What stands behind a step that waits for the answer to this question."""
    return f" (IPC: {seq:03d}.question)"


def because(reason: str) -> str:
    """What stands behind a step that failed, on one line."""
    words = "".join(c if c.isprintable() else " " for c in reason).split()
    return _DASH + " ".join("\\" + word if word.lstrip("\\") == "—" else word for word in words) if words else ""


def patch(raw: bytes, item: Item, marker: str, suffix: str | None = None) -> Patch | None:
    """What to write where, or None if it stands there already; without a suffix, one of the same state is kept."""
    old = raw[item.stop : item.tail]
    kept = suffix is None and marker == item.marker
    new = old if kept else (suffix or "").encode("utf-8", "replace")
    if marker == "!" and not new and not kept and _DASH.encode() in raw[item.at + 2 : item.stop].strip(b" \t"):
        new = because("no reason given").encode()  # else the last part of the text would be read as the reason
    if new.startswith(_DASH.encode()) and not item.text:
        new = b""  # nothing to stand behind
    is_same = marker == item.marker  # [X] stays as it is
    byte = raw[item.at : item.at + 1] if is_same else marker.encode()
    if new == old:
        return None if is_same else (item.at, item.at + 1, byte)
    return item.at, item.tail, byte + raw[item.at + 1 : item.stop] + new


def change(raw: bytes, item: Item, marker: str, suffix: str | None = None) -> bytes:
    """The document with this step marked."""
    wanted = patch(raw, item, marker, suffix)
    return raw if wanted is None else raw[: wanted[0]] + wanted[2] + raw[wanted[1] :]


def mark(path: str, select: str, marker: str, suffix: str | None = None, see: str = "overhand step") -> Item:
    """Mark a step in the file, while others may write to it; the caller holds the task's lock. See edits.py."""
    from overhand.system.edits import edit

    seen: list[Item] = []

    def wanted(raw: bytes) -> Patch | None:
        items = read(raw)
        same = [item for item in items if seen and item.text == seen[0].text]
        item = same[0] if len(same) == 1 else choose(items, select, see)  # the plan may have moved since the first look
        seen.append(item)
        return patch(raw, item, marker, suffix)

    raw = edit(path, wanted)
    last = seen[-1]
    now = Item(raw, last.number, last.line, last.start, _end(raw, last.start), last.at)
    now.before = seen[0]
    return now


def _end(raw: bytes, start: int) -> int:
    """Where the line that begins here ends."""
    return min((at for at in (raw.find(b"\n", start), raw.find(b"\r", start)) if at >= 0), default=len(raw))
