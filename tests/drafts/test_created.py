"""What a new task's first event and documents say, whatever the task was made from: recorded once, kept to the byte."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from overhand import Project
from overhand.items import approve_item, items_in_file, typed
from overhand.plans import Plan
from overhand.plans.model import Interface, Node
from overhand.policy import Actor, load_config
from overhand.record import Store
from overhand.verbs import Session, delegate_task, run_again

if TYPE_CHECKING:
    from collections.abc import Callable

    from overhand import Task
    from overhand.testing.project import ProjectDir

GOLDEN = Path(__file__).parent.parent / "golden/drafts"
BY = {"kind": "person", "user": "ada", "via": "test"}
WRITE = os.environ.get("OVERHAND_GOLDEN") == "write"
STAMP = ("t", "mono", "boot", "by")
CONFIG = """default_agent = "worker"
[checks]
tests = "true"
[limits]
stall = "5m"
[kinds.triage]
timeout = "3m"
level = "work"
contract = "REVIEW_OUTPUT"
"""
ALERT = "# Alert: The mirror is slow\n\n**Tags**: #active-alert\n\n## Workaround\nUse the other one.\n"
REQUEST = """# Fix Request: The map pauses

**Tags**: #needs-fix #P1

## What
The map pauses when one zooms in.
"""
STUDY = """# Research Request: Why it pauses

**Tags**: #needs-research #P3 #L

## What
Find out why the map pauses.

## Context
Since Tuesday.
"""
HANDOFF = """# Task Handoff

## Task
Sort the letters. By date.

## Key Files
- `letters/` — all of them

## Expected Deliverables
- [ ] `sorted.txt` — one line each (may be unchanged)

## Return Requirements
- How many there were

