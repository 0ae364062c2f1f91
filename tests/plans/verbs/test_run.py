"""`plan run`: checked first, trusted or refused, handed over; with --wait judged as any other task."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from plans.verbs.house import BROKEN, TWO, one, put, ran_inside
from support.terminal import at_a_terminal

if TYPE_CHECKING:
    from overhand.testing.project import ProjectDir

NAMES = (
    "task_id handle title agent kind headline status verification verified run_state cause runs summary data "
    "deliverables decisions for_primary files_modified errors next_steps questions problems checks usage output"
)
COMMAND = '{command: "touch RAN"}'


def test_waited_for_it_answers_as_delegate_does(shared: ProjectDir) -> None:
    put(shared, "two.yaml", TWO)
    ran = shared.run("plan", "run", "two.yaml", "--wait", "--json")
    assert ran.code == 0, ran.out
    assert set(NAMES.split()) <= ran.json.keys()
    assert (ran.json["schema"], ran.json["status"], ran.json["agent"]) == ("overhand.plan/1", "completed", "plan")
    assert ran.json["data"] == {"m": 7}, "a number is still one"
    assert [(row["node"], row["state"]) for row in ran.json["nodes"]] == [
        ("first", "completed"),
        ("second", "completed"),
    ]
    assert "COMPLETED" in shared.run("plan", "run", "two.yaml", "--wait").out


def test_one_that_fails_ends_with_one(shared: ProjectDir) -> None:
    put(shared, "bad.yaml", one('"data.n == 2"'))
    ran = shared.run("plan", "run", "bad.yaml", "--wait", "--json")
    assert (ran.code, ran.json["status"], ran.json["nodes"][0]["state"]) == (1, "failed", "failed")


def test_handed_over_it_goes_on_by_itself(shared: ProjectDir) -> None:
    put(shared, "two.yaml", TWO)
    told = shared.run("plan", "run", "two.yaml", "--max-parallel", "1", "--timeout", "5m", "--json", check=True).json
    assert (told["do"], told["state"], told["nodes"], told["max_parallel"], told["timeout"]) == (
        "run",
        "accepted",
        2,
        1,
        300,
    )
    assert shared.run("wait", str(told["handle"]), "--json").json["data"] == {"m": 7}


def test_dry_run_says_who_would_run_when_and_runs_nothing(shared: ProjectDir) -> None:
    put(shared, "three.yaml", TWO.replace("on_failure:", "budget: 90k\ntimeout: 1h\non_failure:"), trusted=False)
    before = shared.run("list", "--json").json["tasks"]
    told = shared.run("plan", "run", "three.yaml", "--dry-run", "--max-parallel", "2", "--json", check=True).json
    assert [[row["node"] for row in wave] for wave in told["waves"]] == [["first"], ["second"]]
    assert told["limits"] == {"max_parallel": 2, "budget": "90000 tokens", "timeout": 3600.0}
    assert told["waves"][0][0]["checks"] == ["expression: data.n > 6"]
    text = shared.run("plan", "run", "three.yaml", "--dry-run", check=True).out
    assert "nothing was run" in text
    assert text.index("wave 1") < text.index("first") < text.index("wave 2") < text.index("second")
    assert shared.run("list", "--json").json["tasks"] == before


def test_how_many_run_at_once_is_said_as_it_will_be(shared: ProjectDir) -> None:
    def said(text: str, *words: str) -> str:
        put(shared, "many.yaml", text)
        return shared.run("plan", "run", "many.yaml", "--dry-run", *words, check=True).out.splitlines()[1].strip()

    assert said(TWO).startswith("as parallel as dependencies allow · "), (
        "a strategy that a score suggests is not forced"
    )
    assert said(TWO, "--max-parallel", "2").startswith("at most 2 at once · ")
    assert said(f"strategy: sequential\n{TWO}").startswith("one at a time · ")


def test_a_broken_plan_is_refused_with_all_that_is_wrong(shared: ProjectDir) -> None:
    put(shared, "broken.yaml", BROKEN)
    before = shared.run("list", "--json").json["tasks"]
    for more in ([], ["--dry-run"], ["--wait"]):
        ran = shared.run("plan", "run", "broken.yaml", *more, "--json")
        assert (ran.code, ran.json["error"]["code"]) == (2, "VALIDATION_FAILED")
        codes = {problem["code"] for problem in ran.json["error"]["problems"]}
        assert {"plan-cycle", "plan-agent-unknown", "plan-node-unknown"} <= codes
    text = shared.run("plan", "run", "broken.yaml").err
    assert "broken.yaml:4: " in text
    assert "overhand plan check broken.yaml" in text
    assert shared.run("list", "--json").json["tasks"] == before


@pytest.mark.parametrize(
    "words",
    [
        ["--max-parallel", "-1"],
        ["--max-parallel", "many"],
        ["--timeout", "soon"],
        ["--timeout", "0"],
        ["--budget", "lots"],
        ["--set", "limits"],
        ["--set", "nothing.there=1"],
    ],
)
def test_limits_that_are_none(shared: ProjectDir, words: list[str]) -> None:
    put(shared, "two.yaml", TWO)
    before = shared.run("list", "--json").json["tasks"]
    ran = shared.run("plan", "run", "two.yaml", *words, "--json")
    assert (ran.code, ran.json["error"]["code"]) == (2, "VALIDATION_FAILED"), ran.out
    assert shared.run("list", "--json").json["tasks"] == before


def test_a_budget_of_the_command_line_is_the_plans(shared: ProjectDir) -> None:
    put(shared, "two.yaml", TWO)
    told = shared.run("plan", "run", "two.yaml", "--budget", "500k tokens", "--wait", "--json").json
    assert told["status"] == "completed"
    assert told["usage"]["budget"]


# trust


def test_a_plan_of_the_project_runs_once_it_is_trusted(own: ProjectDir) -> None:
    put(own, "plan.yaml", one(COMMAND), trusted=False)
    ran = own.run("plan", "run", "plan.yaml", "--wait", "--json")
    assert (ran.code, ran.json["error"]["code"], ran.json["error"]["files"]) == (3, "NOT_TRUSTED", ["plan.yaml"])
    assert "overhand trust plan.yaml" in ran.json["error"]["hint"]
    assert not (own.path / "RAN").exists()
    shown = own.run("trust", "plan.yaml", "--yes", check=True).out
    assert "only checks: touch RAN" in shown
    assert own.run("plan", "run", "plan.yaml", "--wait", "--json").json["verification"] == "passing"
    assert (own.path / "RAN").exists()
    put(own, "plan.yaml", one('{command: "touch MORE"}'), trusted=False)
    assert own.run("plan", "run", "plan.yaml", "--wait").code == 3, "trust is bound to the content"
    assert not (own.path / "MORE").exists()


def test_plans_in_their_folder_are_trusted_with_the_rest(own: ProjectDir) -> None:
    own.trust = False
    put(own, ".overhand/plans/review.yaml", one(COMMAND), trusted=False)
    assert own.run("plan", "run", ".overhand/plans/review.yaml").code == 3
    assert ".overhand/plans/review.yaml" in own.run("trust", "--yes", check=True).out
    assert own.run("plan", "run", ".overhand/plans/review.yaml", "--wait").code == 0


def test_only_files_of_the_project_can_be_trusted(own: ProjectDir) -> None:
    outside = own.path.parent / "outside.yaml"
    outside.write_text(TWO)
    (own.path / "link.yaml").symlink_to(outside)
    assert own.run("trust", "nothing.yaml", "--yes").code == 4
    assert own.run("trust", str(outside), "--yes").code == 2
    assert own.run("trust", ".overhand", "--yes").code == 2
    assert own.run("trust", "link.yaml", "--yes").code == 3


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 3)])
def test_on_a_terminal_it_is_asked_inline(own: ProjectDir, answer: str, code: int) -> None:
    own.run("list", check=True)
    put(own, "plan.yaml", one(COMMAND), trusted=False)
    got, screen = at_a_terminal(own, "plan", "run", "plan.yaml", "--wait", answer=answer)
    assert (got, (own.path / "RAN").exists()) == (code, code == 0), screen
    assert "only checks: touch RAN" in screen


def test_a_persons_own_text_is_their_word(own: ProjectDir) -> None:
    own.run("list", check=True)
    outside = own.path.parent / "outside.yaml"
    outside.write_text(one(COMMAND))
    assert own.run("plan", "run", str(outside), "--wait").code == 0
    done = subprocess.run(
        [sys.executable, "-m", "overhand", "plan", "run", "-", "--wait", "--json"],
        input=one('{command: "touch TYPED"}'),
        cwd=own.path, env=own.environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, json.loads(done.stdout)["verification"]) == (0, "passing")
    assert (own.path / "TYPED").exists()


# from inside a run


def test_an_agent_may_run_a_plan_without_commands(own: ProjectDir) -> None:
    put(own, "plan.yaml", one(), trusted=False)
    code, told = ran_inside(own, "plan", "run", "plan.yaml", "--wait")
    assert (code, told["status"], told["data"]) == (0, "completed", {"n": 1})
    assert (told["depth"], told["path"]) == (2, ["user", "inner", "plan"])
    child = own.run("show", str(told["nodes"][0]["handle"]), "--json").json
    assert (child["depth"], child["path"]) == (2, ["user", "inner", "echo"]), "a plan adds no level"


@pytest.mark.parametrize("bad", [COMMAND, None])
def test_an_agent_brings_no_commands(own: ProjectDir, bad: str | None) -> None:
    text = one(bad) if bad else one() + "merge: {strategy: custom, command: [touch, RAN]}\n"
    put(own, "plan.yaml", text, trusted=False)
    code, told = ran_inside(own, "plan", "run", "plan.yaml", "--wait")
    assert (code, told["error"]["code"]) == (3, "NOT_TRUSTED")
    assert told["error"]["commands"]
    assert not (own.path / "RAN").exists()
    noted = own.run("log", "1", "--json").out
    assert '"refused"' in noted


def test_an_agent_may_run_what_a_person_trusts(own: ProjectDir) -> None:
    put(own, "plan.yaml", one(COMMAND))
    code, told = ran_inside(own, "plan", "run", "plan.yaml", "--wait")
    assert (code, told["verification"]) == (0, "passing")
    assert (own.path / "RAN").exists()


def test_an_agent_sets_nothing(own: ProjectDir) -> None:
    put(own, "plan.yaml", one())
    code, told = ran_inside(own, "plan", "run", "plan.yaml", "--set", "limits.max_parallel=9")
    assert (code, told["error"]["code"]) == (3, "REFUSED")
