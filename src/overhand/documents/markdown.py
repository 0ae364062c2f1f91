"""The one Markdown scanner: the kind of each line, and the pieces of a document, as exact offsets into its text.

Blocks follow CommonMark: containers, lazy continuation lines, what may interrupt a paragraph. No character is
ever copied back, so an edit is a replacement of one span and leaves every other byte (CRLF included) alone. A file that
is edited is read one character per byte (latin-1), since all markup is ASCII. Each character is read a bounded number
of times, whatever the text; and no library is imported, since light verbs use this module.
"""

from __future__ import annotations

from overhand.documents.inline import is_open, width_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Piece = tuple[str, int, int]  # `text`, `html`, `code`, `rule`, `h1` … `h6`, from, to

BOM = b"\xef\xbb\xbf"  # some editors put it at the start
_SPECIAL = frozenset(" \t\r>#`~<-+*_=0123456789")  # characters that may begin something other than text
_QUOTE = -1
_DEEP = 64  # nested containers; more are never intended, and each costs time on every line
_DIGITS = "0123456789"
_BLANK = " \t"
_BOXES = " xX?!~"
_RAW = ("script", "pre", "style", "textarea")  # HTML that continues to its closing tag
_ENDS = (("<!--", "-->"), ("<?", "?>"), ("<![CDATA[", "]]>"), ("<!", ">"))
_NAMES = (
    " address article aside base basefont blockquote body caption center col colgroup dd details dialog dir div dl dt"
    " fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hr html iframe legend li"
    " link main menu menuitem nav noframes ol optgroup option p param search section summary table tbody td tfoot th"
    " thead title tr track ul "
)


class MarkdownLine:
    """One line that is not blank."""

    __slots__ = ("at", "box", "depth", "end", "kind", "level", "number", "start", "text")

    def __init__(self, scanner: Scanner, text: str, start: int, end: int, number: int) -> None:
        self.kind = scanner.kind
        """`text`, `heading`, `item`, `code` (a fence or inside one), `indented` (code) or `comment`.

        The content of a quote is text, and so is a heading inside a list item: it structures the item.
        """
        self.start, self.end = start, end  # without `\n` or `\r\n`
        self.number = number  # from 1
        self.depth = scanner.depth  # how many list items the line is inside of
        self.level = scanner.level  # a heading's level; for an item, the column at which its content begins
        self.at = at = scanner.at
        """Offset of the title or the item's content; in a task item `at + 1` is the box's character."""
        self.box = ""  # the character in a task box, or nothing
        self.text = ""  # a heading's title, or an item's content without its box
        if self.kind == "item":
            mark = text[at : min(end, at + 4)]
            if mark[:1] == "[" and mark[2:3] == "]" and mark[1] in _BOXES and mark[3:] in ("", " ", "\t"):
                self.box = mark[1].lower()
                at += 3
            self.text = text[at:end].strip(_BLANK)
        elif self.level:
            title = text[at:end].rstrip(_BLANK)
            bare = title.rstrip("#")
            self.text = bare.rstrip(_BLANK) if bare != title and bare[-1:] in ("", " ", "\t") else title


class Part:
    """A heading and what belongs to it, as offsets; level 0 is the text before the first heading."""

    __slots__ = ("body", "end", "level", "number", "start", "title")

    def __init__(self, level: int, title: str, number: int, start: int, body: int) -> None:
        self.level, self.title, self.number = level, title, number
        self.start, self.body, self.end = start, body, body


