"""A task's course: prepared, started, repaired, stopped, run again, made to wait for another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.scene import until

if TYPE_CHECKING:
    from overhand.testing.project import ProjectDir


def delegate(project: ProjectDir, *args: str) -> dict[str, Any]:
    shown: dict[str, Any] = project.run("delegate", *args, "--wait", "--json").json
    return shown


def codes(shown: dict[str, Any]) -> list[str]:
    return [problem["code"] for problem in shown["problems"]]


# ---- repair


def test_an_agent_is_run_again_at_most_twice(overhand_project: ProjectDir) -> None:
    overhand_project.agent("liar", "echo-prompt", "claim:never.txt", repair="rerun")
    shown = delegate(overhand_project, "Lie", "--agent", "liar")
    assert (shown["status"], shown["repairs"], len(shown["runs"])) == ("failed", 2, 3)
    assert [run["status"] for run in shown["runs"]] == ["repair", "repair", "failed"]
    prompts = [Path(shown["record"], "runs", run["id"], "stdout").read_text() for run in shown["runs"]]
    assert ["The return names never.txt, which does not exist." in prompt for prompt in prompts] == [False, True, True]
    assert "3 run(s), 2 repair(s)" in overhand_project.run("show", "-").out


def test_a_mended_return_is_accepted(overhand_project: ProjectDir) -> None:
    script = 'test -e tried || { : > tried; exit 0; }; printf "GOOD" > "$OVERHAND_OUTPUT"'
    good = "# Task Complete: x\\n\\n**Status:** completed\\n\\n## Summary\\nMended.\\n"
    overhand_project.agent("slow", command=["sh", "-c", script.replace("GOOD", good)], repair="rerun")
    shown = delegate(overhand_project, "Mend", "--agent", "slow")
    assert (shown["status"], shown["repairs"], shown["summary"]) == ("completed", 1, "Mended.")


def test_what_was_changed_before_a_repair_is_still_seen(overhand_project: ProjectDir) -> None:
    subprocess.run(["git", "init", "-q", str(overhand_project.path)], check=True)
    good = "# Task Complete: it\\n\\n**Status:** completed\\n\\n## Summary\\nDone.\\n"
    script = f'[ -e sly.txt ] && {{ printf "{good}" > "$OVERHAND_OUTPUT"; exit; }}; echo > sly.txt'
    overhand_project.agent("sly", command=["sh", "-c", script], repair="rerun")
    shown = overhand_project.run("delegate", "Look around here", "--agent", "sly", "--wait", "--json").json
    assert (shown["status"], len(shown["runs"])) == ("completed", 2)
    assert shown["look_at"]["changed"] == ["sly.txt"]
    (overhand_project.path / "sly.txt").unlink()
    shown = overhand_project.run(
        "delegate", "Look again here", "--agent", "sly", "--read-only", "--set=shield=off", "--wait", "--json"
    ).json
    assert [one["code"] for one in shown["problems"] if one["code"] == "read-only-changed"], "a repair hides nothing"


def test_without_rerun_a_command_agent_runs_once(overhand_project: ProjectDir) -> None:
    overhand_project.agent("liar", "claim:never.txt")
    assert len(delegate(overhand_project, "Lie", "--agent", "liar")["runs"]) == 1


# ---- cdp


def with_cdp(project: ProjectDir, cdp: str, *actions: str) -> None:
    command = json.dumps([sys.executable, "-m", "overhand.testing.agent", *actions])
    text = f"---\nname: picky\ncdp: {cdp}\noverhand: {{driver: command, command: {command}}}\n---\nBe picky.\n"
    project.agent("picky").write_text(text)


def test_input_requirements_are_checked_before(overhand_project: ProjectDir) -> None:
    with_cdp(overhand_project, "{version: 1.0, input_requirements: [task description, key files, moon phase]}")
    ran = overhand_project.run("delegate", "Do it", "--agent", "picky")
    assert ran.code == 2
    assert "Agent picky needs the section key files." in ran.err
    assert "--file" in ran.err
    assert "'moon phase' is not a section Overhand knows" in ran.err
    assert overhand_project.run("list", "--json").json["tasks"] == []
    assert delegate(overhand_project, "Do it", "--agent", "picky", "--file", "README.md=it is short")["status"]


def test_output_includes_are_checked_after(overhand_project: ProjectDir) -> None:
    with_cdp(overhand_project, "{output_includes: [decisions, data]}", "output")
    shown = delegate(overhand_project, "Do it", "--agent", "picky")
    assert (shown["status"], codes(shown)) == ("completed", ["section-required"]), "form never sinks substance"
    assert "no data" in shown["problems"][0]["message"]


# ---- prepared and hand-written tasks


def test_a_prepared_task_waits_for_run(overhand_project: ProjectDir) -> None:
    made = overhand_project.run("delegate", "Later", "--no-start", "--json").json
    assert made["state"] == "prepared"
    assert overhand_project.run("wait", "1").code == 1, "nothing will come by itself"
    assert overhand_project.run("check", "1").code == 3
    assert overhand_project.run("list", "--json").json["tasks"][0]["run_state"] is None
    ran = overhand_project.run("run", "1", "--wait", "--json")
    assert (ran.code, ran.json["status"], ran.json["schema"]) == (0, "completed", "overhand.run/1")
    again = overhand_project.run("run", "1", "--json")
    assert (again.code, "is completed" in again.json["error"]["message"]) == (3, True)


@pytest.mark.parametrize("how", ["path", "id"])
def test_a_folder_with_a_handoff_is_a_task(overhand_project: ProjectDir, how: str) -> None:
    folder = overhand_project.path / ".agent-workspaces/worker-by-hand"
    folder.mkdir(parents=True)
    (folder / "HANDOFF.md").write_text(
        "# Task Handoff\r\n\r\n## Task\r\nWrite it\r\n\r\n## Expected Deliverables\r\n- [ ] `a.txt`\r\n"
    )
    overhand_project.agent("worker", "file:a.txt", "output")
    listed = overhand_project.run("list", "--prepared", "--json").json["tasks"][0]
    assert (listed["title"], listed["handle"], listed["run_state"]) == ("Write it", None, None)
    name = str(folder) if how == "path" else "worker-by-hand"
    shown = overhand_project.run("run", name, "--wait", "--json").json
    assert (shown["status"], shown["handle"], shown["agent"]) == ("completed", 1, "worker")
    assert shown["deliverables"] == [{"path": "a.txt", "holds": True, "state": "new"}]


def test_a_folder_elsewhere_is_refused(overhand_project: ProjectDir) -> None:
    folder = overhand_project.path / "other/.agent-workspaces/worker-1"
    folder.mkdir(parents=True)
    (folder / "HANDOFF.md").write_text("# Task Handoff\n\n## Task\nWrite it\n")
    ran = overhand_project.run("run", str(folder))
    assert (ran.code, "overhand --project" in ran.err) == (2, True)


def test_run_again_after_a_failure_archives_what_was_there(overhand_project: ProjectDir) -> None:
    overhand_project.agent("worker", "file:a.txt", "output")
    first = delegate(overhand_project, "Write", "--deliverable", "a.txt", "--deliverable", "b.txt")
    assert first["status"] == "partial"
    folder = overhand_project.path / first["folder"]
    overhand_project.agent("worker", "file:b.txt=now", "output:summary=Both.")
    second = overhand_project.run("run", "1", "--wait", "--json").json
    assert (second["status"], second["summary"], len(second["runs"])) == ("completed", "Both.", 2)
    assert not (folder / "CONTEXT.md").exists()
    old = Path(first["record"], "runs", first["runs"][0]["id"])
    assert {"CONTEXT.md", "OUTPUT.md", "judged.json", "prompt.md", "stdout", "stderr"} <= set(os.listdir(old))
    decisions = (overhand_project.path / ".agent-workspaces/DECISIONS.md").read_text()
    assert decisions.count(first["task_id"]) == 2, "one line, with its name and its link"


def test_another_agent_can_take_over(overhand_project: ProjectDir) -> None:
    overhand_project.agent("quitter", "output:status=failed")
    assert delegate(overhand_project, "Try", "--agent", "quitter")["status"] == "failed"
    shown = overhand_project.run("run", "1", "--agent", "worker", "--wait", "--json").json
    assert (shown["status"], shown["agent"], [run["agent"] for run in shown["runs"]]) == (
        "completed",
        "worker",
        ["quitter", "worker"],
    )


# ---- waiting for another


def test_after_a_completed_one_it_starts(overhand_project: ProjectDir) -> None:
    overhand_project.agent("gated", "until:gate", "output")
    overhand_project.run("delegate", "First", "--agent", "gated", check=True)
    overhand_project.run("delegate", "Second", "--agent", "worker", "--after", "1", check=True)
    second = overhand_project.run("show", "2", "--json").json
    assert (second["run_state"], second["runs"]) == ("queued", [])
    assert "queued after" in overhand_project.run("list").out
    (overhand_project.path / "gate").touch()
    assert overhand_project.run("wait", "1", "2", "--json").code == 0


def test_after_a_failed_one_it_is_blocked(overhand_project: ProjectDir) -> None:
    overhand_project.agent("gated", "until:gate", "claim:nothing.txt")
    overhand_project.run("delegate", "First", "--agent", "gated", check=True)
    overhand_project.run("delegate", "Second", "--agent", "worker", "--after", "first", check=True)
    (overhand_project.path / "gate").touch()
    ran = overhand_project.run("wait", "2", "--json")
    assert (ran.code, ran.json["status"], ran.json["headline"], ran.json["runs"]) == (1, "blocked", "needs you", [])
    assert "judged failed" in ran.json["summary"]


# ---- stopping


def started(project: ProjectDir, *actions: str, title: str = "Work on") -> None:
    """Delegate to an agent and return when it is really at work: it opens a pipe that we read."""
    os.mkfifo(project.path / "ready")
    project.agent("busy", "touch:ready", *actions)
    project.run("delegate", title, "--agent", "busy", check=True)
    assert not (project.path / "ready").read_text()  # its end; it does not claim the pipe as a file that it made


def test_stop_ends_and_cancels(overhand_project: ProjectDir) -> None:
    started(overhand_project, "hang")
    ran = overhand_project.run("stop", "1", "--json")
    assert (ran.code, ran.json["schema"]) == (0, "overhand.stop/1")
    assert [(task["status"], task["cause"], task["was"]) for task in ran.json["tasks"]] == [
        ("cancelled", "cancelled", "asked")
    ]
    shown = overhand_project.run("show", "1", "--json").json
    assert (shown["status"], shown["headline"]) == ("cancelled", "done")
    assert overhand_project.run("wait", "1").code == 1
    assert overhand_project.run("stop", "1", check=True).out == "1  nothing ran · cancelled\n"


def test_stop_works_with_broken_settings(overhand_project: ProjectDir) -> None:
    started(overhand_project, "hang")
    overhand_project.trust = False
    overhand_project.config("[limits\n")
    assert overhand_project.run("stop", "--all", "--now", check=True).code == 0
    overhand_project.config("")


def test_a_queued_task_is_taken_out_of_the_queue(overhand_project: ProjectDir) -> None:
    overhand_project.config("[limits]\nmax_parallel = 1\n")
    started(overhand_project, "until:gate", "output")
    overhand_project.run("delegate", "Behind it", "--agent", "worker", check=True)
    assert "queued #1" in overhand_project.run("list").out
    assert overhand_project.run("stop", "2", check=True).out == "2  taken out of the queue · cancelled\n"
    (overhand_project.path / "gate").touch()
    assert overhand_project.run("wait", "1").code == 0


def test_wait_gives_up_and_the_work_goes_on(overhand_project: ProjectDir) -> None:
    started(overhand_project, "until:gate", "output")
    ran = overhand_project.run("wait", "1", "--timeout", "0.05s", "--json")
    assert (ran.code, ran.json["error"]["code"], ran.json["error"]["hint"]) == (
        124,
        "TIMEOUT",
        "Wait on: overhand wait 1",
    )
    (overhand_project.path / "gate").touch()
    assert overhand_project.run("wait", "1").code == 0


def test_ctrl_c_ends_the_waiting_not_the_work(overhand_project: ProjectDir) -> None:
    import signal

    started(overhand_project, "until:gate", "output")
    waiting = overhand_project.start("wait", "1")
    assert waiting.stderr is not None
    waiting.stderr.readline()  # it tells what is going on: so it waits now
    waiting.send_signal(signal.SIGINT)
    out, err = waiting.communicate(timeout=30)
    assert waiting.returncode == 130
    assert "overhand stop 1" in err
    assert "Traceback" not in err + out
    (overhand_project.path / "gate").touch()
    assert overhand_project.run("wait", "1").code == 0


# ---- inside a run


def test_a_nested_delegation_is_a_child_and_guarded(overhand_project: ProjectDir) -> None:
    overhand_project.agent("boss", "delegate:worker:Help out", "output")
    shown = delegate(overhand_project, "Lead", "--agent", "boss")
    assert shown["status"] == "completed"
    tasks = overhand_project.run("list", "--delegated", "--json").json["tasks"]
    assert [(task["title"], task["parent"]) for task in tasks] == [("Lead", None), ("Help out", shown["task_id"])]
    assert overhand_project.run("show", "2", "--json").json["path"] == ["user", "boss", "worker"]


def test_a_cycle_is_refused_and_noted_in_the_parents_log(overhand_project: ProjectDir) -> None:
    overhand_project.agent("boss", "delegate:boss:Again", "output")
    shown = delegate(overhand_project, "Lead", "--agent", "boss")
    printed = (overhand_project.path / shown["run_folder"] / "stdout").read_text()
    assert "CYCLE_DETECTED" in printed
    assert "user → boss → boss" in printed
    assert "exit=3" in printed
    assert len(overhand_project.run("list", "--json").json["tasks"]) == 1
    events = [json.loads(line) for line in overhand_project.run("log", "1", "--json").out.splitlines()]
    assert [event["code"] for event in events if event["e"] == "refused"] == ["CYCLE_DETECTED"]


def test_what_only_a_person_may_do_is_refused_from_inside_a_run(overhand_project: ProjectDir) -> None:
    delegate(overhand_project, "Something to check", "--verify", "true")
    tries = (
        "trust --yes",
        "init",
        "clean --yes",
        "check 1",
        "delegate x --verify true",
        "delegate x --set limits.idle=1",
    )
    script = "".join(f"{sys.executable} -m overhand {words} --json; echo =$?; " for words in tries)
    overhand_project.agent("cheat", command=["sh", "-c", script])
    shown = delegate(overhand_project, "Cheat", "--agent", "cheat")
    printed = (overhand_project.path / shown["run_folder"] / "stdout").read_text().splitlines()
    assert [line for line in printed if line.startswith("=")] == ["=3"] * len(tries)
    assert all(json.loads(line)["error"]["hint"] for line in printed if line.startswith("{"))


BLOCK = "```text\n=== RESEARCH OUTPUT ===\nQUERY: <query>\n"
SCHEMA = '```json\n{\n "type": "object",\n "required": [\n  "total"\n ]\n}\n```'
OWN_WORDS = "# Task Handoff\n\n## Task\nCount the tiles of the map\n\n## Contract\nThe total first.\n"


@pytest.mark.parametrize(
    ("words", "told", "in_handoff"),
    [
        (["Look at it", "--kind", "research"], BLOCK, True),
        (["Look at it", "--contract", "figures.json"], SCHEMA, True),
        (["Look at it", "--kind", "research", "--contract", "figures.json"], SCHEMA, True),
        (["--handoff", "own.md", "--contract", "figures.json"], SCHEMA, False),  # a section of the person's own stays
    ],
)
def test_an_agent_is_told_once_what_its_contract_asks_for(
    overhand_project: ProjectDir, words: list[str], told: str, in_handoff: bool
) -> None:
    overhand_project.agent("reader", "output")
    (overhand_project.path / "figures.json").write_text('{"type": "object", "required": ["total"]}')
    (overhand_project.path / "own.md").write_text(OWN_WORDS)
    shown = delegate(overhand_project, *words, "--agent", "reader")
    prompt = Path(shown["record"], "runs", shown["runs"][0]["id"], "prompt.md").read_text()
    handoff = overhand_project.path / shown["folder"] / "HANDOFF.md"
    assert (prompt.count(told), told in handoff.read_text()) == (1, in_handoff)
    assert prompt.count("=== RESEARCH") == (told == BLOCK)


def test_the_repair_of_a_block_is_told_its_form_again(overhand_project: ProjectDir) -> None:
    """Missing or nearly right: both are repaired first, and judged alike afterwards."""
    near = "=== RESEARCH OUTPUT ===\nQUERY: why?\nCONFIDENCE: unsure\nCORE_FINDING: so\n=== END ==="
    overhand_project.agent("silent", "output", repair="rerun")
    overhand_project.agent("nearly", f"file:$OVERHAND_OUTPUT={near}", repair="rerun")
    for agent in ("silent", "nearly"):
        shown = delegate(overhand_project, "Look at it", "--agent", agent, "--kind", "research")
        runs = [Path(shown["record"], "runs", one["id"]) for one in shown["runs"]]
        assert (len(runs), shown["status"], shown["verification"]) == (3, "failed", "failing")
        assert all((run / "prompt.md").read_text().count(BLOCK) == 1 for run in runs)


@pytest.mark.parametrize(
    ("words", "told"), [(["--after", ""], "--after is empty"), (["--file", "=why"], "names no file")]
)
def test_an_option_without_its_value_is_refused(overhand_project: ProjectDir, words: list[str], told: str) -> None:
    ran = overhand_project.run("delegate", "Sort the letters here", "--agent", "worker", *words)
    assert (ran.code, told in ran.err) == (2, True), ran.err


@pytest.mark.parametrize("status", ["partial", "blocked"])
def test_decisions_of_unfinished_work_are_collected(overhand_project: ProjectDir, status: str) -> None:
    said = f"# Task Complete: x\n\n**Status:** {status}\n\n## Summary\nHalf.\n\n## Decisions Made\n- **Cents**: exact\n"
    overhand_project.agent("decider", f"file:$OVERHAND_OUTPUT={said}")
    delegate(overhand_project, "Decide something here", "--agent", "decider")
    kept = (overhand_project.path / ".agent-workspaces/DECISIONS.md").read_text()
    assert kept.count("**Cents**: exact") == 1


def test_what_an_agent_asks_is_said_to_the_one_who_waits(overhand_project: ProjectDir) -> None:
    overhand_project.agent("asker", "overhand-ask:Which colour?=red|blue", "output")
    overhand_project.run("delegate", "Paint the door now", "--agent", "asker", check=True)
    until(lambda: overhand_project.run("show", "1", "--json").json["questions"])
    ran = overhand_project.run("wait", "1", "--timeout", "1s")
    told = "asks: Which colour? (red / blue) · overhand answer 1 TEXT"
    assert (ran.code, ran.err.count(f"1 asker: {told}"), ran.err.count(f"1 {told}.")) == (124, 1, 1), ran.err
    overhand_project.run("answer", "1", "red", check=True)
    overhand_project.run("wait", "1", check=True)


def test_an_answered_task_that_is_not_resumed_says_what_to_type(overhand_project: ProjectDir) -> None:
    overhand_project.agent("asker", "overhand-ask:Which colour?=red|blue", "output")
    overhand_project.run("delegate", "Paint the door", "--agent", "asker", "--set", "limits.answer_wait=1s", "--wait")
    overhand_project.run("answer", "1", "red", "--no-resume", check=True)
    told = "It has its answer. Go on with it: overhand resume 1"
    assert (told in overhand_project.run("show", "1").out, told in overhand_project.run().out) == (True, True)


def test_a_limit_of_all_tasks_is_not_set_for_one(overhand_project: ProjectDir) -> None:
    ran = overhand_project.run("delegate", "Sort the letters", "--agent", "worker", "--set", "limits.max_parallel=6")
    assert (ran.code, "for all tasks together" in ran.err) == (2, True), ran.err


def test_a_return_in_the_project_is_found_and_not_taken(overhand_project: ProjectDir) -> None:
    subprocess.run(["git", "init", "-q", str(overhand_project.path)], check=True)
    overhand_project.agent("astray", "file:OUTPUT.md=# Task Complete: x")
    shown = delegate(overhand_project, "Write it down", "--agent", "astray")
    missing = next(one for one in shown["problems"] if one["code"] == "return-missing")
    assert "write it where OVERHAND_OUTPUT says" in missing["fix"]
