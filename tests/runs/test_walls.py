"""Runs and checks behind the shield: what goes looking for the record changes nothing, and all else is as ever."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from overhand import Project
from overhand.agents import Agent
from overhand.policy import load_config
from overhand.runs import probed_shield
from overhand.runs.walls import shield_setting
from overhand.system import start_time
from support import old_kernel, seeker
from support.scene import kill, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.testing.project import ProjectDir
    from support.scene import Scene

SOURCE = Path(__file__).parents[2] / "src"
ORDINARY = 12345  # a user id without an account
AM_ROOT = os.geteuid() == 0
USERS = ["root", "ordinary"] if AM_ROOT else ["ordinary"]
ASK = """printf '{"seq": 1, "question": "which?", "options": ["a", "b"]}' >"$d/ipc/q.tmp"
mv "$d/ipc/q.tmp" "$d/ipc/001.question"; touch asked; exec sleep 600"""
RETURN = """printf '{"status": "completed", "summary": "done"}' >"$OVERHAND_RESULT" """


@pytest.fixture
def walled(scene: Scene) -> Scene:
    """A project whose runs must be shielded."""
    scene.store.ensure()
    if not (found := probed_shield(scene.store))["held"]:
        pytest.skip(f"no shield here: {found['why']}")
    scene.project.config('shield = "require"\n')
    return scene


def shield_of(scene: Scene, task: str) -> dict[str, Any]:
    found: dict[str, Any] = scene.json("show", task, code=None)["runs"][-1]["shield"]
    return found


# as the user of this machine


@cache
def interpreter(user: str) -> tuple[str, str]:
    """A Python that this user can run Overhand with, and its PYTHONPATH: root's may be in a folder of root."""
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        env = {"PYTHONPATH": f"{SOURCE}:{packages}"}
        look = "import sys, yaml, jsonschema_rs, overhand; sys.exit(sys.version_info < (3, 11))"
        try:
            done = subprocess.run([python, "-c", look], env=env, capture_output=True, check=False, **identity(user))
        except OSError:
            continue
        if done.returncode == 0:
            return python, env["PYTHONPATH"]
    return "", ""


def identity(user: str) -> dict[str, Any]:
    return {"user": ORDINARY, "group": ORDINARY, "extra_groups": []} if AM_ROOT and user == "ordinary" else {}


@dataclass
class Home:
    """A user with a home folder, and a project in it."""

    user: str
    path: Path

    @property
    def project(self) -> Path:
        return self.path / "project"

    @property
    def record(self) -> Path:
        (found,) = (self.path / ".local/state/overhand/projects").glob("*/project.json")
        return found.parent

    @property
    def outside(self) -> dict[str, Any]:
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(self.path), "USER": self.user}
        env["PYTHONPATH"] = interpreter(self.user)[1]
        return {"env": env, "cwd": self.project, **identity(self.user)}

    def overhand(self, *args: str, code: int | None = 0) -> dict[str, Any]:
        argv = [interpreter(self.user)[0], "-m", "overhand", *args, "--json"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=90, **self.outside)
        assert code in (None, done.returncode), done.stdout + done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def write(self, name: str, text: str) -> None:
        path = self.path / name
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for made in missing if identity(self.user) else ():
            os.chown(made, ORDINARY, ORDINARY)

    def evidence(self) -> dict[str, bytes]:
        """What must not change while an agent is at work, apart from what Overhand itself adds."""
        folders = [self.path / ".config/overhand", self.project / ".overhand", self.project / ".git/hooks"]
        folders += [self.project / ".agent-workspaces/a-20260101-000000"]
        return {str(path): path.read_bytes() for one in folders for path in one.rglob("*") if path.is_file()}


@pytest.fixture(params=USERS)
def home(request: pytest.FixtureRequest) -> Iterator[Home]:
    if not interpreter(request.param)[0]:
        pytest.skip("no Python >= 3.11 that this user can run with the packages of this one")
    folder = tempfile.mkdtemp(prefix="walls-")
    home = Home(request.param, Path(folder).resolve())
    if identity(home.user):
        os.chown(folder, ORDINARY, ORDINARY)
    try:
        home.write(".config/overhand/config.toml", 'shield = "require"\n[limits]\nidle = "1s"\n')
        home.write("project/README", "hello\n")
        subprocess.run(["git", "init", "-q"], check=True, **home.outside)
        yield home
        until(lambda: not _at_work(home), "the end of the supervisor")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _at_work(home: Home) -> list[str]:
    """Processes that were started in this home."""
    mark, found = f"HOME={home.path}\0".encode(), []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark in Path(f"/proc/{pid}/environ").read_bytes():
                found.append(pid)
        except OSError:
            continue
    return found


