"""Neutral operations on the tools that real agents offer, placeholders, scripts that are refused, hostile requests."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model import anthropic, chat, conversation, gemini, responses, tools
from model.answering import reply
from model.conversation import Event, Request, Tool
from model.scripts import load

if TYPE_CHECKING:
    from pathlib import Path

    from model.wire import Format


def tool(name: str, *parameters: str, namespace: str = "", **types: str) -> Tool:
    properties = {
        **{key: {"type": "string"} for key in parameters},
        **{key: {"type": kind} for key, kind in types.items()},
    }
    return Tool(name, {"type": "object", "properties": properties, "required": list(properties)}, namespace)


AGENTS = {
    "claude": [tool("Bash", "command"), tool("Read", "file_path"), tool("Write", "file_path", "content")],
    "codex": [tool("exec_command", "cmd"), tool("ask", "question", namespace="mcp__desk")],
    "codex-old": [tool("shell", command="array")],
    "gemini": [tool("write_file", "file_path", "content"), tool("run_shell_command", "command"), tool("mcp_desk_ask")],
    "goose": [tool("write", "path", "content"), tool("shell", "command"), tool("desk__ask")],
    "goose-old": [tool("developer__text_editor", "command", "path", "file_text"), tool("developer__shell", "command")],
    "opencode": [tool("bash", "command"), tool("write", "content", "filePath"), tool("desk_ask")],
    "qwen": [tool("write_file", "file_path", "content"), tool("run_shell_command", "command", is_background="boolean")],
}
OPS = {
    "write": {"write": {"path": "/x/it's", "content": "a\n"}},
    "bash": {"bash": {"command": "ls"}},
    "mcp": {"mcp": {"server": "desk", "tool": "ask", "arguments": {"question": "?"}}},
}
PRINTED = "mkdir -p /x && printf %s 'a\n' > '/x/it'\"'\"'s'"
WANTED: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {
    ("claude", "write"): ("Write", {"file_path": "/x/it's", "content": "a\n"}),
    ("claude", "bash"): ("Bash", {"command": "ls"}),
    ("codex", "write"): ("exec_command", {"cmd": PRINTED}),
    ("codex", "mcp"): ("ask", {"question": "?"}),
    ("codex-old", "bash"): ("shell", {"command": ["bash", "-lc", "ls"]}),
    ("gemini", "write"): ("write_file", {"file_path": "/x/it's", "content": "a\n"}),
    ("gemini", "bash"): ("run_shell_command", {"command": "ls"}),
    ("gemini", "mcp"): ("mcp_desk_ask", {"question": "?"}),
    ("goose", "write"): ("write", {"path": "/x/it's", "content": "a\n"}),
    ("goose", "mcp"): ("desk__ask", {"question": "?"}),
    ("goose-old", "write"): ("developer__text_editor", {"command": "write", "path": "/x/it's", "file_text": "a\n"}),
    ("goose-old", "bash"): ("developer__shell", {"command": "ls"}),
    ("opencode", "write"): ("write", {"filePath": "/x/it's", "content": "a\n"}),
    ("opencode", "mcp"): ("desk_ask", {"question": "?"}),
    ("qwen", "bash"): ("run_shell_command", {"command": "ls", "is_background": False}),
}


def ask(ops: list[Any], offered: list[Tool], said: str = "", results: tuple[str, ...] = ()) -> Any:
    scripts = load({"s": [{"ops": ops}] * 2})
    events = [Event("user", f"{said}\nscript:s")]
    if results:
        events += [Event("model"), *(Event("result", text) for text in results)]
    return reply(Request("m", False, "", tuple(events), tuple(offered)), scripts)


@pytest.mark.parametrize(("agent", "kind"), WANTED)
def test_an_operation_in_the_words_of_each_agent(agent: str, kind: str) -> None:
    (call,) = ask([OPS[kind]], AGENTS[agent]).answer.calls
    assert (call.tool.name, call.arguments) == WANTED[agent, kind]


def test_writing_by_a_shell_keeps_every_byte(tmp_path: Path) -> None:
    text = 'it\'s "a"\n\t$HOME `x` \\n %s {y}\n\n'
    path = tmp_path / "new folder" / "file"
    (call,) = ask([{"write": {"path": str(path), "content": text}}], AGENTS["codex"]).answer.calls
    subprocess.run(["/bin/sh", "-c", call.arguments["cmd"]], check=True)
    assert path.read_text() == text


def test_what_no_tool_can_do_is_said() -> None:
    replied = ask([OPS["mcp"], OPS["bash"], {"call": {"name": "Task"}}], [tool("view_image", "path")])
    assert replied.answer.calls == ()
    assert replied.answer.text.splitlines() == [
        "I cannot mcp: no tool ask of a server desk is offered.",
        "I cannot bash: no tool that runs a command is offered.",
        "I cannot call: no tool Task is offered.",
    ]


def test_a_tool_of_an_mcp_server_is_not_taken_for_a_built_in_one() -> None:
    offered = [tool("mcp__files__write", "path", "content"), tool("write", "path", "content", namespace="mcp__files")]
    assert ask([OPS["write"]], offered).answer.calls == ()


def test_a_server_that_is_named_after_its_command() -> None:
    (call,) = ask([OPS["mcp"]], [tool("shell", "command"), tool("python__ask")]).answer.calls
    assert call.tool.name == "python__ask"
    assert ask([OPS["mcp"]], [tool("python__ask"), tool("node__ask")]).answer.calls == ()


def test_words_that_clients_put_into_the_models_mouth_are_no_turn() -> None:
    scripts = load({"s": [{"text": "zero"}, {"text": "one"}]})
    for invented in ("No response requested.", "Ran into this error: Server error (500).\n\nPlease retry"):
        events = (Event("user", "script:s"), Event("model", invented), Event("user", "Go on."))
        assert reply(Request("m", False, "", events, ()), scripts).answer.text == "zero"


def test_extra_arguments_go_where_the_tool_has_them() -> None:
    op = {"bash": {"command": "ls", "extra": {"justification": "why", "unheard": 1}}}
    offered = [Tool("exec_command", {"properties": {"cmd": {}, "justification": {}}, "required": ["cmd"]})]
    (call,) = ask([op], offered).answer.calls
    assert call.arguments == {"cmd": "ls", "justification": "why"}


def test_placeholders_are_found_in_the_prompt() -> None:
    said = "Write:\n\n    /p q/.agent-workspaces/task-1/runs/sess_1/OUTPUT.md\n\nand /elsewhere/OUTPUT.md in passing"
    op = {"write": {"path": "{output}", "content": "{project}|{workspace}|{result}|{other}"}}
    (call,) = ask([op], AGENTS["claude"], said, ("blue", "red")).answer.calls
    assert call.arguments["file_path"] == "/p q/.agent-workspaces/task-1/runs/sess_1/OUTPUT.md"
    assert call.arguments["content"] == "/p q|/p q/.agent-workspaces/task-1|blue\nred|{other}"


def test_a_placeholder_that_nothing_tells() -> None:
    replied = ask([{"write": {"path": "{output}", "content": ""}}], AGENTS["claude"])
    assert replied.answer.text == "I cannot write: nothing in the conversation says what {output} is."


@pytest.mark.parametrize(
    "where",
    [
        "<system-reminder>\n - Primary working directory: /the/tree\n</system-reminder>",
        "<environment_context>\n  <cwd>/the/tree</cwd>\n</environment_context>",
        "<info-msg>\nWorking directory: /the/tree\n</info-msg>",
        "I'm currently working in the directory: /the/tree\n",
        "- **Workspace Directories:**\n  - /the/tree\n",
    ],
)
def test_paths_are_relative_to_where_the_agent_says_it_is(where: str) -> None:
    (call,) = ask([{"read": {"path": "a/b"}}], AGENTS["claude"], where).answer.calls
    assert call.arguments == {"file_path": "/the/tree/a/b"}


@pytest.mark.parametrize(
    ("scripts", "why"),
    [
        ([], "Scripts are an object"),
        ({"a": []}, "script a: a list of turns is needed"),
        ({"a": ["x"]}, "script a, turn 0: a turn is an object"),
        ({"a": [{}, {"txt": ""}]}, "script a, turn 1: no key 'txt'"),
        ({"a": [{"status": "500"}]}, "status must be int"),
        ({"a": [{"delay": True}]}, "delay must be int or float"),
        ({"a": [{"ops": [{"fly": {}}]}]}, "an operation is one of"),
        ({"a": [{"ops": [{"write": {"path": "x"}}]}]}, "write needs path, content"),
        ({"a": [{"usage": {"input": 1.5}}]}, "usage is {cached, input, output}"),
        ({"a": {"turns": [{}], "when": {"x": "b"}}}, "`when` names b, which is not there"),
        ({"a": {"turn": []}}, "an object has `turns` and `when`"),
    ],
)
def test_scripts_are_checked_before_anything_is_served(scripts: object, why: str) -> None:
    with pytest.raises(ValueError, match=why.replace("{", r"\{").replace("`", ".")):
        load(scripts)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
WORDS = ["user", "assistant", "model", "tool", "tool_result", "message", "function", "namespace", "script:s", "Write"]
ODD = ANY | st.sampled_from(WORDS)


def shaped(*keys: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Lists of objects that have these keys, or some of them, with anything under them."""
    blocks = st.lists(
        st.dictionaries(st.sampled_from(["type", "text", "id", "content", *keys]), ODD, max_size=4), max_size=3
    )
    return st.lists(st.dictionaries(st.sampled_from(keys), ODD | blocks, max_size=6), max_size=4)


