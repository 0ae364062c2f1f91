"""Tags in a tree of Markdown files: ripgrep says which files to look at where it is installed, else a walk does.

Both leave out what `.gitignore` and `.git/info/exclude` leave out, hidden folders, Overhand's own, and links; both give
the same answer. Which tags are live is decided here, by `tags.scan`, in either case.
"""

from __future__ import annotations

import os

from overhand.errors import NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from overhand.ignoring import Ignored
    from overhand.tags import Tag

    Hit = tuple[str, bytes, list[Tag]]  # the path as shown, the file's bytes, and the tags in it
    Warn = Callable[[str], None]

_OURS = ".agent-workspaces"
_WILD = "*?["
_START = 8000  # bytes; where a NUL among these says that a file is no text, as git has it


def _silent(_text: str) -> None:
    pass


def search(where: str, pattern: str, *, all: bool = False, warn: Warn = _silent) -> list[Hit]:
    """The tags below a folder (or in a file) that a pattern such as `#needs-*` matches, in the order of their paths."""
    fits = matcher(pattern)
    prefix = literal(pattern).encode()
    found: dict[str, Hit] = {}
    scan: Callable[[bytes, bytes], list[Tag]] | None = None
    for path in holding(where, pattern, all=all, warn=warn):
        if scan is None:
            from overhand import tags  # not earlier: now ripgrep is at work

            scan = tags.scan
        raw = read(path, warn) if path not in found else None
        if raw is None:
            continue
        if not is_text(raw):
            if prefix in raw:
                warn(f"{path} is not text; it was not searched.")
            continue
        hits = [tag for tag in scan(raw, prefix) if fits(tag.name)]
        if hits:
            found[path] = (path, raw, hits)
    return sorted(found.values(), key=_by_path)


def is_text(raw: bytes) -> bool:
    """Whether a file's bytes are text at all."""
    return raw.find(b"\0", 0, _START) < 0


def _by_path(hit: Hit) -> str:
    return hit[0].replace("/", "\0")  # folder by folder


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
        fd = _open(path)
        try:
            size = os.fstat(fd).st_size
            raw = os.read(fd, size + 1)
            while len(raw) < size and (more := os.read(fd, size - len(raw))):
                raw += more  # one call reads no more than 2 GB
            return raw
        finally:
            os.close(fd)
    except OSError as error:
        warn(_unreadable(path, error.strerror or str(error)))
        return None


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except BlockingIOError:  # it is just being edited (edits.py)
        import time

        for _ in range(200):
            time.sleep(0.001)
            try:
                return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            except BlockingIOError:
                pass
        raise


def _unreadable(path: str, why: str) -> str:
    return f"{path} cannot be read ({why.lower()}); it was not searched."


def holding(where: str, pattern: str, *, all: bool = False, warn: Warn = _silent) -> Iterator[str]:
    """The Markdown files in which a tag like this may stand, in no order; perhaps one of them twice."""
    if os.path.isfile(where):
        yield where
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
        from overhand import ripgrep

        run = ripgrep.holding(
            program, where, literal(pattern), all=all, warn=lambda path, why: warn(_unreadable(path, why))
        )
        if (yield from run):
            return
    yield from documents(where, all=all, warn=warn)


def installed() -> str:
    """Where `rg` is, if it is installed."""
    for folder in os.environ.get("PATH", "").split(":"):
        path = f"{folder}/rg"
        if folder and os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    return ""


def documents(where: str, *, all: bool = False, warn: Warn = _silent) -> Iterator[str]:
    """Every Markdown file below a folder, in no order."""
    from overhand.ignoring import below, ignored

    top = os.path.realpath(where)
    shown = "" if where in (".", "./") else where.rstrip("/") + "/"
    stack = [("", None if all else ignored(top))]
    while stack:
        folder, rules = stack.pop()
        try:
            with os.scandir(f"{top}/{folder}") as entries:
                found = list(entries)
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
