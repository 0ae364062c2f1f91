"""The shield, attacked from inside on the kernel that runs the tests, as an ordinary user and as root."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overhand.cli.text import shield_line
from overhand.system import exit_code, shield, start_detached, start_time, stop_detached, wait_for_exit
from overhand.system.shield import Entry, Plan, ShieldProbe, Walls, plan_mounts, shield_words
from support import attacks, behind_shield, old_kernel
from support.attacks import ATTACKS, Places
from support.scene import until
from support.soak import variants

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).parents[2] / "src"
ORDINARY = 12345  # a user id without an account
STRANGE = "a b\n\N{LINE SEPARATOR}ü'=\\040\udcff"  # a name that a table of mounts or a command line could misread
PATH = "/usr/local/bin:/usr/bin:/bin"
TEXT: dict[str, Any] = {"encoding": "utf-8", "errors": "backslashreplace"}
AM_ROOT = os.geteuid() == 0
USERS = ["root", "ordinary"] if AM_ROOT else ["ordinary"]


def identity(user: str) -> dict[str, Any]:
    """How to start a process as this user."""
    return {"user": ORDINARY, "group": ORDINARY, "extra_groups": []} if AM_ROOT and user == "ordinary" else {}


@cache
def interpreter(user: str) -> str | None:
    """A Python that this user can run: root's may be in a folder of root."""
    look = "import sys, _ctypes, overhand.system.shield; sys.exit(sys.version_info < (3, 11))"
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        try:
            env = {"PYTHONPATH": str(SOURCE)}
            done = subprocess.run([python, "-c", look], env=env, capture_output=True, check=False, **identity(user))
        except OSError:
            continue
        if done.returncode == 0:
            return python
    return None


@pytest.fixture(scope="module", params=USERS)
def user(request: pytest.FixtureRequest) -> str:
    """A user who may have user namespaces here."""
    found = interpreter(request.param)
    if found is None:
        pytest.skip("no Python >= 3.11 that another user than root can run")
    probe = "import sys; from overhand.system import shield; print(shield.probe_shield(sys.argv[1]).why, end='')"
    with tempfile.TemporaryDirectory() as folder:
        if identity(request.param):
            os.chown(folder, ORDINARY, ORDINARY)
        env = {"PYTHONPATH": str(SOURCE), "PATH": PATH}
        argv = [found, "-c", probe, folder]
        done = subprocess.run(argv, env=env, capture_output=True, **TEXT, check=True, **identity(request.param))
    if done.stdout:
        pytest.skip(f"no shield here: {done.stdout}")
    return str(request.param)


