"""`daemon`: have the supervisor watch tags, permanently or while this process runs."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from overhand.errors import BadInput, OverhandError, Refused
from overhand.policy import find_caller, require_person
from overhand.supervisor import (
    ask_supervisor,
    daemon_log,
    daemon_state,
    hand_to_supervisor,
    running_supervisor,
    turn_daemon_off,
    turn_daemon_on,
    wake_supervisor,
)
from overhand.system import IN_CREATE, IN_MODIFY, IN_MOVED_TO, Inotify, now_stamp
from overhand.verbs.log import Tail
from overhand.verbs.verb import Reply, Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    Row = dict[str, Any]

SCHEMA = "overhand.daemon/1"
_PATIENCE = 20.0  # seconds for it to begin; two of them for the first scan of the files, which may take longer
_LOOK_EVERY = 2.0  # seconds between looks whether a supervisor runs


def daemon(session: Session, do: str = "", follow: bool = False, print: bool = False, pid: bool = False) -> Reply:
    """Without a word, watch in the foreground."""
    if pid:
        return _pid(session, do)
    if follow and do != "log":
        raise BadInput("--follow is for `daemon log`.", "overhand daemon log -f")
    if print and do != "install":
        raise BadInput("--print is for `daemon install`.", "overhand daemon install --print")
    if do == "status":
        return Reply({"schema": SCHEMA, "do": "status", **status(session)})
    if do == "log":
        return Reply({"schema": SCHEMA}, stream=_read_log(session, follow=follow))
    if do == "install":
        return _install(session, print)
    require_person(find_caller(session.store), "Switching the daemon")
    if do == "stop":
        return _stop(session)
    from overhand.verbs.setup import ensure_project

    ensure_project(session)
    return _start(session) if do == "start" else Reply({"schema": SCHEMA}, stream=_watch(session))


def _pid(session: Session, do: str) -> Reply:
    """The process of the project's supervisor, with tags watched or not."""
    if do:
        raise BadInput("--pid goes with no other word.", "overhand daemon --pid")
    found = running_supervisor(session.store) if session.store.exists() else None
    if found is None:
        raise OverhandError(
            "No supervisor of this project is running.", "Any verb that starts or settles something starts one."
        )
    return Reply({"schema": SCHEMA, "do": "pid", "pid": found, "text": str(found), "raw": True})


def status(session: Session) -> Row:
    """The switch, and what the supervisor answers."""
    store = session.store
    wanted = daemon_state(store) if store.exists() else None
    answer = ask_supervisor(store, {"ask": "daemon"}) if store.exists() else None
    known: Row = json.loads(answer) if answer is not None else {}
    running = bool(known.get("watches"))
    queued, at_work = known.get("queue", []), known.get("running", [])
    tasks = store.tasks([*queued, *at_work]) if queued or at_work else []
    return {
        "running": running,
        "switched": wanted is not None,
        "pid": known.get("pid") if running else None,
        "since": known.get("since"),
        "scanned": known.get("scanned"),
        "folders": known.get("folders", 0),
        "files": known.get("files", 0),
        "complete": known.get("complete", False),
        "pending": known.get("pending", []),
        "queue": queued,
        "at_work": at_work,
        "tasks": [{"task_id": task.id, "handle": task.handle, "title": task.title} for task in tasks],
        "log": store.relative(daemon_log(store)),
        "next": ["overhand daemon log -f"] if running else ["overhand daemon start"],
    }


def _start(session: Session) -> Reply:
    store = session.store
    before = daemon_state(store)
    was_on = before is not None and not before.get("pid")
    if not was_on:
        turn_daemon_on(store)
    _call(session)
    deadline = time.monotonic() + _PATIENCE
    while not (now := status(session))["scanned"] and time.monotonic() < deadline - (_PATIENCE - 2) * now["running"]:
        time.sleep(0.01)
    if not now["running"]:
        raise Refused("The supervisor does not begin to watch.", f"Look at {store.own}/log, then try again.")
    return Reply({"schema": SCHEMA, "do": "start", "was_on": was_on, **now})


def _stop(session: Session) -> Reply:
    """Nothing is killed: agents keep working, and approved tasks are still started."""
    store = session.store
    was_on = turn_daemon_off(store) if store.exists() else False
    if store.exists():
        wake_supervisor(store, [])
    deadline = time.monotonic() + _PATIENCE
    while (now := status(session))["running"] and not now["switched"] and time.monotonic() < deadline:
        wake_supervisor(store, [])  # the supervisor drops slow clients; retry
    return Reply({"schema": SCHEMA, "do": "stop", "was_on": was_on, **now})


def _call(session: Session) -> None:
    if not hand_to_supervisor(session.store, []):
        raise Refused(
            "No supervisor may be started from inside this sandbox: live runs are outside of it.",
            "Type the same outside.",
        )


def _read_log(session: Session, *, follow: bool) -> Iterator[Row]:
    place = daemon_log(session.store)
    if not follow:
        yield from _lines(Tail(f"{place}.1", "", ""))
    tail = Tail(place, "", "")
    yield from _lines(tail)
    if follow:
        for _ in _news(session):
            yield from _lines(tail)


