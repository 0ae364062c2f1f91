"""Telling a person: real servers, real programs, real failures, and none of them is felt by whoever tells."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from overhand.policy import Notify
from overhand.supervisor.notes import Note
from overhand.supervisor.notifications import Notifications
from overhand.system import start_time
from support.scene import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


SECRET = "s3cr3t-value-1234"  # noqa: S105 -- what must not be seen anywhere
NOTE = Note(
    kind="question",
    task_id="worker-20261115-205025",
    handle=3,
    title="Mend the parser",
    agent="worker",
    headline="needs you",
    text="worker asks: Which of the two?",
    command="overhand answer 3",
    project="planets",
    key="k",
)
ENOUGH = (1.0, 4.0, 16.0)  # seconds for a program that must come so far: more, if it was ended before it had
LONG = 60.0  # more than any test needs: a close that waits for a fast thing, not for the clock


@dataclass
class Server:
    """A loopback server that answers as it was told and keeps what it was sent."""

    url: str
    seen: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)


@contextmanager
def serving(status: int = 200, location: str = "") -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            server.seen.append((self.path, dict(self.headers), body))
            self.send_response(status)
            if location:
                self.send_header("Location", location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            server.seen.append((f"GET {self.path}", {}, b""))
            self.send_error(500)

        def log_message(self, *_: Any) -> None:
            return

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server = Server(f"http://127.0.0.1:{http.server_port}")
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


@dataclass
class Desk:
    """A notifier's surroundings: its environment, and the log it writes to."""

    folder: Path
    lines: list[str] = field(default_factory=list)

    @property
    def env(self) -> dict[str, str]:
        return {"PATH": f"{self.folder}:{os.environ['PATH']}", "HOME": str(self.folder), "MY_TOKEN": SECRET}

    def program(self, name: str, script: str) -> str:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return str(path)

    def notifier(
        self,
        env: dict[str, str] | None = None,
        *,
        seconds: float = LONG,
        memory: str = os.devnull,
        **settings: Any,
    ) -> Notifications:
        made = Notifications("/planets", self.lines.append, seconds=seconds, pause=0.01, memory=memory)
        made.use(Notify(**{"desktop": False, **settings}), {**self.env, **(env or {})})
        return made

    def tell(self, note: Note = NOTE, **settings: Any) -> list[str]:
        """Tell one note to its end; the lines of the log."""
        notifier = self.notifier(**settings)
        notifier.send(note)
        notifier.close(LONG)
        assert all("\n" not in line and SECRET not in line for line in self.lines)
        return self.lines


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


# what arrives


def test_a_webhook_is_sent_json(desk: Desk) -> None:
    with serving() as server:
        assert desk.tell(webhook=f"{server.url}/hook?key=1") == []
        ((path, headers, body),) = server.seen
    assert (path, headers["Content-Type"], headers["User-Agent"]) == ("/hook?key=1", "application/json", "overhand")
    assert json.loads(body) == {
        "schema": "overhand.notify/1",
        "kind": "question",
        "task_id": "worker-20261115-205025",
        "handle": 3,
        "title": "Mend the parser",
        "agent": "worker",
        "headline": "needs you",
        "text": "worker asks: Which of the two?",
        "command": "overhand answer 3",
        "project": "planets",
    }


def test_an_ntfy_topic_is_sent_text_with_headers(desk: Desk) -> None:
    with serving() as server:
        assert desk.tell(ntfy=f"{server.url}/topic") == []
        assert desk.tell(replace(NOTE, kind="ready", title="Größe"), ntfy=f"{server.url}/topic") == []
        (_, first, body), (_, second, _) = server.seen
    assert (first["Title"], first["Priority"], first["Tags"]) == ("needs you: 3 Mend the parser", "high", "question")
    assert body.decode() == "worker asks: Which of the two?\nin planets: overhand answer 3"
    assert (second["Title"], second["Priority"]) == ("=?UTF-8?B?bmVlZHMgeW91OiAzIEdyw7bDn2U=?=", "default")


