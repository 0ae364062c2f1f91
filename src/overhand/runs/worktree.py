"""The working tree as Overhand sees it: fingerprints of files, and what a run changed."""

from __future__ import annotations

import glob
import hashlib
import os
import stat
from typing import TYPE_CHECKING, Any

from overhand.contracts import PARTLY_STEERING, has_inline_tests, is_steering, is_test, steering_part
from overhand.record import read_state
from overhand.runs.judge import FileFact
from overhand.system import git_marks, repository_of, run_git

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from overhand.documents import Deliverable, Look, NamedFile

Print = list[Any]  # [sha256, ctime_ns, inode]
_EMPTY_BY_NATURE = ("__init__.py", "py.typed", ".gitkeep", ".keep", ".nojekyll")
_FIELDS = {"1 ": 8, "u ": 10, "? ": 1}  # kinds of entries in git's listing, and how many fields precede the path
_MAX_FILE, _MAX_READ = 50 << 20, 256 << 20  # bytes of a file, and of all of them, that are read to compare them
_MOST_ASKED = 200  # paths that git is asked for
_BYPRODUCTS = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"})
# folders of installed or built things, in which nobody looks for a project's tests
_INSTALLED = frozenset(
    {"node_modules", ".venv", "venv", "site-packages", ".tox", ".nox", "target", "dist", "build", ".agent-workspaces"}
)


def path_inside(root: str, path: str) -> str | None:
    """The real path, if it lies in the tree (links followed); None otherwise."""
    real = os.path.realpath(os.path.join(root, path))
    return real if real == root or real.startswith(root + os.sep) else None


def relative(root: str, path: str) -> str:
    """The path as it is written in lists: relative to the tree where it can be."""
    whole = os.path.normpath(os.path.join(root, path))
    return os.path.relpath(whole, root) if whole.startswith(root + os.sep) else path


def _fingerprint(path: str) -> Print | None:
    """Content, ctime and inode of a file or a whole folder; mtime is no evidence, moving a file keeps it."""
    return _fingerprint_folder(path) if os.path.isdir(path) else _fingerprint_file(path)


def _fingerprint_file(path: str) -> Print | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe must not block us
        with open(fd, "rb") as file:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                return None
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
    return [digest, found.st_ctime_ns, found.st_ino]


def _fingerprint_folder(path: str) -> Print:
    whole, newest = hashlib.sha256(), 0
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(set(folders) - {".git", ".agent-workspaces"})
        for name in sorted(names):
            mark = _fingerprint_file(f"{folder}/{name}") or ["", 0, 0]
            whole.update(f"{os.path.relpath(folder, path)}/{name}\0{mark[0]}\0".encode("utf-8", "surrogateescape"))
            newest = max(newest, mark[1])
    return [whole.hexdigest(), newest, os.stat(path).st_ino]


def _matches(root: str, pattern: str) -> list[str]:
    """What a promised path or glob names; a literal name wins."""
    if not any(sign in pattern for sign in "*?[") or os.path.lexists(os.path.join(root, pattern)):
        return [pattern]
    return sorted(glob.glob(pattern, root_dir=root, recursive=True))


def baseline(root: str, deliverables: Iterable[Deliverable]) -> dict[str, Print]:
    """Fingerprints of what is promised, before the task's first run."""
    found: dict[str, Print] = {}
    for deliverable in deliverables:
        for path in _matches(root, deliverable.path) if deliverable.path else []:
            real = path_inside(root, path)
            if real and (mark := _fingerprint(real)):
                found[relative(root, path)] = mark
    return found


def read_baseline(folder: str) -> dict[str, Print]:
    """The fingerprints from before the task's first run; none if nothing was there."""

    def fits(found: dict[str, Any]) -> bool:
        return all(isinstance(mark, list) and len(mark) == 3 for mark in found.values())

    return read_state(f"{folder}/baseline.json", fits=fits) or {}


def deliverable_facts(root: str, deliverables: Iterable[Deliverable], before: dict[str, Print]) -> list[FileFact]:
    """Each promised file as it is now, compared with the baseline."""
    facts = []
    for deliverable in deliverables:
        if deliverable.path is None:
            continue
        paths = _matches(root, deliverable.path)
        several = [_fact(root, path, before, deliverable.may_be_unchanged) for path in paths]
        if not several:
            facts.append(FileFact(deliverable.path, exists=False, waived=deliverable.may_be_unchanged))
        elif len(several) > 1 and any(fact.holds for fact in several):
            facts += [fact for fact in several if fact.holds]  # a glob promises no single file
        else:
            facts += several
    return facts


def _fact(root: str, path: str, before: dict[str, Print], waived: bool) -> FileFact:
    name = relative(root, path)
    real = path_inside(root, path)
    if real is None:
        return FileFact(name, inside=False, waived=waived)
    mark = _fingerprint(real)
    if mark is None or _is_folder_instead(path, real):
        return FileFact(name, exists=False, waived=waived)
    change, old = "new", before.get(name)
    if old is not None:
        same = "touched" if old[1:] != mark[1:] else "untouched"
        change = same if old[0] == mark[0] else "changed"
    empty = not os.listdir(real) if os.path.isdir(real) else os.path.getsize(real) == 0
    return FileFact(name, empty=empty, change=change, waived=waived)


