"""Which files a text names, and what `--deliverable` asks for."""

from __future__ import annotations

import pytest

from overhand.documents.paths import named_in, promised_path, says_gone

TREE = {"docs": "folder", "docs/my notes.md": "file", "LICENSE": "file", "bin/deploy": "file", "my report.md": "file"}


def look(path: str) -> str:
    return TREE.get(path.rstrip("/"), "")


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("- `src/a.py:12-30` (new), `b.py` and [c](docs/c.md#L3) — what", ["src/a.py", "b.py", "docs/c.md"]),
        ("- docs/my notes.md — sorted", ["docs/my notes.md"]),
        ("- `bin/deploy`, `app/[slug]/page.tsx`", ["bin/deploy", "app/[slug]/page.tsx"]),
        ("- src/{a,b}.py", ["src/a.py", "src/b.py"]),
        ("- `Cart.total`, `v1.2.3`, `refund()`, `GET /refunds`, `numpy>=1.26`, Node.js", []),
        ("- See `docs/guide.md`; I did not touch `src/b.py`", []),
        ("No | File | Note\n--|--|--\n1 | src/a.py | see b.py", ["src/a.py"]),
        ("```\nM  src/a.py\n```", ["src/a.py"]),
    ],
)
def test_named(line: str, named: list[str]) -> None:
    assert [one.path for one in named_in(line, look)] == named


@pytest.mark.parametrize(
    ("line", "gone"),
    [
        ("- Deleted `a.py` and `b.py`", [True, True]),
        ("- `a.py` → `b.py`", [True, False]),
        ("- Renamed `a.py` to `b.py`", [True, False]),
        ("- `b.py` (renamed from `a.py`)", [False, True]),
        ("- Removed unused imports from `a.py`", [False]),
        ("- `a.py` — removed the bug in Y", [False]),
        ("### Deleted\n- `a.py`\n\n### Changed\n- `b.py`", [True, False]),
        ("| File | Action |\n|---|---|\n| `a.py` | deleted |\n| `b.py` | removed a call |", [True, False]),
    ],
)
def test_gone(line: str, gone: list[bool]) -> None:
    assert [one.gone for one in named_in(line, look)] == gone


def test_a_note_excuses_a_missing_file_only_if_it_speaks_of_the_file() -> None:
    for note in ("deleted", "removed, nothing imports it", "(deleted)", "file removed", "moved to `b.py`"):
        assert says_gone(note)
    for note in ("Removed unused imports", "handles deleted orders", "renamed a variable", "renamed from `b.py`"):
        assert not says_gone(note)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("`Makefile`", "Makefile"),
        ("`a b.md` — notes", "a b.md"),
        ("my report.md", "my report.md"),
        ("docs/new page.md", "docs/new page.md"),
        ("src/*.py", "src/*.py"),
        (".env", ".env"),
        ("report.md — the report", "report.md"),
        ("LICENSE", "LICENSE"),
        ("Dockerfile", "Dockerfile"),
        ("docs/", "docs/"),
        ("other report.md", None),
        ("nowhere/a page.md", None),
        ("https://example.org/a.md", None),
        ("Python 3.12", None),
        ("Tests", None),
        ("The import no longer fails.", None),
    ],
)
def test_deliverable(text: str, path: str | None) -> None:
    assert promised_path(text, look)[0] == path
