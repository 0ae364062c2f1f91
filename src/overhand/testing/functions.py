"""The scripted agents as Python functions: `p.agent("name")(completes())`.

Each of these makes a function agent: a callable that takes one `call` and gives back a return as JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from overhand.testing import returns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    FunctionAgent = Callable[["FunctionCall"], dict[str, object]]


class FunctionCall(Protocol):
    """The part of a function agent's call that these agents use."""

    @property
    def title(self) -> str: ...
    @property
    def workspace(self) -> Path: ...
    @property
    def project(self) -> Path: ...


class CanAsk(Protocol):
    """A call that can ask."""

    def ask(self, question: str, options: Sequence[str] = ()) -> str: ...


class Waitable(Protocol):
    """Something to wait for: a `threading.Event`, a `multiprocessing.Event`."""

    def wait(self) -> object: ...


def completes(
    summary: str = returns.SUMMARY,
    files: Mapping[str, str] | None = None,
    data: Mapping[str, object] | None = None,
) -> FunctionAgent:
    """Writes these files (path in the project → content), then returns completed, naming them."""
    written = dict(files or {})

    def agent(call: FunctionCall) -> dict[str, object]:
        for path, content in written.items():
            place = call.project / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(content, encoding="utf-8")
        return returns.return_json("completed", summary, list(written), data)

    return agent


def reports(status: str, summary: str = returns.SUMMARY) -> FunctionAgent:
    """Returns this status: blocked, partial, needs-input, failed."""
    return lambda _: returns.return_json(status, summary)


def claims_falsely(path: str = "never-written.txt") -> FunctionAgent:
    """Returns completed and names a file that it did not write."""
    return lambda _: returns.return_json("completed", f"Wrote {path} and tested it.", [path])


def returns_rubbish() -> FunctionAgent:
    """Returns something that cannot be read as a result."""
    return lambda _: {"status": "splendid", "summary": 42, "artifacts": "many"}


def raises(error: BaseException | type[BaseException]) -> FunctionAgent:
    """Raises this error."""

    def agent(_: FunctionCall) -> dict[str, object]:
        raise error

    return agent


def hangs(event: Waitable) -> FunctionAgent:
    """Waits for the event, then returns completed: a test decides when, or never sets it."""

    def agent(_: FunctionCall) -> dict[str, object]:
        event.wait()
        return returns.return_json()

    return agent


def asks(question: str) -> FunctionAgent:
    """Asks, waits for the answer, and returns it as its summary."""

    def agent(call: FunctionCall) -> dict[str, object]:
        ipc = str(call.workspace / "ipc")
        answer = returns.await_answer(ipc, returns.ask(ipc, question))
        return returns.return_json("completed", answer)

    return agent


def consults(question: str, options: Sequence[str] = ()) -> Callable[[CanAsk], dict[str, object]]:
    """Asks with `call.ask`, and returns the answer as its summary."""
    return lambda call: returns.return_json("completed", call.ask(question, options))
