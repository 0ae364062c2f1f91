"""Tags in a tree of Markdown files: which files count, and which tags stand in them.

A walk leaves out what `.gitignore` and `.git/info/exclude` leave out, hidden folders, Overhand's own, and links. Where
ripgrep is installed, only the files it names are read; it names too many rather than too few.
"""

from __future__ import annotations

import os
import time

from overhand.errors import NotFound
from overhand.system import find_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from re import Pattern

    from overhand.documents import Tag
    from overhand.record import Store

    Hit = tuple[str, bytes, list[Tag]]  # the path as shown, the file's bytes, and the tags in it
    Warn = Callable[[str], None]
    Rule = tuple[Pattern[str], bool]  # what it matches, and whether that is left out or taken back (`!`)

_OURS = ".agent-workspaces"
_WILD = "*?["
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
LARGEST = 64 * 1024 * 1024  # bytes; a larger file is not read
_START = 8000  # bytes; a NUL among these means that a file is not text, as in git


def _silent(_text: str) -> None:
    pass


def shown_path(where: str) -> str:
    """A path as it is shown: from the folder we are in."""
    return os.path.relpath(where) if os.path.isabs(where) else os.path.normpath(where)


def with_hash(word: str) -> str:
    """A tag with its `#`, which may be left out."""
    return word if word.startswith("#") else f"#{word}"


def search_tags(where: str, pattern: str, *, all: bool = False, warn: Warn = _silent) -> list[Hit]:
    """The tags below a folder (or in a file) that a pattern such as `#needs-*` matches, in the order of their paths."""
    from overhand.documents import scan_tags

    fits = tag_matcher(pattern)
    prefix = literal_prefix(pattern).encode()
    found: list[Hit] = []
    for path in holding(where, literal_prefix(pattern), all=all, warn=warn):
        raw = read(path, warn)
        if raw is None or prefix not in raw:
            continue
        if not is_text(raw):
            warn(f"{path} is not text; it was not searched.")
        elif hits := [tag for tag in scan_tags(raw, prefix) if fits(tag.name)]:
            found.append((path, raw, hits))
    return sorted(found, key=lambda hit: hit[0].split("/"))  # folder by folder


def is_text(raw: bytes) -> bool:
    return raw.find(b"\0", 0, _START) < 0


def literal_prefix(pattern: str) -> str:
    """What every match begins with."""
    ends = [at for at in (pattern.find(wild) for wild in _WILD) if at >= 0]
    return pattern[: min(ends)] if ends else pattern


def tag_matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a tag's name matches; `*` is anything, `?` one character."""
    start = literal_prefix(pattern)
    if start == pattern:
        return pattern.__eq__
    if pattern == f"{start}*":
        return lambda name: name.startswith(start)
    from fnmatch import fnmatchcase

    return lambda name: fnmatchcase(name, pattern)


def read(path: str, warn: Warn = _silent) -> bytes | None:
    """A file's bytes, or None with a warning."""
    try:
        with open(path, "rb", buffering=0, opener=_open) as file:
            if os.fstat(file.fileno()).st_size > LARGEST:
                warn(f"{path} is larger than {LARGEST >> 20} MB; it was not searched.")
                return None
            return file.read()
    except FileNotFoundError:
        return None  # it was there a moment ago
    except OSError as error:
        warn(_unreadable(path, error))
        return None


def _open(path: str, _flags: int) -> int:
    """Open a file, after a moment if it is just being edited (edits.py)."""
    for _ in range(200):
        try:
            return os.open(path, _READ)
        except BlockingIOError:
            time.sleep(0.001)
    return os.open(path, _READ)


def _unreadable(path: str, error: OSError) -> str:
    return f"{path} cannot be read ({(error.strerror or str(error)).lower()}); it was not searched."


