"""Checks: commands that Overhand itself runs, outside the agent, before on the base and after on the result."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from dataclasses import replace
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from overhand.agents import read_end
from overhand.contracts import first_program, read_pytest_report, read_test_summary
from overhand.documents import one_line
from overhand.errors import ToolMissing, storage_failed
from overhand.runs import walls
from overhand.runs.judge import CheckFact
from overhand.system import (
    Probe,
    exit_code,
    lives,
    names_in,
    outside_runs,
    probe_process,
    put_file,
    read_file,
    reap_children,
    remove_file,
    shim_pid,
    start_detached,
    stop_detached,
    wait_for_exit,
    write_new,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overhand.contracts import TestSummary
    from overhand.documents import Handoff
    from overhand.policy import Actor
    from overhand.record import Run, Task

_FEW_LINES, _FEW = 20, 1500  # lines and characters that tell people why something failed
_END = 1 << 16  # bytes at the end of what a check printed, where a test runner's summary stands
_LAST = 500  # bytes of it that are quoted
_TO_WRITE = "if the task is to write that program, add --deliverable PATH."
_ASK = "--junitxml="  # pytest's own option, given by PYTEST_ADDOPTS
_REPORT = "pytest.xml"  # what it reports; in a folder outside the record, for a check cannot write there
_ELSEWHERE = "report"  # names that folder until the report is collected


def check_base(actor: Actor, task: Task, handoff: Handoff, *, shielded: bool = False) -> None:
    """Run the task's checks on the base, once; refuse one that cannot even begin, before anything is spent on it."""
    for check in task.checks:
        program = first_program(check.command)
        if program and shutil.which(program, path=actor.env.get("PATH")) is None:
            what = f"The check `{check.command}` needs {program}, which is not on PATH."
            raise ToolMissing(what, f"Install {program}, or give another check with --verify.")
    promised = [os.path.normpath(one.path) for one in handoff.deliverables if one.path]
    for fact in checks_before(actor, task, shielded=shielded) if task.checks and not task.runs else ():
        words = fact.command.split()
        is_promised = bool(words) and os.path.normpath(words[0]) in promised
        if fact.after in (126, 127) and not is_promised:
            said = one_line(last_output(fact.evidence, _LAST).strip())
            shutil.rmtree(_base_folder(actor, task), ignore_errors=True)  # tried again, it may be there
            what = f"The check `{fact.command}` cannot be started here: exit status {fact.after}, {said or 'no output'}"
            raise ToolMissing(what, "Install what it needs or give another check with --verify; " + _TO_WRITE)


def checks_before(actor: Actor, task: Task, *, shielded: bool = False) -> list[CheckFact]:
    """The task's checks on the base, behind a shield where the run has one; what comes after is compared with them."""
    return _run_all(actor, task, _base_folder(actor, task), shielded)


def checks_after(actor: Actor, task: Task, folder: str, run: Run | None) -> list[CheckFact]:
    """The task's checks on the result, compared with those on the base; the evidence is left in `folder`.

    They are shielded if the run was, because they execute what it wrote.
    """
    shielded = bool(run and run.is_shielded)
    before = checks_before(actor, task, shielded=shielded) if os.path.isdir(_base_folder(actor, task)) else ()
    facts = _run_all(actor, task, folder, shielded, before)
    return [_with_output(fact, before) for fact in facts]


def _with_output(fact: CheckFact, before: Sequence[CheckFact]) -> CheckFact:
    """A check that failed with the end of what it printed; one that turned green with what its test runner said."""
    if not fact.passed:
        return replace(fact, tail=last_lines(last_output(fact.evidence)))
    if fact.before in (0, None):
        return fact
    base = next(one for one in before if one.command == fact.command)
    printed, printed_before = _printed(fact.evidence), _printed(base.evidence)
    asked, asked_before = _reported(fact.evidence), _reported(base.evidence)
    ran_no_test = asked_before is not None and not (asked and asked.passed)
    if ran_no_test or printed_before is None:
        return replace(fact, tests=asked, tests_before=asked_before)
    return replace(fact, tests=printed, tests_before=printed_before)


def _printed(place: str) -> TestSummary | None:
    return read_test_summary(last_output(place))


def _reported(place: str) -> TestSummary | None:
    """What pytest says it ran, when asked; None if it said nothing: it was not run, or did not come to its end."""
    return read_pytest_report(read_file(f"{place}/{_REPORT}", _END) or b"")


_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")


def last_lines(text: str) -> str:
    """The last lines of what a program printed, without what drives a terminal, as they may stand in a fence."""
    lines = _ESCAPES.sub("", text).replace("```", "'''").splitlines()
    plain = ["".join(c for c in line if c == "\t" or c.isprintable()).rstrip() for line in lines[-_FEW_LINES:]]
    whole = "\n".join(plain).strip("\n")
    return whole if len(whole) <= _FEW else f"…{whole[-_FEW:]}"


def last_output(place: str, size: int = _END) -> str:
    """The end of what a check printed."""
    return "\n".join(read_end(f"{place}/{name}", size)[0].decode("utf-8", "replace") for name in ("stdout", "stderr"))


