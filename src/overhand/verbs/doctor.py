"""`doctor`: diagnose problems and suggest fixes; `--fix` asks before each step."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from overhand.agents import agent_files, installable, load_agent, lookup, runnable_files
from overhand.documents import decode_text, kind_of_tag, parse_request
from overhand.errors import Busy, OverhandError, Refused
from overhand.items import is_tag_behind, search_tags, sync_tag
from overhand.policy import Config, find_caller, load_config, require_person, untrusted_files
from overhand.record import WORKSPACES
from overhand.runs import living_members, probed_shield
from overhand.supervisor import hand_to_supervisor, running_supervisor
from overhand.system import (
    Beneath,
    epoch_of,
    find_program,
    is_stopped,
    linked_worktrees,
    machine_id,
    read_file,
    tracked_files,
)
from overhand.verbs.tasks import looks_dead, needs_supervisor, refresh_task
from overhand.verbs.verb import Reply, Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.documents import Tag
    from overhand.policy import Config
    from overhand.record import Task

_PATIENCE = 20.0  # seconds


def doctor(session: Session, fix: bool = False) -> Reply:
    """Look at everything; with `fix`, offer repairs that lose nothing."""
    if fix:
        require_person(find_caller(session.store), "Mending a project")
        if session.confirm is None:
            raise Refused(
                "`doctor --fix` asks before it does anything, and there is nobody to ask.",
                "Run it on a terminal; without --fix it only looks.",
            )
    found = list(all_findings(session))
    done, failed = _mend(session, found) if fix else ([], [])
    if done:
        found = list(all_findings(session))
    problems = sum(one.level == PROBLEM for one in found)
    payload = {
        "schema": "overhand.doctor/1",
        "problems": problems,
        "notes": len(found) - problems,
        "findings": [one.as_json() for one in found],
        "fixed": done,
        "failed": failed,
        **facts(session),
    }
    return Reply(payload, 1 if problems else 0)


def _mend(session: Session, found: list[Finding]) -> tuple[list[str], list[str]]:
    """What was repaired, and what could not be; nothing here removes anything."""
    done: list[str] = []
    failed: list[str] = []
    for one in found:
        if one.fix not in REMEDIES or session.confirm is None:
            continue
        if not session.confirm(f"{one.what}\n  {REMEDIES[one.fix]}?"):
            continue
        try:
            _repair(session, one)
            done.append(one.what)
        except OverhandError as error:
            failed.append(f"{one.what} {error.message}")
    return done, failed


REMEDIES = {
    "settle": "Record how it ended",
    "supervise": "Start a supervisor",
    "ignore": "Write it",
    "tag": "Bring the tag in line with the record",
}


def _repair(session: Session, finding: Finding) -> None:
    store = session.store
    if finding.fix == "supervise":
        hand_to_supervisor(store, [task.id for task in store.tasks() if needs_supervisor(task)])
    elif finding.fix == "ignore":
        store.files.write(".gitignore", "*\n")
    elif finding.fix == "tag":
        sync_tag(store, find_caller(store).by(session.via), finding.task)
    else:
        session.patience = _PATIENCE
        task = refresh_task(session, store.task(finding.task))
        current = task.current_run
        if current is not None and not current.has_ended and looks_dead(session, task):
            raise Busy("The supervisor has not come to it yet.")


PROBLEM, NOTE = "problem", "note"
_LOCAL = "Keep records on a local disk: OVERHAND_STATE=/local/dir"
_LARGE = 1_000_000_000
_OLD = 3600.0
_DAY = 86400.0
_SHOWN = 20  # tasks that one finding names
TOOLS = {
    "git": "without it nobody can tell what a run changed",
    "rg": "with ripgrep tags are found many times faster",
    "tmux": "runs can be watched in windows where it is there",
}

CODES = {
    **{f"no-{name}": f"{name} is not installed: {why}" for name, why in TOOLS.items()},
    "stopping": "stopping a run is best effort on this system",
    "logind": "this machine ends the processes of who logs out",
    "network-disk": "the project is on a network file system",
    "locks": "a lock that one process holds was given to another, or cannot be taken at all",
    "settings": "the settings cannot be read",
    "untrusted": "agent files or settings that nobody has trusted",
    "not-ignored": "git would see the tasks",
    "no-folder": "a folder of Overhand in the project is a link, which is not followed, or no folder",
    "tracked": "git tracks files of tasks",
    "old-layout": "a record in the project, as older versions kept it",
    "agent": "an agent file with problems",
    "no-agent": "neither an agent file nor an agent program",
    "login": "an agent program without a login",
    "supervisor-stopped": "the supervisor's process is stopped",
    "no-supervisor": "tasks wait for a supervisor, and none runs",
    "unreadable": "a task or a Markdown file that cannot be read",
    "damaged-log": "a line of a task's log that cannot be read",
    "damaged-plan": "a line of a plan's events that cannot be read, or a plan that is not the accepted one",
    "elsewhere": "a run on another machine",
    "dead-run": "a run whose process is gone, and whose end is not recorded",
    "leftovers": "processes that outlived their run",
    "lost-plan": "nodes of a plan whose own folder is gone",
    "open-job": "a job elsewhere that was neither fetched nor stopped",
    "tag-behind": "a tag that does not show yet what is recorded",
    "outside-claim": "an item that somebody claimed to work on it without a run, more than a day ago",
    "unrecorded-claim": "an item that is claimed, and no task is recorded for it",
    "stale-claim": "an item that is claimed for a task that has ended, or is not here",
    "missing-response": "a request that is done and does not say what came of it",
    "orphan-worktree": "a git worktree without a task, or without its folder",
    "stray-files": "temporary files of killed writers",
    "large": "tasks take more than a gigabyte",
    "no-shield": "runs and checks cannot be kept from writing the record on this machine",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem or note: what is the case, why it matters, what to type."""

    code: str
    what: str
    why: str
    next: str
    level: str = PROBLEM
    task: str = ""
    fix: str = ""  # a key of REMEDIES

    def as_json(self) -> dict[str, Any]:
        shown = {"code": self.code, "level": self.level, "what": self.what, "why": self.why, "next": self.next}
        return {**shown, "task": self.task or None, "fix": self.fix or None}


