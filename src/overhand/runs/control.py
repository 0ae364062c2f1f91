"""What an agent's CONTROL lines bring about, each once.

The name of an effect is its place in the stream: `cause = <run>/stdout@<offset>`. A process that adopts the run reads
the stream again from its first byte, and what is recorded under its cause is not done again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from overhand.agents import json_lines, translator
from overhand.documents import ControlCommand, ControlDelegation, ControlListener, parse_delegation
from overhand.errors import Busy, NotFound, OverhandError, Refused
from overhand.questions import (
    Asking,
    ask_question,
    deliver_answer,
    hand_over_events,
    has_leftovers,
    has_unread_files,
    next_run_after_result,
    plain_text,
    take_in_files,
)
from overhand.record import Accepted, ControlHandled, Notice
from overhand.runs import checkpoints, prompt

if TYPE_CHECKING:
    from typing import Any

    from overhand.policy import Actor
    from overhand.record import Run, Store, Task

_PART = 1 << 20
_PATIENCE = 60.0  # seconds that a delegation may take to be accepted
_STILL = 1.0  # seconds without output after which a command is whole, although its next line may be its reason
_MOST = 100  # commands of one run; one that gives more goes round in circles


@dataclass(slots=True)
class ControlInput:
    """One run's stream, and how far it was read."""

    run: str
    path: str
    place: int = 0
    driver: str = ""  # of the run; its program prints plain text where it has none
    rest: bytes = b""  # of a line of JSON that is not complete
    speaking: bool = False  # its last text may continue
    grown: float = 0.0  # when something new was last found
    listener: ControlListener = field(default_factory=ControlListener)

    def heard(self, *, last: bool = False) -> list[ControlCommand]:
        """Commands that are complete by now; one that waits for its next line is given out when the stream is still."""
        found: list[ControlCommand] = []
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return found
        looked = time.monotonic()  # before the look: what is printed after it, we have not seen
        try:
            while part := os.pread(fd, _PART, self.place):
                self.grown = time.monotonic()
                self.place += len(part)
                found += self._take(part)
        finally:
            os.close(fd)
        if last:
            found += self.listener.finish()
        elif self.listener.waiting and looked - self.grown >= _STILL:
            found += self.listener.quiet()
        return found

    def _take(self, part: bytes) -> list[ControlCommand]:
        """Plain text as it is; of a coding agent's JSON lines only what it says itself, never what a tool printed."""
        translate = translator(self.driver)
        if translate is None:
            return self.listener.feed(part)
        found: list[ControlCommand] = []
        *whole, self.rest = (self.rest + part).split(b"\n")
        for event in (event for line in whole for one in json_lines(line) for event in translate(one)):
            goes_on = event.kind == "said" and bool(event.data.get("part"))
            if self.speaking and not goes_on:
                found += self.listener.feed("\n")
            if event.kind == "said":
                found += self.listener.feed(event.text if goes_on else f"{event.text}\n")
            self.speaking = goes_on
        return found


def handle_control(actor: Actor, task_id: str, hearing: ControlInput, *, last: bool = False) -> bool:
    """Carry out the commands that are new in the stream; whether there were any."""
    commands = hearing.heard(last=last)
    try:
        for command in commands:
            carry_out(actor, task_id, hearing.run, command)
    except BaseException:  # start again at the first byte: what was done is known by its cause
        hearing.place, hearing.listener, hearing.rest, hearing.speaking = 0, ControlListener(), b"", False
        raise
    return bool(commands)


def drain(actor: Actor, task: Task, ended: Run) -> Task:
    """Read the whole stream of the run that has ended, before it is judged."""
    place = actor.store.run_folder(task.id, ended.id)
    handle_control(actor, task.id, ControlInput(ended.id, f"{place}/stdout", driver=ended.driver), last=True)
    return actor.store.recorded(task.id)


