"""Budgets: levels, estimates, shares along the tree, the day, and the context window; with real agents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from overhand import Project
from overhand.errors import BudgetExceeded
from overhand.policy import STOP_LEVEL, budget_level, make_amount, own_cap, own_spending, say_tokens
from overhand.record import BudgetReserved, Judged, UsageReported
from overhand.runs import reported_usage, run_created, spending, spent_today, tree_spending
from overhand.system import Beneath, now_stamp
from support.scene import until

if TYPE_CHECKING:
    from overhand.agents import Call
    from support.scene import Scene

# Turn n is reported as soon as the file go-n is there; then it waits for the next one.
TURNS = """n=0
while :; do n=$((n+1))
  until [ -e "$OVERHAND_PROJECT/go-$n" ]; do sleep 0.01; done
  printf '%s\\n' "$REPORT" >>"$OVERHAND_USAGE"
done"""
DONE = """printf '# Task Complete: x\\n\\n**Status:** completed\\n\\n## Summary\\nDone.\\n' >"$OVERHAND_OUTPUT"; """


def worker(scene: Scene, report: dict[str, object], name: str = "worker", **keys: object) -> None:
    """An agent that reports the same for every turn that it may take."""
    scene.shell(name, f"REPORT='{json.dumps(report)}'; {TURNS}", **keys)


def go(scene: Scene, *turns: int) -> None:
    for number in turns:
        (scene.path / f"go-{number}").touch()


def limits(scene: Scene, task: str, *keys: str) -> None:
    until(lambda: scene.state(task).limits == list(keys), f"{task} reached {keys}")


# one task


def test_warned_then_saved_then_stopped(scene: Scene) -> None:
    worker(scene, {"input": 900, "output": 100, "usd": 0.01})
    task = scene.delegate("do it", "--budget", "10k tokens")
    go(scene, *range(1, 8))
    limits(scene, task, "70 % of 10k tokens")
    assert not scene.events(task, "checkpoint")
    go(scene, 8, 9)
    until(lambda: scene.events(task, "checkpoint"), "the checkpoint")
    (saved,) = scene.events(task, "checkpoint")
    assert (saved["reason"], saved["why"]) == ("85 % of 10k tokens", "budget")
    go(scene, 10)
    state = scene.judged(task)
    assert state.limits == [f"{level} % of 10k tokens" for level in (70, 85, 95)]
    assert (state.status, state.runs[0].cause) == ("failed", "budget")
    assert "**Reason:** budget" in (scene.place(task).parents[1] / "CONTEXT.md").read_text()
    usage = scene.json("show", task)["usage"]
    assert (usage["input"], usage["output"], usage["tokens"], usage["usd"]) == (9000, 1000, 10_000, 0.1)
    assert (usage["turns"], usage["estimated"], usage["used_of_budget"]) == (10, False, 1.0)
    assert len(scene.events(task, "usage")) <= 5


def test_money_is_a_measure_of_its_own(scene: Scene) -> None:
    worker(scene, {"input": 10, "usd": 0.4})
    task = scene.delegate("do it", "--budget", "1M tokens, $1")
    go(scene, 1, 2)
    limits(scene, task, "70 % of 1M tokens, $1.00")
    go(scene, 3)
    assert scene.judged(task).runs[0].cause == "budget"


def test_without_a_budget_nothing_is_stopped(scene: Scene) -> None:
    scene.shell("worker", f"""echo '{{"input": 1000000000, "usd": 999}}' >>"$OVERHAND_USAGE"; {DONE}""")
    shown = scene.json("delegate", "dear", "--agent", "worker", "--wait")
    assert (shown["status"], shown["usage"]["tokens"], shown["usage"]["usd"]) == ("completed", 10**9, 999.0)
    assert shown["usage"]["budget"] is None


def test_who_reports_nothing_is_estimated(scene: Scene) -> None:
    scene.shell("worker", f"printf '%4000s' x; {DONE}")
    shown = scene.json("delegate", "silent", "--agent", "worker", "--wait")
    prompt = (scene.place(shown["task_id"]) / "prompt.md").stat().st_size
    usage = shown["usage"]
    assert (usage["input"], usage["output"], usage["estimated"]) == (prompt // 4, 1000, True)
    assert f"~{say_tokens(1000)}" in scene.project.run("list", "--cost").out
    assert "~" in scene.project.run("show", shown["task_id"]).out


def test_junk_in_the_reports(scene: Scene) -> None:
    """What can be read counts; a line that is torn counts when the run has ended."""
    lines = [
        "hello", "[1, 2]", '{"input": -7}', '{"input": "many"}', '{"input": 1.5, "output": 2}', '{"usd": NaN}',
        '{"input": 5, "x": {"y": [1]}}',
    ]  # fmt: skip
    (scene.path / "junk").write_text("\n".join(lines) + '\n\x00\x01\n{"output": 8}')
    scene.shell("worker", f"""cat junk >>"$OVERHAND_USAGE"; {DONE}""")
    shown = scene.json("delegate", "odd", "--agent", "worker", "--wait", "--budget", "1k")
    assert (shown["status"], shown["usage"]["input"], shown["usage"]["output"]) == ("completed", 6, 10)


@pytest.mark.parametrize(
    "made", ['mkfifo "$OVERHAND_USAGE"', 'mkdir "$OVERHAND_USAGE"', 'ln -s /etc/passwd "$OVERHAND_USAGE"']
)
def test_reports_that_are_no_file(scene: Scene, made: str) -> None:
    scene.shell("worker", f"{made}; {DONE}")
    shown = scene.json("delegate", "odd", "--agent", "worker", "--wait", "--budget", "100k")
    assert (shown["status"], shown["usage"]["estimated"]) == ("completed", True)


def test_a_file_that_is_filled_long_after_it_was_made(scene: Scene) -> None:
    scene.shell("worker", """: >"$OVERHAND_USAGE"; sleep 3; echo '{"input": 999}' >>"$OVERHAND_USAGE"; sleep 600""")
    task = scene.delegate("slow to tell", "--budget", "1k")
    assert scene.judged(task).runs[0].cause == "budget"


@pytest.mark.parametrize("text", ["plenty", "0", "$-1", "200k, 300k"])
def test_a_budget_that_cannot_be_read(scene: Scene, text: str) -> None:
    worker(scene, {})
    error = scene.json("delegate", "x", "--agent", "worker", f"--budget={text}", code=2)["error"]
    assert error["code"] == "VALIDATION_FAILED"
    assert "write it as 200k tokens" in error["message"]
    assert not scene.ids()


def test_going_on_needs_more(scene: Scene) -> None:
    worker(scene, {"input": 500})
    task = scene.delegate("do it", "--budget", "1k")
    go(scene, 1, 2)
    scene.judged(task)
    error = scene.json("resume", task, code=3)["error"]
    assert (error["code"], error["budget"]["tokens"], error["spent"]["tokens"]) == ("BUDGET_EXCEEDED", 1000, 1000)
    assert "--budget" in error["hint"]
    (scene.path / "go-2").unlink()
    scene.json("resume", task, "--budget", "2k")
    limits(scene, task, "95 % of 1k tokens", "70 % of 2k tokens")  # what both runs used counts
    go(scene, 2)
    until(lambda: scene.state(task).status, "the second run stopped")
    usage = scene.json("show", task)["usage"]
    assert (usage["tokens"], [one["tokens"] for one in usage["runs"]]) == (2000, [1000, 1000])


def test_what_the_agent_is_told(scene: Scene) -> None:
    scene.shell("worker", f'env >"$OVERHAND_PROJECT/env"; {DONE}')
    task = scene.delegate("do it", "--budget", "$2, 50k tokens")
    scene.judged(task)
    env = dict(line.partition("=")[::2] for line in (scene.path / "env").read_text().splitlines())
    assert (env["OVERHAND_BUDGET_TOKENS"], env["OVERHAND_BUDGET_USD"]) == ("50000", "2.000000")
    assert env["OVERHAND_USAGE"] == str(scene.desk(task) / "usage.jsonl")
    assert "Stay within this budget: 50k tokens, $2.00." in (scene.place(task) / "prompt.md").read_text()


# the tree


CAP, TURN = 2000, 60
CHILD = f"""n=0
while [ $n -lt 60 ]; do n=$((n+1))
  until [ -e "go-$n" ] || [ -e "go-$OVERHAND_TASK-$n" ]; do sleep 0.01; done
  echo '{{"input": {TURN}}}' >>"$OVERHAND_USAGE"
