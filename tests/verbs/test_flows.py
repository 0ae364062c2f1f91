"""Each behaviour of an agent, from `delegate` to the judged result, with real processes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from verbs.cases import CASES, Case

if TYPE_CHECKING:
    from overhand.testing.project import ProjectDir


def prepare(project: ProjectDir, case: Case) -> None:
    for name, text in case.files.items():
        path = project.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if case.name == "link-out":
        (project.path / "lo").mkdir()
        (project.path / "lo/link").symlink_to("/etc/hostname")
    if case.name == "pipe":
        (project.path / "pi").mkdir()
        os.mkfifo(project.path / "pi/pipe")


def of_level(shown: dict[str, Any], level: str) -> frozenset[str]:
    return frozenset(problem["code"] for problem in shown["problems"] if problem["level"] == level)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_judged(yard: ProjectDir, case: Case) -> None:
    prepare(yard, case)
    ran = yard.run("delegate", f"Do {case.name}", "--agent", case.name, "--wait", "--json", *case.args)
    shown = ran.json
    assert (shown["status"], of_level(shown, "error")) == (case.status, case.errors), shown["problems"]
    if case.warnings is not None:
        assert of_level(shown, "warning") == case.warnings, shown["problems"]
    assert {name: shown[name] for name in case.facts} == case.facts
    assert ran.code == (0 if case.status == "completed" else 1)
    assert shown["schema"] == "overhand.delegate/1"
    folder, record = yard.path / shown["folder"], Path(shown["record"])
    assert json.loads((record / "result.json").read_text())["status"] == case.status
    stands = case.status == "completed" or shown["claimed"] == case.status or case.status == "partial" == case.name
    if stands:
        assert (yard.path / shown["output"]).read_text()
    if case.status == "failed" and shown["claimed"] != "failed":
        assert not (folder / "OUTPUT.md").exists(), "a phantom is never promoted"
        assert not (record / "OUTPUT.md").exists()
    assert (record / "CONTEXT.md").exists() == (case.status != "completed")


def delegate(project: ProjectDir, *args: str) -> dict[str, Any]:
    shown: dict[str, Any] = project.run("delegate", *args, "--wait", "--json").json
    return shown


def test_a_claim_judged_partial_is_promoted_under_its_true_status(yard: ProjectDir) -> None:
    shown = delegate(
        yard, "Do half of it", "--agent", "steady", "--deliverable", "half2.txt", "--deliverable", "steady/a.txt"
    )
    text = (yard.path / shown["output"]).read_text()
    assert "**Status:** partial" in text
    assert "Claimed completed, judged partial" in text
    kept = yard.path / shown["run_folder"] / "OUTPUT.md"
    assert "**Status:** completed" in kept.read_text(), "the raw return is always kept"


def test_the_receipt_tells_checks_before_and_after(yard: ProjectDir) -> None:
    shown = delegate(yard, "Mend it", "--agent", "steady", "--verify", "false", "--verify", "test -s steady/a.txt")
    red, green = shown["checks"]
    assert (red["before"], red["exit"], red["already_red"], red["passed"]) == (1, 1, True, False)
    assert (green["exit"], green["passed"], green["already_red"]) == (0, True, False)
    assert all((yard.path / check["evidence"] / "stdout").exists() for check in (red, green))
    text = yard.run("show", str(shown["handle"])).out
    assert "already red before → still red" in text


def test_a_check_that_hangs_is_ended_and_told(yard: ProjectDir) -> None:
    shown = delegate(
        yard, "Hang on", "--agent", "steady", "--verify", "exec sleep 600", "--set", "limits.check_timeout=0.2s"
    )
    assert [(check["timed_out"], check["passed"]) for check in shown["checks"]] == [(True, False)]
    assert "did not end in time" in shown["problems"][-1]["message"]


def test_prose_deliverables_read_unverified(yard: ProjectDir) -> None:
    shown = delegate(yard, "Say it", "--agent", "steady", "--deliverable", "a short note")
    assert shown["deliverables"] == [{"text": "a short note", "holds": None, "state": "unverified"}]
    assert (shown["verification"], shown["verified"]) == ("none", False)


def test_context_says_why_and_how_to_go_on(yard: ProjectDir) -> None:
    shown = delegate(yard, "Be late", "--agent", "late-failed", "--timeout", "0.2s")
    text = (yard.path / shown["context"]).read_text()
    assert shown["task_id"] in text
    assert "timeout" in text
    assert f"overhand resume {shown['handle']}" in text
    assert yard.run("check", str(yard.path / shown["context"])).code == 0


@pytest.mark.parametrize("name", ["OUTPUT.md", "result.json"])
def test_a_document_that_was_changed_afterwards_is_told(yard: ProjectDir, name: str) -> None:
    shown = delegate(yard, "Change it later", "--agent", "steady")
    with Path(shown["record"], name).open("a") as file:
        file.write("\nAll is well.\n")
    after = yard.run("show", str(shown["handle"]), "--json").json
    assert of_level(after, "error") == {"document-changed"}
    assert name in after["problems"][-1]["message"]


@pytest.mark.parametrize(
    ("data", "status", "errors"),
    [
        ('{"n": 3}', "completed", frozenset()),
        ('{"n": "three", "m": 1}', "failed", frozenset({"data-mismatch"})),
    ],
)
def test_data_by_the_users_own_schema(
    overhand_project: ProjectDir, data: str, status: str, errors: frozenset[str]
) -> None:
    overhand_project.agent("counter", f"data:{data}", "output")
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    (overhand_project.path / "count.json").write_text(json.dumps(schema))
    (overhand_project.path / "link.json").symlink_to("count.json")
    shown = delegate(overhand_project, "Count", "--agent", "counter", "--contract", "link.json")
    assert (shown["status"], of_level(shown, "error")) == (status, errors)


def test_a_contract_that_is_no_schema_is_told_at_once(overhand_project: ProjectDir) -> None:
    for text in ('{"type": 3}', "[]", "{", "{} {}"):
        (overhand_project.path / "bad.json").write_text(text)
        ran = overhand_project.run("delegate", "Count", "--contract", "bad.json", "--json")
        assert (ran.code, ran.json["error"]["code"]) == (2, "VALIDATION_FAILED"), text
    assert overhand_project.run("list", "--json").json["tasks"] == []


def test_strict_makes_a_clumsy_return_fail(overhand_project: ProjectDir) -> None:
    overhand_project.agent("clumsy", "file:a.txt", "clumsy")
    args = ("Write a.txt with one line of greeting in it", "--agent", "clumsy", "--deliverable", "a.txt")
    assert delegate(overhand_project, *args)["status"] == "completed"
    (overhand_project.path / "a.txt").unlink()
    assert delegate(overhand_project, *args, "--strict")["status"] == "partial"


def test_git_tells_what_changed_and_tests_are_looked_at_first(overhand_project: ProjectDir) -> None:
    from overhand.testing.project import _commit

    overhand_project.agent("changer", "file:a.txt", "touch:b.txt", "touch:tests/test_a.py", "output")
    _commit(overhand_project.path)
    shown = delegate(overhand_project, "Change", "--agent", "changer", "--deliverable", "a.txt")
    assert (shown["status"], of_level(shown, "warning")) == ("completed", frozenset({"changed-unlisted"}))
    look = shown["look_at"]
    assert {"a.txt", "b.txt", "tests/test_a.py"} <= set(look["changed"])
    assert look["sensitive"] == ["tests/test_a.py"]
    assert "look at  tests: tests/test_a.py (new)" in overhand_project.run("show", "-").out


def test_a_task_that_may_only_read_must_not_change_files(overhand_project: ProjectDir) -> None:
    from overhand.testing.project import _commit

    overhand_project.agent("changer", "touch:b.txt", "output")
    _commit(overhand_project.path)
    shown = delegate(overhand_project, "Only look", "--agent", "changer", "--read-only", "--set=shield=off")
    assert (shown["status"], shown["level"]) == ("failed", "read")
    assert of_level(shown, "error") == {"read-only-changed"}


def test_decisions_are_collected_once(overhand_project: ProjectDir) -> None:
    place = overhand_project.path / ".agent-workspaces/DECISIONS.md"
    first = delegate(overhand_project, "Decide", "--verify", "true")
    overhand_project.run("check", "1", check=True)
    second = delegate(overhand_project, "Decide again")
    lines = [line for line in place.read_text().splitlines() if line.startswith("- ")]
    assert len(lines) == 2
    assert first["task_id"] in lines[0]
    assert second["task_id"] in lines[1]


def test_decisions_go_where_the_settings_say(overhand_project: ProjectDir) -> None:
    overhand_project.config('decisions = "docs/DECIDED.md"\n')
    (overhand_project.path / "docs").mkdir()
    delegate(overhand_project, "Decide")
    assert "Followed the script" in (overhand_project.path / "docs/DECIDED.md").read_text()
    overhand_project.config('decisions = "../out.md"\n')
    ran = overhand_project.run("delegate", "Decide")
    assert (ran.code, "inside the project" in ran.err) == (2, True)