def _lines(tail: Tail) -> Iterator[Row]:
    """Each line as an object of a stream; the log may have been rotated."""
    if os.path.exists(tail.path) and os.path.getsize(tail.path) < tail.place:
        tail.place, tail.rest = 0, b""
    for line in tail.lines():
        try:
            found = json.loads(line["text"])
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


def _news(session: Session) -> Iterator[None]:
    """Yields when something may have been written, and every few seconds."""
    bell = Inotify()
    bell.add(session.store.own, IN_CREATE | IN_MODIFY | IN_MOVED_TO)
    try:
        while True:
            yield
            if bell.fd >= 0:
                select.select([bell.fd], [], [], _LOOK_EVERY)
                bell.read()
            else:
                time.sleep(_LOOK_EVERY / 4)
    finally:
        bell.close()


def _watch(session: Session) -> Iterator[Row]:
    """Watch tags for as long as this process lives, and show the log; a supervisor that died is replaced."""
    store = session.store
    ours = daemon_state(store) is None
    tail = Tail(daemon_log(store), "", "")
    tail.place = os.path.getsize(tail.path) if os.path.exists(tail.path) else 0
    handler = signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM ends it like Ctrl-C does
    try:
        if ours:
            turn_daemon_on(store, os.getpid())
        began = time.monotonic() - _LOOK_EVERY
        why = "Ctrl-C ends it; agents at work go on" if ours else "it was on already; Ctrl-C ends only this look at it"
        yield {"t": now_stamp(), "what": "watching", "root": session.root, "why": why}
        for _ in _news(session):
            if time.monotonic() - began >= _LOOK_EVERY:
                began = time.monotonic()
                if running_supervisor(store) is None or not status(session)["running"]:
                    _call(session)
                if daemon_state(store) is None:
                    yield {"t": now_stamp(), "what": "off", "why": "somebody typed: overhand daemon stop"}
                    return
            yield from _lines(tail)
    finally:
        if ours and (daemon_state(store) or {}).get("pid") == os.getpid():  # else it was switched on permanently
            turn_daemon_off(store)
            wake_supervisor(store, [])
        signal.signal(signal.SIGTERM, handler)


# for systemd and launchd

_UNIT = """# {unit_path}
# then: systemctl --user daemon-reload && systemctl --user enable --now {name}.service
[Unit]
Description=Overhand: work that is noted in Markdown, {root}

[Service]
ExecStart={command} --project {root} daemon
{environment}
# Only the looker-on is stopped; agents and their supervisor live on and are found again.
KillMode=process
SuccessExitStatus=130
Restart=on-failure
RestartSec=5

[Install]
WantedBy=default.target
"""
_PLIST = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- {plist_path}; then: launchctl load -w {plist_path} -->
<plist version="1.0">
<dict>
  <key>Label</key><string>{label}</string>
  <key>ProgramArguments</key>
  <array><string>{command}</string><string>--project</string><string>{root}</string><string>daemon</string></array>
  <key>EnvironmentVariables</key><dict>{environment}</dict>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>
  <key>AbandonProcessGroup</key><true/>
</dict>
</plist>
"""


def _install(session: Session, is_print: bool) -> Reply:
    if not is_print:
        raise BadInput(
            "Overhand installs nothing there by itself.", "See what to write and where: overhand daemon install --print"
        )
    from xml.sax.saxutils import escape

    name = "overhand-" + "".join(c if c.isalnum() else "-" for c in os.path.basename(session.root).lower())
    beside = os.path.join(os.path.dirname(sys.executable), "overhand")
    facts = {
        "name": name,
        "label": f"overhand.{name}",
        "root": session.root,
        "command": beside if os.access(beside, os.X_OK) else shutil.which("overhand") or "overhand",
        "unit_path": f"~/.config/systemd/user/{name}.service",
        "plist_path": f"~/Library/LaunchAgents/overhand.{name}.plist",
    }
    # the agent programs, the folder of the trusted files, and that of the record
    names = "PATH", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "OVERHAND_STATE"
    env = {key: value for key in names if (value := os.environ.get(key))}
    lines = "\n".join(
        f"Environment={json.dumps(f'{key}={value}', ensure_ascii=False).replace('%', '%%')}"
        for key, value in env.items()
    )
    keys = "".join(f"<key>{key}</key><string>{escape(value)}</string>" for key, value in env.items())
    unit = _UNIT.format(environment=lines, **{key: _for_systemd(key, value) for key, value in facts.items()})
    plist = _PLIST.format(environment=keys, **{key: escape(value) for key, value in facts.items()})
    return Reply({"schema": SCHEMA, "do": "install", "systemd": unit, "launchd": plist})


def _for_systemd(key: str, value: str) -> str:
    """In a unit % begins a specifier, and a path with blanks stands in quotes."""
    value = value.replace("%", "%%")
    return json.dumps(value) if key in ("root", "command") and " " in value else value
