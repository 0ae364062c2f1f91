"""Claims and kills: the two attacks have programs of their own, because they fork; here they become rows."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from measure import HERE, PYTHON, Row


def rows(*, quick: bool) -> list[Row]:
    """Both attacks, each in its own process."""
    claims = _told("claims.py", "200" if quick else "1000")
    kills = _told("kills.py", "30" if quick else "150")
    return [_claims(claims), _kills(kills)]


def _told(name: str, size: str) -> dict[str, Any]:
    """What the program says in its one line; it may say that the attack succeeded."""
    done = subprocess.run([PYTHON, str(HERE / name), size], stdout=subprocess.PIPE, text=True, check=False)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def _claims(told: dict[str, Any]) -> Row:
    ratio = told["bare_rate"] / told["rate"]
    return Row(
        f"{told['processes']} processes, each trying to create a run on all of {told['tasks']} prepared tasks",
        f"{told['double']} double, {told['errors']} errors, a bare flock loop is {ratio:.2f}x as fast",
        "0 double, 0 errors",
        "within 2x of a bare flock loop",
        told["double"] == 0 and told["errors"] == 0 and told["claimed"] == told["tasks"],
        ratio <= 2,
        f"{told['rate']:.0f} attempts a second against {told['bare_rate']:.0f}",
    )


def _kills(told: dict[str, Any]) -> Row:
    return Row(
        f"{told['kills']} random kills of supervisor or shim during start, two adopters",
        f"{told['double_starts']} double starts, {told['stuck']} stuck",
        "0 double starts, 0 stuck",
        "",
        told["double_starts"] == 0 and told["stuck"] == 0,
        None,
        f"{told['completed']} were judged completed, {told['second_runs']} after a second run",
    )
