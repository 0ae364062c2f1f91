"""`make bench`: every figure of the issue as ratios of one interleaved run, with medians.

By hand: bench/.venv/bin/python bench/run.py [--quick] [--only FIGURE ...] [--save]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import traceback
from importlib import import_module

import measure
import report
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
    "shield": "shield",
    "trees": "trees",
    "landing": "landing",
}


def measured(name: str, *, quick: bool) -> list[Row]:
    """The rows of one figure; where it cannot be measured, one row that says so, and the other figures stand."""
    try:
        return list(import_module(FIGURES[name]).rows(quick=quick))
    except Exception as error:  # noqa: BLE001 -- whatever goes wrong in one benchmark says nothing about the others
        traceback.print_exc()
        why = "could not be measured: " + " ".join(f"{type(error).__name__}: {error}".split())[:200]
        return [Row(f"all of `{name}`", "", "", "", meets_bar=False, meets_aim=None, note=why)]


def main() -> int:
    """Measure, print, and, when every figure was measured in full, save."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds; nothing is saved")
    parser.add_argument("--only", nargs="+", choices=FIGURES, help="only these; nothing is saved")
    parser.add_argument("--save", action="store_true", help="save even so")
    wanted = parser.parse_args()
    machine = measure.machine()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="overhand-state-") as state:
        os.environ["XDG_STATE_HOME"] = state  # the records of the projects that are made
        for name in wanted.only or FIGURES:
            began = time.monotonic()
            rows += measured(name, quick=wanted.quick)
            print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    print(report.table(rows, machine))
    if wanted.save or not (wanted.quick or wanted.only):
        report.save(rows, machine)
    return 0 if all(row.meets_bar for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
