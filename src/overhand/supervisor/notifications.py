"""Notifications for a person elsewhere: desktop, any command, webhook, ntfy, Slack.

Every channel is a program that gets one note and is ended after ten seconds; a POST is one too (post.py). So nothing
that a channel does can hold or hurt the supervisor. Notes wait in one queue. Its sender, a thread that lives while
there is something to send, starts the programs of a note side by side; each failure is one line in the log.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from overhand.policy import Notify
from overhand.supervisor import post
from overhand.supervisor.notes import NEEDS, note_of
from overhand.system import dump_line, find_program, mask_secrets, outside_runs, read_file, shown_address, write_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from overhand.record import Task
    from overhand.supervisor.notes import Note

_MOST = 100  # notes that may wait
_MEMORY = 1_000_000  # bytes of marks that are kept
# variables that are set where a person looks
SCREEN_SIGNS = ("TERM_PROGRAM",) if sys.platform == "darwin" else ("DISPLAY", "WAYLAND_DISPLAY")
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


class Notifications:
    """Sends each note once, through every channel that the settings name; it never raises and never blocks."""

    def __init__(
        self, root: str, say: Callable[[str], None], *, memory: str, seconds: float = 10.0, pause: float = 2.0
    ) -> None:
        """`say` writes one line of the supervisor's log; `memory` is a file that remembers what was sent.

        The programs of a note get `seconds` to end; a POST that fails is tried once more after `pause`.
        """
        self._root, self._say, self._memory, self._seconds, self._pause = root, say, memory, seconds, pause
        self._wanted, self._env = Notify(), dict[str, str]()
        self._seen: dict[str, Task] = {}  # each task as it was last seen
        self._waiting: deque[list[Delivery]] = deque()
        self._lost: Counter[str] = Counter()  # by channel
        self._running: list[subprocess.Popen[bytes]] = []
        self._sender: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._given_up = threading.Event()
        self._sent = _read_memory(memory)

    def use(self, wanted: Notify, env: Mapping[str, str]) -> None:
        self._wanted, self._env = wanted, dict(env)

    def task_changed(self, task: Task) -> None:
        """Send what is new about the task and matters to a person."""
        note = note_of(self._seen.get(task.id), task, self._root)
        self._seen[task.id] = task
        if note is not None:
            self.send(note)

    def forget(self, task_id: str) -> None:
        self._seen.pop(task_id, None)

    def send(self, note: Note) -> None:
        """Queue a note, unless the same one was sent before or isn't wanted; returns at once."""
        mark = hashlib.sha256(note.key.encode("utf-8", "replace")).hexdigest()[:20]
        if self._closed or note.kind not in self._wanted.on or mark in self._sent:
            return
        try:
            found, problems = deliveries(note, self._wanted, self._env, self._seconds, self._pause)
            for problem in problems:
                self._report(problem)
            if found:
                self._remember(mark)
                self._put(found)
        except Exception as error:  # noqa: BLE001 -- a note that cannot be sent is a line in the log, never more
            self._report(f"{type(error).__name__} while telling of {note.task_id}")

    def close(self, timeout: float) -> None:
        """Wait for what is under way, at most this long; then end it. Nothing is sent afterwards."""
        self._closed = True
        with self._lock:
            sender = self._sender
        if sender is None:
            return
        sender.join(timeout)
        with self._lock:
            self._given_up.set()
            for lost in self._waiting:
                self._lost.update(delivery.channel for delivery in lost)
            self._waiting.clear()
            running = list(self._running)
        for process in running:
            _kill(process)
        sender.join(1.0)

    # the queue and its sender

    def _put(self, found: list[Delivery]) -> None:
        with self._lock:
            if len(self._waiting) >= _MOST:
                self._lost.update(delivery.channel for delivery in found)
                return
            self._waiting.append(found)
            if self._sender is None:
                self._sender = threading.Thread(target=self._send_all, name="notify", daemon=True)
                self._sender.start()

    def _send_all(self) -> None:
        while found := self._next():
            try:
                deadline = time.monotonic() + self._seconds
                for delivery, process in [(one, self._start(one)) for one in found]:
                    if problem := process if isinstance(process, str) else self._end(process, deadline):
                        self._report(f"{delivery.label}: {problem}")
            except Exception as error:  # noqa: BLE001 -- its text may hold an address; its name does not
                self._report(type(error).__name__)

    def _next(self) -> list[Delivery] | None:
        """The deliveries of the next note; None if there are no more, and the sender ends."""
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            why = "the supervisor ended" if self._given_up.is_set() else "there were too many at once"
            for channel, count in self._lost.items():
                self._say(f"notify {channel}: {count} not sent, {why}")
            self._lost.clear()
            self._sender = None
            return None

    def _start(self, delivery: Delivery) -> subprocess.Popen[bytes] | str:
        """The program with the note on its standard input, or what went wrong."""
        if self._given_up.is_set():
            return "not sent, the supervisor ended"
        try:
            process = subprocess.Popen(
                delivery.argv,
                cwd=delivery.cwd,
                env=delivery.env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if delivery.posts else subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                process_group=0,  # killed with all it started; not a session, because the supervisor reaps those
            )
        except OSError as error:
            return f"cannot be started: {error.strerror}"
        with self._lock:
            self._running.append(process)
        if self._given_up.is_set():  # `close` may have checked a moment too early
            _kill(process)
        if process.stdin:
            try:
                with process.stdin as pipe:
                    pipe.write(delivery.stdin)  # a few kilobytes, which the pipe holds: this doesn't block
            except OSError:
                return process  # a program need not read
        return process

    def _end(self, process: subprocess.Popen[bytes], deadline: float) -> str:
        """Wait for a program; what went wrong, or nothing."""
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
            problem = ""
        except subprocess.TimeoutExpired:
            _kill(process)
            problem = f"no end within {self._seconds:g}s; it was ended"
        with self._lock:
            self._running.remove(process)
        printed = b""
        if process.stdout:  # only our own program has one, and may be quoted
            with process.stdout as pipe:
                printed = pipe.read()
        if problem or process.returncode == 0:
            return problem
        if self._given_up.is_set():
            return "not finished when the supervisor ended; it was ended"
        return printed.decode("utf-8", "replace").strip() or f"it ended with {process.returncode}"

    # what was sent, and what went wrong

    def _remember(self, mark: str) -> None:
        self._sent.add(mark)
        try:
            with open(self._memory, "a", encoding="ascii") as file:
                file.write(mark + "\n")
        except OSError as error:
            self._report(f"what was told cannot be kept: {error.strerror}")

    def _report(self, text: str) -> None:
        with self._lock:
            self._say("notify " + " ".join(text.split()))


