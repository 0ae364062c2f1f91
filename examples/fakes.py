"""The fake models of the examples' frameworks, and functions that agent files can name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import openai_release
import pydantic_triage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from pydantic_ai.models.test import TestModel

from agents import Model, ModelResponse, Usage


class Scripted(Model):
    """First it calls the tool, then it says what the tool told."""

    async def get_response(self, *_given: Any, **given: Any) -> ModelResponse:
        items = given["input"] if isinstance(given["input"], list) else []
        told = [item["output"] for item in items if item.get("type") == "function_call_output"]
        output: Any
        if told:
            text = ResponseOutputText(text=f"The tool said: {told[-1].strip()}", type="output_text", annotations=[])
            output = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
        else:
            output = ResponseFunctionToolCall(
                call_id="c", name="read_file", arguments='{"name": "CHANGELOG.md"}', type="function_call"
            )
        return ModelResponse(
            output=[output],
            usage=Usage(requests=1, input_tokens=10, output_tokens=5, total_tokens=15),
            response_id=None,
        )

    def stream_response(self, *_given: Any, **_more: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def openai_model() -> Model:
    return Scripted()


def pydantic_model(severity: str) -> TestModel:
    return TestModel(custom_output_args={"severity": severity, "reason": "because"})


async def release(call: Any) -> dict[str, Any]:
    return await openai_release.work(call, openai_model())


def triage(call: Any) -> dict[str, Any]:
    return pydantic_triage.work(call, pydantic_model("high"))