def agent_file(script: str) -> str:
    command = json.dumps(["/bin/sh", "-c", script])
    return f"---\nname: a\ndescription: an agent\noverhand:\n  driver: command\n  command: {command}\n---\nWork.\n"


def test_what_goes_looking_for_the_record_can_write_none_of_it(home: Home) -> None:
    home.write("project/seeker.py", Path(seeker.__file__).read_text())
    places = [home.path / ".local/state/overhand", home.path / ".config/overhand"]
    places += [home.project / name for name in (".overhand", ".git/hooks", ".agent-workspaces/a-20260101-000000")]
    seek = " ".join([interpreter(home.user)[0], "-I", "seeker.py", *map(str, places)])
    own = 'cd "${OVERHAND_HANDOFF%/*}"; touch mine'
    home.write("project/.overhand/agents/a.md", agent_file(f"{seek}; {RETURN}; {own}"))
    home.overhand("trust", "--yes")
    home.write("project/.agent-workspaces/a-20260101-000000/OUTPUT.md", "of another task\n")
    home.overhand("delegate", "another", "--agent", "a", "--no-start")
    before = home.evidence()
    task = home.overhand("delegate", "forge it", "--agent", "a", "--verify", f"{seek} >&2", "--wait")
    assert home.evidence() == before
    (run,) = task["runs"]
    assert (task["status"], task["verification"]) == ("completed", "none")
    assert run["shield"]["held"]
    assert {"record", "settings and trust", "other tasks", ".overhand", "git hooks"} <= {*run["shield"]["read_only"]}
    assert run["shield"]["root"] == (AM_ROOT and home.user == "root")
    place, workspace = home.record / "tasks" / task["task_id"], home.project / task["folder"]
    assert (workspace / "mine").exists()
    for said in ("stdout", "checks/1/stderr", "../../checks/before/1/stderr"):
        tried = json.loads((place / "runs" / run["id"] / said).read_text())
        assert tried["tried"] > 50
        assert tried["done"] == []


def test_a_check_cannot_write_the_workspace_either(home: Home) -> None:
    home.write("project/.overhand/agents/a.md", agent_file(f"touch made; {RETURN}"))
    home.overhand("trust", "--yes")
    check = 'for f in .agent-workspaces/*/HANDOFF.md; do (echo x >>"$f") && exit 9; done; touch built; test -e made'
    task = home.overhand("delegate", "x", "--agent", "a", "--verify", check, "--wait")
    assert task["verification"] == "proved"
    assert (home.project / "built").exists(), "what it builds in the project is as ever"


# levels


def test_level_read_holds_for_any_command(walled: Scene) -> None:
    walled.shell("worker", f"echo x >changed; echo x >.agent-workspaces/x; {RETURN}")
    task = walled.delegate("look at it", "--read-only")
    assert walled.judged(task).status == "completed"
    assert "project" in shield_of(walled, task)["read_only"]
    assert not (walled.path / "changed").exists()
    assert not (walled.path / ".agent-workspaces/x").exists()
    assert "cannot create changed: Read-only file system" in (walled.place(task) / "stderr").read_text()


@pytest.mark.parametrize(("more", "status"), [("", "completed"), ("echo x >other.md; ", "partial")])
def test_a_file_that_is_promised_can_be_written_by_one_that_may_only_read(
    walled: Scene, more: str, status: str
) -> None:
    subprocess.run(["git", "init", "-q"], cwd=walled.path, check=True)
    (walled.path / ".git/info/exclude").write_text("trail\n")
    walled.shell("worker", f"echo x >report.md; {more}{RETURN}")
    task = walled.delegate("write it", "--deliverable", "report.md", "--read-only")
    assert walled.judged(task).status == status
    assert (walled.path / "report.md").exists()
    shown = walled.json("show", task, code=None)
    assert "project" not in shown["runs"][0]["shield"]["read_only"]
    wrong = [one["message"] for one in shown["problems"] if one["code"] == "read-only-changed"]
    beyond = "The task may only read, yet files changed beyond what it promises: other.md."
    assert wrong == ([beyond] if more else [])


