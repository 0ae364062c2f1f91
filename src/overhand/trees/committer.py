"""The commits that a landing adds: made in our git dir as the user would make them, then given to the project.

A commit has the target as its only parent. The task's start, with the uncommitted files that it was given, is never an
object of the project.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from overhand.errors import GitFailed, Refused
from overhand.system import Git, names_in, read_file, remove_file
from overhand.trees.merge import merge_trees, trees_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SIGNER_PATIENCE = 10  # seconds; a signer that asks for a passphrase takes longer
_PATIENCE = 600
_POINTER = 1024  # bytes that a pointer of git-lfs has at most
# A signer that would ask the user fails at once: it finds no screen and no answer.
_NO_PROMPT = (("SSH_ASKPASS", "/bin/false"), ("SSH_ASKPASS_REQUIRE", "force"), ("DISPLAY", ""), ("WAYLAND_DISPLAY", ""))
_TRIES = 5  # to write a pack that a `git gc` removes meanwhile
_PROGRAMS = r"^gpg\.(.*\.)?(program|defaultkeycommand)$"


@dataclass(frozen=True)
class Made:
    """The newest commit that was made, and what the user should know: that it is not signed, or was squashed."""

    commit: str
    notes: tuple[str, ...] = ()


class _Commit(NamedTuple):
    tree: str
    parents: tuple[str, ...]
    date: str
    message: bytes


class Committer:
    """Makes commits as the user of a checkout would, but writes them into our git dir."""

    def __init__(self, checkout: Git, ours: Git) -> None:
        stored = (("GIT_OBJECT_DIRECTORY", f"{ours.git_dir}/objects"), *_NO_PROMPT)
        settings = (*checkout.settings, "i18n.commitEncoding=UTF-8")
        self._git = checkout._replace(variables=(*checkout.variables, *stored), settings=settings)
        self._ours = ours
        self._signs, note = _signing(checkout)
        self._notes = [note] if note else []

    def squash(self, target: str, tree: str, message: str) -> Made:
        """One commit of a tree on top of the target, which is empty in a repository without commits."""
        return Made(self._commit(target, tree, message.encode()), tuple(self._notes))

    def replay(self, target: str, tree: str, message: str, base: str, commits: Sequence[str]) -> Made:
        """The agent's own commits, oldest first, on top of the target; what it left uncommitted is one more commit.

        They are squashed, and a note says so, unless they are a chain from the base in which each can be merged.
        """
        try:
            trees = self._replayed(target, base, commits)
        except (GitFailed, ValueError) as error:
            self._notes.append(f"The agent's commits were squashed into one: {error}.")
            return self.squash(target, tree, message)
        head, last = target, trees_of(self._ours, target)[0] if target else ""
        for found, merged in trees:
            if merged != last:
                head, last = self._commit(head, merged, found.message, found.date), merged
        if last != tree:
            head = self._commit(head, tree, message.encode())
        return Made(head, tuple(self._notes))

    def _replayed(self, target: str, base: str, commits: Sequence[str]) -> list[tuple[_Commit, str]]:
        """Each commit with its tree on top of the target."""
        if not commits or not target:
            raise ValueError("there are none to replay")
        read = [_read(self._ours, commit) for commit in commits]
        if any(one.parents != (commit,) for one, commit in zip(read[1:], commits, strict=False)):
            raise ValueError("they are not a single line")
        before, now = trees_of(self._ours, f"{commits[0]}^", target)
        if len(read[0].parents) != 1 or before != trees_of(self._ours, base)[0]:
            raise ValueError("they do not begin where the task began")
        found = []
        for one, commit in zip(read, commits, strict=True):
            merged = merge_trees(self._ours, before, now, one.tree)
            if merged.conflicts:
                raise ValueError(f"{commit[:10]} alone is in conflict with the target")
            before, now = one.tree, merged.tree
            found.append((one, now))
        return found

    def _commit(self, parent: str, tree: str, message: bytes, date: str = "") -> str:
        words = ["commit-tree", *(("-p", parent) if parent else ())]
        git = self._git._replace(variables=(*self._git.variables, ("GIT_AUTHOR_DATE", date))) if date else self._git
        text = message if message.endswith(b"\n") else message + b"\n"
        if self._signs:
            try:
                return git.run(*words, "-S", tree, given=text, patience=_SIGNER_PATIENCE).decode().strip()
            except GitFailed as error:
                self._signs = False
                self._notes.append(f"Not signed: {error.message}")
        try:
            return git.run(*words, tree, given=text).decode().strip()
        except GitFailed as error:
            if "ident" not in error.message and "tell me who you are" not in error.message:
                raise
            hint = 'git config --global user.name "Your Name"; git config --global user.email you@example.com'
            raise Refused("Git does not know who you are, so nothing can be committed in your name.", hint) from error


def _signing(checkout: Git) -> tuple[bool, str]:
    """Whether the user signs commits; a note if they can't be signed."""
    asked = checkout.run("config", "--type=bool", "--get", "commit.gpgSign", ok=(0, 1))
    if asked.strip() != b"true":
        return False, ""
    scopes = checkout.run("config", "-z", "--show-scope", "--get-regexp", _PROGRAMS, ok=(0, 1)).split(b"\0")[::2]
    if b"local" in scopes or b"worktree" in scopes:
        return False, "Not signed: the repository's own configuration, not yours, names the program that signs."
    return True, ""


