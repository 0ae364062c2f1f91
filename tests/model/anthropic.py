"""Anthropic Messages: `/v1/messages`, as server-sent events or whole."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from model.conversation import Answer, Event, Request
from model.wire import Json, Problem, dumps, frame, objects, offered, pieces, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "anthropic"
KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def read(body: Json) -> Request:
    events = [event for message in objects(body.get("messages")) for event in _events(message)]
    named = [tool for tool in objects(body.get("tools")) if "name" in tool]
    tools = [offered(tool["name"], tool.get("input_schema")) for tool in named]
    model = str(body.get("model", ""))
    return Request(model, body.get("stream") is True, text_of(body.get("system")), tuple(events), tuple(tools))


def _events(message: Json) -> Iterator[Event]:
    if message.get("role") == "assistant":
        called = [str(block["id"]) for block in objects(message.get("content")) if "id" in block]
        yield Event("model", text_of(message.get("content")), next(iter(called), ""))
    elif isinstance(message.get("content"), str):
        yield Event("user", message["content"])
    else:
        for block in objects(message.get("content")):
            if block.get("type") == "tool_result":
                yield Event("result", text_of(block.get("content")))
            elif block.get("type") == "text":
                yield Event("user", str(block.get("text", "")))


def stream(answer: Answer) -> Iterator[bytes]:
    message = {**_message(answer), "content": [], "stop_reason": None}
    message["usage"] = {**message["usage"], "output_tokens": 1}  # as the real one: the count comes at the end
    yield _frame("message_start", message=message)
    yield _frame("ping")
    for index, block in enumerate(_blocks(answer)):
        empty, deltas = _apart(block)
        yield _frame("content_block_start", index=index, content_block=empty)
        for delta in deltas:
            yield _frame("content_block_delta", index=index, delta=delta)
        yield _frame("content_block_stop", index=index)
    end = {"stop_reason": _stop_reason(answer), "stop_sequence": None}
    yield _frame("message_delta", delta=end, usage={"output_tokens": answer.usage.output})
    yield _frame("message_stop")


def whole(answer: Answer) -> Json:
    return _message(answer)


def failure(problem: Problem) -> tuple[dict[str, str], Json]:
    kind = KINDS.get(problem.status, "api_error" if problem.status >= 500 else "invalid_request_error")
    headers = {}
    if problem.status == 429:
        reset = datetime.fromtimestamp(problem.now + problem.wait, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        headers = {
            "retry-after": f"{problem.wait:.0f}",
            "anthropic-ratelimit-requests-limit": "50",
            "anthropic-ratelimit-requests-remaining": "0",
            "anthropic-ratelimit-requests-reset": reset,
        }
    if problem.status == 429 and problem.resets_in is not None:
        headers |= {
            "anthropic-ratelimit-unified-status": "rejected",
            "anthropic-ratelimit-unified-representative-claim": "five_hour",
            "anthropic-ratelimit-unified-reset": f"{problem.now + problem.wait:.0f}",
        }
    return headers, {"type": "error", "error": {"type": kind, "message": problem.message}, "request_id": "req_scripted"}


def _message(answer: Answer) -> Json:
    usage = {
        "input_tokens": answer.usage.input,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": answer.usage.cached,
        "output_tokens": answer.usage.output,
    }
    return {
        "id": f"msg_{answer.id}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": _blocks(answer),
        "stop_reason": _stop_reason(answer),
        "stop_sequence": None,
        "usage": usage,
    }


def _blocks(answer: Answer) -> list[Json]:
    text = [{"type": "text", "text": answer.text}] if answer.text else []
    called = [
        {"type": "tool_use", "id": call.id.replace("call_", "toolu_"), "name": call.tool.name, "input": call.arguments}
        for call in answer.calls
    ]
    return [*text, *called]


def _apart(block: Json) -> tuple[Json, list[Json]]:
    """A block as it is announced, and the deltas that fill it."""
    if block["type"] == "text":
        return {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(dumps(block["input"]))]
    return {**block, "input": {}}, deltas


def _stop_reason(answer: Answer) -> str:
    return "refusal" if answer.refuses else "tool_use" if answer.calls else "end_turn"


def _frame(kind: str, **fields: object) -> bytes:
    return frame({"type": kind, **fields}, kind)