def test_slack_is_sent_text_that_cannot_call_a_channel(desk: Desk) -> None:
    with serving() as server:
        assert desk.tell(replace(NOTE, text="<!channel> a & b"), slack=server.url) == []
        ((_, _, body),) = server.seen
    assert json.loads(body) == {
        "text": "*needs you: 3 Mend the parser*\n&lt;!channel&gt; a &amp; b\nin planets: overhand answer 3"
    }


def test_a_login_in_an_address_goes_into_a_header(desk: Desk) -> None:
    with serving() as server:
        assert desk.tell(webhook=server.url.replace("//", "//me:p%40ss@")) == []
        ((_, headers, _),) = server.seen
    assert headers["Authorization"] == "Basic bWU6cEBzcw=="
    assert "@" not in headers["Host"]


def test_a_command_gets_the_note_on_stdin_and_in_variables(desk: Desk) -> None:
    program = desk.program("teller", 'cat >"$1"; env | grep "^OVERHAND_" | sort >"$1.env"; pwd >"$1.cwd"')
    out = desk.folder / "told"
    assert desk.tell(command=(program, str(out))) == []
    assert json.loads(out.read_text())["text"] == "worker asks: Which of the two?"
    assert (desk.folder / "told.env").read_text().splitlines() == [
        "OVERHAND_NOTIFY_COMMAND=overhand answer 3",
        "OVERHAND_NOTIFY_HEADLINE=needs you",
        "OVERHAND_NOTIFY_KIND=question",
        "OVERHAND_NOTIFY_TASK=worker-20261115-205025",
        "OVERHAND_NOTIFY_TEXT=worker asks: Which of the two?",
        "OVERHAND_NOTIFY_TITLE=needs you: 3 Mend the parser",
    ]
    assert (desk.folder / "told.cwd").read_text().strip() == str(desk.folder), "not in the project"


@pytest.mark.skipif(sys.platform == "darwin", reason="notify-send is the desktop of Linux")
@pytest.mark.parametrize(
    ("wanted", "more", "told"),
    [
        ("auto", {"DISPLAY": ":0"}, True),
        ("auto", {"WAYLAND_DISPLAY": "wayland-0"}, True),
        ("auto", {}, False),
        ("auto", {"DISPLAY": ":0", "CI": "true"}, False),
        (True, {}, True),
        (False, {"DISPLAY": ":0"}, False),
    ],
)
def test_the_desktop_is_told_where_there_is_one(desk: Desk, wanted: object, more: dict[str, str], told: bool) -> None:
    desk.program("notify-send", f'printf "%s\\n" "$@" >>{desk.folder}/shown')
    notifier = desk.notifier(more, desktop=wanted)
    notifier.send(replace(NOTE, text="a\\nb <b>"))
    notifier.close(LONG)
    shown = desk.folder / "shown"
    assert shown.exists() == told
    assert desk.lines == []
    if told:
        *_, title, text, command = shown.read_text().splitlines()
        assert (title, text) == ("needs you: 3 Mend the parser", "a\\\\nb &lt;b&gt;")
        assert command == "in planets: overhand answer 3"


def test_an_address_may_stand_in_a_variable(desk: Desk) -> None:
    with serving() as server:
        wanted = Notify(desktop=False, webhook="env:MY_HOOK")
        notifier = desk.notifier(webhook="env:MY_HOOK")
        notifier.send(NOTE)
        notifier.use(wanted, {**desk.env, "MY_HOOK": "file:///etc/passwd"})
        notifier.send(replace(NOTE, key="2"))
        notifier.use(wanted, {**desk.env, "MY_HOOK": f"{server.url}/x"})
        notifier.send(replace(NOTE, key="3"))
        notifier.close(LONG)
        assert [path for path, _, _ in server.seen] == ["/x"]
    assert desk.lines == [
        "notify webhook: $MY_HOOK is not set",
        "notify webhook: $MY_HOOK holds no http or https address",
    ]


