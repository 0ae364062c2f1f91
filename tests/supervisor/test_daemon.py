"""The daemon from its start to its stop: what it takes, what it leaves, and who may switch it."""

from __future__ import annotations

import json
import os
import plistlib
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from overhand.supervisor import ask_supervisor, client, daemon_state, running_supervisor, turn_daemon_on
from overhand.system import dump_line, epoch_of
from support.daemon import TYPED
from support.items import AT, INLINE, NOTES, REQUEST
from support.scene import QUICK, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.daemon import Watched


def test_what_is_typed_is_started_and_told_where_it_was_asked(house: Watched) -> None:
    house.begin()
    house.write(AT, TYPED)
    house.becomes("#done-fix")
    (task,) = house.items()
    assert house.starts(task) == 1
    assert "## Response" in house.read()
    until(lambda: house.log("ended"), "the end in the log")
    whats = [(one["what"], one.get("task")) for one in house.log()]
    assert [whats.index((what, task)) for what in ("queued", "started", "ended")] == sorted(
        whats.index((what, task)) for what in ("queued", "started", "ended")
    )


def test_what_was_typed_before_it_began_is_taken_as_well(house: Watched) -> None:
    house.store.ensure()
    house.write(AT, TYPED)
    house.begin()
    house.becomes("#done-fix")


def test_what_was_there_before_the_project_was_used_waits_for_a_person(house: Watched) -> None:
    """It may have come with a clone."""
    house.write(AT, TYPED)
    house.begin()
    why = "approval: no record of one (it came with the project's files and was not typed here)"
    until(lambda: house.waits() == {f"{AT}#fix": why}, "a look at it")
    assert house.items() == []
    house.approve()
    house.becomes("#done-fix")


def test_inv_daemon_debounce(house: Watched) -> None:
    """Between the last change of a file and what is made of it lie three seconds, unless a setting says otherwise."""
    house.settings("approve_without_terminal = true\n")
    house.begin()
    with house.undecided():
        file = house.write(AT, TYPED)
        for word in ("one", "two", "three"):
            house.seen()
            file.write_text(TYPED.replace("**Tags**:", f"**Tags**: {word}"))
        last = file.stat().st_mtime
    house.becomes("#done-fix")
    (task,) = house.items()
    assert epoch_of(house.state(task).created) - last >= 3.0 - 0.01


def test_inv_needs_and_next_and_inline_are_not_watched(house: Watched) -> None:
    house.begin()
    house.write("needs.md", REQUEST)
    house.write("next.md", REQUEST.replace("#needs-fix", "#next-fix"))
    house.write("inline.md", "# Notes\n\n- oil the door #delegated-fix\n")
    house.write("mention.md", TYPED.replace("#delegated-fix", "`#delegated-fix`"))
    house.write(AT, TYPED)
    house.becomes("#done-fix")
    assert len(house.items()) == 1
    assert house.read("needs.md") == REQUEST
    assert house.tag("next.md") == "#next-fix"
    assert house.tag("inline.md") == "#delegated-fix"


def test_several_that_a_person_types_are_all_taken(house: Watched) -> None:
    """The run of the first one began after the others were written: it cannot have written them."""
    house.begin()
    names = [f"requests/{name}.md" for name in ("a", "b", "c")]
    with house.undecided():
        for name in names:
            house.write(name, TYPED)
    for name in names:
        house.becomes("#done-fix", name)
    assert sum(house.starts(task) for task in house.items()) == 3


def test_what_it_had_no_time_to_hear_of_is_still_a_persons(house: Watched) -> None:
    """Stalled between two looks at what changed: it looks once more before it starts anybody."""
    with supervised(house, "from overhand.supervisor import tag_daemon; tag_daemon._DEAF = 10.0"):
        with house.undecided():
            house.write("requests/a.md", TYPED)
            house.seen("requests/a.md")
            house.write("requests/b.md", TYPED)
        for name in ("requests/a.md", "requests/b.md"):
            house.becomes("#done-fix", name)


def test_what_a_run_writes_while_everything_is_read_again_waits_for_a_person(house: Watched) -> None:
    """Nobody hears of it, and files that changed before are looked at meanwhile: not everything is known by that."""
    gate = house.path / "gate"
    house.project.path.joinpath("typed").write_text(TYPED)
    house.shell("worker", f"[ ! -e gate ] || cp typed requests/agents-own.md; {QUICK}")
    house.trusted()
    wait = f"""
import os
from overhand.items import index

def begin(self, *args, begin=index.TagIndex.__init__):
    if os.path.exists({str(gate)!r}):
        open({str(gate)!r}).close()
    begin(self, *args)

index.TagIndex.__init__ = begin
"""
    with supervised(house, wait):
        with house.undecided():
            house.write(AT, TYPED)
            house.seen()
            os.mkfifo(gate)
            house.write(".gitignore", "node/\n")
            until(lambda: not house.status()["scanned"], "everything read again")
            ended = house.judged(house.delegate("write")).runs[0].ended
            until(lambda: time.time() > epoch_of(ended or "") + 10, "a look at the first one, later than this run")
            with gate.open("w"):
                gate.unlink()
        until(lambda: "requests/agents-own.md#fix" in [one["item"] for one in house.log("waits")], "it in the inbox")
    assert house.read("requests/agents-own.md") == TYPED


