"""A scripted model on loopback: the real coding agents run against it, and what they do is decided by data.

It speaks Anthropic Messages, OpenAI Responses, Chat Completions and Gemini. A script is a list of turns:

    scripts = {
        "greet": [
            {"ops": [{"write": {"path": "hello.txt", "content": "hello\\n"}}]},
            {"text": "Looking.", "ops": [{"bash": {"command": "cat hello.txt"}}]},
            {"text": "hello.txt says hello."},
        ]
    }
    with scripted_model(scripts) as model:
        ...  # point an agent at model.url and tell it: "Do it. script:greet"
        model.log()

The server remembers nothing. `script:NAME` in what the user said chooses the script (the last one said counts), and
the number of the model's own turns after it in the conversation chooses the turn. So a retry gets the same answer
again, a title request takes nothing away, and a resumed session goes on where its history ends: with the next turn
if the new message has no marker, from the first turn if it has one.

Keys of a turn (all optional; `model.scripts` says what each may hold): `text`, `ops`, `delay`,
`hang`, `status`, `message`, `retry_after`, `resets_in`, `until`, `refuses`, `usage`. Operations are neutral and are
mapped onto the tools that a request offers: `write{path, content}`, `read{path}`, `bash{command}`, `mcp{server, tool,
arguments}`, and `call{name, arguments}` for one tool by its own name; `extra` adds arguments where the tool has such
parameters. What no offered tool can do is answered as text that says so. `{output}`, `{workspace}`, `{project}`,
`{cwd}` and `{result}` in texts and operations are filled in from the conversation.
"""

from __future__ import annotations

from model.server import ScriptedModel, scripted_model

__all__ = ["ScriptedModel", "scripted_model"]
