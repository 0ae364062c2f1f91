"""The one process per project that starts, watches, stops and judges; it ends when idle and its agents outlive it.

The loop itself never blocks: whatever may take long (reading agents, checks, stopping, judging) is a job in a thread,
at most one per task, and when a job is done the task's log is looked at again.
"""

from __future__ import annotations

import os
import select
import time
import traceback
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from overhand.agents import quota
from overhand.errors import Busy, OverhandError
from overhand.items import recovery, sync
from overhand.plans import task
from overhand.policy import config as configs
from overhand.policy import projects, trust
from overhand.policy.actor import Actor
from overhand.record.children import Children
from overhand.record.store import Store, open_states
from overhand.runs import control, finish, run, spending
from overhand.supervisor import client, live_runs, meter
from overhand.supervisor import plans as conducting
from overhand.supervisor.jobs import Jobs
from overhand.supervisor.notify.notifications import Notifications
from overhand.supervisor.queue import fits, in_order, leaves_its_place, waits_for, waits_for_child
from overhand.supervisor.socket import Desk
from overhand.supervisor.tag_daemon import Dispatch
from overhand.supervisor.watches import Watches
from overhand.system import detached, lock, machine, members
from overhand.system.files import size_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from overhand.plans.executor import Carrying
    from overhand.record.task import Task

_JOBS = 16
_LOOK_EVERY = 1.0
_AGAIN = 5.0  # seconds after which a stop that did not work is tried again