done; {DONE}"""


def family(scene: Scene, cap: int, children: int, *, child: str = CHILD, budget_of_child: str = "") -> str:
    """A parent that delegates to so many at once and waits for the file `end`; each child takes turns of 60."""
    scene.project.config("[limits]\nmax_parallel = 0\nstop_grace = '1s'\n")
    mine = f"--budget {budget_of_child}" if budget_of_child else ""
    scene.shell(
        "worker",
        f"for i in $(seq {children}); do $OVERHAND delegate part-$i --agent child {mine} >>delegated & done; wait; "
        f"touch all; until [ -e end ]; do sleep 0.01; done; {DONE}",
    )
    scene.shell("child", child)
    parent = scene.delegate("all of it", "--budget", str(cap))
    scene.appears("all")
    return parent


def children_of(scene: Scene, task: str) -> list[str]:
    return [s.id for s in scene.store.tasks() if s.parent and s.parent.task == task]


def turns(scene: Scene, task: str) -> int:
    """How many it has taken."""
    usage = reported_usage(Beneath(str(scene.desk(task))))
    return usage.turns if usage else 0


def take_turns(scene: Scene, tasks: list[str]) -> None:
    """Let each of them take one turn, and wait for its report; who was stopped before that takes none."""
    wanted = {task: turns(scene, task) + 1 for task in tasks}
    for task, number in wanted.items():
        (scene.path / f"go-{task}-{number}").touch()
    until(lambda: all(turns(scene, t) >= n for t, n in wanted.items() if live(scene, [t])), "their turns")


def spent(scene: Scene, children: list[str]) -> int:
    """What they reported; one that was stopped in its first turn has only an estimate."""
    return TURN * sum(turns(scene, child) for child in children)


def at_rest(scene: Scene, tasks: list[str]) -> bool:
    return all(scene.state(task).status for task in tasks)


def live(scene: Scene, tasks: list[str]) -> list[str]:
    return [task for task in tasks if scene.state(task).status is None]


def is_acted_on(scene: Scene, parent: str, children: list[str]) -> bool:
    """Whether nobody lives who is to be stopped."""
    above = scene.state(parent)
    if budget_level(tree_spending(scene.store, above), own_cap(above)) >= STOP_LEVEL:
        return at_rest(scene, [parent, *children])
    used = [(spending.own(scene.store, scene.state(c)), above.reserved.get(c)) for c in live(scene, children)]
    return all(held is None or budget_level(own, held) < STOP_LEVEL for own, held in used)


def keeps_the_promise(scene: Scene, parent: str, cap: int) -> None:
    """No start beyond the cap, at most one turn each beyond it, and every hold settled once."""
    children = children_of(scene, parent)
    assert spent(scene, children) <= cap + TURN * len(children)
    held: dict[str, int] = {}
    for event in scene.events(parent):
        if event["e"] == "reserved":
            held[event["child"]] = event["tokens"]
            assert sum(held.values()) <= cap
        elif event["e"] == "settled":
            held[event["child"]] = event["tokens"]
    task = scene.state(parent)
    assert task.reserved == {}
    for child in children:
        taken = [event["e"] for event in scene.events(parent) if event.get("child") == child]
        began = bool(scene.state(child).runs)
        assert taken.count("settled") == int(began)
        assert taken[-1:] == (["settled"] if began else [])
        if began:
            assert task.settled[child].tokens == own_spending(scene.state(child)).tokens


@pytest.mark.parametrize("order", ["together", "in turn", "one after the other"])
def test_eight_children_against_one_cap(scene: Scene, order: str) -> None:
    """Each takes its next turn once nobody is left who should have been stopped: one turn each is in flight."""
    parent = family(scene, CAP, 8)
    children = children_of(scene, parent)
    assert len(children) == 8
    for child in children:
        scene.running(child)
    while at_work := live(scene, children):
        for some in {"together": [at_work], "in turn": [[c] for c in at_work]}.get(order, [at_work[:1]]):
            take_turns(scene, some)
            until(lambda: is_acted_on(scene, parent, children), "whoever is over it stopped")
    assert scene.judged(parent).runs[0].cause == "budget"
    until(lambda: not scene.state(parent).reserved, "all holds settled")
    keeps_the_promise(scene, parent, CAP)
    assert spent(scene, children) >= 0.9 * CAP  # what was left went to those who needed it
    assert "95 % of 2k tokens" in scene.state(parent).limits


def test_a_supervisor_that_dies_in_between(scene: Scene) -> None:
    """After every second turn, before or after it was counted; the next one finds what is owed."""
    parent = family(scene, CAP, 8)
    children = children_of(scene, parent)
    for child in children:
        scene.running(child)
    number = 0
    while at_work := live(scene, children):
        number += 1
        take_turns(scene, at_work)
        if number % 2:
            scene.kill_supervisor()
            scene.json("list")  # whoever looks starts another one
        until(lambda: is_acted_on(scene, parent, children), "whoever is over it stopped")
    scene.kill_supervisor()
    with scene.store.lock(parent, {"kind": "overhand"}) as locked:  # as if it had died before it settled this one
        locked.append(BudgetReserved(child=children[0], tokens=1000, usd=0.0))
    scene.shell("other", DONE)
    scene.delegate("something else", "--agent", "other")
    until(lambda: not scene.state(parent).reserved, "all holds settled")
    assert scene.judged(parent).runs[0].cause == "budget"
    assert spent(scene, children) <= CAP + TURN * 8
    own = {child: own_spending(scene.state(child)) for child in children}
    assert scene.state(parent).settled == own
    assert all(len(scene.state(child).runs) == 1 for child in children)


def test_too_little_is_left_for_a_child(scene: Scene) -> None:
    """The first two ask for it all; the third is refused, and told by whom and why."""
    parent = family(scene, 1000, 3, child="sleep 600", budget_of_child="480")
    children = children_of(scene, parent)
    until(lambda: sum(scene.state(c).status == "rejected" for c in children) == 1, "one of them refused")
    (refused,) = [c for c in children if scene.state(c).status == "rejected"]
    (judged,) = scene.events(refused, "judged")
    assert judged["code"] == "BUDGET_EXCEEDED"
    assert judged["summary"].startswith("Task 1 has a budget of 1k tokens, and 960 tokens of it are spoken for")
    assert not scene.state(refused).runs
    (scene.path / "end").touch()
    assert scene.judged(parent).status == "completed"
    scene.json("stop", "--all", "--now")
    until(lambda: not scene.state(parent).reserved, "what they held is given back")
    keeps = scene.state(parent).settled
    assert set(keeps) == set(children) - {refused}


def test_caps_below_caps(scene: Scene) -> None:
    """What is two levels down draws on the budget between; nothing goes beyond either."""
    scene.project.config("[limits]\nmax_parallel = 0\n")
    scene.shell(
        "worker", f"$OVERHAND delegate mid --agent mid --budget 400; until [ -e end ]; do sleep 0.01; done; {DONE}"
    )
    scene.shell(
        "mid",
        """echo '{"input": 1}' >>"$OVERHAND_USAGE"
