"""Tags in a tree of Markdown files: which files count, and which tags stand in them.

A walk leaves out what `.gitignore` and `.git/info/exclude` leave out, hidden folders, Overhand's own, and links. Where
ripgrep is installed, only the files it names are read; it names too many rather than too few.
"""

from __future__ import annotations

import os
import time

from overhand.errors import NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from overhand.documents.tags import Tag
    from overhand.items.gitignore import Ignored

    Hit = tuple[str, bytes, list[Tag]]  # the path as shown, the file's bytes, and the tags in it
    Warn = Callable[[str], None]

_OURS = ".agent-workspaces"
_WILD = "*?["
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_START = 8000  # bytes; where a NUL among these says that a file is no text, as git has it


def _silent(_text: str) -> None:
    pass


def relative(where: str) -> str:
    """A path as it is shown: from the folder we are in."""
    return os.path.relpath(where) if os.path.isabs(where) else os.path.normpath(where)


def hashed(word: str) -> str:
    """A tag with its `#`, which may be left out."""
    return word if word.startswith("#") else f"#{word}"


def search(where: str, pattern: str, *, all: bool = False, warn: Warn = _silent) -> list[Hit]:
    """The tags below a folder (or in a file) that a pattern such as `#needs-*` matches, in the order of their paths."""
    from overhand.documents import tags

    fits = matcher(pattern)
    prefix = literal(pattern).encode()
    found: list[Hit] = []
    for path in holding(where, literal(pattern), all=all, warn=warn):
        raw = read(path, warn)
        if raw is None or prefix not in raw:
            continue
        if not is_text(raw):
            warn(f"{path} is not text; it was not searched.")
        elif hits := [tag for tag in tags.scan(raw, prefix) if fits(tag.name)]:
            found.append((path, raw, hits))
    return sorted(found, key=lambda hit: hit[0].split("/"))  # folder by folder


def is_text(raw: bytes) -> bool:
    """Whether a file's bytes are text at all."""
    return raw.find(b"\0", 0, _START) < 0


def literal(pattern: str) -> str:
    """What every match begins with."""
    ends = [at for at in (pattern.find(wild) for wild in _WILD) if at >= 0]
    return pattern[: min(ends)] if ends else pattern


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a tag's name matches; `*` is anything, `?` one character."""
    start = literal(pattern)
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
        raise NotFound(
            f"There is no file or folder {where}.", "Name one that exists, or leave it out: the folder you are in."
        )
    top = os.path.realpath(where)
    if _OURS in top.split("/"):
        warn(f"{where} is Overhand's own; it is not searched.")
        return
    from overhand.items import ripgrep
    from overhand.items.gitignore import ignored

    shown = "" if where in (".", "./") else where.rstrip("/") + "/"

    def failed(folder: str, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # else it was there a moment ago
            warn(_unreadable(f"{shown}{folder}".rstrip("/") or where, error))

    among = ripgrep.holding(where, *texts)
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
    from overhand.items.gitignore import below

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
