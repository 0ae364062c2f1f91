"""Overhand as an MCP server: a way to call verbs, for hosts and for running agents; it adds no rule of its own.

`tools` is the table, `calls` what each tool calls, `door` the handshake, `server` the wire, by the official SDK.
"""
