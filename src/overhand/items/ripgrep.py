"""Ripgrep as a prefilter: it says which Markdown files hold some text at all, much faster than reading them."""

from __future__ import annotations

import os

# It searches everything, whatever the user's own settings and ignore files say: it may name too many files, never too
# few, so that the answer is the same with and without ripgrep.
_FLAGS = (
    "--no-config", "--no-ignore", "--hidden", "--text", "--encoding=none", "--files-with-matches", "--null",
    "--color=never", "--type-add=overhand:*.md", "--type=overhand", "--glob=!.agent-workspaces",
)  # fmt: skip
_LETTER = r"(?-u)#[A-Za-z\x80-\xff]"


def installed() -> str:
    """Where `rg` is, if it is installed."""
    for folder in os.environ.get("PATH", "").split(":"):
        path = f"{folder}/rg"
        if folder and os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    return ""


def holding(where: str, *texts: str) -> set[str] | None:
    """The files below a folder, relative to it, that hold one of these texts; None if one must look oneself."""
    program = installed()
    if not program or not texts:
        return None
    wanted = ["--regexp", _LETTER] if "#" in texts else ["--fixed-strings", *(f"--regexp={text}" for text in texts)]
    told, exit_code = _run((program, *_FLAGS, *wanted, "--", where))
    if exit_code not in (0, 1) or told[-1:] not in (b"", b"\0"):  # something could not be read, or it is no ripgrep
        return None
    cut = len(os.fsencode(where.rstrip("/"))) + 1
    return {os.fsdecode(path[cut:]) for path in told.split(b"\0") if path}


def _run(words: tuple[str, ...]) -> tuple[bytes, int]:
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