for i in 1 2 3; do $OVERHAND delegate low-$i --agent low & done; wait; touch all; sleep 600""",
    )
    scene.shell("low", CHILD)
    top = scene.delegate("top", "--budget", "1000")
    scene.appears("all")
    (mid,) = children_of(scene, top)
    low = children_of(scene, mid)
    assert scene.state(top).reserved == {mid: make_amount(400)}
    until(lambda: len(scene.state(mid).reserved) == 3, "all three hold something of it")
    assert sum(one.tokens for one in scene.state(mid).reserved.values()) <= 400
    for child in low:
        scene.running(child)
    while at_work := live(scene, low):
        take_turns(scene, at_work)
        until(lambda: is_acted_on(scene, mid, low), "whoever is over it stopped")
    assert scene.judged(mid).runs[0].cause == "budget", "stopped, with what it delegated"
    used = tree_spending(scene.store, scene.state(mid)).tokens
    assert 380 <= used <= 400 + 3 * TURN
    until(lambda: scene.state(top).settled, "settled at the top")
    assert scene.state(top).settled[mid].tokens == used
    assert scene.state(top).status is None
    (scene.path / "end").touch()
    assert scene.judged(top).status == "completed"


def test_the_default_budget_of_a_project(scene: Scene) -> None:
    """A child draws on its parent's and gets none of its own."""
    scene.project.config("[budget]\ntask = '20k tokens'\n")
    scene.shell("worker", f"$OVERHAND delegate below --agent child --wait; {DONE}")
    scene.shell("child", DONE)
    parent = scene.delegate()
    assert scene.judged(parent).budget == "20k tokens"
    (child,) = children_of(scene, parent)
    assert scene.state(child).budget is None
    (reserved,) = scene.events(parent, "reserved")
    assert reserved["tokens"] == 5000