# what must not be told


def test_secrets_are_masked_before_a_text_is_cut(desk: Desk) -> None:
    text = f"Is {SECRET} right? " + "x" * 268 + SECRET  # it would be cut in the middle of the second one
    with serving() as server:
        desk.tell(replace(NOTE, text=text, title=f"use {SECRET}"), webhook=server.url, ntfy=server.url)
        sent = [(json.dumps(headers) + body.decode()) for _, headers, body in server.seen]
    assert len(sent) == 2
    assert all("s3cr3t" not in one and "<MY_TOKEN>" in one for one in sent)
    assert all(len(json.loads(body)["text"]) <= 300 for _, _, body in server.seen if body.startswith(b"{"))


def test_what_was_cut_elsewhere_ends_at_a_word(desk: Desk) -> None:
    with serving() as server:
        desk.tell(replace(NOTE, text=f"Use this: {SECRET[:9]}…"), webhook=server.url)
        ((_, _, body),) = server.seen
    assert json.loads(body)["text"] == "Use this: …"


def test_the_same_thing_is_told_once_also_by_the_next_supervisor(desk: Desk) -> None:
    memory = str(desk.folder / "told")
    with serving() as server:
        for key in ("a", "a", "b"):
            desk.tell(replace(NOTE, key=key), webhook=server.url, memory=memory)
        assert len(server.seen) == 2


def test_only_what_was_asked_for_is_told(desk: Desk) -> None:
    with serving() as server:
        desk.tell(webhook=server.url, on=("ready",))
        desk.tell(replace(NOTE, kind="ready", key="2"), webhook=server.url, on=("ready",))
        assert [json.loads(body)["kind"] for _, _, body in server.seen] == ["ready"]


# what fails


def test_failures_are_one_line_without_the_token(desk: Desk) -> None:
    with closing(socket.socket()) as taken:  # its port is nobody else's, and nobody listens there
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        assert desk.tell(webhook=f"http://me:{SECRET}@127.0.0.1:{port}/{SECRET}?t={SECRET}") == [
            f"notify webhook http://127.0.0.1:{port}/…: Connection refused"
        ]


def test_a_server_that_fails_is_asked_twice_and_no_more(desk: Desk) -> None:
    with serving(500) as server:
        assert desk.tell(webhook=f"{server.url}/{SECRET}") == [f"notify webhook {server.url}/…: it answered 500"]
        assert len(server.seen) == 2


def test_a_server_that_refuses_is_asked_once(desk: Desk) -> None:
    with serving(403) as server:
        assert desk.tell(slack=server.url) == [f"notify slack {server.url}/…: it answered 403"]
        assert len(server.seen) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirections_are_not_followed(desk: Desk, status: int) -> None:
    with serving() as other, serving(status, f"{other.url}/{SECRET}") as server:
        (line,) = desk.tell(webhook=server.url)
        assert line.endswith(f"it answered {status} and leads elsewhere, which is not followed")
        assert (len(server.seen), other.seen) == (1, [])


def test_a_name_that_nobody_has(desk: Desk) -> None:
    (line,) = desk.tell(webhook=f"http://nobody.invalid/{SECRET}")
    assert line.startswith("notify webhook http://nobody.invalid/…: ")


def test_a_server_that_never_answers_is_given_up(desk: Desk) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        (line,) = desk.tell(webhook=f"{url}/{SECRET}", seconds=0.5)
    assert line.startswith(f"notify webhook {url}/…: no ")


def test_a_server_that_drips_is_given_up(desk: Desk) -> None:
    """Every byte comes in time; the whole never does."""
    with closing(socket.create_server(("127.0.0.1", 0))) as slow:
        over, came = threading.Event(), threading.Event()

        def drip() -> None:
            peer, _ = slow.accept()
            came.set()
            with peer:
                try:
                    peer.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                    while not over.wait(0.05):
                        peer.sendall(b"x")
                except OSError:
                    over.set()  # it was closed, which is what this test is about

        thread = threading.Thread(target=drip)
        thread.start()
        for seconds in ENOUGH:
            line = desk.tell(webhook=f"http://127.0.0.1:{slow.getsockname()[1]}", seconds=seconds)[-1]
            if came.is_set():
                break
        over.set()
        socket.create_connection(slow.getsockname()).close()  # had nobody come, it would wait for ever
        thread.join()
    assert ": no " in line


