"""`overhand demo`: the main job in a temporary project, with real processes and scripted agents, in under a minute.

Each step runs the same commands a person would type, and checks what they said; a demo that goes wrong says so and
ends with exit status 1.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overhand.testing.project import ProjectDir, make_project
from overhand.verbs.setup import found_programs

if TYPE_CHECKING:
    from collections.abc import Iterator

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
}  # fmt: skip


@dataclass(slots=True)
class Demo:
    """The project and whether everything went as it should."""

    project: ProjectDir
    ok: bool = True

    def do(self, *words: str, code: int = 0) -> Iterator[Item]:
        """Type a command, show what it printed."""
        yield {"e": "command", "text": "overhand " + " ".join(_quoted(word) for word in words)}
        ran = self.project.run(*words)
        if ran.code != code:
            self.ok = False
            yield {"e": "wrong", "text": f"exit status {ran.code}, {code} was expected\n{ran.err}"}
        yield {"e": "output", "text": ran.out.rstrip()}

    def expect(self, true: bool, text: str, file: str = "") -> Item:
        """Say what happened, or that it did not."""
        self.ok = self.ok and true
        return {"e": "happened" if true else "wrong", "text": text, "file": file}

    def show(self, handle: str) -> Item:
        """A task as JSON."""
        shown: Item = self.project.run("show", handle, "--json").json
        return shown


def _quoted(word: str) -> str:
    return f'"{word}"' if not word or any(c in word for c in " '`$&;|<>()") else word


def run(*, keep: bool = False) -> Iterator[Item]:
    """All steps; the last item tells whether they went well."""
    folder = Path(tempfile.mkdtemp(prefix="overhand-demo-"))
    began = time.monotonic()
    demo = Demo(make_project(folder, agents=AGENTS, git=True))
    try:
        yield {"e": "title", "text": f"A project in {folder}, with agents that are small scripts: no key, no server."}
        for step in (_delegation, _parallel, _phantom, _adoption):
            yield from step(demo)
    finally:
        demo.project.cleanup()
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    yield {
        "e": "end",
        "schema": "overhand.demo/1",
        "ok": demo.ok,
        "seconds": round(time.monotonic() - began, 1),
        "folder": str(folder) if keep else None,
        "programs": found_programs(),
    }


def _delegation(demo: Demo) -> Iterator[Item]:
    yield {"e": "title", "text": "1. Hand over a task and get a checked result back"}
    check = "python3 -c 'import greet; assert greet.greet(str(1))'"
    yield from demo.do(
        "delegate",
        "Write a greeting function",
        "--agent",
        "worker",
        "--deliverable",
        "greet.py",
        "--verify",
        check,
        "--wait",
    )
    yield from demo.do("show", "1")
    shown = demo.show("1")
    good = shown["status"] == "completed" and shown["verified"] == "all"
    yield demo.expect(
        good,
        "The agent said «completed»; Overhand looked at the file and ran the check itself, before and after.",
        f"{shown['folder']}/OUTPUT.md",
    )


def _parallel(demo: Demo) -> Iterator[Item]:
    yield {"e": "title", "text": "2. Two at the same time: each waits until it has met the other"}
    yield from demo.do("delegate", "Meet the right one", "--agent", "left")
    yield from demo.do("delegate", "Meet the left one", "--agent", "right")
    yield from demo.do("wait", "2", "3")
    both = [demo.show("2")["status"], demo.show("3")["status"]] == ["completed", "completed"]
    yield demo.expect(
        both, "Both are done, and neither could have been without the other running.", ".agent-workspaces/"
    )


def _phantom(demo: Demo) -> Iterator[Item]:
    yield {"e": "title", "text": "3. «Completed» is a claim: this agent names a report that it never wrote"}
    yield from demo.do(
        "delegate",
        "Write a report on the weather",
        "--agent",
        "boaster",
        "--deliverable",
        "report.md",
        "--wait",
        code=1,
    )
    shown = demo.show("4")
    caught = shown["claimed"] == "completed" and shown["status"] == "failed"
    yield demo.expect(
        caught,
        "Claimed completed, judged failed. The false OUTPUT.md was not accepted; it is kept here:",
        f"{shown['run_folder']}/OUTPUT.md",
    )


def _adoption(demo: Demo) -> Iterator[Item]:
    yield {"e": "title", "text": "4. kill -9 the supervisor while an agent works"}
    yield from demo.do("delegate", "Keep going whatever happens", "--agent", "steady")
    root = demo.project.path
    _wait_for(root / "steady.here")
    lock = root / ".agent-workspaces/.supervisor/lock"
    first = int(lock.read_text().split()[0])
    yield {"e": "command", "text": f"kill -9 {first}        # the supervisor"}
    os.kill(first, signal.SIGKILL)
    yield from demo.do("list", "--live")
    alive = demo.show("5")["run_state"] == "running"
    yield demo.expect(
        alive,
        "The agent works on; the verb has started another supervisor, which adopted it.",
        str(lock.relative_to(root)),
    )
    (root / "go").touch()
    yield from demo.do("wait", "5")
    shown = demo.show("5")
    run_folder = root / shown["run_folder"]
    once = (
        len(shown["runs"]) == 1
        and shown["runs"][0]["exit"] == 0
        and "still here" in (run_folder / "stdout").read_text()
    )
    second = int(lock.read_text().split()[0])
    yield demo.expect(
        once and second != first,
        "One run, its output and its exit code: nothing lost, nothing done twice.",
        f"{shown['folder']}/log.jsonl",
    )


def _wait_for(path: Path) -> None:
    """Until the agent has begun."""
    deadline = time.monotonic() + 30
    while not path.exists() and time.monotonic() < deadline:
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
    """What to type next, with the agent programs that are there."""
    went = "Everything went as it should" if item["ok"] else "SOMETHING WENT WRONG (see above)"
    lines = ["", f"{went}, in {item['seconds']} seconds."]
    if item["folder"]:
        lines.append(f"The project is kept in {item['folder']}")
    programs = list(item["programs"])
    name = programs[0] if programs else "worker"
    lines += ["", f"Agent programs on your PATH: {', '.join(programs) or 'none'}."]
    if programs:
        lines.append(f"Make an agent of {name}, in your own project:")
    else:
        lines.append("Any program that reads a prompt on standard input can be an agent. In your own project:")
    lines += [
        "  mkdir -p .overhand/agents",
        f"  overhand agents {name} --example > .overhand/agents/{name}.md",
        "  overhand trust",
        f'  overhand delegate "what to do" --agent {name} --verify "your test command" --wait',
    ]
    return "\n".join(lines)