# the day


def test_the_budget_of_a_day(scene: Scene) -> None:
    scene.project.config("[budget]\nday = '$1'\n")
    worker(scene, {"usd": 0.5})
    first = scene.delegate("first")
    go(scene, 1, 2)
    task = scene.judged(first)
    assert task.runs[0].cause == "budget"
    assert "95 % of $1.00 a day" in task.limits
    second = scene.delegate("second")

    def reason() -> Any:
        (row,) = [row for row in scene.json("list")["tasks"] if row["task_id"] == second]
        return row.get("reason")

    assert until(reason, "why it waits") == "the budget of $1.00 a day is used up; it goes on after midnight UTC"
    assert (scene.state(second).queued, scene.state(second).runs) == (True, [])
    assert "queued: no budget" in scene.project.run("list").out
    for number in (1, 2):
        (scene.path / f"go-{number}").unlink()  # these spend nothing: they are to be seen at work
    scene.project.config("[budget]\nday = '$3'\n")
    scene.json("list")
    third = scene.delegate("third")  # a message makes the supervisor read its settings
    scene.running(second)
    scene.running(third)
    until(lambda: not Path(scene.store.own, "held").exists(), "no reason any more")
    scene.json("stop", "--all", "--now")


def test_yesterday_does_not_count(scene: Scene) -> None:
    task = scene.accepted()
    run = "sess_1_aaaaaa"
    report = UsageReported(run=run, output=0, input=70, usd=0.0, turns=0, context=0, window=0, estimated=False)
    with scene.store.lock(task, {"kind": "overhand"}) as locked:
        locked.append(run_created(run, "worker", "command", 600.0), report)
        locked.append(report.replace(input=100), Judged(run=run, status="failed", summary=""))
    assert spent_today(scene.store) == make_amount(100)
    path = scene.place(task).parents[1] / "log.jsonl"
    today = now_stamp()[:10]
    early, *rest = path.read_text().split('"input":100')
    path.write_text('"input":100'.join([early.replace(today, "2020-01-01"), *rest]))
    assert spent_today(scene.store) == make_amount(30)


