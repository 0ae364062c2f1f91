"""A run is never a person: whatever it looks like, what only a person may do is refused, and nothing happens."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from overhand.supervisor import client
from support.items import AT, REQUEST, House
from support.scene import QUICK, until
from support.soak import variants

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from overhand.testing.project import ProjectDir

# What each disguise tries. The settings let scripts of a person approve, so nothing but the caller speaks against it.
TRIES = f"""\
#!/bin/sh
try() {{
  name=$1; shift
  {sys.executable} -P -m overhand --project @root "$@" --json </dev/null >@root/out/$name 2>&1
  echo "$name $?" >>@root/out/codes
}}
try approve item approve '{AT}#fix'
try answer answer @own me
try delegate delegate "as a person" --agent worker
try verify delegate "as a person" --agent worker --verify true
try trust trust --yes
try clean clean --yes --older 0s
try stop stop @other
try run run @prepared
try daemon daemon start
echo "end 0" >>@root/out/codes
"""
NAMES = ("approve", "answer", "delegate", "verify", "trust", "clean", "stop", "run", "daemon")
API = """\
import json, sys
from overhand import Project
from overhand.errors import OverhandError
out = open("@root/out/codes", "a")
def attempt(name, do):
    try:
        do()
        code = 0
    except OverhandError as error:
        code = error.exit_status
    print(name, code, file=out, flush=True)
with Project("@root") as project:
    attempt("answer", lambda: project.answer("@own", "me"))
    attempt("delegate", lambda: project.delegate("as a person", agent="worker"))
print("end 0", file=out, flush=True)
"""
MCP = f"""\
import json, subprocess
out = open("@root/out/codes", "a")
words = ["{sys.executable}", "-P", "-m", "overhand", "--project", "@root", "mcp"]
server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def ask(number, method, **params):
    message = {{"jsonrpc": "2.0", "id": number, "method": method, "params": params}}
    print(json.dumps(message), file=server.stdin, flush=True)
    while (reply := json.loads(server.stdout.readline())).get("id") != number:
        pass
    return reply["result"]
client = {{"name": "x", "version": "1"}}
ask(0, "initialize", protocolVersion="2025-06-18", capabilities={{}}, clientInfo=client)
print('{{"jsonrpc": "2.0", "method": "notifications/initialized"}}', file=server.stdin, flush=True)
tries = {{
    "answer": {{"id": "@own", "text": "me"}},
    "delegate": {{"title": "as a person", "agent": "worker"}},
    "stop": {{"id": ["@other"]}},
}}
for number, (name, arguments) in enumerate(tries.items(), 1):
    found = ask(number, "tools/call", name=name, arguments=arguments)
    print(name, 3 if found.get("isError") else 0, file=out, flush=True)
