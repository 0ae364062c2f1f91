"""A program that goes looking for evidence, settings and other tasks, and tries to change all that it finds.

`seeker.py FOLDER…` prints what it could do, as JSON; every file and folder below each FOLDER is tried.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def _append(path: Path) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK))


def _new_file(path: Path) -> None:
    (path / "forged").write_text("forged")


FILE: dict[str, Callable[[Path], object]] = {
    "append": _append,
    "chmod": lambda path: path.chmod(0o777),
    "touch": os.utime,
    "move": lambda path: path.rename(f"{path}.moved"),
    "remove": lambda path: path.unlink(),
}
FOLDER: dict[str, Callable[[Path], object]] = {
    "new file": _new_file,
    "new folder": lambda path: (path / "forged-folder").mkdir(),
    "chmod": lambda path: path.chmod(0o777),
    "move": lambda path: path.rename(f"{path}.moved"),
}


def main(folders: list[str]) -> None:
    tried, done = 0, []
    for folder in map(Path, folders):
        for path in [*sorted(folder.rglob("*"), reverse=True), folder]:
            if path.is_fifo():
                continue  # a run's own `life`: opening it for writing changes nothing
            for name, act in (FOLDER if path.is_dir() else FILE).items():
                tried += 1
                try:
                    act(path)
                except OSError:
                    continue
                done.append(f"{name} {path}")
    sys.stdout.write(json.dumps({"tried": tried, "done": done}))


if __name__ == "__main__":
    main(sys.argv[1:])
