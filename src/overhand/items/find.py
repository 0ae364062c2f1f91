"""Tags in a tree of Markdown files: ripgrep says which files to look at where it is installed, else a walk does.

Both leave out what `.gitignore` and `.git/info/exclude` leave out, hidden folders, Overhand's own, and links; both give
the same answer. Which tags are live is decided by us in either case: by `tags.scan`, or for what is only printed at the
places that ripgrep names, by `spotting`.
"""

from __future__ import annotations

import os
import time

from overhand.errors import NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from overhand.documents.tags import Tag
    from overhand.items.gitignore import Ignored
    from overhand.items.ripgrep import Spots

    Hit = tuple[str, bytes, list[Tag]]  # the path as shown, the file's bytes, and the tags in it
    Warn = Callable[[str], None]

_OURS = ".agent-workspaces"
_WILD = "*?["
_COARSE, _FINE = 2.0, 0.1  # seconds: how far the clock of a file system may be behind; one that knows parts of a second
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
    fits = matcher(pattern)
    prefix = literal(pattern).encode()
    found: dict[str, Hit] = {}
    scan: Callable[[bytes, bytes], list[Tag]] | None = None
    for path, raw, _ in _texts(where, pattern, all=all, warn=warn):
        if scan is None:
            from overhand.documents import tags  # not earlier: now ripgrep is at work

            scan = tags.scan
        hits = [tag for tag in scan(raw, prefix) if fits(tag.name)]
        if hits:
            found[path] = (path, raw, hits)
    return [found[path] for path in sorted(found, key=_by_folder)]


def lines(where: str, pattern: str, *, all: bool = False, warn: Warn = _silent) -> dict[str, list[str]]:
    """The same as it is printed: by file the lines with hits, each once, as `path:line: text`."""
    found: dict[str, tuple[str, list[str]]] = {}
    look: Callable[[bytes, Spots | None], dict[int, bytes]] | None = None
    for path, raw, spots in _texts(where, pattern, all=all, warn=warn, spots=True):
        if look is None:
            from overhand.items import spotting

            start = literal(pattern)
            look = spotting.looking(start.encode(), matcher(pattern), is_open=pattern == f"{start}*")
        hits = look(raw, spots)
        if hits:
            shown = [f"{path}:{number}: {line.decode('utf-8', 'replace')}" for number, line in hits.items()]
            found[_by_folder(path)] = path, shown  # what sorting needs is made now, while ripgrep is at work
    return dict(found[key] for key in sorted(found))


def _texts(
    where: str, pattern: str, *, all: bool, warn: Warn, spots: bool = False
) -> Iterator[tuple[str, bytes, Spots | None]]:
    """The files to look at, what is in them, and where ripgrep saw it, unless they may have changed since."""
    prefix = literal(pattern).encode()
    began = time.time()
    for path, seen in _spotted(where, pattern, all=all, warn=warn, first=not spots):
        raw, changed = load(path, warn)
        if raw is None:
            continue
        if is_text(raw):
            yield path, raw, seen if changed < began - (_FINE if changed % 1 else _COARSE) else None
        elif prefix in raw:
            warn(f"{path} is not text; it was not searched.")


def is_text(raw: bytes) -> bool:
    """Whether a file's bytes are text at all."""
    return raw.find(b"\0", 0, _START) < 0


def _by_folder(path: str) -> str:
    """What paths are sorted by: folder by folder."""
    return path.replace("/", "\0")


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
    return load(path, warn)[0]


def load(path: str, warn: Warn = _silent) -> tuple[bytes | None, float]:
    """The same, and when the file was changed, by the file system's clock."""
    try:
        try:
            fd = os.open(path, _READ)
        except BlockingIOError:
            fd = _open_later(path)
        try:
            stat = os.fstat(fd)
            size = stat.st_size
            raw = os.read(fd, size + 1)
            while len(raw) < size and (more := os.read(fd, size - len(raw))):
                raw += more  # one call reads no more than 2 GB
            return raw, stat.st_ctime
        finally:
            os.close(fd)
    except FileNotFoundError:
        return None, 0.0  # it was there a moment ago
    except OSError as error:
        warn(_unreadable(path, error.strerror or str(error)))
        return None, 0.0


def _open_later(path: str) -> int:
    """Open a file that is just being edited (edits.py)."""
    for _ in range(200):
        time.sleep(0.001)
        try:
            return os.open(path, _READ)
        except BlockingIOError:
            pass
    return os.open(path, _READ)


def _unreadable(path: str, why: str) -> str:
    return f"{path} cannot be read ({why.lower()}); it was not searched."


def holding(where: str, *patterns: str, all: bool = False, warn: Warn = _silent) -> Iterator[str]:
    """The Markdown files in which a tag like one of these may stand, in no order; perhaps one of them twice."""
    return (path for path, _ in _spotted(where, *patterns, all=all, warn=warn, first=True))


def _spotted(
    where: str, *patterns: str, all: bool = False, warn: Warn = _silent, first: bool = False
) -> Iterator[tuple[str, Spots | None]]:
    """The same, and where in them what every match begins with stands; None: that was not looked for."""
    if os.path.isfile(where):
        yield where, None
        return
    if not os.path.isdir(where):
        raise NotFound(
            f"There is no file or folder {where}.", "Name one that exists, or leave it out: the folder you are in."
        )
    if _OURS in os.path.realpath(where).split("/"):
        warn(f"{where} is Overhand's own; it is not searched.")
        return
    program = installed()
    if program:
        from overhand.items import ripgrep

        texts = [literal(pattern) for pattern in patterns]
        run = ripgrep.holding(
            program, where, texts, all=all, warn=lambda path, why: warn(_unreadable(path, why)), first=first
        )
        if (yield from run):
            return
    for path in documents(where, all=all, warn=warn):
        yield path, None


def installed() -> str:
    """Where `rg` is, if it is installed."""
    for folder in os.environ.get("PATH", "").split(":"):
        path = f"{folder}/rg"
        if folder and os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    return ""


def documents(where: str, *, all: bool = False, warn: Warn = _silent) -> Iterator[str]:
    """Every Markdown file below a folder, in no order."""
    from overhand.items.gitignore import below, ignored

    top = os.path.realpath(where)
    shown = "" if where in (".", "./") else where.rstrip("/") + "/"
    stack = [("", None if all else ignored(top))]
    while stack:
        folder, rules = stack.pop()
        try:
            with os.scandir(f"{top}/{folder}") as entries:
                found = list(entries)
        except FileNotFoundError:
            continue
        except OSError as error:
            warn(_unreadable(f"{shown}{folder}".rstrip("/") or where, error.strerror or str(error)))
            continue
        for entry in found:
            path = f"{folder}{entry.name}"
            is_folder = entry.is_dir(follow_symlinks=False)
            if not is_folder and not (entry.name.endswith(".md") and entry.is_file(follow_symlinks=False)):
                continue
            if not is_wanted(f"{top}/{path}", entry.name, rules, is_folder=is_folder):
                continue
            if not is_folder:
                yield f"{shown}{path}"
            else:
                stack.append((f"{path}/", None if rules is None else below(f"{top}/{path}", rules)))


def is_wanted(path: str, name: str, rules: Ignored | None, *, is_folder: bool) -> bool:
    """Whether a search looks at this file or into this folder; a hidden folder only if a rule takes it back."""
    left_out = rules(path, is_folder=is_folder) if rules is not None else None
    if left_out or name == _OURS:
        return False
    return not is_folder or left_out is False or not name.startswith(".")
