"""Driver `function`: a Python callable, sync or async.

From an agent file (`function: module:name`) it runs as a child process, this module's `main`; through the Python API it
runs in its caller. Either way it is given a `Call` and what it returns is its return: a text is the summary of a
completed task, a mapping has the return's names, None means that it wrote OUTPUT.md itself. It may ask a person and
wait (`call.ask`, in an async function `await call.ask_async`).
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
import time
import traceback
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overhand.agents.driver import UNANSWERED, Agent, Driver, Job, Launch, own_desk
from overhand.documents import parse_handoff
from overhand.errors import BadInput, Damaged, OverhandError, Unanswered, from_json
from overhand.system import Beneath

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Mapping

    from overhand.documents import Handoff

RETURN_KEYS = ("status", "summary", "artifacts", "metadata", "errors", "next_steps", "data")


@dataclass(frozen=True, slots=True)
class Inquiry:
    """What a function asks, and how long it waits."""

    question: str
    options: tuple[str, ...] = ()
    closed: bool = False
    step: str = ""
    timeout: float | None = None
    given_up: threading.Event | None = None  # set when the caller stops waiting for the answer

    @property
    def is_over(self) -> bool:
        return self.given_up is not None and self.given_up.is_set()


def unanswered_error(seq: int) -> Unanswered:
    """The error that a function gets when no answer came in time."""
    return Unanswered(
        f"Question {seq} was not answered in time; it stays open.",
        "Let this pass, and the task is parked; or catch it and go on without the answer.",
        seq=seq,
    )


def by_command(call: Call, inquiry: Inquiry) -> str:
    """Ask from a child process: `overhand ask`, called again for as long as it says so."""
    words = ["--option=" + option for option in inquiry.options]
    words += ["--closed"] * inquiry.closed + (["--step=" + inquiry.step] if inquiry.step else [])
    words += ["--", inquiry.question]
    until = float("inf") if inquiry.timeout is None else time.monotonic() + inquiry.timeout
    while True:
        left = until - time.monotonic()
        patience = [f"--timeout={max(0.0, left):.3f}"] if inquiry.timeout is not None else []
        printed = _overhand(call.root, ["ask", "--json", *patience, *words], inquiry)
        if "answer" in printed:
            return str(printed["answer"])
        error = from_json(printed)
        if error.code != Unanswered.code or "seq" not in error.facts:
            raise error
        seq = int(str(error.facts["seq"]))
        if time.monotonic() >= until or inquiry.is_over:
            raise unanswered_error(seq)
        words = ["--again", str(seq)]


def _overhand(root: str, words: list[str], inquiry: Inquiry) -> dict[str, Any]:
    """Call a verb and read the object it prints; the process is ended when the caller stops waiting."""
    import subprocess

    argv = [sys.executable, "-P", "-m", "overhand", "--project", root, *words]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        while True:
            try:
                printed, _ = process.communicate(timeout=None if inquiry.given_up is None else 1.0)
                break
            except subprocess.TimeoutExpired:
                if inquiry.is_over:
                    process.terminate()
    try:
        return dict(json.loads(printed))
    except ValueError:
        raise OverhandError(
            f"`overhand ask` ended with {process.returncode} and gave no answer.",
            "Ask again: the same question is not asked twice.",
        ) from None


@dataclass(frozen=True, slots=True)
class Call:
    """What a function agent is given."""

    title: str
    handoff: Handoff
    task_id: str
    run_id: str
    place: str  # the run's folder in the workspace
    root: str  # the project's
    inputs: Mapping[str, Any] = field(default_factory=dict)  # of a plan's node, with the types that they had
    _prompt: Callable[[], str] = field(default=str, repr=False)  # most functions don't read it
    _ask: Callable[[Call, Inquiry], str] = field(default=by_command, repr=False)
    _count: Callable[[], None] | None = field(default=None, repr=False)

    def usage(
        self, *, input: int = 0, output: int = 0, usd: float = 0.0, context: int = 0, window: int = 0, model: str = ""
    ) -> None:
        """Report what one turn used; inside your own process it raises BudgetExceeded once a budget is used up."""
        report = {"input": input, "output": output, "usd": usd, "context": context, "window": window, "model": model}
        line = json.dumps({name: value for name, value in report.items() if value}) + "\n"
        self._files.append("usage.jsonl", line, make=True)
        if self._count is not None:
            self._count()

    def ask(
        self,
        question: str,
        options: Iterable[str] = (),
        *,
        closed: bool = False,
        step: str = "",
        timeout: float | None = None,
    ) -> str:
        """Ask a person and wait; the run holds no slot meanwhile and its clock stands still. Raises Unanswered."""
        import asyncio

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._ask(self, Inquiry(question, tuple(options), closed, step, timeout))
        raise BadInput(
            "call.ask() in an async function would hold up every other one.", "Write: await call.ask_async(…)"
        )

    async def ask_async(
        self,
        question: str,
        options: Iterable[str] = (),
        *,
        closed: bool = False,
        step: str = "",
        timeout: float | None = None,  # noqa: ASYNC109 -- how long the question is waited for
    ) -> str:
        """The same for async functions: other coroutines go on, and cancelling it gives up waiting."""
        import asyncio
        import threading
        from concurrent.futures import ThreadPoolExecutor

        given_up = threading.Event()
        inquiry = Inquiry(question, tuple(options), closed, step, timeout, given_up)
        waiter = ThreadPoolExecutor(
            1, thread_name_prefix="overhand-ask"
        )  # a shared pool would fill up with waiting calls
        try:
            return await asyncio.get_running_loop().run_in_executor(waiter, self._ask, self, inquiry)
        finally:
            given_up.set()
            waiter.shutdown(wait=False)

    @property
    def prompt(self) -> str:
        """What an agent that reads text would be given."""
        return self._prompt()

    @property
    def workspace(self) -> Path:
        """The task's folder."""
        return Path(self.place).parent.parent

    @property
    def ipc(self) -> Path:
        """Where questions are asked, made when it is first used."""
        Beneath(self.root, os.path.relpath(self.workspace, self.root)).make_folder("ipc")
        return self.workspace / "ipc"

    @property
    def _files(self) -> Beneath:
        """The run's own folder in the workspace."""
        return Beneath(self.root, os.path.relpath(self.place, self.root))

    def _on_desk(self, name: str) -> Path:
        """A file of the run's own folder, which is made when it is first used."""
        self._files.make_folder("")
        return Path(self.place, name)

    @property
    def output(self) -> Path:
        """Where OUTPUT.md may be written."""
        return self._on_desk("OUTPUT.md")

    @property
    def result(self) -> Path:
        """Where result.json may be written."""
        return self._on_desk("result.json")

    @property
    def data_file(self) -> Path:
        """Where data.json may be written."""
        return self._on_desk("data.json")

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
        (sys.executable, "-m", "overhand.agents.drivers.function", str(agent.options["function"])),
        prompt_on_stdin=False,
    )


