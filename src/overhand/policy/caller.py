"""The caller of a verb, a person or a recorded run, and the actor that carries out what it asks for.

To find the caller, the kernel's evidence comes before what an agent claims.
"""

from __future__ import annotations

import os
from contextvars import ContextVar

from overhand.errors import NotAllowed, OverhandError, Refused, StaleRun
from overhand.system import (
    LINUX,
    ancestors_of,
    boot_id,
    environment_of,
    home_of_run,
    known_sessions,
    load_line,
    lock_holder,
    pid_namespace,
    secret_variables,
    shim_place,
    start_time,
)
from overhand.words import is_run_id, is_task_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from overhand.policy.config import Config
    from overhand.record import By, Run, Store, Task

_FIRST_NAMESPACE = "4026531836"  # of the machine: nothing is outside it
_UNSEEN = ("", "")  # the caller may be part of a run that cannot be seen from here

# the run that a function agent of this process is in: (project, task, run)
inside_run: ContextVar[tuple[str, str, str] | None] = ContextVar("inside_run", default=None)
# the call from inside a run that the supervisor carries out in this thread: its id is noted in every event
current_call: ContextVar[str] = ContextVar("current_call", default="")


class Caller:
    """A person, a recorded run, or a process of which neither is known."""

    __slots__ = (
        *("attached", "can_delegate", "current", "depth", "left", "level", "live", "path", "run", "shielded", "task"),
        "unknown",
    )

    def __init__(
        self,
        task: str | None = None,
        run: str | None = None,
        depth: int = 0,
        path: tuple[str, ...] = ("user",),
        left: float | None = None,
        live: bool = True,
        can_delegate: bool = True,
        level: str = "full",
        shielded: bool = False,
        current: bool = True,
        attached: bool = False,
        unknown: str = "",
    ) -> None:
        self.task, self.run, self.depth, self.path = task, run, depth, path
        self.left = left  # seconds until the calling run's deadline
        self.live, self.can_delegate = live, can_delegate
        self.level = level  # what it may do itself, and so the most that it can grant
        self.shielded = shielded  # and so what it delegates must be
        self.current = current  # the run holds its task
        self.attached = attached  # a function in a Python process: no supervisor looks after it
        self.unknown = unknown  # why it may be a run although none is found

    @property
    def is_person(self) -> bool:
        """Whether the call comes from no run."""
        return self.run is None and not self.unknown

    def by(self, via: str) -> dict[str, Any]:
        if self.run:
            by = {"kind": "run", "run": self.run, "via": via}
            return {**by, "call": call} if (call := current_call.get()) else by
        if self.unknown:
            return {"kind": "unknown", "via": via}
        return {"kind": "person", "user": user_name(), "via": via}


class Actor:
    """The first argument of every action: store, settings, the name that goes into the log, and the environment."""

    __slots__ = ("_secrets", "by", "config", "env", "spare", "store", "sync_results")

    def __init__(
        self,
        store: Store,
        config: Config,
        by: By,
        env: Mapping[str, str] | None = None,
        *,
        sync_results: bool = True,
        spare: frozenset[int] = frozenset(),
    ) -> None:
        self.store, self.config, self.by = store, config, by
        self.env = os.environ if env is None else env  # of what is started
        self.sync_results = sync_results  # False in a batch, which syncs its results to disk together
        self.spare = spare  # processes that are never members of a run: the supervisor
        self._secrets: dict[str, str] | None = None

    @property
    def secrets(self) -> dict[str, str]:
        """The variables of the environment that must not be shown; `os.environ` is slow to walk, so it is done once."""
        if self._secrets is None:
            self._secrets = secret_variables(self.env)
        return self._secrets

    def config_of(self, task: Task) -> Config:
        """The settings in force for this task."""
        from overhand.policy.config import config_of_task  # a verb that only finds its caller does without

        return config_of_task(self.store.root, self.config, task.settings)


