"""OpenAI Responses: `/v1/responses`, as server-sent events or whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from model.conversation import Answer, Call, Event, Request, Tool
from model.openai import failure
from model.wire import Json, dumps, frame, objects, offered, pieces, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["NAME", "failure", "read", "stream", "whole"]
NAME = "responses"


def read(body: Json) -> Request:
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else objects(given)
    system = [text_of(item.get("content")) for item in items if item.get("role") in ("developer", "system")]
    events = [event for item in items for event in _events(item)]
    tools = [tool for given in objects(body.get("tools")) for tool in _tools(given)]
    whole_system = "\n".join([str(body.get("instructions") or ""), *system])
    return Request(str(body.get("model", "")), body.get("stream") is True, whole_system, tuple(events), tuple(tools))


def _events(item: Json) -> Iterator[Event]:
    kind = str(item.get("type", "message"))
    if kind == "message":
        role = item.get("role")
        if role in ("user", "assistant"):
            yield Event("user" if role == "user" else "model", text_of(item.get("content")))
    elif kind.endswith("_output"):
        yield Event("result", text_of(item.get("output")))
    elif kind.endswith("_call") or kind == "reasoning":
        yield Event("model", call=str(item.get("call_id", "")))


def _tools(given: Json) -> Iterator[Tool]:
    if given.get("type") == "namespace":
        for tool in objects(given.get("tools")):
            yield offered(tool.get("name"), tool.get("parameters"), given.get("name"))
    elif given.get("type") == "function":
        yield offered(given.get("name"), given.get("parameters"))


def stream(answer: Answer) -> Iterator[bytes]:
    for number, (kind, fields) in enumerate(_said(answer)):
        yield frame({"type": kind, "sequence_number": number, **fields}, kind)


def _said(answer: Answer) -> Iterator[tuple[str, Json]]:
    begun = {**whole(answer), "status": "in_progress", "output": [], "usage": None}
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for index, item in enumerate(_items(answer)):
        place = {"item_id": item["id"], "output_index": index}
        started = {**item, "status": "in_progress"}
        if item["type"] == "message":
            yield "response.output_item.added", {"output_index": index, "item": {**started, "content": []}}
            yield from _text(answer, {**place, "content_index": 0})
        else:
            yield "response.output_item.added", {"output_index": index, "item": {**started, "arguments": ""}}
            for piece in pieces(item["arguments"]):
                yield "response.function_call_arguments.delta", {**place, "delta": piece}
            yield "response.function_call_arguments.done", {**place, "arguments": item["arguments"]}
        yield "response.output_item.done", {"output_index": index, "item": item}
    yield "response.completed", {"response": whole(answer)}


def _text(answer: Answer, place: Json) -> Iterator[tuple[str, Json]]:
    kind, key = ("refusal", "refusal") if answer.refuses else ("output_text", "text")
    yield "response.content_part.added", {**place, "part": _part(answer, "")}
    for piece in pieces(answer.text):
        yield f"response.{kind}.delta", {**place, "delta": piece}
    yield f"response.{kind}.done", {**place, key: answer.text}
    yield "response.content_part.done", {**place, "part": _part(answer, answer.text)}


def whole(answer: Answer) -> Json:
    usage = answer.usage
    return {
        "id": f"resp_{answer.id}",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": answer.model,
        "output": _items(answer),
        "usage": {
            "input_tokens": usage.input,
            "input_tokens_details": {"cached_tokens": usage.cached},
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.input + usage.output,
        },
    }


def _items(answer: Answer) -> list[Json]:
    called = [_called(call) for call in answer.calls]
    if not answer.text:
        return called
    message = {"id": f"msg_{answer.id}", "type": "message", "role": "assistant", "status": "completed"}
    return [{**message, "content": [_part(answer, answer.text)]}, *called]


def _called(call: Call) -> Json:
    item = {
        "id": call.id.replace("call_", "fc_"),
        "type": "function_call",
        "status": "completed",
        "call_id": call.id,
        "name": call.tool.name,
        "arguments": dumps(call.arguments),
    }
    return {**item, "namespace": call.tool.namespace} if call.tool.namespace else item


def _part(answer: Answer, text: str) -> Json:
    if answer.refuses:
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "text": text, "annotations": []}