def test_what_was_busy_when_it_was_looked_at_is_still_a_persons(house: Watched) -> None:
    """It is looked at again after a run has begun, and has not changed since."""
    house.begin()
    with house.undecided():
        house.write(AT, TYPED)
        house.seen()
        house.judged(house.delegate("something else"))
        until(lambda: AT not in house.status()["pending"], "the look at it")
        house.seen()
    house.becomes("#done-fix")


def test_what_changed_before_a_run_began_and_was_not_looked_at_waits(house: Watched) -> None:
    """A daemon that was killed cannot say any more that no run has written it."""
    house.waiting_worker(QUICK)
    names = ("requests/one.md", "requests/two.md")
    for name in names:
        house.write(name, TYPED)
    house.write(AT)
    house.approve()
    house.appears("up")
    house.begin()
    waits = until(lambda: found if len(found := house.log("waits")) == 2 else None, "two in the inbox")
    assert sorted(one["item"] for one in waits) == [f"{name}#fix" for name in names]
    house.let_go()
    house.becomes("#done-fix", AT)


def test_what_an_agent_writes_waits_for_a_person(house: Watched) -> None:
    house.project.path.joinpath("typed").write_text(TYPED)
    house.shell("worker", f"mkdir -p requests; cp typed requests/agents-own.md; {QUICK}")
    house.trusted()
    house.begin()
    house.write(AT, TYPED)
    house.becomes("#done-fix")
    (waits,) = until(lambda: house.log("waits"), "the tag in the inbox")
    assert waits["item"].startswith("requests/agents-own.md#fix")
    assert "may have been written by a run" in waits["why"]
    assert house.read("requests/agents-own.md") == TYPED
    assert len(house.items()) == 1
    assert "no record" in house.waits()["requests/agents-own.md#fix"]


def test_one_per_project_and_stopping_stops_no_agent(house: Watched) -> None:
    house.waiting_worker(QUICK)
    pid = house.begin()["pid"]
    again = house.json("daemon", "start")
    assert (again["was_on"], again["pid"]) == (True, pid)
    house.write(AT, TYPED)
    house.appears("up")
    stopped = house.json("daemon", "stop")
    assert (stopped["was_on"], stopped["running"]) == (True, False)
    assert house.supervisor() == pid
    house.let_go()
    house.becomes("#done-fix")
    house.write("later.md", TYPED)
    assert house.json("daemon", "stop")["was_on"] is False
    assert house.tag("later.md") == "#delegated-fix"


def test_who_was_not_heard_at_once_stops_it_all_the_same(house: Watched) -> None:
    """A verb that is held up before it says what it came for is sent away: it comes once more."""
    house.begin()
    script = """
import sys
from overhand.supervisor import client
from overhand.cli import main

unsaid = ["", ""]  # sent in place of the first message and of its repetition

def late(message, dumps=client.dump_line):
    return unsaid.pop() if unsaid else dumps(message)

client.dump_line = late
sys.exit(main(sys.argv[1:]))
"""
    stopped = subprocess.run(
        [sys.executable, "-P", "-c", script, "daemon", "stop", "--json"],
        cwd=house.path,
        env=house.project.environment(),
        capture_output=True,
        check=True,
        timeout=60,
    ).stdout
    assert json.loads(stopped)["running"] is False


