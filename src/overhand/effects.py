"""What an agent's CONTROL lines bring about, each once.

The name of an effect is its place in the stream: `cause = <run>/stdout@<offset>`. Whoever adopts the run reads the
stream again from its first byte through the same listener, and what is recorded under its cause is not done again.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from overhand import checkpoints, prompts, questions
from overhand.control import Command, Listener, delegation
from overhand.errors import OverhandError

if TYPE_CHECKING:
    from overhand.run import Work
    from overhand.shapes import Event, State

_PART = 1 << 20
_PATIENCE = 60.0  # seconds that a delegation may take to be accepted


@dataclass(slots=True)
class Hearing:
    """One run's stream: how far it was heard."""

    run: str
    path: str
    place: int = 0
    still: int = 0  # looks in a row that found nothing new
    listener: Listener = field(default_factory=Listener)

    def heard(self, *, last: bool = False) -> list[Command]:
        """Commands that are complete by now; one that waits for its next line is given out when the stream is still."""
        found: list[Command] = []
        grown = False
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return found
        try:
            while part := os.pread(fd, _PART, self.place):
                grown = True
                self.place += len(part)
                found += self.listener.feed(part)
        finally:
            os.close(fd)
        self.still = 0 if grown else self.still + 1
        if last:
            found += self.listener.finish()
        elif self.still and self.listener.waiting:
            found += self.listener.quiet()
        return found


def hear(work: Work, task_id: str, hearing: Hearing, *, last: bool = False) -> bool:
    """Carry out what was heard; whether there was anything."""
    commands = hearing.heard(last=last)
    for command in commands:
        carry_out(work, task_id, hearing.run, command)
    return bool(commands)


def drain(work: Work, state: State) -> State:
    """Hear the whole stream of the run that has ended, before it is judged."""
    ended = state["runs"][-1]
    if ended["control"]:
        place = work.store.run_folder(state["task_id"], ended["id"])
        hear(work, state["task_id"], Hearing(ended["id"], f"{place}/stdout"), last=True)
        return work.store.state(state["task_id"])
    return state


def carry_out(work: Work, task_id: str, run_id: str, command: Command) -> None:
    """One command: its effect first, under its cause, then the note that it was done; a refusal is noted too."""
    cause = f"{run_id}/stdout@{command.offset}"
    state = work.store.state(task_id)
    if any(event.get("at") == cause for event in state["controls"]):
        return
    event: Event = {"e": "control", "command": command.word, "arg": command.target, "run": run_id, "at": cause}
    event["reason"] = (command.reason or command.paragraph)[:500]
    if (problem := command.refused) is not None:
        _note(work, task_id, {**event, "ok": False, "error": f"{problem.message} {problem.fix}".strip()[:500]})
        return
    try:
        done = _DO[command.word](work, state, run_id, command, cause)
        _note(work, task_id, {**event, "ok": True, **done})
    except OverhandError as error:
        _note(work, task_id, {**event, "ok": False, "error": f"{error.message} {error.hint}".strip()[:500]})


def _note(work: Work, task_id: str, event: Event) -> None:
    with work.store.locked(task_id, work.by) as task:
        if any(known.get("at") == event["at"] for known in task.state["controls"]):
            return
        task.append(event)
        if not event["ok"]:
            word = event["command"] or "A CONTROL line"
            task.append({"e": "notice", "text": f"{word} was not carried out: {event['error']}"})
        elif event["command"] == "ESCALATE":
            task.append({"e": "notice", "text": f"It calls for a person: {event['reason'] or 'no reason given'}"})


def _pause(work: Work, state: State, run_id: str, command: Command, cause: str) -> Event:
    text = command.reason or command.paragraph or "The agent paused and did not say why. How shall it go on?"
    asked = questions.ask(work.store, state["task_id"], run_id, work.by, text, via="pause", cause=cause)
    return {"seq": asked["seq"]}


def _checkpoint(work: Work, state: State, run_id: str, command: Command, cause: str) -> Event:
    reason = command.reason or command.paragraph
    made = checkpoints.create(
        work.store, state["task_id"], work.by, run=run_id, reason=reason, why="control", cause=cause
    )
    return {"checkpoint": made}


def _escalate(work: Work, state: State, run_id: str, command: Command, cause: str) -> Event:
    """The checkpoint comes first; the run is ended by whoever watches it, and judged blocked."""
    return _checkpoint(work, state, run_id, command, cause)


