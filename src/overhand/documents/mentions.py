"""Which places of a Markdown file only mention a tag: code spans, fences, HTML comments and front matter are inert.

Works on bytes, so that every offset is one into the file, and reads each byte a fixed number of times. Blocks are told
apart as CommonMark does it (containers, lazy lines, what may interrupt a paragraph), since that decides where a fence
begins and how far a code span can reach. Where people would be surprised, CommonMark loses:
 - Indented code hides nothing: four blanks before a tag are seldom meant as code.
 - A row of a table (a line that begins with `|`) is read by itself.
 - A comment that is opened inside an HTML block goes on to its `-->`, also over blank lines.
 - Backticks hide what is between them also inside an HTML block, but not across its end.
"""

from __future__ import annotations

from overhand.documents.inline import inert, is_open, width_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Block = tuple[str, int, int]  # `text`, `html`, `hidden`, `h1` … `h6`, from, to

BOM = b"\xef\xbb\xbf"
_SPECIAL = frozenset(b" \t\r\n\x0b\x0c>#`~<-+*_=|0123456789")  # what may begin something else than text
_QUOTE = -1
_DEEP = 64  # containers in each other; more than that nobody means, and each costs time on every line
_DIGITS = b"0123456789"
_BLANK = b" \t"
_RAW = (b"script", b"pre", b"style", b"textarea")  # HTML that goes on to its closing tag
_ENDS = ((b"<!--", b"-->"), (b"<?", b"?>"), (b"<![CDATA[", b"]]>"), (b"<!", b">"))
_NAMES = frozenset(
    b"address article aside base basefont blockquote body caption center col colgroup dd details dialog dir div dl dt "
    b"fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hr html iframe legend li "
    b"link main menu menuitem nav noframes ol optgroup option p param search section summary table tbody td tfoot th "
    b"thead title tr track ul".split()
)


def live_among(pieces: Iterable[Block], raw: bytes, places: list[int]) -> list[int]:
    """Those of the places, given in ascending order and inside of these pieces, that are not inert."""
    found: list[int] = []
    at = 0
    for kind, start, end in pieces:
        while at < len(places) and places[at] < start:
            at += 1  # between the pieces there is nothing but front matter and blanks
        if at == len(places):
            break
        if places[at] >= end:
            continue
        spans = [(start, end)] if kind == "hidden" else inert(raw, start, end, html=kind == "html")
        index = 0
        while at < len(places) and places[at] < end:
            while index < len(spans) and spans[index][1] <= places[at]:
                index += 1
            if index == len(spans) or places[at] < spans[index][0]:
                found.append(places[at])
            at += 1
    return found


def body(raw: bytes) -> int:
    """Where the document begins: behind the BOM and the front matter."""
    start = len(BOM) if raw.startswith(BOM) else 0
    if not raw.startswith(b"---", start):
        return start
    at, first, has_key = _next(raw, start), True, False
    if raw[start:at].strip() != b"---":
        return start
    while at < len(raw):
        after = _next(raw, at)
        line = raw[at:after]
        if line.rstrip() in (b"---", b"..."):
            return after if has_key or first else start
        first = False
        has_key = has_key or _is_key(line)
        if line.startswith((b"## ", b"**")):
            return start  # prose between two rules
        at = after
    return start


def _next(raw: bytes, at: int) -> int:
    """Where the next line begins."""
    return raw.find(b"\n", at) + 1 or len(raw)


def _is_key(line: bytes) -> bool:
    """Whether a line begins with `key:`."""
    name, colon, value = line.partition(b":")
    word = name.rstrip(_BLANK).decode("utf-8", "replace").replace("-", "_").replace("_", "a")
    return bool(colon) and word.isalnum() and (not value or value[:1].isspace())


def blocks(raw: bytes, start: int = -1, end: int = -1) -> Iterator[Block]:
    """The pieces that code spans and comments cannot reach across, in order; or those of a part that stands alone."""
    walk = _Walk(raw)
    at, size = (body(raw), len(raw)) if start < 0 else (start, end)
    while at < size:
        end = raw.find(b"\n", at, size)
        end = size if end < 0 else end
        if raw[at] not in _SPECIAL and walk.leaf in ("", "text"):
            walk.plain(at, end)
        else:
            walk.line(at, end - 1 if end > at and raw[end - 1] == 0x0D else end)
        if walk.done:
            yield from walk.done
            walk.done = []
        at = end + 1
    walk.close()
    yield from walk.done