def _read(git: Git, commit: str) -> _Commit:
    head, _, message = git.run("cat-file", "commit", commit).partition(b"\n\n")
    fields: dict[str, list[str]] = {}
    for line in head.decode("utf-8", "replace").splitlines():
        name, _, value = line.partition(" ")
        fields.setdefault(name, []).append(value)
    written = message.decode(fields.get("encoding", ["utf-8"])[0], "replace").encode()
    date = " ".join(fields["author"][0].split()[-2:])
    return _Commit(fields["tree"][0], tuple(fields.get("parent", ())), f"@{date}", written)


# objects


def give_objects(ours: Git, project: str, old: str, new: str, holder: str) -> None:
    """Copy what is needed for the commit `new` and missing in `old` into a project's git dir.

    It is a pack that is kept for its holder until `release_objects`: a `git gc --prune=now` of the user's would remove
    loose objects before a ref names them, and leave a branch with a hole.
    """
    asked = f"{new}\n^{old}\n" if old else f"{new}\n"
    packing = ("pack-objects", "--revs", "--thin", "--stdout", "-q", "--window=0")
    unpack = ("index-pack", "--stdin", "--fix-thin", "--strict", f"--keep={_kept(holder)}")
    into = Git(project, lock=ours.lock)
    for tries in reversed(range(_TRIES)):
        try:
            ours.pipe(*packing, into=into, then=unpack, given=asked.encode(), patience=_PATIENCE)
            return
        except GitFailed:  # a `git gc` of the user's removes packs that are being written
            if not tries:
                raise


def release_objects(project: str, holder: str) -> None:
    """Let git treat the objects like all others: a ref names them by now, or they are not needed."""
    folder = f"{project}/objects/pack"
    for name in names_in(folder):
        if name.endswith(".keep") and (read_file(f"{folder}/{name}", 8192) or b"").strip() == _kept(holder).encode():
            remove_file(f"{folder}/{name}")


def _kept(holder: str) -> str:
    return f"overhand {holder}"


def give_large_files(ours: Git, project: str, blobs: Iterable[str]) -> None:
    """Copy what pointers of git-lfs among these blobs name from our store to the project's."""
    store = f"{ours.git_dir}/lfs/objects"
    if not os.path.isdir(store):
        return
    asked = "".join(f"{blob}\n" for blob in blobs).encode()
    rows = [line.split() for line in ours.run("cat-file", "--batch-check", given=asked).decode().splitlines()]
    small = [row[0] for row in rows if row[1] == "blob" and int(row[2]) <= _POINTER]
    text = ours.run("cat-file", "--batch", given="".join(f"{blob}\n" for blob in small).encode())
    for line in text.decode("utf-8", "replace").splitlines():
        name = line.removeprefix("oid sha256:")
        if name != line and len(name) == 64 and name.isalnum():
            place = f"{name[:2]}/{name[2:4]}"
            _copy_once(f"{store}/{place}/{name}", f"{project}/lfs/objects/{place}", name)


def _copy_once(source: str, folder: str, name: str) -> None:
    import shutil

    if os.path.isfile(source) and not os.path.lexists(f"{folder}/{name}"):
        os.makedirs(folder, exist_ok=True)
        spare = f"{folder}/.{name}.{os.getpid()}"
        shutil.copyfile(source, spare)
        os.rename(spare, f"{folder}/{name}")
