"""The one process per project that starts, watches, stops and judges; it ends when idle and its agents outlive it.

The loop never blocks: whatever may take long (reading agents, checks, stopping, judging) is a job in a thread, at most
one per task. It owns nothing but the order of things: the queue, the live runs, the plans, the tag daemon, the meter
and the notifications have their own state, which the loop's thread alone touches.
"""

from __future__ import annotations

import os
import select
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Literal

from overhand.agents import hand_to_stand_in
from overhand.errors import PASSING, Busy, Damaged, OverhandError, StorageUnavailable
from overhand.items import is_tag_behind, note_ended_leftovers, sync_tag
from overhand.plans import begin_plan
from overhand.policy import Actor, Config, config_of_task, signs_of_process, trusted_config
from overhand.record import Store, open_tasks, recorded_root
from overhand.runs import (
    cancel_queued,
    finish_run,
    give_up,
    mend_spending,
    owes_report,
    report_to_parent,
    settle_run,
    start_run,
    stop_children,
    stop_run,
    unjudged_run,
)
from overhand.supervisor import client
from overhand.supervisor.calls import Calls
from overhand.supervisor.context import Changed, Environments, Handed, Jobs, LoopContext, Mailbox, RunOver
from overhand.supervisor.live_runs import LiveRuns
from overhand.supervisor.meter import Meter
from overhand.supervisor.notifications import Notifications
from overhand.supervisor.plans import Plans
from overhand.supervisor.queue import Begin, Block, Pause, Queue, Start, Unannounced
from overhand.supervisor.socket import Server
from overhand.supervisor.tag_daemon import TagDaemon
from overhand.system import Lock, become_subreaper, dump_line, machine_id, now_stamp, reap_children, size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from overhand.record import Task
    from overhand.supervisor.calls import CarryOut
    from overhand.supervisor.queue import Decision

_THREADS = 32
_LOOK_EVERY = 1.0
_TRIES = 5  # of a job that ends with an unexpected error
_BY = {"kind": "overhand", "via": "supervisor"}
Step = Literal["queue", "cancel", "rest", "judge", "leave", "plan", "attached", "watch"]  # what a task needs next


