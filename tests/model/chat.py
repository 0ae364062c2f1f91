"""OpenAI Chat Completions: `/v1/chat/completions`, as server-sent events or whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from model.conversation import Answer, Event, Request
from model.openai import failure
from model.wire import Json, dumps, frame, objects, offered, pieces, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["NAME", "failure", "read", "stream", "whole"]
NAME = "chat"
KINDS = {"user": "user", "assistant": "model", "tool": "result", "function": "result"}


def read(body: Json) -> Request:
    messages = objects(body.get("messages"))
    system = [text_of(message.get("content")) for message in messages if message.get("role") in ("system", "developer")]
    events = [
        Event(KINDS[str(message["role"])], text_of(message.get("content")), _call_of(message))
        for message in messages
        if str(message.get("role")) in KINDS
    ]
    functions = objects([tool.get("function") for tool in objects(body.get("tools"))])
    tools = [offered(function.get("name"), function.get("parameters")) for function in functions]
    streaming = body.get("stream") is True
    return Request(str(body.get("model", "")), streaming, "\n".join(system), tuple(events), tuple(tools))


def _call_of(message: Json) -> str:
    return next((str(call.get("id", "")) for call in objects(message.get("tool_calls"))), "")


def stream(answer: Answer) -> Iterator[bytes]:
    yield _chunk(answer, {"role": "assistant", "content": ""})
    for piece in pieces(answer.text):
        yield _chunk(answer, {"content": piece})
    for index, call in enumerate(_called(answer)):
        function = call["function"]
        yield _chunk(answer, {"tool_calls": [{"index": index, **call, "function": {**function, "arguments": ""}}]})
        for piece in pieces(function["arguments"]):
            yield _chunk(answer, {"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield _chunk(answer, {}, _reason(answer))
    yield frame({**_head(answer, "chat.completion.chunk"), "choices": [], "usage": _usage(answer)})
    yield b"data: [DONE]\n\n"


def whole(answer: Answer) -> Json:
    message: Json = {"role": "assistant", "content": answer.text or None, "refusal": None}
    if answer.calls:
        message["tool_calls"] = _called(answer)
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _reason(answer)}
    return {**_head(answer, "chat.completion"), "choices": [choice], "usage": _usage(answer)}


def _chunk(answer: Answer, delta: Json, reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    return frame({**_head(answer, "chat.completion.chunk"), "choices": [choice]})


def _head(answer: Answer, kind: str) -> Json:
    return {"id": f"chatcmpl-{answer.id}", "object": kind, "created": 0, "model": answer.model}


def _called(answer: Answer) -> list[Json]:
    return [
        {"id": call.id, "type": "function", "function": {"name": call.tool.name, "arguments": dumps(call.arguments)}}
        for call in answer.calls
    ]


def _reason(answer: Answer) -> str:
    return "content_filter" if answer.refuses else "tool_calls" if answer.calls else "stop"


def _usage(answer: Answer) -> Json:
    usage = answer.usage
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    }
