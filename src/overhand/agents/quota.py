"""A provider's limit: which program is paused until when, and which agent takes over meanwhile.

Pauses are per program, because the limit is its account's. A pause is a small file in the
supervisor's folder, so that a new supervisor knows of it; the run that met the limit has it in its task's log.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from overhand.agents import files, programs
from overhand.agents.driver import find_driver
from overhand.errors import OverhandError
from overhand.record import Accepted
from overhand.system import epoch_of, names_in, read_file, write_file

if TYPE_CHECKING:
    from datetime import tzinfo

    from overhand.agents.driver import Agent
    from overhand.agents.stream import StreamSummary
    from overhand.policy import Actor, Config
    from overhand.record import Run, Store, Task

LIMIT = "limit"  # the status of a run that hit it: the task is queued again without using up an attempt
_FIRST, _MOST = 60.0, 1800.0  # seconds to wait if the program doesn't say how long; doubled each time
_LONGEST = 40 * 86400.0  # a later time is not plausible
_FILE = "paused-"


@dataclass(frozen=True, slots=True)
class QuotaPause:
    """Until when nothing of a program is started, in seconds since 1970."""

    until: float
    why: str = ""


_PARTS = re.compile(
    r"(\d+(?:\.\d+)?)\s*(ms|milliseconds?|days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)(?![a-z])"
)
_SIZES = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_IN = re.compile(
    r"(?:try again in|retry in|resets? in|reset after|retry[- ]after:?|available in)\s+"
    r"((?:[\d.]+\s*[a-z]*[\s,]*(?:and\s+)?)+)"
)
_AT = re.compile(
    r"(?:try again at|resets?(?: at)?)\s+"
    r"(?:(?P<month>[a-z]{3})[a-z]*\.?\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?,?(?:\s+(?P<year>\d{4}))?,?(?:\s+at)?\s+)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?\s*(?P<half>am|pm)?(?:\s*\((?P<zone>[^)]+)\))?"
)
_EPOCH = re.compile(r"limit reached\|(\d{10})(?:\d{3})?\b")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def when(text: str, now: float) -> float | None:
    """The time that a message about a limit names: `limit reached|1763251200`, `try again at 3:05 PM`, `in 2h 5m`."""
    low = text.lower()
    found: float | None = None
    if epoch := _EPOCH.search(low):
        found = float(epoch.group(1))
    elif span := _IN.search(low):
        parts, bare = _PARTS.findall(span[1]), span[1].partition(" ")[0].rstrip(".,")
        sizes = [float(n) * (0.001 if unit.startswith(("ms", "mil")) else _SIZES[unit[0]]) for n, unit in parts]
        if not parts and bare.replace(".", "", 1).isdigit():
            sizes = [float(bare)]  # seconds
        found = now + sum(sizes) if sizes else None
    elif clock := _AT.search(low):
        found = _at(clock, now)
    return found if found is not None and found - now < _LONGEST else None


def _at(clock: re.Match[str], now: float) -> float | None:
    """A time of day is the end of that minute, today or tomorrow."""
    from datetime import datetime, timedelta

    hour, minute = int(clock["hour"]), int(clock["minute"] or 0)
    if clock["half"]:
        hour = hour % 12 + (12 if clock["half"] == "pm" else 0)
    elif clock["minute"] is None:
        return None  # a bare number is not a time
    here = datetime.fromtimestamp(now, _zone(clock["zone"]))
    try:
        meant = here.replace(hour=hour, minute=minute, second=0, microsecond=0)
        if clock["month"]:
            month = _MONTHS.index(clock["month"]) + 1
            meant = meant.replace(year=int(clock["year"] or here.year), month=month, day=int(clock["day"]))
    except ValueError:
        return None
    meant += timedelta(minutes=1)
    if not clock["month"] and meant.timestamp() < now:
        meant += timedelta(days=1)
    return meant.timestamp()


def _zone(name: str | None) -> tzinfo | None:
    """The zone of a name in lower case, such as `europe/berlin`; None, which means local time, if it is unknown."""
    from zoneinfo import ZoneInfo

    if not name:
        return None
    spelled = "/".join("_".join(part.capitalize() for part in word.split("_")) for word in name.split("/"))
    try:
        return ZoneInfo("UTC" if name in ("utc", "gmt") else spelled)
    except (KeyError, ValueError, OSError):
        return None


def pause_of(store: Store, driver: str) -> QuotaPause | None:
    raw = read_file(f"{store.own}/{_FILE}{driver}")
    stamp, _, why = (raw or b"").decode("utf-8", "replace").strip().partition(" ")
    try:
        until = float(stamp)
    except ValueError:
        return None
    return QuotaPause(until, why) if until > time.time() else None


def all_pauses(store: Store) -> dict[str, QuotaPause]:
    names = [name.removeprefix(_FILE) for name in names_in(store.own) if name.startswith(_FILE)]
    return {name: found for name in names if (found := pause_of(store, name))}


def pause(store: Store, driver: str, until: float, why: str) -> QuotaPause:
    """Pause a program; a longer pause stays in force."""
    known = pause_of(store, driver)
    if known is not None and known.until >= until:
        return known
    write_file(f"{store.own}/{_FILE}{driver}", f"{until:.3f} {' '.join(why.split())[:300]}\n")
    return QuotaPause(until, why)


def end_pause(store: Store, driver: str) -> None:
    """Let the program be used again before its time."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{store.own}/{_FILE}{driver}")


