"""What is known about a task's tree: kept as JSON and refs in a git dir of ours, which no agent can write.

Three places belong to a tree. The project's repository lends its objects and has one ref, `refs/overhand/base/<task>`.
`ours` is the git dir in the task's record: the start, our index, what was made of it. `path` is the agent's.

ours/tree.json            what this page describes; there is a tree when it exists
ours/refs/overhand/base   the start: the commit that the tree was made from, with the user's uncommitted files
ours/refs/overhand/tip    the agent's last commit, if its commits could be taken
ours/refs/overhand/w      the tree's files as they were last found, as a commit
ours/refs/overhand/kept/N earlier ones that must not get lost
ours/index                the start, with the stamps of the files in the tree
ours/dot-git/             what we wrote into `path/.git`, to be compared after a run
ours.lock                 held while one of these is changed, also by a git whose caller was killed
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from overhand.errors import Damaged, NotFound, Refused
from overhand.system import OUR_IDENTITY, Git, Lock, names_in, read_file, remove_file, write_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

STATE = "tree.json"
BASE, TIP, LAST = "refs/overhand/base", "refs/overhand/tip", "refs/overhand/w"
KEPT = "refs/overhand/kept"
_ASIDE = "aside"
_MAX_STATE = 64 << 20
_LOCK_PATIENCE = 120.0


@dataclass(frozen=True)
class Left:
    """A file that is not part of a snapshot, and why."""

    path: str
    why: str


@dataclass(frozen=True)
class Changed:
    """A file that differs between two snapshots; its status as git prints it: A, M, D or T."""

    status: str
    path: str


@dataclass(frozen=True)
class Behind:
    """How far the start is behind the branch that the project follows, as of the last fetch."""

    upstream: str
    commits: int
    fetched: float | None  # seconds since 1970; None if there was no fetch


@dataclass(frozen=True)
class Submodule:
    """An initialised submodule that the tree has, too."""

    path: str
    name: str
    commit: str


@dataclass(frozen=True)
class Tree:
    """A task's tree, and how it was made."""

    task: str
    ours: str
    path: str
    top: str  # of the user's checkout
    git_dir: str  # of the user's checkout
    common_dir: str  # of the user's repository
    branch: str  # the tree's own, without refs/heads/
    format: str  # of its object ids: sha1 or sha256
    prefix: str = ""  # the project's folder in the checkout, and so in the tree
    head: str = ""  # the commit of the project that the start is built on; empty in a repository without commits
    base: str = ""  # the commit of the start
    base_tree: str = ""
    carried: tuple[Changed, ...] = ()
    left: tuple[Left, ...] = ()
    behind: Behind | None = None
    submodules: tuple[Submodule, ...] = ()
    outside: tuple[str, ...] = ()  # carried files that the sparse rules leave out: git in the tree may remove them
    note: str = ""  # about its place

    @property
    def project_ref(self) -> str:
        """The ref in the project that keeps what is borrowed from it."""
        return f"refs/overhand/base/{self.task}"

    @property
    def folder(self) -> str:
        """The project's folder in the tree: where the agent works."""
        return f"{self.path}/{self.prefix}" if self.prefix else self.path

    def git(self, lock: int = -1, enter: Sequence[str] = ()) -> Git:
        """Git with our git dir and index, and the tree's files."""
        return Git(self.ours, self.path, variables=OUR_IDENTITY, lock=lock, enter=tuple(enter))

    def objects(self, lock: int = -1) -> Git:
        """Git with our git dir alone, for what concerns no files."""
        return Git(self.ours, variables=OUR_IDENTITY, lock=lock)

    def ref(self, name: str) -> str:
        """The commit that a ref of ours names; empty if there is none."""
        return read_ref(self.ours, name)

    @property
    def last(self) -> str:
        """The commit of the files as they were last found; the start, if they were not looked at yet."""
        return self.ref(LAST) or self.base

    def kept(self) -> dict[int, str]:
        """The commits that were kept, by number."""
        found = (name for name in names_in(f"{self.ours}/{KEPT}") if name.isdigit())
        return {int(name): self.ref(f"{KEPT}/{name}") for name in sorted(found, key=int)}


