"""Verbs that a run calls reach the supervisor by files: with the same output as if they had acted themselves."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from overhand.record import CALL_ID, CALLS, Call
from overhand.system import is_held, start_time
from support.scene import QUICK, Scene, kill, until
from support.warm import make_project

if TYPE_CHECKING:
    from collections.abc import Iterator

# The supervisor's own delegation for a CONTROL line acts directly: with its variable every verb does.
DIRECTLY = "export OVERHAND_CAUSE=none; "
COMMANDS = """
step 1 doing --json
step 1 done
step 9 done
step 1 sleeping
step error
step --phase CHECKPOINT --reason half
checkpoint create --reason half --json
checkpoint create --name twice
checkpoint create 99
checkpoint list
ask Which? --timeout 0s
ask Which? --timeout 0s --json --option a --closed
ask --again 7
ask --again 1 --timeout 0s
ask
ask Which? --closed
ask Which? --timeout soon
delegate prepared --agent child --no-start --json
delegate prepared --agent child --no-start
delegate
delegate x --agent nobody
delegate x --agent child --verify true
delegate x --agent child --level full --json
delegate x --agent child --handoff missing.md
delegate x --agent child --handoff given.md --no-start
delegate x --agent child --contract missing.json
delegate x --agent child --contract schema.json --no-start --json
delegate waited --agent child --wait
delegate waited --agent child --wait --json
delegate later --agent child --json
wait later --json
wait later
wait 77
send later more --json
wait later
send 1 hello
send prepared
stop later --json
stop 1
stop
run 1
run prepared-2
resume later
resume 1
answer 1 blue
answer later blue
answer 1
item
item new fix Broken
item approve noted.md#fix
item claim noted.md#fix
item done noted.md#fix --summary Done
item nothing
alert raise The disk is slow --what Everything --json
alert raise The disk is slow
alert resolve disk
alert list
plan run plan.yaml
plan run missing.yaml
plan check plan.yaml
clean
trust --yes
finish --status completed
finish --status strange --summary x
finish --data {
finish --summary Done. --json
finish --summary Done.
list --delegated
"""


def does(scene: Scene, *lines: str, agent: str = "worker", before: str = "") -> None:
    """The agent calls these verbs one after the other; what each printed and its exit status are kept."""
    calls = [f"$OVERHAND {line} >out.$n 2>err.$n; echo $? >code.$n; n=$((n+1)); " for line in lines]
    scene.shell(agent, f"{before}n=0; mkdir -p $OVERHAND_PROJECT/said; cd $OVERHAND_PROJECT/said; {''.join(calls)}"
                f"cd ..; test -s $OVERHAND_OUTPUT || {QUICK}")  # fmt: skip


def said(scene: Scene, count: int) -> list[tuple[str, ...]]:
    """Exit status, output and errors of each call; ids, times and numbers differ from run to run."""
    found = []
    for n in range(count):
        code, *texts = ((scene.path / "said" / f"{name}.{n}").read_text() for name in ("code", "out", "err"))
        plain = [text.replace(str(scene.path), "PROJECT").replace(scene.store.home, "RECORD") for text in texts]
        masked = [re.sub(r"sess_\w+|(?<=worker|.child)(-\d+){2,3}|[0-9a-f]{8,64}", "ID", text) for text in plain]
        masked = [re.sub(r"\d+([.,:]\d+)*", "N", text) for text in masked]
        found.append((code.strip(), *(re.sub(r"(N worker|N child): .*\n", "", text) for text in masked)))
    return found


def furnish(scene: Scene) -> None:
    scene.shell("child", QUICK)
    files = {
        "given.md": "# Task Handoff\n\n## Task\nGiven.\n",
        "schema.json": '{"type": "object"}',
        "noted.md": "# Notes\n\nThis is broken. #needs-fix\n",
        "plan.yaml": "task: A plan\nnodes:\n  a: {agent: child, task: One}\n",
    }
    (scene.path / "said").mkdir()
    for name, text in files.items():
        (scene.path / "said" / name).write_text(text)


@pytest.fixture
def scenes(tmp_path: Path) -> Iterator[tuple[Scene, Scene]]:
    projects = [make_project(tmp_path / name / "project") for name in ("one", "two")]
    try:
        yield Scene(projects[0]), Scene(projects[1])
    finally:
        for project in projects:
            project.cleanup()


def test_every_verb_prints_the_same_as_if_it_had_acted_itself(scenes: tuple[Scene, Scene]) -> None:
    lines = [line for line in COMMANDS.splitlines() if line]
    results = []
    for scene, before in zip(scenes, (DIRECTLY, ""), strict=True):
        furnish(scene)
        does(scene, *lines, before=before)
        shield = ("--set", "shield=off") if before else ()  # behind it nothing but a call reaches the record
        task = scene.delegate("the whole", "--step", "one", *shield)
        scene.judged(task)
        results.append(said(scene, len(lines)))
        called = "".join(json.dumps(event) for t in scene.ids() for event in scene.events(t)).count('"call"')
        assert bool(called) == (before == ""), "who acted"
    different = [triple for triple in zip(lines, *results, strict=True) if triple[1] != triple[2]]
    assert not different


def folder(scene: Scene, task: str) -> Path:
    return Path(scene.store.workspace(task)) / CALLS


def forge(scene: Scene, task: str, raw: bytes | str, *, name: str = "", bell: bool = True) -> tuple[str, int]:
    """A call as a program could write it, and the FIFO at which it waits."""
    call_id = name or os.urandom(CALL_ID).hex()[:CALL_ID]
    place = folder(scene, task)
    fd = -1
    if bell:
        os.mkfifo(place / f"{call_id}.bell")
        fd = os.open(place / f"{call_id}.bell", os.O_RDWR | os.O_NONBLOCK)
    (place / f"{call_id}.tmp").write_bytes(raw if isinstance(raw, bytes) else raw.encode())
    (place / f"{call_id}.tmp").rename(place / f"{call_id}.json")
    return call_id, fd


def reply(scene: Scene, task: str, call_id: str) -> Any:
    path = folder(scene, task) / f"{call_id}.reply"
    until(path.exists, f"the reply to {call_id}")
    return json.loads(path.read_bytes())


def at_work(scene: Scene, script: str = "while [ ! -e go ]; do sleep 0.05; done; ") -> tuple[str, str]:
    """A run that waits until `go` is there: the task and the run."""
    scene.shell("worker", f"{script}{QUICK}")
    task = scene.delegate("wait for it", "--step", "one")
    run = scene.running(task).current_run
    assert run is not None
    until(folder(scene, task).exists, "its folder of calls")
    return task, run.id


def call(run: str, verb: str = "step", **values: Any) -> str:
    return Call(run=run, verb=verb, values=values or {"id": "1", "step": "done"}).text()


def test_a_forged_call_is_refused_and_hurts_no_other(scene: Scene) -> None:
    task, run = at_work(scene)
    sound = json.loads(call(run))
    stranger = "sess_1700000000_aaaaaa"
    bad: dict[str, Any] = {
        "not JSON": "{",
        "nested": '{"run":' + "[" * 100_000,
        "no object": "[]",
        "more keys": {**sound, "env": {"PATH": "/tmp"}},
        "another run": {**sound, "run": stranger},
        "no run": {**sound, "run": "../../x"},
        "another way": {**sound, "via": "person"},
        "an unknown verb": {**sound, "verb": "fly"},
        "a person's verb": {**sound, "verb": "trust", "values": {"yes": True}},
        "a verb that reads": {**sound, "verb": "list", "values": {}},
        "a step to show": {**sound, "values": {}},
        "an unknown option": {**sound, "values": {"id": "1", "store": "x"}},
        "no text": {**sound, "values": {"id": 7}},
        "a flag with words": {**sound, "verb": "delegate", "values": {"title": "x", "wait": "yes"}},
        "no choice": {**sound, "verb": "checkpoint", "values": {"do": "destroy"}},
        "an object": {**sound, "values": {"id": {"a": "b"}}},
        "a relative folder": {**sound, "cwd": "x"},
        "documents": {**sound, "documents": ["x"]},
        "no bytes": {**sound, "documents": {"x": chr(0x1234)}},
    }
    codes = {}
    for name, raw in bad.items():
        call_id, fd = forge(scene, task, raw if isinstance(raw, str) else json.dumps(raw))
        codes[name] = reply(scene, task, call_id)["error"]["code"]
        os.close(fd)
    assert codes == {**dict.fromkeys(bad, "VALIDATION_FAILED"), "another run": "STALE_RUN"}
    place = folder(scene, task)
    (place / f"{'l' * CALL_ID}.json").symlink_to("/etc/passwd")
    os.mkfifo(place / f"{'f' * CALL_ID}.json")
    (place / f"{'d' * CALL_ID}.json").mkdir()
    (place / "x.json").write_text(call(run))
    call_id, fd = forge(scene, task, call(run))
    assert reply(scene, task, call_id)["payload"]["progress"] == {"done": 1, "total": 1}
    os.close(fd)
    (scene.path / "go").touch()
    assert scene.judged(task).status == "completed"


def test_files_that_an_agent_names_are_not_opened_for_it(scene: Scene) -> None:
    """What its shield hides it cannot have read by the supervisor either."""
    scene.shell("child", QUICK)
    task, run = at_work(scene)
    (scene.path / "secret.md").write_text("# Task Handoff\n\n## Task\nThe secret.\n")
    values = {"title": "x", "agent": "child", "handoff": str(scene.path / "secret.md"), "no_start": True}
    call_id, fd = forge(scene, task, call(run, "delegate", **values))
    assert reply(scene, task, call_id)["error"]["code"] == "FILE_NOT_FOUND"
    os.close(fd)
    (scene.path / "go").touch()
    scene.judged(task)
    assert scene.ids() == [task]


def test_a_folder_of_calls_that_leads_elsewhere_is_not_followed(scene: Scene, tmp_path: Path) -> None:
    task, run = at_work(scene)
    elsewhere = tmp_path / "victim"
    elsewhere.mkdir()
    (elsewhere / f"{'v' * CALL_ID}.json").write_text(call(run))
    place = folder(scene, task)
    place.rmdir()
    place.symlink_to(elsewhere)
    until(lambda: not place.is_symlink(), "a folder of our own in its place")
    assert os.listdir(elsewhere) == [f"{'v' * CALL_ID}.json"]
    call_id, fd = forge(scene, task, call(run))
    assert reply(scene, task, call_id)["code"] == 0
    os.close(fd)
    (scene.path / "go").touch()
    scene.judged(task)


def test_eight_callers_at_once_each_get_their_own_reply(scene: Scene) -> None:
    scene.shell("child", QUICK)
    calls = "".join(f'$OVERHAND delegate "Part {n} of it" --agent child --wait --json >said.{n} & ' for n in range(8))
    scene.shell("worker", f"{calls} wait; {QUICK}")
    task = scene.delegate()
    assert scene.judged(task).status == "completed"
    titles = [json.loads((scene.path / f"said.{n}").read_text())["title"] for n in range(8)]
    assert titles == [f"Part {n} of it" for n in range(8)]
    assert len(scene.ids()) == 9


@pytest.mark.parametrize("verb", ["ask", "wait"])
def test_a_caller_that_is_killed_waits_no_longer(scene: Scene, verb: str) -> None:
    scene.shell("child", f"while [ ! -e go ]; do sleep 0.05; done; {QUICK}")
    wait = '$OVERHAND delegate "Sleep long" --agent child --wait' if verb == "wait" else '$OVERHAND ask "Which?"'
    scene.shell("worker", f"{wait} & echo $! >pid; while [ ! -e go ]; do sleep 0.05; done; {QUICK}")
    task = scene.delegate()
    marks = scene.place(task) / "waiting"
    until(lambda: marks.exists() and os.listdir(marks), "its mark")
    kill(int(scene.appears("pid").read_text()))
    until(lambda: not folder(scene, task).exists() or not os.listdir(folder(scene, task)), "its files to be removed")
    assert len(os.listdir(marks)) == (verb == "ask"), "an answer that it has not read is for the next to ask"
    (scene.path / "go").touch()
    assert scene.judged(task).runs[0].cause == "exit"


@pytest.mark.parametrize("verb", ["ask", "delegate"])
def test_a_call_outlives_its_supervisor(scene: Scene, verb: str) -> None:
    """The next one finds what was taken, does nothing twice, and replies when that is due."""
    scene.shell("child", f"while [ ! -e child ]; do sleep 0.05; done; {QUICK}")
    wait = '$OVERHAND delegate "A part of it" --agent child --wait' if verb == "delegate" else '$OVERHAND ask "Which?"'
    scene.shell("worker", f"{wait} --json >said; echo $? >code; {QUICK}")
    task = scene.delegate()
    marks = scene.place(task) / "waiting"
    until(lambda: marks.exists() and os.listdir(marks), "its mark")
    for _ in range(3):
        scene.kill_supervisor()
        scene.json("list")
        until(scene.supervisor, "the next supervisor")
    if verb == "ask":
        scene.json("answer", task, "blue")
    (scene.path / "child").touch()
    assert scene.judged(task).status == "completed"
    assert (scene.path / "code").read_text() == "0\n"
    said = json.loads((scene.path / "said").read_text())
    assert said.get("answer", said.get("status")) == ("blue" if verb == "ask" else "completed")
    assert len(scene.ids()) == (2 if verb == "delegate" else 1)
    assert len(scene.state(task).questions) == (verb == "ask")


# Holds the supervisor's lock, and is killed while its child, which is to become another program, has it still.
HELD = """
import os, sys
from overhand.system import Lock
with Lock(sys.argv[1], "The lock") as lock:
    lock.sign_namespace()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        sys.stdin.read()
        os._exit(0)
    os.kill(os.getpid(), 9)
"""


def test_a_supervisor_that_is_killed_while_it_starts_a_process_has_a_successor(scene: Scene) -> None:
    """Its lock is held until that process executes its program; whoever looks meanwhile takes nobody for alive."""
    task, run = at_work(scene)
    scene.kill_supervisor()
    held = [sys.executable, "-c", HELD, f"{scene.store.own}/lock"]
    log = Path(scene.store.own) / "log"
    log.write_text("")
    with subprocess.Popen(held, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin
        assert holder.stdout
        assert holder.stdout.readline()
        until(lambda: start_time(holder.pid) is None, "the end of the holder")
        assert is_held(f"{scene.store.own}/lock")
        with scene.project.start("list") as listing:
            until(lambda: "is held by process" in log.read_text(), "a successor that finds it held")
            holder.stdin.close()
            listing.communicate()
        assert listing.returncode == 0
    call_id, fd = forge(scene, task, call(run))
    assert reply(scene, task, call_id)["code"] == 0
    os.close(fd)
    (scene.path / "go").touch()
    assert scene.judged(task).status == "completed"


def test_a_delegation_that_a_killed_supervisor_made_is_not_made_again(scene: Scene) -> None:
    """Killed between the task and the reply: the call lies there as taken, and the log has its id."""
    scene.shell("child", QUICK)
    task, run = at_work(scene)
    text = call(run, "delegate", title="Once and no more", agent="child")
    call_id, first = forge(scene, task, text)
    made = reply(scene, task, call_id)["payload"]["task_id"]
    os.close(first)
    until(lambda: not os.listdir(folder(scene, task)), "its files to be removed")
    scene.kill_supervisor()
    place = folder(scene, task)
    os.mkfifo(place / f"{call_id}.bell")
    again = os.open(place / f"{call_id}.bell", os.O_RDWR | os.O_NONBLOCK)
    (place / f"{call_id}.taken").write_text(text)
    scene.json("list")
    assert reply(scene, task, call_id)["payload"]["task_id"] == made
    os.close(again)
    (scene.path / "go").touch()
    scene.judged(task)
    assert sorted(scene.ids()) == sorted([task, made])


def test_calls_that_nobody_took_are_carried_out_before_the_verdict(scene: Scene) -> None:
    """A run that ended while no supervisor ran has left its return as a call."""
    task, run = at_work(scene, "while [ ! -e go ]; do sleep 0.05; done; exit 0; ")
    scene.kill_supervisor()
    forge(scene, task, call(run, "finish", summary="Left as a call."), bell=False)
    forge(scene, task, call(run), bell=False)
    forge(scene, task, call(run, "delegate", title="Not wanted any more", agent="worker"), bell=False)
    (scene.path / "go").touch()
    until((scene.place(task) / "exit").exists, "the end of the agent")
    shown = scene.json("wait", task, code=None)
    assert (shown["summary"], shown["status"]) == ("Left as a call.", "completed")
    assert scene.events(task, "step")
    assert scene.ids() == [task]


# The Python API in an agent's own process; what each call came to is written down.
PYTHON = """
import json, os, sys
from overhand import Project
from overhand.plans import Plan
from overhand.errors import OverhandError
said = {}
with Project(os.environ["OVERHAND_PROJECT"]) as p:
    part = p.delegate("A part of it", agent="child")
    said["part"] = part.wait().status
    said["sent"] = part.send("more")["task_id"] == part.id
    said["again"] = part.wait(60).status
    short = p.delegate("Falls short", agent="short")
    said["short"] = short.wait().status
    said["resumed"] = short.resume().wait().status
    prepared = p.delegate("Later", agent="child", no_start=True, step=["One", "Two"])
    said["run"] = p.run(prepared.id).wait().status
    asks = p.delegate("It asks", agent="asker")
    said["asked"] = os.system(f"{sys.executable} -m overhand monitor {asks.id} --json >monitored") >> 8
    said["answered"] = asks.answer("blue")["answer"]
    said["told"] = asks.wait().summary
    slow = p.delegate("Slow", agent="slow")
    said["stopped"] = slow.stop().status
    said["plan"] = p.plan("task: A plan\\nnodes:\\n  a: {agent: child, task: One}\\n").status
    p.agent("own")(lambda call: "done")
    refused = {"function": lambda: p.delegate("x", agent="own"), "plan object": lambda: p.plan(Plan("x", {}))}
    for name, act in refused.items():
        try:
            act()
        except OverhandError as error:
            said[name] = error.code
    said["shown"] = part.show().status
with open("said.new", "w") as file:
    json.dump(said, file)
os.rename("said.new", "said.json")
"""


def test_the_python_api_and_monitor_inside_a_run_go_by_files(scene: Scene) -> None:
    asks = '$OVERHAND ask "Which?" >told; printf "# Task Complete: x\\n\\n**Status:** completed\\n\\n## Summary\\n"'
    scene.shell("child", QUICK)
    scene.shell("asker", f'{asks} >"$OVERHAND_OUTPUT"; cat told >>"$OVERHAND_OUTPUT"')
    scene.shell("short", f"test -e once || {{ touch once; exit 1; }}; {QUICK}")
    scene.shell("slow", "exec sleep 3600")
    scene.shell("worker", f"{sys.executable} act.py; {QUICK}")
    (scene.path / "act.py").write_text(PYTHON)
    task = scene.delegate()
    assert scene.judged(task).status == "completed"
    log = (scene.place(task) / "stderr").read_text()
    assert (scene.path / "said.json").exists(), log
    assert json.loads((scene.path / "said.json").read_text()) == {
        "part": "completed", "sent": True, "again": "completed", "short": "failed", "resumed": "completed",
        "run": "completed", "asked": 0, "answered": "blue", "told": "blue", "stopped": "cancelled",
        "plan": "completed", "function": "REFUSED", "plan object": "REFUSED", "shown": "completed",
    }  # fmt: skip
    monitored = json.loads((scene.path / "monitored").read_text())
    assert (monitored["what"], monitored["question"]["question"]) == ("question", "Which?")
    made = [scene.events(one, "created")[0] for one in scene.ids()]
    called = [event for event in made if event.get("parent", {}).get("task") == task]
    assert len(called) == 6
    assert all(len(event["by"]["call"]) == CALL_ID and event["by"]["via"] == "api" for event in called)


def test_a_call_that_no_supervisor_takes_is_given_up(scene: Scene) -> None:
    """Not made, but for what can be done later: that lies there, and the exit status says which."""
    scene.shell("child", QUICK)
    verbs = ("delegate Part --agent child", "send 1 hello", "ask Which?", "ask Which? --timeout 0s", "step 1 done")
    calls = [f"$OVERHAND {verb} --json >out.{n}; echo $? >code.{n}; " for n, verb in enumerate(verbs)]
    script = f"until [ -e still ]; do sleep 0.05; done; export OVERHAND_CALL_WAIT=0s; {''.join(calls)} touch given-up; "
    task, _ = at_work(scene, f"{script} while [ ! -e go ]; do sleep 0.05; done; ")
    with scene.supervisor_standing_still(task):
        (scene.path / "still").touch()
        scene.appears("given-up")
        found = [(int((scene.path / f"code.{n}").read_text()), json.loads((scene.path / f"out.{n}").read_text()))
                 for n in range(len(verbs))]  # fmt: skip
        assert [code for code, _ in found] == [3, 3, 124, 124, 0]
        assert all("No supervisor answers" in printed["error"]["message"] for code, printed in found if code)
        assert found[-1][1]["later"] is True
        (left,) = os.listdir(folder(scene, task))
        assert left.endswith(".json"), "what is done later"
    until(lambda: scene.events(task, "step"), "the step that was left for later")
    (scene.path / "go").touch()
    assert scene.judged(task).status == "completed"
    assert scene.ids() == [task], "nothing that was given up is done afterwards"
    assert not scene.state(task).questions


def test_a_sandbox_that_hides_the_record_is_named(scene: Scene) -> None:
    """Reading verbs would say that there is no task; calls work as ever."""
    hide = f"unshare -r -m sh -c 'mount -t tmpfs none {Path(scene.store.home).parents[1]} && exec \"$@\"' sh"
    if subprocess.run(["unshare", "-r", "-m", "true"], check=False).returncode:
        pytest.skip("no user namespaces here")
    reads = ("list", "show 1", "show -", "", "log 1", "doctor", "checkpoint list", "step")
    verbs = [*reads, "step 1 done"]
    calls = [f"{hide} $OVERHAND {verb} --json >out.{n} 2>err.{n}; echo $? >code.{n}; " for n, verb in enumerate(verbs)]
    scene.shell("worker", f"{''.join(calls)} {QUICK}")
    task = scene.delegate("hidden", "--step", "one", "--set", "shield=off")
    assert scene.judged(task).status == "completed"
    printed = [(scene.path / f"out.{n}").read_text() for n in range(len(verbs))]
    codes = [int((scene.path / f"code.{n}").read_text()) for n in range(len(verbs))]
    assert codes == [3] * len(reads) + [0], [*zip(verbs, codes, printed, strict=True)]
    assert all("its sandbox hides" in text for text in printed[:-1])
    assert scene.events(task, "step")


def test_the_run_is_over(scene: Scene) -> None:
    """A process that outlives its run is refused, whatever it calls."""
    late = f"{sys.executable} -m overhand step 1 done --json >late; echo $? >code"
    left = f"(until [ -e judged ]; do sleep 0.05; done; {late}) >/dev/null 2>&1 &"
    scene.shell("worker", f"setsid sh -c '{left}'; {QUICK}")
    task = scene.delegate("leave something", "--step", "one")
    scene.judged(task)
    (scene.path / "judged").touch()
    until(lambda: (scene.path / "code").exists() and (scene.path / "code").read_text(), "the late call")
    assert json.loads((scene.path / "late").read_text())["error"]["code"] == "STALE_RUN"


def test_a_call_to_a_supervisor_that_stands_still_is_answered_when_it_goes_on(scene: Scene) -> None:
    task, run = at_work(scene)
    pid = scene.supervisor()
    assert pid
    os.kill(pid, signal.SIGSTOP)
    call_id, fd = forge(scene, task, call(run))
    assert not (folder(scene, task) / f"{call_id}.reply").exists()
    os.kill(pid, signal.SIGCONT)
    assert reply(scene, task, call_id)["code"] == 0
    os.close(fd)
    (scene.path / "go").touch()
    scene.judged(task)
