"""The headline screen: what needs you, what works, what is ready, each with the command to type."""

from __future__ import annotations

import os
import time

from overhand.errors import OverhandError, storage_failed
from overhand.record import Overview
from overhand.system import boot_id, epoch_of, has_live_holder, machine_id, read_file
from overhand.verbs.show import agent_activity
from overhand.verbs.tasks import look_at_task, needs_supervisor, queue, remind_supervisor, row, stamp, why_held
from overhand.verbs.verb import Reply, Session
from overhand.words import HEADLINES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from overhand.record import Question, Run, Store, Task
    from overhand.system import Beneath

    Row = dict[str, Any]

_SHOWN = {"failed": 100, "ready": 100, "done": 20}  # the newest of each; `counts` has all, `list` too
_NODES = 5  # names of nodes at work in the row of their plan
_PLAN = 1024 * 1024  # bytes of a HANDOFF.md in which its plan is looked for
_PASSING = ("age", "sign", "deadline")  # what changes by itself
_RESUMABLE = ("timeout", "answer-timeout", "budget", "killed", "lost", "error")


def status(session: Session, watch: bool = False, all: bool = False) -> Reply:
    """The whole screen; with `watch`, again whenever it changes."""
    headline = Headline(session, all=all)
    if watch:
        return Reply({"schema": "overhand.status/1"}, stream=_changes(headline))
    return Reply(headline.payload())


def _changes(headline: Headline) -> Iterator[dict[str, Any]]:
    before: object = None
    while True:
        payload = headline.payload()
        lasting = _lasting(payload)
        if lasting != before:
            before = lasting
            yield payload
        time.sleep(headline.pause)


def _lasting(payload: dict[str, Any]) -> object:
    """Without what changes by itself."""
    if "projects" in payload:
        return [_lasting(project) for project in payload["projects"]]
    rows = [one for group in payload.get("groups", {}).values() for one in group]
    items = payload.get("items")
    return payload.get("counts"), items, [{k: v for k, v in one.items() if k not in _PASSING} for one in rows]


class Headline:
    """The screen of one project, or of all, refreshed again and again."""

    def __init__(self, session: Session, *, all: bool = False) -> None:
        self.all = all
        self.projects = {session.root: ProjectStatus(session, own=True)}
        self.session = session
        self.pause = 0.5  # seconds until the next look
        self._spent = 0.0

    def payload(self) -> dict[str, Any]:
        """The screen now; a refresh after each `pause` takes about a hundredth of one core."""
        began = self._spent or time.process_time()
        if self.all:
            shown = {"schema": "overhand.status/1", "projects": [project.guarded() for project in self._everywhere()]}
        else:
            shown = {"schema": "overhand.status/1", **self.projects[self.session.root].payload()}
        self._spent = time.process_time()
        self.pause = min(5.0, max(0.5, 120 * (self._spent - began)))
        return shown

    def _everywhere(self) -> list[ProjectStatus]:
        from overhand.record import known_roots

        for one in known_roots():
            if one.root not in self.projects and not one.gone:
                self.projects[one.root] = ProjectStatus(Session(one.root, self.session.via), own=False)
        here = self.projects[self.session.root]
        return [p for p in self.projects.values() if p is not here or here.session.store.exists()]


