"""CONTROL lines of real agents: heard as they are printed, carried out once, and only where they are meant."""

from __future__ import annotations

import json
import os
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from overhand.questions import resume
from overhand.runs import ControlInput, control
from support.scene import QUICK, until

if TYPE_CHECKING:
    from pathlib import Path

    from overhand.record import Task
    from overhand.record.task import Line
    from support.scene import Scene

MERELY_SHOWN = """\
Here is what an agent may say:

```text
CONTROL: PAUSE
REASON: Is this real?
CONTROL: DELEGATE worker REASON: no
```

> CONTROL: ESCALATE REASON: quoted

    CONTROL: CHECKPOINT REASON: indented

Say `CONTROL: PAUSE` or CONTROL: ESCALATE in the middle of a line.
- CONTROL: CHECKPOINT REASON: in a list
<!--
CONTROL: ESCALATE REASON: in a comment
-->
~~~
CONTROL: RESUME
~~~
Control: we have it under control.
````md
```
CONTROL: ESCALATE
```
CONTROL: ESCALATE
````
"""


def says(scene: Scene, text: str | bytes, after: str = "", name: str = "worker", **keys: object) -> None:
    """An agent that prints this text, then does what the shell script says."""
    raw = text.encode() if isinstance(text, str) else text
    (scene.path / f"{name}.said").write_bytes(raw)
    scene.shell(name, f"cat {name}.said; {after}", **{"control": True, **keys})


def commands(scene: Scene, task: str) -> list[tuple[str, bool]]:
    return [(event["command"], event["ok"]) for event in scene.events(task, "control")]


def answer_files(scene: Scene, task: str) -> dict[str, str]:
    folder = scene.path / ".agent-workspaces" / task / "ipc"
    return {p.name: json.loads(p.read_text())["answer"] for p in sorted(folder.glob("*.answer"))}


def ended(scene: Scene, task: str, runs: int = 1) -> Task:
    """The state once so many runs were judged."""
    until(lambda: len(scene.events(task, "judged")) >= runs, f"{runs} verdicts of {task}")
    return scene.state(task)


def children(scene: Scene, task: str) -> list[Task]:
    return [s for s in scene.store.tasks() if s.parent and s.parent.task == task]


# what is heard


def test_the_output_of_a_command_counts_only_where_its_file_says_so(scene: Scene) -> None:
    text = "CONTROL: PAUSE REASON: a?\nCONTROL: CHECKPOINT REASON: b\nCONTROL: ESCALATE REASON: c\n"
    says(scene, text, QUICK, control=False)
    task = scene.delegate()
    assert ended(scene, task).status == "completed"
    assert not scene.events(task, "control")
    assert not scene.state(task).questions


def test_a_file_full_of_control_lines_that_is_merely_shown_does_nothing(scene: Scene) -> None:
    says(scene, MERELY_SHOWN, QUICK)
    task = scene.delegate()
    assert ended(scene, task).status == "completed"
    assert not scene.events(task, "control")
    assert not scene.state(task).notices


# A command behind which nothing comes for a second is whole. Who was held up for so long says it all once more; the
# last round, whose number is kept, was said in time.
IN_TIME = f"""
import os, time
def in_time(say):
    for n in range(20):
        began = time.monotonic()
        say(n)
        if time.monotonic() - began < {control._STILL} * 0.9:
            break
    open("round", "w").write(str(n))
"""


def test_lines_that_come_byte_by_byte(scene: Scene) -> None:
    text = "Umlauts: äöü\r\n\nCONTROL: CHECKPOINT\r\nREASON: Ünder way\r\nmore\nCONTROL: PAUSE REASON: Go on?\n"
    program = f"{IN_TIME}\nin_time(lambda _: [os.write(1, bytes([b])) for b in {text!r}.encode()])"
    scene.project.agent("worker", command=[sys.executable, "-c", program], control=True)
    task = scene.delegate()
    assert ended(scene, task).status == "needs-input"
    rounds = int((scene.path / "round").read_text()) + 1
    assert commands(scene, task) == [("CHECKPOINT", True), ("PAUSE", True)] * rounds
    assert scene.state(task).checkpoints[-1].reason == "Ünder way"
    assert [q.text for q in scene.state(task).questions] == ["Go on?"]


