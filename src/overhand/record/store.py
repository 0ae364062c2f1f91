"""The two sides of a task on disk: its record, which only Overhand writes, and its workspace, which is the agent's.

The record lies in the user's state folder, the workspace in the project. A task exists when its log does, in the
record; a workspace without a record is only prepared.
"""

from __future__ import annotations

import os
import time

from overhand.errors import BadInput, OverhandError, StorageFailed, TaskNotFound, storage_failed
from overhand.record import identity, log, registry
from overhand.record.environment import drop_environment, keep_environment
from overhand.record.events import Accepted, Created, add, fold
from overhand.record.log import WAITERS, LockedTask, log_data, stamp_events
from overhand.record.task import Record, Task
from overhand.system import (
    LOCK_PATIENCE,
    Bell,
    Beneath,
    Lock,
    has_reader,
    random_text,
    read_file,
    ring_bells,
    write_new,
)
from overhand.words import is_run_id, is_task_id, slug

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from overhand.record.task import By, Run


WORKSPACES = ".agent-workspaces"
INPUTS_FILE = "inputs.json"  # of a plan's node: what the agent is given, and what assertions read


class NewTask(Record, frozen=True):
    """A task to be made: its agent, the text of its HANDOFF.md, what `created` is to say, and files for its folder."""

    agent: str
    handoff: str
    created: dict[str, Any]
    files: Mapping[str, bytes] = {}  # an empty one is not written


def new_run_id() -> str:
    """`sess_{epoch}_{6 of 0-9a-z}`."""
    return f"sess_{int(time.time())}_{random_text(6)}"


class RunFolders(Record, frozen=True):
    """The folders of one run: in the record, which is evidence, and in the workspace, which is only input.

    The paths in the workspace are for messages and for the agent; we open what is there through `…_files` alone.
    """

    root: str  # the project
    record: str  # of the task
    place: str  # the run's own, in the record
    workspace: str  # of the task
    desk: str  # the run's own, in the workspace
    workspace_files: Beneath

    @property
    def both(self) -> tuple[Beneath, Beneath]:
        """The run's own folders, of which the agent may write to the first."""
        return self.desk_files, Beneath(self.place)

    @property
    def desk_files(self) -> Beneath:
        return Beneath(self.root, self.desk[len(self.root) + 1 :])