# the context window


def test_a_full_window_is_handed_over(scene: Scene) -> None:
    """The next run goes on from the checkpoint; the task is not judged in between."""
    scene.shell(
        "worker",
        f"""[ -e second ] && {{ {DONE} exit; }}
for c in 71 86 96; do until [ -e "go-$c" ]; do sleep 0.01; done
[ $c = 96 ] && touch second
echo "{{\\"input\\": 5, \\"context\\": ${{c}}000, \\"window\\": 100000}}" >>"$OVERHAND_USAGE"; done; sleep 600""",
    )
    task = scene.delegate()
    go(scene, 71)
    first = scene.place(task).name
    limits(scene, task, f"70 % of the context window in {first}")
    go(scene, 86)
    until(lambda: scene.events(task, "checkpoint"), "the checkpoint")
    go(scene, 96)
    state = scene.judged(task)
    assert (state.status, [run.cause for run in state.runs]) == ("completed", ["budget", "exit"])
    (again,) = [event for event in scene.events(task, "accepted") if "resume" in event]
    saved = scene.events(task, "checkpoint")[-1]["id"]
    assert again["resume"] == {"run": first, "from": saved, "why": "context window is full"}
    assert f"Go on from checkpoint {saved}" in (scene.place(task) / "prompt.md").read_text()


