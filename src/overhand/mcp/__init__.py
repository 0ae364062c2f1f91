"""Overhand as an MCP server: a way to call verbs, for hosts and for running agents; it adds no rule of its own.

`tools` is the table and `calls` what each tool calls; `handshake` answers until a tool is called, and `server`, by the
official SDK, from then on.
"""
