"""A project that came from somewhere else runs nothing, touches nothing and sends nothing, whatever it brings along.

In each of them a user types everything that one may type first.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from overhand.testing.project import Ran
from support.clones import TASK, VARIANTS, Clone, begin
from support.scene import until
from support.soak import variants
from support.warm import Project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECRET = "correct-horse-battery"  # noqa: S105 -- of a test
ITEM = "requests/FIX_REQUEST_X.md#fix"
SOON = ("--timeout", "100ms")
LOOKS: list[tuple[str, ...]] = [
    (), ("list",), ("list", "--prepared"), ("list", "--live"), ("show", "1"), ("show", TASK), ("wait", "1", *SOON),
    ("wait", TASK, *SOON), ("monitor", "1", *SOON), ("monitor", TASK, *SOON), ("log", "1"), ("log", TASK), ("doctor",),
    ("tag", "find", "#needs-*"), ("tag", "find", "#delegated-*"), ("item", "list"), ("plan", "check", "plan.yaml"),
    ("plan", "check", "plan.json"), ("plan", "show", TASK), ("completion", "bash"), ("agents",), ("answer",),
    ("checkpoint", "list", TASK),
]  # fmt: skip
CHANGES: list[tuple[str, ...]] = [
    ("doctor", "--fix"), ("item", "approve"), ("item", "approve", ITEM), ("answer", "1", "x"), ("answer", TASK, "x"),
    ("run", "1"), ("resume", "1"), ("resume", TASK), ("send", TASK, "x"), ("step", TASK, "1", "done"), ("check", TASK),
    ("stop", "--all"), ("stop", TASK), ("clean", "--yes"), ("plan", "run", "plan.yaml"), ("plan", "run", "plan.json"),
    ("trust",),
]  # fmt: skip
OURS = {".agent-workspaces", ".overhand"}  # new entries are made below these only
REPLACED = {".agent-workspaces/.project", ".agent-workspaces/.gitignore"}  # another project's id; a link to nowhere
CONTROLS = {chr(code) for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"} | {"\u202e", "\u2066"}


@dataclass
class Victim:
    """A user with files, a project, an agent, and sockets on which nobody should say anything."""

    project: Project  # the hostile one
    folder: Path
    unix: socket.socket
    tcp: socket.socket

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def environment(self) -> dict[str, str]:
        return {"HOME": str(self.home), "VICTIM_TOKEN": SECRET, "PATH": f".::{os.environ['PATH']}"}

    def type(self, *words: str) -> Ran:
        return self.project.run(*words, env=self.environment, timeout=60)

    def type_cold(self, *words: str) -> Ran:
        """In an interpreter of its own, which imports everything anew."""
        env = {**self.project.environment(), **self.environment}
        argv = [sys.executable, "-P", "-m", "overhand", *words]
        ran = subprocess.run(argv, cwd=self.project.path, env=env, capture_output=True, check=False, timeout=60)
        return Ran(ran.returncode, ran.stdout.decode(), ran.stderr.decode())

    def starts(self) -> int:
        """How often the user's own agent was started."""
        trail = self.folder / "trail"
        return len(trail.read_text().splitlines()) if trail.exists() else 0