def test_it_is_not_handed_over_for_ever(scene: Scene) -> None:
    scene.shell("worker", """echo '{"context": 96, "window": 100}' >>"$OVERHAND_USAGE"; sleep 600""")
    task = scene.delegate()
    state = scene.judged(task)
    assert len(state.runs) == spending.MOST_HANDOVERS + 1
    assert {run.cause for run in state.runs} == {"budget"}
    assert any("not handed over once more" in notice for notice in state.notices)


def test_an_agent_that_compacts_is_left_alone(scene: Scene) -> None:
    scene.shell(
        "worker",
        f"""echo '{{"context": 99, "window": 100}}' >>"$OVERHAND_USAGE"
until [ -e go-1 ]; do sleep 0.01; done; {DONE}""",
        compacts=True,
    )
    task = scene.delegate()
    limits(scene, task, f"70 % of the context window in {scene.place(task).name}")
    go(scene, 1)
    state = scene.judged(task)
    assert (state.status, len(state.runs), state.checkpoints) == ("completed", 1, [])


# functions


def test_a_function_in_a_process_of_its_own(scene: Scene) -> None:
    (scene.path / "work.py").write_text(
        "import signal\ndef spend(call):\n    while True:\n        call.usage(input=600, usd=0.1, window=1000000)\n"
        "        signal.sigtimedwait([], 0.1)\n"
    )
    scene.project.agent("worker", driver="function", function="work:spend")
    task = scene.delegate("do it", "--budget", "6k")
    state = scene.judged(task)
    assert state.runs[0].cause == "budget"
    assert state.runs[0].usage
    assert state.runs[0].usage.window == 1_000_000


def test_a_function_in_this_process(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can stop it, so it is told; what it delegates draws on its budget."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(scene.project.config_home))
    told: list[str] = []
    with Project(scene.path) as project:

        @project.agent("spender")
        def spend(call: Call) -> str:
            project.delegate("below", agent="leaf").wait()
            try:
                for _ in range(100):
                    call.usage(input=100)
            except BudgetExceeded as error:
                told.append(error.message)
                raise
            return "never"

        @project.agent("leaf")
        def leaf(call: Call) -> str:
            call.usage(input=90, output=10)
            return "done"

        task = project.delegate("spend", agent="spender", budget="1k tokens")
        result = task.wait()
        assert (result.status, result.cause) == ("failed", "budget")
        assert (result.usage["tokens"], result.usage["turns"]) == (900, 9)
        assert told == ["The budget is used up: 95 % of 1k tokens."]
        state = project.session.store.task(task.id)
        (child,) = state.settled
        assert state.settled[child] == make_amount(100)
        other = project.delegate("again", agent="leaf", budget="10").wait()
        assert (other.status, other.cause, other.usage["tokens"]) == ("failed", "budget", 100)


# looking


def test_list_cost(scene: Scene) -> None:
    scene.shell(
        "worker",
        f"""echo '{{"input": 3000, "usd": 1}}' >>"$OVERHAND_USAGE"; $OVERHAND delegate b --agent child -w; {DONE}""",
    )
    scene.shell("child", f"""echo '{{"input": 1500, "output": 500, "usd": 0.25}}' >>"$OVERHAND_USAGE"; {DONE}""")
    parent = scene.delegate("a", "--budget", "100k")
    scene.judged(parent)
    shown = scene.json("list", "--cost")
    above, below = shown["tasks"]
    assert (above["tokens"], above["usd"], above["budget"], above["used_of_budget"]) == (3000, 1.0, "100k tokens", 0.05)
    assert above["tree"] == {"tokens": 5000, "usd": 1.25, "estimated": False, "tasks": 2}
    assert (below["input"], below["output"], below["indent"], below["budget"]) == (1500, 500, 1, None)
    assert shown["today"] == {"tokens": 5000, "usd": 1.25}
    assert shown["total"] == {"tokens": 5000, "usd": 1.25, "estimated": False}
    text = scene.project.run("list", "--cost").out
    assert "5% of 100k tokens" in text
    assert "total  5000 tokens, $1.25" in text
