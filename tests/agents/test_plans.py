"""Two real agents in one plan: Claude Code writes, Codex reviews what it wrote."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from model.clients import point
from support.installed import program, require
from support.real_agents import LIMIT, House, house, output

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.soak  # real agents

PLAN = """
plan: A greeting that somebody else has looked at
nodes:
  write:
    agent: claude
    task: "script:writes Write hello.txt"
    outputs: {file: string, words: integer}
    deliverable: hello.txt
    verify: {command: "grep -q hello hello.txt"}
  review:
    agent: codex
    task: "script:reviews Review ${write.file}, which has ${write.words} words"
    outputs: {passed: boolean, remarks: array of strings}
    verify: "data.passed and len(data.remarks) == inputs.most"
    inputs: {most: 1, words: "${write.words}"}
merge: {strategy: aggregate}
on_failure: {policy: abort, max_retries: 0}
"""


def answers(summary: str, **data: Any) -> dict[str, Any]:
    """The turn that writes an OUTPUT.md with data."""
    text = f"{output(summary=summary)}\n## Data\n```json\n{json.dumps(data)}\n```\n"
    return {"ops": [{"write": {"path": "{output}", "content": text}}]}


SCRIPTS = {
    "writes": [
        {"ops": [{"write": {"path": "hello.txt", "content": "hello world\n"}}]},
        answers("Wrote the greeting.", file="hello.txt", words=2),
        {"text": "Done."},
    ],
    "reviews": [
        {"ops": [{"bash": {"command": "cat hello.txt"}}]},
        answers("Read it.", passed=True, remarks=["It is short."]),
        {"text": "Done."},
    ],
}


@pytest.fixture
def both(tmp_path: Path) -> Iterator[House]:
    """One project in which both programs are installed and led to the same model."""
    require("codex")
    with house("claude", tmp_path, SCRIPTS, git=True) as place:
        environ = {**point("codex", place.model.url, str(place.home)), **place.environ}
        environ["PATH"] = os.pathsep.join((str(program("codex").parent), environ["PATH"]))
        place.environ = environ
        yield place


def test_one_writes_and_the_other_reviews(both: House) -> None:
    (both.path / "plan.yaml").write_text(PLAN)
    both.run("trust", "plan.yaml", "--yes", check=True)
    ran = both.run("plan", "run", "plan.yaml", "--wait", "--json", timeout=LIMIT)
    plan = ran.json
    assert (ran.code, plan["status"], plan["verification"]) == (0, "completed", "proved"), ran.out + ran.err
    assert plan["data"] == {"file": "hello.txt", "words": 2, "passed": True, "remarks": ["It is short."]}
    tasks = {one["node"]: one for one in both.run("list", "--json", check=True).json["tasks"] if one.get("node")}
    assert {name: (one["agent"], one["status"]) for name, one in tasks.items()} == {
        "write": ("claude", "completed"),
        "review": ("codex", "completed"),
    }
    review = both.show(tasks["review"]["handle"])
    handoff = (both.path / review["folder"] / "HANDOFF.md").read_text()
    assert "Review hello.txt, which has 2 words" in handoff
    inputs = json.loads((both.path / review["folder"] / "inputs.json").read_text())
    assert inputs == {"most": 1, "words": 2}
    assert both.turns("writes")[0] == both.turns("reviews")[0] == 0
    assert plan["usage"]["input"] == sum(both.show(one["handle"])["usage"]["input"] for one in tasks.values()) > 0
