"""Sixteen processes want every task: each is claimed exactly once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench/claims.py"


@pytest.mark.parametrize("tasks", [40, pytest.param(200, marks=pytest.mark.soak)])
def test_each_task_is_claimed_once(tasks: int) -> None:
    ran = subprocess.run(
        [sys.executable, str(BENCH), str(tasks)], capture_output=True, text=True, check=False, timeout=100
    )
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert (told["tasks"], told["claimed"], told["double"], told["errors"]) == (tasks, tasks, 0, 0), told
