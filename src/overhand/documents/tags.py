"""Tags in Markdown (`#needs-fix`): found in a file's bytes, and changed there without touching another byte.

A tag is a whole token: `#`, a letter, then letters, digits, `-` and `_`. The character before it must not belong to a
word, a path or a link. After approval the task's id follows the tag as an HTML comment, which is part of its span.

A mere mention is inert: in code spans, fences, HTML comments and front matter. Where CommonMark would surprise
people, we deviate from it:
 - Indented code hides nothing: four spaces before a tag are seldom meant as code.
 - A row of a table (a line that begins with `|`) is read by itself.
 - A comment that is opened inside an HTML block continues to its `-->`, also across blank lines.
 - Backticks hide what is between them also inside an HTML block, but not across its end.
"""

from __future__ import annotations

from overhand import words
from overhand.documents.inline import inert
from overhand.documents.markdown import BOM, front_matter_end, pieces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.documents.markdown import Piece
    from overhand.system import Patch

TAG_STAGES = tuple(words.STAGES)
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_HEAD = (b"**Tags**:", b"**Tags:**")
_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_WORD = _LETTERS + b"0123456789-_"
_CHUNK = 64  # bytes: a tag is seldom longer
_BEFORE = frozenset(b" \t\r\n\x0b\x0c([{*_\"'|,;:>~`")
_BLANK = b" \t"


class TagLine:
    __slots__ = ("end", "number", "places", "start")

    def __init__(self, number: int, start: int, end: int, places: list[int] | None = None) -> None:
        self.number, self.start, self.end = number, start, end  # from 1; without BOM and line end
        self.places = places or []  # where its live tags begin

    def spans(self, raw: bytes) -> list[tuple[int, int, int]]:
        """For each live tag in this line: where it begins, where the token ends, and where its span ends."""
        ends = [(place, token_end(raw, place)) for place in self.places]
        return [(place, end, _id_behind(raw, end, self.end)[1]) for place, end in ends]

    def bare(self, raw: bytes) -> bytes:
        """The line without its tags, with single spaces."""
        kept, at = [], self.start
        for start, _, end in self.spans(raw):
            kept.append(raw[at:start])
            at = end
        return b" ".join(b" ".join([*kept, raw[at : self.end]]).split())


class Tag:
    """One live tag and its position."""

    __slots__ = ("end", "name", "on", "on_tags_line", "span_end", "start", "task")

    def __init__(
        self, name: str, start: int, end: int, on: TagLine, on_tags_line: bool, task: str, span_end: int
    ) -> None:
        self.name = name  # as it is written: `#needs-fix`
        self.start, self.end = start, end  # offsets of the token
        self.on, self.on_tags_line = on, on_tags_line
        self.task = task  # the id in the comment after it
        self.span_end = span_end  # after that comment

    @property
    def line(self) -> int:
        """The number of its line, from 1."""
        return self.on.number

    def __repr__(self) -> str:
        return f"Tag({self.name!r}, {self.start}, {self.end}, line={self.line}, task={self.task!r})"


def scan_tags(raw: bytes, prefix: bytes = b"#") -> list[Tag]:
    """Every live tag with this prefix, in order."""
    found: list[Tag] = []
    head = -2  # not searched for yet
    for on in _lines_with(raw, prefix):
        if head == -2 and raw.startswith(_HEAD, on.start):
            head = on.start if _is_second_line(raw, on.start) else _tags_line(raw)
        for start in on.places:
            if raw.startswith(prefix, start):
                end = token_end(raw, start)
                task, span_end = _id_behind(raw, end, on.end)
                name = raw[start:end].decode("utf-8", "replace")
                found.append(Tag(name, start, end, on, on.start == head, task, span_end))
    return found


def _lines_with(raw: bytes, prefix: bytes) -> list[TagLine]:
    """The lines that may contain a tag with this prefix, with all their live tags."""
    found: list[TagLine] = []
    number, counted = 1, 0
    at = raw.find(prefix)
    while at >= 0:
        start = raw.rfind(b"\n", 0, at) + 1
        start, end = start + _bom(raw, start), _line_end(raw, at)
        number += raw.count(b"\n", counted, start)
        counted = start
        found.append(TagLine(number, start, end, _places(raw, start, end)))
        at = raw.find(prefix, max(end, at + 1))
    shown = set(live(raw, [place for line in found for place in line.places]))
    for line in found:
        line.places = [place for place in line.places if place in shown]
    return found


