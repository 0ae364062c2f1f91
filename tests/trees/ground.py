"""A user's checkout with work of a task beside it, made by plain git: all that a landing needs.

Run as a program it lands, or recovers, in a process of its own: `ground.py land|recover FOLDER`
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from overhand.system import Git
from overhand.trees.committer import Committer, Made
from overhand.trees.land import Landed, Landing, land_work
from overhand.trees.merge import Merged, merge_trees
from overhand.trees.recover import Recovered, read_head, recover_landings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PROGRAM = str(Path(__file__))
CONFIG = "[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n"


@dataclass(frozen=True)
class Link:
    """A symbolic link, as the content of a path."""

    to: str


@dataclass(frozen=True)
class Program:
    """An executable file."""

    text: str


Content = str | bytes | Link | Program | None  # None: the path is removed


def put(top: Path, files: Mapping[str, Content]) -> None:
    """Write, link or remove files; whatever is in the way is removed first."""
    for name, content in files.items():
        path = top / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        if content is None:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Link):
            path.symlink_to(content.to)
        elif isinstance(content, Program):
            path.write_text(content.text)
            path.chmod(0o755)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)


def seen(top: Path) -> dict[str, tuple[int, str]]:
    """Every file below a folder but git's and Overhand's own: its type and permissions, and its content or target."""
    found = {}
    for folder, names, files in os.walk(top):
        names[:] = [name for name in names if name != ".git" and not (folder == str(top) and name == ".overhand")]
        for name in (*files, *(one for one in names if os.path.islink(f"{folder}/{one}"))):
            path = Path(folder, name)
            mode = path.lstat().st_mode
            content = os.readlink(path) if stat.S_ISLNK(mode) else path.read_bytes().decode("latin-1")
            found[str(path.relative_to(top))] = (mode & 0o170111, content)
    return found


class Ground:
    """`project` is the user's, `ours` our git dir of the task, `home` the user's; the task's work is a tree W."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.top, self.ours, self.home = folder / "project", folder / "ours", folder / "home"
        self.landings = self.top / ".overhand/landing"

    @classmethod
    def make(cls, folder: Path, files: Mapping[str, Content], *, init: Sequence[str] = ()) -> Ground:
        ground = cls(folder)
        ground.home.mkdir(parents=True)
        (ground.home / ".gitconfig").write_text(CONFIG)
        ground.landings.mkdir(parents=True)
        (ground.landings / "lock").touch()
        ground.git("init", "-q", "-b", "main", *init)
        (ground.top / ".git/info").mkdir(exist_ok=True)
        (ground.top / ".git/info/exclude").write_text(".overhand/\n*.ignored\n")
        put(ground.top, files)
        if files:
            ground.commit("start")
        return ground

    def copy(self, folder: Path) -> Ground:
        """The same elsewhere; git's index has to learn that its files are other ones."""
        shutil.copytree(self.folder, folder, symlinks=True)
        other = Ground(folder)
        if other.ours.exists():
            (other.ours / "objects/info/alternates").write_text(f"{other.top}/.git/objects\n")
        other.git("update-index", "-q", "--refresh", check=False)
        return other

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "XDG_CONFIG"))}
        return {**kept, "HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home / ".config")}

    def git(self, *words: str, check: bool = True, given: bytes | None = None, **variables: str) -> str:
        """Plain git in the user's checkout, as a person types it."""
        done = subprocess.run(
            ["git", *words],
            cwd=self.top,
            input=given,
            capture_output=True,
            check=False,
            env={**self.environment, **variables},
            timeout=120,
        )
        assert not check or done.returncode == 0, (words, done.stderr)
        return done.stdout.decode("utf-8", "surrogateescape").strip()

    def commit(self, message: str) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    # the task

    def start(self) -> str:
        """Make our git dir, which borrows the project's objects, and the snapshot S: HEAD with the user's changes."""
        (self.ours / "objects/info").mkdir(parents=True)
        (self.ours / "objects/pack").mkdir()
        (self.ours / "refs/heads").mkdir(parents=True)
        (self.ours / "HEAD").write_text("ref: refs/heads/task\n")
        shutil.copytree(self.top / ".git/info", self.ours / "info")
        hashes = self.git("rev-parse", "--show-object-format")
        more = "" if hashes == "sha1" else f"[extensions]\n\tobjectFormat = {hashes}\n"
        version = "0" if hashes == "sha1" else "1"
        (self.ours / "config").write_text(f"[core]\n\trepositoryformatversion = {version}\n\tbare = false\n{more}")
        (self.ours / "objects/info/alternates").write_text(f"{self.top}/.git/objects\n")
        index = self.folder / "carry.index"
        if (self.top / ".git/index").exists():
            shutil.copy2(self.top / ".git/index", index)
        self._ours("add", "-A", index=index, work_tree=self.top)
        tree = self._ours("write-tree", index=index)
        head = self.git("rev-parse", "-q", "--verify", "HEAD", check=False)
        parents = ("-p", head) if head else ()
        base = self._ours("commit-tree", tree, *parents, "-m", "S")
        self._ours("update-ref", "refs/overhand/base", base)
        return base

    @property
    def base(self) -> str:
        return self._ours("rev-parse", "refs/overhand/base")

    def _ours(self, *words: str, index: Path | None = None, work_tree: Path | None = None) -> str:
        places = {"GIT_DIR": str(self.ours), **({"GIT_INDEX_FILE": str(index)} if index else {})}
        places |= {"GIT_WORK_TREE": str(work_tree)} if work_tree else {}
        return self.git(*words, check=True, given=None, **places)

    def work(self, files: Mapping[str, Content]) -> str:
        """The tree W: what the agent's files are like, when it has changed these."""
        if not self.ours.exists():
            self.start()
        tree, index = self.folder / "tree", self.folder / "tree.index"
        tree.mkdir(exist_ok=True)
        settings = ("-c", "core.autocrlf=false", "-c", "core.sparseCheckout=false")
        if not index.exists():
            self._ours(*settings, "read-tree", "--reset", "-u", "refs/overhand/base", index=index, work_tree=tree)
        put(tree, files)
        self._ours(*settings, "add", "-A", "-f", index=index, work_tree=tree)
        result = self._ours("write-tree", index=index)
        (self.folder / "W").write_text(result)
        return result

    def agent_commit(self, files: Mapping[str, Content], message: str, parent: str, **variables: str) -> str:
        """A commit of the agent's on top of another one."""
        words = ("commit-tree", self.work(files), "-p", parent, "-m", message)
        return self.git(*words, check=True, given=None, GIT_DIR=str(self.ours), **variables)

    # the landing

    @property
    def checkout(self) -> Git:
        git_dir = self.git("rev-parse", "--absolute-git-dir")
        return Git(git_dir, str(self.top), variables=(("HOME", str(self.home)), ("XDG_CONFIG_HOME", str(self.home))))

    @property
    def our_git(self) -> Git:
        return Git(str(self.ours), variables=(("HOME", str(self.home)), ("XDG_CONFIG_HOME", str(self.home))))

    def merge(self) -> Merged:
        """What the task's work becomes on top of the user's HEAD."""
        head = read_head(self.checkout)
        empty = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
        return merge_trees(self.our_git, self.base, head.commit or empty, (self.folder / "W").read_text())

    def make_commit(self, message: str = "Work of a task") -> Made:
        merged = self.merge()
        assert not merged.conflicts, merged
        return Committer(self.checkout, self.our_git).squash(read_head(self.checkout).commit, merged.tree, message)

    def landing(self, new: str = "") -> Landing:
        head = read_head(self.checkout)
        commit = new or self.make_commit().commit
        return Landing("t1", self.checkout, self.our_git, str(self.landings), head, head.commit, commit)

    def land(self) -> Landed:
        return land_work(self.landing())

    def recover(self) -> list[Recovered]:
        return recover_landings(self.checkout, str(self.landings))

    def prepare(self) -> str:
        """Make the commit that a process of its own is to land."""
        commit = self.make_commit().commit
        (self.folder / "N").write_text(commit)
        return commit

    def run(self, what: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Land or recover in a process of its own."""
        return subprocess.run(
            [sys.executable, PROGRAM, what, str(self.folder)],
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    # looking

    def files(self) -> dict[str, tuple[int, str]]:
        return seen(self.top)

    def state(self) -> dict[str, object]:
        """Everything of the user's that a landing could touch."""
        return {
            "files": self.files(),
            "index": self.git("ls-files", "-s", "-v"),
            "status": self.git("status", "--porcelain=v1", "--ignored"),
            "head": self.git("rev-parse", "-q", "--verify", "HEAD", check=False),
            "branch": self.git("symbolic-ref", "-q", "HEAD", check=False),
            "stash": self.git("stash", "list"),
            "refs": self.git("for-each-ref"),
        }

    def left(self) -> list[str]:
        """What a landing left: locks in the git dir, and its own folders."""
        git_dir = self.top / ".git"
        locks = [str(path.relative_to(self.top)) for path in git_dir.rglob("*.lock")]
        spare = [str(path.relative_to(self.top)) for path in git_dir.glob("overhand-*")]
        spare += [path.name for path in git_dir.glob("objects/pack/*.keep")]
        own = [path.name for path in self.landings.iterdir() if path.name != "lock"] if self.landings.exists() else []
        return [*locks, *spare, *own]


def main(what: str, folder: str) -> None:
    ground = Ground(Path(folder))
    if what == "land":
        land_work(ground.landing((ground.folder / "N").read_text()))
    else:
        ground.recover()


if __name__ == "__main__":
    main(*sys.argv[1:])