class Loop:
    """Hands every event to the object it concerns; all of its state can be found again in the logs."""

    def __init__(
        self, store: Store, server: Server, pool: ThreadPoolExecutor, call_pool: ThreadPoolExecutor, carry_out: CarryOut
    ) -> None:
        self._store, self._server = store, server
        self._poll = select.poll()
        self._config = Config()
        self._envs = Environments(store, dict(os.environ))
        self._mistakes: dict[str, int] = {}  # by task, how often its job ended with an error that nobody expected
        self._idle_since = time.monotonic()
        self._opened: set[str] = set()  # tasks whose runs a person has on a terminal
        self._examined = 0.0
        self._interrupted = False
        self._mail = Mailbox(server.wake)
        self._jobs = Jobs(pool.submit, server.wake)
        self._notifications = Notifications(store.root, say, memory=f"{store.own}/told")
        self._queue = Queue(store, self._config_for)
        self._unannounced = Unannounced(store)
        context = LoopContext(store, self._poll, self._jobs, self._mail, self._actor, lambda: self._config, say)
        self._plans = Plans(context)
        self._meter = Meter(context)
        self._runs = LiveRuns(context, self._meter, self._config_for, self._is_working_for)
        self._tags = TagDaemon(context, self._load_config)
        calls = Jobs(call_pool.submit, server.wake)  # a verb may wait for a job, so theirs are other threads
        self._calls = Calls(context, calls, self._envs.of, self._hand_over, carry_out)

    def serve(self) -> None:
        """Work until there has been nothing to do for a while."""
        self._poll.register(self._server.listener, select.POLLIN)
        self._poll.register(self._server.woken, select.POLLIN)
        self._load_config()
        self._take_stock()
        self._tags.turn()
        while not (self._is_idle() and self._server.close_if_quiet()):
            try:
                if self._interrupted:
                    self._take_stock()
                    self._interrupted = False
                self._turn()
            except (StorageUnavailable, OSError) as error:
                self._interrupt(error)
        self._notifications.close(10.0)

    def _interrupt(self, error: Exception) -> None:
        """Something could not be looked at, perhaps without a free descriptor: begin anew, from what the logs say."""
        if isinstance(error, OSError) and error.errno not in PASSING:
            raise error
        say(f"interrupted: {error}")
        self._interrupted = True
        time.sleep(_LOOK_EVERY)

    def _take_stock(self) -> None:
        """Pick up what was running or unfinished when the last supervisor ended."""
        self._unannounced.look()  # first: a task that is made meanwhile is found by one of the two
        tasks = self._store.tasks()
        for task in tasks:
            # a crash prevented the report to its parent, or the update of its tag
            if (task.cause and owes_report(self._store, task)) or (task.item and is_tag_behind(task)):
                self.handle(task.id)
        self._envs.sweep(tasks)
        for place in [self._store.run_folder(t.id, run.id) for t in tasks for run in t.runs if run.leftovers]:
            note_ended_leftovers(place)
        mend_spending(self._actor(""), tasks)
        for task in open_tasks(tasks):
            self.handle(task.id)

    def _turn(self) -> None:
        """Wait for something to happen, and deal with everything that has."""
        ready = [fd for fd, _ in self._poll.poll(self._patience() * 1000)]
        # shims first: what a killed one left must be recorded before a `stop` scans for it
        for fd in sorted(ready, key=lambda fd: not self._runs.is_shim(fd)):
            if fd == self._server.listener.fileno():
                self._receive()
            elif fd == self._server.woken:
                self._server.drain()
            elif fd == self._tags.fd:
                self._tags.ready()
            elif self._calls.owns(fd):
                self._calls.ready(fd)
            elif self._runs.owns(fd):
                self._runs.ready(fd)
                self._deliver()
        for task_id, error in self._jobs.finished():
            if error is not None:
                self._failed(task_id, error)
            elif task_id:
                self.handle(task_id)
        self._deliver()
        self._tick()
        self._deliver()
        for decision in self._queue.starts(self._config, self._jobs.is_busy, lambda: self._meter.is_held(self._config)):
            self._carry_out(decision)

    # what comes in

    def _receive(self) -> None:
        """Take tasks that a verb hands over, to run in that verb's environment, or a change of the daemon's switch."""
        for task_ids, env in self._server.receive(self._answer, self._is_moved):
            self._load_config()
            self._tags.turn()
            for task_id in task_ids:
                self._envs.sent(task_id, env)
                self.handle(task_id)

    def _is_moved(self) -> bool:
        """Whether the project has another path by now: this supervisor would look for its files at the old one."""
        return recorded_root(self._store.home) not in (None, self._store.root)

    def _answer(self, asked: dict[str, Any]) -> bytes | None:
        if asked.get("ask") == "caller":
            return dump_line(signs_of_process(self._store, asked["peer"])).encode() if asked["peer"] else None
        if asked.get("ask") != "daemon":
            return None
        found = self._tags.status([task.id for task in self._queue.queued], self._queue.running)
        return dump_line(found).encode("utf-8", "surrogateescape")

    def _failed(self, task_id: str, error: BaseException) -> None:
        say(f"{task_id}: {error}" if task_id else str(error))
        if not isinstance(error, OverhandError):
            say("".join(traceback.format_exception(error)))
        if not task_id:
            return  # it belonged to no task
        self._plans.failed(task_id, error)
        self._queue.withdraw(task_id)
        if self._is_hopeless(task_id, error):
            why = error.message if isinstance(error, OverhandError) else f"{type(error).__name__}: {error}"
            self._jobs.run(task_id, partial(give_up, self._actor(task_id), task_id, f"It cannot go on: {why}"))
            return
        if isinstance(error, StorageUnavailable):
            self._jobs.retry_later(task_id, time.monotonic())
        else:
            self._jobs.retry(task_id, time.monotonic() + (1.0 if isinstance(error, OverhandError) else 10.0))

    def _is_hopeless(self, task_id: str, error: BaseException) -> bool:
        """Whether a task is given up: one of its files is damaged, or an unexpected error comes again and again."""
        if isinstance(error, OverhandError) and not isinstance(error, Damaged):
            self._mistakes.pop(task_id, None)
            return False
        self._mistakes[task_id] = self._mistakes.get(task_id, 0) + 1
        return isinstance(error, Damaged) or self._mistakes[task_id] >= _TRIES

    def _deliver(self) -> None:
        for message in self._mail.take():
            match message:
                case Changed(task_id, env_of):
                    self._envs.share(task_id, env_of)
                    self.handle(task_id)
                case RunOver(task_id):
                    self._close(task_id)
                case Handed(task_ids):
                    self._load_config()
                    self._tags.turn()
                    for task_id in task_ids:
                        self._envs.sent(task_id, None)
                        self.handle(task_id)

    # one task

    def handle(self, task_id: str) -> None:
        """Read the task's log and do the next thing it calls for."""
        self._idle_since = time.monotonic()
        if self._jobs.is_busy(task_id):
            return  # it is handled again when its job is done
        try:
            self._handle(task_id)
        except StorageUnavailable as error:
            say(f"{task_id}: {error}")
            self._jobs.retry_later(task_id, time.monotonic())

    def _handle(self, task_id: str) -> None:
        try:
            task = self._store.recorded(task_id)
        except StorageUnavailable:
            raise
        except OverhandError:
            self._forget(task_id)
            self._plans.child_gone(task_id)
            return
        self._notifications.task_changed(task)
        self._plans.child_changed(task)
        self._envs.find(task)
        actor = self._actor(task_id)
        match next_step(task, machine_id()):
            case "queue":
                self._offer(task)
            case "cancel":
                self._offer(task)
                self._jobs.run(task_id, partial(cancel_queued, actor, task_id, "Stopped before it began."))
            case "rest":
                self._forget(task)
                self._runs.stir_parent(task)
                if task.cause and owes_report(self._store, task):
                    self._jobs.run(task_id, partial(report_to_parent, actor, task), self._reported)
                elif task.item and is_tag_behind(task):
                    self._jobs.run(task_id, partial(sync_tag, self._store, actor.by, task_id))
            case "judge":
                self._runs.drop(task_id)
                self._calls.drop(task_id)
                self._queue.hold(task)  # until it is judged: tasks it delegated stop with it and don't take its slot
                self._close(task_id)
            case "leave":
                self._forget(task)
            case "plan":
                self._plans.look(task)
            case "attached":
                self._leave_attached(task)
            case "watch":
                self._queue.hold(task)
                self._watch(task)

    def _leave_attached(self, task: Task) -> None:
        """Another process looks after it while that lives; what a run on a person's terminal calls is done here."""
        run = task.runs[-1]
        alive = self._store.is_alive(task.id, run)
        if alive and run.opened and not task.stop:
            self._opened.add(task.id)
            self._calls.watch(task.id, run.id)
            return
        self._forget(task)
        if task.stop:
            self._jobs.run(task.id, partial(stop_run, self._actor(task.id), task.id, "cancelled", 0.0))
        elif not alive:
            self._close(task.id)

    def _watch(self, task: Task) -> None:
        self._calls.watch(task.id, task.runs[-1].id)
        self._runs.adopt(task)
        if self._runs.is_live(task.id):
            self._calls.reopen(task.id)

    def _hand_over(self, task_ids: list[str]) -> None:
        """From any thread."""
        self._mail.post(Handed(tuple(task_ids)))

    def _offer(self, task: Task) -> None:
        self._runs.drop(task.id)
        self._calls.drop(task.id)
        self._meter.forget(task.id)
        self._queue.offer(task)

    def _forget(self, task: Task | str) -> None:
        task_id = task if isinstance(task, str) else task.id
        self._plans.drop(task_id)
        self._runs.drop(task_id)
        self._calls.drop(task_id)
        self._queue.release(task_id)
        self._opened.discard(task_id)
        self._jobs.forget(task_id)
        self._meter.forget(task_id)
        self._mistakes.pop(task_id, None)
        self._notifications.forget(task_id)
        self._envs.forget(task)

    def _reported(self, parent: str | None) -> None:
        if parent is not None:
            self._mail.post(Changed(parent))

    def _close(self, task_id: str) -> None:
        """A run seems to be over: settle, judge and report it in a job, once its last calls are carried out."""
        if self._calls.has_lying(task_id):
            self._jobs.retry(task_id, time.monotonic())
            return
        work = partial(close, self._actor(task_id), task_id, self._tags.verdict_note())
        self._jobs.run(task_id, work, self._closed)

    def _closed(self, closed: tuple[Task, list[str]]) -> None:
        task, changed = closed
        for task_id in changed:
            self._mail.post(Changed(task_id))
        self._meter.ended(task)

    # what starts

    def _carry_out(self, decision: Decision) -> None:
        task = decision.task
        actor = self._actor(task.id)
        match decision:
            case Start():
                self._jobs.run(task.id, partial(start_run, actor, task.id), partial(self._started, task))
            case Begin():
                self._jobs.run(task.id, partial(begin_plan, actor, task.id))
            case Block(_, why):
                self._jobs.run(task.id, partial(cancel_queued, actor, task.id, why, "blocked"))
            case Pause(_, other):
                self._plans.child_paused(task)
                if other:
                    self._jobs.run(task.id, partial(hand_to_stand_in, actor, task.id, task.agent, other))

    def _started(self, task: Task, is_ours: bool) -> None:
        """Watch the started run, unless another process was first, and open a window for it if the settings say so."""
        if not is_ours:
            return
        self._tags.note("started", task=task.id)
        if task.item is not None and self._config_for(task).watch_in_tmux:
            self._jobs.run("", partial(open_window, self._store, task.id, self._actor(task.id).env))

    # what the objects ask

    def _actor(self, task_id: str) -> Actor:
        return Actor(self._store, self._config, _BY, self._envs.of(task_id), spare=frozenset({os.getpid()}))

    def _config_for(self, task: Task) -> Config:
        """The settings in force for a task; its own ones count for as long as they can be read."""
        try:
            return config_of_task(self._store.root, self._config, task.settings)
        except OverhandError as error:
            say(str(error))
            return self._config

    def _is_working_for(self, run_id: str) -> bool:
        delegated = self._queue.delegated_by(run_id)
        return any(not self._runs.is_blocked(task.id) for task in delegated) or self._plans.works_for(run_id)

    def _load_config(self) -> None:
        """Load the current settings; an untrusted project's own don't count."""
        try:
            self._config = trusted_config(self._store.root)
        except OverhandError as error:
            say(str(error))
        self._notifications.use(self._config.notify, self._envs.latest)

    # time

    def _patience(self) -> float:
        if not self._mail.is_empty:
            return 0.0
        now = time.monotonic()
        due = min(self._tags.due - now, self._plans.due, self._calls.due - now)
        resumes = self._queue.resumes - time.time()
        if self._opened or not (self._runs.is_idle and self._jobs.is_idle):
            look = min(self._examined + _LOOK_EVERY, self._runs.due) - now
            return max(0.0, min(look, resumes, due))
        if resumes != float("inf"):
            return max(0.01, min(_LOOK_EVERY * 10, resumes, due))
        if self._tags.on or not self._plans.is_idle:
            return max(0.0, min(_LOOK_EVERY * 10, due))
        return max(0.05, min(_LOOK_EVERY * 10, self._config.idle - (now - self._idle_since)))

    def _tick(self) -> None:
        """Handle due deadlines and timers; check sizes and leftovers about once a second."""
        now = time.monotonic()
        self._runs.tick(now)
        self._calls.tick(now)
        self._plans.tick()
        self._tags.tick(is_queued=not self._queue.is_empty)
        if now - self._examined < _LOOK_EVERY:
            return
        self._examined = now
        reap_children()
        self._plans.examine()
        for task_id in (*self._jobs.due(now), *self._unannounced.look(), *self._opened):
            self.handle(task_id)
        self._runs.examine(now)
        self._calls.examine()

    def _is_idle(self) -> bool:
        held = self._meter.held and not self._queue.is_empty
        objects = (self._runs, self._jobs, self._queue, self._plans, self._calls)
        if held or self._opened or self._tags.on or not self._mail.is_empty or not all(one.is_idle for one in objects):
            self._idle_since = time.monotonic()
            return False
        return time.monotonic() - self._idle_since >= self._config.idle


