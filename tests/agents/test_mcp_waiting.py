"""A real agent waits for its MCP server to start. While it waits for its model, a shell waits in the place of that
server, and the next call is answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agents.house import FIRST, REST, house, returns, until
from agents.test_mcp_real import mcp

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", [*FIRST, *(name for name in REST if name != "gemini")])  # which takes no server
def test_a_call_after_a_long_silence(name: str, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = [{"hang": str(go), "ops": [mcp("handoff")]}, returns(), {"text": "Over."}]
    with house(name, tmp_path, {"it": script}) as place:
        place.delegate("Look. script:it", wait=False)
        run = place.live_run()
        until(lambda: [line for line in place.running(run).values() if "overhand-mcp" in line], "the shell")
        go.touch()
        done = place.judged()
        assert done["status"] == "completed", place.stream(done["runs"][0])
        assert "Look. script:it" in place.rows("it")[1]["results"][-1]
        place.is_over(run)


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
