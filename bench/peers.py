"""LangGraph with its SQLite checkpointer: the peer of in-process delegation."""

from __future__ import annotations

import operator
import sqlite3
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

if TYPE_CHECKING:
    from pathlib import Path

RETURN = {"status": "completed", "summary": "There was nothing to do, and that is done."}


class One(TypedDict, total=False):
    """The state of a graph that does one thing."""

    title: str
    status: str
    summary: str


class Many(TypedDict, total=False):
    """The state of a graph that does many things at once."""

    titles: list[str]
    results: Annotated[list[dict[str, str]], operator.add]


class Graphs:
    """The same two jobs as graphs over one file database, with the durability that LangGraph has by itself."""

    def __init__(self, place: Path) -> None:
        # LangGraph is in this environment only, so a type checker elsewhere must not look for it.
        self._graph: Any = import_module("langgraph.graph")
        send: Any = import_module("langgraph.types").Send
        self._database = sqlite3.connect(place / "checkpoints.sqlite", check_same_thread=False)
        saver = import_module("langgraph.checkpoint.sqlite").SqliteSaver(self._database)
        one = self._graph.StateGraph(One)
        one.add_node("noop", lambda _: dict(RETURN))
        one.add_edge(self._graph.START, "noop")
        many = self._graph.StateGraph(Many)
        many.add_node("noop", lambda _: {"results": [dict(RETURN)]})
        many.add_conditional_edges(
            self._graph.START, lambda state: [send("noop", {"title": title}) for title in state["titles"]], ["noop"]
        )
        self._one, self._many = one.compile(checkpointer=saver), many.compile(checkpointer=saver)
        self._threads = 0

    def _thread(self) -> dict[str, dict[str, str]]:
        self._threads += 1
        return {"configurable": {"thread_id": str(self._threads)}}

    def one(self) -> None:
        """A one-node graph in a thread of its own."""
        done = self._one.invoke({"title": "Do nothing"}, self._thread())
        assert done["status"] == "completed"

    def many(self, count: int) -> None:
        """One graph that sends to so many nodes."""
        done = self._many.invoke({"titles": [f"Do nothing, {n}" for n in range(count)]}, self._thread())
        assert len(done["results"]) == count

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()
