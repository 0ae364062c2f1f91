"""The stop hook of a coding agent: before it stops, it is told everything that is wrong with its return.

The agent's own program runs `python -m overhand.verbs.hook PROJECT PLACE`, PLACE being the run's folder. Whatever goes
wrong here lets the agent stop: its return is judged afterwards all the same, and sent back if it does not hold.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from typing import TYPE_CHECKING, Any

from overhand.agents import stream
from overhand.policy import caller
from overhand.record.store import Store
from overhand.runs import evidence
from overhand.system.files import read_file
from overhand.verbs.finish_run import foreseen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overhand.record.task import Run, Task
    from overhand.runs.judge import Verdict

MOST = 2  # times that one run is held back
_PATIENCE = 2.0  # seconds for what the agent's program says about itself
_ENDS_TURN = ("PAUSE", "ESCALATE", "DELEGATE")  # CONTROL lines after which it waits for something


def main(words: Sequence[str]) -> int:
    """Print the answer of a hook that holds the agent back; nothing lets it stop."""
    try:
        if reason := held_back(Store(words[0]), words[1], _last_message()):
            sys.stdout.write(json.dumps({"decision": "block", "reason": reason}) + "\n")
            sys.stdout.flush()
    except Exception as error:  # noqa: BLE001 -- no mistake of ours may keep an agent from its end
        sys.stderr.write(f"overhand: {type(error).__name__}: {error}\n")
    return 0


def held_back(store: Store, place: str, said: str) -> str:
    """Why this run must not stop yet; nothing where it may."""
    task_id, run_id = caller.run_of_place(store, place) or ("", "")
    if not run_id:
        return ""
    task = store.task(task_id)
    run = task.current_run
    if run is None or run.id != run_id or _may_stop(store, task, run, place):
        return ""
    spec: dict[str, Any] = json.loads(read_file(f"{place}/spec.json") or b"{}")
    words = stream.Heard(text=[said])
    verdict = foreseen(store, task, spec, evidence.as_it_stands(place, spec, heard=words))
    if not verdict.errors or not _can_be_mended(verdict, spec) or _waits(store, task, run, place, said):
        return ""
    return _told(verdict, place) if _count(place) else ""


def _may_stop(store: Store, task: Task, run: Run, place: str) -> bool:
    """Whether nobody wants more of this run, or it mends a return already and was told."""
    unwanted = task.stop is not None or run.has_ended or os.path.exists(f"{place}/stopped")
    elsewhere = os.path.lexists(f"{store.folder(task.id)}/OUTPUT.md")  # whose it is is found out afterwards
    return unwanted or elsewhere or task.repairs > 0 or bool(task.open_questions)


def _can_be_mended(verdict: Verdict, spec: dict[str, Any]) -> bool:
    from overhand.runs.finish import can_be_mended

    return can_be_mended(verdict, spec)


def _waits(store: Store, task: Task, run: Run, place: str, said: str) -> bool:
    """Whether it stops to wait for somebody, perhaps by words that the record does not have yet."""
    from overhand.documents.control import Listener
    from overhand.questions import files
    from overhand.runs import control

    if task.escalation(run.id) or task.awaited_children(run.id) or files.has_unread(store, task):
        return True
    if not run.control:
        return False
    heard = control.Hearing(run.id, f"{place}/stdout", driver=run.driver)
    listener = Listener()
    commands = [*heard.heard(last=True), *listener.feed(f"{said}\n"), *listener.finish()]
    return any(command.word in _ENDS_TURN and command.refused is None for command in commands)


def _count(place: str) -> bool:
    """Note that it is held back once more; not where that happened often enough, or cannot be noted."""
    fd = os.open(f"{place}/held", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        return os.fstat(fd).st_size < MOST and os.write(fd, b".") == 1
    finally:
        os.close(fd)


def _told(verdict: Verdict, place: str) -> str:
    """Everything at once: each of the few times that it is held back must do."""
    found = [f"- {one.message}{f' {one.fix}' if one.fix else ''}" for one in verdict.problems]
    return "\n".join(
        (
            "Do not stop yet: your return could not be accepted as it stands. Mend all of this:",
            *found,
            "Your return is this file, in the form that «How to return» asks for:",
            f"    {place}/OUTPUT.md",
            "If something cannot be mended, return with the status partial, blocked or failed, and say there why.",
        )
    )


def _last_message() -> str:
    """What the agent said last, as its program tells a hook on stdin; it is not waited for any longer than need be."""
    raw, end = b"", time.monotonic() + _PATIENCE
    while (left := end - time.monotonic()) > 0 and select.select([0], [], [], left)[0]:
        part = os.read(0, 1 << 20)
        raw += part
        if not part:
            break
    try:
        given = json.loads(raw)
    except ValueError:
        return ""
    given = given if isinstance(given, dict) else {}
    return str(given.get("last_assistant_message") or given.get("prompt_response") or "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
