"""Gemini: `models/NAME:streamGenerateContent?alt=sse` and `:generateContent`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from model.conversation import Answer, Event, Request
from model.wire import Json, Problem, dumps, frame, objects, offered, pieces, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "gemini"
KINDS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
RPC = "type.googleapis.com/google.rpc."


def named_in(path: str) -> Json:
    """The model and whether to stream, which this format says in the path."""
    model, _, verb = path.rpartition("/")[2].partition(":")
    return {"model": model, "stream": verb.startswith("stream")}


def read(body: Json) -> Request:
    instruction = body.get("systemInstruction")
    system = text_of(instruction.get("parts")) if isinstance(instruction, dict) else text_of(instruction)
    events = [event for content in objects(body.get("contents")) for event in _events(content)]
    declared = [one for tool in objects(body.get("tools")) for one in objects(tool.get("functionDeclarations"))]
    tools = [offered(one.get("name"), one.get("parametersJsonSchema") or one.get("parameters")) for one in declared]
    return Request(str(body.get("model", "")), body.get("stream") is True, system, tuple(events), tuple(tools))


def _events(content: Json) -> Iterator[Event]:
    if content.get("role") == "model":
        yield Event("model", text_of(content.get("parts")))
        return
    for part in objects(content.get("parts")):
        if "functionResponse" in part:
            yield Event("result", _result(part["functionResponse"]))
        elif "text" in part:
            yield Event("user", str(part["text"]))


def _result(response: object) -> str:
    said = response.get("response") if isinstance(response, dict) else None
    if isinstance(said, dict):
        return "\n".join(value if isinstance(value, str) else dumps(value) for value in said.values())
    return ""


def stream(answer: Answer) -> Iterator[bytes]:
    for piece in pieces(answer.text):
        yield frame(_response(answer, [{"text": piece}]))
    yield frame(_response(answer, _called(answer) or [{"text": ""}], _reason(answer)))


def whole(answer: Answer) -> Json:
    text = [{"text": answer.text}] if answer.text or not answer.calls else []
    return _response(answer, [*text, *_called(answer)], _reason(answer))


def _reason(answer: Answer) -> str:
    return "SAFETY" if answer.refuses else "STOP"


def _called(answer: Answer) -> list[Json]:
    return [{"functionCall": {"name": call.tool.name, "args": call.arguments}} for call in answer.calls]


def _response(answer: Answer, parts: list[Json], reason: str = "") -> Json:
    candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
    if reason:
        candidate["finishReason"] = reason
    usage = answer.usage
    counted = {
        "promptTokenCount": usage.input,
        "candidatesTokenCount": usage.output,
        "totalTokenCount": usage.input + usage.output,
        "cachedContentTokenCount": usage.cached,
    }
    return {
        "candidates": [candidate],
        "usageMetadata": counted,
        "modelVersion": answer.model,
        "responseId": answer.id,
    }


def failure(problem: Problem) -> tuple[dict[str, str], Json]:
    status = KINDS.get(problem.status, "INTERNAL" if problem.status >= 500 else "INVALID_ARGUMENT")
    error: Json = {"code": problem.status, "message": problem.message, "status": status}
    if problem.status != 429:
        return {}, {"error": error}
    span = "Minute" if problem.resets_in is None else "Day"
    quota = {
        "quotaMetric": "generativelanguage.googleapis.com/generate_content_requests",
        "quotaId": f"GenerateRequestsPer{span}PerProjectPerModel",
        "quotaValue": "10",
    }
    error["details"] = [
        {"@type": f"{RPC}QuotaFailure", "violations": [quota]},
        {"@type": f"{RPC}RetryInfo", "retryDelay": f"{problem.wait:.0f}s"},
    ]
    return {}, {"error": error}
