"""A service that runs jobs, as a folder: `service.py FOLDER start|poll|collect|stop [HANDLE]`.

Each start leaves a line in `started` before anything is printed, as a real service has the job before we know of it.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

folder, verb = Path(sys.argv[1]), sys.argv[2]
handle = sys.argv[3] if len(sys.argv) > 3 else ""


def note(name: str, text: str) -> None:
    with (folder / name).open("a") as file:
        file.write(f"{text}\n")


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if verb == "start":
    number = len((folder / "started").read_text().split()) + 1 if (folder / "started").exists() else 1
    note("started", f"job-{number}")
    if (folder / "mute").exists():
        (folder / "hanging").touch()
        while (folder / "mute").exists():
            time.sleep(0.01)
    say((folder / "says").read_text() if (folder / "says").exists() else f"job-{number}")
    sys.exit(3 if (folder / "refuses").exists() else 0)
elif verb == "poll":
    note("polled", handle)
    if (folder / "broken").exists():
        sys.exit("the service does not answer")
    say("progress 50 %")
    say("failed" if (folder / "failed").exists() else "done" if (folder / "go").exists() else "running")
elif verb == "collect":
    note("collected", f"{handle} {os.environ['OVERHAND_JOB_STATE']}")
    text = f"# Task Complete: job\n\n**Status:** completed\n\n## Summary\nFetched {handle}.\n"
    Path(os.environ["OVERHAND_OUTPUT"]).write_text(text)
elif verb == "stop":
    note("stopped", handle)
