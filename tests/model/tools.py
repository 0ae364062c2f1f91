"""Neutral operations, mapped onto whatever tools a request offers."""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING, Any

from model.conversation import Call, Tool, call_id

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from model.scripts import Operation

# What the agents call these tools, without a prefix such as `developer__`; the first that is offered is taken.
NAMES = {
    "write": ("write", "write_file", "create_file", "text_editor"),
    "read": ("read", "read_file", "view", "text_editor"),
    "bash": ("bash", "shell", "run_shell_command", "exec_command", "shell_command", "local_shell", "execute_command"),
}
PARAMETERS = {
    "path": ("file_path", "filePath", "path", "absolute_path"),
    "content": ("content", "file_text", "contents", "text"),
    "command": ("command", "cmd"),
}
PLACEHOLDER = re.compile(r"\{(output|workspace|project|cwd|result)\}")
BLANKS: dict[str, Any] = {"string": "scripted", "boolean": False, "array": [], "object": {}, "integer": 1, "number": 1}


class Impossible(Exception):
    """No offered tool can do it; the text says why."""


def calls(
    ops: Sequence[Operation], tools: Sequence[Tool], known: Mapping[str, str], answer: str
) -> tuple[list[Call], list[str]]:
    """The tool calls of this answer that do these operations, and a sentence for each that cannot be done."""
    possible, impossible = [], []
    for number, op in enumerate(ops):
        try:
            tool, arguments = _call(op.kind, filled(op.given, known), tools, known)
        except Impossible as why:
            impossible.append(f"I cannot {op.kind}: {why}")
            continue
        extra = {key: value for key, value in op.extra.items() if key in _properties(tool)}
        possible.append(Call(call_id(answer, number), tool, {**arguments, **extra}))
    return possible, impossible


def filled(value: Any, known: Mapping[str, str]) -> Any:
    """The value with its placeholders filled in, wherever they stand in it."""
    if isinstance(value, str):
        return PLACEHOLDER.sub(lambda found: _known(found[1], known), value)
    if isinstance(value, dict):
        return {key: filled(item, known) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, known) for item in value]
    return value


def _known(name: str, known: Mapping[str, str]) -> str:
    if name not in known:
        raise Impossible(f"nothing in the conversation says what {{{name}}} is.")
    return known[name]


def _call(kind: str, given: dict[str, Any], tools: Sequence[Tool], known: Mapping[str, str]) -> tuple[Tool, Any]:
    if kind == "mcp":
        return _mcp(given["server"], given["tool"], tools), given.get("arguments", {})
    if kind == "call":
        tool = next((tool for tool in tools if tool.name == given["name"]), None)
        if tool is None:
            raise Impossible(f"no tool {given['name']} is offered.")
        return tool, given.get("arguments", {})
    if "path" in given and not given["path"].startswith("/") and "cwd" in known:
        given = {**given, "path": f"{known['cwd']}/{given['path']}"}
    for name in NAMES[kind]:
        tool = _named(name, tools)
        if tool is not None:
            return tool, _arguments(kind, tool, given)
    if kind == "bash":
        raise Impossible("no tool that runs a command is offered.")
    return _call("bash", {"command": _as_command(kind, given)}, tools, known)


def _named(name: str, tools: Sequence[Tool]) -> Tool | None:
    """The built-in tool of this name: never one of an MCP server, which may be called anything."""
    own = [tool for tool in tools if not tool.namespace and not tool.name.lower().startswith("mcp_")]
    exact = [tool for tool in own if tool.name.lower() == name]
    prefixed = [tool for tool in own if tool.name.lower().rpartition("__")[2] == name]
    return next(iter([*exact, *prefixed]), None)


def _arguments(kind: str, tool: Tool, given: dict[str, Any]) -> dict[str, Any]:
    properties, arguments = _properties(tool), {}
    for role, value in given.items():
        name = next((name for name in PARAMETERS[role] if name in properties), PARAMETERS[role][0])
        arguments[name] = ["bash", "-lc", value] if properties.get(name, {}).get("type") == "array" else value
    if tool.name.endswith("text_editor"):
        choices = properties.get("command", {}).get("enum") or ["write", "view"]
        wanted = ("write", "create") if kind == "write" else ("view",)
        arguments["command"] = next((choice for choice in choices if choice in wanted), wanted[0])
    for name in tool.schema.get("required") or ():
        arguments.setdefault(name, _blank(properties.get(name, {})))
    return arguments


def _blank(schema: dict[str, Any]) -> Any:
    """A value for a required parameter that no operation knows of."""
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type", "string")
    return BLANKS.get(str(kind[0] if isinstance(kind, list) else kind).lower(), "scripted")


def _properties(tool: Tool) -> dict[str, Any]:
    properties = tool.schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _as_command(kind: str, given: dict[str, Any]) -> str:
    path = shlex.quote(given["path"])
    if kind == "read":
        return f"cat {path}"
    folder = shlex.quote(os.path.dirname(given["path"]) or ".")
    return f"mkdir -p {folder} && printf %s {shlex.quote(given['content'])} > {path}"


def _mcp(server: str, name: str, tools: Sequence[Tool]) -> Tool:
    """`mcp__server__tool`, `mcp_server_tool`, `server__tool`, `server_tool`, or `tool` in a namespace of the server."""
    flat_server, flat_name = _flat(server), _flat(name)
    wanted = {f"mcp_{flat_server}_{flat_name}", f"{flat_server}_{flat_name}"}
    for tool in tools:
        if _flat(f"{tool.namespace}__{tool.name}" if tool.namespace else tool.name) in wanted:
            return tool
    # Goose names a server after its command: then the only tool of that name is meant.
    alike = [tool for tool in tools if "__" in tool.name and tool.name.rpartition("__")[2] == name]
    if len(alike) != 1:
        raise Impossible(f"no tool {name} of a server {server} is offered.")
    return alike[0]


def _flat(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