def test_programs_that_are_not_there_or_fail(desk: Desk) -> None:
    failing = desk.program("failing", f"cat >/dev/null; echo {SECRET} >&2; exit 3")
    assert desk.tell(command=("no-such-program", SECRET)) == [
        "notify command no-such-program: cannot be started: No such file or directory"
    ]
    assert desk.tell(replace(NOTE, key="2"), command=(failing, SECRET))[1:] == [
        "notify command failing: it ended with 3"
    ]


def test_a_program_that_does_not_read_is_no_failure(desk: Desk) -> None:
    assert desk.tell(replace(NOTE, text="x" * 300), command=("true",)) == []


SLEEPER = 'trap "" TERM; sleep 3600 & echo "$$ $!" >"$1.new"; mv "$1.new" "$1"; wait'


def pids(path: Path) -> list[int]:
    until(path.exists, f"{path.name} written")
    return [int(word) for word in path.read_text().split()]


def test_a_program_that_hangs_is_ended_with_its_children(desk: Desk) -> None:
    program = desk.program("sleeper", SLEEPER)
    for seconds in ENOUGH:
        line = desk.tell(command=(program, str(desk.folder / "pids")), seconds=seconds)[-1]
        assert line == f"notify command sleeper: no end within {seconds:g}s; it was ended"
        if (desk.folder / "pids").exists():
            break
    for pid in pids(desk.folder / "pids"):
        until(lambda p=pid: start_time(p) is None, f"the end of {pid}")  # type: ignore[misc] # bound now


def test_close_waits_no_longer_than_it_was_told_and_leaves_nobody(desk: Desk) -> None:
    program = desk.program("sleeper", SLEEPER)
    notifier = desk.notifier(command=(program, str(desk.folder / "pids")))
    for key in "abc":
        notifier.send(replace(NOTE, key=key))
    left = pids(desk.folder / "pids")
    notifier.close(0.01)
    notifier.send(replace(NOTE, key="late"))
    for pid in left:
        until(lambda p=pid: start_time(p) is None, f"the end of {pid}")  # type: ignore[misc] # bound now
    until(lambda: len(desk.lines) >= 2, "both lines")
    assert sorted(desk.lines) == [
        "notify command sleeper: not finished when the supervisor ended; it was ended",
        "notify command: 2 not sent, the supervisor ended",
    ]


def test_one_channel_does_not_wait_for_another(desk: Desk) -> None:
    program = desk.program("sleeper", SLEEPER)
    with serving() as server:
        notifier = desk.notifier(command=(program, str(desk.folder / "pids")), webhook=server.url)
        notifier.send(NOTE)
        until(lambda: len(server.seen) == 1, "a request beside a program that hangs")
        notifier.close(0.01)


def test_too_many_at_once_are_counted_not_kept(desk: Desk) -> None:
    program = desk.program("gate", f'while ! [ -e {desk.folder}/go ]; do sleep 0.02; done; echo x >>"{desk.folder}/n"')
    notifier = desk.notifier(command=(program,))
    for number in range(130):
        notifier.send(replace(NOTE, key=str(number)))
    (desk.folder / "go").touch()
    notifier.close(LONG)
    told = len((desk.folder / "n").read_text().split())
    assert desk.lines == [f"notify command: {130 - told} not sent, there were too many at once"]
    assert 100 <= told <= 101


def test_importing_is_light() -> None:
    import subprocess

    heavy = "{'urllib.request', 'ssl', 'http.client'}"
    code = f"import sys, overhand.supervisor.notifications; print({heavy} & sys.modules.keys())"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"
