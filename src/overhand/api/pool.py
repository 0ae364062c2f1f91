"""Threads for function agents: at most so many at work, waiting ones not counted, each with a deadline."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from overhand.policy import inside_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Job = Callable[[Future[None]], None]

_MOST_THREADS = 1000
_MOMENT = 0.01  # seconds: longer than the interpreter or the disk keeps a thread waiting, as a rule


class Pool:
    """Runs functions; async ones share one event loop.

    A thread calls one function after the other, and others join it only while it makes no progress: of functions that
    take no time, a thread each would only compete for the interpreter.
    """

    def __init__(self, max_parallel: int) -> None:
        self._most = max_parallel or _MOST_THREADS
        self._lock = threading.Lock()
        self._queue: deque[tuple[Job, Future[None]]] = deque()
        self._active = 0  # functions at work, without those that wait for a task or an answer
        self._coming = 0  # threads that were started and have not taken a function yet
        self._taken = 0  # functions, in all
        self._is_watched = False  # whether the queue is looked at again
        self._open: set[Future[None]] = set()
        self._threads: ThreadPoolExecutor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.paperwork = threading.Lock()  # two threads that write records at once only compete for the interpreter
        self.watchdog = Watchdog()
        self.calling = threading.Lock()  # held while the supervisor is called

    def submit(self, jobs: Iterable[Job]) -> list[Future[None]]:
        """Call each when there is room; it, or its watchdog, sets its future."""
        more: list[tuple[Job, Future[None]]] = [(do, Future()) for do in jobs]
        for _, future in more:
            self._open.add(future)
            future.add_done_callback(self._open.discard)
        with self._lock:
            self._queue.extend(more)
            self._add_thread()
        return [future for _, future in more]

    def _add_thread(self, count: int = 1) -> None:
        """Under the lock: start so many threads, as far as there is work and room; what is left waits a moment."""
        while count and self._waiting:
            self._threads = self._threads or ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="overhand")
            self._threads.submit(self._work)
            self._coming += 1
            count -= 1
        if self._waiting and not self._is_watched:
            self._is_watched = True
            self.watchdog.watch(_MOMENT, partial(self._look_again, self._taken, 1))

    @property
    def _waiting(self) -> bool:
        """Whether a function waits that there is room for, and no thread is on its way to it."""
        return len(self._queue) > self._coming and self._active + self._coming < self._most

    def _look_again(self, taken: int, count: int) -> None:
        """A queue that has not moved gets more threads, each time twice as many."""
        with self._lock:
            is_stuck = taken == self._taken
            try:
                self._add_thread(count if is_stuck else 0)
            except RuntimeError:
                return  # the interpreter ends: threads that are at work take what is left
            self._is_watched = self._waiting
            if self._is_watched:
                self.watchdog.watch(_MOMENT, partial(self._look_again, self._taken, 2 * count if is_stuck else 1))

    def _work(self) -> None:
        """Call what waits, one after the other."""
        with self._lock:
            self._coming -= 1
            job = self._take()
        while job is not None:
            do, future = job
            try:
                do(future)
                settle(future)
            except BaseException as error:  # noqa: BLE001 -- it is raised where the result is waited for
                settle(future, error)
            with self._lock:
                self._active -= 1
                job = self._take()

    def _take(self) -> tuple[Job, Future[None]] | None:
        """Under the lock: the function to call next."""
        if not self._queue or self._active >= self._most:
            return None
        self._active += 1
        self._taken += 1
        return self._queue.popleft()

    def make_room(self) -> None:
        """A function that waits leaves its place to another one."""
        with self._lock:
            self._active -= 1
            self._add_thread()

    def come_back(self) -> None:
        """It continues at once, even if that exceeds the cap."""
        with self._lock:
            self._active += 1

    @contextmanager
    def without_slot(self) -> Iterator[None]:
        """Make room while a function waits for a task it delegated."""
        if inside_run.get() is None:
            yield
            return
        self.make_room()
        try:
            yield
        finally:
            self.come_back()

    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of async functions, in a thread of its own."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_run_loop, args=(self._loop,), name="overhand-async", daemon=True).start()
            return self._loop

    def close(self) -> None:
        """Wait for what is at work and for what waits for room."""
        wait(list(self._open))
        if self._threads:
            self._threads.shutdown(wait=True)
            self._threads = None
        if self._loop:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop = None


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped, then close it."""
    try:
        loop.run_forever()
    finally:
        loop.close()


def settle(future: Future[None], error: BaseException | None = None) -> None:
    """Set a future, unless another thread has set it already."""
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


class Watchdog:
    """One thread for all deadlines: a thread cannot be ended, but its run can."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int]] = []
        self._then: dict[int, Callable[[], None]] = {}
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def watch(self, seconds: float, then: Callable[[], None]) -> int:
        """Call `then` after this time, unless it is cancelled."""
        with self._changed:
            number = next(self._numbers)
            self._then[number] = then
            heapq.heappush(self._due, (time.monotonic() + seconds, number))
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep, name="overhand-deadlines", daemon=True)
                self._thread.start()
            elif self._due[0][1] == number:
                self._changed.notify()
            return number

    def cancel(self, number: int) -> None:
        with self._changed:
            self._then.pop(number, None)
            if len(self._due) > 2 * len(self._then) + 100:  # most are hours away: forget the ended ones
                self._due = [entry for entry in self._due if entry[1] in self._then]
                heapq.heapify(self._due)

    def _keep(self) -> None:
        while True:
            with self._changed:
                left = self._due[0][0] - time.monotonic() if self._due else None
                if left is None or left > 0:
                    self._changed.wait(left)
                    continue
                then = self._then.pop(heapq.heappop(self._due)[1], None)
            if then:
                then()