def tree_lock(ours: str, patience: float = _LOCK_PATIENCE) -> Lock:
    """The lock of a tree. Its descriptor is given to every git that writes, so a killed caller's git keeps it."""
    return Lock(f"{ours}.lock", "The task's tree", patience)


@contextmanager
def held_tree(ours: str) -> Iterator[tuple[Tree, int]]:
    """A tree under its lock, and the lock's descriptor. Files by which git locks are then of a git that was killed."""
    with tree_lock(ours) as lock:
        tree = load_tree(ours)
        for folder in (ours, *(f"{ours}/modules/{one.name}" for one in tree.submodules)):
            for name in names_in(folder):
                if name.endswith(".lock"):
                    remove_file(f"{folder}/{name}")
        yield tree, lock.fd


def has_tree(ours: str) -> bool:
    """Whether a tree was made, wherever its files are now."""
    return os.path.lexists(f"{ours}/{STATE}")


def load_tree(ours: str) -> Tree:
    """The tree of a git dir of ours."""
    raw = read_file(f"{ours}/{STATE}", _MAX_STATE)
    if raw is None:
        raise NotFound("This task has no tree.", "It works in the checkout; see: overhand show ID")
    try:
        found: dict[str, Any] = json.loads(raw)
        found.pop("v")
        parts: dict[str, Any] = {
            "carried": tuple(Changed(**one) for one in found.pop("carried")),
            "left": tuple(Left(**one) for one in found.pop("left")),
            "submodules": tuple(Submodule(**one) for one in found.pop("submodules")),
            "outside": tuple(found.pop("outside")),
            "behind": Behind(**one) if (one := found.pop("behind")) else None,
        }
        return replace(Tree(**found, **parts), ours=ours)
    except (ValueError, TypeError, KeyError) as error:
        raise Damaged(f"{ours}/{STATE} can't be read: {error}", "Restore it from a backup.") from error


def save_tree(tree: Tree) -> None:
    """Record what is known about a tree; from then on it exists."""
    write_file(f"{tree.ours}/{STATE}", json.dumps({"v": 1, **asdict(tree)}), mode=0o600)


def note_aside(tree: Tree, place: str) -> None:
    """Remember where something of the tree is kept that no commit holds."""
    write_file(f"{tree.ours}/{_ASIDE}", os.fsencode("\0".join([*kept_aside(tree), place])), mode=0o600)


def kept_aside(tree: Tree) -> list[str]:
    """Where things of the tree are kept that no commit holds, until the task goes."""
    raw = os.fsdecode(read_file(f"{tree.ours}/{_ASIDE}", _MAX_STATE) or b"")
    return raw.split("\0") if raw else []


def write_ref(git_dir: str, name: str, commit: str) -> None:
    """Set a ref in a git dir of ours: these are always files, whatever the project has."""
    os.makedirs(os.path.dirname(f"{git_dir}/{name}"), exist_ok=True)
    write_file(f"{git_dir}/{name}", f"{commit}\n")


def read_ref(git_dir: str, name: str) -> str:
    """The commit that a ref in a git dir of ours names; empty if there is none."""
    raw = (read_file(f"{git_dir}/{name}", 200) or b"").decode("ascii", "replace").strip()
    return raw if is_object_id(raw) else ""


def is_object_id(text: str) -> bool:
    """Whether a text is a whole object id, of either format."""
    return len(text) in (40, 64) and not text.strip("0123456789abcdef")


def require_project(tree: Tree) -> None:
    """Raise if the objects that the tree borrows are not where they were."""
    if not os.path.isdir(f"{tree.common_dir}/objects"):
        raise Refused(
            f"The tree borrows from {tree.common_dir}, which is gone.",
            "Put the project back there, or open it where it is now: its trees are adapted then.",
        )