def test_its_prompt_says_that_the_project_is_read_only(walled: Scene) -> None:
    for level, said in (("read", True), ("work", False)):
        task = walled.delegate("look at it", "--level", level)
        walled.judged(task)
        prompt = (walled.place(task) / "prompt.md").read_text()
        assert ("which is read-only for you" in prompt) == said


def test_a_settings_folder_that_is_missing_cannot_be_made_by_a_run(walled: Scene) -> None:
    """It would count again if the user had trusted it once and removed it since."""
    own = walled.project.config_home / "overhand"
    (own / "agents").mkdir(parents=True)
    (own / "config.toml").write_text('shield = "require"\n[limits]\nanswer_wait = "0.1s"\n')
    forge = "mkdir .overhand; echo forged >.overhand/config.toml; mv .overhand away"
    script = f"d=${{OVERHAND_HANDOFF%/*}}; if [ ! -e asked ]; then {ASK}; fi; {forge}; {RETURN}"
    (own / "agents/a.md").write_text(agent_file(script))
    task = walled.delegate("x", "--agent", "a")
    walled.appears("asked")
    until(lambda: walled.state(task).open_questions, "the question")
    until(lambda: walled.state(task).current_run is None, "parked")
    shutil.rmtree(walled.path / ".overhand")
    walled.json("answer", task, "1", "a")
    until(lambda: walled.state(task).status == "completed", "completed")
    assert [run.is_shielded for run in walled.state(task).runs] == [True, True]
    assert list((walled.path / ".overhand").iterdir()) == []


# which setting counts


def setting(project: ProjectDir, *, user: str = "", files: str = "", agent: str = "", task: str = "") -> str:
    """What counts when these are written: at user level, in the project, in an agent file, with `--set`."""
    folder = project.config_home / "overhand"
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(f'shield = "{user}"\n' if user else "")
    project.config(f'shield = "{files}"\n' if files else "")
    of_project = not agent.startswith("own ")
    options = {"shield": agent.removeprefix("own ")} if agent else {}
    one = Agent("a", "command", "agents/a.md" if of_project else "/home/u/a.md", options=options)
    settings = {"shield": task} if task else {}
    return shield_setting(load_config(str(project.path), settings), one, settings)


def test_the_user_decides_and_a_project_can_only_raise(overhand_project: ProjectDir) -> None:
    there = overhand_project
    assert setting(there) == "auto"
    assert setting(there, user="off") == "off"
    assert setting(there, files="off") == "auto"
    assert setting(there, user="require", files="auto") == "require"
    assert setting(there, user="off", files="require") == "require"
    assert setting(there, agent="off") == "auto"
    assert setting(there, agent="require") == "require"
    assert setting(there, agent="own off") == "off"
    assert setting(there, agent="own off", files="require") == "require"
    assert setting(there, user="require", task="off") == "off"
    assert setting(there, task="off", files="require") == "require"
    assert setting(there, user="off", task="require") == "require"


def test_a_wrong_value_is_named(scene: Scene) -> None:
    scene.project.config('shield = "maybe"\n')
    error = scene.json("delegate", "x", "--agent", "worker", code=2)["error"]
    assert ".overhand/config.toml: shield = 'maybe': one of off, auto, require was needed." in error["message"]
    scene.project.config("")
    scene.project.agent("worker", "output", shield="maybe")
    error = scene.json("delegate", "x", "--agent", "worker", code=2)["error"]
    assert "overhand.shield must be one of off, auto, require." in error["message"]


def test_off_is_said(scene: Scene) -> None:
    told = scene.json("delegate", "x", "--agent", "worker", "--set", "shield=off")
    assert told["shield"] == {"held": False, "why": "the setting `shield` is off"}
    scene.judged(told["task_id"])
    assert shield_of(scene, told["task_id"]) == told["shield"]
    assert "shield  not shielded: the setting `shield` is off" in scene.project.run("show", told["task_id"]).out