def _is_folder_instead(path: str, real: str) -> bool:
    """Whether a folder stands where a file was named: it has a suffix and no slash behind it."""
    return "." in os.path.basename(path)[1:] and os.path.isdir(real)


def look_in(root: str) -> Look:
    """What the tree has at a path: `file`, `folder` or nothing; each path is looked up once."""
    seen: dict[str, str] = {}

    def look(path: str) -> str:
        if path not in seen:
            try:
                mode = os.stat(os.path.join(root, path)).st_mode
                seen[path] = "folder" if stat.S_ISDIR(mode) else "file"
            except (OSError, ValueError):  # also of a name that no file can have
                seen[path] = ""
        return seen[path]

    return look


def named_facts(root: str, named: Callable[[Look], Iterable[NamedFile]]) -> list[FileFact]:
    """Files that a return names, each once; one that it calls deleted need not exist."""
    facts: dict[str, FileFact] = {}
    parents: dict[str, str] = {}
    for one in named(look_in(root)):
        try:
            is_glob = "*" in one.path or "?" in one.path
            for path in (_matches(root, one.path) if is_glob else ()) or [one.path]:
                fact = _named_fact(root, path, one.gone, parents)
                if fact.path not in facts or one.gone:
                    facts[fact.path] = fact
        except (OSError, ValueError):  # a name that no file can have
            facts[one.path] = FileFact(one.path, exists=False)
    return list(facts.values())


def _named_fact(root: str, path: str, gone: bool, parents: dict[str, str]) -> FileFact:
    whole = os.path.normpath(os.path.join(root, os.path.expanduser(path)))
    folder, name = os.path.split(whole)
    real = f"{parents[folder] if folder in parents else parents.setdefault(folder, os.path.realpath(folder))}/{name}"
    try:
        found: os.stat_result | None = os.lstat(real)
        if found and stat.S_ISLNK(found.st_mode):
            real = os.path.realpath(real)
            found = os.stat(real)
    except OSError:
        found = None
    is_inside = real == root or real.startswith(root + os.sep)
    is_folder = found is not None and stat.S_ISDIR(found.st_mode)
    exists = found is not None and not (is_folder and "." in name[1:] and not path.endswith("/"))
    empty = exists and not is_folder and found is not None and found.st_size == 0 and name not in _EMPTY_BY_NATURE
    shown = whole[len(root) + 1 :] if whole.startswith(root + os.sep) else path
    return FileFact(shown, exists=exists or gone, empty=empty and not gone, inside=is_inside)


def tree_snapshot(
    root: str, enter: Sequence[str] = (), *, steering: bool = False, git: bool = False
) -> dict[str, Any] | None:
    """HEAD and the files that differ from it, each with a mark of its content; None where git cannot tell.

    `enter` are words that put up a shield around git: an agent may have written what it reads. `steering` adds what
    git does not show and a check may depend on: it is compared where a check was red before. `git` adds marks of what
    steers git itself.
    """
    top = repository_of(root)
    # for a submodule's own changes git would start another git in it, which reads its configuration
    how = ("--untracked-files=all", "--no-renames", "--ignore-submodules=dirty")
    status = run_git(root, "status", "--porcelain=v2", "--branch", "-z", *how, "--", ".", enter=enter) if top else None
    if top is None or status is None:
        return None
    head = ""
    dirty: dict[str, str] = {}
    marks = _Marks(root)
    for entry in status.split("\0"):
        if entry.startswith("# branch.oid "):
            head = entry.removeprefix("# branch.oid ").replace("(initial)", "")
        elif entry[:2] in _FIELDS:
            path = relative(root, os.path.join(top, entry.split(" ", _FIELDS[entry[:2]])[-1]))
            if not path.startswith(".agent-workspaces") and not is_byproduct(path):
                dirty[path] = marks.of(path)
    found: dict[str, Any] = {"head": head, "dirty": dirty}
    if steering:
        parts = [path for path in dirty if path.endswith(PARTLY_STEERING)]
        found["parts"] = {path: _part_now(root, path) for path in parts}
        found["hidden"] = {path: marks.of(path) for path in _hidden(root, enter)}
    if git:
        found["git"] = git_marks(root)
    return found


def is_byproduct(path: str) -> bool:
    """Whether programs leave such a file behind whenever they run."""
    return path.endswith(".pyc") or not _BYPRODUCTS.isdisjoint(path.split("/"))


