"""An agent whose client loses patience: it calls a tool, cancels the call once told to, and goes on with other work.

python gives_up.py TOOL ARGUMENTS    cancels when the project has a file `cancel`, ends when it has a file `over`
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any


def main(tool: str, arguments: dict[str, Any]) -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "overhand", "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdin is not None
    assert server.stdout is not None

    def say(message: dict[str, Any]) -> None:
        assert server.stdin is not None
        server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        server.stdin.flush()

    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    say({"id": 0, "method": "initialize", "params": client})
    server.stdout.readline()
    say({"method": "notifications/initialized"})
    say({"id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
    _until("cancel")
    say({"method": "notifications/cancelled", "params": {"requestId": 1, "reason": "it takes too long"}})
    _until("over")
    with open(os.environ["OVERHAND_OUTPUT"], "w", encoding="utf-8") as file:
        file.write("# Task Complete: it\n\n**Status:** completed\n\n## Summary\nGone on without an answer.\n")
    server.stdin.close()
    server.wait(60)


def _until(name: str) -> None:
    while not os.path.exists(name):
        time.sleep(0.05)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
