"""Checks: commands that Overhand itself runs, outside the agent, before on the base and after on the result."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

from overhand.contracts import first_program, read_test_summary
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
    reap_children,
    shim_pid,
    start_detached,
    stop_detached,
    wait_for_exit,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from overhand.contracts import TestSummary
    from overhand.policy import Actor
    from overhand.record import Run, Task

_END = 1 << 16  # bytes at the end of what a check printed, where a test runner's summary stands


def require_check_programs(actor: Actor, task: Task) -> None:
    """Refuse a task whose check could not even begin, before anything is spent on it."""
    for check in task.checks:
        program = first_program(check.command)
        if program and shutil.which(program, path=actor.env.get("PATH")) is None:
            what = f"The check `{check.command}` needs {program}, which is not on PATH."
            raise ToolMissing(what, f"Install {program}, or give another check with --verify.")


def checks_before(actor: Actor, task: Task, enter: Sequence[str] = ()) -> list[CheckFact]:
    """The task's checks on the base, behind a shield if `enter` puts up one; what comes after is compared with them."""
    return _run_all(actor, task, _base_folder(actor, task), enter)


def checks_after(actor: Actor, task: Task, folder: str, run: Run | None) -> list[CheckFact]:
    """The task's checks on the result, compared with those on the base; the evidence is left in `folder`.

    They are shielded if the run was, because they execute what it wrote.
    """
    enter = walls.checks_of(actor.store, run)
    before = checks_before(actor, task, enter) if os.path.isdir(_base_folder(actor, task)) else ()
    facts = _run_all(actor, task, folder, enter, before)
    return [_with_tests(fact, before) if fact.passed and fact.before not in (0, None) else fact for fact in facts]


def _with_tests(fact: CheckFact, before: Sequence[CheckFact]) -> CheckFact:
    """A check that turned from red to green with what a test runner said, then and now."""
    base = next(one for one in before if one.command == fact.command)
    return replace(fact, tests=_tests(fact.evidence), tests_before=_tests(base.evidence))


def _tests(place: str) -> TestSummary | None:
    return read_test_summary(last_output(place))


def last_output(place: str, size: int = _END) -> str:
    """The end of what a check printed."""
    parts = []
    for name in ("stdout", "stderr"):
        try:
            with open(f"{place}/{name}", "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - size))
                parts.append(file.read(size).decode("utf-8", "replace"))
        except OSError:
            continue
    return "\n".join(parts)


def _base_folder(actor: Actor, task: Task) -> str:
    return f"{actor.store.record(task.id)}/checks/before"


def base_checked(actor: Actor, task: Task) -> float:
    """When the first check began on the base, in seconds since 1970; infinity if none did."""
    try:
        return os.stat(f"{_base_folder(actor, task)}/1/start").st_mtime
    except OSError:
        return float("inf")


def _run_all(
    actor: Actor, task: Task, folder: str, enter: Sequence[str], before: Sequence[CheckFact] = ()
) -> list[CheckFact]:
    """Run every check in order; one that was running when we were killed is taken over, a finished one is read.

    A task that was stopped meanwhile needs no more of them.
    """
    config = actor.config_of(task)
    timeout = config.check_timeout
    facts = []
    for number, check in enumerate(task.checks, 1):
        place = f"{folder}/{number}"
        if actor.store.recorded(task.id).is_unwanted:
            break
        argv = [*enter, "/bin/sh", "-c", check.command]
        after, timed_out = _run_one(argv, place, tree=task.workplace(actor.store.root), env=actor.env, timeout=timeout)
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
    argv: Sequence[str], place: str, *, tree: str, env: Mapping[str, str], timeout: float
) -> tuple[int | None, bool]:
    """One check to its end: exit code, and whether its time ran out."""
    found = probe_process(place) if os.path.isdir(place) else Probe("unbegun")
    if found.what == "ended":
        return found.exit, False
    shim = shim_pid(place)
    if found.what != "alive":
        shutil.rmtree(place, ignore_errors=True)  # its earlier output is useless: it runs again
        try:
            os.makedirs(place)
            environment = {**outside_runs(env), "OVERHAND_CHECK": place, "PWD": tree}
            shim = start_detached(place, argv, cwd=tree, env=environment)
        except OSError as error:
            raise storage_failed(error, "Cannot start a check") from error
    in_time = wait_for_exit(place, shim, timeout)
    if not in_time or lives(place):
        stop_detached(place, f"OVERHAND_CHECK={place}", grace=1.0)  # also processes that the check left behind
    reap_children()
    return (exit_code(place) if in_time else None), not in_time


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
