"""The only writer of `.agent-workspaces`: tasks, their documents and handles."""

from __future__ import annotations

import os
import time

from overhand.errors import BadInput, NotFound, OverhandError, Refused, StorageFailed, TaskNotFound, storage_failed
from overhand.record import log
from overhand.record.environment import drop_environment, keep_environment
from overhand.record.events import Accepted, Created, Event, add, fold
from overhand.record.task import Record
from overhand.system import LOCK_PATIENCE, Bell, Lock, is_own, random_text, read_file, ring_bells, write_file, write_new
from overhand.words import is_run_id, is_task_id, slug

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from overhand.record.task import By, Task


WORKSPACES = ".agent-workspaces"
_WAITERS = ".waiters"  # in a task's folder: the bells of processes that wait for it
SUPERVISOR = ".supervisor"


class NewTask(Record, frozen=True):
    """A task to be made: its agent, the text of its HANDOFF.md, what `created` is to say, and files for its folder."""

    agent: str
    handoff: str
    created: dict[str, Any]
    files: Mapping[str, bytes] = {}  # an empty one is not written


def find_root(start: str, *, given: str | None = None) -> str:
    """The project around `start`: the nearest folder with `.overhand`, or the repository's top, else `start`.

    A folder above that belongs to another user counts only if the user's git configuration calls it safe: with its
    settings, its owner could have programs run.
    """
    if given is not None:
        if not os.path.isdir(given):
            raise NotFound(f"There is no folder {given}.", "Name an existing one: overhand --project DIR …")
        return os.path.realpath(given)
    start = folder = os.path.realpath(start)
    while not (mark := _project_mark(folder)):
        above = os.path.dirname(folder)
        if above == folder:
            return start
        folder = above
    if folder == start or (is_own(folder) and is_own(mark)):
        return folder
    from overhand.system import is_safe_directory  # asks git

    return folder if is_safe_directory(folder) else start


def _project_mark(folder: str) -> str:
    """What makes this folder a project when one starts below it."""
    if os.path.isdir(f"{folder}/.overhand"):
        return f"{folder}/.overhand"
    git = f"{folder}/.git"
    return git if os.path.lexists(f"{git}/HEAD") or os.path.isfile(git) else ""


def new_run_id() -> str:
    """`sess_{epoch}_{6 of 0-9a-z}`."""
    return f"sess_{int(time.time())}_{random_text(6)}"


