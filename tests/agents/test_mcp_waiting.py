"""A real agent waits for its MCP server to start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agents.test_mcp_real import mcp
from support.real_agents import FIRST, house, returns

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.soak  # real agents


LATE = "import sys, time\nif sys.orig_argv[-2:] == ['overhand', 'mcp']:\n    time.sleep(3)\n"


@pytest.mark.parametrize("name", FIRST)
def test_a_server_that_starts_slowly_is_waited_for(name: str, tmp_path: Path) -> None:
    script = [{"ops": [mcp("handoff")]}, returns(), {"text": "Over."}]
    with house(name, tmp_path, {"it": script}) as place:
        (tmp_path / "late").mkdir()
        (tmp_path / "late/sitecustomize.py").write_text(LATE)
        place.environ = {**place.environ, "PYTHONPATH": f"{tmp_path}/late:{place.environ['PYTHONPATH']}"}
        done = place.delegate("Look. script:it")
        assert done["status"] == "completed", place.stream(done["runs"][0])
        assert "Look. script:it" in place.rows("it")[1]["results"][-1]
