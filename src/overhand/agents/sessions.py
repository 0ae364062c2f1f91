"""Native sessions of agents: which one a run had, and which one the next run continues."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from overhand.agents import stream
from overhand.agents.driver import find_driver, translator
from overhand.system import mask_secrets, read_file

if TYPE_CHECKING:
    from overhand.agents.driver import Agent
    from overhand.agents.stream import StreamSummary
    from overhand.record import Run, Store, Task

_MOST = 512 * 1024 * 1024
_FEW = 64 * 1024  # bytes to search for an error message


def stream_summary(place: str, driver: str) -> StreamSummary | None:
    """The summary of a run's stream; None for a driver without one."""
    translate = translator(driver)
    if translate is None:
        return None
    raw = read_file(f"{place}/stdout", limit=_MOST)
    if raw is None:
        return None  # it was an interactive session
    found = stream.hear(raw, translate)
    if found.end == "none" and not found.why:
        _explain(found, raw, place)
    return found


def _explain(found: StreamSummary, raw: bytes, place: str) -> None:
    """Add what a program that aborted printed outside its stream."""
    printed = raw if len(raw) <= _FEW else raw[-_FEW:].partition(b"\n")[2]
    found.why = mask_secrets(
        stream.complaint(read_file(f"{place}/stderr", limit=_FEW) or b"") or stream.complaint(printed)
    )
    if found.why and stream.failure(None, found.why) == "auth":
        found.end = "auth"
    elif "max session turns" in found.why.lower():  # Qwen Code and Gemini CLI
        found.end = "max-turns"


def last_activity(place: str, driver: str, *folders: str) -> str:
    """What a coding agent said or did last, in one line; empty without a stream or output."""
    translate = translator(driver)
    raw, start = read_end(f"{place}/stdout", _FEW) if translate else (b"", 0)
    raw = raw.partition(b"\n")[2] if start else raw  # complete lines only
    last = stream.StreamSummary()
    latest = ""
    for event in (event for found in stream.json_lines(raw) for event in translate(found)) if translate else ():
        last.take(event)
        if event.kind == "said":
            latest = next((line.strip() for line in reversed(last.last_words.splitlines()) if line.strip()), latest)
        elif event.kind == "did":
            latest = f"{event.text} {stream.brief_tool_use(event.data, place, *folders)}".strip()
        elif event.kind == "noted":
            latest = event.text
    return mask_secrets(latest)


def read_end(path: str, size: int) -> tuple[bytes, int]:
    """The end of a growing file, and where that starts; nothing where there is none, or a pipe in its place."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b"", 0
    try:
        start = max(0, os.fstat(fd).st_size - size)
        return os.pread(fd, size, start), start
    except OSError:
        return b"", 0
    finally:
        os.close(fd)


def native_session(store: Store, task: Task, run: Run) -> str:
    """A run's session: the one its stream names, else the one we gave it."""
    place = store.run_folder(task.id, run.id)
    summary = stream_summary(place, run.driver)
    if summary is None:
        return ""
    if summary.session:
        return summary.session
    named = find_driver(run.driver).own_session(run.id, summary)
    return named and str(json.loads(read_file(f"{place}/spec.json") or b"{}").get("session") or named)


def session_to_resume(store: Store, task: Task, agent: Agent) -> str:
    """The session of the newest run by the same kind of agent, else the one that the task was begun with."""
    if not agent.real:
        return ""
    for run in reversed(task.runs[:-1]):
        if run.driver != agent.driver:
            return ""
        if found := native_session(store, task, run):
            return found
    driver, _, adopted = str(task.settings.get("session", "")).partition(":")
    return adopted if driver == agent.driver else ""