class Scanner:
    """The state that earlier lines leave for the next one; and, after `take`, the kind of the last one.

    With `html`, every kind of HTML block is known; otherwise only comments are, as our own documents have no other.
    """

    def __init__(self, *, html: bool = False) -> None:
        self.html = html
        self.stack: list[int] = []  # the open containers: a quote, or the column of a list item's content
        self.pieces: list[Piece] = []  # completed pieces
        self.kind = ""
        self.depth = self.level = 0
        self.at = -1
        self._leaf = ""  # what the last line was part of: `text`, `html`, `code` (a fence)
        self._mark = ""  # what closes it: the fence, the end of the HTML, nothing for a blank line
        self._begin = self._end = 0  # where it stands
        self._empty = False  # the innermost list item has no content yet

    @property
    def hidden(self) -> str:
        """What closes the fence or comment that the next line is in, unless that is in a quote; or nothing."""
        return self._mark if self._leaf in ("html", "code") and _QUOTE not in self.stack else ""

    def line(self, text: str, number: int) -> MarkdownLine | None:
        """Classify the next line of a stream, given without its newline; None if it is blank."""
        self.pieces.clear()
        end = len(text.removesuffix("\r"))
        self.take(text, 0, end)
        return MarkdownLine(self, text, 0, end, number) if self.kind else None

    def end_paragraph(self) -> None:
        if self._leaf == "text":
            self.close()

    def close(self, kind: str = "") -> None:
        """Complete the open piece."""
        if self._leaf:
            self.pieces.append((kind or self._leaf, self._begin, self._end))
            self._leaf = ""

    def _open(self, leaf: str, begin: int, end: int, mark: str = "") -> None:
        self._leaf, self._begin, self._end, self._mark, self._empty = leaf, begin, end, mark, False

    def take(self, text: str, at: int, end: int) -> None:
        """Read the next line, without its end; its kind is empty if it is blank."""
        self.kind, self.depth, self.level, self.at = "text", 0, 0, -1
        if at == end and not self.stack and self._leaf in ("", "text"):
            self.kind = ""
            self.close()
        elif at >= end or text[at] in _SPECIAL or self._leaf in ("html", "code"):
            self._take(text, at, end)
        elif self._leaf:  # a line that begins with nothing special continues a paragraph,
            self._end = end
        else:  # or begins one outside of everything
            self.stack.clear()
            self._open("text", at, end)

    def _take(self, text: str, at: int, end: int) -> None:
        stack = self.stack
        matched, column, here, there = self._containers(text, at, end)
        whole = matched == len(stack)
        is_blank = here >= end or (text[here] == "\r" and not text[here:end].strip("\r \t"))
        quote = stack.index(_QUOTE) if _QUOTE in stack else _DEEP
        self.depth = min(quote, matched)
        if self._leaf in ("html", "code"):
            if whole:
                self.kind = "text" if matched > quote else "" if is_blank else self._hides()
                self._inside(text, here, there - column, end, is_blank=is_blank)
                return
            self.close()
        if is_blank:
            self.kind, self._empty = "text" if matched > quote else "", False  # `>` alone is a line
            self.close()
            del stack[matched:]
            return
        opened = matched > quote  # what a quote holds is text, whatever it is
        first = True
        while there - column < 4 and here < end and text[here] in _SPECIAL:
            in_text = self._leaf == "text" and whole and first
            if in_text and self._ends_text(text, here, end):
                return
            if self._begins_leaf(text, here, end, matched, quiet=opened):
                return
            step = _container(text, here, end, there, column, in_text=in_text) if len(stack) < _DEEP else None
            if step is None:
                break
            width, column, here, there = step
            self.close()
            stack[matched:] = [width]
            matched, first, self._empty = len(stack), False, here >= end
            if not opened and width != _QUOTE:
                self.kind, self.level, self.at = "item", column, here
            opened = True
        self._text(here, end, matched, is_lazy=first and not whole, is_code=there - column >= 4, quiet=opened)

    def _hides(self) -> str:
        return "code" if self._leaf == "code" else "comment"

    def _containers(self, text: str, at: int, end: int) -> tuple[int, int, int, int]:
        """How many open containers continue; the column after them; the next character and its column."""
        column = matched = 0
        here, there = _pad(text, at, end, 0)
        for width in self.stack:
            if width == _QUOTE:
                if here >= end or there - column > 3 or text[here] != ">":
                    break
                column = there + 1
                here, there = _pad(text, here + 1, end, column)
                column += there > column
            elif here >= end:
                if self._empty and matched == len(self.stack) - 1:
                    break
            elif there - column >= width:
                column += width
            else:
                break
            matched += 1
        return matched, column, here, there

    def _inside(self, text: str, here: int, indent: int, end: int, *, is_blank: bool) -> None:
        """A line of a fence or of HTML; it may be the last one."""
        mark = self._mark
        if self._leaf == "code":
            self._end = end
            tail = text[here:end].rstrip(_BLANK) if indent < 4 and text.startswith(mark, here, end) else ""
            if tail and not tail.strip(mark[0]):
                self.close()
        elif mark:
            self._end = end
            if mark in text[here:end].lower():
                self.close()
        elif not is_blank:
            self._end = end
        elif is_open(text, self._begin, self._end):
            self._mark = "-->"  # readers see a comment here, although for CommonMark the blank line ends it
        else:
            self.close()

    def _ends_text(self, text: str, here: int, end: int) -> bool:
        """The line under a heading's text."""
        char = text[here]
        if char in "=-" and not text[here:end].rstrip(_BLANK).strip(char):
            self.close("text" if self.stack else "h1" if char == "=" else "h2")
            return True
        return False

    def _begins_leaf(self, text: str, here: int, end: int, matched: int, *, quiet: bool) -> bool:
        """Start a heading, fence, rule or HTML block, if one begins here: it is no container and continues no text."""
        kind, mark = self._leaf_at(text, here, end)
        if not kind:
            return False
        self.close()
        del self.stack[matched:]
        if kind[1:].isdigit():
            if not quiet:
                self.kind = "text" if self.stack else "heading"
                self.level, self.at = int(kind[1]), _pad(text, here + int(kind[1]), end, 0)[0]
            kind = "text" if self.stack else kind
        self._open(kind, here, end, mark)
        if kind in ("html", "code"):
            if not quiet:
                self.kind = self._hides()
            if kind == "code" or not mark or mark not in text[here + (2 if mark == "-->" else 0) : end].lower():
                return True  # `<!-->` is a whole comment
        self.close()
        return True

    def _leaf_at(self, text: str, here: int, end: int) -> tuple[str, str]:
        """What begins here, and what will close it."""
        char = text[here]
        if char == "#":
            level = width_at(text, here, min(end, here + 7))
            if level < 7 and text[here + level : min(end, here + level + 1)] in ("", " ", "\t"):
                return f"h{level}", ""
        elif char in "`~":
            width = width_at(text, here, end)
            if width >= 3 and (char == "~" or text.find("`", here + width, end) < 0):
                return "code", text[here : here + width]
        elif char == "<":
            if not self.html:
                return ("html", "-->") if text.startswith("<!--", here, end) else ("", "")
            mark = _html(text, here, end, is_free=self._leaf != "text")
            return ("html", mark) if mark is not None else ("", "")
        elif char in "-*_":
            bare = text[here:end].replace(" ", "").replace("\t", "")
            if len(bare) >= 3 and not bare.strip(char):
                return "rule", ""
        return "", ""

    def _text(self, here: int, end: int, matched: int, *, is_lazy: bool, is_code: bool, quiet: bool) -> None:
        if is_lazy and self._leaf == "text":
            self._end = end
            return
        if is_lazy:
            del self.stack[matched:]
        if here >= end:
            return  # nothing but a bullet
        if self._leaf != "text":
            self._open("text", here, end)
            if is_code:
                self.kind = self.kind if quiet else "indented"
                self.close()
        self._end = end