def holding(where: str, *texts: str, all: bool = False, warn: Warn = _silent) -> Iterator[str]:
    """The Markdown files of a folder (or the file itself) in which one of these texts may stand, in no order."""
    if os.path.isfile(where):
        yield where
        return
    if not os.path.isdir(where):
        hint = "Name one that exists, or leave it out: the folder you are in."
        raise NotFound(f"There is no file or folder {where}.", hint)
    top = os.path.realpath(where)
    if _OURS in top.split("/"):
        warn(f"{where} is Overhand's own; it is not searched.")
        return

    shown = "" if where in (".", "./") else where.rstrip("/") + "/"

    def failed(folder: str, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # else it was there a moment ago
            warn(_unreadable(f"{shown}{folder}".rstrip("/") or where, error))

    among = prefiltered(where, *texts)
    for path in walk(top, "", None if all else ignored(top), failed=failed, among=among):
        yield f"{shown}{path}"


def walk(
    root: str,
    folder: str,
    rules: Ignored | None,
    *,
    failed: Callable[[str, OSError], None],
    enter: Callable[[str, Ignored | None], bool] = lambda _folder, _rules: True,
    among: Collection[str] | None = None,
) -> Iterator[str]:
    """The Markdown files below a folder of `root`, or those among some, relative to `root` and in no order.

    `enter` is asked before a folder is listed, with the rules that hold in it; without rules nothing is left out by
    them. Folders are named with a `/` behind them.
    """

    stack = [(folder, rules)]
    while stack:
        folder, rules = stack.pop()
        if not enter(folder, rules):
            continue
        try:
            with os.scandir(f"{root}/{folder}") as entries:
                found = list(entries)
        except OSError as error:
            failed(folder, error)
            continue
        for entry in found:
            path = f"{folder}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if is_wanted(f"{root}/{path}", entry.name, rules, is_folder=True):
                    stack.append((f"{path}/", None if rules is None else below(f"{root}/{path}", rules)))
            elif (
                entry.name.endswith(".md")
                and (among is None or path in among)
                and entry.is_file(follow_symlinks=False)
                and is_wanted(f"{root}/{path}", entry.name, rules, is_folder=False)
            ):
                yield path


def is_wanted(path: str, name: str, rules: Ignored | None, *, is_folder: bool) -> bool:
    """Whether a search looks at this file or into this folder; a hidden folder only if a rule takes it back."""
    left_out = rules(path, is_folder=is_folder) if rules is not None else None
    if left_out or name == _OURS:
        return False
    return not is_folder or left_out is False or not name.startswith(".")


class Ignored:
    """The rules of a folder and of those above it, up to its repository; each level knows only what it adds."""

    __slots__ = ("_above", "_base", "rules")

    def __init__(self, folder: str, rules: list[Rule], above: Ignored | None = None) -> None:
        self._base = len(folder.rstrip("/")) + 1
        self._above = above
        self.rules = rules

    def __call__(self, path: str, *, is_folder: bool) -> bool | None:
        """Whether this entry is left out; None if no rule speaks of it. Entries inside a match are not asked for."""
        entry = f"{path}/" if is_folder else path
        level: Ignored | None = self
        while level is not None:
            name = entry[level._base :]
            for pattern, is_left_out in reversed(level.rules):
                if pattern.fullmatch(name):
                    return is_left_out
            level = level._above
        return None


def ignored(folder: str) -> Ignored:
    """The rules that hold in this folder, which is given as an absolute path."""
    above = os.path.dirname(folder)
    is_top = above == folder or os.path.lexists(f"{folder}/.git")
    return below(folder, None if is_top else ignored(above))


def below(folder: str, above: Ignored | None) -> Ignored:
    """The rules of a folder inside another one; a repository begins anew, with its own `.git/info/exclude`."""
    if os.path.lexists(f"{folder}/.git"):
        above = Ignored(folder, _rules(f"{_git_folder(folder)}/info/exclude"))
    rules = _rules(f"{folder}/.gitignore")
    return Ignored(folder, rules, above) if rules or above is None else above


def _git_folder(folder: str) -> str:
    """Where the repository keeps what all its worktrees share."""
    place = f"{folder}/.git"
    if os.path.isfile(place):
        place = os.path.join(folder, _first_line(place).removeprefix("gitdir:").strip())
        shared = _first_line(f"{place}/commondir")
        place = os.path.join(place, shared) if shared else place
    return place


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.readline().strip()
    except OSError:
        return ""


def _rules(path: str) -> list[Rule]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().removeprefix("\ufeff").split("\n")
    except OSError:
        return []
    return [rule for line in lines if line.strip() and line[0] != "#" and (rule := _rule(line.removesuffix("\r")))]


def _rule(line: str) -> Rule | None:
    """One line of a `.gitignore`; None if it means nothing."""
    import re

    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    try:
        pattern, is_left_out = GitIgnoreSpecPattern.pattern_to_regex(_spelled_out(line))
        return (re.compile(pattern, re.DOTALL), bool(is_left_out)) if pattern is not None else None
    except (ValueError, re.error):
        return None  # an invalid set matches nothing


def _spelled_out(line: str) -> str:
    """The same rule with its stars spelled out: for a bare one pathspec matches a beginning, not the whole path."""
    line = line if line.endswith("\\ ") else line.rstrip()
    mark = "!" if line.startswith("!") else ""
    bare = line[len(mark) :].rstrip("/")
    parts = ["?*" if part == "*" else part for part in bare.split("/")]
    if parts[-1] == "**":
        parts.append("?*")
    return mark + "/".join(parts) + ("/" if line.endswith("/") else "")


# It searches everything, whatever the user's own settings and ignore files say: it may name too many files, never too
# few, so that the answer is the same with and without ripgrep.
_FLAGS = (
    "--no-config", "--no-ignore", "--hidden", "--text", "--encoding=none", "--files-with-matches", "--null",
    "--color=never", "--type-add=overhand:*.md", "--type=overhand", "--glob=!.agent-workspaces",
    f"--max-filesize={LARGEST}",
)  # fmt: skip
_LETTER = r"(?-u)#[A-Za-z\x80-\xff]"


def prefiltered(where: str, *texts: str) -> set[str] | None:
    """The files below a folder, relative to it, that hold one of these texts; None if every file must be read."""
    program = find_program("rg")
    if not program or not texts:
        return None
    wanted = ["--regexp", _LETTER] if "#" in texts else ["--fixed-strings", *(f"--regexp={text}" for text in texts)]
    told, exit_code = _printed((program, *_FLAGS, *wanted, "--", where))
    if exit_code not in (0, 1) or told[-1:] not in (b"", b"\0"):  # something could not be read, or it is not ripgrep
        return None
    cut = len(os.fsencode(where.rstrip("/"))) + 1
    return {os.fsdecode(path[cut:]) for path in told.split(b"\0") if path}


def _printed(words: tuple[str, ...]) -> tuple[bytes, int]:
    """What the program prints, and its exit code; -1 if it cannot be started."""
    out, end = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, end, 1), (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
    try:
        pid = os.posix_spawn(words[0], words, os.environ, file_actions=actions)
    except OSError:
        os.close(out)
        return b"", -1
    finally:
        os.close(end)
    with open(out, "rb") as pipe:
        told = pipe.read()
    return told, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


# where a tag has gone


def whereabouts(store: Store, task_id: str) -> Iterator[str]:
    """Files of the project in which this id stands behind a tag, in the order of their paths."""
    from overhand.documents import scan_tags
    from overhand.system import read_file

    needle = f"overhand:{task_id}"
    for path in documents(store.root, holding(store.root, needle)):
        raw = read_file(f"{store.root}/{path}") or b""
        if needle.encode() in raw and any(tag.task == task_id for tag in scan_tags(raw)):
            yield path


def documents(root: str, paths: Iterable[str]) -> list[str]:
    """Of these files those that may hold items, relative to the project, in order."""
    known: dict[str, bool] = {"": False}
    return sorted(p for path in paths if not is_elsewhere(root, p := path.removeprefix(f"{root}/"), known))


def is_elsewhere(root: str, path: str, known: dict[str, bool] | None = None) -> bool:
    """Whether a file belongs to a worktree or another repository below the project: those are not watched."""
    known = {"": False} if known is None else known
    folder = os.path.dirname(path)
    if folder not in known:
        known[folder] = os.path.lexists(f"{root}/{folder}/.git") or is_elsewhere(root, folder, known)
    return known[folder]
