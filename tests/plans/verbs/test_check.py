"""`plan check`: everything wrong is told at once, with its place; what is no plan is told as what it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from plans.verbs.house import BROKEN, TWO, put

if TYPE_CHECKING:
    from pathlib import Path

    from overhand.testing.project import ProjectDir


def test_a_good_plan_is_scored(shared: ProjectDir) -> None:
    put(shared, "two.yaml", TWO, trusted=False)
    ran = shared.run("plan", "check", "two.yaml", "--json")
    assert (ran.code, ran.err) == (0, "")
    told = ran.json
    assert (told["schema"], told["document"], told["form"], told["nodes"]) == ("overhand.plan/1", "plan", "short", 2)
    assert (told["errors"], told["strategy"], told["model_hint"], told["level"]) == (0, "sequential", "haiku", "low")
    assert sum(row["points"] for row in told["breakdown"]) == told["points"]
    text = shared.run("plan", "check", "two.yaml", check=True).out
    assert "two.yaml: plan (short, 2 nodes), 0 errors" in text
    assert f"{told['points']} points" in text


def test_explaining_shows_every_row_and_the_waves(shared: ProjectDir) -> None:
    put(shared, "two.yaml", TWO, trusted=False)
    told = shared.run("plan", "check", "two.yaml", "--explain", "--json").json
    assert [[row["node"] for row in wave] for wave in told["waves"]] == [["first"], ["second"]]
    text = shared.run("plan", "check", "two.yaml", "--explain", check=True).out
    assert "dependency level" in text
    assert "wave 2" in text


def test_all_problems_at_once_each_with_its_line(shared: ProjectDir) -> None:
    put(shared, "broken.yaml", BROKEN, trusted=False)
    ran = shared.run("plan", "check", "broken.yaml", "--json")
    assert ran.code == 1
    codes = {(one["code"], one.get("line")) for one in ran.json["problems"] if one["level"] == "error"}
    assert {("plan-agent-unknown", 4), ("plan-node-unknown", 5)} <= codes
    assert {"plan-cycle", "plan-field-unknown"} <= {code for code, _ in codes}
    assert all(one["fix"] for one in ran.json["problems"])
    text = shared.run("plan", "check", "broken.yaml").out
    assert "broken.yaml:4: error: a: there is no agent ecko. Did you mean echo? [plan-agent-unknown] (" in text
    assert f"{len(codes)} errors" in text


@pytest.mark.parametrize("verb", [("plan", "check"), ("check",)], ids=" ".join)
def test_one_is_no_plural(shared: ProjectDir, verb: tuple[str, ...]) -> None:
    text = TWO.replace("agent: echo", "agent: ecko", 1)
    put(shared, "one-error.yaml", text, trusted=False)
    assert "plan (short, 2 nodes), 1 error, 0 warnings\n" in shared.run(*verb, "one-error.yaml").out
    put(shared, "one-node.yaml", text.partition("  second:")[0], trusted=False)
    assert "plan (short, 1 node), 1 error, 0 warnings\n" in shared.run(*verb, "one-node.yaml").out


def test_strict_makes_errors_of_warnings(shared: ProjectDir) -> None:
    put(shared, "vague.yaml", "plan: x\nnodes:\n  a: {agent: echo, task: fix it}\n", trusted=False)
    soft = shared.run("plan", "check", "vague.yaml", "--json")
    hard = shared.run("plan", "check", "vague.yaml", "--strict", "--json")
    assert (soft.code, soft.json["errors"], soft.json["warnings"] > 0) == (0, 0, True)
    assert (hard.code, hard.json["warnings"]) == (1, 0)


@pytest.mark.parametrize("words", [["-"], ["--stdin"], ["name.yaml", "--stdin"]])
def test_standard_input(shared: ProjectDir, words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "overhand", "plan", "check", *words, "--json"],
        input=TWO, cwd=shared.path, env=shared.environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, json.loads(done.stdout)["nodes"]) == (0, 2)


JSON = '{"plan": "x", "nodes": {"a": {"agent": "echo", "task": "Count the rivers", "deliverable": "rivers.txt"}}}'


@pytest.mark.parametrize(("name", "text"), [("a.yaml", TWO), ("a.json", JSON)])
def test_the_other_check_knows_a_plan(shared: ProjectDir, name: str, text: str) -> None:
    put(shared, name, text, trusted=False)
    ran = shared.run("check", name, "--json")
    assert (ran.code, ran.json["schema"], ran.json["document"]) == (0, "overhand.check/1", "plan")
    assert "plan (short" in shared.run("check", name).out
    put(shared, "broken.yaml", BROKEN, trusted=False)
    assert shared.run("check", "broken.yaml").code == 1


def test_the_other_check_takes_nothing_else_for_a_plan(shared: ProjectDir) -> None:
    put(shared, "result.json", '{"status": "completed", "summary": "plan: x", "data": {"nodes": 1}}', trusted=False)
    assert shared.run("check", "result.json", "--json").json["document"] == "return"
    put(shared, "notes.md", "plan: none\nnodes: none\n", trusted=False)
    assert shared.run("check", "notes.md", "--json").json["document"] == "unknown"


def out_of_the_project(project: ProjectDir) -> None:
    outside = project.path.parent / "outside.yaml"
    outside.write_text(TWO)
    (project.path / "link.yaml").symlink_to(outside)


# what is named: what is there, exit status, what is said
BAD: dict[str, tuple[bytes | None, int, str]] = {
    "nothing.yaml": (None, 4, "There is no file nothing.yaml"),
    "empty.yaml": (b"", 1, "plan-empty"),
    "binary.yaml": (b"\x00\x01\x02" * 1000, 1, "NUL"),
    "image.yaml": (b"\x89PNG\r\n\x1a\n\xff\xfe\xfa" * 50, 1, "UTF-8"),
    "large.yaml": (b"# " + b"x" * 50_000_000, 1, "plan-too-large"),
    "larger.yaml": (b"# " + b"x" * 70_000_000, 2, "larger than 64 MB"),
    "prose.yaml": (b"Dear agents, please do it.\n", 1, "plan-form"),
    "syntax.yaml": (b"plan: [\nnodes: }\n", 1, "plan-syntax"),
    "other.yaml": (b"services:\n  web: {image: nginx}\n", 1, "plan-form"),
    ".": (None, 2, "is a folder"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("verb", ["check", "run", "graph"])
def test_what_is_no_plan_is_told_as_what_it_is(shared: ProjectDir, verb: str, name: str) -> None:
    raw, code, said = BAD[name]
    if raw is not None:
        (shared.path / name).write_bytes(raw)
    ran = shared.run("plan", verb, f"./{name}", "--json")
    assert "Traceback" not in ran.err
    assert said.replace("file n", "file ./n") in ran.out
    assert ran.code == (code if verb == "check" or code != 1 else 2)
    assert shared.run("list", "--json").json["tasks"] == [], "nothing was run"
    if raw is not None:
        (shared.path / name).unlink()


def test_pipes_and_links(own: ProjectDir) -> None:
    os.mkfifo(own.path / "pipe.yaml")
    ran = own.run("plan", "check", "pipe.yaml")
    assert (ran.code, "no regular file" in ran.err) == (2, True)
    out_of_the_project(own)
    assert own.run("plan", "check", "link.yaml").code == 0, "looking does no harm"
    ran = own.run("plan", "run", "link.yaml", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (3, "REFUSED")
    assert "leads out of the project" in ran.json["error"]["message"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["check"], "plan check needs a plan file"),
        (["new"], "plan new needs what is to be done"),
        (["show"], "plan show needs a task"),
        (["chekc", "x"], "cannot be 'chekc'"),
        (["check", "x.yaml", "--wait"], "--wait is not for plan check"),
        (["show", "1", "--out", "x"], "--out is not for plan show"),
        (["graph", "1", "--format", "png"], "--format cannot be 'png'"),
        (["show", "1", "--format", "svg"], "--format cannot be 'svg'"),
        (["show", "1", "--format", "yaml", "--watch"], "--watch shows text"),
    ],
)
def test_words_that_do_not_belong(shared: ProjectDir, words: list[str], said: str) -> None:
    ran = shared.run("plan", *words)
    assert (ran.code, said in ran.err) == (2, True), ran.err
    assert ran.err.count("\n") >= 2, "what to type is said too"


def test_help_and_completion_know_the_verb(shared: ProjectDir, tmp_path: Path) -> None:
    assert "--max-parallel" in shared.run("plan", "--help", check=True).out
    script = tmp_path / "script"
    script.write_text(shared.run("completion", "bash", check=True).out)
    ask = f". {script}; COMP_WORDS=(overhand plan c); COMP_CWORD=2; _overhand; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["check"]