class _Walk:
    """What earlier lines decide about the next one."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.stack: list[int] = []  # the open containers: a quote, or how many columns a list item's content is in
        self.leaf = ""  # what the last line was part of: `text`, `html`, `hidden` (a fence)
        self.mark = b""  # what closes it: the fence, the end of the HTML, nothing for a blank line
        self.begin = self.end = 0  # where it stands
        self.empty = False  # the innermost list item has no content yet
        self.done: list[Block] = []

    def close(self, kind: str = "") -> None:
        """The open piece is over."""
        if self.leaf:
            self.done.append((kind or self.leaf, self.begin, self.end))
            self.leaf = ""

    def _open(self, leaf: str, begin: int, end: int, mark: bytes = b"") -> None:
        self.leaf, self.begin, self.end, self.mark, self.empty = leaf, begin, end, mark, False

    def plain(self, at: int, end: int) -> None:
        """A line that begins with nothing special: it continues a paragraph, or begins one outside of everything."""
        if self.leaf:
            self.end = end
        else:
            self.stack.clear()
            self._open("text", at, end)

    def line(self, at: int, end: int) -> None:
        """Any other line."""
        raw, stack = self.raw, self.stack
        matched, column, here, there = self._containers(at, end)
        whole, is_blank = matched == len(stack), here >= end
        if self.leaf in ("html", "hidden"):
            if whole:
                self._inside(here, there - column, end, is_blank=is_blank)
                return
            self.close()
        if is_blank:
            self.close()
            del stack[matched:]
            return
        opened = False
        while there - column < 4 and here < end and raw[here] in _SPECIAL:
            in_text = self.leaf == "text" and whole and not opened
            if self._ends_text(here, end, in_text=in_text):
                return
            if self._begins_leaf(here, end, matched, is_free=self.leaf != "text"):
                return
            step = self._begins_container(here, end, there, column, in_text=in_text) if len(stack) < _DEEP else None
            if step is None:
                break
            width, column, here, there = step
            self.close()
            stack[matched:] = [width]
            matched, opened, self.empty = len(stack), True, here >= end
        self._text(here, end, matched, is_lazy=not opened and not whole, is_code=there - column >= 4)

    def _containers(self, at: int, end: int) -> tuple[int, int, int, int]:
        """How many of the open containers go on; the column behind them; the next character and its column."""
        raw, column = self.raw, 0
        here, there = _pad(raw, at, end, 0)
        matched = 0
        for width in self.stack:
            if width == _QUOTE:
                if here >= end or there - column > 3 or raw[here] != 0x3E:
                    break
                column = there + 1
                here, there = _pad(raw, here + 1, end, column)
                column += there > column
            elif here >= end:
                if self.empty and matched == len(self.stack) - 1:
                    break
            elif there - column >= width:
                column += width
            else:
                break
            matched += 1
        return matched, column, here, there

    def _inside(self, here: int, indent: int, end: int, *, is_blank: bool) -> None:
        """A line of a fence or of HTML; it may be the last one."""
        raw, mark = self.raw, self.mark
        if self.leaf == "hidden":
            self.end = end
            tail = raw[here:end].rstrip(_BLANK) if indent < 4 and raw.startswith(mark, here, end) else b""
            if tail and not tail.strip(mark[:1]):
                self.close()
        elif mark:
            self.end = end
            if raw[here:end].lower().find(mark) >= 0:
                self.close()
        elif is_blank:
            if is_open(raw, self.begin, self.end):
                self.mark = b"-->"  # people see a comment here, whatever CommonMark makes of the blank line
            else:
                self.close()
        else:
            self.end = end

    def _ends_text(self, here: int, end: int, *, in_text: bool) -> bool:
        """The line under a heading's text."""
        byte = self.raw[here]
        if in_text and byte in b"=-" and not self.raw[here:end].rstrip(_BLANK).strip(self.raw[here : here + 1]):
            self.close("text" if self.stack else "h1" if byte == 0x3D else "h2")
            return True
        return False

    def _begins_leaf(self, here: int, end: int, matched: int, *, is_free: bool) -> bool:
        """A heading, fence, rule, row of a table or piece of HTML: no container begins here, and no text goes on."""
        kind, mark = _leaf(self.raw, here, end, is_free=is_free)
        if not kind:
            return False
        self.close()
        del self.stack[matched:]
        if kind == "row" or (kind[1:].isdigit() and self.stack):
            kind = "text"  # a heading inside of a list or quote structures that, not the document
        self._open(kind, here, end, mark)
        if kind not in ("html", "hidden") or (mark and kind == "html" and _closes_at_once(self.raw, here, end, mark)):
            self.close()
        return True

    def _begins_container(
        self, here: int, end: int, there: int, column: int, *, in_text: bool
    ) -> tuple[int, int, int, int] | None:
        """A quote or list item: its width, the column of its content, the next character and its column."""
        raw = self.raw
        byte = raw[here]
        if byte == 0x3E:
            column = there + 1
            here, there = _pad(raw, here + 1, end, column)
            return _QUOTE, column + (there > column), here, there
        size = 1 if byte in b"-+*" else 0
        if byte in _DIGITS:
            digits = len(raw[here : here + 10]) - len(raw[here : here + 10].lstrip(_DIGITS))
            size = digits + 1 if digits < 10 and raw[here + digits : min(end, here + digits + 1)] in (b".", b")") else 0
        if not size or raw[here + size : min(end, here + size + 1)] not in (b"", b" ", b"\t"):
            return None
        after = there + size
        following, its_column = _pad(raw, here + size, end, after)
        if in_text and (following >= end or (byte in _DIGITS and int(raw[here : here + size - 1]) != 1)):
            return None
        gap = its_column - after
        if gap > 4 or following >= end:
            gap = 1
        return after + gap - column, after + gap, following, its_column

    def _text(self, here: int, end: int, matched: int, *, is_lazy: bool, is_code: bool) -> None:
        if is_lazy and self.leaf == "text":
            self.end = end
            return
        if is_lazy:
            del self.stack[matched:]
        if here >= end:
            return  # nothing but a bullet
        if self.leaf != "text":
            self._open("text", here, end)
            if is_code:
                self.close()
        self.end = end


