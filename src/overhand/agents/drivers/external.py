"""Driver `external`: a job on another system, with one command each to start it, poll it and collect its result.

`start` prints the job's handle, one line, and is called at most once per job: the call is recorded beforehand, its
output goes straight into a file, and the handle gets its own file before anything else happens. A later process (after
a kill, a reboot, a `resume`) continues with `poll` and `collect`. If it is unknown whether `start` reached the other
system, it is not called again, and the run reports that to a person.

The job's folder is `job/` in the folder of the run that started it:
`starting` (its number in the task), `said` (what start printed), `handle`, `over` (done or failed), `closed` (why).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from overhand.agents.driver import Agent, Driver, Job, Launch, own_desk
from overhand.agents.drivers.command import PLACEHOLDERS, fill, require_program
from overhand.system import names_in, read_file, second_name, write_file
from overhand.words import duration

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

COMMANDS = ("start", "poll", "collect")
STATES = ("running", "done", "failed")
_EVERY = 30.0
_SLOW = 300.0  # seconds between failing polls, at most
_TELL = 60.0  # seconds between signs of life


def problems(agent: Agent) -> list[str]:
    """`every` must be a duration."""
    try:
        duration(agent.options.get("every", _EVERY))
    except (TypeError, ValueError):
        return ["overhand.every must be a duration, such as 30s."]
    return []


def launch(agent: Agent, job: Job) -> Launch:
    """A small process of ours that starts the job, or continues with the one that was started, and waits for it."""
    values = {name: str(getattr(job, name)) for name in PLACEHOLDERS}
    words: dict[str, Any] = {"every": duration(agent.options.get("every", _EVERY)), "record": job.record}
    for name in (*COMMANDS, "stop"):
        words[name] = [fill(word, values) for word in agent.options.get(name) or ()]
        if words[name]:
            require_program(words[name][0], job.project, agent)
            words[name][:0] = job.enter
    files = (("OVERHAND_JOB", "job.json", json.dumps(words)),)
    return Launch((sys.executable, "-P", "-m", "overhand.agents.drivers.external"), files=files)


def newest(record: str) -> tuple[str, int] | None:
    """The folder of the task's last job, and its number."""
    runs = f"{record}/runs"
    found = []
    for name in names_in(runs):
        raw = read_file(f"{runs}/{name}/job/starting")
        if raw and raw.strip().isdigit():
            found.append((int(raw), f"{runs}/{name}/job"))
    return max(found)[::-1] if found else None


def open_job(record: str) -> str | None:
    """The handle of the task's last job, if that was neither fetched nor stopped."""
    job = newest(record)
    if job is None or os.path.exists(f"{job[0]}/closed"):
        return None
    return handle_of(job[0]) or "whose handle is not known"


def handle_of(folder: str) -> str | None:
    """The job's handle: recorded, or printed by `start` before its caller was killed."""
    noted = read_file(f"{folder}/handle")
    if noted is not None and noted.strip():
        return noted.decode("utf-8", "replace").strip()
    printed = read_file(f"{folder}/said") or b""
    lines = [line for line in printed.split(b"\n")[:-1] if line.strip()]  # a line without a newline may be incomplete
    return lines[0].decode("utf-8", "replace").strip() if len(lines) == 1 else None


class Stopped(Exception):
    """This run is being stopped."""


def main() -> int:
    """Start or continue, wait, collect; the exit status is that of `collect`."""
    words = json.loads(read_file(os.environ["OVERHAND_JOB"]) or b"{}")
    signal.signal(signal.SIGTERM, _stop)
    place = os.path.dirname(os.environ["OVERHAND_JOB"])
    known = newest(words["record"])
    goes_on = known is not None and not os.path.exists(f"{known[0]}/closed")
    folder = known[0] if known and goes_on else f"{place}/job"
    handle = None
    try:
        if goes_on:
            handle = handle_of(folder)
            if handle is None:
                return _unknown(folder)
            _note(folder, "handle", handle)
        else:
            handle = _start(words["start"], folder, known[1] + 1 if known else 1)
            if handle is None:
                return 1
        state = _wait(words, folder, handle)
        code = _call(words["collect"], handle, state)
        if code == 0:
            _note(folder, "closed", "collected")
        return code or int(state == "failed")
    except Stopped:
        # only on request: a shutdown of this machine must not cancel the job
        asked = os.path.exists(f"{place}/stopped")
        if asked and handle and words["stop"] and _call(words["stop"], handle, "running", quiet=True) == 0:
            _note(folder, "closed", "stopped")
        return 143


