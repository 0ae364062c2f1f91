"""A tiny MCP server over stdio with one tool, `ask`, that answers every question with BLUE."""

from __future__ import annotations

import json
import sys
from typing import Any

ASK = {
    "name": "ask",
    "description": "Ask the person.",
    "inputSchema": {"type": "object", "properties": {"question": {"type": "string"}}, "required": ["question"]},
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        version = params.get("protocolVersion", "2025-06-18")
        return {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "desk", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [ASK]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": f"BLUE to {params['arguments']['question']}"}], "isError": False}
    return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        result = answer(message["method"], message.get("params", {}))
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}) + "\n")
        sys.stdout.flush()
