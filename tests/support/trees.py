"""A user with a repository: a remote, a stash, hooks, a submodule, uncommitted files; and trees made from it."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from overhand.trees.create import Request, create_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.trees.tree import Tree

USER = """\
[user]
	name = Test
	email = test@example.com
[protocol "file"]
	allow = always
[init]
	defaultBranch = main
"""


class Ground:
    """A home folder, a project in it, and the places where trees are made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home, self.top, self.state = folder / "home", folder / "home/my project", folder / "state"
        self.top.mkdir(parents=True)
        self.state.mkdir(mode=0o700)
        (self.home / ".gitconfig").write_text(USER)

    def environment(self) -> dict[str, str]:
        """A clean one, with the user's home."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "XDG_", "OVERHAND_", "PYTHON"))}
        return {**kept, "HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1", "GIT_EDITOR": "true"}

    def git(self, *words: str, cwd: Path | str | None = None, check: bool = True, given: str = "") -> str:
        """Plain git, as a person or an agent types it; what it prints."""
        done = self.try_git(*words, cwd=cwd, given=given)
        assert not check or done.returncode == 0, f"git {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout.rstrip("\n")

    def try_git(self, *words: str, cwd: Path | str | None = None, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["git", *words],
            cwd=cwd or self.top,
            env=self.environment(),
            input=given,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=False,
            timeout=120,
        )

    def write(self, name: str, data: str | bytes = "text\n", *, below: Path | str | None = None) -> Path:
        path = Path(below or self.top) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    def commit(self, message: str = "more", *, cwd: Path | str | None = None) -> str:
        self.git("add", "-A", cwd=cwd)
        self.git("commit", "-q", "-m", message, cwd=cwd)
        return self.git("rev-parse", "HEAD", cwd=cwd)

    def begin(self, *init: str) -> None:
        """Two commits and an ignore file."""
        self.git("init", "-q", *init)
        self.write(".gitignore", "*.log\nbuild/\n.env\n")
        self.write("src/one.py", "one = 1\n")
        self.write("src/two.py", "two = 2\n")
        self.write("docs/read me.md", "# Read me\n")
        self.commit("first")
        self.write("src/three.py", "three = 3\n")
        self.commit("second")

    def begin_fully(self) -> None:
        """Everything that a repository of a user can have."""
        self.begin()
        library = self.folder / "library"
        library.mkdir()
        self.git("init", "-q", cwd=library)
        self.write("lib.py", "lib = 1\n", below=library)
        self.commit("library", cwd=library)
        self.git("submodule", "--quiet", "add", str(library), "vendor/lib")
        self.commit("submodule")
        far = self.folder / "far.git"
        self.git("clone", "-q", "--bare", str(self.top), str(far))
        self.git("remote", "add", "origin", str(far))
        self.git("fetch", "-q", "origin")
        self.git("branch", "-q", "--set-upstream-to=origin/main")
        self.git("remote", "set-head", "origin", "main")
        self.git("branch", "feature")
        self.git("tag", "v1")
        self.write("src/one.py", "stashed = 1\n")
        self.git("stash", "-q")
        self.write("hook-ran.log", "")
        for name in ("pre-commit", "post-checkout", "reference-transaction", "post-index-change", "pre-push"):
            hook = self.write(f".git/hooks/{name}", f'#!/bin/sh\necho {name} >>"{self.top}/hook-ran.log"\n')
            hook.chmod(0o755)

    def make_dirty(self) -> None:
        """Uncommitted files of every kind."""
        self.write("src/one.py", "one = 'changed'\n")
        self.write("src/two.py", "two = 'staged'\n")
        self.git("add", "src/two.py")
        self.write("src/two.py", "two = 'staged, then changed'\n")
        (self.top / "src/three.py").unlink()
        self.write("new/staged.py", "staged = 1\n")
        self.git("add", "new/staged.py")
        self.write("new/untracked ü.txt", "untracked\n")
        self.write("program", "#!/bin/sh\n").chmod(0o755)
        (self.top / "link").symlink_to("src/one.py")
        self.write("noise.log", "ignored\n")
        self.write(".env", "SECRET=1\n")

    def request(self, number: int = 1, **options: object) -> Request:
        record = self.state / f"tasks/task-{number}"
        path = self.state / f"trees/project-0123abcd/{number}-do-it"
        return Request(str(self.top), f"{record}/git", str(path), f"task-{number}", **options)  # type: ignore[arg-type]

    def tree(self, number: int = 1, **options: object) -> Tree:
        return create_tree(self.request(number, **options))


class Picture:
    """Names, modes and content of everything below some folders; `changes` reads only what was touched since."""

    def __init__(self, *folders: Path | str) -> None:
        self.folders = folders
        self.stamps = dict(self._walk())
        self.files = {path: (about.st_mode, content(path, about)) for path, about in self.stamps.items()}

    def _walk(self) -> Iterator[tuple[str, os.stat_result]]:
        for folder in self.folders:
            for at, names, files in os.walk(folder):
                for name in (*names, *files):
                    path = os.path.join(at, name)
                    yield path, os.lstat(path)

    def changes(self) -> dict[str, str]:
        """What differs by now, by path: new, gone or changed."""
        now = dict(self._walk())
        found = dict.fromkeys((path for path in now if path not in self.stamps), "new")
        found |= dict.fromkeys((path for path in self.stamps if path not in now), "gone")
        for path, about in now.items():
            if path in self.stamps and touched(about) != touched(self.stamps[path]):
                same = (about.st_mode, content(path, about)) == self.files[path]
                found |= {} if same else {path: "changed"}
        return found


def touched(about: os.stat_result) -> tuple[int, ...]:
    return about.st_mode, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def content(path: str, about: os.stat_result) -> bytes:
    if stat.S_ISLNK(about.st_mode):
        return os.fsencode(os.readlink(path))
    return Path(path).read_bytes() if stat.S_ISREG(about.st_mode) else b""


def files_of(folder: Path | str) -> dict[str, tuple[bool, bytes]]:
    """The files of a checkout or tree: whether they are programs, and their content; links by where they lead."""
    found = {}
    for path, (mode, data) in Picture(folder).files.items():
        name = os.path.relpath(path, folder)
        if name.split("/")[0] != ".git" and "/.git" not in name and not stat.S_ISDIR(mode):
            found[name] = (bool(mode & 0o100) and not stat.S_ISLNK(mode), data)
    return found