Use: REVIEW_OUTPUT contract
"""
WORDS: dict[str, dict[str, Any]] = {
    "bare": {"title": "Count the cats in the yard"},
    "odd": {"title": "# Count:\n- cats\n\n## Context\nnone"},
    "full": {
        "title": "Find out.  Why it pauses",
        "kind": "research",
        "context": ["It is old.", "Very old."],
        "file": ["a.txt=the first", "b.txt"],
        "constraint": ["Use no network"],
        "deliverable": ["report.md", "A good word", "notes (may be unchanged)"],
        "return": ["What was found"],
        "step": ["Look", "Tell"],
        "priority": "P0",
        "timeout": "5m",
        "budget": "20k tokens",
        "model": "small-1",
    },
    "kind": {"title": "Look at the yard again", "kind": "review", "read_only": True},
    "own-kind": {"title": "Look at the yard again", "kind": "triage"},
    "file": {"handoff": "given.md", "kind": "research", "constraint": "Be quick"},
    "file-and-title": {"title": "Sort the bills", "handoff": "given.md", "return": ["Their sum"], "kind": "triage"},
    "checked": {"title": "Mend the roof of it", "verify": ["true", "test -d ."], "set": ["limits.stall=1m"]},
    "strict": {"title": "Mend the roof of a.txt", "strict": True, "verify": "true", "level": "work"},
    "schema": {"title": "Count the cats in the yard", "contract": "count.json", "after": "1"},
    "marked": {"title": "Count the cats in the yard", "agent": "loner"},
    "held": {"title": "Count the cats in the yard", "agent": "limited", "level": "full"},
}


@pytest.fixture
def yard(overhand_project: ProjectDir, monkeypatch: pytest.MonkeyPatch) -> ProjectDir:
    """A project with checks, an alert and some agents, of a user with a known key."""
    project = overhand_project
    project.agent("loner", "output", exclusive=True, can_delegate=False)
    project.agent("limited", "output", level="work")
    project.config(CONFIG)
    files = {
        "a.txt": "a",
        "notes": "n",
        "given.md": HANDOFF,
        "count.json": '{"type": "object", "required": ["cats"]}',
        f"{load_config(str(project.path)).alerts}/ALERT_MIRROR.md": ALERT,
        "requests/FIX_REQUEST_MAP.md": REQUEST,
        "requests/RESEARCH_REQUEST_MAP.md": STUDY,
        "requests/FIX_REQUEST_DOOR.md": REQUEST.replace("#needs-fix", "#claimed-fix"),
        "notes.md": "# Notes\n\n- buy oil\n- repair the clock #needs-chores #P1 #S\n",
    }
    for name, text in files.items():
        (project.path / name).parent.mkdir(parents=True, exist_ok=True)
        (project.path / name).write_text(text)
    (project.config_home / "overhand").mkdir(exist_ok=True)
    (project.config_home / "overhand/key").write_text("0" * 64)
    project.trust_files()
    monkeypatch.chdir(project.path)
    return project


def from_words(project: ProjectDir) -> dict[str, str]:
    session = Session(str(project.path), "test")
    return {
        name: str(delegate_task(session, **{"agent": "worker", **words}, no_start=True).payload["task_id"])
        for name, words in WORDS.items()
    }


def from_functions(project: ProjectDir) -> dict[str, str]:
    """One task below another, and two together."""
    inner: list[str] = []
    with Project(project.path) as api:
        api.agent("helper", can_delegate=False)(lambda call: f"{call.title}: done.")

        @api.agent("boss")
        def boss(call: Any) -> str:
            inner.append(_done(api.delegate("Do a part of it well", agent="helper", timeout="20m")))
            return "Had it done."

        outer = _done(api.delegate("Have it done by another", agent="boss"))
        both = [{"title": title, "agent": "helper", "kind": "review"} for title in ("One is to be done", "# Two")]
        one, two = map(_done, api.delegate_all(both))
    return {"outer": outer, "inner": inner[0], "one": one, "two": two}


def _done(task: Task) -> str:
    task.wait()
    return task.id


def from_items(project: ProjectDir) -> dict[str, str]:
    store, settings = Store(str(project.path)), load_config(str(project.path))
    made = {}
    for path in ("requests/FIX_REQUEST_MAP.md", "requests/RESEARCH_REQUEST_MAP.md", "notes.md"):
        (place,) = items_in_file(store.root, path)
        made[path] = approve_item(Actor(store, settings, BY), place).id
    (place,) = items_in_file(store.root, "requests/FIX_REQUEST_DOOR.md")
    made["claimed outside"] = typed.outside_claim(store, settings, place, BY)
    return made


def from_plan(project: ProjectDir) -> dict[str, str]:
    """A plan and its nodes."""
    nodes = (
        Node("plain", "helper", task="Count the cats."),
        Node("again", "helper", task="# Count", kind="research", context="Read slowly."),
        Node("wordless", "helper", inputs={"cats": 3}, outputs={"dogs": "integer"}),
        Node(
            "full",
            "helper",
            task="Collect the changes. All of them.",
            outputs={"changes": "array of {title, author}", "total": "integer"},
            constraints={"max_changes": 50, "timeout": "2min", "tone": "plain words", "token_budget": 20000},
            verification=({"expression": "len(data.changes) == data.total"}, {"command": "true"}, "All is there"),
            priority="P1",
            deliverables=("CHANGES.md", "A short list"),
            key_files=("a.txt",),
            context="Read the commits, not the code.",
            mutates=True,
            kind="research",
            model="small-1",
        ),
    )
    plan = Plan(
        task="Ship the release.",
        nodes={node.id: node for node in nodes},
        interfaces=(Interface("full", "wordless", {"rows": "array"}, ("title",)),),
        context=(("style", "short"),),
        constraints={"language": "English"},
        timeout=1800.0,
        budget=90000,
    )
    with Project(project.path) as api:
        api.agent("helper", can_delegate=False)(lambda _: {"changes": [], "total": 0, "dogs": 2})
        api.plan(plan)
    found = {task.node or "plan": task.id for task in Store(str(project.path)).tasks()}
    return dict(sorted(found.items()))


def from_folder(project: ProjectDir) -> dict[str, str]:
    folder = project.path / ".agent-workspaces/worker-sort"
    folder.mkdir(parents=True)
    (folder / "HANDOFF.md").write_text(HANDOFF)
    bare = project.path / ".agent-workspaces/worker-bare"
    bare.mkdir()
    (bare / "HANDOFF.md").write_text("# Sort the bills by date\n\nAll of them.\n")
    session = Session(str(project.path), "test")
    return {path.name: str(run_again(session, str(path), wait=True).payload["task_id"]) for path in (folder, bare)}


@pytest.mark.parametrize("make", [from_words, from_functions, from_items, from_plan, from_folder])
def test_what_is_recorded_of_a_new_task(yard: ProjectDir, make: Callable[[ProjectDir], dict[str, str]]) -> None:
    shown = "".join(f"{name}: {_recorded(yard, task_id)}\n" for name, task_id in make(yard).items())
    golden = GOLDEN / f"{make.__name__}.txt"
    if WRITE:
        golden.write_text(shown)
    assert shown == golden.read_text()


def _recorded(project: ProjectDir, task_id: str) -> str:
    """The first event without its stamp, and a digest of each file that came with it."""
    folder = Path(Store(str(project.path)).record(task_id))
    event = json.loads((folder / "log.jsonl").read_text().split("\n", 1)[0])
    line = json.dumps({name: value for name, value in event.items() if name not in STAMP}, ensure_ascii=False)
    files = {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()[:16]
        for name in ("contract.json", "inputs.json", "plan.json", "plan.yaml")
        if (folder / name).exists()
    }
    return re.sub(r"\d{8}-\d{6}(-\d+)?", "TIME", re.sub(r"sess_\w+", "RUN", f"{line} {files}"))
