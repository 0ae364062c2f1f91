"""What people read: one golden file per message, and nothing in it that drives a terminal.

`OVERHAND_GOLDEN=write pytest tests/cli/test_text.py` writes the files anew; look at the difference before you commit.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from overhand.cli import text as answers
from support.scene import until
from support.warm import make_project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.testing.project import ProjectDir, Ran

GOLDEN = Path(__file__).parent.parent / "golden/verbs"
PROGRESS = re.compile(r"Stopping |Running |\d+ \w+: ")  # how much of it is seen is a matter of time
WRITE = os.environ.get("OVERHAND_GOLDEN") == "write"


def normal(text: str, project: ProjectDir) -> str:
    """Without what differs from run to run: ids, times, places."""
    text = text.replace(str(project.record), "/record").replace(str(project.path), "/project")
    for pattern, word in (
        (r"sess_\d+_[0-9a-z]{6}", "sess_RUN"),
        (r"-\d{8}-\d{6}(-\d+)?", "-DATE-TIME"),
        (r"checks-[0-9a-z]{6}", "checks-AGAIN"),
        (r"\b\d+(\.\d+)?s in your", "TIME in your"),
        (r"running +\d\S* *", "running TIME "),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "STAMP"),
        (r"(?m)^\d\d:\d\d:\d\d ", "HH:MM:SS "),
        (r"(?m)  \((?!overhand\))\w+\)$", "  (USER)"),
        (r"shim=\d+", "shim=PID"),
        (r"(?m)^( +\d+)( +~\d\S*)+", r"\1 ~N"),
        (r"~\d+(\.\d+)?[kM]?", "~N"),
        (r"input=\d+ output=\d+", "input=N output=N"),
        (r"(?m)^today .*", "today  N"),
        (r"(not )?shielded[:;,] .*", "SHIELDED"),
    ):
        text = re.sub(pattern, word, text)
    return text


BARE = {"PATH": "/usr/bin:/bin"}  # whatever agent programs this machine has


def compare(name: str, ran: Ran, project: ProjectDir) -> None:
    told = "".join(line for line in ran.err.splitlines(keepends=True) if not PROGRESS.match(line))
    shown = normal(f"{ran.out}{'--- stderr' if told else ''}\n{told}".rstrip() + f"\n=> {ran.code}\n", project)
    path = GOLDEN / f"{name}.txt"
    if WRITE:
        path.write_text(shown, encoding="utf-8")
    assert shown == path.read_text(encoding="utf-8")


def at_work(project: ProjectDir, handle: str) -> None:
    """Return when its run is recorded as begun: its agent may be quicker than that."""
    until(lambda: project.run("show", handle, "--json").json["run_state"] == "running", f"task {handle} running")


VERIFIED = (
    "delegate",
    "Write a.txt",
    "--agent",
    "worker",
    "--deliverable",
    "a.txt",
    "--verify",
    "test -s a.txt",
    "--wait",
)


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProjectDir]:
    """Tasks in every state a person may find them in."""
    agents = {
        "worker": ("file:a.txt=hi", "output:summary=Wrote a.txt."),
        "liar": ("claim:report.md",),
        "asker": ("output:status=needs-input,summary=Which database is it?",),
        "busy": ("file:ready=go", "until:gate", "output"),
    }
    project = make_project(tmp_path_factory.mktemp("office") / "project", agents, config="[limits]\nmax_parallel = 1\n")
    os.mkfifo(project.path / "ready")
    project.run(*VERIFIED)
    project.run("delegate", "Write something", "--agent", "worker", "--wait")
    project.run("delegate", "Report on the log", "--agent", "liar", "--deliverable", "report.md", "--wait")
    project.run("delegate", "Move the data", "--agent", "asker", "--wait")
    project.run("delegate", "Take a while", "--agent", "busy", check=True)
    assert (project.path / "ready").read_text() == "go"
    at_work(project, "5")
    project.run("delegate", "Come next", "--agent", "worker", "--verify", "true", check=True)
    project.run("delegate", "Come after that", "--agent", "worker", "--after", "5", check=True)
    project.run("delegate", "Perhaps later", "--agent", "worker", "--no-start", check=True)
    try:
        yield project
    finally:
        project.cleanup()


SHOWN = {
    "show-verified": ["show", "1"],
    "show-unverified": ["show", "2"],
    "show-phantom": ["show", "3"],
    "show-needs-input": ["show", "4"],
    "show-running": ["show", "5"],
    "show-queued": ["show", "6"],
    "show-prepared": ["show", "8"],
    "wait-verified": ["wait", "1"],
    "wait-phantom": ["wait", "3"],
    "monitor-output": ["monitor", "1"],
    "monitor-context": ["monitor", "3"],
    "list": ["list"],
    "list-live": ["list", "--live"],
    "list-resumable": ["list", "--resumable"],
    "list-cost": ["list", "--cost"],
    "log": ["log", "1"],
    "stop-nothing": ["stop", "1"],
    "agents": ["agents"],
    "clean": ["clean", "--dry-run", "--older", "0s"],
}
FAILING = {
    "error-verb": ["lst"],
    "error-option": ["list", "--al"],
    "error-empty": ["delegate", ""],
    "error-agent": ["delegate", "x", "--agent", "wroker"],
    "error-which-agent": ["delegate", "x"],
    "error-timeout": ["delegate", "x", "--agent", "worker", "--timeout", "-1"],
    "error-too-long": ["delegate", "x", "--agent", "worker", "--timeout", "9h"],
    "error-setting": ["delegate", "x", "--agent", "worker", "--set", "limits.max_paralel=3"],
    "error-task": ["show", "99"],
    "error-ambiguous": ["show", "write"],
    "error-completed": ["run", "1"],
    "error-held": ["run", "5"],
    "error-unjudged": ["check", "8"],
    "error-no-checks": ["check", "2"],
    "error-contract": ["delegate", "x", "--agent", "worker", "--contract", "nope"],
    "error-handoff": ["delegate", "--handoff", "nope.md", "--agent", "worker"],
    "error-no-output": ["show", "3", "--output"],
    "error-project": ["--project", "nope", "list"],
}


@pytest.mark.parametrize("name", [*SHOWN, *FAILING])
def test_golden(office: ProjectDir, name: str) -> None:
    compare(name, office.run(*{**SHOWN, **FAILING}[name], env=BARE), office)


def test_golden_delegate(overhand_project: ProjectDir) -> None:
    overhand_project.agent("gated", "until:gate", "output")
    words = (
        "delegate",
        "Write the guide",
        "--agent",
        "gated",
        "--kind",
        "fix",
        "--file",
        "gone.md=why",
        "--verify",
        "true",
    )
    compare("delegate", overhand_project.run(*words), overhand_project)
    compare(
        "delegate-prepared",
        overhand_project.run("delegate", "Tidy", "--agent", "gated", "--no-start"),
        overhand_project,
    )
    at_work(overhand_project, "1")
    compare("stop", overhand_project.run("stop", "1"), overhand_project)


def test_golden_check(overhand_project: ProjectDir) -> None:
    """In a project of its own: `show` names the newest check of a task."""
    overhand_project.agent("worker", "file:a.txt=hi", "output:summary=Wrote a.txt.")
    overhand_project.run(*VERIFIED, check=True)
    compare("check-task", overhand_project.run("check", "1", env=BARE), overhand_project)


def test_golden_parked(overhand_project: ProjectDir) -> None:
    overhand_project.agent("asker", "overhand-ask:Which colour?=red|blue", "output")
    compare("list-resumable-none", overhand_project.run("list", "--resumable"), overhand_project)
    setting = ("--set", "limits.answer_wait=0.2s")
    parked = overhand_project.run("delegate", "Paint the door", "--agent", "asker", "--wait", *setting)
    compare("wait-parked", parked, overhand_project)
    compare("answer-resumes", overhand_project.run("answer", "1", "blue"), overhand_project)


def test_golden_first_use(tmp_path: Path, overhand_project: ProjectDir) -> None:
    (tmp_path / "empty").mkdir()
    overhand_project.trust = False
    for name, line in (("first-status", []), ("first-delegate", ["delegate", "x"]), ("first-agents", ["agents"])):
        ran = overhand_project.run("--project", str(tmp_path / "empty"), *line, env=BARE)
        assert "Traceback" not in ran.err
        compare(name, type(ran)(ran.code, ran.out, ran.err.replace(str(tmp_path), "")), overhand_project)


def is_named(golden: str, tests: str) -> bool:
    return f'"{golden}"' in tests or f'f"{golden.partition("-")[0]}-{{' in tests


def test_every_golden_file_is_used() -> None:
    """Some test names it, perhaps only with its first word."""
    tests = "".join(
        path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.parent.rglob("test_*.py"))
    )
    assert [path.stem for path in sorted(GOLDEN.glob("*.txt")) if not is_named(path.stem, tests)] == []


# ---- what an agent writes must not drive the terminal

EVIL = "\x1b]0;title\x07\x1b[2J\x9b31m\r\x08\x7f\u202e\u2066"


def control_characters(text: str) -> set[str]:
    return {c for c in text if answers.printable(c) != c and c != "\n"}


def test_nothing_an_agent_wrote_drives_the_terminal(overhand_project: ProjectDir) -> None:
    output = (
        f"# Task Complete: {EVIL}\n\n**Status:** completed\n**Agent:** {EVIL}\n\n## Summary\nDone{EVIL}.\n\n"
        f"## Decisions Made\n- **{EVIL}**: {EVIL}\n\n## For Primary\n{EVIL}\n\n## Files Modified\n- `{EVIL}` — {EVIL}\n"
    )
    (overhand_project.path / "evil.md").write_text(output, encoding="utf-8", newline="")
    name = "out/\x1b[31m.txt"
    (overhand_project.path / "evil.sh").write_text(
        f'mkdir -p out; : > "{name}"; echo x > "{name}2.txt"; printf "%s\\n" "{EVIL}"; printf "%s\\n" "{EVIL}" >&2\n'
        'cp evil.md "$OVERHAND_OUTPUT"\n',
        newline="",
    )
    overhand_project.agent("evil", command=["sh", "evil.sh"])
    args = (
        "--agent",
        "evil",
        "--deliverable",
        "out/*.txt",
        "--deliverable",
        f"a {EVIL} sentence",
        "--verify",
        f"true {EVIL}",
    )
    overhand_project.agent("evil-named", "output").rename(overhand_project.path / ".overhand/agents/\x1b[1mx.md")
    shown = [overhand_project.run("delegate", f"Be evil {EVIL}", *args, "--wait")]
    shown += [
        overhand_project.run(*line)
        for line in (["show", "1"], ["list"], [], ["log", "1", "-o"], ["wait", "1"], ["agents"], ["check", "1"],
                     ["check", "evil.md"], ["show", EVIL], ["delegate", "x", "--agent", EVIL], ["trust", "--yes"])
    ]  # fmt: skip
    assert "Be evil" in shown[1].out
    for ran in shown:
        assert "Traceback" not in ran.err
        assert control_characters(ran.out + ran.err) == set(), ran


def test_output_of_an_accepted_result_is_printed_without_escapes(overhand_project: ProjectDir) -> None:
    (overhand_project.path / "evil.md").write_text(
        f"# Task Complete: x\n\n**Status:** completed\n\n## Summary\nHi {EVIL}\n"
    )
    overhand_project.agent("evil", command=["sh", "-c", 'cp evil.md "$OVERHAND_OUTPUT"'])
    overhand_project.run("delegate", "x", "--agent", "evil", "--wait", check=True)
    ran = overhand_project.run("show", "1", "--output", check=True)
    assert "Hi \ufffd" in ran.out
    assert control_characters(ran.out) == set()


def test_a_long_answer_is_cut_for_the_eye_and_whole_in_json(overhand_project: ProjectDir) -> None:
    head = "# Task Complete: x\\n\\n**Status:** completed\\n\\n## Summary\\nDone.\\n\\n## For Primary\\n"
    script = f"{{ printf '{head}'; yes 'a line' | head -n 1500000; }} > $OVERHAND_OUTPUT"
    overhand_project.agent("wordy", command=["sh", "-c", script])
    overhand_project.run("delegate", "x", "--agent", "wordy", "--wait", check=True)
    text = overhand_project.run("show", "1", check=True).out
    assert len(text) < 5000
    assert "1499960 more lines: overhand show 1 --output" in text
    shown = overhand_project.run("show", "1", "--json").json
    assert (shown["status"], shown["problems"]) == ("completed", [])
    assert len(shown["for_primary"]) > 10_000_000


def test_a_terminal_without_unicode_is_no_reason_to_fail(overhand_project: ProjectDir) -> None:
    overhand_project.run("delegate", "Grüße ☃", "--no-start", check=True)
    env = {"PYTHONIOENCODING": "ascii"}
    ran = overhand_project.run("show", "1", env=env)
    assert (ran.code, ran.err) == (0, "")
    assert overhand_project.run("show", "1", "--json", env=env).json["title"] == "Grüße ☃"