def live(raw: bytes, places: list[int]) -> list[int]:
    """Those of the places, given in ascending order, that are not inert."""
    start = body(raw)
    if not places or not any(mark in raw for mark in (b"`", b"~", b"<")):
        return [place for place in places if place >= start]
    found: list[int] = []
    at = 0
    text = _text(raw)
    for kind, begin, end in pieces(text, start):
        while at < len(places) and places[at] < begin:
            at += 1  # between pieces there are only front matter and blanks
        if at == len(places):
            break
        if places[at] >= end:
            continue
        spans = _inert(text, kind, begin, end)
        index = 0
        while at < len(places) and places[at] < end:
            while index < len(spans) and spans[index][1] <= places[at]:
                index += 1
            if index == len(spans) or places[at] < spans[index][0]:
                found.append(places[at])
            at += 1
    return found


def _inert(text: str, kind: str, start: int, end: int) -> list[tuple[int, int]]:
    """The spans in a piece that hide tags."""
    if kind == "code":
        return [(start, end)]
    if kind == "html" or text.find("|", start, end) < 0:
        return inert(text, start, end, html=kind == "html")
    return [span for begin, stop in _rows(text, start, end) for span in inert(text, begin, stop)]


def _rows(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """A piece cut into rows of tables and what is between them."""
    begin = at = start
    while at < end:
        after = text.find("\n", at, end) + 1 or end
        if text[at:after].lstrip(" \t>").startswith("|"):
            yield begin, at
            yield at, after
            begin = after
        at = after
    yield begin, end


def _text(raw: bytes) -> str:
    """The file as text with one character per byte."""
    return raw.decode("latin-1")


def body(raw: bytes) -> int:
    """Where the document begins: after the BOM and the front matter."""
    start = len(BOM) if raw.startswith(BOM) else 0
    return front_matter_end(_text(raw), start) if raw.startswith(b"---", start) else start


def _pieces(raw: bytes) -> Iterator[Piece]:
    return pieces(_text(raw), body(raw))


def _places(raw: bytes, at: int, stop: int) -> list[int]:
    """The offsets of everything that looks like a tag."""
    found: list[int] = []
    while (at := raw.find(b"#", at, stop)) >= 0:
        if _begins(raw, at):
            found.append(at)
        at += 1
    return found


def _begins(raw: bytes, at: int) -> bool:
    """Whether a tag can begin with this `#`: not inside of a word, a path, a link or an attribute, and not escaped."""
    if not _is_letter(raw, at + 1):
        return False
    before = raw[at - 1] if at else 0x20
    if before >= 0x80:
        return not _word_ends(raw, at)
    is_link = before in b"(\"'" and raw[max(0, at - 2) : at - 1] in (b"]", b"=")
    return before in _BEFORE and not is_link


def _is_letter(raw: bytes, at: int) -> bool:
    return at < len(raw) and (raw[at] in _LETTERS or (raw[at] >= 0x80 and _char(raw, at)[:1].isalpha()))


def _char(raw: bytes, at: int) -> str:
    """The character beyond ASCII that begins here; nothing if these bytes are none."""
    lead = raw[at]
    size = 2 if 0xC2 <= lead < 0xE0 else 3 if 0xE0 <= lead < 0xF0 else 4 if 0xF0 <= lead < 0xF5 else 0
    try:
        return raw[at : at + size].decode()
    except UnicodeDecodeError:
        return ""


def _word_ends(raw: bytes, at: int) -> bool:
    """Whether the character before this place, beyond ASCII, belongs to a word."""
    for size in (2, 3, 4):
        if at >= size and raw[at - size] >= 0xC2:
            char = _char(raw, at - size)
            return len(char.encode()) == size and _goes_on(char)
    return False


def _goes_on(char: str) -> bool:
    """Whether a character can be inside a tag: letters, digits, and combining marks."""
    return bool(char) and ("a" + char).isidentifier()


def token_end(raw: bytes, start: int) -> int:
    """Where the token that begins here ends."""
    at = start + 1
    while True:
        part = raw[at : at + _CHUNK]
        rest = part.lstrip(_WORD)
        at += len(part) - len(rest)
        if not rest and part:
            continue
        char = _char(raw, at) if rest and rest[0] >= 0x80 else ""
        if not _goes_on(char):
            break
        at += len(char.encode())
    while raw[at - 1] in b"-_":
        at -= 1  # emphasis, or a dash
    return at


def _line_end(raw: bytes, at: int) -> int:
    end = raw.find(b"\n", at)
    end = len(raw) if end < 0 else end
    return end - 1 if end > at and raw[end - 1] == 0x0D else end


def _id_behind(raw: bytes, at: int, end: int) -> tuple[str, int]:
    """The id of the task in the comment that follows, and where that ends."""
    here = at
    while here < end and raw[here] in _BLANK:
        here += 1
    if not raw.startswith(b"<!--", here, end):
        return "", at
    close = raw.find(b"-->", here, min(end, here + 300))
    text = raw[here + 4 : close].strip(_BLANK) if close >= 0 else b""
    task = text.removeprefix(b"overhand:").strip(_BLANK)
    if task == text or not task or task.strip(_WORD):
        return "", at
    return task.decode("ascii"), close + 3


def stage_of_tag(name: str) -> str:
    """The stage of an item's tag, or nothing."""
    word, dash, what = name.removeprefix("#").partition("-")
    return word if dash and what and word in TAG_STAGES else ""


def kind_of_tag(name: str) -> str:
    """The noun of an item's tag: `fix` in `#needs-fix`."""
    return name.partition("-")[2] if stage_of_tag(name) else ""


def is_tag(name: str) -> bool:
    raw = name.encode("utf-8", "surrogateescape")
    return raw[:1] == b"#" and _is_letter(raw, 1) and token_end(raw, 0) == len(raw)


def item_weights(raw: bytes, tag: Tag) -> tuple[int, str]:
    """The most urgent priority (0 to 3, else 2) and the first effort (`S`, `M`, `L` or nothing) on its line."""
    short = [(start + 1, end) for start, end, _ in tag.on.spans(raw) if end - start < 4]
    names = [raw[start:end].decode("utf-8", "replace") for start, end in short]
    urgent = [int(name[1]) for name in names if len(name) == 2 and name[0] == "P" and name[1] in "0123"]
    return min(urgent, default=2), next((name for name in names if name in ("S", "M", "L")), "")


def line_text(raw: bytes, tag: Tag) -> str:
    return raw[tag.on.start : tag.on.end].decode("utf-8", "replace")


def item_digest(raw: bytes, tag: Tag) -> str:
    """The identity of an item before it has an id: the sha256 of its line without tags."""
    from hashlib import sha256

    return sha256(tag.on.bare(raw)).hexdigest()


def tag_row(path: str, raw: bytes, tag: Tag) -> dict[str, str | int | None]:
    """One tag, as scripts read it."""
    noun, (priority, effort) = kind_of_tag(tag.name), item_weights(raw, tag)
    place = path if tag.on_tags_line else f"{path}:{tag.line}"
    return {
        "item": f"{place}#{noun}" if noun else None,
        "path": path,
        "line": tag.line,
        "tag": tag.name,
        "kind": noun or None,
        "stage": stage_of_tag(tag.name) or None,
        "priority": f"P{priority}",
        "effort": effort or None,
        "text": line_text(raw, tag),
        "task_id": tag.task or None,
    }


def tag_comment(task: str) -> str:
    """The comment with a task's id that follows its tag."""
    return f"<!--overhand:{task}-->"


def patch_swapping_tag(raw: bytes, tag: Tag, name: str, task: str | None = "") -> Patch:
    """Replace a tag with another; the id after it stays, unless another one (or None, to remove it) is given."""
    if raw[tag.start : tag.end].decode("utf-8", "replace") != tag.name:
        raise ValueError(f"{tag} does not stand in these bytes")
    if task in ("", tag.task):
        return tag.start, tag.end, name.encode()
    new = name if task is None else f"{name} {tag_comment(task)}"
    return tag.start, tag.span_end, new.encode()


def patch_adding_tag(raw: bytes, name: str) -> Patch | None:
    """Add a tag at the end of the Tags line, which is created if missing; None if the tag is there already."""
    if any(tag.on_tags_line and tag.name == name for tag in scan_tags(raw)):
        return None
    new = name.encode()
    start = _tags_line(raw)
    if start < 0:
        return _new_line(raw, new)
    last = start + len(raw[start : _line_end(raw, start)].rstrip())
    for at in (last, start + len(_HEAD[0])):  # something in the line may hide its end
        patch = (at, at, b" " + new)
        if any(tag.start == at + 1 for tag in scan_tags(applied(raw, patch))):
            return patch
    return _new_line(raw, new)  # it is inside a multi-line code span


def applied(raw: bytes, patch: Patch) -> bytes:
    return raw[: patch[0]] + patch[2] + raw[patch[1] :]


def patches_removing_tag(raw: bytes, name: str, line: int = 0) -> list[Patch]:
    """Remove every such tag (on one line, if `line` is given) with its id and an adjacent space, in order."""
    patches: list[Patch] = []
    edge = 0  # so far the line is empty except for its indentation
    for tag in scan_tags(raw):
        if tag.name != name or line not in (0, tag.line):
            continue
        start, end = tag.start, tag.span_end
        low = max(edge, tag.on.start)
        while start > low and raw[start - 1] in _BLANK:
            start -= 1
        if start == low:
            start = tag.start if low > edge or edge == 0 else start  # keep the indentation
            while end < tag.on.end and raw[end] in _BLANK:
                end += 1
            edge = end
        patches.append((start, end, b""))
    return patches


def _new_line(raw: bytes, new: bytes) -> Patch:
    """A Tags line of its own: under the title, else where the document begins."""
    first = raw.find(b"\n")
    eol = b"\r\n" if first > 0 and raw[first - 1] == 0x0D else b"\n"
    line = b"**Tags**: " + new
    title = _title(raw)
    if title is None:
        at = body(raw)
        rest = raw[at : _line_end(raw, at)].strip(_BLANK)
        above = eol if at > len(BOM) and raw[at - 1] != 0x0A else b""
        return at, at, above + line + (eol + eol if rest else eol if at < len(raw) else b"")
    at = _line_end(raw, title[1])
    below = raw.find(b"\n", at) + 1
    follows = raw[below : _line_end(raw, below)] if below else b""
    is_text = follows.strip() and not follows.startswith(b"**")  # it would form one paragraph with the tags
    return at, at, eol + line + (eol if is_text else b"")


def _title(raw: bytes) -> tuple[int, int] | None:
    """Where the H1 stands, if the first heading is one: its beginning, and a place in its last line."""
    for what, start, end in _pieces(raw):
        if what == "h1":
            return start, end if raw[start] == 0x23 else raw.find(b"\n", end) + 1
        if what in _HEADINGS:
            return None
    return None


def _tags_line(raw: bytes) -> int:
    """Where the Tags line begins: under the H1 (without one, above the first heading), above the next one; or -1."""
    title = _title(raw)
    for what, start, end in _pieces(raw):
        if title and start <= title[0]:
            continue
        if what in _HEADINGS:
            return -1
        at = raw.rfind(b"\n", 0, start) + 1
        at += _bom(raw, at)
        while what == "text" and at < end:
            if raw.startswith(_HEAD, at):
                return at
            at = raw.find(b"\n", at) + 1 or end
    return -1


def _is_second_line(raw: bytes, at: int) -> bool:
    """The usual place of the Tags line: nothing but the title before it."""
    start = body(raw)
    return raw.startswith(b"# ", start) and not raw[_line_end(raw, start) : at].strip()


def _bom(raw: bytes, at: int) -> int:
    """How many bytes the BOM takes, if a line begins with it."""
    return len(BOM) if at == 0 and raw.startswith(BOM) else 0
