"""Overhand as an MCP server: a way to call verbs, for hosts and for running agents; it adds no rule of its own.

`tools` is the table, `calls` what each tool calls, `words` what it returns, `door` the handshake,
`server` the wire, by the official SDK.
"""
