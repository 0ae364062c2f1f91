"""Saved points of a task: JSON and Markdown in its folder; resuming from one never rolls a file back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overhand.errors import NotFound

if TYPE_CHECKING:
    from overhand.shapes import State


def find(state: State, name: str) -> str:
    """The checkpoint of this task that is meant: its id, or `latest`."""
    known = [str(event["id"]) for event in state["checkpoints"]]
    if name == "latest" and known:
        return known[-1]
    if name in known:
        return name
    handle = state["handle"] or state["task_id"]
    some = ", ".join(known[-5:]) or "none"
    raise NotFound(
        f"Task {handle} has no checkpoint {name} (there are: {some}).", f"See them: overhand checkpoint list {handle}"
    )
