"""`plan show` and `plan graph`: where every node stands, once or as it changes, and as a document."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from overhand.plans import PlanEvent, make_plan_task, progress, read_plan_text
from overhand.policy import Actor, find_caller, trusted_config
from overhand.questions import Asking, ask_question
from overhand.system import dump_line
from overhand.verbs import PlanSource, Session, check_source, plan_view
from plans.verbs.house import ECHO, TWO, one, put
from support.scene import until
from support.terminal import at_a_terminal

if TYPE_CHECKING:
    import pytest

    from overhand.testing.project import ProjectDir

MIXED = """
plan: Some of it fails
nodes:
  good: {agent: echo, task: "Give it back", inputs: {n: 1}, outputs: {n: integer}, verify: "data.n == 1"}
  bad: {agent: echo, task: "Give the wrong thing", inputs: {n: 1}, outputs: {n: integer}, verify: "data.n == 2"}
  after: {agent: echo, task: "Never begins", inputs: {n: "${bad.n}"}, outputs: {n: integer}, verify: "data.n == 1"}
on_failure: {policy: continue, max_retries: 1}
"""


def shown(project: ProjectDir, handle: object) -> Any:
    return project.run("plan", "show", str(handle), "--json", check=True).json


def test_every_node_with_its_state(shared: ProjectDir) -> None:
    put(shared, "mixed.yaml", MIXED)
    told = shared.run("plan", "run", "mixed.yaml", "--wait", "--json").json
    tree = shown(shared, told["handle"])
    rows = {row["node"]: row for row in tree["nodes"]}
    assert {name: row["state"] for name, row in rows.items()} == {
        "good": "completed",
        "bad": "failed",
        "after": "skipped",
    }
    assert (rows["bad"]["attempt"], rows["good"]["attempt"], rows["after"]["attempt"]) == (2, 1, 0)
    assert rows["after"]["why"] == "bad failed"
    assert (rows["after"]["indent"], rows["after"]["handle"]) == (1, None)
    assert tree["counts"] == {"skipped": 1, "failed": 1, "completed": 1}
    assert rows["good"]["seconds"] is not None
    text = shared.run("plan", "show", str(told["handle"]), check=True).out
    assert "attempt 2" in text
    assert "bad failed" in text
    last = shared.run("plan", "show", "-", check=True).out
    assert last == text, "- is the last plan, not the last of its nodes"
    child = shared.run("plan", "show", str(rows["good"]["handle"]))
    assert (child.code, f"overhand plan show {told['handle']}" in child.err) == (2, True)


def test_as_a_document_it_is_a_plan_with_real_states(shared: ProjectDir) -> None:
    put(shared, "mixed.yaml", MIXED)
    handle = str(shared.run("plan", "run", "mixed.yaml", "--wait", "--json").json["handle"])
    text = shared.run("plan", "show", handle, "--format", "yaml", check=True).out
    told = yaml.safe_load(text)
    assert told["delegation"]["status"] == "partial"
    assert [(row["id"], row["status"], row["result"]) for row in told["subtasks"]] == [
        ("good", "completed", {"n": 1}),
        ("bad", "failed", None),
        ("after", "skipped", None),
    ]
    again = read_plan_text(text, "again.yaml")
    assert again.plan is not None
    assert list(again.plan.nodes) == ["good", "bad", "after"]
    assert any("does not count" in note for note in again.plan.notes)
    assert json.loads(shared.run("plan", "show", handle, "--format", "json", check=True).out) == told


def test_a_picture_shows_the_states(shared: ProjectDir) -> None:
    put(shared, "mixed.yaml", MIXED)
    handle = str(shared.run("plan", "run", "mixed.yaml", "--wait", "--json").json["handle"])
    assert "failed" not in shared.run("plan", "graph", "mixed.yaml", check=True).out
    for kind in ("mermaid", "dot", "svg"):
        assert "echo · failed" in shared.run("plan", "graph", handle, "--format", kind, check=True).out
    told = shared.run("plan", "graph", handle, "--format", "svg", "--out", "plan.svg", check=True).out
    assert told == "plan.svg  svg, 3 nodes\n"
    assert (shared.path / "plan.svg").read_text().startswith("<svg ")


def test_a_question_stands_at_its_node(own: ProjectDir) -> None:
    put(own, "ask.yaml", one(agent="asker"))
    handle = own.run("plan", "run", "ask.yaml", "--json", check=True).json["handle"]
    row = until(lambda: next((r for r in shown(own, handle)["nodes"] if r["question"]), None), "a question")
    assert (row["state"], row["question"], row["said"]) == ("waiting", "Which colour?", "waits for an answer")
    text = own.run("plan", "show", str(handle), check=True).out
    assert f"overhand answer {row['handle']} TEXT" in text
    own.run("answer", str(row["handle"]), "red", check=True)
    assert own.run("wait", str(handle)).code == 0


def test_approval_stands_at_its_node(own: ProjectDir) -> None:
    put(own, "ask.yaml", one().replace("agent: echo", "agent: echo, requires_approval: true"))
    handle = own.run("plan", "run", "ask.yaml", "--json", check=True).json["handle"]
    row = until(lambda: next((r for r in shown(own, handle)["nodes"] if r["question"]), None), "a question")
    assert (row["state"], row["answer"]) == ("held", f"overhand answer {handle} yes")
    own.run("answer", str(handle), "yes", check=True)
    assert own.run("wait", str(handle)).code == 0


def test_a_node_asks_once_its_question_is_there(own: ProjectDir, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan knows that a node is held before anybody is asked about it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(own.config_home))
    text = one().replace("agent: echo", "agent: echo, requires_approval: true")
    session = Session(str(own.path))
    found = check_source(session, PlanSource("the plan", "", text.encode()))
    assert found.plan is not None
    who = find_caller(session.store)
    actor = Actor(session.store, trusted_config(session.root), who.by(session.via))
    task = make_plan_task(actor, who, found.plan, text, {"no_start": True}).id
    view = plan_view.View(session, task)
    begun = PlanEvent("PlanStarted", time.time(), attempt=1, facts={"run": "sess_1700000000_abc123"})
    Path(session.store.record(task), plan_view.EVENTS).write_text(dump_line(progress.as_json(begun)) + "\n")
    view.look()
    assert (view.states(), view.asks()) == ({"only": "held"}, False)
    asking = Asking(text="May it begin?", step="only.1", via="permission")
    ask_question(session.store, task, None, asking, who.by("test"))
    assert view.asks()


def test_watching_as_json_is_a_line_for_each_change(own: ProjectDir) -> None:
    put(own, "slow.yaml", one(agent="patient"))
    handle = str(own.run("plan", "run", "slow.yaml", "--json", check=True).json["handle"])
    lines = []
    with own.start("plan", "show", handle, "--watch", "--json") as watch:
        assert watch.stdout is not None
        for line in watch.stdout:
            lines.append(json.loads(line))
            if lines[-1]["nodes"][0]["state"] == "running":
                (own.path / "GO").touch()
    assert watch.returncode == 0
    assert (lines[-1]["status"], lines[-1]["nodes"][0]["state"]) == ("completed", "completed")
    assert {one["schema"] for one in lines} == {"overhand.plan/1"}
    states = [one["nodes"][0]["state"] for one in lines]
    assert "running" in states


def test_the_tree_is_drawn_in_place(own: ProjectDir) -> None:
    wait = "import os, time\nwhile not os.path.exists('GO'):\n    time.sleep(0.02)\n"
    own.agent("late", command=[sys.executable, "-c", wait + ECHO])
    own.run("list", check=True)
    two = TWO.replace("inputs: {n: 7}", 'inputs: {n: 7, odd: "\\e[2J"}').replace("agent: echo", "agent: late", 1)
    put(own, "two.yaml", two)

    def seen(screen: str) -> None:
        if "\x1b[?7h" in screen:  # one is drawn
            (own.path / "GO").touch()

    code, screen = at_a_terminal(own, "plan", "run", "two.yaml", "--wait", seen=seen)
    assert code == 0, screen
    assert "\x1b[4A" in screen, "it was drawn over what stood there"
    assert screen.rindex("second") < screen.rindex("COMPLETED"), "the receipt comes last"
    assert "\x1b[2J" not in screen
    code, screen = at_a_terminal(own, "plan", "show", "1", "--watch")
    assert (code, "2 completed" in screen) == (0, True)


def test_many_nodes_fit_a_small_terminal(own: ProjectDir) -> None:
    own.run("list", check=True)
    node = '{agent: echo, task: "Give it back", inputs: {n: 1}, outputs: {n: integer}, verify: "data.n == 1"}'
    rows = "".join(f"  n{number}: {node}\n" for number in range(30))
    put(own, "wide.yaml", f"plan: Many\nnodes:\n{rows}on_failure: {{policy: abort}}\n")
    code, screen = at_a_terminal(own, "plan", "run", "wide.yaml", "--wait", lines=12)
    assert code == 0, screen
    drawn = screen.split("\x1b[?7l")[1:]
    assert drawn
    assert max(part.split("\x1b[?7h")[0].count("\r\n") for part in drawn) <= 11
    assert "more nodes" in screen


def test_leaving_leaves_the_work_alone(own: ProjectDir) -> None:
    put(own, "slow.yaml", one(agent="patient"))
    process = subprocess.Popen(
        [sys.executable, "-m", "overhand", "plan", "run", "slow.yaml", "--wait"],
        cwd=own.path, env=own.environment(), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    assert any("plan: running" in line for line in process.stderr), "without a terminal there is a line for each change"
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert "The work goes on" in said
    (own.path / "GO").touch()
    assert own.run("wait", "1").code == 0