def carry_out(actor: Actor, task_id: str, run_id: str, command: ControlCommand) -> None:
    """One command: its effect first, under its cause, then the note that it was done; a refusal is noted too."""
    cause = f"{run_id}/stdout@{command.offset}"
    task = actor.store.recorded(task_id)
    given = [event for event in task.controls if event.run == run_id]
    if any(event.at == cause for event in given):
        return
    event = ControlHandled(
        command=command.word,
        arg=plain_text(command.target, 120),
        run=run_id,
        at=cause,
        reason=plain_text(command.reason or command.paragraph, 500),
        ok=True,
    )
    if len(given) >= _MOST and command.word != "ESCALATE":
        error = f"It gave more than {_MOST} CONTROL lines; of the others only an ESCALATE counts."
        _note(actor, task_id, event.replace(at=f"{run_id}/stdout@{_MOST}+", ok=False, error=error))
        return
    try:
        if (problem := command.refused) is not None:
            raise OverhandError(problem.message, problem.fix)
        event = event.replace(**_DO[command.word](actor, task, run_id, command, cause))
    except Busy:
        raise  # another process holds the task: retried soon
    except OverhandError as refusal:
        event = event.replace(ok=False, error=plain_text(f"{refusal.message} {refusal.hint}", 500))
    except (OSError, ValueError, subprocess.SubprocessError) as failed:
        event = event.replace(ok=False, error=plain_text(f"It could not be done: {failed}", 500))
    _note(actor, task_id, event)


def _note(actor: Actor, task_id: str, event: ControlHandled) -> None:
    with actor.store.lock(task_id, actor.by) as locked:
        if any(known.at == event.at for known in locked.task.controls):
            return
        locked.append(event)
        if not event.ok:
            word = event.command or "A CONTROL line"
            locked.append(Notice(text=f"{word} was not carried out: {event.error}"))
        elif event.command == "ESCALATE":
            locked.append(Notice(text=f"It calls for a person: {event.reason or 'no reason given'}"))
            if event.error is not None:
                locked.append(Notice(text=event.error))


def _pause(actor: Actor, task: Task, run_id: str, command: ControlCommand, cause: str) -> dict[str, Any]:
    text = command.reason or command.paragraph or "The agent paused and did not say why. How shall it go on?"
    if has_unread_files(actor.store, task):  # perhaps this very question, from before a crash: then it is the same
        take_in_files(actor.store, task, actor.by)
    asked = ask_question(actor.store, task.id, run_id, Asking(text=text, via="pause", cause=cause), actor.by)
    return {"seq": asked.seq}


def _checkpoint(actor: Actor, task: Task, run_id: str, command: ControlCommand, cause: str) -> dict[str, Any]:
    reason = command.reason or command.paragraph
    new = checkpoints.NewCheckpoint(run=run_id, reason=reason, why="control", cause=cause)
    return {"checkpoint": checkpoints.create_checkpoint(actor.store, task.id, actor.by, new)}


def _escalate(actor: Actor, task: Task, run_id: str, command: ControlCommand, cause: str) -> dict[str, Any]:
    """Save a checkpoint, if that is possible; the supervisor ends the run, and it is judged blocked."""
    try:
        return _checkpoint(actor, task, run_id, command, cause)
    except Busy:
        raise
    except (OverhandError, OSError) as error:
        return {"error": plain_text(f"Nothing was saved: {error}", 500)}


def _resume(actor: Actor, task: Task, run_id: str, command: ControlCommand, cause: str) -> dict[str, Any]:
    found = checkpoints.find_checkpoint(task, command.target)
    text = checkpoints.checkpoint_text(actor.store, task.id, found)
    handed = Asking(text=f"CONTROL: RESUME {found}", via="control", cause=cause)
    with actor.store.lock(task.id, actor.by) as locked:
        if cause in locked.task.causes:
            seq = next((q.seq for q in reversed(locked.task.questions) if q.text == handed.text[:500]), 0)
            return {"checkpoint": found, "seq": seq}
        locked.append(*hand_over_events(locked, run_id, handed, text))
        question = locked.task.questions[-1]
    deliver_answer(actor.store, task.id, question, text)
    return {"checkpoint": found, "seq": int(question.seq)}