def next_step(task: Task, machine: str) -> Step:
    """What a supervisor on this machine does next for the task, from what its log says."""
    current = task.current_run
    if task.queued:
        return "cancel" if task.stop else "queue"
    if current is None:
        return "rest"  # its parent may be owed a report, and its tag an update
    if current.has_ended:
        return "judge"
    if current.machine not in ("", machine):
        return "leave"  # only a person settles it
    if current.is_plan_run:
        return "plan"
    return "attached" if current.attached else "watch"  # attached: another process looks after it while that lives


def close(actor: Actor, task_id: str, on_verdict: Callable[[Task], None]) -> tuple[Task, list[str]]:
    """In a job: find out how a run ended, stop what a stopped one delegated, judge it, report it to its parent.

    Returns the task, and the other tasks that have changed.
    """
    task = settle_run(actor, task_id)
    changed = stop_children(actor, task)
    task = finish_run(actor, task_id, on_verdict=on_verdict)
    if unjudged_run(task):
        raise Busy(f"Task {task_id} is being judged by another process.")
    changed += stop_children(actor, task)  # its last output may have asked for a person
    if task.cause and (parent := report_to_parent(actor, task)):
        changed.append(parent)
    return task, changed


def open_window(store: Store, task_id: str, env: Mapping[str, str]) -> None:
    """In a job: open a window for a run of an item; the run doesn't depend on it."""
    from overhand.supervisor.tmux import watch_in_tmux

    try:
        watch_in_tmux(store.root, store.recorded(task_id), env)
    except OverhandError as error:
        say(f"{task_id}: {error.message}")


def say(text: str) -> None:
    """Write a line to the supervisor's log; a full disk must not end the supervisor."""
    try:
        print(f"{now_stamp()} {text}", flush=True)
    except OSError:
        return


def main(argv: list[str], carry_out: CarryOut) -> int:
    """Hold the project's lock and work; a second supervisor leaves at once. It is given the project and its record."""
    store = Store(os.path.realpath(argv[0]), argv[1] if len(argv) > 1 else None)
    os.chdir("/")
    if len(argv) == 1:
        store.ensure()
    become_subreaper()
    try:
        with Lock(f"{store.own}/lock", "The supervisor's lock", patience=0.0) as lock:
            lock.sign_namespace()
            if size_of(f"{store.own}/log") > 1_000_000:
                os.truncate(f"{store.own}/log", 0)
            with (
                Server(client.address(store, client.own_folder(store)), f"{store.own}/sock") as server,
                ThreadPoolExecutor(_THREADS, thread_name_prefix="job") as pool,
                ThreadPoolExecutor(_THREADS, thread_name_prefix="call") as call_pool,
            ):
                Loop(store, server, pool, call_pool, carry_out).serve()
    except OverhandError as error:
        say(error.message)
        return error.exit_status
    return 0
