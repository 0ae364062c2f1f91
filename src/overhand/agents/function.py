"""Driver `function`: a Python callable, sync or async.

From an agent file (`function: module:name`) it runs as a child process, this module's `main`; through the Python API it
runs in its caller. Either way it is given a `Call` and what it returns is its return: a text is the summary of a
completed task, a mapping has the return's names, None means that it wrote OUTPUT.md itself.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overhand.agents import Agent, Job, Launch
from overhand.documents import handoff as handoffs
from overhand.errors import BadInput
from overhand.files import write_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from overhand.documents.handoff import Handoff

RETURN_KEYS = ("status", "summary", "artifacts", "metadata", "errors", "next_steps", "data")


@dataclass(frozen=True, slots=True)
class Call:
    """What a function agent is given."""

    title: str
    prompt: str
    handoff: Handoff
    task_id: str
    run_id: str
    place: str  # the run's folder
    root: str  # the project's

    @property
    def workspace(self) -> Path:
        """The task's folder."""
        return Path(self.place).parent.parent

    @property
    def ipc(self) -> Path:
        """Where questions are asked, made when it is first used."""
        folder = self.workspace / "ipc"
        folder.mkdir(exist_ok=True)
        return folder

    @property
    def output(self) -> Path:
        """Where OUTPUT.md may be written."""
        return Path(self.place, "OUTPUT.md")

    @property
    def result(self) -> Path:
        """Where result.json may be written."""
        return Path(self.place, "result.json")

    @property
    def data_file(self) -> Path:
        """Where data.json may be written."""
        return Path(self.place, "data.json")

    @property
    def project(self) -> Path:
        """The project's folder, which is the working tree."""
        return Path(self.root)


def problems(agent: Agent) -> list[str]:
    """`function` must be `module:name`."""
    spec = agent.options.get("function")
    if not isinstance(spec, str) or spec.count(":") != 1 or not all(part.strip() for part in spec.split(":")):
        return ["overhand.function is missing; write it as module:name."]
    return []


def launch(agent: Agent, job: Job) -> Launch:
    """A Python child that imports the function from the project; the prompt is read from its file."""
    return Launch(
        (sys.executable, "-m", "overhand.agents.function", str(agent.options["function"])), prompt_on_stdin=False
    )


def as_return(value: object) -> dict[str, Any] | None:
    """What a function returned, as the return's JSON; raises BadInput for anything else."""
    if value is None:
        return None
    if isinstance(value, str):
        return {"status": "completed", "summary": value}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value) and set(value) & set(RETURN_KEYS):
        unknown = sorted(set(value) - set(RETURN_KEYS))
        if not unknown:
            return {"status": "completed", **value}
        raise BadInput(
            f"The function's return has unknown names: {', '.join(unknown)}; it may have {', '.join(RETURN_KEYS)}."
        )
    raise BadInput(f"The function returned {type(value).__name__}. Needed: a text, None, or {', '.join(RETURN_KEYS)}.")


def failure(error: BaseException) -> dict[str, Any]:
    """An exception as a return."""
    kind = type(error).__name__
    return {
        "status": "failed",
        "summary": f"The function raised {kind}: {error}"[:400],
        "errors": [{"type": kind, "message": str(error)[:2000] or kind, "recoverable": True}],
    }


def encode(value: Mapping[str, Any]) -> bytes:
    """The return as JSON; raises BadInput if it holds something JSON has no word for."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"The function's return cannot be written as JSON: {error}.") from None


def load(spec: str) -> Callable[[Call], object]:
    """Import `module:name`."""
    module, _, name = spec.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    if not callable(found):
        raise BadInput(f"{spec} is not callable.")
    return found  # type: ignore[no-any-return] # whatever is callable


def call_from_environment() -> Call:
    """The Call of this child process."""
    env = os.environ
    place = Path(env["OVERHAND_OUTPUT"]).parent
    parsed = handoffs.parse(Path(env["OVERHAND_HANDOFF"]).read_text(encoding="utf-8", errors="replace"))
    return Call(
        title=parsed.title,
        prompt=(place / "prompt.md").read_text(encoding="utf-8", errors="replace"),
        handoff=parsed,
        task_id=env["OVERHAND_TASK"],
        run_id=env["OVERHAND_RUN"],
        place=str(place),
        root=env["OVERHAND_PROJECT"],
    )


def main(argv: list[str]) -> int:
    """Run one function as a child process; its return goes to result.json."""
    sys.path.insert(0, os.getcwd())
    try:
        call = call_from_environment()
        value = load(argv[0])(call)
        if inspect.isawaitable(value):
            import asyncio

            value = asyncio.run(_finish(value))
        returned = as_return(value)
        raw = encode(returned) if returned is not None else None
    except Exception as error:  # noqa: BLE001 -- whatever a function raises is its result
        traceback.print_exc()
        write_file(os.environ["OVERHAND_RESULT"], encode(failure(error)))
        return 1
    if raw is not None:
        write_file(str(call.result), raw)
    return 0


async def _finish(value: Any) -> object:
    return await value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
