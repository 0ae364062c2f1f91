"""Sixteen processes want every task: each is claimed exactly once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench/claims.py"


def test_each_task_is_claimed_once() -> None:
    ran = subprocess.run([sys.executable, str(BENCH), "200"], capture_output=True, text=True, check=False, timeout=100)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert (told["tasks"], told["claimed"], told["double"], told["errors"]) == (200, 200, 0, 0), told
