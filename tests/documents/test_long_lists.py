"""A long list of files is read by a shorter way, and all of it that is looked at is read alike."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from overhand.documents.layout import file_notes
from overhand.documents.paths import named_in
from overhand.runs.evidence import read_output_bytes

PATHS = st.sampled_from(
    ["src/a.py", "LICENSE", "my notes.md", "v1.2.3", "Cart.total", "a.py:12", "npm run build", "x/"]
)
NOTES = st.sampled_from(
    [
        "",
        " — new",
        " - removed",
        " — renamed to `b.py`",
        " (deleted)",
        ", `b.py`",
        ": see `c.py`",
        " → `d.py`",
        " — 1 * 2_",
    ]
)
LINES = st.builds("{0} `{1}`{2}".format, st.sampled_from("-*"), PATHS, NOTES)


def nothing_there(_path: str) -> str:
    return ""


@given(st.lists(LINES, min_size=1, max_size=6))
def test_the_shorter_way_finds_the_same(lines: list[str]) -> None:
    body = "\n".join(lines) + "\n"
    times = -(-210 // len(lines))
    for files in (True, False):
        short = list(named_in(body, nothing_there, files=files))
        assert list(named_in(body * times, nothing_there, files=files)) == short * times
    assert file_notes(body * times) == file_notes(body) * times


HEAD = "# Task Complete: it\n\n**Status:** completed\n\n## Summary\nDone.\n\n## Files Modified\n"


def test_a_missing_file_far_down_in_a_long_list_is_found() -> None:
    body = "".join(f"- `src/module_{number}.py` — formatted\n" for number in range(2000))
    read = read_output_bytes((HEAD + body).encode())
    assert [one.code for one in read.problems] == []
    assert len(read.named_files(nothing_there)) == 2000