def _stop(_signal: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough
    raise Stopped


def _note(folder: str, name: str, text: str) -> None:
    if not os.path.exists(f"{folder}/{name}"):
        write_file(f"{folder}/{name}", f"{text}\n")


def _start(argv: Sequence[str], folder: str, number: int) -> str | None:
    """Start the job, once, and record its handle before anything else."""
    os.makedirs(folder, exist_ok=True)
    write_file(f"{folder}/starting.new", f"{number}\n")
    if not second_name(f"{folder}/starting.new", f"{folder}/starting"):
        raise FileExistsError(f"{folder}/starting")
    append = os.open(f"{folder}/said", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        # it inherits the run's `life`, so that the run counts as alive while it works
        code = subprocess.run(argv, stdout=append, check=False, close_fds=False).returncode
    finally:
        os.close(append)
    handle = handle_of(folder)
    if code == 0 and handle is not None:
        _note(folder, "handle", handle)
        return handle
    _note(folder, "closed", f"start ended with {code}")
    why = f"ended with {code}" if code else "did not print its handle, one line, on standard output"
    _say(f"The command that starts the job {why}.")
    return None


def _unknown(folder: str) -> int:
    """Report that it is unknown whether the job was started."""
    from overhand.documents import Output, render_output

    said = "It was killed while it started its job, so nobody knows whether that runs. It was not started again."
    todo = f"If the job runs, write its handle into {folder}/handle and resume this task; if not, delegate it again."
    output = Output("Not started again", "blocked", summary=said, for_primary=todo)
    own_desk().write("OUTPUT.md", render_output(output), make=True)
    _say(f"{said} {todo}")
    return 0


def _wait(words: dict[str, Any], folder: str, handle: str) -> str:
    """Poll until the job is over: `done` or `failed`."""
    over = (read_file(f"{folder}/over") or b"").decode().strip()
    pause, failing, reported_at, reported = words["every"], 0, 0.0, ""
    while over not in STATES[1:]:
        state = _ask(words["poll"], handle)
        if state in STATES[1:]:
            _note(folder, "over", state)
            return state
        failing = failing + 1 if state is None else 0
        now = f"it cannot be asked after ({failing} times)" if state is None else "running"
        if now != reported or time.monotonic() - reported_at > _TELL:
            _say(f"Job {handle}: {now}.")
            reported_at, reported = time.monotonic(), now
        time.sleep(min(pause * 2 ** min(failing, 6), max(_SLOW, pause)))
    return over


def _ask(argv: Sequence[str], handle: str) -> str | None:
    """The first word of the last line that `poll` prints; None if it fails."""
    try:
        done = subprocess.run(
            _filled(argv, handle, "running"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False
        )
    except OSError as error:
        _say(f"The command that asks after the job does not work: {error}.")
        return None
    lines = done.stdout.decode("utf-8", "replace").split("\n")
    word = next((line.split()[0].lower() for line in reversed(lines) if line.strip()), "")
    return word if done.returncode == 0 and word in STATES else None


def _call(argv: Sequence[str], handle: str, state: str, *, quiet: bool = False) -> int:
    out = sys.stderr if quiet else None
    env = {**os.environ, "OVERHAND_HANDLE": handle, "OVERHAND_JOB_STATE": state}
    filled = _filled(argv, handle, state)
    try:
        return subprocess.run(filled, stdin=subprocess.DEVNULL, stdout=out, env=env, check=False).returncode
    except OSError as error:
        _say(f"{filled[0]} does not work: {error}.")
        return 126


def _filled(argv: Sequence[str], handle: str, state: str) -> list[str]:
    return [fill(word, {"handle": handle, "state": state}) for word in argv]


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


DRIVER = Driver(
    rank=3, launch=launch, problems=problems, commands=COMMANDS, open_job=open_job, bridges=True, in_place=True
)


if __name__ == "__main__":
    sys.exit(main())
