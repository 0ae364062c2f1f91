from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from support.trees import Ground

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    """A user without a repository yet; git of this process sees that user's settings only."""
    made = Ground(tmp_path)
    for name in [name for name in os.environ if name.startswith(("GIT_", "XDG_", "OVERHAND_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("OVERHAND_STATE", str(made.state))
    return made
