"""Notification channels: for each one in the settings, the program to run and its input."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from overhand.supervisor.notify import post
from overhand.supervisor.notify.notes import NEEDS, Note
from overhand.system import dump_line, mask_secrets, outside_runs, shown_address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from overhand.policy import Notify

SCREEN_SIGNS = (
    ("TERM_PROGRAM",) if sys.platform == "darwin" else ("DISPLAY", "WAYLAND_DISPLAY")
)  # set where a person looks
_TAGS = {
    "question": "question", "parked": "question", "blocked": "no_entry", "ready": "white_check_mark",
    "stopped": "x", "notice": "warning", "budget": "moneybag",
}  # fmt: skip
_OSASCRIPT = ("on run argv", "display notification (item 2 of argv) with title (item 1 of argv)", "end run")


@dataclass(frozen=True, slots=True)
class Delivery:
    """One note on its way through one channel."""

    channel: str
    label: str  # how the log calls it: no arguments, no whole address
    argv: tuple[str, ...]
    stdin: bytes
    env: dict[str, str]
    cwd: str
    posts: bool = False  # it is our own program, whose output may be quoted


def deliveries(
    note: Note, wanted: Notify, env: Mapping[str, str], seconds: float, pause: float
) -> tuple[list[Delivery], list[str]]:
    """A delivery for every channel, and what is wrong with the settings of the others."""
    posts = {"webhook": wanted.webhook, "ntfy": wanted.ntfy, "slack": wanted.slack}
    named = [value.removeprefix("env:") for value in posts.values() if value.startswith("env:")]
    note = _safe(note, env, named)
    clean = outside_runs(env)
    home = clean.get("HOME", "")
    cwd = home if os.path.isdir(home) else "/"  # never the project: a program there may not be trusted
    found, problems = [], []
    if argv := _desktop(note, wanted.desktop, clean):
        found.append(Delivery("desktop", f"desktop {argv[0]}", argv, b"", clean, cwd))
    if wanted.command:
        label = f"command {os.path.basename(wanted.command[0])}"
        stdin = (dump_line(_as_json(note)) + "\n").encode()
        variables = {
            "KIND": note.kind, "TASK": note.task_id, "HEADLINE": note.headline,
            "TITLE": _subject(note), "TEXT": note.text, "COMMAND": note.command,
        }  # fmt: skip
        with_note = {**clean, **{f"OVERHAND_NOTIFY_{name}": value for name, value in variables.items()}}
        found.append(Delivery("command", label, wanted.command, stdin, with_note, cwd))
    for name, value in posts.items():
        url = env.get(value.removeprefix("env:"), "") if value.startswith("env:") else value
        if url and post.is_address(url):
            headers, body = _message(name, note)
            order = {"url": url, "headers": headers, "body": body, "seconds": seconds, "pause": pause}
            stdin = dump_line(order).encode("utf-8", "replace")
            argv = (sys.executable, "-P", "-m", post.__name__)
            found.append(Delivery(name, f"{name} {shown_address(url)}", argv, stdin, clean, cwd, posts=True))
        elif value:
            where = f"${value.removeprefix('env:')}" if value.startswith("env:") else f"notify.{name}"
            state = "holds no http or https address" if url else "is not set"
            problems.append(f"{name}: {where} {state}")
    return found, problems


def _safe(note: Note, env: Mapping[str, str], named: list[str]) -> Note:
    """The note without secrets and control characters, and cut to length."""
    both = {**os.environ, **env}

    def safe(text: str, longest: int) -> str:
        if text.endswith("…"):  # it was cut: its last word may be the start of a secret
            text = text[:-1].rpartition(" ")[0] + " …"
        text = mask_secrets(text.encode("utf-8", "replace").decode(), both, named)
        text = "".join(c if c.isprintable() else " " for c in text)
        return text if len(text) <= longest else text[: longest - 1] + "…"

    return replace(note, title=safe(note.title, 120), text=safe(note.text, 300), project=safe(note.project, 60))


def _as_json(note: Note) -> dict[str, object]:
    keys = ("kind", "task_id", "handle", "title", "agent", "headline", "text", "command", "project")
    return {"schema": "overhand.notify/1", **{key: getattr(note, key) for key in keys}}


def _subject(note: Note) -> str:
    return f"{note.headline}: {note.handle or note.task_id} {note.title}"


def _body(note: Note) -> str:
    where = f"in {note.project}: " if note.project else ""
    return f"{note.text}\n{where}{note.command}"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _message(channel: str, note: Note) -> tuple[dict[str, str], str]:
    """Headers and body of a POST."""
    if channel == "webhook":
        return {"Content-Type": "application/json"}, dump_line(_as_json(note))
    if channel == "slack":  # escaped: a question must not be able to ping a whole channel
        text = f"*{_escaped(_subject(note))}*\n{_escaped(_body(note))}"
        return {"Content-Type": "application/json"}, dump_line({"text": text})
    title = _subject(note)
    if not title.isascii():  # a header is ASCII; ntfy reads encoded words
        import base64

        title = f"=?UTF-8?B?{base64.b64encode(title.encode()).decode()}?="
    priority = "high" if note.kind in NEEDS else "default"
    headers = {"Title": title, "Priority": priority, "Tags": _TAGS[note.kind]}
    return {"Content-Type": "text/plain; charset=utf-8", **headers}, _body(note)


def _desktop(note: Note, wanted: bool | str, env: Mapping[str, str]) -> tuple[str, ...]:
    """The desktop's own program; with "auto" only where there is one, a screen, and no CI."""
    if not wanted:
        return ()
    mac = sys.platform == "darwin"
    program = "osascript" if mac else "notify-send"
    if wanted == "auto":
        far = env.get("CI") or (mac and env.get("SSH_CONNECTION"))
        if far or not any(map(env.get, SCREEN_SIGNS)) or not shutil.which(program, path=env.get("PATH")):
            return ()
    if mac:
        return (program, *(word for line in _OSASCRIPT for word in ("-e", line)), _subject(note), _body(note))
    urgency = "critical" if note.kind in NEEDS else "normal"
    body = _escaped(_body(note)).replace("\\", "\\\\")  # notify-send interprets markup and backslashes
    return (program, "--app-name=Overhand", f"--urgency={urgency}", "--", _subject(note), body)