class Store:
    """One project on disk: its workspaces, and its record."""

    def __init__(
        self, root: str, home: str | None = None, *, on_move: Callable[[str, str], None] | None = None
    ) -> None:
        self.root = root
        self.workspaces = f"{root}/{WORKSPACES}"  # to be shown: opened through `files` alone
        self.files = Beneath(root, WORKSPACES)
        self._home = home  # the record's folder, once it is known
        self._on_move = on_move  # is called with the old and the new path of a project that was moved
        self.note = ""  # what the user should know about the record: that it was moved here, or the folder replaced
        self._ensured = False
        self._numbered: tuple[str, dict[str, int]] = "", {}  # a second, and the last number by agent in it
        self._parents: dict[str, str] = {}  # by task, the run that delegated it
        self.supervise: Callable[[list[str]], None] | None = None  # in the supervisor itself: how tasks are handed over
        # What others found out, kept for as long as this store lives:
        self.calling_runs: dict[int, list[tuple[str, str]]] = {}  # by pid, the task and run that it may be part of
        self.ask: Callable[[Store, Mapping[str, object]], bytes | None] | None = None  # a question to the supervisor
        self.uncapped: dict[str, int] = {}  # by task without budget or parent, the size of its log at that time

    @property
    def home(self) -> str:
        """The folder of the project's record; a path that does not exist as long as there is none."""
        if self._home is None and (found := identity.find_record(self.root, self._on_move)):
            self._home, self.note = found.folder, found.note
        return self._home or f"{registry.state_folder()}/projects/.none"

    @property
    def own(self) -> str:
        """The folder of the supervisor: its lock, log and socket, and what concerns no single task."""
        return f"{self.home}/supervisor"

    def exists(self) -> bool:
        """Whether this project has a record."""
        return os.path.isdir(self.own)

    def ensure(self) -> None:
        """Make the record, and the folder of the workspaces, which git ignores."""
        found = identity.make_record(self.root, self._on_move)
        self._home, self.note = found.folder, found.note or self.note
        if not self.files.exists(".gitignore"):
            self.files.write(".gitignore", "*\n")
        self._ensured = True

    def record(self, task_id: str) -> str:
        """The task's folder in the record: log and evidence, never written by an agent."""
        return f"{self.home}/tasks/{_checked_task(task_id)}"

    def run_folder(self, task_id: str, run_id: str) -> str:
        """The run's folder in the record."""
        return f"{self.record(task_id)}/runs/{_checked_run(run_id)}"

    def workspace(self, task_id: str) -> str:
        """The path of the task's folder in the project, to be shown: documents, which the agent may write."""
        return f"{self.workspaces}/{_checked_task(task_id)}"

    def workspace_files(self, task_id: str) -> Beneath:
        """What is in the task's folder in the project; no link that an agent put there is followed."""
        return self.files.at(_checked_task(task_id))

    def desk(self, task_id: str, run_id: str) -> str:
        """The path of the run's folder in the workspace, to be shown: there its agent leaves its return."""
        return f"{self.workspace(task_id)}/runs/{_checked_run(run_id)}"

    def desk_files(self, task_id: str, run_id: str) -> Beneath:
        """What is in the run's folder in the workspace."""
        return self.files.at(f"{_checked_task(task_id)}/runs/{_checked_run(run_id)}")

    def run_folders(self, task_id: str, run_id: str) -> RunFolders:
        record, workspace, run = self.record(task_id), self.workspace(task_id), _checked_run(run_id)
        return RunFolders(
            root=self.root,
            record=record,
            place=f"{record}/runs/{run}",
            workspace=workspace,
            desk=f"{workspace}/runs/{run}",
            workspace_files=self.files.at(task_id),
        )

    def life(self, task_id: str, run: Run) -> str:
        """The FIFO that has a reader as long as this run lives; functions that were delegated together share one."""
        task, _, shared = run.life.partition("/")
        return f"{self.run_folder(task, shared) if shared else self.run_folder(task_id, run.id)}/life"

    def is_alive(self, task_id: str, run: Run) -> bool:
        """Whether a process of this run is there; that it has ended may be recorded already, or not yet."""
        return has_reader(self.life(task_id, run))

    def relative(self, path: str) -> str:
        """A path as it is written down: relative to the project, absolute in the record."""
        return path.removeprefix(f"{self.root}/")

    # reading

    def ids(self) -> Iterator[str]:
        """Every task that is recorded."""
        try:
            entries = os.scandir(f"{self.home}/tasks")
        except FileNotFoundError:
            return
        except OSError as error:
            raise storage_failed(error, "Cannot read the tasks of this project") from error
        with entries:
            for entry in entries:
                if is_task_id(entry.name) and entry.is_dir(follow_symlinks=False):
                    yield entry.name

    def prepared(self) -> list[str]:
        """Workspaces without a record: written by hand, or brought along with the project's files."""
        with self.files.held() as files:
            bare = set(filter(is_task_id, files.names())) - set(self.ids())
            return sorted(name for name in bare if files.is_file(f"{name}/HANDOFF.md"))

    def log_size(self, task_id: str) -> int:
        """The size of its log, which changes with every event."""
        try:
            return os.stat(f"{self.record(task_id)}/{log.LOG_FILE}").st_size
        except OSError:
            return -2

    def recorded(self, task_id: str) -> Task:
        """What is recorded about one task now."""
        events = log.read_log(self.record(task_id))
        if not events:
            raise TaskNotFound(f"There is no task {task_id}.", "See them all: overhand list")
        return fold(task_id, events)

    def task(self, task_id: str) -> Task:
        """What is recorded about one task now, or a prepared one: its title is in its HANDOFF.md."""
        try:
            return self.recorded(task_id)
        except TaskNotFound:
            raw = self.workspace_files(task_id).read("HANDOFF.md")
            if raw is None:
                raise
        from overhand.documents import parse_handoff

        task = fold(task_id, [])
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
                    raw = log.raw(self.record(task_id))[0]
                except StorageFailed:
                    continue
                first = raw[: raw.find(b"\n") + 1].rstrip()
                if first:  # nothing, as long as it is being made
                    parent = fold(task_id, log.parse_log(first + b"\n")).parent
                    self._parents[task_id] = parent.run if parent else ""
        return self.tasks(task_id for task_id in there if self._parents.get(task_id) == run_id)

    def with_processes(self) -> list[Task]:
        """Tasks with a run that is not recorded as ended, or that left processes behind."""
        return self.tasks(t for t in self.ids() if log.had_processes(self.record(t)))

    def at_work(self, since: float = float("inf")) -> list[Task]:
        """Tasks with a run that is not recorded as ended, or that may have ended after `since` (seconds since 1970)."""
        return self.tasks(t for t in self.ids() if log.was_at_work(self.record(t), since))

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
        if is_task_id(handle) and self._is_there(handle):
            return handle
        return self._by_title(handle)

    def _is_there(self, task_id: str) -> bool:
        """Whether a handle leads to a task: a process killed while making some leaves handles and empty folders."""
        is_recorded = os.path.exists(f"{self.record(task_id)}/{log.LOG_FILE}")
        return is_recorded or self.workspace_files(task_id).is_file("HANDOFF.md")

    def _by_title(self, part: str) -> str:
        wanted = "" if part.startswith(("/", ".", "~")) else slug(part)  # a path is no part of a title
        named = [(slug(task.title), task) for task in self.tasks([*self.ids(), *self.prepared()])]
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
            with open(f"{self.home}/handles", encoding="utf-8", errors="replace") as file:
                lines = [line.split() for line in file.read().splitlines()]
        except OSError:
            return {task.handle: task.id for task in self.tasks() if task.handle}
        return {int(pair[0]): pair[1] for pair in lines if len(pair) == 2 and pair[0].isdigit()}

    def _take_handles(self, task_ids: Sequence[str]) -> list[int]:
        path = f"{self.home}/handles"
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
        if not self._ensured:
            self.ensure()
        try:
            made = []
            with self.files.held() as files:
                task_ids.extend(self._new_folder(one.agent, files) for one in new)
                numbers = self._take_handles(task_ids)
                for task_id in task_ids if env is not None else ():
                    keep_environment(self, task_id, env or {})
                for task_id, number, one in zip(task_ids, numbers, new, strict=True):
                    made.append(self._new_task(task_id, number, one, by, start=start, sync=alone))
                    _show_handoff(files, task_id, one)
            if sync and not alone:
                self.sync(task_ids)
            return made
        except BaseException as error:
            import shutil

            for task_id in task_ids:
                if self.log_size(task_id) <= 0:  # its first event is not on disk
                    drop_environment(self, task_id)
                    shutil.rmtree(self._new_record(task_id), ignore_errors=True)
                    self.files.remove_tree(task_id)
            if isinstance(error, OSError):
                raise storage_failed(error, "Cannot record the task") from error
            raise

    def _new_task(self, task_id: str, number: int, new: NewTask, by: By, *, start: bool, sync: bool) -> Task:
        """The record appears whole, by a rename: a killed process leaves a task or nothing."""
        import hashlib

        record = self._new_record(task_id)
        write_new(f"{record}/HANDOFF.md", new.handoff)
        for name, raw in new.files.items():
            if raw:
                write_new(f"{record}/{name}", raw)
        digest = hashlib.sha256(new.handoff.encode("utf-8", "replace")).hexdigest()
        created = {"v": 1, "task": task_id, "handle": number, **new.created, "agent": new.agent, "handoff": digest}
        events = stamp_events((Created(**created), Accepted())[: 1 + start], by)
        task = Task(task_id)
        for event in events:
            add(task, event)
        task.log_mark = log.create(record, log_data(events), sync=sync)
        os.rename(record, self.record(task_id))
        return task

    def _new_folder(self, agent: str, files: Beneath) -> str:
        """Make the folders of a new task; within a second, those of one name are numbered.

        The one in the project comes first, for it keeps another user of this checkout from taking the same id.
        """
        second = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        if self._numbered[0] != second:
            self._numbered = second, {}
        first, numbers = f"{agent}-{second}", self._numbered[1]
        number = numbers.get(agent, 0) + 1
        while True:
            task_id = first if number == 1 else f"{first}-{number}"
            try:
                if self._make_folders(task_id, files):
                    numbers[agent] = number
                    return task_id
                number += 1
            except StorageFailed as error:
                if not isinstance(error.__cause__, FileNotFoundError):
                    raise
                self.ensure()  # another process took everything away
                files = self.files

    def _make_folders(self, task_id: str, files: Beneath) -> bool:
        """Make both folders of a new task; False if the id is taken."""
        if not files.make_new_folder(task_id):
            return False
        if os.path.exists(self.record(task_id)):  # its workspace was cleaned away
            files.remove_tree(task_id)
            return False
        try:
            os.mkdir(self._new_record(task_id), 0o700)
        except FileExistsError:
            return False
        except OSError as error:
            raise storage_failed(error, "Cannot make a folder for the task") from error
        return True

    def _new_record(self, task_id: str) -> str:
        """Where a task's record is made, before it gets its name."""
        return f"{self.home}/tasks/.new-{_checked_task(task_id)}"

    def furnish(self, task_id: str) -> None:
        """Make the workspace as an agent needs it, from the record where the project's folder was cleaned."""
        files, record = self.workspace_files(task_id), self.record(task_id)
        files.make_folder("ipc", aside=True)
        for name in ("HANDOFF.md", INPUTS_FILE):
            if not files.exists(name) and (raw := read_file(f"{record}/{name}")) is not None:
                files.write(name, raw)

    def adopt_folder(self, task_id: str, handoff: bytes, created: dict[str, Any], by: By) -> None:
        """Record a prepared workspace as a task, once: its record appears whole, by a rename."""
        import shutil

        self.ensure()
        (number,) = self._take_handles([task_id])
        event = Created(**{"v": 1, "task": task_id, "handle": number, **created})
        record = self.record(task_id)
        new = f"{self.home}/tasks/.new-{task_id}-{random_text(6)}"
        try:
            os.mkdir(new, 0o700)
            write_new(f"{new}/HANDOFF.md", handoff)
            log.create(new, log_data(stamp_events([event], by)), sync=True)
            os.rename(new, record)
        except OSError as error:
            shutil.rmtree(new, ignore_errors=True)
            if self.log_size(task_id) <= 0:  # else another process was faster
                raise storage_failed(error, "Cannot record the task") from error

    def sync(self, task_ids: Collection[str]) -> None:
        """Flush the logs of these tasks to the disk, all at once."""
        if len(task_ids) == 1:
            log.sync(self.record(next(iter(task_ids))))
        elif task_ids:
            log.sync_all(self.home)

    def lock(self, task_id: str, by: By, patience: float = LOCK_PATIENCE, *, known: Task | None = None) -> LockedTask:
        """Hold a task's lock: the task inside is the truth until it is released.

        That is `known` itself, unless its log has grown since.
        """
        return LockedTask(self, task_id, by, patience, known)

    def subscribe(self, task_ids: Iterable[str]) -> Bell:
        """A bell that rings when something is appended to one of these tasks' logs."""
        bell = Bell()
        for task_id in task_ids:
            folder = f"{self.record(task_id)}/{WAITERS}"
            try:
                if not os.path.isdir(folder):
                    os.mkdir(folder)  # not the record of a task that has none
                bell.hang(folder)
            except OSError:
                continue  # a folder that we cannot write to is polled
        return bell

    def wake_waiters(self, task_id: str) -> None:
        """Ring for every process that waits for this task."""
        ring_bells(f"{self.record(task_id)}/{WAITERS}")


def _show_handoff(files: Beneath, task_id: str, new: NewTask) -> None:
    """Put what the agent is given into its workspace; what is missing is written by `furnish` before the first run."""
    try:
        files.write(f"{task_id}/HANDOFF.md", new.handoff)
        if inputs := new.files.get(INPUTS_FILE):
            files.write(f"{task_id}/{INPUTS_FILE}", inputs)
    except OverhandError:
        return


def _checked_task(task_id: str) -> str:
    if not is_task_id(task_id):
        raise BadInput(f"{task_id!r} cannot be the id of a task.", "See them all: overhand list")
    return task_id


def _checked_run(run_id: str) -> str:
    if not is_run_id(run_id):
        raise BadInput(f"{run_id!r} cannot be the id of a run.")
    return run_id


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
