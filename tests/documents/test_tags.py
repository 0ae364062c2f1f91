"""Tags in bytes: what counts as one, what belongs to it, and edits that change nothing else."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from overhand.documents import (
    is_tag,
    item_digest,
    item_weights,
    kind_of_tag,
    patch_adding_tag,
    patch_swapping_tag,
    patches_removing_tag,
    scan_tags,
    stage_of_tag,
    tags,
)
from overhand.system import merge_patches

LIVE = [
    "#needs-fix", "a #needs-fix", "(#needs-fix)", "*#needs-fix*", "**#needs-fix**", "_#needs-fix_", "\"#needs-fix\"",
    "| a | #needs-fix |", ">#needs-fix", "- [ ] do it #needs-fix.", "do it: #needs-fix, then", "# Title #needs-fix",
    "    #needs-fix", "\t#needs-fix", "—#needs-fix—", "「#needs-fix」", "\u00a0#needs-fix\u00a0x", "#needs-fix✅",
    "`open #needs-fix", "\\`#needs-fix\\`", "`` ` `` #needs-fix", "`a` #needs-fix `b`", "<!-- a --> #needs-fix",
    "a <!-- b\n\n#needs-fix -->", "<b>#needs-fix</b>", "**Tags**:#needs-fix", "#needs-fix <!--overhand:w-1-->",
    "```x`y\n#needs-fix", "| `a | b |\n| c | #needs-fix` |", "# `a\n#needs-fix `b", "a #needs-fix\0b",
]  # fmt: skip
INERT = [
    "`#needs-fix`", "``#needs-fix``", "`` a ` #needs-fix ``", "`a\n#needs-fix`", "```\n#needs-fix\n```",
    "~~~\n#needs-fix",
    "````\n```\n#needs-fix\n````", "- a\n  ```\n  #needs-fix\n  ```", "> ~~~\n> #needs-fix\n", "``` #needs-fix\n```",
    "<!-- #needs-fix -->", "a <!-- b\n#needs-fix -->", "<!--\n\n#needs-fix\n\n-->", "<!-- #needs-fix", "\\#needs-fix",
    "---\ntags: #needs-fix\n---\n", "<div>\n<!--\n\n#needs-fix\n\n-->\n</div>", "#needs-fix-later", "#needs-fix_later",
    "x#needs-fix", "##needs-fix", "ü#needs-fix", "docs/a.md#needs-fix", "[a](#needs-fix)", "https://x.org/#needs-fix",
    "<a href=\"#needs-fix\">", "&#needs-fix;", "#needs-fixé", "#needs-fix\u0301",
    "# needs-fix", "#Needs-fix", "#needs fix",
    "```\n#needs-fix\n``", "1. a\n\n   ~~~\n   #needs-fix\n\n   b",
]  # fmt: skip


@pytest.mark.parametrize("eol", ["\n", "\r\n"])
@pytest.mark.parametrize("before", ["", "\ufeff"])
@pytest.mark.parametrize("text", LIVE)
def test_live(text: str, before: str, eol: str) -> None:
    raw = (before + text.replace("\n", eol)).encode()
    found = [tag for tag in scan_tags(raw) if tag.name == "#needs-fix"]
    assert len(found) == 1
    assert raw[found[0].start : found[0].end] == b"#needs-fix"
    assert found[0].line == raw[: found[0].start].count(b"\n") + 1
    assert [tag.start for tag in scan_tags(raw, b"#needs-") if tag.name == "#needs-fix"] == [found[0].start]


@pytest.mark.parametrize("eol", ["\n", "\r\n"])
@pytest.mark.parametrize("text", INERT)
def test_inert(text: str, eol: str) -> None:
    raw = text.replace("\n", eol).encode()
    assert not [tag for tag in scan_tags(raw) if tag.name == "#needs-fix"]
    assert not [tag for tag in scan_tags(raw, b"#needs-") if tag.name == "#needs-fix"]


@pytest.mark.parametrize(
    ("name", "stage", "kind"),
    [
        ("#needs-fix", "needs", "fix"), ("#delegated-api-docs", "delegated", "api-docs"), ("#next-x", "next", "x"),
        ("#claimed-fix", "claimed", "fix"), ("#done-fix", "done", "fix"), ("#needs", "", ""), ("#P1", "", ""),
        ("#active-alert", "", ""), ("#Needs-fix", "", ""),
    ],
)  # fmt: skip
def test_stage_and_kind(name: str, stage: str, kind: str) -> None:
    assert (stage_of_tag(name), kind_of_tag(name)) == (stage, kind)
    assert is_tag(name)


@pytest.mark.parametrize(
    "name", ["", "#", "needs-fix", "#1", "#needs-", "#needs-fix ", "#a b", "#a#b", "#a,#b", "#-a", "#a\n"]
)
def test_no_tag(name: str) -> None:
    assert not is_tag(name)


@pytest.mark.parametrize(
    ("line", "weights"),
    [
        ("#needs-fix", (2, "")), ("#needs-fix #P0", (0, "")), ("#P3 a #L #needs-fix", (3, "L")),
        ("#needs-fix #P2 #P1 #S #M", (1, "S")), ("#needs-fix `#P0` <!-- #L -->", (2, "")),
        ("#needs-fix #P4 #XL", (2, "")),
        ("#needs-fix\n#P0 #S", (2, "")), ("**Tags**: #needs-fix #P1 #M", (1, "M")),
    ],
)  # fmt: skip
def test_weights(line: str, weights: tuple[int, str]) -> None:
    raw = line.encode()
    tag = next(tag for tag in scan_tags(raw) if tag.name == "#needs-fix")
    assert item_weights(raw, tag) == weights


def test_the_id_is_part_of_the_span_and_moves_with_it() -> None:
    raw = b"- do it #delegated-fix <!--overhand:worker-20261115-191500--> #P1\r\n"
    tag = scan_tags(raw)[0]
    assert (tag.task, raw[tag.end : tag.span_end]) == (
        "worker-20261115-191500",
        b" <!--overhand:worker-20261115-191500-->",
    )
    claimed = tags.applied(raw, patch_swapping_tag(raw, tag, "#claimed-fix"))
    assert claimed == raw.replace(b"#delegated-fix", b"#claimed-fix")
    other = tags.applied(raw, patch_swapping_tag(raw, tag, "#needs-fix", None))
    assert other == b"- do it #needs-fix #P1\r\n"
    assert (
        tags.applied(raw, patch_swapping_tag(raw, tag, "#next-fix", "w-2"))
        == b"- do it #next-fix <!--overhand:w-2--> #P1\r\n"
    )
    assert {item_digest(text, scan_tags(text)[0]) for text in (raw, claimed, other)} == {
        item_digest(b"-  do it #needs-fix", scan_tags(b"-  do it #needs-fix")[0])
    }
    with pytest.raises(ValueError, match="does not stand"):
        patch_swapping_tag(b"x" + raw, tag, "#done-fix")


@pytest.mark.parametrize("behind", ["<!-- overhand:w-1 -->", "<!--overhand:w-1-->", "\t<!--overhand: w-1-->"])
def test_an_id_that_a_formatter_has_moved(behind: str) -> None:
    assert scan_tags(f"#needs-fix {behind}".encode())[0].task == "w-1"


@pytest.mark.parametrize(
    "behind", ["<!--other:w-1-->", "x <!--overhand:w-1-->", "\n<!--overhand:w-1-->", "<!--overhand:-->"]
)
def test_no_id(behind: str) -> None:
    assert scan_tags(f"#needs-fix {behind}".encode())[0].task == ""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "**Tags**: #x"),
        ("# T", "# T\n**Tags**: #x"),
        ("# T\n", "# T\n**Tags**: #x\n"),
        ("# T\n\ntext", "# T\n**Tags**: #x\n\ntext"),
        ("# T\ntext\n", "# T\n**Tags**: #x\n\ntext\n"),
        ("# T\r\ntext\r\n", "# T\r\n**Tags**: #x\r\n\r\ntext\r\n"),
        ("# T\n**Date**: 1\n", "# T\n**Tags**: #x\n**Date**: 1\n"),
        ("\ufeffT\n===\n\na", "\ufeffT\n===\n**Tags**: #x\n\na"),
        ("text", "**Tags**: #x\n\ntext"),
        ("## Sub\n# T\n", "**Tags**: #x\n\n## Sub\n# T\n"),
        ("---\na: 1\n---\ntext", "---\na: 1\n---\n**Tags**: #x\n\ntext"),
        ("---\na: 1\n---", "---\na: 1\n---\n**Tags**: #x"),
        ("# T\n\n**Tags**: #a\n", "# T\n\n**Tags**: #a #x\n"),
        ("# T\n**Tags**: #a  \nb", "# T\n**Tags**: #a #x  \nb"),
        ("# T\n**Tags**:\n", "# T\n**Tags**: #x\n"),
        ("# T\n**Tags**: `a\nb`\n", "# T\n**Tags**: #x `a\nb`\n"),
        ("# T\n**Tags**: #a <!--overhand:w-1-->\n", "# T\n**Tags**: #a <!--overhand:w-1--> #x\n"),
        ("# T\n**Tags**: `#x` #xy\n", "# T\n**Tags**: `#x` #xy #x\n"),
        ("# T\n#x\n", "# T\n**Tags**: #x\n\n#x\n"),
        ("# T\n## S\n**Tags**: #a\n", "# T\n**Tags**: #x\n\n## S\n**Tags**: #a\n"),
        ("```\n# no\n```\n# T\n", "```\n# no\n```\n# T\n**Tags**: #x\n"),
        ("> # no\n\n# T\n", "> # no\n\n# T\n**Tags**: #x\n"),
        ("# T\n```\n**Tags**: #a\n```\n", "# T\n**Tags**: #x\n\n```\n**Tags**: #a\n```\n"),
        ("# T\n**Tags**: #x\n", None),
    ],
)
def test_added(before: str, after: str | None) -> None:
    patch = patch_adding_tag(before.encode(), "#x")
    assert (None if patch is None else tags.applied(before.encode(), patch).decode()) == after
    if after is not None:
        assert next(tag.on_tags_line for tag in scan_tags(after.encode()) if tag.name == "#x") is True


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# T\n**Tags**: #x #y\n", "# T\n**Tags**: #y\n"),
        ("# T\n**Tags**: #y #x\r\n", "# T\n**Tags**: #y\r\n"),
        ("# T\n**Tags**: #x\n", "# T\n**Tags**:\n"),
        ("a #x <!--overhand:w-1--> b\n", "a b\n"),
        ("#x #x #x b", "b"),
        ("  #x b `#x`", "  b `#x`"),
        ("a #x  #x\n #x #x", "a\n "),
        ("(#x) #xy #x-y", "() #xy #x-y"),
        ("a\n#x", "a\n"),
        ("#y", "#y"),
    ],
)
def test_removed(before: str, after: str) -> None:
    raw = before.encode()
    patch = merge_patches(raw, *patches_removing_tag(raw, "#x"))
    assert (raw if patch is None else tags.applied(raw, patch)).decode() == after


def test_removed_from_one_line() -> None:
    raw = b"a #x\nb #x\nc #x"
    assert patches_removing_tag(raw, "#x", 2) == [(6, 9, b"")]


PIECES = [
    b"#needs-fix", b"#P1", b" ", b" ", b"\n", b"\r\n", b"\r", b"`", b"``", b"```", b"~~~", b"<!--", b"-->", b"# ",
    b"- ",
    b"> ", b"**Tags**:", b"<!--overhand:w-1-->", b"a", b"\xff", b"\0", "ü".encode(), b"\\", b"\t", b"---\n", b"|",
    b"<div>",
    b"<!-", b"    ", b"x: y\n", b"(", b"#", b"=",
]  # fmt: skip
hostile = st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join)


@settings(max_examples=600, deadline=None)
@given(st.one_of(hostile, st.binary(max_size=200)))
@example(b"#needs-fix <!--overhand:w-1-->#needs-fix")
def test_edits_change_nothing_else(raw: bytes) -> None:
    """Any bytes: no error, spans in order, and every edit is one replaced span that reads back as meant."""
    found = scan_tags(raw)
    at = 0
    for tag in found:
        assert at <= tag.start < tag.end <= tag.span_end <= len(raw)
        assert raw[tag.start : tag.end].decode() == tag.name
        at = tag.span_end
        after = tags.applied(raw, patch_swapping_tag(raw, tag, "#claimed-zz"))
        assert after == raw[: tag.start] + b"#claimed-zz" + raw[tag.end :]
        again = [(one.name, one.task) for one in scan_tags(after)]
        assert again == [("#claimed-zz" if one is tag else one.name, one.task) for one in found]
    narrow = scan_tags(raw, b"#needs-")
    assert [repr(tag) for tag in found if tag.name.startswith("#needs-")] == [repr(tag) for tag in narrow]


@settings(max_examples=600, deadline=None)
@given(hostile)
@example(b"`\n**Tags**:\n`")
@example(b"# T\n`\n**Tags**: #a\n`\n")
def test_added_then_removed(raw: bytes) -> None:
    patch = patch_adding_tag(raw, "#zz")
    assert patch is not None
    assert patch[0] == patch[1]
    new = tags.applied(raw, patch)
    assert [tag.on_tags_line for tag in scan_tags(new) if tag.name == "#zz"] == [True]
    assert patch_adding_tag(new, "#zz") is None
    back = merge_patches(new, *patches_removing_tag(new, "#zz"))
    assert back is not None
    assert not [tag for tag in scan_tags(tags.applied(new, back)) if tag.name == "#zz"]


@pytest.mark.parametrize(
    "piece",
    [
        b"#a ", b"`", b"``` ", b"`a``b```c", b"<!--", b"- ", b"> ", b"+ - ", b"\\`", b"#needs-fix\n", b"`#a\n",
        b"> > #a\n",
        b"- #a\n", b"<div>\n#a", b"|#a`", b"<!-- #a -->", b"\t#a", b"**Tags**: #a\n", b"#aaaaaaaa", b"# #a `\n",
        b"#\xc3\xbc",
        b"\n\n- #a\n  - `#a\n", b"<!-->", b"a", b"\r\n", b"---\n", b" ",
    ],
)  # fmt: skip
def test_hostile_files_take_linear_time(piece: bytes) -> None:
    """With work for every pair of pieces this would not end before the time of the tests is over."""
    raw = b"#x\n" + piece * (300_000 // len(piece))
    assert scan_tags(raw)[0].name == "#x"
    assert scan_tags(raw, b"#x")[0].name == "#x"