def test_a_reason_that_comes_a_moment_later_belongs_to_its_command(scene: Scene) -> None:
    """Something else stirs meanwhile: a run's folder is looked at, but its stream has only just fallen silent."""
    program = """
place = os.path.dirname(os.environ["OVERHAND_OUTPUT"])
def say(n):
    os.write(1, b"Before %d.\\n\\nCONTROL: PAUSE\\n" % n)
    for stir in range(6):
        open(f"{place}/{n}-{stir}", "w").close()
        time.sleep(0.05)
    os.write(1, b"REASON: The reason %d.\\n" % n)
in_time(say)
"""
    scene.project.agent("worker", command=[sys.executable, "-c", IN_TIME + program], control=True)
    task = scene.delegate()
    ended(scene, task)
    number = (scene.path / "round").read_text()
    told = [q.text for q in scene.state(task).questions]
    assert told[-1] == f"The reason {number}."
    assert f"Before {number}." not in told


def test_a_stream_is_still_only_if_it_was_looked_at_so_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever hears is held up behind its look, and meanwhile the reason is printed."""
    said, now, read = tmp_path / "stdout", [100.0], os.pread

    def held_up(fd: int, size: int, place: int) -> bytes:
        if not (found := read(fd, size, place)):
            now[0] += control._STILL
        return found

    monkeypatch.setattr(control, "time", SimpleNamespace(monotonic=lambda: now[0]))
    hearing = ControlInput("sess_1_aaaaaa", str(said))
    said.write_text("Before.\n\nCONTROL: PAUSE\n")
    with monkeypatch.context() as stalled:
        stalled.setattr(os, "pread", held_up)
        assert hearing.heard() == []
    with said.open("a") as file:
        file.write("REASON: The reason.\n")
    assert [command.reason for command in hearing.heard()] == ["The reason."]
    with said.open("a") as file:
        file.write("CONTROL: PAUSE\n")
    assert hearing.heard() == []
    now[0] += control._STILL
    assert [command.word for command in hearing.heard()] == ["PAUSE"], "nothing came for so long"


def test_the_last_line_needs_no_newline_and_is_heard_before_the_verdict(scene: Scene) -> None:
    says(scene, b"\xff\xfe broken \x80\x81\nCONTROL: PAUSE REASON: Which \xff one?")
    task = scene.delegate()
    assert ended(scene, task).status == "needs-input"
    assert [q.text for q in scene.state(task).questions] == ["Which \ufffd one?"]
    assert [e["e"] for e in scene.events(task) if e["e"] in ("control", "judged")] == ["control", "judged"]


@pytest.mark.parametrize("size", ["2m", pytest.param("50m", marks=pytest.mark.soak)])
def test_a_command_at_the_end_of_many_megabytes(scene: Scene, size: str) -> None:
    words = ("print:\\nCONTROL: CHECKPOINT REASON: far out", "output")
    scene.project.agent("worker", f"flood:{size}", *words, control=True)
    task = scene.delegate()
    assert scene.json("wait", task, timeout=300)["status"] == "completed"  # it is read twice
    assert commands(scene, task) == [("CHECKPOINT", True)]


HOSTILE = {
    "nul-in-task": b"CONTROL: DELEGATE helper REASON: a\0b\n",
    "nul-in-agent": b"CONTROL: DELEGATE he\0lper REASON: a\n",
    "long-agent": b"CONTROL: DELEGATE " + b"x" * 60_000 + b" REASON: a\n",
    "option-agent": b"CONTROL: DELEGATE --verify=true REASON: a\n",
    "long-checkpoint": b"CONTROL: RESUME ckpt_" + b"y" * 60_000 + b"\n",
    "control-characters": b"CONTROL: CHECKPOINT REASON: " + b"\x1b[2J\x01" * 3000 + b"\n",
    "wide-characters": b"CONTROL: CHECKPOINT REASON: " + "\U0001f600".encode() * 3000 + b"\n",
    "wide-escalation": b"CONTROL: PAUSE REASON: " + "\U0001f600\u2028".encode() * 3000 + b"\n",
    "unknown": b"CONTROL: " + b"z" * 60_000 + b"\n",
    "bad-block": b"CONTROL: DELEGATE helper\ndelegation:\n  task: [unclosed\n",
    "no-block-task": b"CONTROL: DELEGATE\ndelegation:\n  to_agent: helper\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_lines_are_noted_and_the_run_is_judged(scene: Scene, name: str) -> None:
    says(scene, HOSTILE[name], QUICK)
    scene.shell("helper", QUICK)
    task = scene.delegate()
    state = ended(scene, task)
    assert state.status in ("completed", "needs-input")
    assert len(scene.events(task, "control")) == 1
    assert not any("\x1b" in notice for notice in state.notices)


def test_a_block_that_cannot_be_read_is_refused_with_what_is_wrong(scene: Scene) -> None:
    says(scene, HOSTILE["bad-block"], QUICK)
    scene.shell("helper", QUICK)
    task = scene.delegate()
    ended(scene, task)
    (event,) = scene.events(task, "control")
    assert not event["ok"]
    assert "The block is not valid" in event["error"]
    assert not children(scene, task)


def test_commands_without_end_are_no_longer_taken_but_for_an_escalation(scene: Scene) -> None:
    flood = "".join(f"CONTROL: PAUSE REASON: {n}?\n" for n in range(300))
    says(scene, flood + "CONTROL: ESCALATE REASON: enough\n")
    task = scene.delegate()
    assert ended(scene, task).status == "blocked"
    assert len(scene.state(task).questions) == control._MOST
    assert commands(scene, task)[-2:] == [("PAUSE", False), ("ESCALATE", True)]


# PAUSE


def test_a_pause_parks_when_its_turn_ends_and_its_answer_starts_the_next_run(scene: Scene) -> None:
    script = f"""if test -e seen; then cat "$OVERHAND_HANDOFF" >handoff; {QUICK}
    else touch seen; printf 'Two ways lead on.\n\nShall it be A or B?\n\nCONTROL: PAUSE\n'; fi"""
    scene.shell("worker", script, control=True)
    task = scene.delegate()
    state = ended(scene, task)
    assert (state.status, state.runs[0].cause) == ("needs-input", "exit")
    assert [(q.text, q.via) for q in state.questions] == [("Shall it be A or B?", "pause")]
    scene.json("answer", task, "B, because of C")
    assert ended(scene, task, 2).status == "completed"
    assert "B, because of C" in (scene.path / "handoff").read_text()


def test_a_pause_that_is_answered_while_the_run_lives(scene: Scene) -> None:
    script = f"""echo 'CONTROL: PAUSE REASON: A or B?'; f="$OVERHAND_WORKSPACE/ipc/001.answer"
    while ! test -e "$f"; do sleep 0.02; done; {QUICK}"""
    scene.shell("worker", script, control=True)
    task = scene.delegate()
    until(lambda: scene.state(task).questions, "the question")
    scene.json("answer", task, "A")
    state = ended(scene, task)
    assert (state.status, len(state.runs), state.queued) == ("completed", 1, False)


@pytest.mark.parametrize("status", ["partial", "blocked", "failed"])
def test_a_run_that_had_its_answer_and_ended_short_is_not_begun_again(scene: Scene, status: str) -> None:
    output = f"printf '# Task Complete: x\\n\\n**Status:** {status}\\n\\n## Summary\\nShort.\\n' >$OVERHAND_OUTPUT"
    script = f"""echo 'CONTROL: PAUSE REASON: A or B?'; f="$OVERHAND_WORKSPACE/ipc/001.answer"
    while ! test -e "$f"; do sleep 0.02; done; until test -e go; do sleep 0.02; done; {output}"""
    scene.shell("worker", script, control=True)
    task = scene.delegate()
    until(lambda: scene.state(task).questions, "the question")
    scene.json("answer", task, "A")
    (scene.path / "go").touch()
    state = ended(scene, task)
    assert (state.status, len(state.runs), state.queued) == (status, 1, False)


def test_a_pause_beside_a_completed_return_needs_input(scene: Scene) -> None:
    says(scene, "CONTROL: PAUSE REASON: Ship it?\n", QUICK)
    task = scene.delegate()
    assert ended(scene, task).status == "needs-input"


# ESCALATE


def test_an_escalation_saves_calls_and_ends_the_run_and_its_children(scene: Scene) -> None:
    scene.shell("helper", "touch child-up; exec sleep 1000")
    script = """echo 'CONTROL: DELEGATE helper REASON: Do a part.'; until test -e child-up; do sleep 0.02; done
    echo 'CONTROL: ESCALATE REASON: Ten attempts, no way out.'; exec sleep 1000"""
    scene.shell("worker", script, control=True)
    task = scene.delegate()
    state = ended(scene, task)
    assert (state.status, state.summary) == ("blocked", "It called for a person: Ten attempts, no way out.")
    names = [e["e"] for e in scene.events(task)]
    assert names.index("checkpoint") < names.index("run.ended")
    order = [e for e in scene.events(task) if e["e"] == "checkpoint" or e.get("command") == "ESCALATE"]
    assert [e["e"] for e in order] == ["checkpoint", "control"]
    assert any("Ten attempts" in notice for notice in state.notices)
    (child,) = children(scene, task)
    assert ended(scene, child.id).status == "cancelled"
    until(lambda: "001.answer" in answer_files(scene, task), "the child's result")
    assert not scene.state(task).queued
    assert "cancelled" in answer_files(scene, task)["001.answer"]
    scene.project.agent("worker", "output")
    assert scene.json("resume", task, "--wait")["status"] == "completed"


def test_an_escalation_as_last_words_ends_the_children_too(scene: Scene) -> None:
    scene.shell("helper", "touch child-up; exec sleep 1000")
    script = """echo 'CONTROL: DELEGATE helper REASON: Do a part.'; until test -e child-up; do sleep 0.02; done
    printf 'CONTROL: %s\\n' 'ESCALATE REASON: No.' 'DELEGATE helper REASON: Too late.'"""
    scene.shell("worker", script, control=True)
    task = scene.delegate()
    assert ended(scene, task).status == "blocked"
    assert commands(scene, task) == [("DELEGATE", True), ("ESCALATE", True), ("DELEGATE", False)]
    (child,) = children(scene, task)
    assert ended(scene, child.id).status == "cancelled"


def test_an_answer_in_time_does_not_undo_an_escalation(scene: Scene) -> None:
    script = """echo 'CONTROL: PAUSE REASON: A or B?'; f="$OVERHAND_WORKSPACE/ipc/001.answer"
    while ! test -e "$f"; do sleep 0.02; done; echo 'CONTROL: ESCALATE REASON: Neither works.'"""
    scene.shell("worker", script, control=True)
    task = scene.delegate()
    until(lambda: scene.state(task).questions, "the question")
    scene.json("answer", task, "A")
    state = ended(scene, task)
    assert (state.status, state.queued, len(state.runs)) == ("blocked", False, 1)


# RESUME


def test_a_checkpoint_is_handed_over_and_its_absence_is_told(scene: Scene) -> None:
    text = "CONTROL: RESUME\n\nCONTROL: CHECKPOINT REASON: Half way there.\nCONTROL: RESUME latest\nGo.\n"
    says(scene, text + "CONTROL: RESUME ckpt_nowhere\n", QUICK)
    task = scene.delegate()
    state = ended(scene, task)
    assert state.status == "completed"
    assert commands(scene, task) == [("RESUME", False), ("CHECKPOINT", True), ("RESUME", True), ("RESUME", False)]
    (name,) = answer_files(scene, task)
    assert "Half way there." in answer_files(scene, task)[name]
    assert sum("RESUME was not carried out" in notice for notice in state.notices) == 2


def test_a_resume_as_last_words_does_not_start_run_after_run(scene: Scene) -> None:
    says(scene, "CONTROL: CHECKPOINT REASON: x\nCONTROL: RESUME\n")
    task = scene.delegate()
    state = ended(scene, task)
    assert (state.status, state.queued, len(state.runs)) == ("failed", False, 1)


# DELEGATE

BLOCK = """\
CONTROL: DELEGATE
REASON: It knows the tests.

