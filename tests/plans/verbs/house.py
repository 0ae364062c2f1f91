"""A project for plans: agents that return what they are given, ask, fail or wait, and plan files to put there."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from support.warm import make_project

if TYPE_CHECKING:
    from pathlib import Path

    from overhand.testing.project import ProjectDir

ECHO = """
import json, os
given = json.load(open(os.environ["OVERHAND_INPUTS"]))
print(json.dumps({"status": "completed", "summary": "Here it is again.", "data": given}))
"""
TWO = """
plan: Hand a number on
nodes:
  first: {agent: echo, task: "Give the number back", inputs: {n: 7}, outputs: {n: integer}, verify: "data.n > 6"}
  second:
    agent: echo
    task: "Take the number ${first.n}"
    inputs: {m: "${first.n}"}
    outputs: {m: integer}
    verify: "data.m == 7"
merge: sequential
on_failure: {policy: abort}
"""
ONE = """
plan: {title}
nodes:
  only: {{agent: {agent}, task: "Do this one thing", outputs: {{n: integer}}, verify: [{verify}], inputs: {{n: 1}}}}
on_failure: {{policy: abort}}
"""
MERGED_BY_RULE = """
plan: Make one of two
nodes:
  one: {agent: echo, task: Grade the first one, inputs: {grade: B}, outputs: {grade: string}, verify: "data.grade > ''"}
  two: {agent: echo, task: Grade the other one, inputs: {grade: A}, outputs: {grade: string}, verify: "data.grade > ''"}
merge: {strategy: aggregate, rules: {grade: prefer_last}}
on_failure: {policy: abort}
"""
BROKEN = """
plan: All of it is wrong
nodes:
  a: {agent: ecko, task: "Give the number", outputs: {n: integer}, verify: "data.m > 6", after: [c]}
  b: {agent: echo, task: "Take ${a.x} and ${nowhere.y}", outputs: {n: integer}, verify: "data.n > 0"}
  c: {agent: echo, task: "Close the circle", outputs: {n: integer}, verify: "data.n > 0", after: [b]}
on_failure: {policy: abort}
"""


def build(folder: Path, trust: bool = True) -> ProjectDir:
    """The agents `echo` (returns its inputs), `asker`, `patient` (until the file GO exists) and `quitter`."""
    asks = ("overhand-ask:Which colour?=red|blue", 'data:{"n": 1}', "output")
    agents = {"asker": asks, "patient": ("until:GO", 'data:{"n": 1}', "output"), "quitter": ("output:status=failed",)}
    project = make_project(folder, agents, trust=trust)
    project.agent("echo", command=[sys.executable, "-c", ECHO])
    project.run("version", check=True)  # what is there so far is trusted
    return project


def one(verify: str = '"data.n == 1"', agent: str = "echo", title: str = "One thing") -> str:
    return ONE.format(verify=verify, agent=agent, title=title)


def put(project: ProjectDir, name: str, text: str | bytes, *, trusted: bool = True) -> str:
    """Write a plan file; whoever wrote it trusts it."""
    path = project.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    if trusted:
        project.run("trust", name, "--yes", check=True)
    return name


def ran_inside(project: ProjectDir, *words: str) -> tuple[int, Any]:
    """What `overhand WORDS --json` says inside a run: its exit status and its object."""
    code = (
        "import json, subprocess, sys; "
        f"done = subprocess.run([sys.executable, '-m', 'overhand', *{list(words)!r}, '--json'], capture_output=True, "
        "text=True, stdin=subprocess.DEVNULL); "
        "json.dump([done.returncode, json.loads(done.stdout)], open('inside.json', 'w')); "
        "print(json.dumps({'status': 'completed', 'summary': 'Tried it.'}))"
    )
    project.agent("inner", command=[sys.executable, "-c", code])
    ran = project.run("delegate", "Try it inside", "--agent", "inner", "--wait", "--json")
    assert ran.code == 0, ran.out + ran.err
    status, told = json.loads((project.path / "inside.json").read_text())
    return status, told