@dataclass
class Ground:
    """A project with its record in the user's state folder, and two tasks, one of which is the attacker's."""

    user: str
    places: Places
    python: str
    bwrap: str = ""

    @property
    def walls(self) -> Walls:
        at = self.places
        protected = (at.state, at.project, os.path.dirname(at.trust))
        return Walls(protected, (at.tree, at.workspace), (at.supervisor,), at.tree)

    @property
    def outside(self) -> dict[str, Any]:
        """How a process outside the shield is started as this user."""
        env = {"PYTHONPATH": str(SOURCE), "PATH": PATH, "HOME": self.places.home}
        return {"env": env, **identity(self.user)}

    def argv(self, *argv: str, walls: Walls | None = None) -> list[str]:
        how = ("--bwrap", self.bwrap) if self.bwrap else ()
        return [self.python, behind_shield.__file__, *how, json.dumps((walls or self.walls)._asdict()), *argv]

    def run(self, *argv: str, walls: Walls | None = None, **more: Any) -> subprocess.CompletedProcess[str]:
        """A program behind the shield until its end."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **TEXT, **more}
        return subprocess.run(self.argv(*argv, walls=walls), check=False, **{**self.outside, **options})

    def shell(self, script: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return self.run("/bin/sh", "-c", script, **more)

    def attack(self, name: str, *, shielded: bool = True) -> list[str]:
        argv = [self.python, "-I", attacks.__file__, name, json.dumps(asdict(self.places))]
        with open(f"{self.places.state}/p/stderr", "w+") as stderr:  # in the record, as a run's is
            if identity(self.user):
                os.chown(stderr.name, ORDINARY, ORDINARY)
            options = {**self.outside, "stdout": subprocess.PIPE, "stderr": stderr, "cwd": self.places.tree}
            done = subprocess.run(self.argv(*argv) if shielded else argv, check=False, **TEXT, **options)
            stderr.seek(0)
            assert done.returncode == 0, stderr.read()
        ends: list[str] = json.loads(done.stdout)
        return ends

    def protected(self) -> dict[str, tuple[int, bytes]]:
        """Every protected file, with its mode and content."""
        at = self.places
        files = [
            path
            for root in (at.state, at.project, os.path.dirname(at.trust))
            for path in Path(root).rglob("*")
            if not path.is_relative_to(at.tree) and not path.is_relative_to(at.workspace)
        ]
        return {
            os.fspath(path): (found.st_mode, path.read_bytes() if stat.S_ISREG(found.st_mode) else b"")
            for path in files
            for found in [path.lstat()]
        }


@pytest.fixture
def ground(user: str) -> Iterator[Ground]:
    python = interpreter(user)
    assert python
    with ExitStack() as stack:
        top = tempfile.mkdtemp(prefix="shield-")
        stack.callback(shutil.rmtree, top)
        base = f"{top}/{STRANGE}"
        home, state, project = f"{base}/home", f"{base}/state", f"{base}/project"
        listener, named, abstract = (socket.socket(family) for family in (socket.AF_INET, *[socket.AF_UNIX] * 2))
        for one in (listener, named, abstract):
            stack.enter_context(one)
        listener.bind(("127.0.0.1", 0))
        named.bind(f"{top}/daemon")
        abstract.bind(f"\0{top}")
        for one in (listener, named, abstract):
            one.listen()
        at = Places(
            base=base,
            home=home,
            state=state,
            project=project,
            tree=f"{state}/trees/mine",
            workspace=f"{project}/.agent-workspaces/mine",
            supervisor=f"{state}/p/supervisor",
            victim=0,
            victim_fd=0,
            port=listener.getsockname()[1],
            socket=f"{top}/daemon",
            abstract=top,
        )
        for path in (
            at.log,
            at.trust,
            f"{at.tree}/mine",
            f"{at.workspace}/OUTPUT.md",
            f"{at.supervisor}/secret",
            f"{state}/p/linked",
            f"{state}/trees/other/file",
            f"{project}/README",
            f"{project}/.agent-workspaces/other/OUTPUT.md",
            f"{home}/.bashrc",
        ):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            Path(path).write_text("true\n")
        os.link(f"{state}/p/linked", f"{at.tree}/linked-before")
        if identity(user):
            for path in (top, *map(os.fspath, Path(top).rglob("*"))):
                os.chown(path, ORDINARY, ORDINARY)
        log = os.open(at.log, os.O_WRONLY | os.O_APPEND)
        stack.callback(os.close, log)
        victim = subprocess.Popen(
            ["cat"], stdin=subprocess.PIPE, cwd=os.path.dirname(at.log), pass_fds=[log], **identity(user)
        )
        stack.callback(victim.communicate)
        yield Ground(user, Places(**{**asdict(at), "victim": victim.pid, "victim_fd": log}), python)


@pytest.fixture
def by_bwrap(ground: Ground) -> Ground:
    """The same, where bubblewrap does the mounting."""
    if (program := shutil.which("bwrap", path=PATH)) is None:
        pytest.skip("bwrap is not installed")
    ground.bwrap = program
    return ground


def expected(name: str) -> str:
    if ATTACKS[name].result != "signals":
        return ATTACKS[name].result
    with tempfile.TemporaryDirectory() as folder:
        return attacks.HELD if shield.probe_shield(folder).signals == "scoped" else attacks.OPEN


REFUSALS = {"EROFS", "EBUSY", "EXDEV", "EPERM", "EACCES", "EINVAL", "ENOENT"}
# These need root, or ask for what is so only behind the shield.
NOT_OUTSIDE = {"look_behind_the_empty_folder", "undo_the_mounts", "open_by_number", "gain_rights"}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_from_inside(ground: Ground, name: str) -> None:
    ground.attack("read_everything")  # makes stderr
    before = ground.protected()
    ends = ground.attack(name)
    if expected(name) == attacks.OPEN:
        assert set(ends) == {"done"}
    else:
        assert set(ends) <= REFUSALS, ends
        assert ground.protected() == before


@pytest.mark.parametrize("name", variants(ATTACKS, every=4))
def test_an_attack_from_inside_bwrap(by_bwrap: Ground, name: str) -> None:
    test_an_attack_from_inside(by_bwrap, name)


@pytest.mark.parametrize("user", ["ordinary"], indirect=True)  # as root it would change this machine
@pytest.mark.parametrize("name", [name for name in ATTACKS if name not in NOT_OUTSIDE])
def test_the_same_attack_works_without_a_shield(ground: Ground, name: str) -> None:
    assert "done" in ground.attack(name, shielded=False)


def test_a_hard_link_from_before_is_written_through(ground: Ground) -> None:
    ground.attack("hard_link_from_before")
    assert Path(f"{ground.places.state}/p/linked").read_text() == "true\nx\n"


def test_root_could_change_the_kernel(ground: Ground) -> None:
    """What stays open as root: settings of the kernel that run programs outside are files of root."""
    setting = "/proc/sys/kernel/core_pattern"
    if ground.user == "root" and not os.access(setting, os.W_OK):
        pytest.skip("even outside a shield root cannot write it here")
    done = ground.run(ground.python, "-c", f"import os; os.open('{setting}', os.O_WRONLY)")
    assert (done.returncode == 0) == (ground.user == "root"), done.stderr


def test_the_old_folder_and_inherited_folders_lead_nowhere(ground: Ground) -> None:
    folder = os.open(os.path.dirname(ground.places.log), os.O_RDONLY)
    try:
        script = f"pwd; echo x >>log.jsonl; cd /proc/self/fd/{folder} && echo x >>log.jsonl"
        done = ground.shell(script, cwd=os.path.dirname(ground.places.log), pass_fds=[folder])
    finally:
        os.close(folder)
    assert done.returncode != 0
    assert done.stdout == os.fsencode(ground.places.tree).decode(**TEXT) + "\n"
    assert Path(ground.places.log).read_text() == "true\n"
    assert Path(f"{ground.places.tree}/log.jsonl").read_text() == "x\n"


def test_a_protected_folder_that_is_made_anew_outside_is_no_longer_protected(ground: Ground) -> None:
    """Why nothing of ours replaces a protected folder while a run is alive."""
    fresh, free = f"{ground.places.home}/fresh", Walls((), (), (), "/")
    ground.run("mkdir", fresh, walls=free).check_returncode()
    script = '(echo x >"$0/a"); echo ready; read _; echo x >"$0/b"'
    argv = ground.argv("/bin/sh", "-c", script, fresh, walls=Walls((fresh,), (), (), "/"))
    pipe, none = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=none, **TEXT, **ground.outside) as running:
        assert running.stdout
        assert running.stdout.readline() == "ready\n"
        assert os.listdir(fresh) == []
        os.rmdir(fresh)
        ground.run("mkdir", fresh, walls=free).check_returncode()
        running.communicate("\n")
    assert os.listdir(fresh) == ["b"]


def test_the_same_folder_mounted_elsewhere_is_protected_there_too(ground: Ground) -> None:
    """Mounts of our own, in which the state folder, and a part of it, are at a second place."""
    if not shutil.which("unshare"):
        pytest.skip("unshare(1) is not installed")
    at, twin = ground.places, f"{ground.places.home}/twin"
    ground.run("mkdir", twin, walls=Walls((), (), (), "/")).check_returncode()
    for source in (at.base, at.state, f"{at.state}/p"):
        there = [path.replace(source, twin) for path in (at.log, f"{at.supervisor}/secret")]
        script = '(echo x >>"$0"); test ! -e "$1" && test -e "${1%/*}" && echo x >"$2"'
        argv = ground.argv("/bin/sh", "-c", script, *there, f"{at.tree}/here")
        argv[2:2] = ["--twin", source, twin]
        done = subprocess.run(["unshare", "-rm", *argv], check=False, capture_output=True, **TEXT, **ground.outside)
        assert done.returncode == 0, done.stderr
        assert "Read-only file system" in done.stderr
        assert Path(at.log).read_text() == "true\n"
        os.unlink(f"{at.tree}/here")


# the program behind it is as it would be without


@pytest.mark.parametrize(
    ("script", "code"), [("exit 7", 7), ("exit 200", 200), ("kill -TERM $$", -15), ("kill -SEGV $$", -11)]
)
def test_the_exit_status_is_the_programs(ground: Ground, script: str, code: int) -> None:
    assert ground.shell(script).returncode == code


@pytest.mark.parametrize(
    ("script", "code"), [("exit 7", 7), ("exit 200", 200), ("kill -TERM $$", 143), ("kill -SEGV $$", 139)]
)
def test_bwrap_ends_with_the_programs_exit_status(by_bwrap: Ground, script: str, code: int) -> None:
    assert by_bwrap.shell(script).returncode == code


def test_it_is_the_process_that_was_started_with_its_input_and_environment(ground: Ground) -> None:
    at = ground.places
    text = Path(f"{at.home}/input")
    text.write_text("from a file")
    env = {"PATH": PATH, "HOME": "/", "GREETING": "hello = world", "LANG": "C"}
    script = "cat; printf '\\0%s\\0' $$; grep SigIgn /proc/self/status; printf '\\0'; env -0"
    words = [*shield_words(Plan((("ro", at.state), ("rw", at.tree)), at.tree)), "/bin/sh", "-c", script]
    with open(text) as stdin:
        options = {**TEXT, **identity(ground.user), "env": env, "stdin": stdin, "stdout": subprocess.PIPE}
        with subprocess.Popen([ground.python, *words[1:]], **options) as running:
            read, pid, ignored, *seen = running.communicate()[0].split("\0")
    assert (read, pid) == ("from a file", str(running.pid))
    assert int(ignored.split()[1], 16) & 0x7FFFFFFF == 0, "beyond are the C library's own, as whoever runs us has them"
    told = dict(line.split("=", 1) for line in seen if line)
    assert {name: value for name, value in told.items() if name not in {"PWD", "OLDPWD", "SHLVL", "_"}} == env


def test_arguments_arrive_as_they_are(ground: Ground) -> None:
    words = ["", "a b", "--", "new\nline", "ü\udcff", "ro=/", "-c"]
    done = ground.run(ground.python, "-c", "import sys, json; print(json.dumps(sys.argv[1:]))", *words)
    assert json.loads(done.stdout) == words


def test_ordinary_work_goes_on(ground: Ground) -> None:
    at = ground.places
    script = """set -e
        echo done >result; mkdir -p "$0/new"; mv result "$0/new/"; mkfifo pipe; ln -s "$0" link; rm pipe link
        file=$(mktemp); rm "$file"; echo x >"$1/.cache"; (sleep 60 & kill $!); cat "$2" >/dev/null"""
    done = ground.run("/bin/sh", "-c", script, at.workspace, at.home, at.log)
    assert (done.returncode, done.stderr) == (0, "")
    assert Path(f"{at.workspace}/new/result").read_text() == "done\n"


def test_behind_bwrap_it_has_its_input_folder_and_signals(by_bwrap: Ground) -> None:
    done = by_bwrap.shell("cat; pwd; grep SigIgn /proc/self/status; nosuch", input="from a pipe\n")
    said, rest = done.stdout.split("\n", 1)
    assert (done.returncode, said) == (127, "from a pipe")
    assert rest.startswith(os.fsencode(by_bwrap.places.tree).decode(**TEXT))
    assert int(rest.split()[-1], 16) & 0x7FFFFFFF == 0


@pytest.mark.parametrize("sandbox", ["unshare -Ur", "bwrap --unshare-user --bind / / --dev /dev"])
def test_another_sandbox_fits_inside(ground: Ground, sandbox: str) -> None:
    words = sandbox.split()
    if not shutil.which(words[0], path=PATH):
        pytest.skip(f"{words[0]} is not installed")
    done = ground.run(*words, "/bin/sh", "-c", 'echo x >>"$0" || echo fine', ground.places.log)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr


@pytest.mark.parametrize("sandbox", ["unshare -Ur", "bwrap --unshare-user --bind / / --dev /dev"])
def test_another_sandbox_fits_inside_bwrap(by_bwrap: Ground, sandbox: str) -> None:
    test_another_sandbox_fits_inside(by_bwrap, sandbox)


def test_a_script_without_a_first_line_and_a_missing_program_behave_as_in_a_shell(ground: Ground) -> None:
    script = Path(f"{ground.places.tree}/script")
    script.write_text("exit 9\n")
    script.chmod(0o755)
    assert ground.run(str(script)).returncode == 9
    for word, code, why in (("no-such-program", 127, "No such file"), ("/etc/passwd", 126, "Permission denied")):
        done = ground.run(word)
        assert (done.returncode, done.stderr.count("\n")) == (code, 1)
        assert f"overhand: cannot start {word}: {why}" in done.stderr


@pytest.mark.parametrize("user", USERS[:1], indirect=True)  # the shim is started by this process
def test_stopping_leaves_the_program_behind_bwrap_its_grace(by_bwrap: Ground, tmp_path: Path) -> None:
    test_stopping_leaves_the_program_its_grace(by_bwrap, tmp_path)


@pytest.mark.parametrize("user", USERS[:1], indirect=True)
@pytest.mark.parametrize("victim", ["pid", "shim"])
def test_behind_bwrap_a_killed_monitor_ends_the_program_and_a_killed_shim_does_not(
    by_bwrap: Ground, tmp_path: Path, victim: str
) -> None:
    mark = f"shield-{tmp_path.name}-{os.getpid()}"
    words = [*shield_words(plan_mounts(by_bwrap.walls), by_bwrap.bwrap), "/bin/sh", "-c"]
    words += [f"echo $$ >{tmp_path}/up.new; mv {tmp_path}/up.new {tmp_path}/up; exec sleep 600"]
    env = {"PATH": PATH, "OVERHAND_RUN": mark}
    start_detached(str(tmp_path), words, cwd=str(tmp_path), env=env)
    until((tmp_path / "up").exists)
    program = int((tmp_path / "up").read_text())
    os.kill(int((tmp_path / victim).read_text()), signal.SIGKILL)
    if victim == "pid":
        until(lambda: start_time(program) is None, "the end of the program")
        until(lambda: exit_code(str(tmp_path)) == 137, "the exit status")
    else:
        assert start_time(program) is not None
        assert stop_detached(str(tmp_path), f"OVERHAND_RUN={mark}", grace=30) == []
        assert start_time(program) is None


@pytest.mark.parametrize("user", USERS[:1], indirect=True)  # the shim is started by this process
def test_stopping_leaves_the_program_its_grace(ground: Ground, tmp_path: Path) -> None:
    plan = plan_mounts(ground.walls)
    script = f"trap 'echo saved >{tmp_path}/work; exit 5' TERM; touch {tmp_path}/ready; while :; do sleep 0.01; done"
    env = {"PATH": PATH, "OVERHAND_RUN": f"shield-{os.getpid()}"}
    words = [*shield_words(plan, ground.bwrap), "/bin/sh", "-c", script]
    shim = start_detached(str(tmp_path), words, cwd=str(tmp_path), env=env)
    until((tmp_path / "ready").exists)
    agent = int((tmp_path / "pid").read_text())
    if not ground.bwrap:
        assert os.readlink(f"/proc/{agent}/ns/mnt") != os.readlink("/proc/self/ns/mnt")
    assert stop_detached(str(tmp_path), f"OVERHAND_RUN=shield-{os.getpid()}", grace=30) == []
    assert wait_for_exit(str(tmp_path), shim, 30)
    assert exit_code(str(tmp_path)) == 5
    assert (tmp_path / "work").read_text() == "saved\n"


# what fails, fails before the program starts


def test_a_wall_that_cannot_be_put_up_starts_nothing(ground: Ground) -> None:
    gone, ran = f"{ground.places.base}/gone\nfar", Path(ground.places.home) / "ran"
    words = [*shield_words(Plan((("ro", gone),), "/")), "touch", str(ran)]
    done = subprocess.run([ground.python, *words[1:]], capture_output=True, **TEXT, check=False, **ground.outside)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (126, "", 1)
    assert "not started, because the shield failed: openat2" in done.stderr
    assert "No such file or directory" in done.stderr
    assert not ran.exists()


def test_an_installation_that_is_gone_starts_nothing(ground: Ground) -> None:
    words = [*shield_words(Plan((), "/")), "true"]
    words[words.index(os.path.dirname(shield.__file__))] = "/nowhere"
    done = subprocess.run([ground.python, *words[1:]], capture_output=True, check=False, **TEXT, **ground.outside)
    assert (done.returncode, done.stderr.count("\n")) == (126, 1)
    assert "not started, because the shield failed: ModuleNotFoundError" in done.stderr


def test_a_link_that_appears_after_planning_starts_nothing(ground: Ground) -> None:
    at = ground.places
    os.symlink(at.state, f"{at.home}/link")
    words = [*shield_words(Plan((("ro", f"{at.home}/link/p"),), "/")), "true"]
    done = subprocess.run([ground.python, *words[1:]], capture_output=True, **TEXT, check=False, **ground.outside)
    assert done.returncode == 126
    assert "Too many levels of symbolic links" in done.stderr


@pytest.mark.parametrize("name", ["missing", "file", "link", "link/below", "relative"])
def test_walls_that_would_not_hold_are_refused(ground: Ground, name: str) -> None:
    home = ground.places.home
    Path(f"{home}/file").touch()
    os.makedirs(f"{home}/elsewhere/below")
    os.symlink("elsewhere", f"{home}/link")
    path = name if name == "relative" else f"{home}/{name}"
    done = ground.run("true", walls=Walls((path,), (), (), "/"))
    assert done.returncode == 1
    why = {
        "missing": "doesn't exist",
        "file": "is not a folder",
        "relative": "is not an absolute path",
    }.get(name, f"goes through the link {home}/link, which an agent could replace".replace("\udcff", "\\udcff"))
    assert why in done.stderr


# the probe


def probed(ground: Ground, folder: str, *before: str, anew: bool = True) -> dict[str, str]:
    """What a process of its own finds out."""
    script = (
        "import sys, json; from overhand.system.shield import *\n"
        "print(json.dumps(probe_shield(sys.argv[1], anew=sys.argv[2] == 'True')._asdict()))"
    )
    argv = [*before, ground.python, "-c", script, folder, str(anew)]
    done = subprocess.run(argv, capture_output=True, **TEXT, check=True, **ground.outside)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_a_success_is_remembered_for_this_boot(ground: Ground) -> None:
    folder = ground.places.home
    found = probed(ground, folder)
    assert found["how"] == "exec"
    cache = Path(folder) / "shield.json"
    known = json.loads(cache.read_text())
    other = {"scoped": "open", "open": "scoped"}[found["signals"]]
    cache.write_text(json.dumps({**known, "signals": other}))
    assert probed(ground, folder)["signals"] == other  # it was not tried again
    for damaged in (json.dumps({"key": "another boot", "signals": other}), "{", "[]", '"x"', "\0"):
        cache.write_text(damaged)
        assert probed(ground, folder) == found
    assert not [name for name in os.listdir(folder) if name.startswith("shield-")]


def test_a_folder_that_is_missing_is_not_made(ground: Ground) -> None:
    folder = f"{ground.places.home}/missing"
    assert probed(ground, folder)["how"] == "exec"
    assert not os.path.exists(folder)


def test_where_no_more_namespaces_are_allowed_it_is_off_and_tried_again(ground: Ground) -> None:
    if not shutil.which("unshare"):
        pytest.skip("unshare(1) is not installed")
    limited = ["unshare", "-Ur", "/bin/sh", "-c", 'echo 0 >/proc/sys/user/max_user_namespaces; exec "$@"', "x"]
    found = probed(ground, ground.places.home, *limited)
    assert found == {
        "how": "off",
        "why": "no more user namespaces are allowed (user.max_user_namespaces)",
        "signals": "open",
        "bwrap": "",
    }
    assert probed(ground, ground.places.home)["how"] == "exec"  # another user namespace, so another key


def test_where_the_kernel_is_too_old_bwrap_does_it(by_bwrap: Ground) -> None:
    older = [by_bwrap.python, old_kernel.__file__]
    found = probed(by_bwrap, by_bwrap.places.home, *older)
    assert (found["how"], found["why"], found["bwrap"]) == ("bwrap", "", by_bwrap.bwrap)
    without = ["env", f"PATH={by_bwrap.places.home}", *older]
    found = probed(by_bwrap, by_bwrap.places.tree, *without)
    assert (found["how"], found["bwrap"]) == ("off", "")
    assert found["why"].startswith("the kernel is too old, Linux 5.12 is needed")


def test_a_failure_is_remembered_until_it_is_tried_anew(ground: Ground) -> None:
    folder = ground.places.home
    found = probed(ground, folder)
    cache = Path(folder) / "shield.json"
    failed = {"how": "off", "why": "as it was once", "signals": "open", "bwrap": ""}
    cache.write_text(json.dumps({**json.loads(cache.read_text()), **failed}))
    assert probed(ground, folder, anew=False) == failed
    assert probed(ground, folder) == found
    assert probed(ground, folder, anew=False) == found


@pytest.mark.parametrize(
    ("error", "settings", "why"),
    [
        ("/proc/self/uid_map: Permission denied", {"kernel/apparmor_restrict_unprivileged_userns": "1"}, "AppArmor"),
        ("mount: Permission denied", {"kernel/apparmor_restrict_unprivileged_userns": "1"}, "AppArmor"),
        ("unshare: Operation not permitted", {"kernel/unprivileged_userns_clone": "0"}, "userns_clone=0"),
        ("unshare: Operation not permitted", {}, "not allowed here, as in most containers"),
        ("unshare: No space left on device", {}, "user.max_user_namespaces"),
        ("mount_setattr /x: Function not implemented", {}, "Linux 5.12"),
        ("chdir /x: No such file", {}, "chdir /x: No such file"),
    ],
)
def test_the_reason_is_named(error: str, settings: dict[str, str], why: str) -> None:
    assert why in shield.explain_failure(error, settings)


# planning, without a kernel

PARTS = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))
SETS = st.lists(PARTS, max_size=4, unique=True)


@given(SETS, SETS, SETS, st.sets(PARTS))
def test_the_innermost_wall_decides_and_the_way_to_it_is_pinned(
    read_only: list[str], writable: list[str], hidden: list[str], firm: set[str]
) -> None:
    plan = plan_mounts(
        Walls(tuple(read_only), tuple(writable), tuple(hidden), "/"),
        lambda path: Entry("folder", "", path not in firm, (1, hash(path))),
        "",
    )
    given_walls = [("ro", path) for path in read_only] + [("rw", path) for path in writable]
    given_walls += [("hide", path) for path in hidden]
    if plan.why:
        assert plan.mounts == ()
        assert "both" in plan.why or "hidden" in plan.why
        return
    paths = [path for _, path in plan.mounts]
    assert paths == sorted(set(paths), key=lambda path: (path.count("/"), path))
    for how, path in given_walls:
        assert effect(path, plan) in {how, "hide"}, (how, path)
    for how, path in plan.mounts:
        if how in ("ro", "hide"):
            for above in ways(path)[:-1]:
                renamable = os.path.dirname(above) not in firm and effect(os.path.dirname(above), plan) == "rw"
                assert above in paths or not renamable, above


def ways(path: str) -> list[str]:
    """A path and those above it, outermost first."""
    parts = path.split("/")[1:]
    return ["/" + "/".join(parts[: count + 1]) for count in range(len(parts))]


def effect(path: str, plan: Plan) -> str:
    """What a program may do at a path after these mounts: the innermost counts, and nothing is below a hidden one."""
    now = "rw"
    for how, at in plan.mounts:
        if at in ways(path) and how != "pin" and now != "hide":
            now = how
    return now


def test_links_in_places_of_root_are_followed() -> None:
    there: dict[str, bool | str] = {
        "/": False,
        "/home": "var/home",
        "/var": False,
        "/var/home": False,
        "/var/home/u": True,
    }

    def look(path: str) -> Entry:
        found = there.get(path)
        if isinstance(found, str):
            return Entry("link", found)
        return Entry("missing") if found is None else Entry("folder", "", found, (1, hash(path)))

    assert plan_mounts(Walls(("/home/u",), (), (), "/"), look, "").mounts == (("ro", "/var/home/u"),)
    there["/var/home/u/s"] = False
    assert plan_mounts(Walls(("/home/./u/../u/s",), (), (), "/"), look, "").mounts == (("ro", "/var/home/u/s"),)
    there["/loop"] = "/loop"
    assert "too many links" in plan_mounts(Walls(("/loop",), (), (), "/"), look, "").why
    assert "root folder" in plan_mounts(Walls(("/home/../..",), (), (), "/"), look, "").why


# words


def test_a_setting_can_be_raised_by_others_but_not_lowered() -> None:
    assert shield.wanted_shield(None) == "auto"
    assert shield.wanted_shield("off") == "off"
    assert shield.wanted_shield("off", None, "require") == "require"
    assert shield.wanted_shield("auto", "off") == "auto"
    assert shield.wanted_shield(None, "off", "off") == "auto"


def test_one_line_says_what_held_and_what_was_open(tmp_path: Path) -> None:
    held, nothing = ShieldProbe("exec", "", "scoped"), Plan((), "/")
    root = ", as root: against mistakes only" if AM_ROOT else ""
    (tmp_path / "agent").touch()
    env = {"XDG_RUNTIME_DIR": str(tmp_path), "SSH_AUTH_SOCK": str(tmp_path / "agent")}
    others = [name for name in shield.open_sockets(env) if name != "ssh-agent"]

    def say(probe: ShieldProbe, plan: Plan) -> str:
        return shield_line(shield.shield_facts(probe, plan, ["record", "trust"], env))

    doors = ", ".join([*others, "ssh-agent"])
    assert say(held, nothing) == f"shielded{root}; read-only: record, trust; open: network, HOME, {doors}"
    assert f"HOME, signals, {doors}" in say(ShieldProbe("exec"), nothing)
    assert say(ShieldProbe("off", "it needs Linux"), nothing) == "not shielded: it needs Linux"
    assert say(held, Plan((), "/", "x goes through a link")) == "not shielded: x goes through a link"


def test_sockets_that_are_there_are_named(tmp_path: Path) -> None:
    for name in ("bus", "docker.sock", "agent"):
        (tmp_path / name).touch()
    env = {"XDG_RUNTIME_DIR": str(tmp_path), "SSH_AUTH_SOCK": str(tmp_path / "agent")}
    assert {"docker.sock", "D-Bus", "ssh-agent"} <= set(shield.open_sockets(env))


def test_the_page_lists_every_attack_and_how_it_ended() -> None:
    page = (SOURCE.parent / "docs/security.md").read_text(encoding="utf-8")
    rows = [f"| {one.row} | {'held' if one.result == 'signals' else one.result} |" for one in ATTACKS.values()]
    assert [row for row in rows if row not in page] == []
