"""`monitor`: which sign there is decides its exit status, and it is found without being looked for."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from overhand import Project
from overhand.record import Store
from overhand.verbs.wait import ended_by_signal
from support.scene import until

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from overhand.agents import Call
    from overhand.testing.project import ProjectDir


def ipc_of(project: ProjectDir, handle: int = 1) -> Path:
    store = Store(str(project.path))
    return project.path / store.relative(store.workspace(store.resolve(str(handle)))) / "ipc"


def has_pid(project: ProjectDir, pid: int, handle: int = 1) -> bool:
    path = ipc_of(project, handle) / ".monitor.pid"
    return path.exists() and path.read_text().strip() == str(pid)


def ended(monitor: subprocess.Popen[str]) -> tuple[int, str]:
    out, err = monitor.communicate(timeout=60)
    assert "Traceback" not in err
    return monitor.returncode, out


# agent's actions: exit status, what, the path's name, its status
JUDGED: dict[str, tuple[tuple[str, ...], int, str, str, str]] = {
    "done": (("output", "touch:$OVERHAND_WORKSPACE/ipc/.done"), 1, "done", "OUTPUT.md", "completed"),
    "output": (("output",), 2, "output", "OUTPUT.md", "completed"),
    "without": (("print:hi",), 2, "output", "CONTEXT.md", "failed"),
    "done-without": (("touch:$OVERHAND_WORKSPACE/ipc/.done",), 1, "done", "CONTEXT.md", "failed"),
    "died-asking": (("file:$OVERHAND_WORKSPACE/ipc/001.question=Which?", "die:KILL"), 2, "output", "CONTEXT.md",
                    "needs-input"),
}  # fmt: skip


@pytest.mark.parametrize("name", JUDGED)
def test_a_judged_task(overhand_project: ProjectDir, name: str) -> None:
    actions, code, what, path, status = JUDGED[name]
    overhand_project.agent("some", *actions)
    overhand_project.run("delegate", "Do it", "--agent", "some", "--wait")  # else it may be told of the question first
    ran = overhand_project.run("monitor", "1", "--json")
    shown = ran.json
    assert (ran.code, shown["schema"], shown["what"], shown["status"]) == (code, "overhand.monitor/1", what, status)
    assert (overhand_project.path / shown["path"]).name == path
    assert (overhand_project.path / shown["path"]).exists()
    text = overhand_project.run("monitor", "1")
    assert (text.code, text.out.splitlines()[0]) == (code, shown["path"])
    assert ("## How to Resume" in text.out) == (path == "CONTEXT.md")
    assert not (ipc_of(overhand_project) / ".monitor.pid").exists()


def test_a_task_that_never_ran(overhand_project: ProjectDir) -> None:
    overhand_project.run("delegate", "Later", "--agent", "worker", "--no-start", check=True)
    ran = overhand_project.run("monitor", "1", "--json")
    assert (ran.code, ran.json["error"]["hint"]) == (3, "Start it: overhand run 1")
    overhand_project.run("stop", "1", check=True)
    ran = overhand_project.run("monitor", "1", "--json")
    assert (ran.code, ran.json["what"], ran.json["path"]) == (2, "output", None)
    assert "cancelled" in overhand_project.run("monitor", "1").out


@pytest.mark.parametrize("action", ["ask:Red or blue?", "overhand-ask:Red or blue?"])
def test_from_the_question_to_the_end(overhand_project: ProjectDir, action: str) -> None:
    overhand_project.agent("asker", "until:gate", action, "touch:$OVERHAND_WORKSPACE/ipc/.done", "until:end", "output")
    overhand_project.run("delegate", "Paint it", "--agent", "asker", check=True)
    first = overhand_project.start("monitor", "1", "--json")
    until(lambda: has_pid(overhand_project, first.pid), "the monitor's pid file")
    (overhand_project.path / "gate").touch()
    code, out = ended(first)
    asked = json.loads(out)
    assert (code, asked["what"], asked["question"]["question"]) == (0, "question", "Red or blue?")
    assert (asked["question"]["seq"], asked["question"]["path"]) == (1, ["user", "asker"])
    text = overhand_project.run("monitor", "1")
    assert (text.code, "overhand answer 1 1 TEXT" in text.out, "1. Red or blue?" in text.out) == (0, True, True)
    overhand_project.run("answer", "1", "Blue", check=True)
    until((ipc_of(overhand_project) / ".done").exists, "the agent's .done")
    unjudged = overhand_project.run("monitor", "1", "--timeout", "0", "--json")
    assert (unjudged.code, unjudged.json["what"]) == (3, "timeout"), ".done counts once the task is judged"
    (overhand_project.path / "end").touch()
    code, out = ended(overhand_project.start("monitor", "1"))
    assert (code, out.strip().endswith("OUTPUT.md")) == (1, True)
    assert "Blue" in overhand_project.run("log", "1", "-o").out


def test_several_questions_are_shown_with_their_options(overhand_project: ProjectDir) -> None:
    which = '{"seq": 1, "timestamp": "2026-01-01T00:00:00Z", "question": "Which?"}'
    many = '{"seq": 2, "timestamp": "2026-01-01T00:00:00Z", "question": "How many?", "options": ["one", "two"]}'
    overhand_project.agent(
        "asker", f"file:$OVERHAND_WORKSPACE/ipc/001.question={which}",
        f"file:$OVERHAND_WORKSPACE/ipc/002.question={many}", "hang",
    )  # fmt: skip
    overhand_project.run("delegate", "Ask", "--agent", "asker", check=True)
    store = Store(str(overhand_project.path))
    until(lambda: len(store.task(store.resolve("1")).questions) == 2, "both questions recorded")
    shown = overhand_project.run("monitor", "1", "--json").json
    assert [one["seq"] for one in shown["questions"]] == [1, 2]
    assert "- two" in overhand_project.run("monitor", "1").out
    overhand_project.run("answer", "1", "1", "this one", check=True)
    assert overhand_project.run("monitor", "1", "--json").json["question"]["options"] == ["one", "two"]


def test_a_question_that_nobody_has_recorded_yet(overhand_project: ProjectDir) -> None:
    """An in-process function has no supervisor that would look into its folder."""
    overhand_project.run("trust", "--yes", check=True)
    with Project(overhand_project.path) as project:

        @project.agent("asker")
        def ask(call: Call) -> str:
            asked: dict[str, Any] = {"seq": 1, "timestamp": "2026-01-01T00:00:00Z", "question": "Which?"}
            (call.ipc / "001.question").write_text(json.dumps(asked))
            until((call.ipc / "001.answer").exists, "the answer")
            return "Done."

        task = project.delegate("Ask", agent="asker")
        ran = overhand_project.run("monitor", "1", "--json")
        assert (ran.code, ran.json["question"]["question"]) == (0, "Which?")
        assert overhand_project.run("show", "1", "--json").json["questions"][0]["question"] == "Which?"
        task.answer("That")
        assert task.wait().status == "completed"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_takes_its_pid_file_down(overhand_project: ProjectDir, number: signal.Signals, code: int) -> None:
    overhand_project.agent("hang", "hang")
    overhand_project.run("delegate", "Hang", "--agent", "hang", check=True)
    monitor = overhand_project.start("monitor", "1")
    until(lambda: has_pid(overhand_project, monitor.pid), "the monitor's pid file")
    monitor.send_signal(number)
    assert ended(monitor)[0] == code
    assert not (ipc_of(overhand_project) / ".monitor.pid").exists()


def test_a_killed_monitor_is_replaced_and_a_second_takes_over(overhand_project: ProjectDir) -> None:
    overhand_project.agent("hang", "until:end", "output")
    overhand_project.run("delegate", "Hang", "--agent", "hang", check=True)
    killed = overhand_project.start("monitor", "1")
    until(lambda: has_pid(overhand_project, killed.pid), "the first pid")
    killed.kill()
    killed.communicate()
    assert has_pid(overhand_project, killed.pid), "it could not take its file down"
    first = overhand_project.start("monitor", "1")
    until(lambda: has_pid(overhand_project, first.pid), "the second pid, in the place of the dead one's")
    second = overhand_project.start("monitor", "1")
    until(
        lambda: len(os.listdir(overhand_project.task_record(ipc_of(overhand_project).parent.name) / ".waiters")) >= 2,
        "both wait",
    )
    assert has_pid(overhand_project, first.pid), "the first keeps it"
    first.terminate()
    assert ended(first)[0] == 143
    until(lambda: has_pid(overhand_project, second.pid), "the second takes over")
    (overhand_project.path / "end").touch()
    assert ended(second)[0] == 2
    assert not (ipc_of(overhand_project) / ".monitor.pid").exists()


def test_a_signal_that_comes_in_a_callback_still_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python drops what is raised there: an import that ends just then would swallow the SIGTERM."""
    dropped: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: dropped.append(found.exc_value))
    held = threading.Event()
    reference = weakref.ref(held, lambda _: signal.raise_signal(signal.SIGTERM))
    with ended_by_signal() as leave_if_ended:
        leave_if_ended()
        del held
        assert reference() is None
        with pytest.raises(SystemExit) as left:
            leave_if_ended()
    assert [str(one) for one in dropped] == ["143"]
    assert left.value.code == 143


def test_a_bell_that_is_rung_while_it_is_hung_stays(
    overhand_project: ProjectDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever rings takes a bell away to which nobody listens any more."""
    overhand_project.run("delegate", "Later", "--agent", "worker", "--no-start", check=True)
    store = Store(str(overhand_project.path))
    task_id, made = store.resolve("1"), os.mkfifo

    def make(path: str, mode: int, *, dir_fd: int | None = None) -> None:
        made(path, mode, dir_fd=dir_fd)
        store.wake_waiters(task_id)

    monkeypatch.setattr(os, "mkfifo", make)
    with store.subscribe([task_id]):
        (name,) = os.listdir(f"{store.record(task_id)}/.waiters")
        assert name.startswith(f"{os.getpid()}-")


def test_bad_words(overhand_project: ProjectDir) -> None:
    assert overhand_project.run("monitor", "9").code == 4
    overhand_project.run("delegate", "x", "--agent", "worker", "--no-start", check=True)
    ran = overhand_project.run("monitor", "1", "--timeout", "soon")
    assert (ran.code, "not a duration" in ran.err) == (2, True)
