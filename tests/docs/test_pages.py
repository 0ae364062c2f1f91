"""What README and guide say is tried: every command typed, every file saved, every Python block run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from docs.pages import DOCS, ROOT, anchors, blocks, links, pages
from docs.reader import fits, must_show, reader, steady

if TYPE_CHECKING:
    from pathlib import Path

TRIED = (ROOT / "README.md", DOCS / "guide.md", *sorted((DOCS / "guide").glob("*.md")))
PLAYED = {"agents.md": ("claude", "codex")}  # coding agents that their readers have
HOSTS = ("keepachangelog.com", "semver.org")
NOT_OURS = re.compile(
    r"(?<![\w.])/work\b|\.\./shared|\b[Ss]eeds?\b|\b(?:SPEC|RUNTIME|DESIGN)\.md\b|\b(?:TODO|FIXME|TBD)\b|\b[Ll]orem\b"
)


def name(page: Path) -> str:
    return page.name


@pytest.mark.parametrize("page", TRIED, ids=name)
def test_what_a_page_says_works(page: Path, tmp_path: Path) -> None:
    somebody = reader(page, tmp_path / "project", *PLAYED.get(page.name, ()))
    try:
        somebody.read()
    finally:
        somebody.project.cleanup()


@pytest.mark.parametrize("page", pages(), ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        parts = urlsplit(link)
        if parts.scheme:
            assert parts.hostname in HOSTS, f"{page.name} links to a host that is not on the list: {link}"
            continue
        target = (page.parent / parts.path).resolve() if parts.path else page
        assert target.exists(), f"{page.name}: there is no {link}"
        if parts.fragment:
            assert parts.fragment in anchors(target), f"{page.name}: {target.name} has no heading for {link}"


@pytest.mark.parametrize("page", pages(), ids=name)
def test_a_page_speaks_of_the_project_only(page: Path) -> None:
    found = NOT_OURS.findall(page.read_text(encoding="utf-8"))
    assert not found, f"{page.name} says {found}"


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_block_says_what_it_is(page: Path) -> None:
    unnamed = [block.line for block in blocks(page) if not block.language]
    assert not unnamed, f"{page.name}: the blocks on these lines name no language: {unnamed}"


def test_output_is_compared_without_what_differs_each_time() -> None:
    said = "1 worker: queued\n1  Title\n   0.02s in runs/sess_1794775825_m86yj5 · worker-20261115-205025\n"
    must_show(("1  Title", "…", "  0.4s in runs/sess_1_abcdef · worker-20250101-000000-2"), said, "here")
    with pytest.raises(AssertionError, match="not in the output"):
        must_show(("1  Title", "1 worker: queued"), said, "here")


def test_an_ellipsis_stands_for_anything() -> None:
    assert fits("passed pytest -q · exit 0", "passed … · exit 0")
    assert fits("passed pytest -q", "passed …")
    assert not fits("passed pytest -q · exit 1", "passed … · exit 0")
    assert steady("  a   b 12:00:00 ") == "a b TIME"