def _resume(work: Work, state: State, run_id: str, command: Command, cause: str) -> Event:
    found = checkpoints.find(state, command.target)
    text = checkpoints.text_of(work.store, state["task_id"], found)
    seq = hand_over(work, state["task_id"], run_id, f"CONTROL: RESUME {found}", text, cause)
    return {"checkpoint": found, "seq": seq}


def _delegate(work: Work, state: State, run_id: str, command: Command, cause: str) -> Event:
    """A child task, by the verb itself and in the name of the run, so that every guard is passed."""
    for known in work.store.states():
        if known["cause"] == cause:
            return {"child": known["task_id"]}
    wanted, _ = delegation(command.block)
    words = ["--agent", command.target or wanted.agent] if command.target or wanted.agent else []
    title = wanted.task or command.reason
    for path in wanted.files:
        words += ["--file", path]
    for text in wanted.deliverables:
        words += ["--deliverable", text]
    for text in (wanted.context, command.reason if wanted.task else ""):
        words += ["--context", text] if text else []
    words += ["--budget", f"{wanted.budget} tokens"] if wanted.budget else []
    words += ["--priority", wanted.priority] if wanted.priority else []
    env = {**work.env, **prompts.environment(work.store, state, run_id), "OVERHAND_CAUSE": cause}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "overhand", "delegate", "--json", *words, "--", title],
        cwd=work.store.root,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )
    return _told(done.stdout, done.returncode)


def _told(out: str, code: int) -> Event:
    """The child's id, or what `delegate` refused."""
    import json

    try:
        said = json.loads(out)
    except ValueError:
        raise OverhandError(f"The delegation ended with {code} and said nothing.") from None
    if "error" in said:
        raise OverhandError(str(said["error"]["message"]), str(said["error"]["hint"]))
    return {"child": str(said["task_id"])}


_DO = {"PAUSE": _pause, "CHECKPOINT": _checkpoint, "ESCALATE": _escalate, "RESUME": _resume, "DELEGATE": _delegate}


def hand_over(work: Work, task_id: str, run_id: str, title: str, text: str, cause: str) -> int:
    """Give a run something as `ipc/NNN.answer`: recorded as asked and answered in one breath, once per cause."""
    with work.store.locked(task_id, work.by) as task:
        ipc = questions.folder(work.store, task_id)
        if cause in task.state["causes"]:
            return next((q["seq"] for q in reversed(task.state["questions"]) if q["question"] == title[:500]), 0)
        seq = questions.next_number(task.state, ipc)
        asked: Event = {"e": "asked", "seq": seq, "question": title[:500], "via": "control", "run": run_id}
        task.append({**asked, "cause": cause}, questions.answered(task.folder, seq, text, "control"))
        question = task.state["questions"][-1]
    questions.deliver(work.store, task_id, question, text)
    return seq


def pending(state: State, run_id: str) -> list[str]:
    """Tasks that this run delegated by a CONTROL line and whose results have not reached it."""
    given = {event["child"] for event in state["controls"] if event.get("run") == run_id and event.get("child")}
    return sorted(child for child in given if f"child:{child}" not in state["causes"])


def report_to_parent(work: Work, child: State) -> str | None:
    """A judged child's result reaches the run that delegated it by a CONTROL line; returns the parent if it goes on."""
    above = child["parent"]
    if child["status"] is None or above is None or child["cause"] is None:
        return None
    cause = f"child:{child['task_id']}"
    parent = work.store.state(above["task"])
    if cause in parent["causes"]:
        return None
    output = work.store.relative(f"{work.store.folder(child['task_id'])}/OUTPUT.md")
    text = f"{child['agent']}: {child['status']}. {child['summary']}\nIts OUTPUT.md: {output}"
    title = f"CONTROL: DELEGATE {child['agent']}: {child['title']}"
    hand_over(work, above["task"], above["run"], title, text, cause)
    with work.store.locked(above["task"], work.by) as task:
        waits = task.state["status"] == "blocked" and not pending(task.state, above["run"])
        if waits and questions.is_due(task.state) and not _escalated(task.state, above["run"]):
            task.append(questions.go_on(task.state))
            return above["task"]
    return None


def _escalated(state: State, run_id: str) -> bool:
    return bool(escalation(state, run_id))


def escalation(state: State, run_id: str) -> str:
    """Why this run called for a person; nothing if it did not."""
    for event in state["controls"]:
        if event.get("run") == run_id and event.get("command") == "ESCALATE" and event.get("ok"):
            return str(event.get("reason") or "no reason given")
    return ""