def damage(session: Session, task: Task) -> Iterator[Finding]:
    """Lines of its log that are no events; the task is not started again before a person has looked."""
    where = session.store.record(task.id)
    for number, why in task.damage:
        yield Finding(
            "damaged-log",
            f"{where}/log.jsonl, line {number}: {why}.",
            f"Task {task.name} may have done more than its log says; it is not started again.",
            f"Put the line right, or delete it: sed -n {number}p {where}/log.jsonl; or have the task done anew: "
            f"overhand delegate --handoff {where}/HANDOFF.md",
            task=task.id,
        )


def plan_damage(session: Session, task: Task) -> Iterator[Finding]:
    """Lines of a plan's events that are left out, and a plan that is not the one that was accepted."""
    from overhand.plans import accepted_plan, plan_event
    from overhand.record import parse_log

    if not task.is_plan:
        return
    where = session.store.record(task.id)
    anew = f"run it anew: overhand plan run FILE (its text: {where}/plan.source)"
    try:
        nodes = accepted_plan(session.store, task).nodes
    except (OverhandError, ValueError) as error:
        why = f"Plan {task.name} is not carried on."
        yield Finding("damaged-plan", f"{where}/plan.json: {error}", why, anew.capitalize(), task=task.id)
        return
    for number, found in enumerate(parse_log(read_file(f"{where}/plan.jsonl") or b""), 1):
        event = plan_event(found)
        if event is not None and (not event.node or event.node in nodes):
            continue
        what = "it is no event of a plan" if event is None else f"the plan has no node {event.node[:100]!r}"
        yield Finding(
            "damaged-plan",
            f"{where}/plan.jsonl, line {number}: {what}.",
            f"Plan {task.name} goes on without it, and may start a node again.",
            f"Put the line right, or delete it: sed -n {number}p {where}/plan.jsonl; or {anew}",
            task=task.id,
        )