class _Marks:
    """Marks of files by their content, as far as that is small; of others by what tells that they were written."""

    def __init__(self, root: str) -> None:
        self.root, self.left = root, _MAX_READ

    def of(self, path: str) -> str:
        whole = os.path.join(self.root, path)
        try:
            found = os.lstat(whole)
            if stat.S_ISLNK(found.st_mode):
                return f"link:{os.readlink(whole)}"
        except OSError:
            return "gone"
        if stat.S_ISREG(found.st_mode) and found.st_size <= min(self.left, _MAX_FILE):
            self.left -= found.st_size
            if mark := _fingerprint_file(whole):
                return f"{mark[0]}{'x' if found.st_mode & 0o100 else ''}"
        return f"{found.st_size}:{found.st_mtime_ns}:{found.st_ctime_ns}:{found.st_ino}"


def _part_now(root: str, path: str) -> str:
    try:
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
            return _part(path, file.read(_MAX_FILE))
    except OSError:
        return ""


def _part(path: str, text: str) -> str:
    """A mark of what steers a runner in such a file."""
    return hashlib.sha256(repr(steering_part(path, text)).encode("utf-8", "replace")).hexdigest()


def _hidden(root: str, enter: Sequence[str]) -> list[str]:
    """Files that git does not show, because they are ignored or marked so, and that can be a check's own."""
    ignored = run_git(root, "ls-files", "-z", "-o", "-i", "--exclude-standard", enter=enter) or ""
    flagged = run_git(root, "ls-files", "-z", "-v", enter=enter) or ""
    found = [path for path in ignored.split("\0") if path and _INSTALLED.isdisjoint(path.split("/"))]
    found += [entry[2:] for entry in flagged.split("\0") if entry[:1].islower() or entry[:1] == "S"]
    return [path for path in found if (is_test(path) or is_steering(path)) and not is_byproduct(path)]


def with_own(root: str, found: dict[str, Any], paths: Iterable[str]) -> dict[str, Any]:
    """The same snapshot with files that we have just written ourselves: as they are now, they are no change."""
    marks = _Marks(root)
    return {**found, "own": {path: marks.of(path) for path in paths}}


def changed_between(
    root: str, before: dict[str, Any] | None, after: dict[str, Any] | None, enter: Sequence[str] = ()
) -> list[str] | None:
    """Files whose content differs between two snapshots; None where that is unknown."""
    if before is None or after is None:
        return None
    marks = _Marks(root)

    def now(path: str) -> str:
        return after["dirty"].get(path) or marks.of(path)

    changed = {path for path in after["dirty"] if path not in before["dirty"]}
    changed |= {path for path, mark in before["dirty"].items() if now(path) != mark}
    if before["head"] != after["head"] and before["head"] and after["head"]:
        how = ("--name-only", "-z", "--relative", "--no-ext-diff", "--no-textconv", "--no-renames")
        names = run_git(root, "diff", *how, before["head"], after["head"], enter=enter) or ""
        changed |= {name for name in names.split("\0") if name and name not in before["dirty"]}
    own = before.get("own", {})
    return sorted(path for path in changed if path not in own or after["dirty"].get(path, own[path]) != own[path])


def can_be_own(root: str, before: dict[str, Any], changed: Iterable[str], enter: Sequence[str] = ()) -> list[str]:
    """Of the files that changed since a snapshot, and of those that git does not show, which a check may depend on."""
    hidden, marks = before.get("hidden", {}), _Marks(root)
    now = {path: marks.of(path) for path in {*_hidden(root, enter), *hidden}}
    found = [
        path for path in changed if not path.endswith(PARTLY_STEERING) or _is_steered_anew(root, before, path, enter)
    ]
    return [*found, *sorted(path for path, mark in now.items() if hidden.get(path) != mark and path not in found)]


def _is_steered_anew(root: str, before: dict[str, Any], path: str, enter: Sequence[str]) -> bool:
    """Whether the part that steers a runner is another one now."""
    then = before.get("parts", {}).get(path)
    if then is None:
        blob = f"{before['head']}:./{path}"
        text = run_git(root, "cat-file", "blob", blob, enter=enter) if before["head"] else None
        then = _part(path, text) if text is not None else _part(path, "")
    return bool(then != _part_now(root, path))


def with_inline_tests(root: str, paths: Iterable[str]) -> list[str]:
    """Source files in which tests stand."""
    found = []
    for path in paths:
        try:
            with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
                found += [path] if has_inline_tests(path, file.read(_MAX_FILE)) else []
        except OSError:
            continue  # deleted: then fewer tests run
    return found


def how_changed(
    root: str, before: dict[str, Any] | None, paths: Sequence[str], enter: Sequence[str] = ()
) -> dict[str, str]:
    """What happened to changed files since a snapshot: each deleted, emptied, changed or new."""
    known = {path for path, mark in (before or {"dirty": {}})["dirty"].items() if mark != "gone"}
    if before and before["head"] and paths:
        listed = run_git(root, "ls-tree", "-z", "--name-only", before["head"], "--", *paths[:_MOST_ASKED], enter=enter)
        known |= {path for path in (listed or "").split("\0") if path and path not in before["dirty"]}
    found = {}
    for path in paths:
        try:
            is_empty = os.lstat(os.path.join(root, path)).st_size == 0
            found[path] = ("emptied" if is_empty else "changed") if path in known else "new"
        except OSError:
            found[path] = "deleted"
    return found