class ProjectStatus:
    """One project's part of the screen."""

    def __init__(self, session: Session, *, own: bool) -> None:
        self.session, self.own = session, own
        self.overview = Overview(session.store)
        self._plans: dict[str, tuple[tuple[int, int], tuple[int, int, str] | None]] = {}  # by task, while unchanged

    def guarded(self) -> dict[str, Any]:
        """The same, for a project that must not hide the others."""
        try:
            return self.payload()
        except OSError as error:
            return {"project": self.session.root, **storage_failed(error, "Cannot look at it").as_json()}
        except OverhandError as error:
            return {"project": self.session.root, **error.as_json()}

    def payload(self) -> dict[str, Any]:
        """Its groups; those at rest with their newest tasks only."""
        self.overview.look()
        self._refresh()
        live = sorted(self.overview.states.values(), key=lambda s: (s.handle or 0, s.id))
        places = self._places(live)
        now = time.time()
        groups: dict[str, list[Row]] = {}
        for name in HEADLINES:
            states = [s for s in live if s.headline == name and not s.is_folded]
            if most := _SHOWN.get(name, 0):
                states = [*self.overview.newest(name, most), *states][-most:]
            groups[name] = [self._row(task, places, now) for task in states]
        counts = self.overview.counts()
        return {
            "project": self.session.root,
            "groups": groups,
            "counts": counts,
            "tasks": sum(counts.values()),
            "items": _typed(self.session.store),
            "prepared": len(self.session.store.prepared()),
        }

    def _refresh(self) -> None:
        """Refresh tasks that are not at rest; the record of a supervised run is only a moment behind."""
        states, store = self.overview.states, self.session.store
        moving = [task for task in states.values() if needs_supervisor(task)]
        supervised = bool(moving) and has_live_holder(f"{store.own}/lock")
        if supervised:
            remind_supervisor(self.session, [task for task in moving if task.queued])
        for task in moving:
            if supervised and self._goes_on(task):
                continue
            if self.own or supervised:
                states[task.id] = look_at_task(self.session, task)
            else:  # work of another project is not started from here
                notice = f"nobody looks after it: overhand -C {self.session.root}"
                states[task.id] = task.but(notices=[*task.notices, notice])

    def _goes_on(self, task: Task) -> bool:
        run = task.current_run
        if run is None or run.machine not in ("", machine_id()):
            return True
        place = self.session.store.run_folder(task.id, run.id)
        return not run.has_ended and not os.path.exists(f"{place}/exit") and self.session.store.is_alive(task.id, run)

    def _places(self, live: list[Task]) -> dict[str, dict[str, Any]]:
        places = queue(live)
        for place in places.values():
            if place.get("after") and place["after_handle"] is None:
                place["after_handle"] = self.overview.handle(place["after"])
        why_held(self.session, places, live)
        return places

    def _row(self, task: Task, places: dict[str, dict[str, Any]], now: float) -> Row:
        shown = row(task, places)
        open_ = task.open_questions if shown["headline"] == "needs you" else []
        run = task.current_run
        live = run if run is not None and not run.has_ended else None
        steps = self._steps(task.id) if shown["headline"] in ("needs you", "working", "queued") else None
        shown.update(
            progress={"done": steps[0], "total": steps[1]} if steps and steps[1] else None,
            step=(steps[2] if steps else None) or self._nodes(task) or agent_activity(self.session, task) or None,
            question=self._question(task, open_),
            questions=len(open_),
            age=_age(task, now),
            deadline=_deadline(live),
            usage=usage(task),
            sign=self._sign(task.id, live, now),
            command=command(task, shown["headline"]),
        )
        return shown

    def _nodes(self, task: Task) -> str:
        """The nodes of a plan that are at work."""
        if not task.is_plan:
            return ""
        states = sorted(self.overview.states.values(), key=lambda s: s.handle or 0)
        at_work = [s.node or "" for s in states if s.parent and s.parent.task == task.id and s.headline == "working"]
        return f"at work: {', '.join(at_work[:_NODES])}{' …' if len(at_work) > _NODES else ''}" if at_work else ""

    def _steps(self, task_id: str) -> tuple[int, int, str] | None:
        """Steps done, all steps, and the text of the current one; an unchanged HANDOFF.md is read once."""
        files = self.session.store.workspace_files(task_id)
        found = files.look("HANDOFF.md")
        if found is None:
            return None
        mark = found.st_size, found.st_mtime_ns
        if task_id not in self._plans or self._plans[task_id][0] != mark:
            self._plans[task_id] = mark, _plan(files)
        return self._plans[task_id][1]

    def _question(self, task: Task, open_: list[Question]) -> dict[str, Any] | None:
        if not open_:
            return None
        store, first = self.session.store, open_[0]
        return {
            "seq": first.seq,
            "question": first.text,
            "options": first.options,
            "path": task.path,
            "file": store.relative(store.workspace_files(task.id).shown(f"ipc/{first.stem}.question")),
        }

    def _sign(self, task_id: str, run: Run | None, now: float) -> float | None:
        """Seconds since a live run last wrote anything."""
        if run is None:
            return None
        place = self.session.store.run_folder(task_id, run.id)
        newest = self.overview.logs.get(task_id, 0.0)
        for name in ("stdout", "stderr"):
            try:
                newest = max(newest, os.stat(f"{place}/{name}").st_mtime)
            except OSError:
                continue
        return round(max(0.0, now - newest), 1)