print("end 0", file=out, flush=True)
server.stdin.close()
server.wait()
"""
CLEAN = 'env -i PATH="$PATH" XDG_CONFIG_HOME=@config XDG_STATE_HOME=@state'
COMMIT = "git -c user.name=x -c user.email=x@x commit --allow-empty -qm x"
PIDS = "unshare -p -f --mount-proc"
LATER = "until [ -e ended ]; do sleep 0.05; done"
DISGUISES = {
    "none": "sh ./tries",
    "no environment": f"{CLEAN} sh ./tries",
    "a session of its own": "setsid sh ./tries",
    "nohup": "nohup sh ./tries",
    "a double fork": f"( ( setsid {CLEAN} sh ./tries & ) & )",
    "an orphan": f"sh -c '( sleep 0.1; exec {CLEAN} setsid sh ./tries ) &'",
    "another state folder": 'env -i PATH="$PATH" XDG_CONFIG_HOME=@config XDG_STATE_HOME=@root/elsewhere sh ./tries',
    "another home": 'env -i PATH="$PATH" XDG_CONFIG_HOME=@config HOME=@root/elsewhere sh ./tries',
    "OVERHAND_STATE": f"{CLEAN} OVERHAND_STATE=@root/elsewhere sh ./tries",
    "the markers of no run": f"{CLEAN} OVERHAND_RUN=sess_1700000000_aaaaaa OVERHAND_TASK=x-20200101-000000 sh ./tries",
    "the markers of another run": f"{CLEAN} OVERHAND_RUN=@run OVERHAND_TASK=@other sh ./tries",
    "a terminal": f'script -qec "{CLEAN.replace(chr(34), "")} sh ./tries" /dev/null',
    "another name": f"{CLEAN} bash -c 'exec -a bash sh ./tries'",
    "a git hook": f"git init -q g; cp tries g/.git/hooks/pre-commit; cd g; {CLEAN} {COMMIT}",
    "a program in Python": f"{CLEAN} {sys.executable} -P api.py",
    "an MCP client": f"{CLEAN} {sys.executable} -P mcp.py",
    "a shell's start-up file": f"{CLEAN} BASH_ENV=./tries bash -c true",
    "a hook of the agent's program": (
        f'echo "{{}}" | {CLEAN} {sys.executable} -P -m overhand.verbs.hook @root @root; {CLEAN} sh -c "sh ./tries"'
    ),
    "a job that its own daemon starts later": (
        f"( {CLEAN} setsid sh -c 'until [ -e job ]; do sleep 0.05; done; exec sh ./job' >/dev/null 2>&1 & )"
        "; cp tries job"
    ),
    "a pid namespace": f"{PIDS} {CLEAN} sh ./tries",
    "a pid and a user namespace": f"unshare -r -p -f --mount-proc {CLEAN} sh ./tries",
    "a pid namespace with the old /proc": f"unshare -p -f {CLEAN} sh ./tries",
    "a pid namespace without inherited files": f"{PIDS} {CLEAN} sh ./tries 9<&-",
    "a pid namespace with false markers": (
        f"{PIDS} {CLEAN} OVERHAND_RUN=sess_1700000000_aaaaaa OVERHAND_TASK=x-20200101-000000 sh ./tries 9<&-"
    ),
    "a pid namespace and another state folder": (
        f'{PIDS} env -i PATH="$PATH" XDG_CONFIG_HOME=@config XDG_STATE_HOME=@root/elsewhere sh ./tries'
    ),
    "a pid namespace and no /proc": f"unshare -m -p -f sh -c 'umount -l /proc; exec {CLEAN} sh ./tries 9<&-'",
    "left behind": f"( setsid sh -c '{LATER}; exec {CLEAN} sh ./tries' >/dev/null 2>&1 & )",
    "left behind, a double fork later": (
        f"( setsid sh -c '{LATER}; ( setsid {CLEAN} sh ./tries & )' >/dev/null 2>&1 & )"
    ),
    "left behind in a pid namespace": (
        f"( setsid sh -c '{LATER}; exec {PIDS} {CLEAN} sh ./tries 9<&-' >/dev/null 2>&1 & )"
    ),
}


@pytest.fixture
def house(overhand_project: ProjectDir) -> Iterator[House]:
    """A run that works, a task that a person prepared, an item, and a file that is not trusted."""
    house = House(overhand_project)
    house.settings("approve_without_terminal = true\nshield = 'off'\n")  # which forbids some of the disguises
    house.shell("other", f"until [ -e over ]; do sleep 0.05; done; {QUICK}")
    house.shell("worker", QUICK)
    house.write()
    (house.path / "out").mkdir()
    yield house
    (house.path / "over").touch()
    until(house.is_quiet, f"no process left of {house.path}; now {house.left()}")


def possible(disguise: str) -> None:
    """Skip what cannot be put on here."""
    words = disguise.split()
    program = next((word for word in words if word in ("unshare", "script", "git")), "sh")
    if shutil.which(program) is None:
        pytest.skip(f"there is no {program}")
    if "unshare" in words:
        how = words[words.index("unshare") + 1 :]
        flags = [word for word in how[:4] if word.startswith("-")]
        if subprocess.run(["unshare", *flags, "true"], capture_output=True, check=False).returncode:
            pytest.skip("this machine forbids a second pid namespace")


def put_on(house: House, disguise: str) -> tuple[str, str, str]:
    """Start a run with this disguise: its task, the other one that works, and the prepared one."""
    prepared = house.delegate("prepared", "--no-start")
    other = house.delegate("other", "--agent", "other")
    run = house.running(other).current_run
    assert run is not None
    places = {"@root": house.path, "@config": house.project.config_home, "@state": house.project.state_home}

    def filled(text: str, own: str = "") -> str:
        names = {"@own": own, "@run": run.id, "@other": other, "@prepared": prepared}
        for name, value in (*names.items(), *places.items()):
            text = text.replace(name, str(value))
        return text

    wait = "" if LATER in disguise else "until grep -q end out/codes 2>/dev/null; do sleep 0.05; done"
    ask = 'printf "Which?" >"$OVERHAND_WORKSPACE/ipc/001.question"'
    ready = "until [ -e ready ]; do sleep 0.05; done"
    house.shell("actor", f"{ask}; {ready}; ( {filled(disguise)} ); {wait or QUICK}", can_delegate=False)
    task = house.delegate("act", "--agent", "actor", "--level", "read")
    house.running(task)
    for name, text in (("tries", TRIES), ("api.py", API), ("mcp.py", MCP)):
        house.write(name, filled(text, task)).chmod(0o755)
    house.project.trust = False
    house.write(".overhand/local.toml", '[checks]\nevil = "true"\n')
    return task, other, prepared


@pytest.mark.parametrize("name", variants(DISGUISES, every=3))
def test_it_is_refused_what_is_for_a_person(house: House, name: str, tally: Callable[[str, int], None]) -> None:
    disguise = DISGUISES[name]
    possible(disguise)
    task, other, prepared = put_on(house, disguise)
    trusted = (house.project.config_home / "overhand/trust.json").read_bytes()
    (house.path / "ready").touch()
    if LATER in disguise:
        house.judged(task)
        (house.path / "ended").touch()
    codes = house.path / "out/codes"
    until(lambda: codes.exists() and "end" in codes.read_text(), "the end of all tries")
    found = dict(line.split() for line in codes.read_text().splitlines())
    assert found.pop("end") == "0"
    tally("Runs that pose as a person", len(found))
    said = {one: (house.path / "out" / one).read_text() for one in found if (house.path / "out" / one).exists()}
    assert set(found.values()) == {"3"}, (found, said)
    assert tuple(found) == NAMES or name in ("a program in Python", "an MCP client")
    assert not [text for text in said.values() if "Traceback" in text]
    assert house.read() == REQUEST
    assert (house.items(), house.events(task, "answered")) == ([], [])
    assert sorted(house.ids()) == sorted([task, other, prepared])
    assert house.state(other).current_run is not None
    assert (house.starts(prepared), house.state(prepared).queued) == (0, False)
    assert (house.project.config_home / "overhand/trust.json").read_bytes() == trusted
    assert not (Path(house.store.own) / "daemon").exists()
    elsewhere = list((house.path / "elsewhere").rglob("log.jsonl"))
    assert elsewhere == [], "nor in a record of its own"
    json.loads(house.project.run("list", "--json").out)


DAEMON = """
import os, subprocess, sys, time
while not os.path.exists("job"):
    time.sleep(0.02)
