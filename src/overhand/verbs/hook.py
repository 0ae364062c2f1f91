"""The stop hook of a coding agent: before it stops, it gets a list of everything that is wrong with its return.

The agent's own program runs `python -m overhand.verbs.hook PROJECT PLACE`, PLACE being the run's folder in the record.
Any error here lets the agent stop: its return is judged afterwards anyway, and sent back if it is not accepted.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from typing import TYPE_CHECKING

from overhand.agents import StreamSummary
from overhand.errors import OverhandError
from overhand.policy import run_of_place
from overhand.record import Store, read_state
from overhand.runs import read_return
from overhand.verbs.finish_run import preview_verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overhand.record import Run, Task
    from overhand.runs import Verdict
    from overhand.system import Beneath

MOST = 2  # times that one run is held back
_PATIENCE = 2.0  # seconds to read what the agent's program writes to stdin
_ENDS_TURN = ("PAUSE", "ESCALATE", "DELEGATE")  # CONTROL lines after which it waits for something


def main(words: Sequence[str]) -> int:
    """Print the answer of a hook that holds the agent back; nothing lets it stop."""
    try:
        if reason := reason_to_continue(Store(words[0]), words[1], _last_message()):
            sys.stdout.write(json.dumps({"decision": "block", "reason": reason}) + "\n")
            sys.stdout.flush()
    except Exception as error:  # noqa: BLE001 -- no error of ours may keep an agent from stopping
        sys.stderr.write(f"overhand: {type(error).__name__}: {error}\n")
    return 0


def reason_to_continue(store: Store, place: str, message: str) -> str:
    """Why this run must not stop yet; empty where it may."""
    from overhand.runs import can_be_mended

    task_id, run_id = run_of_place(store, place) or ("", "")
    if not run_id or os.path.realpath(place) != store.run_folder(task_id, run_id):
        return ""
    task = store.task(task_id)
    run = task.current_run
    if run is None or run.id != run_id or _may_stop(store, task, run, place):
        return ""
    spec = read_state(f"{place}/spec.json") or {}
    folders = store.run_folders(task_id, run_id)
    verdict = preview_verdict(
        store, task, spec, read_return(folders, spec, heard=StreamSummary(text=[message]), live=True)
    )
    if not verdict.errors or not can_be_mended(verdict, spec) or _waits(store, task, run, place, message):
        return ""
    return _reason(verdict, folders.desk) if _count(folders.desk_files) else ""


def _may_stop(store: Store, task: Task, run: Run, place: str) -> bool:
    """Whether nothing more is wanted of this run, or its return was sent back already."""
    unwanted = task.stop is not None or run.has_ended or os.path.exists(f"{place}/stopped")
    elsewhere = store.workspace_files(task.id).exists("OUTPUT.md")  # the judge finds out whose it is
    return unwanted or elsewhere or task.repairs > 0 or bool(task.open_questions)


def _waits(store: Store, task: Task, run: Run, place: str, message: str) -> bool:
    """Whether it stops to wait for an answer or a child, perhaps by a line that is not recorded yet."""
    from overhand.documents import ControlListener
    from overhand.questions import has_unread_files
    from overhand.runs import ControlInput

    if task.escalation(run.id) or task.awaited_children(run.id) or has_unread_files(store, task):
        return True
    if not run.control:
        return False
    printed = ControlInput(run.id, f"{place}/stdout", driver=run.driver)
    listener = ControlListener()
    commands = [*printed.heard(last=True), *listener.feed(f"{message}\n"), *listener.finish()]
    return any(command.word in _ENDS_TURN and command.refused is None for command in commands)


def _count(desk: Beneath) -> bool:
    """Count that it is held back once more; False if that was often enough, or cannot be written."""
    if len(desk.read("held", MOST) or b"") >= MOST:
        return False
    try:
        desk.append("held", ".", mode=0o600)
    except OverhandError:
        return False
    return True


def _reason(verdict: Verdict, desk: str) -> str:
    """Every problem at once: an agent is held back only a few times."""
    lines = [
        "Do not stop yet: your return could not be accepted as it stands. Mend all of this:",
        *(f"- {one.message}{f' {one.fix}' if one.fix else ''}" for one in verdict.problems),
        "Your return is this file, in the form that «How to return» asks for:",
        f"    {desk}/OUTPUT.md",
        "If something cannot be mended, return with the status partial, blocked or failed, and say there why.",
    ]
    return "\n".join(lines)


def _last_message() -> str:
    """The agent's last message, which its program writes to a hook's stdin; read with a time limit."""
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
