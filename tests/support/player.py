"""A program on PATH that plays a coding agent by its stream: for what needs a person, a limit or a second, not a model.

It notes each call in `trail` beside itself. `limit` beside it (a message) makes it end with the provider's limit,
`hold` keeps it from ending, `login` lacking its key makes it refuse.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PROGRAM = """\
#!{python} -ISs
import json, os, sys, time, uuid
here = os.path.dirname(os.path.abspath(__file__))
name, words = os.path.basename(__file__), sys.argv[1:]

def beside(what):
    return os.path.join(here, what)

def tell(**line):
    print(json.dumps(line), flush=True)

def note(**row):
    with open(beside("trail"), "a") as file:
        file.write(json.dumps({{"name": name, "words": words, **row}}) + "\\n")

def returns(summary):
    with open(os.environ["OVERHAND_OUTPUT"], "w") as file:
        file.write("# Task Complete: it\\n\\n**Status:** completed\\n\\n## Summary\\n" + summary + "\\n")

if words == ["--version"]:
    print("9.8.7 (a player)")
    note()
    sys.exit(0)
if "-p" not in words and words[:1] != ["exec"]:
    note(interactive=sys.stdin.isatty(), task=os.environ.get("OVERHAND_TASK"), cwd=os.getcwd())
    print("open:", words[-1], flush=True)
    for line in sys.stdin:
        if line.strip() == "return":
            returns("A person saw to it.")
        if line[0] == "!":
            print("ended:", os.system(line[1:]), flush=True)
        if line.strip() == "leave":
            sys.exit(0)
    sys.exit(0)
prompt = sys.stdin.read()
session = ""
for flag in ("--resume", "--session-id", "resume"):
    if flag in words:
        session = words[words.index(flag) + 1]
resumed = "--resume" in words or "resume" in words
session = session or str(uuid.uuid4())
note(session=session, resumed=resumed, prompt=prompt)
if name == "claude":
    tell(type="system", subtype="init", session_id=session)
    tell(type="assistant", message={{"content": [{{"type": "text", "text": "I am at it."}}]}})
else:
    tell(type="thread.started", thread_id=session)
    tell(type="item.completed", item={{"type": "agent_message", "text": "I am at it."}})
while os.path.exists(beside("hold")):
    time.sleep(0.02)
for why, status in (("limit", 429), ("login", 401)):
    if os.path.exists(beside(why)):
        text = open(beside(why)).read()
        if name == "claude":
            ended = {{"is_error": True, "api_error_status": status, "result": text, "session_id": session}}
            tell(type="result", subtype="success", **ended)
        else:
            tell(type="turn.failed", error={{"message": text}})
        sys.exit(1)
returns("Told: " + prompt.partition("## A message from the person")[2].strip().partition("\\n")[0])
if name == "claude":
    tell(type="result", subtype="success", is_error=False, result="Done.", session_id=session, num_turns=1,
         usage={{"input_tokens": 10, "output_tokens": 5}}, total_cost_usd=0.0)
else:
    tell(type="turn.completed", usage={{"input_tokens": 10, "output_tokens": 5}})
"""


def put(folder: Path, *names: str) -> Path:
    """Programs of these names in a folder that belongs on PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = folder / name
        path.write_text(PROGRAM.format(python=sys.executable))
        path.chmod(0o755)
    return folder


def trail(folder: Path) -> list[dict[str, Any]]:
    """What was called, in order."""
    path = folder / "trail"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
