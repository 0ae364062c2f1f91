"""Markdown pages as things that can be tried: their code blocks in order, and what stands above each.

A comment above a block says what a reader does with it:

    <!-- file: tools/agent.sh -->     saves it under this name
    <!-- not run: why -->             only reads it
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, its text, the line it begins on and the comment above it."""

    language: str
    text: str
    line: int
    told: str = ""
    """`file`, `not run`, or nothing."""
    value: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a `console` block and the lines of its output that the page shows."""

    line: int
    text: str
    shown: tuple[str, ...]


def pages() -> list[Path]:
    """Every page that a reader may open."""
    return [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found: list[Block] = []
    told = value = ""
    for token in MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8")):
        if token.type == "html_block" and token.content.startswith("<!--"):
            told, _, value = token.content.strip().removeprefix("<!--").removesuffix("-->").strip().partition(": ")
        elif token.type == "fence":
            line = token.map[0] + 1 if token.map else 0
            found.append(Block(token.info.split(" ")[0], token.content, line, told, value))
            told = value = ""
        elif token.type == "inline":
            told = value = ""
    return found


def commands(block: Block) -> list[Command]:
    """`$ command`, lines that go on with `> `, and the output below them."""
    found: list[Command] = []
    for number, line in enumerate(block.text.splitlines(), block.line + 1):
        if line.startswith("$ "):
            found.append(Command(number, line[2:], ()))
        elif found and line.startswith("> ") and not found[-1].shown:
            last = found.pop()
            found.append(Command(last.line, f"{last.text}\n{line[2:]}", ()))
        elif found:
            last = found.pop()
            found.append(Command(last.line, last.text, (*last.shown, line)))
        else:
            raise AssertionError(f"line {number}: a console block begins with `$ `, not with {line!r}")
    return found


def anchors(page: Path) -> set[str]:
    """The names that a link into this page may end with."""
    tokens = MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8"))
    texts = [tokens[at + 1].content for at, token in enumerate(tokens) if token.type == "heading_open"]
    return {_anchor(text) for text in texts}


def _anchor(heading: str) -> str:
    kept = "".join(c for c in heading.lower().replace("`", "") if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")


def links(page: Path) -> list[str]:
    """Where the links of a page lead."""
    found: list[str] = []
    for token in MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8")):
        found += [str(child.attrs["href"]) for child in token.children or [] if child.type == "link_open"]
    return found
