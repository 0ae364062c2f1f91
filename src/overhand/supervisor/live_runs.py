"""The live runs: what wakes the supervisor for them, signs of life, questions, CONTROL lines, deadlines, blocked."""

from __future__ import annotations

import os
import select
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from overhand.errors import OverhandError
from overhand.questions import QUIET_SECONDS, has_file_question, has_waiting_process, may_park, update_blocked
from overhand.record import LOG_FILE, Notice
from overhand.runs import RUN_MARKER, USAGE_FILE, ControlInput, handle_control, same_pid_world, stop_cause, stop_run
from overhand.runs import adopt as adopt_run
from overhand.supervisor.context import Changed, RunOver
from overhand.system import (
    IN_MODIFY,
    LINUX,
    Beneath,
    Inotify,
    Members,
    boot_id,
    exit_code,
    is_child,
    lives,
    pidfd,
    shim_pid,
    size_of,
    start_time,
)
from overhand.words import say_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from overhand.policy import Actor, Config
    from overhand.record import Run, RunFolders, Task
    from overhand.supervisor.context import LoopContext
    from overhand.supervisor.meter import Meter
    from overhand.words import Cause

# Seconds after the start at which a run's sessions are recorded: processes detach early. Later ever less often.
_NOTE_AT = (0.1, 0.5, 2.0)
_NOTE_EVERY = 60.0
_AGAIN = 5.0  # seconds after which a stop that did not work is tried again
_ATTEND_EVERY = 5.0  # seconds between checks of a waiting run, if nothing wakes us
_HEAR_AGAIN = 1.0  # the same for a run whose stream is read
_HEAR_EVERY = 0.05  # seconds between reads of a stream with CONTROL lines
_SIZE_EVERY = 3.0
_SETTLED = 30.0  # seconds after which a blocked run is no longer scanned for new members
_HARDLY = 2.0  # CPU ticks (1/100 s) per second: 2 % of a core


@dataclass(slots=True)
class Watch:
    """A live run, in as few bytes as possible: there may be hundreds."""

    run: str
    folders: RunFolders
    began: float
    deadline: float | None
    note_at: float
    sign: float  # when it last showed a sign of life
    ours: bool = True  # in our pid namespace
    limited: bool = True  # a budget may run out although it reports nothing
    pidfd: int | None = None
    orphan: bool = False  # its shim is gone
    size: int = -1
    sized: float = 0.0  # when the size was last checked
    touch: tuple[int, ...] = ()  # when something was last created in its folders
    stirred: bool = True  # something may have been created there since
    watches: tuple[int, ...] = ()  # the inotify watches that wake us for it
    waiting: float | None = None  # since when it is known to be blocked
    park_at: float = float("inf")  # when it is parked for lack of an answer
    attended: float = 0.0  # when we last checked whether it waits
    logged: int = -1  # how long its task's log was then
    hearing: ControlInput | None = None  # its stream, where CONTROL lines are read
    asked: bool = False  # it has an open question in a file: its silence is measured
    quiet: tuple[int, int, float] = (-1, -1, 0.0)  # size, ticks, since when
    ticks: int = -1
    stalled: bool = False
    own: Config | None = None  # where the task has settings of its own

    @property
    def place(self) -> str:
        return self.folders.place

    @property
    def members(self) -> Members:
        return Members(self.place, f"{RUN_MARKER}={self.run}", frozenset({os.getpid()}))

    @property
    def talk(self) -> tuple[Beneath, ...]:
        """The folders in which questions and waiting processes appear."""
        return self.folders.workspace_files.at("ipc"), *(place.at("waiting") for place in self.folders.both)

    @property
    def watched(self) -> tuple[Beneath, ...]:
        """The folders in which something appears that we have to look at."""
        return Beneath(self.place), self.folders.desk_files, *self.talk

    @property
    def printed(self) -> int:
        return sum(size_of(f"{self.place}/{name}") for name in ("stdout", "stderr"))

    @property
    def due(self) -> float:
        """When it must be checked next; its clock stops while it is blocked."""
        if self.deadline is None or self.waiting is not None:
            return min(self.park_at, self.note_at)
        return min(self.deadline, self.note_at)