# where the kernel does not let us


LIMITED = ["unshare", "-Ur", "/bin/sh", "-c", 'echo 0 >/proc/sys/user/max_user_namespaces; exec "$@"', "x"]
WHY = "no more user namespaces are allowed (user.max_user_namespaces)"


def in_a_cage(scene: Scene, *args: str) -> subprocess.CompletedProcess[str]:
    """`overhand ARGS` where no more user namespaces can be made."""
    if subprocess.run([*LIMITED, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no user namespaces here at all")
    scene.project.trust_files()
    argv = [*LIMITED, sys.executable, "-m", "overhand", *args]
    environment = scene.project.environment()
    return subprocess.run(argv, cwd=scene.path, env=environment, capture_output=True, text=True, check=False)


def test_where_it_is_required_and_would_not_hold_nothing_is_started(scene: Scene) -> None:
    scene.project.config('shield = "require"\n')
    done = in_a_cage(scene, "delegate", "x", "--agent", "worker", "--json")
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["code"]) == (3, "NOT_SHIELDED")
    assert error["message"] == f"A shield is required, and there is none here: {WHY}."
    assert "overhand doctor" in error["hint"]
    assert scene.ids() == []


def where_only_bwrap_works(scene: Scene, *args: str) -> dict[str, Any]:
    """`overhand ARGS`, and the supervisor that it starts, on a kernel that is too old for the shield's own calls."""
    if shutil.which("bwrap") is None:
        pytest.skip("bwrap is not installed")
    scene.project.trust_files()
    argv = [sys.executable, old_kernel.__file__, sys.executable, "-m", "overhand", *args, "--json"]
    environment = scene.project.environment()
    done = subprocess.run(argv, cwd=scene.path, env=environment, capture_output=True, text=True, check=False)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_where_only_bwrap_works_a_run_its_checks_and_git_stand_behind_it(walled: Scene) -> None:
    subprocess.run(["git", "init", "-q"], cwd=walled.path, check=True)
    walled.shell("worker", f"touch made; touch .overhand/forged; {RETURN}")
    check = "test -e made && ! touch .overhand/forged && ! touch .agent-workspaces/x"
    task = where_only_bwrap_works(walled, "delegate", "x", "--agent", "worker", "--verify", check, "--wait")
    assert (task["status"], task["verified"]) == ("completed", True), task["problems"]
    assert task["runs"][0]["shield"]["how"] == "bwrap"
    assert "made" in task["look_at"]["changed"]
    assert not (walled.path / ".overhand/forged").exists()


def test_where_only_bwrap_works_a_stopped_program_has_its_grace(walled: Scene) -> None:
    walled.shell("worker", "trap 'echo saved >work; exit 5' TERM; touch up; while :; do sleep 0.01; done")
    task = where_only_bwrap_works(walled, "delegate", "x", "--agent", "worker")["task_id"]
    walled.appears("up")
    assert walled.json("stop", task)["tasks"][0]["status"] == "cancelled"
    assert (walled.path / "work").read_text() == "saved\n"
    assert (walled.state(task).runs[-1].exit, walled.strays(task)) == (5, [])


def test_doctor_says_whether_runs_can_be_shielded(walled: Scene) -> None:
    found = walled.json("doctor", code=None)
    assert found["shield"]["held"]
    assert {"record", "settings and trust", "other tasks", ".overhand"} <= {*found["shield"]["read_only"]}
    said = walled.project.run("doctor").out
    assert "runs: shielded" in said
    assert "read-only: record, settings and trust, other tasks, .overhand" in said
    assert "; open: network, HOME" in said
    caged = json.loads(in_a_cage(walled, "doctor", "--json").stdout)
    assert caged["shield"] == {"held": False, "why": WHY}
    (note,) = [one for one in caged["findings"] if one["code"] == "no-shield"]
    assert note["what"] == f"Runs cannot be shielded here: {WHY}."


def test_doctor_makes_nothing_and_names_a_link_that_is_in_the_way(walled: Scene) -> None:
    hooks = walled.path / ".git/hooks"
    subprocess.run(["git", "init", "-q"], cwd=walled.path, check=True)
    shutil.rmtree(hooks)
    assert walled.json("doctor", code=None)["shield"]["held"]
    assert not hooks.exists()
    (walled.path / "elsewhere").mkdir()
    hooks.symlink_to("../elsewhere")
    found = walled.json("doctor", code=None)["shield"]
    assert not found["held"]
    assert f"goes through the link {hooks}, which an agent could replace" in found["why"]


def test_a_function_in_ones_own_process_is_refused_where_a_shield_is_required(walled: Scene) -> None:
    walled.project.trust_files()
    with Project(walled.path) as project:
        project.agent("own")(lambda _call: "done")
        result = project.delegate("x", agent="own").wait()
    assert result.status == "rejected"
    assert "a function in your own Python process can't be shielded" in result.summary


def test_what_a_shielded_run_delegates_is_shielded_whatever_its_agent_wants(scene: Scene) -> None:
    scene.store.ensure()
    if not probed_shield(scene.store)["held"]:
        pytest.skip("no shield here")
    scene.shell("worker", f"$OVERHAND delegate below --agent child --wait >&2; {RETURN}")
    folder = scene.project.config_home / "overhand/agents"
    folder.mkdir(parents=True)
    command = json.dumps(["/bin/sh", "-c", f"echo x >.overhand/forged; {RETURN}"])
    (folder / "child.md").write_text(
        f"---\nname: child\ndescription: x\noverhand:\n  driver: command\n  shield: off\n  command: {command}\n---\nx\n"
    )
    above = scene.delegate("above")
    assert scene.judged(above).status == "completed"
    (child,) = [task for task in scene.store.tasks() if task.id != above]
    assert (child.status, child.settings) == ("completed", {"shielded": True})
    assert child.runs[-1].is_shielded
    assert not (scene.path / ".overhand/forged").exists()
    alone = scene.delegate("alone", "--agent", "child")
    assert scene.judged(alone).runs[-1].shield == {"held": False, "why": "the setting `shield` is off"}
    assert (scene.path / ".overhand/forged").exists()


# all else is as ever


def test_its_start_and_its_receipt_say_what_holds(walled: Scene) -> None:
    told = walled.project.run("delegate", "x", "--agent", "worker").out
    (task,) = walled.ids()
    walled.judged(task)
    for text in (told, walled.project.run("show", task).out):
        (line,) = [one.strip() for one in text.splitlines() if "shielded" in one]
        assert "read-only: record, settings and trust, other tasks, .overhand" in line
        assert "; open: network, HOME" in line


def test_a_stopped_program_has_its_grace(walled: Scene) -> None:
    walled.shell("worker", "trap 'echo saved >work; exit 5' TERM; touch up; while :; do sleep 0.01; done")
    task = walled.delegate()
    walled.appears("up")
    agent = walled.pid(task, "pid")
    assert os.readlink(f"/proc/{agent}/ns/mnt") != os.readlink("/proc/self/ns/mnt")
    assert walled.json("stop", task)["tasks"][0]["status"] == "cancelled"
    assert (walled.path / "work").read_text() == "saved\n"
    assert walled.state(task).runs[-1].exit == 5


def test_what_hides_from_a_stop_is_ended_too(walled: Scene) -> None:
    walled.shell("worker", "trap '' TERM; (setsid env -i sleep 600 &) ; touch up; while :; do sleep 0.01; done")
    task = walled.delegate()
    walled.appears("up")
    walled.running(task)
    assert walled.json("stop", task, "--now")["tasks"][0]["status"] == "cancelled"
    assert walled.strays(task) == []


def test_it_is_adopted_by_the_next_supervisor(walled: Scene) -> None:
    walled.agent("worker", "touch:up", "until:go", "output")
    task = walled.delegate("x", "--verify", "test -e up && ! touch .agent-workspaces/x")
    walled.appears("up")
    walled.running(task)
    walled.kill_supervisor()
    (walled.path / "go").touch()
    shown = walled.json("wait", task)
    assert (shown["status"], shown["verification"]) == ("completed", "passing")
    assert walled.starts(task) == 1


def test_its_program_cannot_signal_what_is_outside(walled: Scene) -> None:
    if "signals" in probed_shield(walled.store)["open"]:
        pytest.skip("this kernel has no scope for signals")
    walled.agent("worker", "touch:up", "until:go", "output")
    with_pid = 'kill -9 "$PPID" && echo killed; read -r pid </proc/self/stat; touch up; exec sleep 600'
    walled.shell("worker", with_pid)
    task = walled.delegate()
    walled.appears("up")
    assert start_time(walled.pid(task, "shim")) is not None
    assert "not permitted" in (walled.place(task) / "stderr").read_text()
    walled.json("stop", task, "--now")


def test_a_question_by_file_parks_and_resumes_it(walled: Scene) -> None:
    walled.shell("worker", f"d=${{OVERHAND_HANDOFF%/*}}; if [ ! -e asked ]; then {ASK}; fi; {RETURN}")
    walled.project.config('shield = "require"\n[limits]\nanswer_wait = "0.1s"\n')
    task = walled.delegate()
    walled.appears("asked")
    until(lambda: walled.state(task).open_questions, "the question")
    until(lambda: walled.state(task).current_run is None, "parked")
    walled.json("answer", task, "1", "a")
    assert walled.judged(task).status is not None
    until(lambda: walled.state(task).status == "completed", "completed")
    assert [run.is_shielded for run in walled.state(task).runs] == [True, True]


def test_after_kill_9_its_run_is_lost_and_judged(walled: Scene) -> None:
    walled.agent("worker", "touch:up", "until:go", "output")
    task = walled.delegate()
    walled.appears("up")
    agent, shim = walled.pid(task, "pid"), walled.pid(task, "shim")
    kill(shim)
    assert start_time(agent) is not None, "it lives on without its shim"
    os.kill(agent, signal.SIGKILL)
    assert walled.judged(task).status is not None


def test_only_the_commands_of_an_external_job_stand_behind_it(walled: Scene) -> None:
    look = f'for f in "{walled.store.home}"/tasks/*/log.jsonl; do (echo x >>"$f") && touch wrote; done; '
    walled.project.agent(
        "far",
        driver="external",
        command=None,
        start=["/bin/sh", "-c", f"{look} echo job-1"],
        poll=["/bin/sh", "-c", f"{look} echo done"],
        collect=["/bin/sh", "-c", f"{look} {RETURN}"],
        every=0.05,
    )
    task = walled.delegate("x", "--agent", "far")
    assert walled.judged(task).status == "completed"
    assert not (walled.path / "wrote").exists()
    assert (walled.place(task) / "stderr").read_text().count("Read-only file system") == 3
    assert (walled.place(task) / "job/handle").read_text().strip() == "job-1"


# git


FILTER = """#!/bin/sh
for f in "$HOME"/.local/state/overhand/projects/*/tasks/*/log.jsonl README .git/config .git/lfs/kept; do
    (echo '#' >>"$f") 2>/dev/null && echo "wrote $f" >>"$HOME/filtered"
done
echo "asked" >>"$HOME/filtered"
exec cat
"""


@pytest.mark.parametrize("level", ["read", "work"])
def test_a_filter_that_a_run_named_in_the_users_configuration_writes_nothing(home: Home, level: str) -> None:
    """Git runs it, for it can't be told from one of the user's; behind the shield, and LFS has a folder of its own."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["add", "README"], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *words], check=True, **home.outside)
    home.write("project/.git/lfs/other", "")
    home.write("filter", FILTER)
    home.write("plant", f'[filter "own"]\n\tclean = /bin/sh {home.path}/filter\n')
    home.write("project/.git/info/attributes", "README filter=own\n")
    change = "cat ~/plant >~/.gitconfig; touch README"
    home.write("project/.overhand/agents/a.md", agent_file(f"{change}; {RETURN}"))
    home.overhand("trust", "--yes")
    (home.project / "README").touch()  # so that git must read it, also where the run can't touch it
    task = home.overhand("delegate", "plant it", "--agent", "a", "--level", level, "--wait")
    assert task["runs"][0]["shield"]["held"]
    filtered = (home.path / "filtered").read_text().splitlines()
    assert set(filtered) == {"wrote .git/lfs/kept", "asked"}
    assert (home.project / "README").read_text() == "hello\n"
    assert task["status"] == "completed"
