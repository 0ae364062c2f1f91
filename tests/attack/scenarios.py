"""What is attacked: every verb that changes something, the supervisor at its work, and a function in its caller."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from attack.harness import PATIENCE, Scenario, Site
from overhand.testing.project import Ran
from support.scene import QUICK, until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

SUPERVISOR = "overhand.supervisor"
INSIDE = ("ask", "step", "checkpoint", "finish", "child")  # typed by an agent
DELEGATE = ("delegate", "Do this", "--agent", "worker")
REQUEST = "# Fix Request: The map pauses\n\n**Tags**: #needs-fix #P1\n\n## What\nThe map pauses when one zooms in.\n"
FAILS_FIRST = f"if [ ! -e tried ]; then touch tried; exit 3; fi\n{QUICK}"
HANGS = ": >up; exec sleep 600"
ITEM = "FIX_REQUEST_MAP.md#fix"
ITEM_NEW = ("item", "new", "chores", "Sweep the floor", "--what", "Sweep it.")
PLAN = """\
plan: Do all of it
nodes:
  a: {agent: worker, task: Do this part of the work as it was agreed, verification: it holds}
  b: {agent: worker, task: Do this part of the work as it was agreed, verification: it holds, after: [a]}
merge: sequential
on_failure: {policy: abort}
"""
FUNCTION = """\
import sys
from overhand import Project
from overhand.errors import OverhandError

def told(kind, error, trace):
    if issubclass(kind, OverhandError):
        sys.exit(3)  # what a program of the user's handles
    sys.__excepthook__(kind, error, trace)

sys.excepthook = told
with Project(".") as project:

    @project.agent("here")
    def work(call):
        with open("trail", "a") as file:
            file.write(f"+ {call.task_id} {call.run_id}\\n")
        return "Done."

    project.delegate("Do this", agent="here").wait()