def test_who_was_not_heard_at_once_asks_again(house: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """That it sent us away does not mean that it is off."""
    house.begin()
    words = iter(["", dump_line({"ask": "daemon"})])
    monkeypatch.setattr(client, "dump_line", lambda _: next(words))
    told = ask_supervisor(house.store, {"ask": "daemon"})
    assert told is not None
    assert json.loads(told)["watches"] is True


def test_begun_again_it_says_when_it_has_read_everything_again(house: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that waits at a gate holds up the reading."""
    gate = house.path / "gate"
    program = house.path / "bin/rg"
    house.write("bin/rg", f"#!/bin/sh\n[ ! -e '{gate}' ] || cat '{gate}'\nexit 2\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    assert house.begin()["scanned"]
    house.json("daemon", "stop")
    os.mkfifo(gate)
    again = house.json("daemon", "start")
    assert (again["running"], again["scanned"]) == (True, None)
    with gate.open("w"):
        gate.unlink()
    assert house.begin()["scanned"]


def test_an_agent_cannot_switch_it(house: Watched) -> None:
    house.shell("worker", f"$OVERHAND daemon start >said 2>&1; echo $? >code; {QUICK}")
    house.trusted()
    house.judged(house.delegate())
    assert (house.path / "code").read_text() == "3\n"
    assert "is for a person" in (house.path / "said").read_text()
    assert daemon_state(house.store) is None


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_in_the_foreground_it_watches_for_as_long_as_one_looks_on(house: Watched, how: signal.Signals) -> None:
    words = ("run", "--monitor-tags") if how == signal.SIGINT else ("daemon",)
    seen = house.path.with_name("seen")
    with seen.open("w") as out:
        looker = subprocess.Popen(
            [sys.executable, "-P", "-m", "overhand", *words],
            cwd=house.path,
            env=house.project.environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
        )
    try:
        until(lambda: "\n" in seen.read_text(), "its first line")
        line = seen.read_text().partition("\n")[0]
        assert "watching" in line
        assert "Ctrl-C ends it; agents at work go on" in line
        until(lambda: house.status()["running"], "a daemon")
        house.write(AT, TYPED)
        house.becomes("#done-fix")
        until(lambda: "started" in seen.read_text(), "what was done, told")
        pid = house.supervisor()
    finally:
        looker.send_signal(how)
        looker.wait(30)
    assert looker.returncode == (-9 if how == signal.SIGKILL else 130)
    until(lambda: not house.status()["running"], "the daemon off")
    assert house.supervisor() == pid, "it lives on until it is idle"


def test_whoever_looks_on_at_one_that_is_on_ends_only_the_look(house: Watched) -> None:
    house.begin()
    looker = subprocess.Popen(
        [sys.executable, "-P", "-m", "overhand", "daemon"],
        cwd=house.path,
        env=house.project.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert looker.stdout is not None
        assert "it was on already; Ctrl-C ends only this look at it" in looker.stdout.readline()
    finally:
        looker.send_signal(signal.SIGINT)
    looker.communicate(timeout=30)
    assert house.status()["running"]


def test_settings_are_read_again_when_they_change(house: Watched) -> None:
    house.begin()
    (house.path / ".overhand/config.toml").write_text('approval = "record"\n')
    house.trusted()
    until(lambda: house.log("settings"), "the settings read again")
    house.write(AT, TYPED)
    assert "only what is approved" in until(lambda: house.log("waits"), "the tag in the inbox")[0]["why"]
    assert house.items() == []


def test_settings_that_change_before_it_can_hear_of_them_count_as_well(house: Watched) -> None:
    """Changed between the reading of the settings and the first watch."""
    change = f"""
from overhand.agents import files
from overhand.items import index
from overhand.policy import trust

def begin(self, *args, begin=index.TagIndex.__init__):
    with open({str(house.path / ".overhand/config.toml")!r}, "w") as file:
        file.write('approval = "record"')
    root = {str(house.path)!r}
    trust.mark_trusted(root, trust.file_digests(root, files.runnable_files(root)))
    begin(self, *args)

index.TagIndex.__init__ = begin
"""
    with supervised(house, change):
        house.write(AT, TYPED)
        assert "only what is approved" in until(lambda: house.log("waits"), "the tag in the inbox")[0]["why"]
    assert house.items() == []


def test_where_folders_cannot_be_watched_they_are_looked_at(house: Watched) -> None:
    """As on a system without inotify: a real supervisor, which is given none."""
    with supervised(
        house, "from overhand.system import Inotify; Inotify.__init__ = lambda self: setattr(self, 'fd', -1)"
    ):
        assert house.status()["complete"] is False
        house.write(AT, TYPED)
        house.becomes("#done-fix")
        assert house.json("tag", "find", "#done-*")["hits"][0]["path"] == AT


@contextmanager
def supervised(house: Watched, first: str) -> Iterator[None]:
    """A real supervisor that watches tags, and in which something is done first."""
    script = f"{first}\nimport sys; from overhand.supervisor.__main__ import main; sys.exit(main(sys.argv[1:]))"
    turn_daemon_on(house.store)
    argv = [sys.executable, "-P", "-c", script, str(house.path), house.store.home, "-m", "overhand.supervisor"]
    boss = subprocess.Popen(argv, env=house.project.environment(), start_new_session=True)
    try:
        until(lambda: running_supervisor(house.store) == boss.pid and house.status()["scanned"], "the first scan")
        yield
    finally:
        boss.kill()
        boss.wait()


def test_approving_needs_no_debounce(house: Watched) -> None:
    house.begin()
    house.write("notes.md", NOTES)
    task = house.approve("notes.md:4#chores")
    house.becomes("#done-chores", INLINE)
    assert house.starts(task) == 1


def test_it_says_how_it_is_installed(house: Watched) -> None:
    told = house.json("daemon", "install", "--print")
    assert "KillMode=process" in told["systemd"]
    assert "<key>AbandonProcessGroup</key><true/>" in told["launchd"]
    assert plistlib.loads(told["launchd"].encode())["ProgramArguments"][-1] == "daemon"
    home = str(house.project.config_home)  # there is what the user trusts
    assert f'Environment="XDG_CONFIG_HOME={home}"' in told["systemd"].splitlines()
    assert plistlib.loads(told["launchd"].encode())["EnvironmentVariables"]["XDG_CONFIG_HOME"] == home
    assert f'Environment="XDG_STATE_HOME={os.environ["XDG_STATE_HOME"]}"' in told["systemd"].splitlines(), "the record"
    assert "--print" in house.json("daemon", "install", code=2)["error"]["hint"]