def _delegate(actor: Actor, task: Task, run_id: str, command: ControlCommand, cause: str) -> dict[str, Any]:
    """Call the verb itself, in the name of the run, so that every guard applies."""
    if (made := child_of_control(actor.store, cause)) is not None:
        return {"child": made.id}
    if task.escalation(run_id):
        raise Refused("The run had called for a person already.", "Delegate in its next run.")
    words, title = _words(command)
    env = {**actor.env, **prompt.run_environment(actor.store, task, run_id), "OVERHAND_CAUSE": cause}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "overhand", "delegate", "--json", *words, "--", title],
        cwd=actor.store.root,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )
    try:
        printed = json.loads(done.stdout)
    except ValueError:
        raise OverhandError(
            f"The delegation ended with {done.returncode} and said nothing.",
            "Delegate it yourself: overhand delegate TEXT --agent NAME",
        ) from None
    if "error" in printed:
        raise OverhandError(str(printed["error"]["message"]), str(printed["error"]["hint"]))
    return {"child": str(printed["task_id"])}


def child_of_control(store: Store, cause: str) -> Task | None:
    """The task that this CONTROL line has created already."""
    return next((known for known in store.tasks() if known.cause == cause), None)


def has_printed_delegation(store: Store, task_id: str, run_id: str, offset: int) -> bool:
    """Whether the run really gave a DELEGATE at this place of its stream, and is one whose commands count."""
    run = store.recorded(task_id).run(run_id)
    if run is None or not run.control:
        return False
    printed = ControlInput(run_id, f"{store.run_folder(task_id, run_id)}/stdout", driver=run.driver)
    return any(command.offset == offset and command.word == "DELEGATE" for command in printed.heard(last=True))


def _words(command: ControlCommand) -> tuple[list[str], str]:
    """The options of `delegate` and the task; a block that cannot be read is refused, with what is wrong with it."""
    wanted, problems = parse_delegation(command.block)
    wrong = next((one for one in problems if one.level == "error"), None)
    title = wanted.task or command.reason
    if command.block and wrong is not None and not (title and wanted != ControlDelegation()):
        raise OverhandError(wrong.message, wrong.fix)
    words = [f"--agent={command.target or wanted.agent}"]
    words += [f"--file={path}" for path in wanted.files]
    words += [f"--deliverable={text}" for text in wanted.deliverables]
    words += [f"--context={text}" for text in (wanted.context, command.reason if wanted.task else "") if text]
    words += [f"--budget={wanted.budget} tokens"] if wanted.budget else []
    words += [f"--priority={wanted.priority}"] if wanted.priority else []
    return words, title


_DO = {"PAUSE": _pause, "CHECKPOINT": _checkpoint, "ESCALATE": _escalate, "RESUME": _resume, "DELEGATE": _delegate}


def owes_report(store: Store, child: Task) -> bool:
    """Whether this task was delegated by a CONTROL line, is judged, and its parent does not know yet."""
    above = child.parent
    if child.status is None or above is None or child.cause is None:
        return False
    try:
        return f"child:{child.id}" not in store.recorded(above.task).causes
    except NotFound:
        return False  # it was removed; its documents alone are a prepared task, which waits for nothing


def report_to_parent(actor: Actor, child: Task) -> str | None:
    """A judged child's result reaches the run that delegated it by a CONTROL line; returns the parent if it continues.

    The result and the next run are one write: a crash between them would leave a parent that waits for ever.
    """
    above = child.parent
    if above is None or not owes_report(actor.store, child):
        return None
    cause, parent_id = f"child:{child.id}", above.task
    text = f"{child.agent}: {child.status}. {child.summary}"
    if child.output:
        text += f"\nIts OUTPUT.md: {actor.store.relative(f'{actor.store.workspace(child.id)}/OUTPUT.md')}"
    title = f"CONTROL: DELEGATE {child.agent}: {child.title}"
    with actor.store.lock(parent_id, actor.by) as locked:
        if cause in locked.task.causes:
            return None
        handed = hand_over_events(locked, above.run, Asking(text=title, via="child", cause=cause), text)
        left = has_leftovers(actor.store, locked.task)
        following = next_run_after_result(locked.task, above.run, child.id, leftovers=left)
        locked.append(*handed, *([following] if following else []))
        question = locked.task.questions[-1]
    deliver_answer(actor.store, parent_id, question, text)
    return parent_id if isinstance(following, Accepted) else None