subprocess.run(["sh", "./job"], stdin=subprocess.DEVNULL, check=False)
"""


def test_a_job_of_a_daemon_that_no_run_started(house: House, tally: Callable[[str, int], None]) -> None:
    """As `at` does it: nothing says that a run wrote the job. An approval needs a terminal, which it has not."""
    tally("Runs that pose as a person", 1)
    house.settings("shield = 'off'\n")
    environment = {"PATH": os.environ["PATH"], "XDG_CONFIG_HOME": str(house.project.config_home)}
    environment["XDG_STATE_HOME"] = str(house.project.state_home)
    with subprocess.Popen([sys.executable, "-c", DAEMON], cwd=house.path, env=environment) as daemon:
        script = f"{sys.executable} -P -m overhand item approve '{AT}#fix' --json >out/said; echo \\$? >out/code.new"
        text = f'echo "{script}; mv out/code.new out/code" >job.new; mv job.new job; {QUICK}'
        house.shell("actor", text)
        task = house.delegate("act", "--agent", "actor")
        house.judged(task)
        until((house.path / "out/code").exists, "the end of the job")
        daemon.wait()
    said = (house.path / "out/said").read_text()
    assert ((house.path / "out/code").read_text().strip(), "terminal" in said) == ("3", True), said
    assert (house.read(), house.items(), house.ids()) == (REQUEST, [], [task])


def test_a_message_to_the_supervisor_starts_nothing(house: House, tally: Callable[[str, int], None]) -> None:
    """It only says which tasks to read again: what was never queued stays so."""
    tally("Runs that pose as a person", 1)
    prepared = house.delegate("prepared", "--no-start")
    house.running(house.delegate("other", "--agent", "other"))
    assert client.wake_supervisor(house.store, [prepared])
    assert client.hand_to_supervisor(house.store, [prepared])
    assert house.judged(house.delegate("after it", "--level", "read")).status == "completed"
    assert (house.starts(prepared), house.state(prepared).queued) == (0, False)