```yaml
delegation:
  to_agent: helper
  task:
    description: "Count the tests in tests/ -- --verify=true"
    deliverable: "--set x=y"
  context:
    token_budget: 12000
    priority: HIGH
```
"""


def test_a_delegation_in_a_block(scene: Scene) -> None:
    scene.shell("helper", QUICK)
    says(scene, BLOCK)
    task = scene.delegate()
    (child,) = until(lambda: children(scene, task), "a child")
    assert (child.title, child.agent) == ("Count the tests in tests/ -- --verify=true", "helper")
    assert (child.priority, child.depth, child.checks) == ("P1", 2, [])
    handoff = (scene.path / ".agent-workspaces" / child.id / "HANDOFF.md").read_text()
    assert "It knows the tests." in handoff
    assert "--set x=y" in handoff
    ended(scene, task)


def test_a_parent_without_a_return_waits_and_goes_on_with_the_result(scene: Scene) -> None:
    scene.shell("helper", f"until test -e go; do sleep 0.02; done; {QUICK}")
    script = f"""if test -e seen; then cat "$OVERHAND_HANDOFF" >handoff; {QUICK}
    else touch seen; echo 'CONTROL: DELEGATE helper REASON: Do a part.'; fi"""
    scene.shell("worker", script, control=True)
    task = scene.delegate()
    assert ended(scene, task).status == "blocked"
    (scene.path / "go").touch()
    assert ended(scene, task, 2).status == "completed"
    assert "helper: completed. Done." in (scene.path / "handoff").read_text()
    assert len(children(scene, task)) == 1


def test_a_result_that_comes_before_the_parent_ends_starts_the_next_run_too(scene: Scene) -> None:
    scene.shell("helper", QUICK)
    script = f"""if test -e seen; then {QUICK}
    else touch seen; echo 'CONTROL: DELEGATE helper REASON: Do a part.'
    until test -e "$OVERHAND_WORKSPACE/ipc/001.answer"; do sleep 0.02; done; fi"""
    scene.shell("worker", script, control=True)
    task = scene.delegate()
    assert ended(scene, task, 2).status == "completed"


def test_a_task_that_only_delegates_is_left_to_a_person_after_ten_runs(scene: Scene) -> None:
    scene.shell("helper", QUICK)
    says(scene, "CONTROL: DELEGATE helper REASON: Do a part.\n")
    task = scene.delegate()
    until(lambda: any("a person decides" in n for n in scene.state(task).notices), "the end of it")
    state = scene.state(task)
    assert state.status in ("blocked", "needs-input")
    assert (state.queued, len(state.runs)) == (False, resume._ROUNDS)
    assert len(children(scene, task)) == resume._ROUNDS


def test_a_child_that_is_stopped_before_it_begins_is_a_result_too(scene: Scene) -> None:
    scene.shell("helper", QUICK)
    awaits = 'until test -e "$OVERHAND_WORKSPACE/ipc/001.answer"; do sleep 0.02; done; '
    says(scene, "CONTROL: DELEGATE helper REASON: Do a part.\n", awaits + QUICK)
    scene.project.config("[limits]\nmax_parallel = 1\n")
    task = scene.delegate()
    (child,) = until(lambda: children(scene, task), "a child")
    assert scene.json("stop", child.id, code=None)["tasks"][0]["was"] == "queued"
    assert ended(scene, task).status == "completed"
    assert "cancelled" in answer_files(scene, task)["001.answer"]


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "unknown": ("helpr", {}, "Did you mean helper?"),
    "cycle": ("worker", {}, "A cycle: user → worker → worker."),
    "forbidden": ("helper", {"can_delegate": False}, "may not delegate"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_delegation_passes_every_guard(scene: Scene, name: str) -> None:
    agent, keys, told = REFUSED[name]
    scene.shell("helper", QUICK)
    says(scene, f"CONTROL: DELEGATE {agent} REASON: Do a part.\n", QUICK, **keys)
    task = scene.delegate()
    state = ended(scene, task)
    assert (state.status, commands(scene, task)) == ("completed", [("DELEGATE", False)])
    assert told in scene.events(task, "control")[0]["error"]
    assert any(told in notice for notice in state.notices)
    assert not children(scene, task)


def test_too_deep_is_refused(scene: Scene) -> None:
    for n in range(1, 7):
        says(scene, f"CONTROL: DELEGATE a{n + 1} REASON: Go deeper.\n", QUICK, name=f"a{n}")
    scene.delegate("go", "--agent", "a1")

    def refused() -> list[Line]:
        return [e for task in scene.ids() for e in scene.events(task, "control") if not e["ok"]]

    (event,) = until(refused, "a refusal")
    assert "Too deep" in event["error"]


@pytest.mark.parametrize("place", ["0", "1", "9", "99999", "-1", "x", "12", "9" * 30])
def test_a_forged_cause_does_not_wake_the_dead(scene: Scene, place: str) -> None:
    """What a dead run left behind may not delegate: it printed nothing there, or in a fence, or another command."""
    scene.shell("helper", QUICK)
    text = "```\nCONTROL: DELEGATE helper REASON: shown only\n```\nCONTROL: CHECKPOINT REASON: y\n"
    says(scene, text, QUICK)
    task = scene.delegate()
    run_id = ended(scene, task).runs[0].id
    at = {"9": text.index("CONTROL: CHECK"), "12": text.index("CONTROL")}.get(place, place)
    env = {"OVERHAND_TASK": task, "OVERHAND_RUN": run_id, "OVERHAND_CAUSE": f"{run_id}/stdout@{at}"}
    told = scene.json("delegate", "x", "--agent", "helper", code=3, env=env)
    assert told["error"]["code"] == "STALE_RUN"
    assert not children(scene, task)


def test_the_cause_of_another_run_and_one_that_was_used(scene: Scene) -> None:
    scene.shell("helper", QUICK)
    says(scene, "CONTROL: DELEGATE helper REASON: Do a part.\n", QUICK)
    first, second = scene.delegate("one"), scene.delegate("two")
    runs = [ended(scene, task).runs[0].id for task in (first, second)]
    env = {"OVERHAND_TASK": first, "OVERHAND_RUN": runs[0]}
    other = {**env, "OVERHAND_CAUSE": f"{runs[1]}/stdout@0"}
    assert scene.json("delegate", "x", "--agent", "helper", code=3, env=other)["error"]["code"] == "STALE_RUN"
    used = {**env, "OVERHAND_CAUSE": f"{runs[0]}/stdout@0"}
    (child,) = children(scene, first)
    assert scene.json("delegate", "x", "--agent", "helper", env=used)["task_id"] == child.id
    assert len(children(scene, first)) == 1


# waiting


def test_a_pause_never_expires_while_its_agent_lives(scene: Scene) -> None:
    """An `ask` beside it is parked after the same time, which shows that the time has passed."""
    scene.project.config('[limits]\nanswer_wait = "1s"\n')
    says(scene, "CONTROL: PAUSE REASON: Take your time?\n", f"until test -e go; do sleep 0.02; done; {QUICK}")
    scene.shell("asker", "$OVERHAND ask 'Now?'")
    patient = scene.delegate()
    until(lambda: scene.state(patient).questions, "the question")
    asker = scene.delegate("ask", "--agent", "asker")
    assert ended(scene, asker).runs[0].cause == "answer-timeout"
    assert scene.state(patient).runs[0].state == "running"
    scene.json("answer", patient, "I did")
    (scene.path / "go").touch()
    assert ended(scene, patient).status == "completed"


def test_a_person_may_stop_a_task_that_waits_for_what_it_delegated(scene: Scene) -> None:
    scene.shell("helper", "touch child-up; exec sleep 1000")
    says(scene, "CONTROL: DELEGATE helper REASON: Do a part.\n")
    task = scene.delegate()
    assert ended(scene, task).status == "blocked"
    scene.appears("child-up")
    told = scene.json("stop", task, code=None)
    (child,) = children(scene, task)
    assert ended(scene, child.id).status == "cancelled", told
    until(lambda: answer_files(scene, task), "the result")
    state = scene.state(task)
    assert (state.status, state.queued, len(state.runs)) == ("cancelled", False, 1)
