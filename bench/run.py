"""`make bench`: every figure of the issue as ratios of one interleaved run, with medians.

By hand: bench/.venv/bin/python bench/run.py [--quick] [--only FIGURE ...] [--save]
"""

from __future__ import annotations

import argparse
import sys
import time
from importlib import import_module
from typing import TYPE_CHECKING

import measure
import report

if TYPE_CHECKING:
    from measure import Row

# What each is called, and the module that measures it; `acp` and `mcp` are packages already.
FIGURES = {
    **{name: name for name in ("startup", "headline", "inprocess", "command", "crowd", "questions", "budget", "races")},
    "acp": "acp_turns",
    "mcp": "mcp_calls",
    "real": "real",
    "tags": "tags",
    "daemon": "daemon",
    "plans": "plans",
}


def main() -> int:
    """Measure, print, and, when every figure was measured in full, save."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds; nothing is saved")
    parser.add_argument("--only", nargs="+", choices=FIGURES, help="only these; nothing is saved")
    parser.add_argument("--save", action="store_true", help="save even so")
    wanted = parser.parse_args()
    machine = measure.machine()
    rows: list[Row] = []
    for name in wanted.only or FIGURES:
        began = time.monotonic()
        rows += import_module(FIGURES[name]).rows(quick=wanted.quick)
        print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    print(report.table(rows, machine))
    if wanted.save or not (wanted.quick or wanted.only):
        report.save(rows, machine)
    return 0 if all(row.meets_bar for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
