"""What only mentions a tag, against a CommonMark parser as the oracle.

Known and wanted differences: indented code hides nothing (the oracle's `code_block` is not compared); rows of tables
are read one by one (no `|` here); a comment opened inside of HTML goes on over blank lines, and backticks hide in HTML.
The oracle takes a fence, a list or a heading that is indented by four, behind a paragraph in two containers or in a
list item that is indented itself, for one; the standard says that such a line continues the paragraph. And it takes an
indented `>` for one that continues a quote.
"""

from __future__ import annotations

import re

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from overhand.documents import scan_tags

ORACLE = MarkdownIt("commonmark", {"maxNesting": 100})

PREFIXES = [
    "",
    "",
    "",
    " ",
    "  ",
    "   ",
    "    ",
    "\t",
    "> ",
    ">",
    "- ",
    "* ",
    "+  ",
    "1. ",
    "2. ",
    "10) ",
    "-\t",
    "-     ",
]
CONTENTS = [
    "", "TAG", "word TAG more", "`TAG`", "`", "``", "``TAG", "TAG``", "`` ` TAG", "\\`TAG`", "a `b\\` TAG `", "```",
    "````", "~~~", "~~~~", "```py", "``` TAG", "~~~ TAG `", "``` TAG ```", "<!--", "-->", "<!-- TAG -->", "<!-- TAG",
    "a <!-- TAG", "TAG --> TAG", "a <!--> TAG", "<!-- a --> TAG", "`<!-- TAG` -->", "<!-- ` --> TAG `", "# TAG",
    "#", "## `TAG", "===", "---", "***", "-", "text", "-->`TAG`", "\\", "-- >",
]  # fmt: skip

NESTED = re.compile(r"^[ \t]*(?:>|[-+*][ \t]|\d+[.)][ \t])[ \t]*(?:>|[-+*]|\d+[.)])", re.MULTILINE)
SHIFTED = re.compile(r"^ {1,3}(?:[-+*]|\d+[.)])[ \t]", re.MULTILINE)
QUOTED = re.compile(r"^[ \t]*(?:    |\t)[ \t]*>", re.MULTILINE)
INDENTED = re.compile(r"^[ \t]*(?:    |\t)[ \t]*(?:```|~~~|[-+*_#<]|\d+[.)])", re.MULTILINE)


@st.composite
def documents(draw: st.DrawFn) -> str:
    eol = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    count = draw(st.integers(1, 9))
    lines = [
        "".join(draw(st.lists(st.sampled_from(PREFIXES), max_size=3))) + draw(st.sampled_from(CONTENTS))
        for _ in range(count)
    ]
    return "x" + eol + eol + eol.join(lines) + draw(st.sampled_from(["", eol]))


def numbered(text: str) -> str:
    """Each TAG as a tag of its own."""
    numbers = iter(range(1000))
    return re.sub("TAG", lambda _: f"#needs-n{next(numbers)}n", text)


def said(text: str) -> tuple[set[str], set[str]]:
    """The oracle's tags: those in text, and those in code, fences and comments."""
    shown, hidden = set(), set()
    for token in ORACLE.parse(text):
        if token.type == "fence":
            hidden |= names(token.content + token.info)
        for child in token.children or ():
            if child.type == "text":
                shown |= names(child.content)
            elif child.type in ("code_inline", "html_inline"):
                hidden |= names(child.content)
        if token.type == "html_block":
            inside = "".join(re.findall(r"<!-->|<!--->|<!--.*?-->|<!--.*", token.content, re.DOTALL))
            hidden |= names(inside)
    return shown, hidden


def names(text: str) -> set[str]:
    return set(re.findall(r"#needs-n\d+n", text))


@settings(max_examples=1500, deadline=None)
@given(documents())
@example("x\n\n- a\n  ```\n  TAG\nTAG\n")
@example("x\n\n> ```\nTAG\n")
@example("x\n\n-\n\n  TAG\n    ```\n    TAG\n")
def test_mentions_are_what_the_oracle_hides(document: str) -> None:
    assume(not QUOTED.search(document))
    assume(not ((NESTED.search(document) or SHIFTED.search(document)) and INDENTED.search(document)))
    text = numbered(document)
    found = {tag.name for tag in scan_tags(text.encode())}
    shown, hidden = said(text)
    assert shown - found == set()
    assert hidden & found == set()