MESSAGES = shaped("role", "type", "content", "parts", "output", "call_id", "tool_calls", "functionResponse", "response")
SCHEMAS = st.dictionaries(st.sampled_from(["properties", "required"]), ODD)
NAMES = st.sampled_from(["write", "bash", "Write", "exec_command", "text_editor"]) | ODD
NAMED = st.dictionaries(st.sampled_from(["parameters", "input_schema", "type", "namespace"]), SCHEMAS | ODD, max_size=4)
TOOL = st.builds(lambda name, rest: {"name": name, **rest}, NAMES, NAMED)
TOOLS = st.lists(
    TOOL
    | st.builds(lambda one: {"function": one}, TOOL | ODD)
    | st.builds(lambda many: {"functionDeclarations": many, "tools": many, "type": "namespace"}, st.lists(TOOL) | ODD)
)
BODY = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("messages", "input", "contents"), MESSAGES | ODD),
        "tools": TOOLS | ODD,
        **dict.fromkeys(("system", "instructions", "systemInstruction", "model", "stream"), ODD),
    },
)


@pytest.mark.parametrize("format", [anthropic, responses, chat, gemini], ids=lambda module: str(module.NAME))
@given(body=BODY)
def test_no_request_is_too_odd_to_answer(format: Format, body: dict[str, Any]) -> None:
    scripts = load({"s": [{"ops": [OPS["write"], OPS["bash"], OPS["mcp"]]}] * 5})
    asked = format.read(body)
    replied = reply(replace(asked, events=(Event("user", "script:s"), *asked.events)), scripts)
    assert b"".join(format.stream(replied.answer))
    assert format.whole(replied.answer)
    assert replied.row()


@given(st.text(), st.dictionaries(st.sampled_from(["output", "cwd", "result"]), st.text()))
def test_only_known_placeholders_are_touched(text: str, known: dict[str, str]) -> None:
    plain = text.replace("{", "(")
    assert tools.filled(plain, known) == plain


@given(st.lists(st.sampled_from(["user", "model", "result"]), max_size=12))
def test_the_place_never_runs_ahead_of_the_model(kinds: list[str]) -> None:
    scripts = load({"s": [{}]})
    events = (Event("user", "script:s"), *(Event(kind, "words") for kind in kinds))
    place = conversation.find(Request("m", False, "", events, ()), scripts)
    assert 0 <= place.number <= kinds.count("model")
    more = conversation.find(Request("m", False, "", (*events, Event("user", "x"), Event("model")), ()), scripts)
    assert more.number == place.number + 1
