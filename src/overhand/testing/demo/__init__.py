"""`overhand demo`: the main job in a temporary project, with real processes and scripted agents, in under a minute.

Each step runs the same commands a person would type, and checks what they said; a demo that goes wrong says so and
ends with exit status 1.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overhand.agents import installable
from overhand.record import EVENT_KIND
from overhand.testing.project import ProjectDir, make_project
from overhand.verbs import installed_programs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Item = dict[str, Any]

GREETING = "def greet(name):\\n    return f'Hello, {name}!'"
AGENTS = {
    "worker": (f"file:greet.py={GREETING}", "output:summary=Wrote greet() and tried it."),
    "left": ("touch:left.here", "until:right.here", "file:left.txt=left", "output:summary=Met the right one."),
    "right": ("touch:right.here", "until:left.here", "file:right.txt=right", "output:summary=Met the left one."),
    "boaster": ("claim:report.md",),
    "steady": (
        "touch:steady.here", "until:go", "print:still here", "file:steady.txt=done",
        "output:summary=Outlived the supervisor.",
    ),
    "asker": ("overhand-ask:Which colour shall the door have?=red|blue", "output:summary=Painted the door."),
    "walker": (
        "step:1", "touch:walker.here", "until:again", "step:2", "output:summary=Went on with the second step.",
    ),
    "fix": ("output:summary=The clock goes again.",),
}  # fmt: skip


@dataclass(slots=True)
class Demo:
    """The project, and whether every step succeeded."""

    project: ProjectDir
    ok: bool = True

    def do(self, *words: str, code: int = 0) -> Iterator[Item]:
        yield {EVENT_KIND: "command", "text": " ".join(["overhand", *map(_quoted, words)])}
        ran = self.project.run(*words)
        if ran.code != code:
            self.ok = False
            yield {EVENT_KIND: "wrong", "text": f"exit status {ran.code}, {code} was expected\n{ran.err}"}
        yield {EVENT_KIND: "output", "text": ran.out.rstrip()}

    def expect(self, true: bool, text: str, file: str = "") -> Item:
        """Say what happened, or that it did not."""
        self.ok = self.ok and true
        return {EVENT_KIND: "happened" if true else "wrong", "text": text, "file": file}

    def show(self, handle: str) -> Item:
        return dict(self.project.run("show", handle, "--json").json)


def _quoted(word: str) -> str:
    return f'"{word}"' if not word or any(c in word for c in " '`$&;|<>()#*") else word


def run(*, keep: bool = False) -> Iterator[Item]:
    """All steps; the last item tells whether they went well."""
    folder = Path(tempfile.mkdtemp(prefix="overhand-demo-"))
    began = time.monotonic()
    before = {number: signal.signal(number, _end) for number in (signal.SIGTERM, signal.SIGHUP)}
    demo = Demo(make_project(folder, agents=AGENTS, git=True))
    try:
        yield {
            EVENT_KIND: "title",
            "text": f"A project in {folder}, with agents that are small scripts: no key, no server.",
        }
        for number, (title, step) in enumerate(STEPS.items(), 1):
            yield {EVENT_KIND: "title", "text": f"{number}. {title}"}
            yield from step(demo)
    finally:
        demo.project.cleanup()
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
        for number, handler in before.items():
            signal.signal(number, handler)
    yield {
        EVENT_KIND: "end",
        "schema": "overhand.demo/1",
        "ok": demo.ok,
        "seconds": round(time.monotonic() - began, 1),
        "folder": str(folder) if keep else None,
        "programs": installed_programs(),
    }


def _end(number: int, _frame: object) -> None:
    """Asked to end: the demo does, and cleans up."""
    raise SystemExit(128 + number)


def _delegation(demo: Demo) -> Iterator[Item]:
    check = "python3 -c 'import greet; assert greet.greet(str(1))'"
    options = ("--deliverable", "greet.py", "--verify", check, "--wait")
    yield from demo.do("delegate", "Write a greeting function", "--agent", "worker", *options)
    yield from demo.do("show", "1")
    shown = demo.show("1")
    yield demo.expect(
        shown["status"] == "completed" and shown["verified"],
        "The agent said «completed»; Overhand looked at the file and ran the check itself, before and after.",
        f"{shown['folder']}/OUTPUT.md",
    )


def _parallel(demo: Demo) -> Iterator[Item]:
    yield from demo.do("delegate", "Meet the right one", "--agent", "left")
    yield from demo.do("delegate", "Meet the left one", "--agent", "right")
    yield from demo.do("wait", "2", "3")
    both = all(demo.show(handle)["status"] == "completed" for handle in ("2", "3"))
    text = "Both are done, and neither could have been without the other running."
    yield demo.expect(both, text, ".agent-workspaces/")


def _phantom(demo: Demo) -> Iterator[Item]:
    options = ("--deliverable", "report.md", "--wait")
    yield from demo.do("delegate", "Write a report on the weather", "--agent", "boaster", *options, code=1)
    shown = demo.show("4")
    yield demo.expect(
        shown["claimed"] == "completed" and shown["status"] == "failed",
        "Claimed completed, judged failed. The false OUTPUT.md was not accepted; it is kept here:",
        f"{shown['folder']}/runs/{shown['runs'][-1]['id']}/OUTPUT.md",
    )


def _adoption(demo: Demo) -> Iterator[Item]:
    yield from demo.do("delegate", "Keep going whatever happens", "--agent", "steady")
    root = demo.project.path
    _wait_until((root / "steady.here").exists)
    lock = demo.project.record / "supervisor/lock"
    first = int(lock.read_text().split()[0])
    yield _kill(first, "the supervisor")
    yield from demo.do("list", "--live")
    yield demo.expect(
        demo.show("5")["run_state"] == "running",
        "The agent works on; the verb has started another supervisor, which adopted it.",
        str(lock),
    )
    (root / "go").touch()
    yield from demo.do("wait", "5")
    shown = demo.show("5")
    went_on = "still here" in (root / shown["run_folder"] / "stdout").read_text()
    second = int(lock.read_text().split()[0])
    yield demo.expect(
        went_on and [row["exit"] for row in shown["runs"]] == [0] and second != first,
        "One run, its output and its exit code: nothing lost, nothing done twice.",
        f"{shown['record']}/log.jsonl",
    )


def _question(demo: Demo) -> Iterator[Item]:
    yield from demo.do("delegate", "Paint the door", "--agent", "asker")
    _wait_until(lambda: demo.show("6")["run_state"] == "waiting")
    yield from demo.do()
    yield from demo.do("answer", "6", "blue")
    yield from demo.do("wait", "6")
    shown = demo.show("6")
    arrived = "blue" in (demo.project.path / shown["run_folder"] / "stdout").read_text()
    yield demo.expect(
        arrived and shown["status"] == "completed" and len(shown["runs"]) == 1,
        "The answer reached the waiting agent, and the same run went on.",
        f"{shown['folder']}/ipc/001.answer",
    )


def _parked(demo: Demo) -> Iterator[Item]:
    setting = ("--set", "limits.answer_wait=1s")
    yield from demo.do("delegate", "Paint the other door", "--agent", "asker", "--wait", *setting, code=1)
    shown = demo.show("7")
    parked = shown["status"] == "needs-input" and shown["cause"] == "answer-timeout"
    yield demo.expect(parked, "Parked: no process, no tokens. The question stays open.", shown["context"])
    yield from demo.do("answer", "7", "red")
    yield from demo.do("wait", "7")
    shown = demo.show("7")
    yield demo.expect(
        shown["status"] == "completed" and len(shown["runs"]) == 2,
        "Answering started the second run by itself, and it was told the answer.",
        f"{shown['folder']}/HANDOFF.md",
    )


def _resumed(demo: Demo) -> Iterator[Item]:
    root = demo.project.path
    steps = ("--step", "Take the first step", "--step", "Take the second step")
    yield from demo.do("delegate", "Walk two steps", "--agent", "walker", *steps)
    _wait_until((root / "walker.here").exists)
    (run_folder,) = Path(demo.show("8")["record"], "runs").iterdir()
    yield _kill(int((run_folder / "pid").read_text()), "the agent")
    yield from demo.do("wait", "8", code=1)
    yield from demo.do("list", "--resumable")
    (root / "again").touch()
    yield from demo.do("resume", "8", "--wait")
    shown = demo.show("8")
    plan, _, context = (root / shown["folder"] / "HANDOFF.md").read_text().partition("## Previous Worker Context")
    yield demo.expect(
        shown["status"] == "completed" and plan.count("- [x]") == 2 and bool(context),
        "The first step stayed done; the next run was told where the last one stood.",
        f"{shown['folder']}/HANDOFF.md",
    )


def _noted(demo: Demo) -> Iterator[Item]:
    root = demo.project.path
    own = demo.project.config_home / "overhand/config.toml"
    own.parent.mkdir(exist_ok=True)
    own.write_text("approve_without_terminal = true\n")  # the demo has no terminal; at one you don't need this
    (root / "notes.md").write_text("# Notes\n\n- The clock has stopped #needs-fix #P1\n")
    request = "requests/FIX_REQUEST_THE_CLOCK_HAS_STOPPED.md"
    yield from demo.do("daemon", "start")
    yield from demo.do("item", "list")
    yield from demo.do("item", "approve", "notes.md:3#fix")
    yield from demo.do("tag", "await", request, "#done-fix", "--timeout", "30s")
    yield from demo.do("tag", "find", "#done-*")
    yield from demo.do("daemon", "stop")
    text = (root / request).read_text()
    yield demo.expect(
        "#done-fix" in text and "> The clock goes again." in text,
        "The tag showed each step (needs, delegated, claimed, done), and the answer stands where it was asked.",
        request,
    )


def _reviewed(demo: Demo) -> Iterator[Item]:
    root, here = demo.project.path, Path(__file__).parent
    shutil.copytree(here / "shop", root / "shop", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("reviewer.py", "review.yaml"):
        shutil.copy(here / name, root)
    for agent, program in (("security", "security"), ("perf", "performance"), ("style", "style")):
        text = _REVIEWER.format(agent=agent, program=program, python=json.dumps(sys.executable))
        (root / f".overhand/agents/{agent}-agent.md").write_text(text)
    yield from demo.do("trust", "--yes")
    yield from demo.do("plan", "check", "review.yaml")
    yield from demo.do("trust", "review.yaml", "--yes")
    yield from demo.do("plan", "run", "review.yaml", "--wait")
    (plan,) = (one for one in demo.project.run("list", "--json").json["tasks"] if one["agent"] == "plan")
    yield from demo.do("plan", "show", str(plan["handle"]))
    shown = demo.show(str(plan["handle"]))
    data = shown["data"] or {}
    yield demo.expect(
        shown["status"] == "completed" and data.get("passed") is False and len(data.get("all_issues", ())) == _FOUND,
        "Every issue once, though two reviewers found the same one; passed only if all of them say so; their grades "
        "differ, and the result says whose was taken.",
        f"{shown['folder']}/OUTPUT.md",
    )


_REVIEWER = """---
name: {agent}-agent
description: reviews {program}
capabilities: [{program}]
overhand:
  driver: command
  command: [{python}, reviewer.py, {program}]