@dataclass(slots=True)
class Supervisor:
    """State in memory only: everything is found again in the logs."""

    store: Store
    desk: Desk
    jobs: Jobs
    queue: dict[str, Task] = field(default_factory=dict)
    slots: dict[str, Task] = field(default_factory=dict)  # live or starting, by task: what the caps count
    later: dict[str, float] = field(default_factory=dict)  # tasks whose job failed, and when to try again
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    envs: dict[str, Mapping[str, str]] = field(default_factory=dict)
    plans: dict[str, Carrying] = field(default_factory=dict)  # carried by us, by task
    tries: dict[str, int] = field(default_factory=dict)  # of plans that could not be taken up, how often
    called: deque[str] = field(default_factory=deque)  # tasks that a job of another one changed
    left: deque[str] = field(default_factory=deque)  # ended, being judged, and no longer in their slot
    poll: select.poll = field(default_factory=select.poll)
    watches: Watches = field(init=False)
    notifications: Notifications = field(init=False)
    config: configs.Config = field(default_factory=configs.Config)
    day: spending.Day = field(default_factory=spending.Day)
    held: bool = False  # the day's budget is used up
    resumes: float = float("inf")  # when the first paused program that is waited for may go on; seconds since 1970
    idle_since: float = field(default_factory=time.monotonic)
    looked: float = 0.0
    daemon: Dispatch = field(init=False)
    children: Children = field(init=False)

    def __post_init__(self) -> None:
        self.watches = Watches(self.poll)
        self.daemon = Dispatch(self)
        self.children = Children(self.store)
        self.notifications = Notifications(self.store.root, say, memory=f"{self.store.own}/told")

    def serve(self) -> None:
        """Until there has been nothing to do for a while."""
        self.poll.register(self.desk.listener, select.POLLIN)
        self.poll.register(self.desk.bell, select.POLLIN)
        self.load_config()
        states = self.store.states()
        for state in states:
            # a crash kept its result from its parent, or its tag from showing it
            if control.owes_report(self.store, state) or sync.owes(state):
                self.look(state.id)
        spending.mend(self.work(""), states)
        for state in open_states(states):
            self.look(state.id)
        self.daemon.turn()
        while not (self.is_idle() and self.desk.close_if_quiet()):
            ready = [fd for fd, _ in self.poll.poll(self.timeout() * 1000)]
            # shims first: what a killed one left must be known before somebody's `stop` looks for it
            for fd in sorted(ready, key=lambda fd: fd not in self.watches.by_fd):
                if fd == self.desk.listener.fileno():
                    self.receive()
                elif fd == self.desk.bell:
                    self.desk.silence()
                elif fd == self.watches.news.fd:
                    live_runs.stirred(self)
                elif fd == self.daemon.fd:
                    self.daemon.heard()
                elif fd in self.watches.by_fd:
                    self.look(self.watches.shim_ended(fd))
            self.after_jobs()
            self.tick()
            self.daemon.tick()
            self.fill()
        self.notifications.close(10.0)

    def receive(self) -> None:
        """Tasks that a verb hands over, to be run in that verb's environment; or a verb turned the daemon's switch."""
        for task_ids, env in self.desk.receive(self.daemon.answer):
            self.load_config()
            self.daemon.turn()
            if env is not None and env != self.env:  # mostly the same one: kept once
                self.env = env
            for task_id in task_ids:
                if env is not None:
                    self.envs[task_id] = self.env
                self.look(task_id)

    # one task

    def look(self, task_id: str) -> None:
        """Read the task's log and do the next thing it calls for."""
        self.idle_since = time.monotonic()
        if task_id in self.jobs.busy:
            return  # it is looked at again when its job is done
        try:
            state = self.store.state(task_id)
        except OverhandError:
            conducting.gone(self, task_id)
            return
        self.notifications.task_changed(state)
        conducting.told(self, state)
        current = state.current_run
        if state.queued:
            self.watches.drop(task_id)
            self.slots.pop(task_id, None)
            self.queue[task_id] = state
            if state.stop:
                work, why = self.work(task_id), "Stopped before it began."
                self.jobs.start(task_id, partial(run.cancel_queued, work, task_id, why))
        elif current is None:
            self.forget(task_id)
            live_runs.stir_parent(self, state)
            if control.owes_report(self.store, state):
                self.jobs.start(task_id, lambda: self.report(state))
            elif sync.owes(state):
                self.jobs.start(task_id, partial(sync.show, self.store, self.work(task_id).by, task_id))
        elif current.has_ended:
            self.watches.drop(task_id)
            self.slots[task_id] = state  # until it is judged: what it delegated is to go with it, not to take its place
            self.jobs.start(task_id, lambda: self.close(task_id))
        elif current.machine not in ("", machine.machine()):
            self.forget(task_id)  # only a person settles it
        elif current.is_plan_run:
            conducting.look(self, state)
        elif current.attached:
            self.forget(task_id)
            if state.stop:
                self.jobs.start(task_id, lambda: self.end(task_id, "cancelled", 0.0))
            elif not detached.lives(self.store.run_folder(task_id, current.id)):
                self.jobs.start(task_id, lambda: self.close(task_id))
        else:
            self.slots[task_id] = state
            live_runs.watch(self, state)

    def forget(self, task_id: str) -> None:
        """Nothing more to do for this task."""
        conducting.drop(self, task_id)
        self.watches.drop(task_id)
        for table in (self.queue, self.slots, self.later, self.envs):
            table.pop(task_id, None)
        self.notifications.forget(task_id)

    # jobs

    def work(self, task_id: str) -> Actor:
        """What a job needs."""
        by = {"kind": "overhand", "via": "supervisor"}
        env = self.envs.get(task_id, self.env)
        spare = frozenset({os.getpid()})
        return Actor(self.store, self.config, by, env, spare=spare, children=self.children)

    def after_jobs(self) -> None:
        """Look at each task again whose job is done; who has left its place makes room at once."""
        while self.left:
            self.slots.pop(self.left.popleft(), None)
        for task_id, error in self.jobs.finished():
            if error is None:
                self.look(task_id)
            else:
                self.trouble(task_id, error)
        while self.called:
            self.look(self.called.popleft())

    def trouble(self, task_id: str, error: BaseException) -> None:
        """A job failed: write it down, try again later."""
        say(f"{task_id}: {error}")
        conducting.trouble(self, task_id, error)
        if not isinstance(error, OverhandError):
            say("".join(traceback.format_exception(error)))
        self.queue.pop(task_id, None)
        self.later[task_id] = time.monotonic() + (1.0 if isinstance(error, OverhandError) else 10.0)

    def start(self, task_id: str) -> None:
        """The task's next run."""
        if run.start(self.work(task_id), task_id):
            self.daemon.note("started", task=task_id)
            live_runs.open_window(self, task_id)

    def close(self, task_id: str) -> None:
        """A run that seems to be over: find out how it ended, stop what a stopped one delegated, judge it."""
        work = self.work(task_id)
        state = run.settle(work, task_id)
        self.called.extend(run.stop_children(work, state))
        if leaves_its_place(state, self.slots):
            self.left.append(task_id)
            self.desk.ring()
        state = finish.finish(work, task_id, told=self.daemon.judged)
        if finish.unjudged(state):
            raise Busy(f"Task {task_id} is being judged by another process.")
        self.called.extend(run.stop_children(work, state))  # its last words may have called for a person
        meter.ended(self, state)
        self.report(state)
        conducting.ended(self, state)

    def report(self, state: Task) -> None:
        """What was delegated by a CONTROL line is judged: its parent gets the result, and may go on."""
        if parent := control.report_to_parent(self.work(state.id), state):
            self.called.append(parent)

    def end(self, task_id: str, cause: str, grace: float) -> None:
        """Stop a run; the next look judges it and stops what it delegated."""
        run.stop(self.work(task_id), task_id, cause, grace)

    # time

    def timeout(self) -> float:
        """Seconds until something must be looked at."""
        now = time.monotonic()
        due = min(self.daemon.due() - now, conducting.due(self))
        if self.watches.live or self.later or self.jobs.busy:
            look = min(self.looked + _LOOK_EVERY, self.watches.next_due()) - now
            return max(0.0, min(look, self.resumes - time.time(), due))
        if self.queue and self.resumes != float("inf"):
            return max(0.01, min(_LOOK_EVERY * 10, self.resumes - time.time(), due))
        if self.daemon.on or self.plans:
            return max(0.0, min(_LOOK_EVERY * 10, due))
        return max(0.05, min(_LOOK_EVERY * 10, self.config.idle - (now - self.idle_since)))

    def tick(self) -> None:
        """Deadlines and notes when they are due; sizes and leftovers about every second."""
        now = time.monotonic()
        for task_id, known in list(self.watches.live.items()):
            late = known.deadline is not None and known.waiting is None and now >= known.deadline
            if late and known.ours and task_id not in self.jobs.busy:
                known.deadline = now + _AGAIN
                grace = (known.own or self.config).stop_grace
                self.jobs.start(task_id, partial(self.end, task_id, "timeout", grace), waits=True)
            if now >= known.park_at and known.ours and task_id not in self.jobs.busy:
                known.park_at = now + _AGAIN
                live_runs.park(self, task_id, known, now)
            if now >= known.note_at:
                live_runs.note(self, task_id, known, now)
        conducting.tick(self)
        if now - self.looked < _LOOK_EVERY:
            return
        self.looked = now
        detached.reap()
        conducting.examine(self)
        for task_id in [t for t, at in list(self.later.items()) if at <= now]:
            del self.later[task_id]
            self.look(task_id)
        for task_id, known in list(self.watches.live.items()):
            if task_id not in self.jobs.busy:
                live_runs.examine(self, task_id, known, now)

    # the queue

    def say(self, text: str) -> None:
        """One line in our log."""
        say(text)

    def load_config(self) -> None:
        """Settings as they are now; those of a project nobody trusts do not count."""
        try:
            self.config = trust.settings(self.store.root)
        except OverhandError as error:
            say(str(error))
        self.notifications.use(self.config.notify, self.env)

    def fill(self) -> None:
        """Start what the caps allow, the most urgent first."""
        self.resumes = float("inf")
        if not self.queue:
            return
        paused = quota.pauses(self.store)
        known: dict[str, tuple[str, str | None]] = {}
        holding = {t: s for t, s in self.slots.items() if not waits_for_child(self.store, s)}
        for state in in_order(self.queue.values()):
            task_id = state.id
            if task_id in self.jobs.busy or state.stop:
                continue
            if (why := waits_for(self.store, state)) is not None:
                if why:
                    self.jobs.start(task_id, partial(run.cancel_queued, self.work(task_id), task_id, why, "blocked"))
                continue
            if state.is_plan:  # it takes no slot: its nodes do
                del self.queue[task_id]
                self.jobs.start(task_id, partial(task.begin, self.work(task_id), task_id))
                continue
            if (at := recovery.not_before(state)) > time.time():
                self.resumes = min(self.resumes, at)
                continue
            if paused and meter.is_paused(self, state, paused, known):
                conducting.paused(self, state)
                continue
            if fits(state, holding, self.config) and not meter.is_held(self):
                del self.queue[task_id]
                self.slots[task_id] = holding[task_id] = state
                self.jobs.start(task_id, partial(self.start, task_id))

    def is_idle(self) -> bool:
        """Nothing runs, nothing can start, and it has been so for a while."""
        if (
            self.watches.live
            or self.jobs.busy
            or self.later
            or self.slots
            or self.plans
            or self.daemon.on
            or (self.queue and (self.held or self.resumes != float("inf")))
        ):
            self.idle_since = time.monotonic()
            return False
        return time.monotonic() - self.idle_since >= self.config.idle


def say(text: str) -> None:
    """One line in the supervisor's log; a full disk must not end the supervisor."""
    try:
        print(f"{machine.now()} {text}", flush=True)
    except OSError:
        return


def main(argv: list[str]) -> int:
    """Hold the project's lock and work; a second supervisor leaves at once."""
    store = Store(os.path.realpath(argv[0]))
    os.chdir("/")
    store.ensure()
    members.become_subreaper()
    try:
        with lock.Lock(f"{store.own}/lock", "The supervisor's lock", patience=0.0):
            if size_of(f"{store.own}/log") > 1_000_000:
                os.truncate(f"{store.own}/log", 0)
            projects.remember(store.root)
            with (
                Desk(client.address(store, client.own_folder(store)), f"{store.own}/sock") as desk,
                ThreadPoolExecutor(_JOBS, thread_name_prefix="job") as pool,
            ):
                Supervisor(store, desk, Jobs(pool, desk.ring)).serve()
    except OverhandError as error:
        say(error.message)
        return error.exit_status
    return 0
