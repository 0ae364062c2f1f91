"""A Pydantic AI agent as an Overhand agent: a typed result, and a question to a person where it is unsure.

The question stands in the inbox like any other; if nobody answers in time the task is parked, and the answer calls the
function again.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models import Model

from overhand import Call


class Triage(BaseModel):
    """What the model is asked for; Pydantic AI has it tried again until it fits."""

    severity: Literal["low", "high", "unsure"]
    reason: str


def agent(model: Model | str) -> Agent[None, Triage]:
    """Put your own agent here."""
    return Agent(model, output_type=Triage, instructions="Judge how severe the reported fault is.")


def work(call: Call, model: Model | str = "anthropic:claude-sonnet-4-5") -> dict[str, Any]:
    """What Overhand calls: the task in, a return out."""
    done = agent(model).run_sync(call.prompt)
    found = done.output
    call.usage(input=done.usage.input_tokens, output=done.usage.output_tokens)
    if found.severity == "unsure":
        answer = call.ask(f"How severe is it? {found.reason}", options=("low", "high"), closed=True)
        found = Triage.model_validate({"severity": answer, "reason": f"a person said so; {found.reason}"})
    return {"status": "completed", "summary": f"{found.severity}: {found.reason}", "data": found.model_dump()}