---
An ordinary program: it reads the files it is given and prints what it found as JSON.
"""
_FOUND = 8  # nine findings, two of them equal

STEPS = {
    "Hand over a task and get a checked result back": _delegation,
    "Two at the same time: each waits until it has met the other": _parallel,
    "«Completed» is a claim: this agent names a report that it never wrote": _phantom,
    "kill -9 the supervisor while an agent works": _adoption,
    "An agent asks; it waits, and you see it in one place": _question,
    "Nobody answers: the run is parked without a process, and the answer starts the next": _parked,
    "kill -9 an agent in the middle of its plan, then go on": _resumed,
    "Work that is noted in Markdown: approved by you, done, and answered where it stood": _noted,
    "A plan: three reviewers at once, merged by the rule in the file": _reviewed,
}


def _kill(pid: int, what: str) -> Item:
    os.kill(pid, signal.SIGKILL)
    return {EVENT_KIND: "command", "text": f"kill -9 {pid}        # {what}"}


def _wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)


def as_text(item: Item) -> str:
    """One item of the demo as a person reads it."""
    kind, text = item["e"], item.get("text", "")
    if kind == "title":
        return f"\n{text}"
    if kind == "command":
        return f"\n  $ {text}"
    if kind == "output":
        return "\n".join(f"    {line}" for line in str(text).splitlines())
    if kind in ("happened", "wrong"):
        mark = "→" if kind == "happened" else "WRONG:"
        return f"  {mark} {text}" + (f"\n    see {item['file']}" if item.get("file") else "")
    return closing(item)


def closing(item: Item) -> str:
    """What to type next, with the agent programs that are installed."""
    went = "Everything went as it should" if item["ok"] else "SOMETHING WENT WRONG (see above)"
    lines = ["", f"{went}, in {item['seconds']} seconds."]
    if item["folder"]:
        lines.append(f"The project is kept in {item['folder']}")
    lines += ["", f"Agent programs on your PATH: {', '.join(item['programs']) or 'none'}.", *recipe(item["programs"])]
    return "\n".join(lines)


def recipe(programs: Mapping[str, str]) -> list[str]:
    """Commands that work as they are printed: with a coding agent, else with a program that does nothing but return."""
    name = next(iter(programs), "worker")
    task = '"Write a haiku about this project into HAIKU.md" --deliverable HAIKU.md' if programs else '"Say hello"'
    if name in installable():
        return ["In your own project:", f"  overhand delegate {task} --agent {name} --wait"]
    return [
        "Any program that takes a prompt can be an agent. In your own project:",
        "  mkdir -p .overhand/agents",
        f"  overhand agents {name} --example > .overhand/agents/{name}.md",
        "  overhand trust --yes",
        f"  overhand delegate {task} --agent {name} --wait",
    ]