def _base_folder(actor: Actor, task: Task) -> str:
    return f"{actor.store.record(task.id)}/checks/before"


def base_checked(actor: Actor, task: Task) -> float:
    """When the first check began on the base, in seconds since 1970; infinity if none did."""
    try:
        return os.stat(f"{_base_folder(actor, task)}/1/start").st_mtime
    except OSError:
        return float("inf")


def _run_all(
    actor: Actor, task: Task, folder: str, shielded: bool, before: Sequence[CheckFact] = ()
) -> list[CheckFact]:
    """Run every check in order; one that was running when we were killed is taken over, a finished one is read.

    A task that was stopped meanwhile needs no more of them.
    """
    config = actor.config_of(task)
    facts = []
    for number, check in enumerate(task.checks, 1):
        place = f"{folder}/{number}"
        if actor.store.recorded(task.id).is_unwanted:
            break
        after, timed_out = _run_one(actor, task, check.command, place, shielded=shielded)
        base = next((fact.after for fact in before if fact.command == check.command), None)
        facts.append(
            CheckFact(
                name=check.name,
                command=check.command,
                after=after,
                before=base,
                seconds=round(_seconds(place), 2),
                evidence=place,
                timed_out=timed_out,
                files=config.check_files.get(check.name, ()),
            )
        )
    return facts


def _run_one(
    actor: Actor, task: Task, command: str, place: str, *, shielded: bool, ask: bool = True
) -> tuple[int | None, bool]:
    """One check to its end: exit code, and whether its time ran out. With `ask` a pytest in it reports what it ran."""
    found = probe_process(place) if os.path.isdir(place) else Probe("unbegun")
    if found.what == "ended":
        _collect_report(place)
        return found.exit, False
    shim = shim_pid(place)
    if found.what != "alive":
        _collect_report(place)
        shutil.rmtree(place, ignore_errors=True)  # its earlier output is useless: it runs again
        shim = _start(actor, task, command, place, shielded=shielded, ask=ask)
    code, in_time = wait_to_end(place, shim, actor.config_of(task).check_timeout)
    _collect_report(place)
    if ask and code == 4 and f"unrecognized arguments: {_ASK}" in last_output(place):  # its plugin is turned off
        shutil.rmtree(place, ignore_errors=True)
        return _run_one(actor, task, command, place, shielded=shielded, ask=False)
    return code, not in_time


def wait_to_end(place: str, shim: int | None, timeout: float) -> tuple[int | None, bool]:
    """The exit code of a command with OVERHAND_CHECK in its environment, and whether it ended in time."""
    in_time = wait_for_exit(place, shim, timeout)
    if not in_time or lives(place):
        stop_detached(place, f"OVERHAND_CHECK={place}", grace=1.0)  # also processes that it left behind
    reap_children()
    return (exit_code(place) if in_time else None), in_time


def _start(actor: Actor, task: Task, command: str, place: str, *, shielded: bool, ask: bool) -> int:
    """Start a check in a new folder; the process id of its shim."""
    tree = task.workplace(actor.store.root)
    env = {**outside_runs(actor.env), "OVERHAND_CHECK": place, "PWD": tree}
    try:
        os.makedirs(place)
        if ask:  # in front of the user's own, which may name another report
            write_new(f"{place}/{_ELSEWHERE}", folder := mkdtemp(prefix="overhand-report-"))
            asked = f"{_ASK}{shlex.quote(f'{folder}/{_REPORT}')}"
            env["PYTEST_ADDOPTS"] = f"{asked} {env.get('PYTEST_ADDOPTS', '')}".strip()
        enter = walls.enter_checks(actor.store, task.tree.path if task.tree else "") if shielded else ()
        return start_detached(place, [*enter, "/bin/sh", "-c", command], cwd=tree, env=env)
    except OSError as error:
        raise storage_failed(error, "Cannot start a check") from error


def _collect_report(place: str) -> None:
    """Copy into the record what pytest reported in a folder of its own, and remove that."""
    folder = os.fsdecode(read_file(f"{place}/{_ELSEWHERE}") or b"")
    if not folder:
        return  # it was not asked, or its report is collected
    if (raw := read_file(f"{folder}/{_REPORT}", _END)) is not None:
        put_file(f"{place}/{_REPORT}", raw[:_END])
    shutil.rmtree(folder, ignore_errors=True)
    remove_file(f"{place}/{_ELSEWHERE}")


def _seconds(place: str) -> float:
    try:
        return os.stat(f"{place}/exit").st_mtime - os.stat(f"{place}/start").st_mtime
    except OSError:
        return 0.0


def end_checks(folder: str) -> None:
    """Stop the checks of a cancelled task; processes that wait for them see them end."""
    for where in (f"{folder}/checks/before", *(f"{folder}/runs/{name}/checks" for name in names_in(f"{folder}/runs"))):
        for name in names_in(where):
            place = f"{where}/{name}"
            if lives(place):
                stop_detached(place, f"OVERHAND_CHECK={place}", grace=1.0)
            _collect_report(place)