def all_findings(session: Session) -> Iterator[Finding]:
    """All findings, the machine first."""
    yield from tools()
    yield from locks(session)
    yield from shield(session)
    config = None
    try:
        config = load_config(session.root)
    except OverhandError as error:
        hint = "Mend .overhand/config.toml; the reference page lists all settings."
        yield Finding("settings", error.message, "Nothing new can be started.", hint)
    yield from project(session, config)
    states: list[Task] = []
    for name in sorted(session.store.ids()):
        try:
            states.append(session.store.task(name))
            yield from damage(session, states[-1])
            yield from plan_damage(session, states[-1])
        except OverhandError as error:
            where = session.store.record(name)
            yield Finding("unreadable", f"{where}: {error.message}", "It is no task.", f"ls -la {where}")
    yield from supervisor(session, states)
    for state in states:
        yield from task(session, state)
    yield from _lost_plans(states, set(session.store.ids()))
    yield from leftover_files(session, {state.id for state in states})
    yield from tag_findings(session, states)


def tools() -> Iterator[Finding]:
    """Programs that Overhand uses if they are installed, and what this system cannot do."""
    for name, why in TOOLS.items():
        if find_program(name) is None:
            sentence = f"{why[:1].upper()}{why[1:]}."
            yield Finding(f"no-{name}", f"{name} is not installed.", sentence, f"Install {name}.", NOTE)
    if sys.platform == "darwin":
        why = "A process that leaves its session and its environment is not found again here."
        yield Finding("stopping", "On this system stopping a run is best effort.", why, "overhand list --live", NOTE)
    setting = (read_file("/etc/systemd/logind.conf") or b"").replace(b" ", b"")
    if b"\nKillUserProcesses=yes" in setting:
        why = "Agents do not outlive your session."
        yield Finding("logind", "This machine ends all processes of who logs out.", why, "loginctl enable-linger", NOTE)


def shield(session: Session) -> Iterator[Finding]:
    """Whether runs can be shielded on this machine."""
    if not session.store.exists():
        return
    found = probed_shield(session.store)
    if not found["held"]:
        what = f"Runs cannot be shielded here: {found['why']}."
        why = "A program that goes looking for the record, your settings or other tasks can change them."
        yield Finding("no-shield", what, why, "See docs/security.md, «The shield».", NOTE)


def locks(session: Session) -> Iterator[Finding]:
    """Whether file locks in the record work between processes."""
    from overhand.verbs.setup import NETWORK_DISKS, file_system

    folder = session.store.own
    if not os.path.isdir(folder):
        return
    kind = file_system(folder)
    if kind in NETWORK_DISKS:
        why = "Locks there cannot be trusted, so two machines could run the same task."
        yield Finding("network-disk", f"The record of this project is on {kind}.", why, _LOCAL)
    if trouble := broken_locks(folder):
        why = "Only they say who is alive; tasks could be run twice."
        yield Finding("locks", f"File locks do not work in {folder}: {trouble}.", why, _LOCAL)


_TRY = "import fcntl,sys\ntry: fcntl.flock(open(sys.argv[1]),6)\nexcept BlockingIOError: sys.exit(3)"


def broken_locks(folder: str) -> str:
    """What is wrong with flock in a folder: while we hold a lock, a child must not get it; afterwards it must."""
    import fcntl
    import subprocess

    path = f"{folder}/.probe-{os.getpid()}"
    child = [sys.executable, "-ISc", _TRY, path]
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = subprocess.run(child, check=False, timeout=20, capture_output=True).returncode
            fcntl.flock(fd, fcntl.LOCK_UN)
            free = subprocess.run(child, check=False, timeout=20, capture_output=True).returncode
        finally:
            os.close(fd)
            os.unlink(path)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    if held != 3:
        return "another process got a lock that we hold"
    return "" if free == 0 else "a lock that was given back cannot be taken"