def _pad(raw: bytes, at: int, end: int, column: int) -> tuple[int, int]:
    """The next character that is no blank, and its column."""
    while at < end:
        if raw[at] == 0x20:
            column += 1
        elif raw[at] == 0x09:
            column += 4 - column % 4
        else:
            break
        at += 1
    return at, column


def _leaf(raw: bytes, here: int, end: int, *, is_free: bool) -> tuple[str, bytes]:
    """What begins here, and what will close it."""
    byte = raw[here]
    if byte == 0x23:
        level = width_at(raw, here, min(end, here + 7))
        if level < 7 and raw[here + level : min(end, here + level + 1)] in (b"", b" ", b"\t"):
            return f"h{level}", b""
    elif byte in b"`~":
        width = width_at(raw, here, end)
        if width >= 3 and (byte == 0x7E or raw.find(b"`", here + width, end) < 0):
            return "hidden", raw[here : here + width]
    elif byte == 0x3C:
        mark = _html(raw, here, end, is_free=is_free)
        return ("html", mark) if mark is not None else ("", b"")
    elif byte == 0x7C:
        return "row", b""
    elif byte in b"-*_" and _is_rule(raw[here:end]):
        return "rule", b""
    return "", b""


def _is_rule(rest: bytes) -> bool:
    bare = rest.replace(b" ", b"").replace(b"\t", b"")
    return len(bare) >= 3 and not bare.strip(bare[:1])


def _closes_at_once(raw: bytes, here: int, end: int, mark: bytes) -> bool:
    skip = 2 if mark == b"-->" else 0  # `<!-->` is a whole comment
    return raw[here + skip : end].lower().find(mark) >= 0


def _html(raw: bytes, here: int, end: int, *, is_free: bool) -> bytes | None:
    """What ends the HTML that begins here (nothing: a blank line); None if none begins."""
    for opener, closer in _ENDS:
        if raw.startswith(opener, here, end):
            return closer if opener != b"<!" or raw[here + 2 : here + 3].isalpha() else None
    is_closing = raw.startswith(b"/", here + 1, end)
    begin = here + 1 + is_closing
    at = begin
    while at < min(end, begin + 40) and (raw[at : at + 1].isalnum() or raw[at] == 0x2D):
        at += 1
    name, follows = raw[begin:at].lower(), raw[at : min(end, at + 1)]
    if not name[:1].isalpha():
        return None
    if name in _RAW and not is_closing and follows in (b"", b" ", b"\t", b">"):
        return b"</" + name + b">"
    if name in _NAMES and (follows in (b"", b" ", b"\t", b">") or raw.startswith(b"/>", at, end)):
        return b""
    tail = raw[at:end].rstrip(_BLANK)
    is_alone = tail[-1:] == b">" and tail.count(b">") == 1 and b"<" not in tail and (tail[:1] in b" \t/>")
    return b"" if is_free and is_alone else None