def _container(
    text: str, here: int, end: int, there: int, column: int, *, in_text: bool
) -> tuple[int, int, int, int] | None:
    """A quote or list item that begins here: its width, its content's column, the next character and its column."""
    char = text[here]
    if char == ">":
        column = there + 1
        here, there = _pad(text, here + 1, end, column)
        return _QUOTE, column + (there > column), here, there
    size = 1 if char in "-+*" else 0
    if char in _DIGITS:
        digits = len(text[here : here + 10]) - len(text[here : here + 10].lstrip(_DIGITS))
        size = digits + 1 if digits < 10 and text[here + digits : min(end, here + digits + 1)] in (".", ")") else 0
    if not size or text[here + size : min(end, here + size + 1)] not in ("", " ", "\t"):
        return None
    after = there + size
    following, its_column = _pad(text, here + size, end, after)
    if in_text and (following >= end or (char in _DIGITS and int(text[here : here + size - 1]) != 1)):
        return None  # only an item with content, or a list that begins at 1, may cut a paragraph
    gap = its_column - after
    if gap > 4 or following >= end:
        gap = 1
    return after + gap - column, after + gap, following, its_column


def _pad(text: str, at: int, end: int, column: int) -> tuple[int, int]:
    """The next character that is no blank, and its column."""
    while at < end:
        if text[at] == " ":
            column += 1
        elif text[at] == "\t":
            column += 4 - column % 4
        else:
            break
        at += 1
    return at, column


def _html(text: str, here: int, end: int, *, is_free: bool) -> str | None:
    """What ends the HTML that begins here (nothing: a blank line); None if none begins."""
    for opener, closer in _ENDS:
        if text.startswith(opener, here, end):
            return closer if opener != "<!" or _is_letter(text[here + 2 : here + 3]) else None
    is_closing = text.startswith("/", here + 1, end)
    begin = at = here + 1 + is_closing
    while at < min(end, begin + 40) and text[at] < "\x80" and (text[at].isalnum() or text[at] == "-"):
        at += 1
    name, follows = text[begin:at].lower(), text[at : min(end, at + 1)]
    if not _is_letter(name[:1]):
        return None
    if name in _RAW and not is_closing and follows in ("", " ", "\t", ">"):
        return f"</{name}>"
    if f" {name} " in _NAMES and (follows in ("", " ", "\t", ">") or text.startswith("/>", at, end)):
        return ""
    tail = text[at:end].rstrip(_BLANK)
    is_alone = tail[-1:] == ">" and tail.count(">") == 1 and "<" not in tail and (tail[:1] in " \t/>")
    return "" if is_free and is_alone else None