def project(session: Session, config: Config | None) -> Iterator[Finding]:
    """Its trust, its agents and their logins."""
    if untrusted := untrusted_files(session.root, runnable_files(session.root)):
        why = "What they say is not run."
        yield Finding("untrusted", f"Nobody has trusted {', '.join(untrusted)}.", why, "overhand trust", NOTE)
    if session.store.exists() and not session.store.files.exists(".gitignore"):
        why = "Tasks could be committed by mistake."
        told = "echo '*' > .agent-workspaces/.gitignore"
        yield Finding("not-ignored", ".agent-workspaces/.gitignore is missing.", why, told, NOTE, fix="ignore")
    if tracked := tracked_files(session.root, session.store.workspaces):
        why = "Every clone of this repository gets your tasks' documents."
        told = "git rm -r --cached .agent-workspaces"
        yield Finding("tracked", f"git tracks {len(tracked)} files in .agent-workspaces.", why, told)
    ways = map(Beneath(session.root).in_the_way, (WORKSPACES, ".overhand/agents", ".overhand/plans"))
    for blocker in dict.fromkeys(filter(None, ways)):
        what = f"{session.store.relative(blocker)} is a link or no folder."
        why = "Links are not followed: nothing in it is read or written."
        yield Finding("no-folder", what, why, f"mv {blocker} {blocker}.old && mkdir {blocker}")
    if session.store.files.exists(".supervisor"):
        what = ".agent-workspaces/.supervisor is the record of an older version, or came with the project's files."
        why = "Nothing of it is read; its tasks are only prepared."
        yield Finding("old-layout", what, why, "overhand list --prepared", NOTE)
    known = agent_files(session.root)
    for name, path in known.items() if config else ():
        try:
            load_agent(session.root, path, config or Config())
        except OverhandError as error:
            yield Finding("agent", error.message, f"Nothing can be handed to {name}.", f"overhand agents {name}")
    there = {name: driver.login for name, driver in installable().items() if find_program(driver.program)}
    if not known and not there:
        why = "Nothing can be handed over."
        yield Finding("no-agent", "There is no agent here, and no agent program.", why, "overhand agents", NOTE)
    for name, login in there.items():
        if login and login.state()[0] is False:
            what = f"{name} is installed, but no login was found."
            yield Finding("login", what, "Its runs would fail.", login.command, NOTE)


def supervisor(session: Session, states: list[Task]) -> Iterator[Finding]:
    """Whether a supervisor works on the tasks that need one."""
    store = session.store
    pid = running_supervisor(store) if os.path.isdir(store.own) else None
    waiting = [state for state in states if needs_supervisor(state)]
    if pid is not None and is_stopped(pid):
        why = "Nothing is started, judged or stopped until it goes on."
        yield Finding("supervisor-stopped", f"The supervisor (process {pid}) is stopped.", why, f"kill -CONT {pid}")
    elif pid is None and waiting:
        shown = ", ".join(str(state.handle) for state in waiting[:5])
        more = f", … {len(waiting)} in all" if len(waiting) > 5 else ""
        what = f"No supervisor runs, and there is work that waits for one: {shown}{more}."
        why = "Any verb that acts starts one; until then nothing happens."
        yield Finding("no-supervisor", what, why, f"overhand show {waiting[0].handle}", fix="supervise")


