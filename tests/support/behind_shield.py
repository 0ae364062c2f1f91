"""Put up a shield as the user who runs this, and become a program behind it: `behind_shield.py JSON argv…`.

With `--twin FOLDER PLACE` in front, FOLDER is mounted at PLACE as well, and this must have mounts of its own; with
`--bwrap PROGRAM`, bubblewrap does the mounting.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from overhand.system import shield


def main(given: str, *argv: str, bwrap: str = "") -> None:
    walls = json.loads(given)
    read_only, writable, hidden = (tuple(walls[name]) for name in ("read_only", "writable", "hidden"))
    plan = shield.plan_mounts(shield.Walls(read_only, writable, hidden, walls["cwd"]))
    if plan.why:
        sys.exit(plan.why)
    words = [*shield.shield_words(plan, bwrap), *argv]
    os.execv(words[0], words)  # noqa: S606


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[0] == "--twin":
        subprocess.run(["mount", "--bind", words[1], words[2]], check=True)
        words = words[3:]
    if words[0] == "--bwrap":
        main(*words[2:], bwrap=words[1])
    main(*words)
