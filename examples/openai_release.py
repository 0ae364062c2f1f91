"""An OpenAI Agents SDK agent as an Overhand agent: it has a tool of its own, and its tokens are counted.

The function is async, so many of them share one event loop.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agents import Agent, Model, RunConfig, RunContextWrapper, Runner, function_tool
from overhand import Call


@function_tool
def read_file(place: RunContextWrapper[Path], name: str) -> str:
    """Read a file of the project."""
    path = (place.context / name).resolve()
    return path.read_text() if path.is_relative_to(place.context.resolve()) else "That is outside the project."


def agent(model: Model | str | None = None) -> Agent[Path]:
    """Put your own agent here; without a model it takes the SDK's default, and needs its key."""
    return Agent[Path](
        name="release",
        instructions="Write one sentence for the release notes. Read CHANGELOG.md first.",
        tools=[read_file],
        model=model,
    )


async def work(call: Call, model: Model | str | None = None) -> dict[str, Any]:
    """What Overhand calls: the prompt in, a return out."""
    done = await Runner.run(
        agent(model), call.title, context=Path(call.root), run_config=RunConfig(tracing_disabled=True)
    )
    used = done.context_wrapper.usage
    call.usage(input=used.input_tokens, output=used.output_tokens)
    return {"status": "completed", "summary": str(done.final_output)}
