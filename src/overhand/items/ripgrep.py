"""Ripgrep as a prefilter: it says which Markdown files hold some text, and where, much faster than we could."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    Running = tuple[int, int, int]  # its process, and what it prints and complains of
    Spots = list[tuple[int, int]]  # of each match the number of its line, from 1, and its offset in the file

# The user's own settings and ignore files stay out of it, so that the answer is the same with and without ripgrep.
# It prints `path NUL line:offset:match newline` for each match; names alone it would keep back until the end, and
# headings it writes one by one.
_FLAGS = (
    "--no-config", "--only-matching", "--line-number", "--byte-offset", "--with-filename", "--no-heading", "--null",
    "--line-buffered", "--text", "--encoding=none", "--color=never", "--no-require-git", "--no-ignore-dot",
    "--no-ignore-global", "--type-add=overhand:*.md", "--type=overhand",
)  # fmt: skip
_LETTER = r"(?-u)#[A-Za-z\x80-\xff]"
_OURS = b"/.agent-workspaces/"
_PIPE = 65536  # bytes it holds
_PAUSE = 0.0004  # seconds; being woken for each of a thousand files takes longer than reading them


def holding(
    program: str, where: str, texts: list[str], *, all: bool, warn: Callable[[str, str], None], first: bool = False
) -> Generator[tuple[str, Spots], None, bool]:
    """The files below a folder that hold one of these texts, as they are found, and where in them (or only the first
    place); in the end, whether these are all."""
    running = _start(_words(program, where, texts, all=all, first=first))
    if running is None:
        return False
    pid, out, err = running
    said: list[bytes] = []
    code = -1
    try:
        yield from _files(_chunks(out, err, said))
    except ValueError:  # it ended in the middle of a line, or is another program
        said.append(b"?")
    finally:
        os.close(out)
        os.close(err)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return (code in (0, 1) and b"?" not in said) or (code == 2 and _explained(b"".join(said), warn))


def _words(program: str, where: str, texts: list[str], *, all: bool, first: bool) -> tuple[str, ...]:
    wanted = ["--regexp", _LETTER] if "#" in texts else ["--fixed-strings", *(f"--regexp={text}" for text in texts)]
    how = [*(["--max-count=1"] if first else []), *(["--no-ignore"] if all else [])]
    return (program, *_FLAGS, f"--threads={_threads()}", *how, *wanted, "--", where)


def _start(words: tuple[str, ...]) -> Running | None:
    """None if it cannot be started."""
    out, out_end = os.pipe()
    err, err_end = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, out_end, 1), (os.POSIX_SPAWN_DUP2, err_end, 2)]
    try:
        return os.posix_spawn(words[0], words, os.environ, file_actions=actions), out, err
    except OSError:
        os.close(out)
        os.close(err)
        return None
    finally:
        os.close(out_end)
        os.close(err_end)


def _threads() -> int:
    """One core is for us, who read what it finds; more than a dozen are no faster."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2
    return max(1, min(cores, 12))


def _files(chunks: Iterator[bytes]) -> Iterator[tuple[str, Spots]]:
    """File by file what comes out: between two NULs stand a match and the path of the next one."""
    encoding = sys.getfilesystemencoding()
    path = rest = b""
    spots: Spots = []
    for chunk in chunks:
        *records, rest = (rest + chunk).split(b"\0")
        for record in records:
            if not path:
                path = record
                continue
            line, offset, said = record.split(b":", 2)
            spots.append((int(line), int(offset)))
            following = said[said.index(b"\n") + 1 :]
            if following != path:
                if path.find(_OURS) < 0:  # a rule of `.gitignore` may take it back
                    yield path.removeprefix(b"./").decode(encoding, "surrogateescape"), spots
                path, spots = following, []


def _chunks(out: int, err: int, said: list[bytes]) -> Iterator[bytes]:
    """What comes out, and a NUL behind the end of it; complaints are collected."""
    import select
    import time

    waiting = select.poll()
    for fd in (out, err):
        waiting.register(fd, select.POLLIN)
    open_ends, began = {out, err}, time.monotonic()
    while open_ends:
        length = 0
        for fd, _ in waiting.poll():
            part = os.read(fd, _PIPE)
            length += len(part)
            if not part:
                waiting.unregister(fd)
                open_ends.remove(fd)
            elif fd == err:
                said.append(part)
            else:
                yield part
        if out in open_ends and length < _PIPE // 2:
            time.sleep(min(_PAUSE, (time.monotonic() - began) / 20))
    yield b"\0"


def _explained(said: bytes, warn: Callable[[str, str], None]) -> bool:
    """Pass on which files could not be read; False if something else was wrong."""
    for line in os.fsdecode(said).splitlines():
        path, colon, why = line.removeprefix("rg: ").removeprefix("./").rpartition(": ")
        reason, has_number, _ = why.partition(" (os error ")
        if not colon or not has_number:
            return False
        if reason != "No such file or directory":  # else it was there a moment ago
            warn(path.partition(": IO error for operation on ")[0], reason)
    return True