def _read_memory(path: str) -> set[str]:
    """The marks of what was sent before; a file that has grown too long is cut to its newer half."""
    raw = read_file(path) or b""
    marks = raw.decode("ascii", "replace").split()
    if len(raw) > _MEMORY:
        marks = marks[len(marks) // 2 :]
        write_file(path, "\n".join(marks) + "\n")
    return set(marks)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a program and its group, if it has not ended by itself."""
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(1.0)
        except (ProcessLookupError, PermissionError, subprocess.TimeoutExpired):
            return  # gone, or stuck in the kernel


# the channels: for each one in the settings, the program to run and its input


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
    name = "osascript" if mac else "notify-send"
    found = find_program(name, env.get("PATH"))
    if wanted == "auto":
        far = env.get("CI") or (mac and env.get("SSH_CONNECTION"))
        if far or not any(map(env.get, SCREEN_SIGNS)) or not found:
            return ()
    program = found or name
    if mac:
        return (program, *(word for line in _OSASCRIPT for word in ("-e", line)), _subject(note), _body(note))
    urgency = "critical" if note.kind in NEEDS else "normal"
    body = _escaped(_body(note)).replace("\\", "\\\\")  # notify-send interprets markup and backslashes
    return (program, "--app-name=Overhand", f"--urgency={urgency}", "--", _subject(note), body)
