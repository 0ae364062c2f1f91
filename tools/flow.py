"""Which modules a flow runs through: `python tools/flow.py` delegates a task, waits for it and shows it.

Every process of the flow (verbs, supervisor, what they start in Python) is profiled by a hook in `sitecustomize`; a
module counts if one of its functions was called, class bodies and lambdas left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HOOK = """
import atexit, os, sys, threading

seen = {}

def note(frame, event, arg):
    if event == "call":
        code = frame.f_code
        if code.co_flags & 1 and "/overhand/" in code.co_filename and code.co_name[0] != "<":  # not a class body
            seen[code.co_filename.rpartition("/overhand/")[2], code.co_qualname] = True

def write():
    sys.setprofile(None)
    with open(os.path.join(os.environ["TRACE_OF_OVERHAND"], f"{os.getpid()}.txt"), "a") as file:
        file.writelines(f"{path} {name}\\n" for path, name in list(seen))

if os.environ.get("TRACE_OF_OVERHAND"):
    leave = os._exit
    os._exit = lambda code: (write(), leave(code))
    atexit.register(write)
    threading.setprofile(note)
    sys.setprofile(note)
"""
AGENT = """import os
with open(os.environ["OVERHAND_OUTPUT"], "w") as file:
    file.write("# Task Complete: done\\n\\n**Status:** completed\\n\\n## Summary\\nIt is done.\\n")
"""


def trace(place: Path) -> set[tuple[str, str]]:
    """Files of the package and the functions in them that ran, in any process of the flow."""
    project, hook, found = place / "project", place / "hook", place / "found"
    for folder in (project / ".overhand/agents", hook, found):
        folder.mkdir(parents=True)
    (hook / "sitecustomize.py").write_text(HOOK)
    (project / "agent.py").write_text(AGENT)
    command = json.dumps([sys.executable, "agent.py"])
    front = f"name: worker\ndescription: works\noverhand:\n  driver: command\n  command: {command}\n"
    (project / ".overhand/agents/worker.md").write_text(f"---\n{front}---\nWork.\n")
    (project / ".overhand/config.toml").write_text('[limits]\nidle = "0.1s"\n')
    env = {name: value for name, value in os.environ.items() if not name.startswith("OVERHAND")}
    env |= {"XDG_CONFIG_HOME": str(place / "config"), "PYTHONPATH": str(hook), "XDG_STATE_HOME": str(place / "state")}

    def overhand(*words: str, **more: str) -> None:
        argv = [sys.executable, "-m", "overhand", *words]
        subprocess.run(argv, cwd=project, env={**env, **more}, check=True, stdout=subprocess.DEVNULL)

    overhand("trust", "--yes")
    traced = {"TRACE_OF_OVERHAND": str(found)}
    overhand("delegate", "do it", "--agent", "worker", **traced)
    overhand("wait", "1", **traced)
    overhand("show", "1", **traced)
    (record,) = (place / "state/overhand/projects").glob("project-*")
    _until_idle(record)
    rows = [line.split(" ", 1) for file in found.iterdir() for line in file.read_text().splitlines()]
    return {(path, name) for path, name in rows}


def _until_idle(record: Path) -> None:
    """Wait for the supervisor's end: it writes what it saw when it leaves."""
    from overhand.system import Lock

    with Lock(f"{record}/supervisor/lock", "The supervisor's lock", patience=60.0):
        pass


def main() -> int:
    """Print the modules, and with --functions what ran in each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--functions", action="store_true", help="what ran in each module")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        ran = trace(Path(place))
    modules = sorted({path for path, _ in ran})
    for module in modules:
        print(module, *(sorted(name for path, name in ran if path == module) if wanted.functions else ()))
    print(f"{len(modules)} modules, {len(ran)} functions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
