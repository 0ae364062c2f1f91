"""Requests: reading them tolerantly, and what is added to them without touching another byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overhand.documents import (
    Deliverable,
    FileNote,
    Request,
    add_recovery,
    appendix,
    lint_document,
    lint_handoff,
    parse_request,
    put_response,
    render_handoff,
    render_request,
    request,
    request_file_name,
    request_to_handoff,
    scan_tags,
    stage_of_tag,
)
from overhand.system import merge_patches
from support import strategies as make
from support.strategies import light

if TYPE_CHECKING:
    from overhand.system import Patch

# Ends of files that make it hard to add something: open fences and comments, quotes, lists, no newline.
_ENDS = [
    "",
    "\n",
    "\n\n\n",
    "  ",
    "\n```\nopen",
    "\n~~~~\n## Response",
    "\n<!-- open\n## Recovery",
    "\n- a\n  ```\n  x",
]
_TAGS = ["#needs-fix", "`#needs-fix", "#done-fix`", "(#delegated-a)", "``#next-b", "#claimed-c-d", "a#needs-x", "##"]
# What decides whether a tag is live, also in sections below: HTML that is left open makes other backticks count.
_HARD = [
    *_TAGS, "\n", "\n\n", " ", "`", "``", "- ", "\n> ", "\n```\n", "<!-- ", "-->", "\n<pre>\n", "\n<script>\n",
    "</pre> ", "\n| a ` | ", "\n    ", "\n**Tags**: #needs-c", "\n## x\n", "\\", "\n- [ ] ", "\n---\n",
]  # fmt: skip


def applied(raw: bytes, patch: Patch | None) -> bytes:
    start, end, new = patch or (0, 0, b"")
    return raw[:start] + new + raw[end:]


def added(before: bytes, after: bytes, patch: Patch) -> None:
    start, end, new = patch
    assert after.startswith(before[:start])
    assert after.endswith(before[end:])
    assert len(after) == len(before) - (end - start) + len(new)


@pytest.mark.parametrize(
    ("kind", "topic", "name"),
    [
        ("fix", "The map pauses!", "FIX_REQUEST_THE_MAP_PAUSES.md"),
        ("data-load", "../../etc/passwd", "DATA_LOAD_REQUEST_ETC_PASSWD.md"),
        ("fix", "Größe der Straße", "FIX_REQUEST_GRÖSSE_DER_STRASSE.md"),
        ("fix", "…", "FIX_REQUEST_ITEM.md"),
        ("fix", "word " * 40, "FIX_REQUEST_WORD_WORD_WORD_WORD_WORD_WORD_WORD_WORD_WORD.md"),
    ],
)
def test_names(kind: str, topic: str, name: str) -> None:
    assert request_file_name(kind, topic) == name
    assert request.kind_in_name(name) == kind


def test_a_request_in_other_words() -> None:
    text = (
        "# The map pauses\n**Tags:** #delegated-fix <!--overhand:worker-20261115-191500--> #P1\n\n"
        "Panning is slow.\n\n## Acceptance criteria:\n1. fast\n\n## Expectations\n- `a.py`: the cache\n- a figure\n"
    )
    found, problems = parse_request(text)
    assert (found.kind, found.title, found.what, found.tags) == (
        "fix", "The map pauses", "Panning is slow.", ("#delegated-fix", "#P1"),
    )  # fmt: skip
    assert found.criteria == ("fast",)
    assert found.expectations == (Deliverable("the cache", "a.py"), Deliverable("a figure"))
    assert [one.message.split("”")[0] for one in problems] == ["“Why", "“Requester"]


def test_check_knows_a_request_by_its_name_and_by_its_title() -> None:
    assert lint_document("FIX_REQUEST_X.md", b"anything\n")[0] == "request"
    assert lint_document("x.md", b"# Research Request: tiles\n")[0] == "request"
    assert lint_document("x.md", b"# Pull requests: tiles\n")[0] == "unknown"


def test_a_request_becomes_a_handoff() -> None:
    asked = Request(
        "fix", "The map pauses", "Cache the index.", "Two customers left.", "It has 12 MB.",
        (Deliverable("the cache", "a.py"),), ("fast", "small"), "anna",
    )  # fmt: skip
    task = request_to_handoff(asked, source="requests/FIX_REQUEST_X.md")
    assert task.title == "The map pauses"
    assert task.task == "The map pauses\n\nCache the index."
    assert task.context == (
        "Why: Two customers left.\n\nIt has 12 MB.\n\nAsked for in requests/FIX_REQUEST_X.md by anna"
    )
    assert task.deliverables == asked.expectations
    assert task.return_requirements.endswith("\n- fast\n- small")
    assert lint_handoff(render_handoff(task)) == []
    same = Request("fix", "Cache the index…", "Cache the index of tiles.")
    assert request_to_handoff(same).task == "Cache the index of tiles."


@light
@given(make.body, st.sampled_from(_ENDS), make.body, st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_a_response_is_added_once_per_run_and_read_back(text: str, end: str, said: str, eol: str, bom: bool) -> None:
    raw = (b"\xef\xbb\xbf" if bom else b"") + (f"# x\n{text}{end}".replace("\n", eol)).encode()
    files, link = (FileNote("a.py", "the code"),), "../a b/OUTPUT.md"
    first = put_response(raw, "sess_1_a", "partial", "Half.")
    assert first is not None
    once = applied(raw, first)
    added(raw, once, first)
    second = put_response(once, "sess_2_b", "completed", said, files, link)
    assert second is not None
    twice = applied(once, second)
    added(once, twice, second)
    assert put_response(twice, "sess_2_b", "completed", said, files, link) is None
    assert b"\n" not in twice[len(raw) :].replace(b"\r\n", b"") or eol == "\n" or b"\r\n" not in raw
    last = parse_request(twice.removeprefix(b"\xef\xbb\xbf").decode())[0].responses[-2:]
    assert [one.run for one in last] == ["sess_1_a", "sess_2_b"]
    assert last[1] == appendix.Response("sess_2_b", "completed", said, files, link)
    third = put_response(twice, "sess_1_a", "completed", "All.")
    assert third is not None
    thrice = applied(twice, third)
    added(twice, thrice, third)
    found = parse_request(thrice.removeprefix(b"\xef\xbb\xbf").decode())[0].responses[-2:]
    assert found == (appendix.Response("sess_1_a", "completed", "All."), last[1])


@light
@given(make.body, st.sampled_from(_ENDS))
def test_a_recovery_is_added_once_per_session(text: str, end: str) -> None:
    raw = f"# x\n{text}{end}".encode()
    patch = add_recovery(raw, "2026-11-15T19:15:00Z", "it died", "sess_1_a", "queued again")
    assert patch is not None
    once = applied(raw, patch)
    added(raw, once, patch)
    assert add_recovery(once, "2026-11-16T19:15:00Z", "it died", "sess_1_a", "queued again") is None
    again = add_recovery(once, "2026-11-16T19:15:00Z", "it hung", "sess_2_b", "queued again")
    assert again is not None
    twice = applied(once, again)
    assert twice.count(b"- **Prior Session**: ") == raw.count(b"- **Prior Session**: ") + 2


@given(st.binary(max_size=60), st.sampled_from(_ENDS))
@light
def test_any_bytes_can_be_added_to(junk: bytes, end: str) -> None:
    raw = junk + end.encode()
    patch = put_response(raw, "sess_1_a", "completed", "Done.")
    assert patch is not None
    whole = applied(raw, patch)
    added(raw, whole, patch)
    assert put_response(whole, "sess_1_a", "completed", "Done.") is None


@light
@given(st.lists(st.sampled_from(_HARD), max_size=9))
def test_a_request_is_one_item_whatever_it_says(parts: list[str]) -> None:
    said = "".join(parts)
    asked = Request("fix", " ".join(said.split()), said, said, said, (), (said,) if said.strip() else (), said)
    raw = render_request(asked).encode()
    answer = put_response(raw, "sess_1_a", "completed", said, (FileNote("a.py", " ".join(said.split())),))
    raw = applied(raw, answer)
    raw = applied(raw, add_recovery(raw, "2026-11-15", said, "sess_1_a", "queued"))
    assert [(tag.name, tag.on_tags_line) for tag in scan_tags(raw) if stage_of_tag(tag.name)] == [("#needs-fix", True)]


def test_what_people_wrote_under_response_stays() -> None:
    raw = b"# x\n\n## Response\n\nThanks!  \n\n## Later\nmore"
    patch = put_response(raw, "sess_1_a", "completed", "Done.")
    assert applied(raw, patch) == (
        b"# x\n\n## Response\n\nThanks!  \n\n### Run sess_1_a\n\n**Outcome:** completed\n\n> Done.\n\n"
        b"**Deliverables:** none\n\n## Later\nmore"
    )


def test_patches_together() -> None:
    raw = b"**Tags**: #claimed-fix\n\ntext"
    start = raw.index(b"claimed")
    answer = put_response(raw, "sess_1_a", "completed", "Done.")
    both = merge_patches(raw, answer, None, (start, start + 7, b"done"))
    assert applied(raw, both).startswith(b"**Tags**: #done-fix\n\ntext\n\n## Response")
    assert merge_patches(raw, None) is None
    with pytest.raises(ValueError, match="the same bytes"):
        merge_patches(raw, (0, 5, b""), (4, 6, b""))


@light
@given(st.lists(st.sampled_from(_HARD), max_size=12))
def test_inert_text_stays_inert_and_keeps_its_words(parts: list[str]) -> None:
    text = "".join(parts)
    once = appendix.inert(text)
    assert not [tag for tag in scan_tags(once.encode()) if stage_of_tag(tag.name)]
    assert appendix.inert(once) == once
    for mark in "` \\":
        once, text = once.replace(mark, ""), text.replace(mark, "")
    assert once == text
