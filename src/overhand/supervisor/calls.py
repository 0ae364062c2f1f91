"""Calls from inside runs: taken from the files that verbs write there, carried out, and answered by files.

A call is carried out in a thread. One that has to wait gives its thread back: it is looked at again when the log of a
task that it waits for grows, when its time is over, and when its caller is gone, whose FIFO then has no reader.
"""

from __future__ import annotations

import os
import select
import time
from collections import deque
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from overhand.errors import OverhandError, StorageUnavailable, storage_failed
from overhand.questions import WaitingMark
from overhand.record import (
    BELL,
    CALLS,
    LOG_FILE,
    MAX_CALL,
    NEW,
    PROGRESS,
    REPLY,
    TAKEN,
    WORKSPACES,
    is_call_id,
    stale_run,
)
from overhand.system import IN_IGNORED, IN_MODIFY, IN_MOVED_TO, Beneath, Inotify, dump_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from overhand.record import Store
    from overhand.supervisor.context import Jobs, LoopContext

    CarryOut = Callable[["TakenCall", bytes | None], dict[str, Any] | "Waiting"]

_AT_ONCE = 16  # calls of one run that are carried out at the same time; others wait their turn
_MOST = 256  # calls of one run that have no reply yet
_LONG = 500  # characters of a line of progress
_PAUSE = 1.0  # seconds until a call is taken again that could not be taken on a full or failing disk


class Waiting(Protocol):
    """A call whose reply is due later: when one of these tasks changes, or at that time."""

    run: str
    tasks: list[str]
    until: float
    seq: int | None

    def look(self, over: bool) -> dict[str, Any] | None: ...


@dataclass(slots=True, eq=False)
class TakenCall:
    """One call, from the moment it is taken until it has its reply."""

    store: Store
    task_id: str
    call_id: str
    env: Mapping[str, str]  # of what it starts: the one its run was started in
    repeated: bool  # an earlier supervisor had taken it, and may have carried it out
    files: Beneath
    say: Callable[[str], None]
    caller: int = -1  # the FIFO at which its caller waits
    gone: bool = False  # its caller waits no longer
    told: list[str] = field(default_factory=list)
    waiting: Waiting | None = None
    logs: tuple[int, ...] = ()  # the watches of the logs of the tasks that it waits for
    mark: WaitingMark | None = None
    sizes: tuple[int, ...] = ()  # of the logs of the tasks that it waits for, when it was last looked at
    replied: bool = False  # its caller has yet to read the reply
    unsent: dict[str, Any] | None = None  # a reply that could not be written yet
    busy: bool = True  # a thread is at it
    again: bool = False  # look at it once more when that thread is done

    @property
    def is_waiting(self) -> bool:
        return self.waiting is not None and not (self.busy or self.is_answered)

    @property
    def is_answered(self) -> bool:
        """Whether there is nothing left to do but to get the reply to its caller."""
        return self.replied or self.unsent is not None

    def progress(self, text: str) -> None:
        """Tell its caller what goes on; it may have gone."""
        if text and not self.gone:
            try:
                self.files.write(self.call_id + PROGRESS, text[:_LONG], mode=0o600)
            except OverhandError:
                return  # the reply counts
            self.ring()

    def ring(self) -> None:
        try:
            os.write(self.caller, b"\n")
        except OSError:
            return  # full: it has been woken; or gone

    def answer(self, reply: dict[str, Any]) -> None:
        """Write its reply, now or later; a run that waits for an answer goes on from then on."""
        if not self.gone:
            text = dump_line(reply).encode("utf-8", "surrogatepass")
            self.unsent = None
            try:
                self.files.write(self.call_id + REPLY, text, mode=0o600)
                self.replied = True
            except OverhandError as error:
                self.say(f"{self.task_id}: no reply could be written: {error.message}")
                if isinstance(error, StorageUnavailable):
                    self.unsent = reply
                    return
        self._remove(TAKEN)
        self.ring()

    def _remove(self, *suffixes: str) -> None:
        """Remove files of it; what is left without a descriptor to do it with is known by its id."""
        for suffix in suffixes:
            try:
                self.files.remove(self.call_id + suffix)
            except StorageUnavailable as error:
                self.say(f"{self.task_id}: a file of a call is left: {error.message}")

    def clear_away(self) -> None:
        """Its caller is gone: remove what it left; the mark of a question stays if the answer was not read."""
        try:
            is_unread = not self.replied or self.files.exists(self.call_id + REPLY)
            if self.mark is not None and not (self.waiting is not None and self.waiting.seq is not None and is_unread):
                self.mark.remove()
        except StorageUnavailable as error:
            self.say(f"{self.task_id}: the mark of a call is left: {error.message}")
        self._remove(TAKEN, BELL, PROGRESS, REPLY)
        _close_fd(self.caller)