class LiveRuns:
    """Every live run that this supervisor watches, by task; wakes the loop and starts the jobs a run needs."""

    def __init__(
        self,
        context: LoopContext,
        meter: Meter,
        config_for: Callable[[Task], Config],
        is_working_for: Callable[[str], bool],
    ) -> None:
        """`is_working_for` says whether a task that a run delegated is at work, so that the run waits for it."""
        self._store, self._poll, self._jobs, self._mail = context.store, context.poll, context.jobs, context.mail
        self._actor, self._config, self._say = context.actor, context.config, context.say
        self._meter, self._config_for, self._is_working_for = meter, config_for, is_working_for
        self._live: dict[str, Watch] = {}
        self._by_pidfd: dict[int, str] = {}
        self._by_folder: dict[int, str] = {}
        self._news = Inotify()
        if self._news.fd >= 0:
            self._poll.register(self._news.fd, select.POLLIN)

    # adopting a run, and letting it go

    def adopt(self, task: Task) -> None:
        """Watch the task's current run if it is alive, however it was started; else report that it is over."""
        current = task.current_run
        if current is None:
            return
        place = self._store.run_folder(task.id, current.id)
        if exit_code(place) is not None or not lives(place):
            self._over(task.id)
            return
        # first of all: only we know what a killed shim left behind, and stopping the run must find it
        config = self._config_for(task)
        watch = self._keep(task, current, config)
        grace = config.stop_grace
        if task.stop:
            self._stop(task.id, "cancelled", 0.0 if task.stop == "now" else grace)
            return
        if task.escalation(current.id):
            self._stop(task.id, "exit", grace)
            return
        why = stop_cause(place)
        if why is not None and why != "answer-timeout":  # that one is parked again, unless it has been answered
            self._stop(task.id, why, grace)  # it was being stopped by a process that is gone
            return
        if watch.pidfd is None and exit_code(place) is not None:  # it ended before we watched it
            self._over(task.id)
            return
        if current.state == "starting" and watch.pidfd is not None:  # its starter was killed before it recorded that
            self._jobs.run(task.id, partial(adopt_run, self._actor(task.id), task.id))
            return
        self.stir_parent(task)
        watch.asked = has_file_question(task, current)
        watch.park_at = float("inf")
        if watch.waiting is not None and config.answer_wait and task.open_questions:
            watch.park_at = watch.waiting + config.answer_wait
        self._count(task.id, watch)

    def _keep(self, task: Task, current: Run, config: Config) -> Watch:
        watch = self._live.get(task.id)
        if watch is None or watch.run != current.id:
            self.drop(task.id)
            same = current.boot == boot_id()
            now = time.monotonic()
            began = current.mono if same else now
            deadline = began + current.timeout if same and current.timeout else None
            folders = self._store.run_folders(task.id, current.id)
            watch = Watch(current.id, folders, began, deadline, now + _NOTE_AT[0], now, same_pid_world(current))
            watch.own = config if config is not self._config() else None
            self._live[task.id] = watch
        watch.limited = bool(task.budget or task.parent or config.budget.day.is_cap)
        watch.waiting = current.waiting
        if current.control and watch.hearing is None:
            watch.hearing = ControlInput(current.id, f"{watch.place}/stdout", driver=current.driver)
        if watch.deadline is not None:
            watch.deadline = current.mono + current.timeout + current.waited
        self._listen(task.id, watch)
        self._watch_shim(task.id, watch, current.shim)
        return watch

    def drop(self, task_id: str) -> None:
        """Stop watching a task's run."""
        if watch := self._live.pop(task_id, None):
            self._close(watch)
            for number in watch.watches:
                if self._by_folder.pop(number, None):
                    self._news.remove(number)

    def _over(self, task_id: str) -> None:
        self.drop(task_id)
        self._mail.post(RunOver(task_id))

    def _stop(self, task_id: str, cause: Cause, grace: float) -> None:
        self._jobs.run(task_id, partial(stop_run, self._actor(task_id), task_id, cause, grace))

    def _config_of(self, watch: Watch) -> Config:
        return watch.own or self._config()

    # what others ask

    @property
    def is_idle(self) -> bool:
        return not self._live

    @property
    def due(self) -> float:
        """When the nearest deadline or note is."""
        return min((watch.due for watch in self._live.values()), default=float("inf"))

    def is_live(self, task_id: str) -> bool:
        return task_id in self._live

    def is_blocked(self, task_id: str) -> bool:
        watch = self._live.get(task_id)
        return watch is not None and watch.waiting is not None

    def stir_parent(self, task: Task) -> None:
        """Check the run that delegated this task soon: the task may have blocked or unblocked it."""
        parent = self._live.get(task.parent.task) if task.parent else None
        if parent is not None:
            parent.stirred = True

    # what wakes us

    def owns(self, fd: int) -> bool:
        return fd == self._news.fd or fd in self._by_pidfd

    def is_shim(self, fd: int) -> bool:
        """Whether this descriptor becomes ready when a shim ends."""
        return fd in self._by_pidfd

    def ready(self, fd: int) -> None:
        """One of our descriptors can be read: a shim has ended, or something appeared in the folders of some runs."""
        if task_id := self._by_pidfd.get(fd):
            watch = self._live[task_id]
            self._close(watch)
            self._orphaned(watch)
            self._mail.post(Changed(task_id))
            return
        now = time.monotonic()
        for task_id in self._stirred():
            watch = self._live[task_id]
            if self._count(task_id, watch):
                continue
            if not self._jobs.is_busy(task_id) and _has_talk(watch):
                watch.stirred = False  # its end is reported by its shim, or seen at the next check
                self._attend(task_id, watch, now)

    def _stirred(self) -> list[str]:
        """Tasks in whose folders something happened."""
        numbers = self._news.read()
        tasks = list(self._live) if numbers is None else [self._by_folder[n] for n in numbers if n in self._by_folder]
        found = [task_id for task_id in dict.fromkeys(tasks) if task_id in self._live]
        for task_id in found:
            self._live[task_id].stirred = True
            self._listen_to_reports(task_id, self._live[task_id])
        return found

    def _listen(self, task_id: str, watch: Watch) -> None:
        """Wake up when something appears in the run's folder, among its questions, or among its waiting processes."""
        numbers = tuple(number for files in watch.watched if (number := files.watch(self._news)) is not None)
        if watch.hearing is not None and (stream := self._news.add(watch.hearing.path, IN_MODIFY)) is not None:
            numbers = (*numbers, stream)
        self._by_folder.update(dict.fromkeys(numbers, task_id))
        watch.stirred |= not set(numbers).issubset(watch.watches)  # check for what came before the watch
        watch.watches = numbers
        self._listen_to_reports(task_id, watch)

    def _listen_to_reports(self, task_id: str, watch: Watch) -> None:
        """Wake up on its reports once the file exists, since it may be filled long after it was created."""
        number = watch.folders.desk_files.watch_file(self._news, USAGE_FILE, IN_MODIFY)
        if number is not None and number not in watch.watches:
            self._by_folder[number] = task_id
            watch.watches = (*watch.watches, number)

    def _watch_shim(self, task_id: str, watch: Watch, recorded: int | None = None) -> None:
        """Wake up when the shim ends; a shim that stays for leftovers is noticed by the regular check."""
        if watch.pidfd is not None or watch.orphan or not watch.ours:
            return
        # a process has no command line for a moment during exec
        shim = recorded if is_child(recorded) else shim_pid(watch.place, recorded)
        if recorded is not None and start_time(shim or recorded) is None:
            self._orphaned(watch)  # it was killed before we watched it: record what it left behind at once
            return
        watch.pidfd = pidfd(shim) if shim is not None else None
        if watch.pidfd is not None:
            self._poll.register(watch.pidfd, select.POLLIN)
            self._by_pidfd[watch.pidfd] = task_id

    def _orphaned(self, watch: Watch) -> None:
        """Usually the run has ended; what outlives the shim becomes our child and is recorded as the run's."""
        watch.orphan = True
        if LINUX and exit_code(watch.place) is None:
            others = [other.place for other in self._live.values() if other is not watch]
            watch.members.take_orphans(os.getpid(), others, is_child)

    def _close(self, watch: Watch) -> None:
        """Close the pidfd: that of an ended process would wake us forever."""
        if watch.pidfd is not None:
            self._poll.unregister(watch.pidfd)
            del self._by_pidfd[watch.pidfd]
            os.close(watch.pidfd)
            watch.pidfd = None

    # time

    def tick(self, now: float) -> None:
        """Handle the deadlines, parkings and notes that are due."""
        for task_id, watch in list(self._live.items()):
            late = watch.deadline is not None and watch.waiting is None and now >= watch.deadline
            if late and watch.ours and not self._jobs.is_busy(task_id):
                watch.deadline = now + _AGAIN
                self._stop(task_id, "timeout", self._config_of(watch).stop_grace)
            if now >= watch.park_at and watch.ours and not self._jobs.is_busy(task_id):
                watch.park_at = now + _AGAIN
                self._park(task_id, watch, now)
            if now >= watch.note_at:
                self._note(task_id, watch, now)

    def examine(self, now: float) -> None:
        """Check each run about once a second: has it ended, does it flood? Usually one stat of its folder."""
        for task_id, watch in list(self._live.items()):
            if not self._jobs.is_busy(task_id):
                self._examine(task_id, watch, now)

    def _examine(self, task_id: str, watch: Watch, now: float) -> None:
        touched = _is_touched(watch)
        if touched or watch.pidfd is None:
            if exit_code(watch.place) is not None or (watch.pidfd is None and not lives(watch.place)):
                self._mail.post(Changed(task_id))
                return
            self._watch_shim(task_id, watch)
        if (touched or not watch.watches) and self._count(task_id, watch):
            return
        if (touched and _has_talk(watch)) or _is_due(watch, now):
            self._attend(task_id, watch, now)
            return
        if not touched and now - watch.sized < _SIZE_EVERY * (1 if watch.waiting is None else 4):
            return
        watch.sized = now
        size, most = watch.printed, self._config_of(watch).max_output
        if size > most:
            self._jobs.run(task_id, partial(self._stop_flood, self._actor(task_id), task_id, most))
        if size != watch.size:
            watch.size, watch.sign = size, now

    def _count(self, task_id: str, watch: Watch) -> bool:
        """Have the meter count what the run reported; returns whether that is under way."""
        if not self._meter.is_due(task_id, watch.folders.desk_files, limited=watch.limited):
            return False
        watch.stirred = True  # check it once more afterwards, whatever else it needs
        return self._meter.count(task_id, self._config_of(watch).stop_grace)

    def _attend(self, task_id: str, watch: Watch, now: float) -> None:
        """Check for new questions, and whether the run is blocked."""
        if watch.hearing is not None and now - watch.attended < _HEAR_EVERY:
            watch.stirred = True  # it prints a lot: continue at the next check
            return
        watch.attended = now
        quiet = watch.asked and _is_quiet(watch, now, QUIET_SECONDS)
        child_waits = not self._is_working_for(watch.run)
        actor, hearing = self._actor(task_id), watch.hearing

        def work() -> bool:
            if hearing is not None:
                handle_control(actor, task_id, hearing)
            return update_blocked(actor, task_id, quiet=quiet, child_waits=child_waits)

        def then(unfinished: bool) -> None:
            if unfinished:  # a file was half-written: check again soon
                watch.attended, watch.stirred = 0.0, True

        self._jobs.run(task_id, work, then)

    def _park(self, task_id: str, watch: Watch, now: float) -> None:
        """End a run that got no answer; the question stays open, and its answer will start the next run."""
        if watch.asked and not _is_quiet(watch, now, 0.0):
            self._attend(task_id, watch, now)  # it has resumed work since the last check
            return
        actor, grace = self._actor(task_id), self._config_of(watch).stop_grace

        def work() -> None:
            if may_park(actor, task_id):
                stop_run(actor, task_id, "answer-timeout", grace)

        self._jobs.run(task_id, work)

    def _note(self, task_id: str, watch: Watch, now: float) -> None:
        """Record the sessions of its members; a run without a sign of life for long is reported, once."""
        stall = self._config_of(watch).stall
        if watch.waiting is not None and now - watch.began > _SETTLED:
            watch.sign = now  # the reason for its silence is known
            watch.note_at = (now // _SETTLED + 2) * _SETTLED  # aligned, so that all blocked runs wake us at once
            return
        age = now - watch.began
        step = min(_NOTE_EVERY, stall / 4 if stall else _NOTE_EVERY) / 8
        later = (now // step + 8) * step  # hundreds of runs are recorded in a few batches, each of which wakes us once
        watch.note_at = next((watch.began + at for at in _NOTE_AT if at > age), later)
        ticks = _cpu_ticks(watch)
        if ticks is not None and ticks != watch.ticks:
            watch.ticks, watch.sign = ticks, now
        silent = now - watch.sign
        if stall and silent > stall and not watch.stalled:
            watch.stalled = True
            text = f"No sign of life for {say_duration(silent)}: no output, no CPU."
            self._notice(self._actor(task_id), task_id, text)

    def _notice(self, actor: Actor, task_id: str, text: str) -> None:
        try:
            with self._store.lock(task_id, actor.by, patience=0.5) as locked:
                locked.append(Notice(text=text))
        except OverhandError as error:
            self._say(f"{task_id}: {text} ({error})")

    def _stop_flood(self, actor: Actor, task_id: str, most: int) -> None:
        """In a job: stop an agent that prints without end; its output is kept."""
        self._notice(actor, task_id, f"It printed more than {most} bytes and was stopped.")
        stop_run(actor, task_id, "error", 0.0)


def _is_due(watch: Watch, now: float) -> bool:
    """Whether a waiting run must be checked although nothing woke us; there may be hundreds that keep waiting."""
    if watch.hearing is not None:
        may_wait = watch.asked or watch.waiting is not None or watch.hearing.listener.waiting
        return may_wait and now - watch.attended >= _HEAR_AGAIN
    if not (watch.asked or watch.waiting is not None) or now - watch.attended < _ATTEND_EVERY:
        return False
    # its task's log may have grown, perhaps by a process that was killed right after
    before, watch.logged = watch.logged, size_of(f"{watch.folders.record}/{LOG_FILE}")
    is_unchanged = watch.logged == before and watch.attended and not watch.asked
    if is_unchanged and has_waiting_process(watch.folders.both):
        watch.attended = now + _ATTEND_EVERY  # a lock says so: nothing else need be looked at, and less often
        return False
    return True


def _is_touched(watch: Watch) -> bool:
    """Whether something was created in the run's folders since the last check."""
    if watch.watches:
        watch.stirred, stirred = False, watch.stirred
        return stirred
    touch = tuple(_touch(files) for files in watch.watched)
    watch.touch, before = touch, watch.touch
    return touch != before or touch[0] == 0


def _has_talk(watch: Watch) -> bool:
    """Whether it has asked something, or one of its processes waits."""
    return watch.hearing is not None or any({*files.names()} - {"calls"} for files in watch.talk)


def _cpu_ticks(watch: Watch) -> int | None:
    """Record the sessions of its members; returns how much CPU they have used, None where that is unknown."""
    shim = shim_pid(watch.place) if watch.ours and LINUX else None
    return watch.members.note(shim) if shim is not None else None


def _is_quiet(watch: Watch, now: float, after: float) -> bool:
    """Whether it has printed nothing for that long and hardly used the CPU."""
    size = watch.printed
    ticks = _cpu_ticks(watch) or 0
    was_size, was_ticks, since = watch.quiet
    little = 5 + (now - since) * _HARDLY
    if size != was_size or ticks - was_ticks > little or ticks < was_ticks:
        watch.quiet = (size, ticks, now)
        return False
    return now - since >= after


def _touch(files: Beneath) -> int:
    found = files.look("")
    return found.st_mtime_ns if found is not None else 0