def user_name() -> str:
    if named := os.environ.get("LOGNAME") or os.environ.get("USER"):
        return named
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def find_caller(store: Store) -> Caller:
    """Find the caller: by context, by descent from a run's shim, or by the marker in an ancestor's environment.

    A process that may be part of a run is no person: one in another pid namespace than a living run, about which no
    supervisor can say anything, and one whose folder or environment is that of a task without a record here.
    """
    signs = _signs(store)
    for task_id, run_id in signs:
        try:
            task = store.recorded(task_id)
        except OverhandError:
            continue
        run = task.run(run_id)
        if run is not None:
            return _from_run(store, task, run)
    if (here := inside_run.get()) and here[0] == store.root:  # a run is never a person
        raise StaleRun(f"There is no run {here[2]} of task {here[1]}.", "Nothing more is to be done here: end.")
    return _claimed(store) or Caller(unknown=_why_unknown(store, signs))


def _claimed(store: Store) -> Caller | None:
    """The run that the environment names, where its record cannot be read, as in some sandboxes: no person."""
    task_id, run_id = (os.environ.get(name, "") for name in ("OVERHAND_TASK", "OVERHAND_RUN"))
    if home_of_run() != store.root or not (is_task_id(task_id) and is_run_id(run_id)):
        return None
    there = run_id in store.workspace_files(task_id).names("runs") and store.log_size(task_id) < 0
    return Caller(task_id, run_id, can_delegate=False, level="read") if there else None


def require_readable_record(store: Store) -> None:
    """Refuse to read what a sandbox hides from its run: it would look as if there were no task."""
    if os.environ.get("OVERHAND_RUN") and inside_run.get() is None and _claimed(store) is not None:
        raise Refused(
            f"The record of this project cannot be read from inside this run: its sandbox hides {store.home}.",
            "Verbs that change something work, and so does `wait`: they are carried out outside. To read, ask the "
            "person who started the run to let the sandbox see that folder.",
        )


def _why_unknown(store: Store, signs: list[tuple[str, str]]) -> str:
    """Why the caller may be a run although none was found; empty for a person."""
    if inside_run.get() is not None:
        return ""
    marker = os.environ.get("OVERHAND_RUN", "")
    if marker and _is_unrecorded_workspace(store, os.environ.get("OVERHAND_WORKSPACE", "")):
        return f"this is called with the environment of run {marker}, which has no record here"
    if _is_unrecorded_workspace(store, _current_folder()):
        return "this is called in the workspace of a task without a record here"
    if _UNSEEN in signs:
        return "a run is alive outside this pid namespace, and no supervisor says whether it calls"
    return ""


def _current_folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


def _is_unrecorded_workspace(store: Store, folder: str) -> bool:
    """Whether this folder is in the workspace of a task of this project that has no record."""
    before = f"{store.workspaces}/"
    name = folder.removeprefix(before).partition("/")[0]
    return folder.startswith(before) and is_task_id(name) and not os.path.exists(store.record(name))


def _signs(store: Store) -> list[tuple[str, str]]:
    """All evidence for the run we are in, the kernel's before the environment's."""
    here = inside_run.get()
    if here is not None:
        return [here[1:]] if here[0] == store.root else []
    pid = os.getpid()
    if pid not in store.calling_runs:  # a process stays in the run that it was started in
        found = signs_of_process(store, pid)
        if not any(os.path.exists(store.record(task)) for task, _ in found):  # a marker may be false
            found += _signs_from_outside(store)
        store.calling_runs[pid] = found
    return store.calling_runs[pid]


def _signs_from_outside(store: Store) -> list[tuple[str, str]]:
    """The run that this process is part of although it does not see its ancestors: as the supervisor sees them."""
    here = pid_namespace()
    if not LINUX or here == _FIRST_NAMESPACE or not _lives_elsewhere(store, here):
        return []
    from overhand.system import held_lives

    for pid in ancestors_of(os.getpid()):
        if found := [sign for life in held_lives(pid) if (sign := run_of_place(store, os.path.dirname(life)))]:
            return found
    answer = store.ask(store, {"ask": "caller"}) if store.ask else None
    try:
        told = load_line(answer.decode()) if answer else None
        return [(str(task), str(run)) for task, run in told] if isinstance(told, list) else [_UNSEEN]
    except (ValueError, TypeError):
        return [_UNSEEN]