class Store:
    """One project's workspaces on disk."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.workspaces = f"{root}/{WORKSPACES}"
        self.own = f"{self.workspaces}/{SUPERVISOR}"
        self._ensured = False
        self._numbered: tuple[str, dict[str, int]] = "", {}  # a second, and the last number by agent in it
        self._parents: dict[str, str] = {}  # by task, the run that delegated it
        # What others found out, kept for as long as this store lives:
        self.calling_runs: dict[int, list[tuple[str, str]]] = {}  # by pid, the task and run that it may be part of
        self.uncapped: dict[str, int] = {}  # by task without budget or parent, the size of its log at that time

    def exists(self) -> bool:
        """Whether this project was ever used."""
        return os.path.isdir(self.workspaces)

    def ensure(self) -> None:
        """Make the workspaces folder, which git ignores."""
        for folder in (self.workspaces, f"{self.root}/.overhand"):
            if os.path.islink(folder) and not os.path.realpath(folder).startswith(self.root + os.sep):
                raise Refused(f"{folder} is a symbolic link that leaves the project.", "Use a real folder there.")
        try:
            os.makedirs(self.own, exist_ok=True)
        except OSError as error:
            raise storage_failed(error, f"Cannot make {WORKSPACES}") from error
        if not os.path.exists(f"{self.workspaces}/.gitignore"):
            write_file(f"{self.workspaces}/.gitignore", "*\n")
        self._ensured = True

    def folder(self, task_id: str) -> str:
        if not is_task_id(task_id):
            raise BadInput(f"{task_id!r} cannot be the id of a task.", "See them all: overhand list")
        return f"{self.workspaces}/{task_id}"

    def run_folder(self, task_id: str, run_id: str) -> str:
        if not is_run_id(run_id):
            raise BadInput(f"{run_id!r} cannot be the id of a run.", f"See its runs: overhand log {task_id}")
        return f"{self.folder(task_id)}/runs/{run_id}"

    def relative(self, path: str) -> str:
        """A path of ours as it is written down: relative to the project."""
        return path.removeprefix(f"{self.root}/")

    # reading

    def ids(self) -> Iterator[str]:
        """Every folder that is a task: it has a log, or a hand-written HANDOFF.md."""
        try:
            entries = os.scandir(self.workspaces)
        except FileNotFoundError:
            return
        except OSError as error:
            raise storage_failed(error, f"Cannot read {WORKSPACES}") from error
        with entries:
            for entry in entries:
                if is_task_id(entry.name) and entry.is_dir(follow_symlinks=False):
                    yield entry.name

    def log_size(self, task_id: str) -> int:
        """The size of its log, which changes with every event."""
        try:
            return os.stat(f"{self.folder(task_id)}/{log.LOG_FILE}").st_size
        except OSError:
            return -2

    def task(self, task_id: str) -> Task:
        """What is recorded about one task now."""
        folder = self.folder(task_id)
        events = log.read_log(folder)
        if not events and not os.path.exists(f"{folder}/HANDOFF.md"):
            raise TaskNotFound(f"There is no task {task_id}.", "See them all: overhand list")
        task = fold(task_id, events)
        if task.created is None:  # a hand-written folder: its title is in its HANDOFF.md
            from overhand.documents import parse_handoff

            raw = read_file(f"{folder}/HANDOFF.md") or b""
            task.title = parse_handoff(raw.decode("utf-8", "replace")).title or task.id
            task.agent = task.agent or task.id.split("-")[0]
        return task

    def tasks(self, task_ids: Iterable[str] | None = None) -> list[Task]:
        """All tasks, or these, oldest first; what is gone is left out."""
        found = []
        for task_id in self.ids() if task_ids is None else task_ids:
            try:
                found.append(self.task(task_id))
            except TaskNotFound:
                continue
            except StorageFailed as error:
                found.append(unreadable_task(task_id, error))  # it must not hide the others
        return sorted(found, key=lambda task: (task.handle or 0, task.id))

    def children(self, run_id: str) -> list[Task]:
        """What this run delegated; the first line of a log says so and never changes, so it is read once."""
        there = list(self.ids())
        for task_id in there:
            if task_id not in self._parents:
                try:
                    raw = log.raw(self.folder(task_id))[0]
                except StorageFailed:
                    continue
                for line in log.parse_log(raw[: raw.find(b"\n") + 1]):  # nothing, as long as it is being made
                    parent = line.get("parent")
                    self._parents[task_id] = str(parent.get("run") or "") if isinstance(parent, dict) else ""
        return self.tasks(task_id for task_id in there if self._parents.get(task_id) == run_id)

    def at_work(self, since: float = float("inf")) -> list[Task]:
        """Tasks with a run that is not recorded as ended, or that may have ended after `since` (seconds since 1970)."""
        return self.tasks(t for t in self.ids() if log.was_at_work(f"{self.workspaces}/{t}", since))

    def resolve(self, handle: str) -> str:
        """The task meant by an id, a short number, a part of the title's slug, or `-` for the last one."""
        if handle == "-":
            numbers = {n: task_id for n, task_id in self._handles().items() if self._is_there(task_id)}
            if not numbers:
                raise TaskNotFound("There is no task yet.", 'Make one: overhand delegate "what to do"')
            return numbers[max(numbers)]
        if handle.isascii() and handle.isdigit():
            task_id = self._handles().get(int(handle))
            if task_id is None or not self._is_there(task_id):
                raise TaskNotFound(f"There is no task {handle}.", "See them all: overhand list")
            return task_id
        if is_task_id(handle) and os.path.isdir(f"{self.workspaces}/{handle}"):
            return handle
        return self._by_title(handle)

    def _is_there(self, task_id: str) -> bool:
        """Whether a handle leads to a task: a process killed while making some leaves handles and empty folders."""
        return any(os.path.exists(f"{self.folder(task_id)}/{name}") for name in (log.LOG_FILE, "HANDOFF.md"))

    def _by_title(self, part: str) -> str:
        wanted = "" if part.startswith(("/", ".", "~")) else slug(part)  # a path is no part of a title
        named = [(slug(task.title), task) for task in self.tasks()]
        found = [task for name, task in named if wanted and name == wanted] or [
            task for name, task in named if wanted and wanted in name
        ]
        if not found:
            raise TaskNotFound(f"No task is called {part!r}.", "See them all: overhand list")
        if len(found) > 1:
            some = ", ".join(f"{task.handle} ({task.title[:40]})" for task in found[-5:])
            last = found[-1].name
            raise BadInput(
                f"{part!r} fits {len(found)} tasks: {some}.", f"Use the number, for example: overhand show {last}"
            )
        return found[0].id

    # handles: the file is both the counter and the map; a number is never given twice

    def _handles(self) -> dict[int, str]:
        try:
            with open(f"{self.own}/handles", encoding="utf-8", errors="replace") as file:
                lines = [line.split() for line in file.read().splitlines()]
        except OSError:
            return {task.handle: task.id for task in self.tasks() if task.handle}
        return {int(pair[0]): pair[1] for pair in lines if len(pair) == 2 and pair[0].isdigit()}

    def _take_handles(self, task_ids: Sequence[str]) -> list[int]:
        path = f"{self.own}/handles"
        lost = [] if os.path.exists(path) else [task for task in self.tasks() if task.handle]
        with Lock(path, "The list of handles") as lock:
            size = os.fstat(lock.fd).st_size
            tail = os.pread(lock.fd, 300, max(0, size - 300)).decode("utf-8", "replace")
            # the first line is the lock's signature: a lone number; a crash may have left a torn last line
            pairs = [pair for line in tail.splitlines()[-3:] if len(pair := line.split()) == 2]
            last = int(pairs[-1][0]) if pairs and pairs[-1][0].isdigit() else 0
            rebuilt = "".join(f"{task.handle} {task.id}\n" for task in lost) if last == 0 else ""
            first = max([last, *(task.handle or 0 for task in lost)] if last == 0 else [last]) + 1
            numbers = list(range(first, first + len(task_ids)))
            given = "".join(f"{number} {task_id}\n" for number, task_id in zip(numbers, task_ids, strict=True))
            text = ("" if tail.endswith("\n") or not tail else "\n") + rebuilt + given
            try:
                if os.pwrite(lock.fd, text.encode(), size) != len(text):
                    raise OSError(28, "No space left on device", path)
            except OSError as error:
                os.ftruncate(lock.fd, size)
                raise storage_failed(error, "Cannot number the task") from error
        return numbers

    # writing

    def new_tasks(
        self,
        new: Sequence[NewTask],
        by: By,
        *,
        start: bool,
        sync: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> list[Task]:
        """Make the folders, write HANDOFF.md (and what goes with it), record `created` and, to be run, `accepted`.

        All of them are synced at once; without `sync` the caller does that. `env` is the one that they run in.
        """
        alone = sync and len(new) == 1  # then a log that can't be synced is taken back
        task_ids: list[str] = []
        try:
            task_ids.extend(self._new_folder(one.agent) for one in new)
            numbers = self._take_handles(task_ids)
            for task_id in task_ids if env is not None else ():
                keep_environment(self, task_id, env or {})
            made = [
                self._new_task(task_id, number, one, by, start=start, sync=alone)
                for task_id, number, one in zip(task_ids, numbers, new, strict=True)
            ]
            if sync and not alone:
                self.sync(task_ids)
            return made
        except BaseException:
            import shutil

            for task_id in task_ids:
                if self.log_size(task_id) <= 0:  # its first event is not on disk
                    drop_environment(self, task_id)
                    shutil.rmtree(self.folder(task_id), ignore_errors=True)
            raise

    def _new_task(self, task_id: str, number: int, new: NewTask, by: By, *, start: bool, sync: bool) -> Task:
        import hashlib

        folder = self.folder(task_id)
        write_new(f"{folder}/HANDOFF.md", new.handoff)
        for name, raw in new.files.items():
            if raw:
                write_new(f"{folder}/{name}", raw)
        digest = hashlib.sha256(new.handoff.encode("utf-8", "replace")).hexdigest()
        created = {"v": 1, "task": task_id, "handle": number, **new.created, "agent": new.agent, "handoff": digest}
        lines = [event.line for event in (Created(**created), Accepted())[: 1 + start]]
        stamp = log.stamp(by)
        task = fold(task_id, [{**line, **stamp} for line in lines])
        task.log_mark = log.create(folder, log.log_lines(lines, stamp), sync=sync)
        return task

    def _new_folder(self, agent: str) -> str:
        """Make the folder of a new task; within a second, folders of one name are numbered."""
        if not self._ensured:
            self.ensure()
        second = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        if self._numbered[0] != second:
            self._numbered = second, {}
        first, numbers = f"{agent}-{second}", self._numbered[1]
        number = numbers.get(agent, 0) + 1
        while True:
            task_id = first if number == 1 else f"{first}-{number}"
            try:
                os.mkdir(f"{self.workspaces}/{task_id}")
                numbers[agent] = number
                return task_id
            except FileExistsError:
                number += 1
            except FileNotFoundError:
                self.ensure()  # another process took everything away
            except OSError as error:
                raise storage_failed(error, "Cannot make a folder for the task") from error

    def adopt_folder(self, task_id: str, created: dict[str, Any], by: By) -> None:
        """Record a hand-written folder as a task, once."""
        with self.lock(task_id, by) as locked:
            if locked.task.created is None:
                (number,) = self._take_handles([task_id])
                locked.append(Created(**{"v": 1, "task": task_id, "handle": number, **created}))

    def sync(self, task_ids: Collection[str]) -> None:
        """Flush the logs of these tasks to the disk, all at once."""
        if len(task_ids) == 1:
            log.sync(self.folder(next(iter(task_ids))))
        elif task_ids:
            log.sync_all(self.workspaces)

    def lock(self, task_id: str, by: By, patience: float = LOCK_PATIENCE, *, known: Task | None = None) -> LockedTask:
        """Hold a task's lock: the task inside is the truth until it is released.

        That is `known` itself, unless its log has grown since.
        """
        return LockedTask(self, task_id, by, patience, known)

    def subscribe(self, task_ids: Iterable[str]) -> Bell:
        """A bell that rings when something is appended to one of these tasks' logs."""
        bell = Bell()
        for task_id in task_ids:
            folder = f"{self.folder(task_id)}/{_WAITERS}"
            try:
                os.makedirs(folder, exist_ok=True)
                bell.hang(folder)
            except OSError:
                continue  # a folder that we cannot write to is polled
        return bell

    def wake_waiters(self, task_id: str) -> None:
        """Ring for every process that waits for this task."""
        ring_bells(f"{self.folder(task_id)}/{_WAITERS}")


class LockedTask:
    """A task under its lock: what its log says, and the only way to add to it."""

    def __init__(self, store: Store, task_id: str, by: By, patience: float, known: Task | None) -> None:
        self.store, self.task_id, self.by, self._known = store, task_id, by, known
        self.folder = store.folder(task_id)
        self._lock = Lock(f"{self.folder}/{log.LOG_FILE}", f"Task {task_id}", patience, signed=False)
        self._size = 0  # of the log, which no other process extends while it is locked
        self._wrote = False
        self.task: Task  # what the log says, once the lock is held

    def __enter__(self) -> LockedTask:
        try:
            self._lock.__enter__()
        except OverhandError:
            if not os.path.isdir(self.folder):
                raise TaskNotFound(f"There is no task {self.task_id}.", "See them all: overhand list") from None
            raise
        try:
            self._size, mark = self._lock.size, (self._lock.inode, self._lock.size)
            if self._known is not None and self._known.log_mark == mark:  # complete lines never change
                self.task = self._known
            else:
                self.task = fold(self.task_id, log.parse_log(os.pread(self._lock.fd, self._size, 0)))
        except BaseException:
            self._lock.__exit__()
            raise
        return self

    def append(self, *events: Event, sync: bool = False) -> None:
        """Record events and take them into `task`."""
        stamp = log.stamp(self.by)
        data = log.log_lines([event.line for event in events], stamp)
        self._size = log.append_lines(self._lock.fd, data, self._size, sync=sync)
        self._wrote = True
        for event in events:
            add(self.task, event.replace(**stamp))
        self.task.log_mark = self._lock.inode, self._size

    def __exit__(self, *_: object) -> None:
        self._lock.__exit__()
        if self._wrote:
            ring_bells(f"{self.folder}/{_WAITERS}")


def unreadable_task(task_id: str, error: Exception) -> Task:
    """A task whose log cannot be read, as something to look at."""
    task = fold(task_id, [])
    reason = error.message if isinstance(error, OverhandError) else f"{type(error).__name__}: {error}"
    task.title, task.agent, task.status = task_id, task_id.partition("-")[0], "failed"
    task.summary = f"Its log cannot be read: {reason}"
    return task


def open_tasks(tasks: Iterable[Task]) -> list[Task]:
    """Tasks that are queued or held by a run: what a supervisor has to look at."""
    return [task for task in tasks if task.is_open]