def task(session: Session, state: Task) -> Iterator[Finding]:
    """A task whose record and processes disagree."""
    handle = state.name
    current = state.current_run
    if current is not None and current.machine not in ("", machine_id()):
        why = "Whether it lives can only be told there."
        yield Finding("elsewhere", f"Task {handle} runs on another machine.", why, f"overhand show {handle}", NOTE)
    elif current is not None and not current.has_ended and looks_dead(session, state):
        what = f"Task {handle}: the process of run {current.id} is gone, and its end is not recorded."
        why = "It looks as if it were at work."
        yield Finding("dead-run", what, why, f"overhand show {handle}", task=state.id, fix="settle")
    supervisor = frozenset(filter(None, [running_supervisor(session.store)]))  # a verb inside the run may start it
    for run_id, pids in living_members(session.store, state, supervisor).items():
        what = f"Task {handle}: processes of run {run_id} are still there: {', '.join(map(str, pids[:10]))}."
        why = "They may still change files; the task is not queued again while they live."
        yield Finding("leftovers", what, why, f"overhand stop {handle}", task=state.id)
    if current is None and state.runs:
        driver = lookup(state.runs[-1].driver)
        open_job = driver.open_job if driver else None
        shown = open_job(session.store.record(state.id)) if open_job else None
        if shown is not None:
            what = f"Task {handle}: its job elsewhere ({shown}) was neither fetched nor stopped."
            yield Finding("open-job", what, "It may still run there.", f"overhand resume {handle}", NOTE)
    if state.item is not None and is_tag_behind(state):
        what = f"Task {handle}: the tag in {state.item.path} does not show yet what is recorded."
        why = "The record counts, but people read the tag."
        told = f"overhand show {handle}"
        yield Finding("tag-behind", what, why, told, NOTE, task=state.id, fix="tag")


def _lost_plans(states: list[Task], there: set[str]) -> Iterator[Finding]:
    """Nodes whose plan is gone."""
    from overhand.plans import node_situation

    lost: dict[str, list[Task]] = {}
    for state in states:
        if state.node and state.parent and state.parent.task not in there:
            lost.setdefault(state.parent.task, []).append(state)
    for plan, left in lost.items():
        live = [state.name for state in left if node_situation(state) != "ended"][:_SHOWN]
        shown = ", ".join(state.name for state in left[:_SHOWN])
        what = f"The folder of plan {plan} is gone; tasks of its nodes are there: {shown}."
        why = "Nobody begins what was to follow them, or merges what they return."
        if live:
            what = f"{what} Not ended: {', '.join(live)}."
            yield Finding("lost-plan", what, why, f"overhand stop {' '.join(live)}")
        else:
            yield Finding("lost-plan", what, why, f"overhand show {left[0].name}", NOTE)


def leftover_files(session: Session, known: set[str]) -> Iterator[Finding]:
    """Worktrees without a task, temporary files of killed writers, and the size of all tasks."""
    ours = session.store.workspaces
    for tree in linked_worktrees(session.root):
        inside = tree.path.startswith(f"{ours}/") and tree.path[len(ours) + 1 :].split("/")[0] not in known
        if inside or tree.gone:
            orphan = f"The git worktree {tree.path} belongs to no task."
            what = orphan if inside else f"A git worktree is gone: {tree.path}"
            why = "Git keeps its branch reserved."
            yield Finding("orphan-worktree", what, why, f"git -C {session.root} worktree list", NOTE)
    sizes = [_sizes(files) for files in (session.store.files, Beneath(session.store.home))]
    size, stray = sum(one[0] for one in sizes), [path for one in sizes for path in one[1]]
    if stray:
        what = f"Temporary files of killed writers: {len(stray)}, such as {session.store.relative(stray[0])}."
        why = "They take room and do no harm."
        yield Finding("stray-files", what, why, f"ls -la {os.path.dirname(stray[0])}", NOTE)
    if size > _LARGE:
        what = f"The tasks of this project take {size / 1e9:.1f} GB, their record in {session.store.home} included."
        yield Finding("large", what, "Finished tasks can go.", "overhand clean --dry-run", NOTE)


def folder_size(folder: str) -> int:
    """The bytes in a folder."""
    return _sizes(Beneath(folder))[0]


def _sizes(files: Beneath) -> tuple[int, list[str]]:
    """The bytes in a folder, and its old temporary files."""
    total, stray = 0, []
    now = time.time()
    for path, found in files.every_file():
        total += found.st_size
        if path.endswith(".tmp") and now - found.st_mtime > _OLD:
            stray.append(path)
    return total, sorted(stray)