def _typed(store: Store) -> list[Row]:
    """Approving tags without a record of an approval: they wait for a person. Mostly there are none."""
    raw = read_file(f"{store.own}/sightings") or b""
    if not raw or raw.endswith(b'"waiting": {}}'):
        return []
    from overhand.items import unrecorded_tags

    names = {key.rpartition("#")[0]: told for key, told in unrecorded_tags(store).items()}
    return [
        {"item": name, "since": told.get("since"), "why": told.get("why"), "command": f"overhand item approve {name}"}
        for name, told in sorted(names.items())
    ]


def _plan(workspace: Beneath) -> tuple[int, int, str] | None:
    try:
        raw = workspace.read("HANDOFF.md", _PLAN)
    except OverhandError:
        return None
    if raw is None or b"plan" not in raw.lower():
        return None
    from overhand.runs import step_progress

    return step_progress(raw)


def _age(task: Task, now: float) -> float | None:
    """Seconds since a task was asked, started, queued or judged."""
    run = task.current_run
    open_ = task.open_questions
    if task.queued:
        since = task.queued_at
    elif task.status is not None:
        since = task.judged
    else:
        since = open_[0].asked if open_ else run.created if run else task.created
    try:
        return round(max(0.0, now - epoch_of(since)), 1) if since else None
    except ValueError:
        return None


def _deadline(run: Run | None) -> str | None:
    """When a run must be done; time that it waits for an answer does not count."""
    if run is None or not run.timeout:
        return None
    waits = time.monotonic() - run.waiting if run.waiting is not None and run.boot == boot_id() else 0.0
    return stamp(epoch_of(run.created) + run.timeout + run.waited + max(0.0, waits))


def usage(task: Task) -> dict[str, Any] | None:
    """Tokens and money of all runs together; None if none of them reported any."""
    reports = [run.usage for run in task.runs if run.usage is not None]
    if not reports:
        return None
    return {
        "tokens": sum(one.input + one.output for one in reports),
        "usd": round(sum(one.usd for one in reports), 6),
        "estimated": any(one.estimated for one in reports),
    }


def command(task: Task, headline: str) -> str:
    """What to type next."""
    handle, open_ = task.name, task.open_questions
    if headline == "needs you" and open_:
        which = f" {open_[0].seq}" if len(open_) > 1 else ""
        text = "OPTION" if open_[0].options else '"…"'
        return f"overhand answer {handle}{which} {text}"
    if headline == "working":
        return f"overhand log -f {handle}"
    shown = task.tag
    if shown and (task.is_for_a_person or (headline == "queued" and shown.stage == "next")):
        return f"overhand item next {shown.path}#{task.kind}"
    claimed = bool(shown and shown.stage == "claimed")  # outside Overhand: there is nothing to run
    if task.status is None and not task.runs and not task.queued and not claimed:
        return f"overhand run {handle}"
    if (
        headline in ("failed", "done")
        and task.status != "completed"
        and task.runs
        and task.runs[-1].cause in _RESUMABLE
    ):
        return f"overhand resume {handle}"
    return f"overhand show {handle}"