@pytest.fixture
def victim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Victim]:
    state, config, home = tmp_path / "state", tmp_path / "config", tmp_path / "home"
    for name in [name for name in os.environ if name.startswith("OVERHAND_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config))
    (home / "Documents/folder").mkdir(parents=True)
    (home / ".bashrc").write_text("alias ll='ls -l'\n")
    (home / ".gitconfig").write_text("[user]\n\tname = Me\n\temail = me@example.com\n")
    (home / "secret.md").write_text(f"# Task Handoff\n\n## Task\n{SECRET}\n")
    for name in ("notes.md", "Documents/notes.md", "Documents/HANDOFF.md"):
        (home / name).write_text(f"# Mine {SECRET}\n\n**Tags**: #needs-fix\n\n- mine {SECRET} #delegated-fix\n")
    for name in ("001.question", "b.txt"):
        (home / "Documents" / name).write_text(SECRET)
    done = "printf '# Task Complete: x\\n\\n**Status:** completed\\n\\n## Summary\\nDone.\\n' >\\\"$OVERHAND_OUTPUT\\\""
    command = f'["/bin/sh", "-c", "echo started >>{tmp_path}/trail; {done}"]'
    (config / "overhand/agents").mkdir(parents=True)
    (config / "overhand/config.toml").write_text('default_agent = "mine"\n[limits]\ndebounce = "0.2s"\n')
    (config / "overhand/agents/mine.md").write_text(
        f"---\nname: mine\ndescription: Mine.\noverhand: {{driver: command, command: {command}}}\n---\nWork.\n"
    )
    other = Project(home / "other", config, trust=False, state_home=state)
    other.path.mkdir()
    other.run("delegate", "A task of the user's own", "--agent", "mine", "--no-start", check=True)
    with ExitStack() as stack:
        unix, tcp = socket.socket(socket.AF_UNIX), socket.create_server(("127.0.0.1", 0))
        for one in (unix, tcp):
            stack.enter_context(one)
        (tmp_path / "s").mkdir()
        folder = os.open(tmp_path / "s", os.O_RDONLY)
        stack.callback(os.close, folder)
        unix.bind(f"/proc/self/fd/{folder}/sock")
        unix.listen(100)
        for one in (unix, tcp):
            one.setblocking(False)
        project = Project(tmp_path / "clone", config, trust=False, state_home=state)
        try:
            yield Victim(project, tmp_path, unix, tcp)
        finally:
            project.cleanup()
            shutil.rmtree(state, ignore_errors=True)


def contents(folder: Path) -> dict[str, tuple[object, ...]]:
    """Everything below a folder, without following or opening what is no regular file."""
    found: dict[str, tuple[object, ...]] = {}
    for base, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = os.path.join(base, name)
            seen = os.lstat(path)
            kept: tuple[object, ...] = (seen.st_mode, seen.st_uid)
            if stat.S_ISREG(seen.st_mode):
                kept = (*kept, seen.st_mtime_ns, seen.st_ino, Path(path).read_bytes())
            elif stat.S_ISLNK(seen.st_mode):
                kept = (*kept, os.readlink(path))
            found[os.path.relpath(path, folder)] = kept
    return {name: kept for name, kept in found.items() if name != ".git/index"}


def arrive(victim: Victim, name: str) -> Clone:
    """The project of this variant in the user's hands, by way of git, a copy or an archive."""
    kind = VARIANTS[name]
    where = victim.folder / "attacker/clone"
    where.parent.mkdir()
    facts = (victim.home, f"touch {victim.folder}/PWNED", victim.folder / "s", victim.tcp.getsockname()[1])
    origin, here = Clone(where, *facts), Clone(victim.project.path, *facts)
    begin(origin)
    kind.plant(origin)
    if kind.how == "clone":
        origin.git("add", "-Af")
        origin.git("commit", "-qm", "x")
        subprocess.run(["git", "clone", "-q", where, here.path], check=True, capture_output=True)
    elif kind.how == "copy":
        subprocess.run(["cp", "-a", where, here.path], check=True)
    else:
        archive = victim.folder / "archive.tar"
        subprocess.run(["tar", "-C", where.parent, "-cf", archive, "clone"], check=True)
        subprocess.run(["tar", "-C", here.path.parent, "-xf", archive], check=True)
    shutil.rmtree(where)
    (victim.folder / "PWNED").unlink(missing_ok=True)  # the attacker's own git
    if kind.then is not None:
        kind.then(here)
    return here


def check_output(name: str, words: tuple[str, ...], ran: Ran) -> None:
    said = f"{ran.out}{ran.err}"
    assert "Traceback" not in said, (words, said[-3000:])
    assert "mistake in Overhand" not in said, (words, said[-3000:])
    assert not CONTROLS & set(said), (words, sorted(CONTROLS & set(said)), said[:3000])
    if words[0:1] != ("agents",) or "link" in name:
        assert SECRET not in said, (words, said[:3000])
    assert ran.code in (0, 1, 2, 3, 4, 5, 124), (words, ran)


def needs_root(name: str) -> None:
    if "another user" in name and os.geteuid() != 0:
        pytest.skip("giving files to another user needs root")


@pytest.mark.parametrize("name", variants(VARIANTS, every=4))
def test_it_runs_touches_and_sends_nothing(victim: Victim, name: str, tally: Callable[[str, int], None]) -> None:
    needs_root(name)
    clone = arrive(victim, name)
    victim.project.path = clone.path / VARIANTS[name].below
    users, brought = contents(victim.home), contents(clone.path)
    records = contents(victim.folder / "state")

    def check(words: tuple[str, ...]) -> None:
        ran = victim.type_cold(*words) if "modules" in name else victim.type(*words)
        check_output(name, words, ran)
        found = [one for one in (victim.folder / "PWNED", clone.path / "PWNED") if one.exists()]
        assert not found, f"{words} ran a command"
        assert victim.starts() == 0, f"{words} started an agent"
        assert contents(victim.home) == users, f"{words} changed a file of the user"

    tally("Hostile clones", 1)
    for words in LOOKS:
        check(words)
    assert contents(clone.path) == brought, "a look changed the project"
    assert contents(victim.folder / "state") == records, "a look changed the record"
    for words in CHANGES:
        check(words)
    watched_tags(victim, check)
    rows = json.loads(victim.type("list", "--json").out)["tasks"]
    assert [row for row in rows if row["status"] or row["runs"] or row["run_state"] not in (None, "prepared")] == []
    assert all(row["agent"] == "outside" or row["headline"] for row in rows)
    own = victim.type("delegate", "My own", "--agent", "mine", "--wait", "--json")  # starts a supervisor
    check_output(name, ("delegate",), own)
    assert victim.starts() == (own.code == 0), "only what the user asked for"
    assert not (victim.folder / "PWNED").exists()
    assert contents(victim.home) == users
    after = contents(clone.path)
    replaced = {path for path in brought if after.get(path) != brought[path]}
    assert replaced <= REPLACED, "what came stays as it was"
    below = VARIANTS[name].below
    new = {path.removeprefix(f"{below}/").split("/")[0] for path in after.keys() - brought.keys()}
    assert new <= OURS, new
    for one in (victim.unix, victim.tcp):
        with pytest.raises(BlockingIOError):
            one.accept()
    logs = [path.read_text() for path in (victim.folder / "state").rglob("supervisor/log")]
    assert not [log for log in logs if "Traceback" in log], logs


def watched_tags(victim: Victim, check: Callable[[tuple[str, ...]], None]) -> None:
    """The tag daemon is switched on, reads every tag, and is switched off."""
    check(("daemon", "start"))

    def has_looked() -> bool:
        now = json.loads(victim.type("daemon", "status", "--json").out)
        looked = [json.loads(path.read_text())["known"] for path in (victim.folder / "state").rglob("sightings")]
        return not now["running"] or (not now["pending"] and any(looked))

    until(has_looked, "a look at all tags")
    check(("daemon", "status"))
    check(("daemon", "stop"))


@pytest.mark.parametrize(
    "name",
    [
        "a git configuration", "an included configuration", "attributes and a filter", "a project whose git is a file",
        "an embedded bare repository", "a gitfile to a repository in the project", "a submodule",
    ],
)  # fmt: skip
def test_plain_git_would_run_it(victim: Victim, name: str) -> None:
    """What is tried above is real."""
    clone = arrive(victim, name)
    if name == "attributes and a filter":
        (clone.path / "README.md").write_text("# Changed\n")
    subprocess.run(["git", "status"], cwd=clone.path / VARIANTS[name].below, capture_output=True, check=False)
    assert (victim.folder / "PWNED").exists()
