"""From rows to a table on the terminal, in docs/numbers.md and in results.json."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from measure import HERE, Row

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
RESULTS = HERE / "results.json"
NUMBERS = HERE.parent / "docs/numbers.md"


def table(rows: Sequence[Row], machine: dict[str, str]) -> str:
    """The Markdown between the markers."""
    lines = [f"Measured {machine['date']}: " + ", ".join(f"{k} {v}" for k, v in machine.items() if k != "date") + "."]
    lines += ["", "| what | measured | bar | aim | meets |", "|---|---|---|---|---|"]
    lines += [_line(row) for row in rows]
    notes = [f"- {row.what}: {row.note}." for row in rows if row.note]
    missed = [f"{row.what} ({row.measured or row.verdict}, bar {row.bar})" for row in rows if not row.meets_bar]
    return "\n".join([*lines, "", *notes, "", "Below the bar: " + ("; ".join(missed) or "nothing") + "."])


def _line(row: Row) -> str:
    shown = f"**{row.measured}**" if row.measured else ""
    return f"| {row.what} | {shown} | {row.bar} | {row.aim or 'none named'} | {row.verdict} |"


def save(rows: Sequence[Row], machine: dict[str, str]) -> None:
    """Keep the figures where people and programs look for them."""
    found = {"machine": machine, "rows": [{**asdict(row), "verdict": row.verdict} for row in rows]}
    RESULTS.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    _replace(NUMBERS, table(rows, machine))


def _replace(path: Path, text: str) -> None:
    old = path.read_text(encoding="utf-8")
    before, begin, rest = old.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{path} has no place for the table: {BEGIN} … {END}")
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")
