"""The JSON lines of real agents in one vocabulary, what they say of a run, and the native session to continue.

Each driver translates its own lines into events: `session` (its native id), `said` (its own text), `did` (a tool it
used), `used` (tokens and money of this run so far), `limited` (its account's limit, and when that ends), `denied` (a
request that was not allowed), `noted` (a note for a person who watches), `ended` (how its last turn ended), `turned` (a
turn ended, successfully unless another event says otherwise).
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from overhand.agents.driver import find_driver, translator
from overhand.system import mask_secrets, read_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from overhand.agents.driver import Agent
    from overhand.record import Run, Store, Task

STREAM_ENDS = {
    "clean": "its last turn ended as it should",
    "api-error": "the model's service answered with an error",
    "rate-limit": "the model's service wants a pause",
    "auth": "it is not logged in, or its key is not accepted",
    "max-turns": "it was cut off after its largest number of turns",
    "budget": "its own budget was used up",
    "refused": "the model refused",
    "aborted": "it was interrupted",
    "none": "it ended without saying how",
}
_MOST = 512 * 1024 * 1024
_FEW = 64 * 1024  # bytes to search for an error message


class StreamEvent(NamedTuple):
    kind: str
    text: str = ""
    data: Mapping[str, Any] = {}


@dataclass(slots=True)
class StreamSummary:
    """The summary of a whole stream."""

    session: str = ""
    text: list[str] = field(default_factory=list)
    tools: int = 0
    usage: dict[str, Any] = field(default_factory=dict)
    denied: list[str] = field(default_factory=list)
    end: str = "none"
    why: str = ""
    retry_at: float | None = None
    _open: bool = False  # the last text may continue

    def take(self, event: StreamEvent) -> None:
        if event.kind == "session":
            self.session = event.text
        elif event.kind == "said":
            if event.data.get("part") and self._open:
                self.text[-1] += event.text
            else:
                self.text.append(event.text)
        elif event.kind == "did":
            self.tools += 1
        elif event.kind == "used":
            for key in ("input", "output", "usd", "turns", "counted"):
                before = self.usage.get(key, 0) if event.data.get("add") else 0
                self.usage[key] = before + (event.data.get(key) or 0)
        elif event.kind == "denied":
            self.denied.append(event.text)
        elif event.kind == "ended":
            self.end, self.why = event.data.get("how", "clean"), event.text
            self.retry_at = event.data.get("retry_at", self.retry_at)
        elif event.kind == "limited":
            self.retry_at = event.data.get("retry_at")
        elif event.kind == "turned" and self.end == "none":
            self.end = "clean"  # no event says otherwise
        self._open = event.kind == "said"

    @property
    def last_words(self) -> str:
        """The agent's last text, which may contain a return."""
        return self.text[-1] if self.text else ""


def json_lines(raw: bytes) -> Iterable[dict[str, Any]]:
    """The JSON objects of complete lines; other lines are skipped, as agents print more than JSON."""
    for line in raw.split(b"\n"):
        at = line.find(b"{")
        if at < 0:
            continue
        try:
            found = json.loads(line[at:])
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


def hear(raw: bytes, translate: Callable[[dict[str, Any]], Iterable[StreamEvent]]) -> StreamSummary:
    heard = StreamSummary()
    for found in json_lines(raw):
        for event in translate(found):
            heard.take(event)
    return heard


_TELLING = (  # the most telling arguments of a tool, in the words of all agents: the first present one is shown
    *("command", "cmd", "file_path", "absolute_path", "path", "pattern", "query", "url", "title", "description"),
    *("question", "prompt"),
)
_SHELL = re.compile(r"^/?(?:usr/)?(?:bin/)?(?:ba|z)?sh -l?c ")


def brief_tool_use(arguments: Mapping[str, Any], *folders: str) -> str:
    """What a tool was used for, in one line; paths in these folders are shown relative to them."""
    value = next((arguments[key] for key in _TELLING if arguments.get(key)), None)
    if value is None:
        value = json.dumps(dict(arguments), ensure_ascii=False, default=str) if arguments else ""
    line = value if isinstance(value, str) else " ".join(map(str, value)) if isinstance(value, list) else str(value)
    line = _bare(" ".join(line.split()))
    for folder in folders:
        line = line.replace(f"{folder}/", "")
    return line if len(line) <= _LONG else line[: _LONG - 1] + "…"


def _bare(line: str) -> str:
    """A command without its shell wrapper."""
    if not (found := _SHELL.match(line)):
        return line
    rest = line[found.end() :]
    return rest[1:-1] if len(rest) > 1 and rest[0] in "'\"" and rest[-1] == rest[0] else rest


_LONG = 200  # characters
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CALLED = re.compile(r"\berror\b", re.IGNORECASE)


def complaint(raw: bytes) -> str:
    """A program's plain-text error message: its last line with an error in it, else its last line."""
    plain = _COLOURS.sub("", raw.decode("utf-8", "replace")).splitlines()
    lines = [" ".join(line.split()) for line in plain if line.strip() and not line.lstrip().startswith(("{", "at "))]
    errors = [line for line in lines if _CALLED.search(line)]
    return (errors or lines or [""])[-1][:300]


_LIMITS = ("429 too many", "hit your limit", "rate limit", "rate_limit", "usage limit", "quota")
_STRANGERS = (
    *("unauthorized", "unauthenticated", "invalid api key", "not logged in"),
    *("set an auth method", "no auth type", "no provider configured"),
)
_UNPAID = ("credit balance", "insufficient_quota", "billing details")  # waiting doesn't help


def failure(status: int | None, text: str) -> str:
    """Classify an error of the model's service."""
    low = text.lower()
    if any(word in low for word in _UNPAID):
        return "api-error"
    if status == 429 or any(word in low for word in _LIMITS):
        return "rate-limit"
    if status in (401, 403) or any(word in low for word in _STRANGERS):
        return "auth"
    return "api-error"


def stream_summary(place: str, driver: str) -> StreamSummary | None:
    """The summary of a run's stream; None for a driver without one."""
    translate = translator(driver)
    if translate is None:
        return None
    raw = read_file(f"{place}/stdout", limit=_MOST)
    if raw is None:
        return None  # it was an interactive session
    found = hear(raw, translate)
    if found.end == "none" and not found.why:
        _explain(found, raw, place)
    return found


def _explain(found: StreamSummary, raw: bytes, place: str) -> None:
    """Add what a program that aborted printed outside its stream."""
    printed = raw if len(raw) <= _FEW else raw[-_FEW:].partition(b"\n")[2]
    found.why = mask_secrets(complaint(read_file(f"{place}/stderr", limit=_FEW) or b"") or complaint(printed))
    if found.why and failure(None, found.why) == "auth":
        found.end = "auth"
    elif "max session turns" in found.why.lower():  # Qwen Code and Gemini CLI
        found.end = "max-turns"


def last_activity(place: str, driver: str, *folders: str) -> str:
    """What a coding agent said or did last, in one line; empty without a stream or output."""
    translate = translator(driver)
    raw, start = read_end(f"{place}/stdout", _FEW) if translate else (b"", 0)
    raw = raw.partition(b"\n")[2] if start else raw  # complete lines only
    last = StreamSummary()
    latest = ""
    for event in (event for found in json_lines(raw) for event in translate(found)) if translate else ():
        last.take(event)
        if event.kind == "said":
            latest = next((line.strip() for line in reversed(last.last_words.splitlines()) if line.strip()), latest)
        elif event.kind == "did":
            latest = f"{event.text} {brief_tool_use(event.data, place, *folders)}".strip()
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