def as_return(value: object) -> dict[str, Any] | None:
    """A function's return value as the return's JSON; raises BadInput for an unsupported type."""
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


def failure_return(error: BaseException) -> dict[str, Any]:
    kind = type(error).__name__
    return {
        "status": "failed",
        "summary": f"The function raised {kind}: {error}"[:400],
        "errors": [{"type": kind, "message": str(error)[:2000] or kind, "recoverable": True}],
    }


def encode_return(value: Mapping[str, Any]) -> bytes:
    """The return as JSON; raises BadInput if it holds a value that JSON can't represent."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"The function's return cannot be written as JSON: {error}.") from None


def load(spec: str) -> Callable[[Call], object]:
    """Import `module:name`."""
    module, _, name = spec.partition(":")
    found: Any = attrgetter(name)(importlib.import_module(module))
    if not callable(found):
        raise BadInput(f"{spec} is not callable.")
    return found  # type: ignore[no-any-return] # whatever is callable


def call_from_environment() -> Call:
    env = os.environ
    place = Path(env["OVERHAND_OUTPUT"]).parent
    parsed = parse_handoff(Path(env["OVERHAND_HANDOFF"]).read_text(encoding="utf-8", errors="replace"))
    return Call(
        title=parsed.title,
        handoff=parsed,
        task_id=env["OVERHAND_TASK"],
        run_id=env["OVERHAND_RUN"],
        place=str(place),
        root=env["OVERHAND_PROJECT"],
        inputs=read_inputs(env.get("OVERHAND_INPUTS", "")),
        _prompt=partial((place / "prompt.md").read_text, encoding="utf-8", errors="replace"),
    )


def read_inputs(path: str) -> dict[str, Any]:
    """The inputs of a plan's node; empty if there is no file."""
    try:
        return dict(json.loads(Path(path).read_bytes())) if path else {}
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise Damaged(
            f"The inputs of this node cannot be read: {error}.", f"Look at {path}; or run the plan anew."
        ) from None


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
        raw = encode_return(returned) if returned is not None else None
    except Unanswered as error:  # parked, as if we had ended it: the answer starts the next run
        sys.stderr.write(f"{error.message}\n")
        own_desk().write(UNANSWERED, "", make=True)
        return 0
    except Exception as error:  # noqa: BLE001 -- whatever a function raises is its result
        traceback.print_exc()
        own_desk().write("result.json", encode_return(failure_return(error)), make=True)
        return 1
    if raw is not None:
        own_desk().write("result.json", raw, make=True)
    return 0


async def _finish(value: Any) -> object:
    return await value


DRIVER = Driver(rank=2, launch=launch, problems=problems, parks_itself=True, in_place=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
