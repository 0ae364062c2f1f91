"""Questions: what `step` and `answer` cost to start, how fast an answer arrives, and three hundred who wait at once."""

from __future__ import annotations

import compileall
import json
import os
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

import measure
from measure import OVERHAND, PYTHON, Row

import overhand
from overhand.questions import Asking, answer_question, ask_question, files
from overhand.record import Store
from overhand.supervisor import running_supervisor
from overhand.testing import processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from overhand.record import Task

_BY = {"kind": "person", "via": "bench"}
_CONFIG = '[limits]\nmax_parallel = 0\nanswer_wait = "0"\nmax_block = "30m"\nidle = "5m"\n'
# Asks until it is told to stop, and writes down when it heard each answer.
_ASKER = f"""
while [ "$said" != stop ]; do
  said=$({OVERHAND} ask "Which one, $n?"); date +%s.%N >>"$OVERHAND_WORKSPACE/heard"; n=x$n
done
"""
_WAITER = f"""exec {OVERHAND} ask "Which one?" >"$OVERHAND_WORKSPACE/heard" """
# Marks a step to and fro, in turns by itself and by a call.
_STEPPER = f"""
import json, os, subprocess, time
while not os.path.exists("go") or not (rounds := open("go").read()):
    time.sleep(0.01)
times = [], []
for number in range(int(rounds)):
    for kept, env in zip(times, ({{**os.environ, "OVERHAND_CAUSE": "none"}}, os.environ)):
        began = time.perf_counter()
        subprocess.run(["{OVERHAND}", "step", "1", ("done", "open")[number % 2]], env=env, stdout=-3, check=True)
        kept.append(time.perf_counter() - began)
with open("times.new", "w") as file:
    json.dump(times, file)
os.rename("times.new", "times")
time.sleep(3600)
"""
_PATIENCE = 300.0
_WINDOW = files.SLOW


def rows(*, quick: bool) -> list[Row]:
    """The light verbs, the way of one answer, and the crowd."""
    compileall.compile_dir(Path(overhand.__file__).parent, quiet=1)
    light = [*_light(21 if quick else 41), _called(21 if quick else 101)]
    return [*light, _arrival(20 if quick else 100), _crowd(50 if quick else 300)]


def _project(place: Path) -> tuple[Store, dict[str, str]]:
    env = measure.environment(place)
    os.environ["XDG_CONFIG_HOME"] = env["XDG_CONFIG_HOME"]
    (place / ".overhand/agents").mkdir(parents=True)
    (place / ".overhand/config.toml").write_text(_CONFIG)
    scripts = {"asker": _ASKER, "waiter": _WAITER, "sleeper": "exec sleep 3600"}
    commands = {name: ["/bin/sh", "-c", script] for name, script in scripts.items()}
    for name, words in {**commands, "stepper": [PYTHON, "-c", _STEPPER]}.items():
        command = json.dumps(words)
        text = (
            f"---\nname: {name}\ndescription: It asks.\noverhand:\n  driver: command\n  command: {command}\n---\nAsk.\n"
        )
        (place / f".overhand/agents/{name}.md").write_text(text)
    measure.run([OVERHAND, "trust", "--yes"], place, env)
    return Store(str(place)), env


def _ended(store: Store, place: Path, env: dict[str, str]) -> None:
    """Nothing may be left of the project."""
    for task in store.tasks():
        for question in task.open_questions:
            answer_question(store, task.id, "stop", _BY, seq=question.seq, resume=False)
    measure.run([OVERHAND, "stop", "--all", "--now"], place, env)
    processes.end_all(place)


def _until(look: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not look():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.002)


# start-up


def _light(rounds: int) -> list[Row]:
    """`step` marks a step to and fro; each `answer` has a question of its own to answer."""
    with measure.folder() as place:
        store, env = _project(place)
        try:
            measure.run(
                [OVERHAND, "delegate", "steps", "--agent", "sleeper", "--step", "Read", "--no-start"], place, env
            )
            measure.run([OVERHAND, "delegate", "answers", "--agent", "sleeper"], place, env)
            _until(lambda: store.tasks()[1].run_state == "running", "the run")
            asked = _many_questions(store, store.tasks()[1].id, rounds + 1)
            words = iter([("done", "open")[n % 2] for n in range(rounds + 1)])
            doings: list[Callable[[], object]] = [
                lambda: measure.run([PYTHON, "-c", "pass"], place, env),
                lambda: measure.run([OVERHAND, "step", "1", "1", next(words)], place, env),
                lambda: measure.run([OVERHAND, "answer", "2", str(next(asked)), "this"], place, env),
            ]
            for do in doings:
                do()
            times = measure.interleaved(rounds, *doings)
        finally:
            _ended(store, place, env)
    bare, *verbs = (measure.median(seconds) for seconds in times)
    return [_light_row(name, s / bare, bare) for name, s in zip(("step", "answer"), verbs, strict=True)]


def _many_questions(store: Store, task_id: str, count: int) -> Iterator[int]:
    run = store.task(task_id).runs[-1].id
    by = {"kind": "run", "run": run, "via": "bench"}
    return iter([ask_question(store, task_id, run, Asking(text=f"number {n}"), by).seq for n in range(count)])


