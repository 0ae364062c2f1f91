"""A LangGraph graph as an Overhand agent: read the key files, then write a note about them.

The graph is compiled once and given the HANDOFF's own words; its final state is the data of the result.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langgraph.graph import END, START, StateGraph

from overhand import Call


class Notes(TypedDict, total=False):
    """What the graph knows."""

    task: str
    texts: dict[str, str]
    note: str


def graph(model: BaseChatModel) -> Any:
    """Two nodes in a row; put your own graph here."""

    def write(state: Notes) -> Notes:
        texts = "\n\n".join(f"{name}:\n{text}" for name, text in state["texts"].items())
        return {"note": str(model.invoke(f"{state['task']}\n\n{texts}").content)}

    def read(state: Notes) -> Notes:
        return {"texts": {name: text[:10_000] for name, text in state["texts"].items()}}

    made = StateGraph(Notes)
    made.add_node("read", read)
    made.add_node("write", write)
    made.add_edge(START, "read")
    made.add_edge("read", "write")
    made.add_edge("write", END)
    return made.compile()


def default_model() -> BaseChatModel:
    """Put your model here, such as `init_chat_model("anthropic:claude-sonnet-4-5")`."""
    return FakeListChatModel(responses=["Two planets are named."])


def work(call: Call) -> dict[str, Any]:
    """What Overhand calls: the HANDOFF in, a return out."""
    root = Path(call.root)
    texts = {file.path: (root / file.path).read_text() for file in call.handoff.key_files}
    state = graph(default_model()).invoke({"task": call.title, "texts": texts})
    return {"status": "completed", "summary": state["note"], "data": {"files": list(texts), "note": state["note"]}}