def facts(session: Session) -> dict[str, Any]:
    """Facts, without a judgement."""
    from overhand.verbs.setup import file_system

    store = session.store
    there = os.path.isdir(store.own)
    return {
        "project": session.root,
        "file_system": file_system(store.own if there else session.root),
        "supervisor": running_supervisor(store) if there else None,
        "tasks": len(list(store.ids())),
        "record": store.home if there else None,
        "bytes": _sizes(store.files)[0],
        "record_bytes": _sizes(Beneath(store.home))[0] if there else 0,
        "prepared": len(store.prepared()),
        "tools": {name: find_program(name) for name in TOOLS},
        "shield": probed_shield(store) if there else None,
    }


def tag_findings(session: Session, states: list[Task]) -> Iterator[Finding]:
    """Everything about tags."""
    by_id = {task.id: task for task in states}
    yield from _outside(states)
    unread: list[str] = []
    try:
        claimed = search_tags(session.root, "#claimed-*", warn=unread.append)
        done = search_tags(session.root, "#done-*")
    except OverhandError as error:
        hint = error.hint or "overhand tag find '#needs-*'"
        yield Finding("unreadable", error.message, "Its items are not seen.", hint)
        return
    for text in dict.fromkeys(unread):
        what, path = text.partition(";")[0], text.partition(" cannot be read")[0]
        if os.path.lexists(path):  # else it was removed meanwhile
            yield Finding("unreadable", f"{what}.", "Items in it are not seen.", f"ls -ld {path}", NOTE)
    for path, _, found in claimed:
        for tag in found:
            yield from _claim(session, by_id, path, tag)
    for path, _, found in done:
        for tag in found:
            yield from _answered(session, by_id, path, tag)


def _outside(states: list[Task]) -> Iterator[Finding]:
    """Old claims that were not made by a run: typed, or taken with `item claim`."""
    for task in states:
        item, staged = task.item, task.staged
        if item is None or task.status is not None:
            continue
        if (staged.stage if staged else item.how) not in ("claimed", "outside"):
            continue
        age = time.time() - epoch_of((staged and staged.t) or task.created)
        if age > _DAY:
            shown = task.tag or item
            name = f"{shown.path}#{item.kind}"
            what = f"Somebody claimed {name} {int(age // 3600)} hours ago, to work on it without a run."
            why = "It is never started while somebody holds it."
            yield Finding("outside-claim", what, why, f"overhand item done {name}, or: overhand item needs {name}")


def _claim(session: Session, by_id: dict[str, Task], path: str, tag: Tag) -> Iterator[Finding]:
    """A claim without a running task."""
    name = f"{os.path.relpath(path, session.root)}:{tag.line}#{kind_of_tag(tag.name)}"
    back = f"overhand item needs {name}"
    task = by_id.get(tag.task)
    if not tag.task:
        what = f"{name} is claimed, and no task is recorded for it."
        yield Finding("unrecorded-claim", what, "It waits for whoever claimed it.", back, NOTE)
    elif task is None:
        what = f"{name} is claimed for task {tag.task}, which is not here."
        yield Finding("stale-claim", what, "An id without a record is never run.", back)
    elif task.current_run is None and task.item and task.status is not None:
        what = f"{name} is claimed, but task {task.handle} ended: {task.status}."
        told = f"overhand show {task.handle}"
        yield Finding("stale-claim", what, "It looks as if somebody worked on it.", told, task=tag.task, fix="tag")


def _answered(session: Session, by_id: dict[str, Task], path: str, tag: Tag) -> Iterator[Finding]:
    """A request that is done, for which a task is recorded, must say what came of it."""
    task = by_id.get(tag.task)
    if task is None or not tag.on_tags_line or task.status != "completed":
        return
    text, _ = decode_text(read_file(path) or b"")
    if not parse_request(text)[0].responses:
        what = f"{os.path.relpath(path, session.root)} is done, but has no `## Response`."
        why = "Who asked does not see what came of it."
        yield Finding("missing-response", what, why, f"overhand show {task.handle} --output", NOTE, task=tag.task)
