"""A person at a real terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from overhand.testing.project import ProjectDir


def at_a_terminal(
    project: ProjectDir, *words: str, answer: str = "", lines: int = 24, seen: Callable[[str], object] = str
) -> tuple[int, str]:
    """Type a verb at a real terminal, answer its question, return what was written to the screen.

    Whatever appears there, `seen` is given all of it so far.
    """
    leader, follower = pty.openpty()
    env = {**project.environment(), "TERM": "xterm", "NO_COLOR": "1"}
    subprocess.run(["stty", "rows", str(lines), "cols", "100"], stdin=follower, check=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "overhand", *words],
        cwd=project.path, env=env, stdin=follower, stdout=follower, stderr=follower, start_new_session=True,
    )  # fmt: skip
    os.close(follower)
    screen, asked = b"", False
    while True:
        select.select([leader], [], [], 60)
        try:
            part = os.read(leader, 65536)
        except OSError:  # everybody has closed the other end
            break
        screen += part
        seen(screen.decode("utf-8", "replace"))
        if b"[y/N]" in screen and not asked:
            asked = True
            os.write(leader, f"{answer}\n".encode())
    os.close(leader)
    return process.wait(60), screen.decode()
