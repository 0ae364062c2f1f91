"""CPU time of reading a return and naming its files: an ordinary OUTPUT.md, and some of a megabyte.

    python bench/returns.py

Prints milliseconds for each document, the best of several rounds; at most 5 for an ordinary one and 200 for a megabyte
are allowed, else the exit code is 1.
"""

from __future__ import annotations

import sys
import tempfile
import time

from overhand.runs.evidence import read_output_bytes
from overhand.runs.worktree import named_facts

ORDINARY = """# Task Complete: Add refunds

**Status:** ✅ completed (all 41 tests pass)
**Duration:** 14 minutes

## 📋 Summary
Added full and partial refunds; nine tests cover the edge cases.

## Deliverables
| # | File | Description |
|---|------|-------------|
| 1 | [`refunds.py`](src/shop/refunds.py) | Refund and PartialRefund |
| 2 | `tests/test_refunds.py:1-140` (new) | nine tests |

## Decisions Made
- **Refunds are separate records**: the cart's history stays as it was
- **Amounts are cents**: floats lose money

## Files Modified
- `src/shop/cart.py` — remembers which lines were paid back
- `docs/old.md` (deleted)
"""
_LINE = "- `src/shop/module_{0}.py:{0}-{0}` — removed the rounding bug in `Cart.total`, see docs/guide.md\n"
_PROSE = "The cart keeps its history; status and rounding are as they were (see `Cart.total`), 41 of 41 tests pass.\n"
LARGE = {
    "1 MB of files": ORDINARY + "".join(_LINE.format(number) for number in range(10_500)),
    "1 MB of table": ORDINARY + "".join(f"| `src/a{n}.py`, `src/b{n}.py` | what |\n" for n in range(26_000)),
    "1 MB of prose": ORDINARY + "\n## For Primary\n" + _PROSE * 9_800,
    "1 MB of log": ORDINARY + "\n## Log\n```\n" + "2026-11-18 INFO status: failed # no heading\n" * 23_500 + "```\n",
    "1 MB in a fence": "Here it is:\n\n```markdown\n" + ORDINARY + "\n## For Primary\n" + _PROSE * 9_800 + "```\n",
}


def milliseconds(text: str, rounds: int) -> float:
    """The least CPU time that reading a document takes."""
    best, raw = float("inf"), text.encode()
    with tempfile.TemporaryDirectory() as root:
        for _ in range(rounds):
            began = time.process_time()
            named_facts(root, read_output_bytes(raw).named_files)
            best = min(best, time.process_time() - began)
    return best * 1000


def main() -> int:
    over = False
    for name, text, rounds, most in [
        ("ordinary", ORDINARY, 50, 5.0),
        *((name, text, 3, 200.0) for name, text in LARGE.items()),
    ]:
        spent = milliseconds(text, rounds)
        over = over or spent > most
        print(f"{name:16} {len(text.encode()) / 1000:8.1f} kB {spent:8.1f} ms  (at most {most:g})")
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