@dataclass(slots=True)
class Desk:
    """The calls of one live run."""

    run: str
    files: Beneath
    number: int | None = None  # of the watch
    backlog: deque[tuple[str, bool]] = field(default_factory=deque)  # ids not taken yet; whether taken before
    open: dict[str, TakenCall] = field(default_factory=dict)
    lying: set[str] = field(default_factory=set)  # not carried out yet when the run was found, or found to be over
    closing: bool = False  # the run seems to be over: no more calls are taken
    paused: float = 0.0  # no call is taken before this time, for the disk was full or failed

    @property
    def may_take(self) -> bool:
        return len(self.open) < _MOST and sum(call.busy for call in self.open.values()) < _AT_ONCE

    @property
    def next_take(self) -> float:
        """When the next call can be taken that lies there, on the monotonic clock."""
        return self.paused if self.backlog and self.may_take else float("inf")


class Calls:
    """Every call of the live runs that this supervisor watches, by task; a waiting one costs two descriptors."""

    def __init__(
        self,
        context: LoopContext,
        jobs: Jobs,
        env_of: Callable[[str], Mapping[str, str]],
        hand_over: Callable[[list[str]], None],
        carry_out: CarryOut,
    ) -> None:
        self._poll, self._say, self._jobs = context.poll, context.say, jobs
        self._env_of, self._carry_out = env_of, carry_out
        self._store = copy(context.store)
        self._store.supervise = self._hand_over = hand_over
        self._desks: dict[str, Desk] = {}
        self._by_watch: dict[int, str] = {}
        self._by_fd: dict[int, TakenCall] = {}  # FIFOs of callers
        self._by_log: dict[int, list[TakenCall]] = {}  # the calls that wait for a task, by the watch of its log
        self._news = Inotify()
        if self._news.fd >= 0:
            self._poll.register(self._news.fd, select.POLLIN)

    # the runs

    def watch(self, task_id: str, run_id: str) -> None:
        """Take the calls of this run from now on, those first that were made while no supervisor ran."""
        desk = self._desks.get(task_id)
        if desk is not None and desk.run == run_id:
            return
        self.drop(task_id)
        files = Beneath(self._store.root, f"{WORKSPACES}/{task_id}/{CALLS}")
        self._desks[task_id] = desk = Desk(run_id, files)
        self._listen(task_id, desk)
        desk.lying = {call_id for call_id, _ in desk.backlog}
        for name in desk.files.names():  # of callers that were killed
            if name.endswith(BELL) and not desk.files.has_reader(name):
                for suffix in (BELL, PROGRESS, REPLY):
                    desk.files.remove(name.removesuffix(BELL) + suffix)

    def reopen(self, task_id: str) -> None:
        """The run is alive after all."""
        desk = self._desks.get(task_id)
        if desk is not None and desk.closing:
            desk.closing = False
            self._list(desk)

    def has_lying(self, task_id: str) -> bool:
        """The run seems to be over: whether calls that it made are still to be carried out; no more are taken."""
        desk = self._desks.get(task_id)
        if desk is None:
            return False
        if not desk.closing:
            desk.closing = True
            self._list(desk)
            desk.lying |= {call_id for call_id, _ in desk.backlog}
        return bool(desk.lying)

    def _listen(self, task_id: str, desk: Desk) -> None:
        """Watch the folder, which the agent may remove at any time, and list what lies in it."""
        try:
            Beneath(self._store.root, f"{WORKSPACES}/{task_id}").make_folder(CALLS, aside=True)
        except OverhandError as error:
            self._say(f"{task_id}: {error.message}")
            return
        desk.number = desk.files.watch(self._news, "", IN_MOVED_TO)
        if desk.number is not None:
            self._by_watch[desk.number] = task_id
        self._list(desk)

    def _list(self, desk: Desk) -> None:
        known = {call_id for call_id, _ in desk.backlog} | desk.open.keys()
        for name in sorted(desk.files.names()):
            call_id, dot, suffix = name.partition(".")
            if dot + suffix in (NEW, TAKEN) and is_call_id(call_id) and call_id not in known:
                desk.backlog.append((call_id, dot + suffix == TAKEN))

    def drop(self, task_id: str) -> None:
        """The run is over, or another process looks after it: its calls are no longer taken."""
        desk = self._desks.pop(task_id, None)
        if desk is None:
            return
        if desk.number is not None:
            del self._by_watch[desk.number]
            self._news.remove(desk.number)
        for call in desk.open.values():
            self._look(call)

    # what wakes us

    def owns(self, fd: int) -> bool:
        return fd == self._news.fd or fd in self._by_fd

    @property
    def due(self) -> float:
        """When the time of the next waiting call is over; now, if calls lie there that can be taken."""
        takes = [desk.next_take for desk in self._desks.values()]
        waiting = (call.waiting for desk in self._desks.values() for call in desk.open.values() if call.is_waiting)
        return min([*takes, *(one.until for one in waiting if one is not None)], default=float("inf"))

    @property
    def is_idle(self) -> bool:
        return self._jobs.is_idle and not any(desk.backlog for desk in self._desks.values())

    def ready(self, fd: int) -> None:
        if fd == self._news.fd:
            self._hear()
            return
        call = self._by_fd[fd]
        self._forget_fd(fd)  # it is closed later, for a thread may ring
        call.gone = True
        if call.is_answered and not call.busy:
            self._end(call)
        else:
            self._look(call)

    def _hear(self) -> None:
        events = self._news.events()
        if events is None:  # too many at once
            for each in self._desks.values():
                self._list(each)
            return
        for call in dict.fromkeys(call for number, _, _ in events for call in self._by_log.get(number, ())):
            self._look(call)
        for number, mask, name in events:
            desk = self._desks.get(self._by_watch.get(number, ""))
            if desk is None:
                continue
            if mask & IN_IGNORED:
                del self._by_watch[number]
                desk.number = None
                continue
            call_id, _, suffix = os.fsdecode(name).partition(".")
            if f".{suffix}" == NEW and is_call_id(call_id) and not desk.closing:
                desk.backlog.append((call_id, False))

    def tick(self, now: float) -> None:
        """Take calls, a few of each run at a time, and end those whose time is over."""
        self._jobs.finished()
        for task_id, desk in self._desks.items():
            while desk.next_take <= now:
                self._take(task_id, desk, *desk.backlog.popleft())
            for call in [*desk.open.values()]:
                if call.is_waiting and call.waiting is not None and now >= call.waiting.until:
                    self._look(call)

    def examine(self) -> None:
        """Watch again what the agent removed, and look for calls that no event told of."""
        for task_id, desk in self._desks.items():
            if desk.number is None:
                self._listen(task_id, desk)
            for call in [*desk.open.values()]:
                if call.unsent is not None and not call.busy:
                    call.answer(call.unsent)
                if not call.is_waiting or call.waiting is None:
                    continue
                if call.mark is None:
                    self._mark(call, call.waiting)
                if not call.logs and call.sizes != self._sizes(call.waiting):  # of logs that cannot be watched
                    self._look(call)

    # one call

    def _take(self, task_id: str, desk: Desk, call_id: str, repeated: bool) -> None:
        """Take it by its new name, after which its caller no longer takes it back."""
        bell = -1
        try:
            bell = desk.files.open_bell(call_id + BELL)
            is_taken = call_id not in desk.open and (repeated or desk.files.rename(call_id + NEW, call_id + TAKEN))
        except StorageUnavailable as error:
            self._say(f"{task_id}: a call could not be taken yet: {error.message}")
            desk.backlog.append((call_id, repeated))
            desk.paused = time.monotonic() + _PAUSE
            _close_fd(bell)
            return
        except OverhandError:
            is_taken = False  # a folder has one of the names
        if not is_taken:
            desk.lying.discard(call_id)
            _close_fd(bell)
            return
        call = TakenCall(self._store, task_id, call_id, self._env_of(task_id), repeated, desk.files, self._say)
        call.caller = bell
        call.gone = call.caller < 0
        if not call.gone:
            self._poll.register(call.caller, 0)  # the kernel says when its last reader is gone
            self._by_fd[call.caller] = call
        desk.open[call_id] = call
        self._jobs.run("", partial(self._begin, call), partial(self._begun, call))

    def _begin(self, call: TakenCall) -> bool:
        """In a thread: carry it out, as far as that goes at once; True if it waits."""
        try:
            found = self._carry_out(call, call.files.read(call.call_id + TAKEN, MAX_CALL))
            if isinstance(found, dict):
                call.answer(found)
                return False
            call.waiting = found
            self._mark(call, found)
        except OverhandError as error:  # first: one that is a TimeoutError is an OSError as well
            call.answer({**error.as_json(), "told": []})
            return False
        except OSError as error:
            call.answer({**storage_failed(error, "That did not work").as_json(), "told": []})
            return False
        return not self._looked(call, over=call.gone, stale=False)

    def _mark(self, call: TakenCall, waiting: Waiting) -> None:
        """Mark its run as one that waits; on a full disk it waits without a mark until there is room."""
        mark = WaitingMark(self._store.run_folders(call.task_id, waiting.run).both[1], waiting.seq)
        try:
            mark.__enter__()
        except StorageUnavailable as error:
            self._say(f"{call.task_id}: its run waits without a mark: {error.message}")
        else:
            call.mark = mark

    def _looked(self, call: TakenCall, *, over: bool, stale: bool) -> bool:
        """In a thread: whether it has its reply now."""
        if call.waiting is None:
            return False
        call.sizes = self._sizes(call.waiting)
        reply = call.waiting.look(over)
        if reply is None:
            return False
        if stale and "error" in reply:
            reply = {**stale_run(call.task_id, call.waiting.run).as_json(), "told": []}
        if call.mark is not None:
            call.mark.release()
        call.answer(reply)
        return True

    def _sizes(self, waiting: Waiting) -> tuple[int, ...]:
        return tuple(map(self._store.log_size, waiting.tasks))

    def _begun(self, call: TakenCall, waits: bool) -> None:
        """Watch what it waits for; one look more, for what was written before the watch."""
        if waits and call.waiting is not None:
            if desk := self._desks.get(call.task_id):
                desk.lying.discard(call.call_id)
            logs = (f"{self._store.record(task_id)}/{LOG_FILE}" for task_id in call.waiting.tasks)
            found = (self._news.add(path, IN_MODIFY) for path in logs)
            call.logs = tuple({number for number in found if number is not None})
            call.again = True
            for number in call.logs:
                self._by_log.setdefault(number, []).append(call)
            if call.waiting.seq is None:
                self._hand_over(call.waiting.tasks)  # the slot of its run is free now
        self._rested(call, over=not waits)

    def _look(self, call: TakenCall) -> None:
        """Look in a thread whether its reply is due; once more, if a thread is at it."""
        if call.is_answered:
            return
        if call.busy or call.waiting is None:
            call.again = True
            return
        call.busy, call.again = True, False
        desk = self._desks.get(call.task_id)
        stale = desk is None or desk.run != call.waiting.run
        over = stale or call.gone or time.monotonic() >= call.waiting.until
        work = partial(self._looked, call, over=over, stale=stale)
        self._jobs.run("", work, lambda ended: self._rested(call, over=ended))

    def _rested(self, call: TakenCall, *, over: bool) -> None:
        """No thread is at it any more; `over`: it has its reply."""
        call.busy = False
        if over:
            self._close(call)
        elif call.again:
            self._look(call)

    def _close(self, call: TakenCall) -> None:
        """Nothing more is done for it; its files stay until its caller has read the reply, or is gone."""
        for number in call.logs:
            self._by_log[number].remove(call)
            if not self._by_log[number]:
                del self._by_log[number]
                self._news.remove(number)
        call.logs = ()
        if desk := self._desks.get(call.task_id):
            desk.lying.discard(call.call_id)
        if call.gone or not call.is_answered:
            self._end(call)

    def _end(self, call: TakenCall) -> None:
        self._forget_fd(call.caller)
        call.clear_away()
        if desk := self._desks.get(call.task_id):
            desk.open.pop(call.call_id, None)

    def _forget_fd(self, fd: int) -> None:
        if self._by_fd.pop(fd, None) is not None:
            self._poll.unregister(fd)


def _close_fd(fd: int) -> None:
    if fd >= 0:
        os.close(fd)