"""


def typed(*words: str) -> Callable[[Site, Mapping[str, str]], Ran]:
    """A person types this."""
    return lambda site, fault: site.attacked(fault, *words)


def script(text: str, *words: str) -> Callable[[Site], None]:
    """A worker that does this; then a person types words, if any."""

    def prepare(site: Site) -> None:
        site.shell("worker", text)
        if words:
            site.json(*words, codes={0, 1})

    return prepare


def status_of(site: Site, task: str = "1") -> str:
    return str(site.json("show", task)["status"])


def completed(site: Site, ran: Ran) -> None:
    """Every task that there is was done."""
    for row in site.rows():
        assert row["status"] == "completed", row


def unless(done: Callable[[dict[str, Any]], bool], *words: str, starts: int) -> Callable[[Site, Ran], None]:
    """What the victim did not do any more is typed again; then the task is completed, after so many starts."""

    def truth(site: Site, ran: Ran) -> None:
        if not done(site.json("show", "1")):
            site.json(*words)
        shown = site.settle("1")
        assert shown["status"] == "completed", shown
        assert site.starts(shown["task_id"]) == starts, site.trail()

    return truth


def has_status(shown: dict[str, Any]) -> bool:
    return shown["status"] is not None


def is_completed(shown: dict[str, Any]) -> bool:
    return bool(shown["status"] == "completed")


def was_told(shown: dict[str, Any]) -> bool:
    return any(message["state"] != "queued" for message in shown["messages"])


# inside a run: what the victim did not do is done again by the agent, which sees that it failed


def inside(words: str) -> Callable[[Site], None]:
    call = f"$O {words}"
    return script(f"{call} >>said 2>&1 || {call} >>said 2>&1\n{QUICK}")


def said_clearly(site: Site, ran: Ran) -> None:
    path = site.path / "said"
    assert "Traceback" not in (path.read_text() if path.exists() else "")
    completed(site, ran)


def delegating(site: Site) -> None:
    """The agent repeats what failed: what was recorded before the kill stands beside it."""
    site.shell("helper", QUICK)
    inside('delegate "A part" --agent helper --wait')(site)


def with_child(site: Site) -> None:
    site.shell("helper", QUICK)
    site.shell("worker", f"$O delegate Part --agent helper --wait >>said 2>&1; {QUICK}")


def with_control(site: Site) -> None:
    """A delegation by a printed line, whose result starts the next run."""
    site.shell("helper", QUICK)
    say = "printf 'CONTROL: CHECKPOINT REASON: so far\\nCONTROL: DELEGATE helper\\nREASON: Do that part\\n\\n'"
    site.shell("worker", f"test -e tried || {{ : >tried; {say}; }}\n{QUICK}", control=True)


def failed_and_resumed(site: Site, fault: Mapping[str, str]) -> Ran:
    site.attacked(fault, *DELEGATE, "--wait")
    site.settle("1")
    return site.attacked({}, "resume", "1", "--wait")


# stopping


def running(site: Site) -> None:
    site.shell("worker", HANGS)
    site.json(*DELEGATE)
    until((site.path / "up").exists, "the agent at work", PATIENCE)


def stop_under(site: Site, fault: Mapping[str, str]) -> Ran:
    """The supervisor is the victim: from its start to the end of the run that it is told to stop."""
    site.shell("worker", HANGS)
    site.attacked(fault, *DELEGATE)

    def begun() -> bool:
        """Or given up: a fault may keep it from starting."""
        return site.rows()[0]["status"] is not None or (site.path / "up").exists()

    until(begun, "the agent at work", PATIENCE)
    return site.attacked({}, "stop", "1")


def stopped(site: Site, ran: Ran) -> None:
    assert status_of(site) in {"cancelled", "failed", "partial"}, status_of(site)


def stop_again(site: Site) -> None:
    site.json("stop", "1", "--now")


# questions


def asks(site: Site) -> None:
    site.shell("worker", f'$O ask "Which?" >>said 2>&1\n{QUICK}')
    site.json(*DELEGATE)
    site.json("monitor", "1")


def parking(site: Site) -> None:
    """An agent that leaves when its question is not answered at once; one that could not be asked is asked again."""
    ask = 'ask() { $O ask "Which?" --timeout 0.1s >>said 2>&1; }'
    site.shell("worker", f"{ask}\ntest -e tried || {{ : >tried; ask; test $? != 3 || ask; exit 0; }}\n{QUICK}")


def parked(site: Site) -> None:
    parking(site)
    site.json(*DELEGATE)
    until(lambda: site.json("show", "1")["status"], "a parked run", PATIENCE)


def asked_inside(site: Site, fault: Mapping[str, str]) -> Ran:
    ran = site.attacked(fault, *DELEGATE)
    site.settle("1")
    return ran


def parked_and_answered(site: Site, fault: Mapping[str, str]) -> Ran:
    """The supervisor is the victim: a run that ends while its question is open, the answer, and the next run."""
    parking(site)
    ran = site.attacked(fault, *DELEGATE)
    if until(lambda: site.json("show", "1")["status"], "a parked run", PATIENCE) == "needs-input":
        site.json("answer", "1", "blue")  # else a fault kept it from starting
    return ran


# items and tags


def request(site: Site) -> None:
    site.settings("approve_without_terminal = true\n")
    (site.path / "FIX_REQUEST_MAP.md").write_text(REQUEST)
    site.config("default_agent = 'worker'\n" + (site.path / ".overhand/config.toml").read_text())
    site.json("item", "list")


def item_done(site: Site, ran: Ran) -> None:
    text = (site.path / "FIX_REQUEST_MAP.md").read_text()
    if site.rows():
        completed(site, ran)
        site.json("item", "list")
        text = (site.path / "FIX_REQUEST_MAP.md").read_text()
        assert "#done-fix" in text, text
        assert text.count("### Run") == 1, text
    else:
        assert text == REQUEST, text


def swapped(site: Site, ran: Ran) -> None:
    text = (site.path / "FIX_REQUEST_MAP.md").read_text()
    assert text in (REQUEST, REQUEST.replace("#needs-fix", "#needs-chores")), text
    if text == REQUEST:
        site.json("tag", "swap", "FIX_REQUEST_MAP.md", "#needs-fix", "#needs-chores")


def approved_next(site: Site) -> None:
    request(site)
    site.json("item", "approve", ITEM, "--next")


def taken(site: Site) -> None:
    approved_next(site)
    site.json("item", "claim", ITEM)


def taken_and_done(site: Site, ran: Ran) -> None:
    """Both verbs can be typed again until they have worked."""
    for words in (("claim", ITEM), ("done", ITEM, "--summary", "Done.")):
        site.json("item", *words, codes={0, 3})
    text = (site.path / "FIX_REQUEST_MAP.md").read_text()
    assert text.count("#done-fix") == 1, text
    assert "#claimed" not in text, text


def dismissed(site: Site, ran: Ran) -> None:
    site.json("item", "dismiss", ITEM, codes={0, 2, 3, 4})
    text = (site.path / "FIX_REQUEST_MAP.md").read_text()
    assert "#needs-fix" not in text, text


def noted(site: Site, ran: Ran) -> None:
    """One whole request, or none and it can be typed again."""
    if not [*site.path.rglob("CHORES_REQUEST*.md")]:
        site.json(*ITEM_NEW)
    (path,) = site.path.rglob("CHORES_REQUEST*.md")
    assert "#needs-chores" in path.read_text(), path.read_text()
    assert not site.run("check", str(path)).code, path.read_text()


def alerted(site: Site, ran: Ran) -> None:
    if not site.json("alert", "list")["alerts"]:
        site.json("alert", "raise", "No network")
    assert len(site.json("alert", "list")["alerts"]) == 1
    site.json("alert", "resolve", "No network")


# plans


def plan_file(site: Site) -> None:
    (site.home / "plan.yaml").write_text(PLAN)


def plan_run(*words: str) -> Callable[[Site, Mapping[str, str]], Ran]:
    return lambda site, fault: site.attacked(fault, "plan", "run", str(site.home / "plan.yaml"), *words)


# set-up


def initialised(site: Site, ran: Ran) -> None:
    site.json("init")
    site.json(*DELEGATE, "--wait")


def trusted(site: Site, ran: Ran) -> None:
    site.json("trust", "--yes")
    site.json(*DELEGATE, "--wait")


def untrusted(site: Site) -> None:
    site.run("trust", "--yes", check=True)
    site.shell("other", QUICK)
    site.trust = False


def cleaned(site: Site, ran: Ran) -> None:
    site.json("clean", "--older", "0s", "--yes")
    assert site.rows() == []


def two_stopped(site: Site) -> None:
    site.shell("worker", HANGS)
    for number in ("1", "2"):
        site.json(*DELEGATE)
        site.json("stop", number, "--now")


# a function in its caller's process


def host(site: Site) -> None:
    (site.path.parent / "host.py").write_text(FUNCTION)
    site.run("trust", "--yes", check=True)


def several(site: Site) -> None:
    one = 'project.delegate("Do this", agent="here").wait()'
    all_ = 'for task in project.delegate_all([{"title": f"Do {n}", "agent": "here"} for n in range(3)]): task.wait()'
    (site.path.parent / "host.py").write_text(FUNCTION.replace(one, all_))
    site.run("trust", "--yes", check=True)


def call_function(site: Site, fault: Mapping[str, str]) -> Ran:
    ran = subprocess.run(
        [sys.executable, "-m", "host"],
        cwd=site.path,
        env={**site.environment(), **fault, "PYTHONPATH": str(site.path.parent)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    return Ran(ran.returncode, "", ran.stderr)


def at_most_once(site: Site, ran: Ran) -> None:
    """One that was killed is not begun again by another process, for its function is not there."""
    assert len({line.split()[1] for line in site.trail()}) == len(site.trail()), site.trail()


def kind(scenario: Scenario) -> str:
    """What the victim is."""
    if scenario.victim == SUPERVISOR:
        return "the supervisor"
    if scenario.victim == "host":
        return "a program with functions"
    return "a verb inside a run" if scenario.name in INSIDE else "a verb"


def verb(name: str, act: Callable[[Site, Mapping[str, str]], Ran], victim: str, **more: Any) -> Scenario:
    """Unless more is said about it, every task is completed in the end."""
    return Scenario(name, victim, act, **{"truth": completed, **more})


SCENARIOS = [
    verb("delegate", typed(*DELEGATE), "overhand delegate", acknowledges=True, least=37),
    verb("delegate-wait", typed(*DELEGATE, "--wait"), "overhand delegate", acknowledges=True, least=44),
    verb(
        "delegate-again",
        typed(*DELEGATE),
        "overhand delegate",
        prepare=script(QUICK, *DELEGATE, "--wait"),
        tasks=2,
        least=14,
    ),
    verb("supervisor", typed(*DELEGATE, "--wait"), SUPERVISOR, least=60),
    verb(
        "supervisor-checks",
        typed(*DELEGATE, "--wait", "--verify", "test -e made", "--deliverable", "made", "--step", "One"),
        SUPERVISOR,
        prepare=script(f": >made; $O step 1 done >/dev/null; {QUICK}"),
        least=77,
    ),
    verb(
        "run",
        typed("run", "1"),
        "overhand run",
        prepare=script(QUICK, *DELEGATE, "--no-start"),
        truth=unless(has_status, "run", "1", starts=1),
        least=8,
    ),
    verb(
        "resume",
        typed("resume", "1"),
        "overhand resume",
        prepare=script(FAILS_FIRST, *DELEGATE, "--wait"),
        truth=unless(is_completed, "resume", "1", starts=2),
        least=9,
    ),
    verb(
        "send",
        typed("send", "1", "And that"),
        "overhand send",
        prepare=script(QUICK, *DELEGATE, "--wait"),
        truth=unless(was_told, "send", "1", "And that", starts=2),
        least=8,
    ),
    verb(
        "answer",
        typed("answer", "1", "blue"),
        "overhand answer",
        prepare=asks,
        truth=unless(is_completed, "answer", "1", "blue", starts=1),
        least=10,
    ),
    verb(
        "answer-parked",
        typed("answer", "1", "blue"),
        "overhand answer",
        prepare=parked,
        truth=unless(is_completed, "answer", "1", "blue", starts=2),
        least=10,
    ),
    verb("ask", asked_inside, "overhand ask", prepare=inside('ask "Which?"'), truth=said_clearly, least=12),
    verb(
        "step",
        typed(*DELEGATE, "--wait", "--step", "One"),
        "overhand step",
        prepare=inside("step 1 done"),
        truth=said_clearly,
        least=10,
    ),
    verb(
        "checkpoint",
        typed(*DELEGATE, "--wait", "--step", "One"),
        "overhand checkpoint",
        prepare=inside("checkpoint create --reason now"),
        truth=said_clearly,
        least=12,
    ),
    verb(
        "finish",
        typed(*DELEGATE, "--wait"),
        "overhand finish",
        prepare=script("f() { $O finish --status completed --summary Done.; }; f >>said 2>&1 || f >>said 2>&1"),
        truth=said_clearly,
        least=8,
    ),
    verb(
        "child",
        typed(*DELEGATE, "--wait"),
        "overhand delegate A part",
        prepare=delegating,
        truth=said_clearly,
        tasks=3,
        least=16,
    ),
    verb("stop", typed("stop", "1"), "overhand stop", prepare=running, repeat=stop_again, truth=stopped, least=19),
    verb("supervisor-stop", stop_under, SUPERVISOR, repeat=stop_again, truth=stopped, least=78),
    verb("item-approve", typed("item", "approve", ITEM), "overhand item", prepare=request, truth=item_done, least=52),
    verb("supervisor-item", typed("item", "approve", ITEM), SUPERVISOR, prepare=request, truth=item_done, least=84),
    verb(
        "tag-swap",
        typed("tag", "swap", "FIX_REQUEST_MAP.md", "#needs-fix", "#needs-chores"),
        "overhand tag",
        prepare=request,
        truth=swapped,
        tasks=0,
        least=7,
    ),
    verb("item-new", typed(*ITEM_NEW), "overhand item", prepare=request, truth=noted, tasks=0, least=5),
    verb(
        "item-claim",
        typed("item", "claim", ITEM),
        "overhand item",
        prepare=approved_next,
        truth=taken_and_done,
        least=14,
    ),
    verb(
        "item-done",
        typed("item", "done", ITEM, "--summary", "Done."),
        "overhand item",
        prepare=taken,
        truth=taken_and_done,
        least=12,
    ),
    verb("item-dismiss", typed("item", "dismiss", ITEM), "overhand item", prepare=request, truth=dismissed, least=7),
    verb("alert-raise", typed("alert", "raise", "No network"), "overhand alert", truth=alerted, tasks=0, least=6),
    verb("plan", plan_run(), "overhand plan", prepare=plan_file, tasks=3, least=42),
    verb("supervisor-plan", plan_run("--wait"), SUPERVISOR, prepare=plan_file, tasks=3, least=181),
    verb("supervisor-park", parked_and_answered, SUPERVISOR, least=120),
    verb("supervisor-child", typed(*DELEGATE, "--wait"), SUPERVISOR, prepare=with_child, tasks=2, least=104),
    verb("supervisor-control", typed(*DELEGATE, "--wait"), SUPERVISOR, prepare=with_control, tasks=2, least=135),
    verb("supervisor-resume", failed_and_resumed, SUPERVISOR, prepare=script(FAILS_FIRST), least=128),
    verb("functions", call_function, "host", prepare=several, truth=at_most_once, tasks=3, least=125),
    verb(
        "clean",
        typed("clean", "--older", "0s", "--yes"),
        "overhand clean",
        prepare=two_stopped,
        truth=cleaned,
        tasks=2,
        least=45,
    ),
    verb(
        "check",
        typed("check", "1"),
        "overhand check",
        prepare=script(f": >made; {QUICK}", *DELEGATE, "--wait", "--verify", "true"),
        least=13,
    ),
    verb("init", typed("init"), "overhand init", truth=initialised, tasks=0, least=16),
    verb("trust", typed("trust", "--yes"), "overhand trust", prepare=untrusted, truth=trusted, tasks=0, least=8),
    verb("function", call_function, "host", prepare=host, truth=at_most_once, least=62),
]
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