def describe_pause(driver: str, found: QuotaPause) -> str:
    """The pause as people read it, in their own time."""
    local, now = time.localtime(found.until), time.time()
    soon, today = found.until - now < 300, local[:3] == time.localtime(now)[:3]
    form = "%H:%M:%S" if soon else "%H:%M" if today else "%a %H:%M"
    return f"{driver} is paused until {time.strftime(form, local)} (its limit)"


def driver_of_task(root: str, task: Task, config: Config) -> str:
    """The program that a task's next run needs."""
    last = task.last_run
    if last is not None and last.agent == task.agent:
        return last.driver
    try:
        return files.find_agent(root, task.agent, config).driver
    except OverhandError:
        return ""  # the start reports what is wrong with it


def limit_met(store: Store, task: Task, ended: Run, summary: StreamSummary) -> Accepted:
    """Pause the program of a run that hit the limit; the returned event says so and queues the task again.

    Its times count from the run's end, so that a repeated call after a crash gives the same result.
    """
    now = epoch_of(ended.ended)
    before = sum(run.status == LIMIT for run in task.runs)
    until = summary.retry_at or when(summary.why, now) or now + min(_MOST, _FIRST * 2**before)
    found = pause(store, ended.driver, until, summary.why)
    return Accepted(
        limit={"driver": ended.driver, "until": round(found.until, 3), "why": summary.why[:300]},
        resume={"run": ended.id, "why": "its limit"},
    )


def _other(agent: Agent, config: Config) -> str:
    """The agent that `on_limit` names, in the agent's file or the settings."""
    return str(agent.options.get("on_limit") or config.on_limit).partition("switch:")[2]


def stand_in_problem(root: str, agent: Agent, config: Config) -> str:
    """What is wrong with the stand-in agent, reported before it is needed."""
    other = _other(agent, config)
    if not other or other == agent.name:
        return ""
    try:
        _able(root, other, config)
    except OverhandError as error:
        return f"on_limit names {other}: {error.message} At its limit {agent.name} will wait."
    return ""


def _able(root: str, name: str, config: Config) -> Agent:
    found = files.find_agent(root, name, config)
    if find_driver(found.driver).program:
        programs.require(found)
    return found


def find_stand_in(store: Store, task: Task, config: Config) -> str | None:
    """The agent that takes over while the task's own is paused; None unless `on_limit` names one that isn't paused."""
    try:
        other = _other(files.find_agent(store.root, task.agent, config), config)
        if not other or other == task.agent:
            return None
        return None if pause_of(store, _able(store.root, other, config).driver) else other
    except OverhandError:
        return None


def hand_to_stand_in(actor: Actor, task_id: str, agent: str, other: str) -> None:
    """Give a queued task whose agent is paused to another one."""
    with actor.store.lock(task_id, actor.by) as locked:
        task = locked.task
        if task.queued and task.agent == agent and not task.stop:
            limit = {"driver": driver_of_task(actor.store.root, task, actor.config), "to": other}
            locked.append(Accepted(agent=other, limit=limit, resume=task.resume))
