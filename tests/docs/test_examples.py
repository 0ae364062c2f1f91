"""The examples work with the frameworks they are about; `make examples` installs those beside them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_examples_with_their_frameworks() -> None:
    python = Path(os.environ.get("OVERHAND_EXAMPLES") or EXAMPLES / ".venv") / "bin/python"
    if not python.exists():
        pytest.skip("the frameworks are not installed: make examples")
    words = ["-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(EXAMPLES), "-p", "no:cacheprovider"]
    words += [str(EXAMPLES / "check_examples.py")]
    done = subprocess.run([python, *words], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_every_example_is_in_the_list_and_short() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    for path in EXAMPLES.glob("*_*.py"):
        if path.name != "check_examples.py":
            assert f"[{path.name}]({path.name})" in listed
            assert len(path.read_text().splitlines()) < 70, path.name
