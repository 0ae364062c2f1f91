"""Our scanner against markdown-it: the same headings and task items, or a listed reason."""

from __future__ import annotations

import random
import re
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from overhand.documents.markdown import markdown_lines
from support.strategies import light

ORACLE = MarkdownIt("commonmark")
BOX = re.compile(r"\[([ xX?!~])\](?=[ \t\n]|$)")


class Seen(NamedTuple):
    """What one reader sees: headings as (line, level), task items as (line, marker)."""

    headings: list[tuple[int, int]]
    tasks: list[tuple[int, str]]


def ours(text: str) -> Seen:
    """Headings and task items by our scanner."""
    found = list(markdown_lines(text))
    return Seen(
        [(one.number, one.level) for one in found if one.kind == "heading"],
        [(one.number, one.box) for one in found if one.box],
    )


def theirs(text: str) -> Seen:
    """ATX headings outside containers, and task items outside quotes, by markdown-it."""
    headings: list[tuple[int, int]] = []
    tasks: list[tuple[int, str]] = []
    tokens = ORACLE.parse(text)
    quotes = 0
    for index, token in enumerate(tokens):
        quotes += {"blockquote_open": 1, "blockquote_close": -1}.get(token.type, 0)
        if token.type == "heading_open" and token.level == 0 and token.markup[0] == "#" and token.map:
            headings.append((token.map[0] + 1, int(token.tag[1])))
        if token.type == "list_item_open" and not quotes and tokens[index + 1].type == "paragraph_open" and token.map:
            inline = tokens[index + 2]
            match = BOX.match(inline.content)
            if match and inline.map and inline.map[0] == token.map[0]:
                tasks.append((token.map[0] + 1, match.group(1).lower()))
    return Seen(headings, tasks)


SAME = {
    "plain": "# A\n\ntext\n\n## B ##\n- [ ] one\n- [x] two\n* [X] three\n+ [?] four\n1. [!] five\n2) [~] six\n",
    "closing hashes": "# a #\n## b ## c\n### d \\#\n#### # \n#\n##\n####### seven\n#no\n",
    "fences": "```\n# no\n- [ ] no\n```\n# yes\n~~~~ py\n~~~\n# no\n~~~~\n# yes\n```` x\n```\n# no\n````\n- [ ] yes\n",
    "backticks in the info string open nothing": "``` a`b\n# yes\n",
    "unclosed fence": "# yes\n```\n# no\n- [ ] no\n",
    "fence in a list": "- a\n  ```\n  # no\n  - [ ] no\n  ```\n- [ ] yes\n",
    "fence in a list ends with the item": "- a\n  ```\n  # no\n# yes\n- [ ] yes\n",
    "fence on the bullet's line": "- ```\n  # no\n  ```\n- [ ] yes\n",
    "fence in a numbered list": "1. a\n\n   ```sh\n   # no\n   ```\n2. [ ] yes\n",
    "closing fence indented too far": "```\n# no\n    ```\n# no\n```\n# yes\n",
    "comments": "<!-- # no\n- [ ] no\n# no -->\n# yes\n<!-- one line -->\n- [ ] yes\n",
    "comment in a list": "- a\n  <!--\n  - [ ] no\n  -->\n- [ ] yes\n",
    "unclosed comment": "# yes\n<!--\n# no\n",
    "indented code": "para\n\n    # no\n    - [ ] no\n\n# yes\n",
    "no indented code inside a paragraph": "para\n    # no\n- [ ] yes\n",
    "indented code in a list": "- a\n\n      - [ ] no\n  - [ ] yes\n",
    "nested items": "- [ ] a\n  - [x] b\n    - [?] c\n  - [ ] d\n- [ ] e\n",
    "nested by four": "- [ ] a\n    - [x] b\n        - [ ] c\n",
    "numbered nesting": "1. [ ] a\n   - [ ] b\n10. [ ] c\n    - [ ] d\n",
    "tabs": "-\t[ ] a\n\t- [ ] b\n1.\t[x] c\n",
    "rules are no items": "- - -\n* * *\n***\n- [ ] yes\n",
    "a list may not cut a paragraph unless it begins at 1": "para\n2. [ ] no\n\n2. [ ] yes\n",
    "nor may an empty item": "para\n-\n- [ ] yes\n",
    "not a box": "- [] a\n- [y] b\n- [ ]c\n- [x]\td\n- x [ ]\n",
    "text after a list": "- a\n\ntext\n\n    - [ ] no\n",
    "heading ends a list": "- a\n# yes\n    - [ ] no\n",
    "crlf": "# a\r\n\r\n- [ ] b\r\n```\r\n# no\r\n```\r\n## c\r\n",
    "indents of headings": " # one\n  ## two\n   ### three\n",
    "text over a line of equals signs is no paragraph any more": "a\n===\n2. [ ] x\n",
    "a list ends a quotation": "> a\n2. [ ] x\n",
    "an item that begins with blank lines": "-\n\n    - [ ] x\n",
    "unicode": "# Größe — 日本\n- [ ] 🙂\n",
}


@pytest.mark.parametrize("name", SAME)
def test_same(name: str) -> None:
    assert ours(SAME[name]) == theirs(SAME[name])


# Why the two differ on the example of the same name, and why ours is what we want.
DIFFERENT = {
    "raw html other than comments is text": "Our documents have none; `<pre>` is not worth a parser.",
    "two bullets on one line": "A box belongs to the line's first bullet, so that `at` finds it.",
    "a lone CR ends no line": "Files have LF or CRLF; `decode` normalises lone CRs before documents are read.",
    "link definitions are text": "They end no paragraph for us, so a list right after one is read differently.",
    "a lazy line that looks like a block": "markdown-it then nests no further; we keep the list open.",
}
EXAMPLES = {
    "raw html other than comments is text": "<pre>\n# no\n</pre>\n",
    "two bullets on one line": "- - [ ] x\n",
    "a lone CR ends no line": "a\r# b\n",
    "link definitions are text": "[a]: b\n2. [ ] x\n",
    "a lazy line that looks like a block": "   - [ ] a\n    # b\n      - [!] c\n",
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_different_for_a_reason(name: str) -> None:
    assert ours(EXAMPLES[name]) != theirs(EXAMPLES[name])


PIECES = [
    "# h", "## h ##", "   ### h", "    # code", "#no", "text", "  text", "- item", "- [ ] task", "  - [x] task",
    "    - [?] task", "      - [!] task", "* [~] task", "1. [ ] task", "2. [x] task", " - [ ] task", "10) [ ] task",
    "```", "```py", "  ```", "    ```", "````", "~~~", "- ```", "<!-- c -->", "<!--", "-->", "***", "", "", "\t- [ ] t",
    "-   wide", "    code", "|a|b|", "[ ] x", "**b**", "-\t[ ] tab",
]  # fmt: skip


def document(seed: int) -> str:
    """A document of random lines, without what is listed as different."""
    dice = random.Random(seed)
    return "\n".join(dice.choice(PIECES) for _ in range(dice.randint(1, 9))) + "\n"


@light
@given(st.integers(0, 2**32))
def test_same_on_random_documents(seed: int) -> None:
    text = document(seed)
    assert ours(text) == theirs(text)