def _is_letter(char: str) -> bool:
    return char.isascii() and char.isalpha()


def markdown_lines(text: str, start: int = 0, end: int | None = None, number: int = 1) -> Iterator[MarkdownLine]:
    """The lines of `text[start:end]` that are not blank; `number` is the number of the first line."""
    scanner = Scanner()
    for count, (begin, stop) in enumerate(_each(scanner, text, start, len(text) if end is None else end), number):
        if scanner.kind:
            yield MarkdownLine(scanner, text, begin, stop, count)


def _each(scanner: Scanner, text: str, at: int, end: int) -> Iterator[tuple[int, int]]:
    """Feed the scanner line by line; yields where each line begins and ends, without its newline."""
    while at < end:
        after = text.find("\n", at, end)
        after = after if after >= 0 else end
        stop = after - 1 if after > at and text[after - 1] == "\r" else after
        scanner.take(text, at, stop)
        yield at, stop
        at = after + 1


def pieces(text: str, start: int = 0) -> Iterator[Piece]:
    """The pieces that code spans and comments cannot reach across, in order, with every kind of HTML."""
    scanner = Scanner(html=True)
    for _ in _each(scanner, text, start, len(text)):
        if scanner.pieces:
            yield from scanner.pieces
            scanner.pieces.clear()
    scanner.close()
    yield from scanner.pieces


def front_matter_end(text: str, start: int = 0) -> int:
    """Offset after the YAML front matter, or `start` if there is none.

    A `key:` line distinguishes it from a document that merely begins with a rule.
    """
    if not text.startswith("---", start):
        return start
    at, is_first, has_key = _next(text, start), True, False
    if text[start:at].strip(" \t\r\n") != "---":
        return start
    while at < len(text):
        after = _next(text, at)
        line = text[at:after]
        if line.rstrip(" \t\r\n") in ("---", "..."):
            return after if has_key or is_first else start
        if line.startswith(("## ", "**")):
            return start  # prose between two rules
        is_first, has_key = False, has_key or _is_key(line)
        at = after
    return start


def _next(text: str, at: int) -> int:
    """Where the next line begins."""
    return text.find("\n", at) + 1 or len(text)


def _is_key(line: str) -> bool:
    """Whether a line begins with `key:`."""
    name, colon, value = line.partition(":")
    word = name.rstrip(_BLANK)
    is_word = bool(word) and all(char.isalnum() or char in "-_" or char >= "\x80" for char in word)
    return bool(colon) and is_word and (not value or value[0] in " \t\r\n")


def front_matter(text: str) -> tuple[str | None, str]:
    """The YAML between the opening `---` and `---` (or `...`), and the text after it."""
    end = front_matter_end(text)
    if not end:
        return None, text
    last = text.rfind("\n", 0, end - 1) + 1
    return text[_next(text, 0) : last], text[end:]


def markdown_headings(text: str, start: int = 0, number: int = 1) -> list[tuple[int, str, int, int]]:
    """The headings outside lists, quotes, code and comments as (level, title, line number, offset)."""
    scanner = Scanner()
    found = [
        MarkdownLine(scanner, text, begin, stop, count)
        for count, (begin, stop) in enumerate(_each(scanner, text, start, len(text)), number)
        if scanner.kind == "heading"
    ]
    return [(line.level, line.text, line.number, line.start) for line in found]


def markdown_sections(text: str, level: int = 2) -> list[Part]:
    """The text cut at headings of `level` and above; the first part (level 0) stands before them."""
    begin = front_matter_end(text)
    number = text.count("\n", 0, begin) + 1
    found = [Part(0, "", number, begin, begin)]
    for depth, title, at, start in markdown_headings(text, begin, number):
        if depth <= level:
            found[-1].end = start
            found.append(Part(depth, title, at, start, _next(text, start)))
    found[-1].end = len(text)
    return found


def task_lines(text: str, start: int = 0, end: int | None = None, number: int = 1) -> Iterator[MarkdownLine]:
    """The task items (`- [ ]`, `1. [x]` …) outside code and comments; `at + 1` is the marker's offset."""
    return (line for line in markdown_lines(text, start, end, number) if line.box)