def _light_row(verb: str, ratio: float, bare: float) -> Row:
    return Row(
        f"`overhand {verb}`, wall vs `python -c pass`",
        f"{ratio:.2f}x",
        "≤ 2x",
        "1.75x",
        ratio <= 2,
        ratio <= 1.75,
        f"`python -c pass` took {bare * 1e3:.1f} ms",
    )


def _called(rounds: int) -> Row:
    """`step` inside a run, by a call, and as if the run might write to the record itself."""
    with measure.folder() as place:
        store, env = _project(place)
        try:
            steps = ["steps", "--agent", "stepper", "--step", "Read"]
            # behind a shield nothing but a call reaches the record, and there would be nothing to compare it with
            measure.run([OVERHAND, "delegate", *steps, "--set", "shield=off"], place, env)
            _until(lambda: (place / "go").parent.exists() and store.tasks()[0].run_state == "running", "the run")
            (place / "go").write_text(str(rounds))
            _until((place / "times").exists, "the end of its steps")
            directly, called = json.loads((place / "times").read_text())
        finally:
            _ended(store, place, env)
    more = (measure.median(called) - measure.median(directly)) * 1e3
    return Row(
        "`overhand step` inside a run: what the call to the supervisor adds to its time",
        f"{more:+.1f} ms",
        "≤ 10 ms",
        "0 ms",
        more <= 10,
        more <= 0,
        f"{rounds} of each in turns; by itself it took {measure.median(directly) * 1e3:.1f} ms",
    )


# one answer


def _arrival(rounds: int) -> Row:
    """From the call that records the answer to the moment at which the agent has it in its hands."""
    with measure.folder() as place:
        store, env = _project(place)
        try:
            measure.run([OVERHAND, "delegate", "ask", "--agent", "asker"], place, env)
            (task_id,) = (task.id for task in store.tasks())
            heard = Path(store.workspace(task_id)) / "heard"
            gone = [_one_answer(store, task_id, heard, number) for number in range(1, rounds + 1)]
        finally:
            _ended(store, place, env)
    middle, late = measure.median(gone) * 1e3, statistics.quantiles(gone, n=20)[-1] * 1e3
    return Row(
        "an answer is given → the waiting `ask` has returned: median, p95",
        f"{middle:.1f} ms, {late:.1f} ms",
        "≤ 20 ms, 60 ms",
        "5 ms, 15 ms",
        middle <= 20 and late <= 60,
        middle <= 5 and late <= 15,
        f"{rounds} answers; it ends when the agent's shell has started `date`, the next program",
    )


def _one_answer(store: Store, task_id: str, heard: Path, number: int) -> float:
    _until(lambda: len(store.task(task_id).questions) == number, f"question {number}")
    marks = f"{store.run_folder(task_id, store.task(task_id).runs[-1].id)}/waiting"
    _until(lambda: any(name.startswith(f"ask-{number}-") for name in os.listdir(marks)), "somebody waits")
    began = time.time()
    answer_question(store, task_id, "this", _BY, seq=number)
    _until(lambda: heard.exists() and heard.read_text().count("\n") >= number, "it was heard")
    return float(heard.read_text().split("\n")[number - 1]) - began


# many at once


def _crowd(count: int) -> Row:
    with measure.folder() as place:
        store, env = _project(place)
        try:
            found = _measure_crowd(store, place, env, count)
        finally:
            _ended(store, place, env)
    rss, idle, took = found
    return Row(
        f"{count} runs blocked in `overhand ask`: RSS of each, idle CPU of all of them and the supervisor",
        f"{rss:.1f} MB, {idle:.2%}",
        "≤ 20 MB, 0.5 %",
        "",
        rss <= 20 and idle <= 0.005,
        None,
        f"CPU of one core over {_WINDOW:.0f} s, in which each of them wakes up once by itself; "
        f"then all of them were answered within {took:.1f} s",
    )


def _measure_crowd(store: Store, place: Path, env: dict[str, str], count: int) -> tuple[float, float, float]:
    for number in range(count):
        measure.run([OVERHAND, "delegate", f"wait, number {number}", "--agent", "waiter"], place, env)
    _until(lambda: all(_is_blocked(store.task(s.id)) for s in store.tasks()), "all of them are blocked")
    tasks = [task.id for task in store.tasks()]
    assert len(tasks) == count
    supervisor = running_supervisor(store)
    assert supervisor is not None
    askers = [pid for pid in processes.of_project(place) if _is_asker(pid)]
    assert len(askers) == count, f"{len(askers)} of {count} wait"
    time.sleep(3.0)  # what begins has to calm down
    pids = [supervisor, *askers]
    before, began = sum(map(measure.cpu, pids)), time.monotonic()
    time.sleep(_WINDOW)
    idle = (sum(map(measure.cpu, pids)) - before) / (time.monotonic() - began)
    rss = max(map(_rss, askers)) / 1024
    began = time.monotonic()
    for task_id in tasks:
        answer_question(store, task_id, f"to {task_id}", _BY, seq=1, resume=False)
    heard = [Path(store.workspace(task_id)) / "heard" for task_id in tasks]
    _until(lambda: all(path.read_text() == f"to {path.parent.name}\n" for path in heard), "all have heard")
    return rss, idle, time.monotonic() - began


def _is_blocked(task: Task) -> bool:
    runs = task.runs
    return bool(runs) and runs[-1].waiting is not None


def _is_asker(pid: int) -> bool:
    try:
        return b"\0ask\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _rss(pid: int) -> float:
    """Kilobytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("VmRSS:")))
