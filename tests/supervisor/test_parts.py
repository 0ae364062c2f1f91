"""Each object of the supervisor by itself, without the loop: real logs and files, jobs that are done at once."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from overhand.plans import begin_plan, make_plan_task
from overhand.policy import Actor, Config, find_caller, trusted_config
from overhand.record import Run, Task
from overhand.runs import USAGE_FILE
from overhand.supervisor import hand_to_supervisor, turn_daemon_off, turn_daemon_on
from overhand.supervisor.context import Changed, Jobs, RunOver
from overhand.supervisor.loop import next_step
from overhand.supervisor.meter import Meter
from overhand.supervisor.plans import Plans
from overhand.supervisor.queue import Begin, Block, Queue, Start
from overhand.supervisor.tag_daemon import TagDaemon
from overhand.verbs import PlanSource, Session, check_source
from supervisor.parts import Inline, Watched, context_of
from support.scene import QUICK

if TYPE_CHECKING:
    from overhand.supervisor.loop import Step
    from overhand.supervisor.queue import Decision
    from support.scene import Scene

BY = {"kind": "overhand", "via": "test"}


# the next step


def a_run(**fields: Any) -> Run:
    known: dict[str, Any] = dict.fromkeys(Run.__annotations__)
    return Run(**{**known, "id": "sess_1_aaaaaa", "state": "running", "machine": "here", "driver": "command", **fields})


@pytest.mark.parametrize(
    ("task", "step"),
    [
        (Task("t").but(queued=True), "queue"),
        (Task("t").but(queued=True, stop="now"), "cancel"),
        (Task("t"), "rest"),
        (Task("t").but(runs=[a_run(state="ended", status="completed")]), "rest"),
        (Task("t").but(runs=[a_run(state="ended")]), "judge"),
        (Task("t").but(runs=[a_run(machine="elsewhere")]), "leave"),
        (Task("t").but(runs=[a_run(state="ended", machine="elsewhere")]), "judge"),
        (Task("t").but(runs=[a_run(driver="plan")]), "plan"),
        (Task("t").but(runs=[a_run(attached=True)]), "attached"),
        (Task("t").but(runs=[a_run(machine="")]), "watch"),
        (Task("t").but(runs=[a_run()], stop="now"), "watch"),
    ],
)
def test_the_next_step(task: Task, step: Step) -> None:
    assert next_step(task, "here") == step


# jobs


class Later:
    """A pool that does nothing until it is told to."""

    def __init__(self) -> None:
        self.waiting: list[object] = []

    def submit(self, fn: object, /) -> None:
        self.waiting.append(fn)

    def go(self) -> None:
        for fn in self.waiting:
            assert callable(fn)
            fn()
        self.waiting.clear()


def test_what_follows_from_a_job_happens_where_it_is_taken() -> None:
    pool, woken = Later(), [0]
    seen: list[int] = []
    jobs = Jobs(pool.submit, lambda: woken.__setitem__(0, woken[0] + 1))
    assert jobs.run("a", lambda: 7, seen.append)
    assert not jobs.run("a", lambda: 8, seen.append), "one job per task"
    assert jobs.run("b", lambda: 1 // 0, seen.append)
    assert jobs.is_busy("a")
    pool.go()
    assert (seen, woken, jobs.is_busy("a"), jobs.is_idle) == ([], [2], True, False)
    found = jobs.finished()
    assert (seen, [task for task, _ in found], jobs.is_idle) == ([7], ["a", "b"], True)
    assert found[0][1] is None
    assert isinstance(found[1][1], ZeroDivisionError)


def test_what_is_tried_again_is_named_once_and_in_time() -> None:
    jobs = Jobs(Inline().submit, lambda: None)
    jobs.retry("a", 5.0)
    jobs.retry("b", 7.0)
    jobs.retry("c", 5.0)
    jobs.forget("c")
    assert (jobs.due(4.0), jobs.due(6.0), jobs.due(6.0), jobs.is_idle) == ([], ["a"], [], False)
    assert (jobs.due(8.0), jobs.is_idle) == (["b"], True)


def test_what_keeps_failing_is_tried_less_and_less_often() -> None:
    jobs = Jobs(Inline().submit, lambda: None)
    pauses, now = [], 0
    for _ in range(8):
        jobs.retry_later("a", float(now))
        pauses.append(next(seconds for seconds in range(1, 60) if jobs.due(float(now + seconds))))
        now += pauses[-1]
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]
    jobs.run("a", lambda: None)
    jobs.finished()
    jobs.retry_later("a", 0.0)
    assert jobs.due(1.0) == ["a"]


# the queue


def starts(queue: Queue, config: Config | None = None, *, held: bool = False) -> list[Decision]:
    return queue.starts(config or Config(), lambda _: False, lambda: held)


def test_the_queue_starts_what_fits_and_keeps_the_rest(scene: Scene) -> None:
    queue = Queue(scene.store, lambda _: Config())
    one, two, plan = (scene.state(scene.accepted(title)) for title in ("one", "two", "three"))
    plan = plan.but(settings={"plan": "digest"})
    for task in (one, two, plan):
        queue.offer(task)
    cap = Config(max_parallel=1)
    assert starts(queue, cap, held=True) == [Begin(plan)], "a plan takes no slot, and no budget by itself"
    assert starts(queue, cap) == [Start(one)]
    assert (starts(queue, cap), queue.running, [task.id for task in queue.queued]) == ([], [one.id], [two.id])
    queue.release(one.id)
    assert starts(queue, cap) == [Start(two)]
    queue.release(two.id)
    assert queue.is_idle


def test_a_task_after_another_waits_or_is_blocked(scene: Scene) -> None:
    queue = Queue(scene.store, lambda _: Config())
    first = scene.accepted("first")
    second = scene.state(scene.accepted("second")).but(after=first)
    queue.offer(second)
    assert starts(queue) == []
    queue.offer(second.but(after="worker-20200101-000000"))
    (decision,) = starts(queue)
    assert isinstance(decision, Block)
    assert "worker-20200101-000000" in decision.why


def test_the_queue_knows_what_a_run_delegated(scene: Scene) -> None:
    queue = Queue(scene.store, lambda _: Config())
    task = scene.state(scene.accepted())
    assert queue.delegated_by("sess_1_aaaaaa") == []
    queue.hold(task)
    assert queue.delegated_by("sess_1_aaaaaa") == []
    assert queue.running == [task.id]


# live runs


def test_a_live_run_is_adopted_and_one_that_is_over_is_reported(scene: Scene) -> None:
    scene.agent("worker", "touch:up", "until:go", "output")
    task = scene.delegate()
    scene.appears("up")
    scene.running(task)
    scene.kill_supervisor()
    watched = Watched(scene.store)
    watched.runs.adopt(scene.state(task))
    assert (watched.runs.is_idle, watched.runs.is_blocked(task), list(watched.mail.take())) == (False, False, [])
    (scene.path / "go").touch()
    while not (found := list(watched.mail.take())):
        for fd, _ in watched.poll.poll(30_000):
            watched.runs.ready(fd)
        watched.jobs.finished()
    assert set(found) == {Changed(task)}
    watched.runs.adopt(scene.state(task))
    assert (watched.runs.is_idle, list(watched.mail.take())) == (True, [RunOver(task)])
    assert scene.json("wait", task)["status"] == "completed"


# the meter


def test_the_meter_counts_reports_once_and_again_when_asked(scene: Scene) -> None:
    scene.agent("worker", "touch:up", "until:go", "output")
    task = scene.delegate()
    scene.appears("up")
    current = scene.running(task).runs[-1]
    scene.kill_supervisor()
    desk = scene.store.desk_files(task, current.id)
    context = context_of(Actor(scene.store, Config(), BY))
    meter, jobs, mail = Meter(context), context.jobs, context.mail
    assert not meter.is_due(task, desk, limited=False)
    with open(desk.shown(USAGE_FILE), "w", encoding="utf-8") as file:
        file.write('{"input": 10, "output": 5}\n')
    assert meter.is_due(task, desk, limited=False)
    assert meter.count(task, 0.0)
    jobs.finished()
    assert not meter.is_due(task, desk, limited=False)
    usage = scene.state(task).runs[-1].usage
    assert usage is not None
    assert (usage.input, usage.output) == (10, 5)
    meter.recount([task, "worker-20200101-000000"])
    assert list(mail.take()) == [Changed(task)]
    assert meter.is_due(task, desk, limited=False)
    (scene.path / "go").touch()
    assert scene.json("wait", task)["status"] == "completed"


# plans


def test_a_plan_is_opened_executed_and_let_go(scene: Scene) -> None:
    scene.shell("worker", QUICK)
    scene.json("list")  # trusts what is there now
    session, text = Session(str(scene.path)), "task: one\nnodes:\n  a: {agent: worker, task: do it}\n"
    plan = check_source(session, PlanSource("the plan", "", text.encode())).plan
    assert plan is not None
    person = find_caller(scene.store)
    actor = Actor(scene.store, trusted_config(session.root), person.by("test"))
    task = make_plan_task(actor, person, plan, text, {"trusted": True}).id
    begin_plan(actor, task)
    context = context_of(actor)
    plans, jobs, mail = Plans(context), context.jobs, context.mail
    plans.look(scene.state(task))
    assert plans.is_idle, "its executor is known when the job is done"
    assert jobs.finished() == [(task, None)]
    (node,) = [one.id for one in scene.store.tasks() if one.node]
    assert (plans.is_idle, list(mail.take())) == (False, [Changed(node, env_of=task)])
    plans.child_changed(scene.state(node))
    assert not plans.works_for("sess_1_aaaaaa")
    plans.drop(task)
    assert plans.is_idle
    assert hand_to_supervisor(scene.store, [task])
    assert scene.judged(task).status == "completed"
    assert scene.starts(node) == 1


# the tag daemon


def test_the_daemon_hands_over_what_was_typed(scene: Scene) -> None:
    scene.shell("worker", QUICK)
    scene.project.config("[daemon]\ndebounce = '0s'\n[routes.fix]\nagent = 'worker'\n")
    scene.json("list")
    said: list[str] = []
    context = replace(context_of(Actor(scene.store, Config(debounce=0.0), BY)), say=said.append)
    daemon, jobs = TagDaemon(context, lambda: None), context.jobs
    daemon.turn()
    assert not daemon.on
    turn_daemon_on(scene.store)
    daemon.turn()
    jobs.finished()  # the first scan
    assert (daemon.on, daemon.status([], [])["complete"]) == (True, True)
    (scene.path / "todo.md").write_text("# To do\n\n#needs-fix the roof\n")
    ((fd, _),) = context.poll.poll(10_000)
    assert fd == daemon.fd
    daemon.ready()
    assert daemon.status(["q"], ["r"])["pending"] == ["todo.md"]
    assert daemon.due <= time.monotonic()
    daemon.tick(is_queued=False)
    jobs.finished()
    assert (daemon.status([], [])["pending"], said) == ([], [])
    turn_daemon_off(scene.store)
    daemon.turn()
    assert not daemon.on
