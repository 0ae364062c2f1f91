"""Small clients of the four formats, written from the providers' documentation and knowing nothing of the server."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Json = dict[str, Any]

READ = {"type": "object", "properties": {"file_path": {"type": "string"}}, "required": ["file_path"]}
WRITE = {
    "type": "object",
    "properties": {"file_path": {"type": "string"}, "content": {"type": "string"}},
    "required": ["file_path", "content"],
}
BASH = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
TOOLS = {"Write": WRITE, "Bash": BASH, "Read": READ}


@dataclass(frozen=True)
class Got:
    """What came back over HTTP."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Json:
        loaded: Json = json.loads(self.body)
        return loaded

    @property
    def frames(self) -> list[tuple[str, str]]:
        """Server-sent events as (event, data); the body must consist of nothing else."""
        found = []
        assert self.body.endswith(b"\n\n")
        for block in self.body.decode().split("\n\n")[:-1]:
            lines = dict(line.split(": ", 1) for line in block.split("\n"))
            assert set(lines) <= {"event", "data"}
            found.append((lines.get("event", ""), lines["data"]))
        return found


def fetch(url: str, body: Json | None = None, *, method: str = "", timeout: float = 30) -> Got:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"}, method=method or None)  # noqa: S310 - loopback
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:  # noqa: S310 - loopback
            return Got(answer.status, dict(answer.headers.items()), answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return Got(error.code, dict(error.headers.items()), error.read())


@dataclass(frozen=True)
class Said:
    """One turn of the model as a client understands it."""

    text: str
    calls: list[tuple[str, str, Json]]  # id, tool, arguments
    input: int
    output: int
    stop: str


@dataclass
class Chat:
    """A conversation in one format; `history` is what the next request will hold."""

    url: str
    format: str
    tools: dict[str, Json] = field(default_factory=lambda: dict(TOOLS))
    history: list[Json] = field(default_factory=list)
    system: str = ""

    def say(self, text: str) -> None:
        self.history.append(_USER[self.format](text))

    def ask(self, *, stream: bool = True) -> Got:
        path, body = _REQUEST[self.format](self, stream)
        return fetch(self.url + path, body)

    def turn(self, *, stream: bool = True) -> Said:
        """Ask, understand, and remember what the model said."""
        got = self.ask(stream=stream)
        assert got.status == 200, got.body
        said = (_STREAMED if stream else _WHOLE)[self.format](got)
        self.history.extend(_MODEL[self.format](said))
        return said

    def result(self, said: Said, *texts: str) -> None:
        """Answer the calls of a turn, in their order."""
        pairs = list(zip(said.calls, texts, strict=True))
        self.history.extend(_RESULTS[self.format](pairs))


# ------------------------------------------------------------------------------------------------------ Anthropic


def _anthropic_request(chat: Chat, stream: bool) -> tuple[str, Json]:
    tools = [{"name": name, "description": "", "input_schema": schema} for name, schema in chat.tools.items()]
    body = {"model": "m", "max_tokens": 100, "messages": chat.history, "tools": tools, "system": chat.system}
    return "/v1/messages?beta=true", {**body, "stream": stream}


def _anthropic_streamed(got: Got) -> Said:
    blocks: dict[int, Json] = {}
    message: Json = {}
    for event, data in got.frames:
        payload = json.loads(data)
        assert payload["type"] == event
        if event == "message_start":
            message = payload["message"]
        elif event == "content_block_start":
            blocks[payload["index"]] = {**payload["content_block"], "json": ""}
        elif event == "content_block_delta" and payload["delta"]["type"] == "text_delta":
            blocks[payload["index"]]["text"] += payload["delta"]["text"]
        elif event == "content_block_delta":
            blocks[payload["index"]]["json"] += payload["delta"]["partial_json"]
        elif event == "message_delta":
            message = {**message, **payload["delta"], "usage": {**message["usage"], **payload["usage"]}}
    content = [{**block, "input": json.loads(block["json"])} if block["json"] else block for block in blocks.values()]
    return _anthropic_said({**message, "content": content})


def _anthropic_said(message: Json) -> Said:
    text = "".join(block["text"] for block in message["content"] if block["type"] == "text")
    calls = [(b["id"], b["name"], b["input"]) for b in message["content"] if b["type"] == "tool_use"]
    usage = message["usage"]
    return Said(text, calls, usage["input_tokens"], usage["output_tokens"], message["stop_reason"])


def _anthropic_model(said: Said) -> list[Json]:
    text = [{"type": "text", "text": said.text}] if said.text else []
    calls = [{"type": "tool_use", "id": known, "name": name, "input": given} for known, name, given in said.calls]
    return [{"role": "assistant", "content": [*text, *calls]}]


def _anthropic_results(pairs: list[tuple[tuple[str, str, Json], str]]) -> list[Json]:
    blocks = [{"type": "tool_result", "tool_use_id": call[0], "content": text} for call, text in pairs]
    return [{"role": "user", "content": blocks}]


# ------------------------------------------------------------------------------------------------------ Responses


def _responses_request(chat: Chat, stream: bool) -> tuple[str, Json]:
    tools = [{"type": "function", "name": name, "parameters": schema} for name, schema in chat.tools.items()]
    body = {"model": "m", "instructions": chat.system, "input": chat.history, "tools": tools}
    return "/v1/responses", {**body, "stream": stream}


def _responses_streamed(got: Got) -> Said:
    text, final = "", {}
    for number, (event, data) in enumerate(got.frames):
        payload = json.loads(data)
        assert (payload["type"], payload["sequence_number"]) == (event, number)
        if event == "response.output_text.delta":
            text += payload["delta"]
        if event == "response.completed":
            final = payload["response"]
    said = _responses_said(final)
    assert said.text == text
    return said


def _responses_said(response: Json) -> Said:
    text = "".join(item["content"][0]["text"] for item in response["output"] if item["type"] == "message")
    called = [item for item in response["output"] if item["type"] == "function_call"]
    calls = [(item["call_id"], item["name"], json.loads(item["arguments"])) for item in called]
    usage = response["usage"]
    return Said(text, calls, usage["input_tokens"], usage["output_tokens"], response["status"])


def _responses_model(said: Said) -> list[Json]:
    content = [{"type": "output_text", "text": said.text}]
    text = [{"type": "message", "role": "assistant", "content": content}] if said.text else []
    return [
        *text,
        *(
            {"type": "function_call", "call_id": known, "name": name, "arguments": json.dumps(given)}
            for known, name, given in said.calls
        ),
    ]


def _responses_results(pairs: list[tuple[tuple[str, str, Json], str]]) -> list[Json]:
    return [{"type": "function_call_output", "call_id": call[0], "output": text} for call, text in pairs]


# ----------------------------------------------------------------------------------------------- Chat Completions


def _chat_request(chat: Chat, stream: bool) -> tuple[str, Json]:
    tools = [{"type": "function", "function": {"name": n, "parameters": schema}} for n, schema in chat.tools.items()]
    messages = [{"role": "system", "content": chat.system}, *chat.history]
    return "/v1/chat/completions", {"model": "m", "messages": messages, "tools": tools, "stream": stream}


def _chat_streamed(got: Got) -> Said:
    text, stop = "", ""
    calls: dict[int, Json] = {}
    usage: Json = {}
    frames = got.frames
    assert frames[-1] == ("", "[DONE]")
    for _, data in frames[:-1]:
        chunk = json.loads(data)
        usage = chunk.get("usage") or usage
        for choice in chunk["choices"]:
            text += choice["delta"].get("content") or ""
            stop = choice["finish_reason"] or stop
            for call in choice["delta"].get("tool_calls", ()):
                known = calls.setdefault(call["index"], {"arguments": ""})
                known |= {"id": call.get("id", known.get("id"))}
                known |= {"name": call["function"].get("name", known.get("name"))}
                known["arguments"] += call["function"]["arguments"]
    parsed = [(call["id"], call["name"], json.loads(call["arguments"])) for call in calls.values()]
    return Said(text, parsed, usage["prompt_tokens"], usage["completion_tokens"], stop)


def _chat_said(body: Json) -> Said:
    choice = body["choices"][0]
    message = choice["message"]
    called = [(c["id"], c["function"]) for c in message.get("tool_calls", ())]
    calls = [(known, function["name"], json.loads(function["arguments"])) for known, function in called]
    usage = body["usage"]
    text, stop = message["content"] or "", choice["finish_reason"]
    return Said(text, calls, usage["prompt_tokens"], usage["completion_tokens"], stop)


def _chat_model(said: Said) -> list[Json]:
    message: Json = {"role": "assistant", "content": said.text or None}
    if said.calls:
        message["tool_calls"] = [
            {"id": known, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
            for known, name, given in said.calls
        ]
    return [message]


def _chat_results(pairs: list[tuple[tuple[str, str, Json], str]]) -> list[Json]:
    return [{"role": "tool", "tool_call_id": call[0], "content": text} for call, text in pairs]


# --------------------------------------------------------------------------------------------------------- Gemini


def _gemini_request(chat: Chat, stream: bool) -> tuple[str, Json]:
    declared = [{"name": name, "parametersJsonSchema": schema} for name, schema in chat.tools.items()]
    verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
    body = {"contents": chat.history, "tools": [{"functionDeclarations": declared}]}
    return f"/v1beta/models/m:{verb}", {**body, "systemInstruction": {"parts": [{"text": chat.system}]}}


def _gemini_streamed(got: Got) -> Said:
    said = [_gemini_said(json.loads(data)) for _, data in got.frames]
    calls = [call for one in said for call in one.calls]
    last = said[-1]
    return Said("".join(one.text for one in said), calls, last.input, last.output, last.stop)


def _gemini_said(body: Json) -> Said:
    candidate, usage = body["candidates"][0], body["usageMetadata"]
    parts = candidate["content"]["parts"]
    called = [part["functionCall"] for part in parts if "functionCall" in part]
    calls = [("", call["name"], call["args"]) for call in called]
    text = "".join(part.get("text", "") for part in parts)
    return Said(
        text, calls, usage["promptTokenCount"], usage["candidatesTokenCount"], candidate.get("finishReason", "")
    )


def _gemini_model(said: Said) -> list[Json]:
    text = [{"text": said.text}] if said.text else []
    calls = [{"functionCall": {"name": name, "args": given}} for _, name, given in said.calls]
    return [{"role": "model", "parts": [*text, *calls]}]


def _gemini_results(pairs: list[tuple[tuple[str, str, Json], str]]) -> list[Json]:
    parts = [{"functionResponse": {"name": call[1], "response": {"output": text}}} for call, text in pairs]
    return [{"role": "user", "parts": parts}]


FORMATS = ("anthropic", "responses", "chat", "gemini")
_USER: dict[str, Callable[[str], Json]] = {
    "anthropic": lambda text: {"role": "user", "content": text},
    "responses": lambda text: {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]},
    "chat": lambda text: {"role": "user", "content": text},
    "gemini": lambda text: {"role": "user", "parts": [{"text": text}]},
}
_REQUEST = {
    "anthropic": _anthropic_request,
    "responses": _responses_request,
    "chat": _chat_request,
    "gemini": _gemini_request,
}
_STREAMED = {
    "anthropic": _anthropic_streamed,
    "responses": _responses_streamed,
    "chat": _chat_streamed,
    "gemini": _gemini_streamed,
}
_WHOLE: dict[str, Callable[[Got], Said]] = {
    "anthropic": lambda got: _anthropic_said(got.json),
    "responses": lambda got: _responses_said(got.json),
    "chat": lambda got: _chat_said(got.json),
    "gemini": lambda got: _gemini_said(got.json),
}
_MODEL = {
    "anthropic": _anthropic_model,
    "responses": _responses_model,
    "chat": _chat_model,
    "gemini": _gemini_model,
}
_RESULTS = {
    "anthropic": _anthropic_results,
    "responses": _responses_results,
    "chat": _chat_results,
    "gemini": _gemini_results,
}