def _lives_elsewhere(store: Store, here: str) -> bool:
    """Whether processes of a run are alive in another pid namespace than this one."""
    return any(
        run.pidns not in ("", here) and boot_id() in ("", run.boot) and store.is_alive(task.id, run)
        for task in store.with_processes()
        for run in task.runs
        if not run.has_ended or run.leftovers
    )


def signs_of_process(store: Store, pid: int) -> list[tuple[str, str]]:
    """All evidence for the run that a process is part of, from the processes above it."""
    chain = ancestors_of(pid)
    supervisor = lock_holder(f"{store.own}/lock")
    if supervisor in chain:  # its ancestors only happened to start it
        chain = chain[: chain.index(supervisor)]
    found = [sign for pid in chain if (sign := run_of_place(store, shim_place(pid)))]
    found += _by_record(store, chain) if not found else []
    for one in chain:
        run_id, task_id = environment_of(one, "OVERHAND_RUN"), environment_of(one, "OVERHAND_TASK")
        if run_id and task_id and is_run_id(run_id) and is_task_id(task_id):
            found.append((task_id, run_id))
    own = os.environ.get("OVERHAND_TASK", ""), os.environ.get("OVERHAND_RUN", "")
    if pid == os.getpid() and is_task_id(own[0]) and is_run_id(own[1]):
        found.append(own)
    return found


def run_of_place(store: Store, place: str | None) -> tuple[str, str] | None:
    """Task and run of a shim's folder in this project; a check of a run counts as that run."""
    before = f"{store.home}/tasks/"
    if place is None or not os.path.realpath(place).startswith(before):
        return None
    parts = os.path.realpath(place)[len(before) :].split("/")
    if len(parts) >= 3 and parts[1] == "runs" and is_run_id(parts[2]):
        return parts[0], parts[2]
    return None


def _by_record(store: Store, chain: list[int]) -> list[tuple[str, str]]:
    """Runs found by record: an orphan of a killed shim by its session, an in-process function by its process."""
    own = os.getsid(chain[0])
    found = []
    for task in store.at_work():
        run = task.current_run
        if run is None or run.has_ended:
            continue
        leader = known_sessions(store.run_folder(task.id, run.id)).get(own)
        orphan = leader is not None and start_time(own) in (None, leader)
        if orphan or (run.attached and run.shim in chain[1:]):
            found.append((task.depth, task.id, run.id))
    return [(task_id, run_id) for _, task_id, run_id in sorted(found, reverse=True)]


def _from_run(store: Store, task: Task, run: Run) -> Caller:
    import time

    left = None
    if run.boot == boot_id() and run.timeout:
        left = max(0.0, run.mono + run.timeout + run.waited - time.monotonic())
    return Caller(
        task=task.id,
        run=run.id,
        depth=task.depth,
        path=tuple(task.path),
        left=left,
        live=not run.has_ended and store.is_alive(task.id, run),
        can_delegate=bool(task.settings.get("can_delegate", True)),
        level=task.level,
        shielded=run.is_shielded or bool(task.settings.get("shielded")),
        current=task.current_run is run and not run.has_ended,
        attached=run.attached and not run.opened,
    )


def require_known(client: Caller, what: str) -> None:
    if client.unknown:
        hint = "Type it in the project's top folder, outside any sandbox."
        raise NotAllowed(f"{what} is for a person or a known run: {client.unknown}.", hint)


def require_person(client: Caller, what: str) -> None:
    require_known(client, what)
    if not client.is_person:
        raise NotAllowed(
            f"{what} is for a person; this was called from inside run {client.run}.", "Ask the person who started it."
        )
