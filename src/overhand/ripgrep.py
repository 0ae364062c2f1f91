"""Ripgrep as a prefilter: it says which Markdown files hold some text, much faster than we could."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

# The user's own settings and ignore files stay out of it, so that the answer is the same with and without ripgrep.
# It prints `path NUL match newline` for the first line of each file; names alone it would keep back until the end.
_FLAGS = (
    "--no-config", "--max-count=1", "--only-matching", "--no-line-number", "--with-filename", "--no-heading", "--null",
    "--line-buffered", "--text", "--encoding=none", "--color=never", "--no-require-git", "--no-ignore-dot",
    "--no-ignore-global", "--type-add=overhand:*.md", "--type=overhand", "--glob=!.agent-workspaces",
)  # fmt: skip
_LETTER = r"(?-u)#[A-Za-z\x80-\xff]"


def holding(
    program: str, where: str, text: str, *, all: bool, warn: Callable[[str, str], None]
) -> Generator[str, None, bool]:
    """The files below a folder that hold this text, as they are found; in the end, whether these are all."""
    wanted = ["--regexp", _LETTER] if text == "#" else ["--fixed-strings", "--regexp", text]
    words = [program, *_FLAGS, f"--threads={_threads()}", *(["--no-ignore"] if all else []), *wanted, "--", where]
    out, out_end = os.pipe()
    err, err_end = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, out_end, 1), (os.POSIX_SPAWN_DUP2, err_end, 2)]
    try:
        pid = os.posix_spawn(program, words, os.environ, file_actions=actions)
    except OSError:
        os.close(out)
        os.close(err)
        return False
    finally:
        os.close(out_end)
        os.close(err_end)
    said: list[bytes] = []
    code = -1
    try:
        yield from _paths(out, err, said, max(len(os.fsencode(text)), 2) + 1)
    finally:
        os.close(out)
        os.close(err)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code in (0, 1) or (code == 2 and _explained(b"".join(said), warn))


def _threads() -> int:
    """One core is for us, who read what it finds; more than a dozen are no faster."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2
    return max(1, min(cores, 12))


def _paths(out: int, err: int, said: list[bytes], skip: int) -> Iterator[str]:
    """What comes out, path by path, between matches of so many bytes; complaints are collected."""
    import select

    waiting = select.poll()
    for fd in (out, err):
        waiting.register(fd, select.POLLIN)
    open_ends, rest, last = 2, b"-" * skip, b""
    while open_ends:
        for fd, _ in waiting.poll():
            part = os.read(fd, 65536)
            if not part:
                waiting.unregister(fd)
                open_ends -= 1
            elif fd == err:
                said.append(part)
            else:
                *paths, rest = (rest + part).split(b"\0")
                for path in paths:
                    if path[skip:] != last:  # a line may match more than once
                        last = path[skip:]
                        yield os.fsdecode(last.removeprefix(b"./"))


def _explained(said: bytes, warn: Callable[[str, str], None]) -> bool:
    """Pass on which files could not be read; False if something else was wrong."""
    for line in os.fsdecode(said).splitlines():
        path, colon, why = line.removeprefix("rg: ").removeprefix("./").rpartition(": ")
        reason, has_number, _ = why.partition(" (os error ")
        if not colon or not has_number:
            return False
        warn(path.partition(": IO error for operation on ")[0], reason)
    return True
