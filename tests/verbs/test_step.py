"""`step`: the plan is read as its parser reads it, and marked without touching another byte."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overhand.documents import decode_text, parse_handoff
from overhand.errors import BadInput, NotFound, OverhandError
from overhand.record import read_log
from overhand.runs import (
    STEP_STATES,
    StepItem,
    asked_suffix,
    failed_suffix,
    mark_step,
    read_steps,
    step_progress,
    steps,
)
from overhand.system import Beneath
from support.strategies import light
from support.warm import make_project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.testing.project import ProjectDir, Ran

GOLDEN = Path(__file__).parent.parent / "golden"

# lines of which a plan may consist, and what hides or ends one
LINES = [
    "## Plan", "## Plan ##", "## PLAN", "# Plan", "### Plan", "## Plan:", "## **Plan**", "## 2. Plan", "## Task", "# T",
    "## Planned", "### deep", " ## Plan", "- # x", "####### seven", "```", "~~~", "````", "``` a`b", "  ```", "\t```",
    "- ```", "<!-- note -->", "<!--", "-->", " <!-- x -->", "- [ ] one", "- [x] two", "* [X] three",
    "+ [?] four (IPC: 001.question)",
    "1. [!] five — it broke", "2) [~] six", "7. [ ] seven", "- [ ]", "- [x]   ", "-  [ ] wide", "-     [ ] code",
    "  - [ ] nested", "    - [x] deeper", "      - [ ] six in", "   1. [ ] three in", "\t- [ ] tab", "-\t[ ] tabbed",
    "- plain", "- 3 retries", "- - [ ] twice", "text", "  text", "      text", "---", "***", "- - -", "-", "1.", "",
    "  ", "- [y] no box", "- [x]y", "- [!] a \\— b", "- [!] a — b \\— c", "- [!] x (IPC: 2.question) — z", "- [!] — q",
    "- [?] (IPC: 9.question)", "- [?] x\xa0(IPC:  a-b) ", "- [!] \\—\xa0(IPC: x)", "- [ ] (IPC: a b)",
    "- [x] é 日本 🙂\u2028 \x0b",
    "12345678901. [ ] long", "\ufeff- [ ] bom", "* * *", "__", "\x0c", "- [ ] end  ",
]  # fmt: skip


def document(seed: int) -> bytes:
    """A document of such lines, with one of several line ends, perhaps a BOM, perhaps no last newline."""
    dice = random.Random(seed)
    ends = dice.choice(("\n", "\n", "\r\n", "\n\r", "\r"))
    lines = [dice.choice(LINES) for _ in range(dice.randint(0, 14))]
    if dice.random() < 0.7:
        lines.insert(dice.randint(0, len(lines) // 2), "## Plan")
    if dice.random() < 0.7:  # mostly what people write
        lines = [
            line
            for line in lines
            if line[:2] in ("##", "- ", "* ", "1.", "  ", "", "te", "<!", "``") or dice.random() < 0.1
        ]
    ends = "\n" if dice.random() < 0.5 else ends
    text = "".join(line + (ends if dice.random() < 0.97 else "\n") for line in lines)
    raw = text.removesuffix(ends if dice.random() < 0.5 else "?").encode()
    raw = raw.replace(b"two", b"t\xffw\xe2\x80") if dice.random() < 0.1 else raw
    return b"\xef\xbb\xbf" + raw if dice.random() < 0.2 else raw


documents = st.integers(0, 2**40).map(document)


def shown(raw: bytes) -> list[tuple[str, str, int, str, str]]:
    plan = parse_handoff(decode_text(raw)[0]).plan
    return [(one.marker, one.text, one.line, one.question, one.error) for one in plan]


def facts(items: list[StepItem]) -> list[tuple[str, str, int, str, str]]:
    return [(one.marker, one.text, one.line, one.question, one.error) for one in items]


@light
@given(documents)
def test_reads_what_the_parser_reads(raw: bytes) -> None:
    items = read_steps(raw)
    assert facts(items) == shown(raw)
    for number, item in enumerate(items, 1):
        assert item.number == number
        assert raw[item.at - 1 : item.at + 2].lower() == f"[{item.marker}]".encode()
        assert item.start < item.at < item.stop <= item.tail <= item.end


@pytest.mark.parametrize("path", sorted(GOLDEN.rglob("HANDOFF*.md")) + sorted(GOLDEN.rglob("*handoff*.md")), ids=str)
def test_reads_the_goldens(path: Path) -> None:
    raw = path.read_bytes()
    assert facts(read_steps(raw)) == shown(raw)


SUFFIXES = [None, "", asked_suffix(3), failed_suffix("it broke — twice \\— badly"), failed_suffix("—")]


@light
@given(documents, st.integers(0, 2**20), st.sampled_from(list(steps.WORDS)), st.sampled_from(SUFFIXES))
def test_a_mark_changes_its_line_and_nothing_else(raw: bytes, pick: int, marker: str, suffix: str | None) -> None:
    items = read_steps(raw)
    if not items:
        return
    item = items[pick % len(items)]
    if (suffix or "").startswith(" —") and marker != "!":
        suffix = None
    changed = steps.change(raw, item, marker, suffix)
    assert changed.startswith(raw[: item.start])
    assert changed.endswith(raw[item.tail :])
    after = read_steps(changed)
    texts = [one.text.replace("\\", "") for one in after]
    assert texts == [one.text.replace("\\", "") for one in items]
    assert [one.marker for one in after] == [marker if one is item else one.marker for one in items]
    assert steps.patch(changed, after[item.number - 1], marker, suffix) is None, "twice is once"
    if not item.question and not item.error:  # there and back again
        back = steps.change(changed, after[item.number - 1], item.marker, "")
        assert back.lower() == raw.lower()
        if suffix is None and " — " not in item.text:
            assert changed == raw[: item.at] + changed[item.at : item.at + 1] + raw[item.at + 1 :]


@light
@given(st.text(max_size=40))
def test_any_reason_can_be_read_again(reason: str) -> None:
    raw = "## Plan\n- [ ] do x — or y\n- [ ] z\n".encode()
    changed = steps.change(raw, read_steps(raw)[0], "!", failed_suffix(reason))
    first, second = parse_handoff(changed.decode()).plan
    assert (first.text, second.text) == ("do x — or y", "z")
    words = "".join(c if c.isprintable() else " " for c in reason).split()
    assert first.error == (" ".join(words) or "no reason given")


def test_five_megabytes(tmp_path: Path) -> None:
    long = b"".join(b"Line %d with `code` and 1. text.\r\n" % number for number in range(150_000))
    raw = b"# T\r\n\r\n" + long + b"\r\n## Plan\r\n- [ ] one\r\n- [ ] two\r\n\r\n## Context\r\n" + long
    path = tmp_path / "HANDOFF.md"
    path.write_bytes(raw)
    before = path.stat().st_ino
    item = mark_step(Beneath(str(tmp_path)), "two", "x")
    assert path.read_bytes() == raw.replace(b"- [ ] two", b"- [x] two")
    assert path.stat().st_ino == before, "one byte in place"
    mark_step(Beneath(str(tmp_path)), "2", "!", failed_suffix("it broke"))
    assert path.read_bytes() == raw.replace(b"- [ ] two", "- [!] two — it broke".encode())
    mark_step(Beneath(str(tmp_path)), "2", " ")
    assert path.read_bytes() == raw
    assert (item.number, item.text, item.state) == (2, "two", "done")


@pytest.mark.parametrize(
    ("plan", "progress"),
    [
        ("- [x] a\n- [ ] b\n- [~] c\n- [?] d\n", (1, 4, "c")),
        ("- [X] a\n- [ ] b\n- [!] c — no\n- [?] d\n", (1, 4, "c")),
        ("- [x] a\n- [ ] b\n- [ ] c\n", (1, 3, "b")),
        ("- [x] a\n", (1, 1, "")),
        ("", (0, 0, "")),
    ],
)
def test_progress(plan: str, progress: tuple[int, int, str]) -> None:
    assert step_progress(f"# T\n\n## Plan\n{plan}".encode()) == progress


CHOICES = read_steps(
    b"## Plan\n- [ ] Parse input\n- [ ] parse INPUT again\n- [ ] Write  output\n- [ ] Test\n- [ ] Test\n"
)


@pytest.mark.parametrize(
    ("select", "number"),
    [("1", 1), ("Parse input", 1), ("PARSE INPUT", 1), ("again", 2), ("write output", 3), (" put  ag", 2), ("05", 5)],
)
def test_a_step_is_chosen_by_its_number_or_its_words(select: str, number: int) -> None:
    assert steps.choose(CHOICES, select).number == number


@pytest.mark.parametrize(
    ("select", "error", "part"),
    [
        ("0", NotFound, "no step 0; the plan has 5"),
        ("6", NotFound, "no step 6"),
        ("9" * 5000, NotFound, "no step"),
        ("input", BadInput, "fits 2 steps: 1 (Parse input), 2"),
        ("Test", BadInput, "fits 2 steps: 4"),
        ("Wrte outptu", NotFound, "Did you mean 3: Write  output?"),
        ("zebra", NotFound, "No step says"),
        (" ", BadInput, "Which step"),
    ],
)
def test_a_step_that_is_not_there(select: str, error: type[OverhandError], part: str) -> None:
    with pytest.raises(error) as caught:
        steps.choose(CHOICES, select)
    assert part in caught.value.message
    assert caught.value.hint


# through the real command line

PLAN = "# Task Handoff\n\n## Task\nConvert the table\n\n## Plan\n- [ ] Parse input\n- [ ] Map columns\n- [ ] Write it\n"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[ProjectDir]:
    project = make_project(tmp_path / "project")
    (tmp_path / "plan.md").write_text(PLAN)
    project.run("delegate", "--handoff", str(tmp_path / "plan.md"), "--agent", "worker", "--no-start", check=True)
    try:
        yield project
    finally:
        project.cleanup()


def task(project: ProjectDir) -> Path:
    return next(path.parent for path in project.path.glob(".agent-workspaces/*/HANDOFF.md"))


def marks(project: ProjectDir) -> list[str]:
    lines = (task(project) / "HANDOFF.md").read_text().partition("## Plan")[2].splitlines()
    return [line for line in lines if line.startswith("- [")]


def refused(ran: Ran, code: int, part: str) -> None:
    assert ran.code == code, ran.out + ran.err
    assert part in ran.err
    assert len(ran.err.splitlines()) == 2, "what is so, and what to type next"


def test_a_person_marks_steps(desk: ProjectDir) -> None:
    raw = (task(desk) / "HANDOFF.md").read_bytes()
    ran = desk.run("step", "1", "2", "done", "--json", check=True)
    assert ran.json == {
        "schema": "overhand.step/1",
        "task_id": task(desk).name,
        "handle": 1,
        "step": {"n": 2, "text": "Map columns", "marker": "x", "state": "done"},
        "progress": {"done": 1, "total": 3},
    }
    assert (task(desk) / "HANDOFF.md").read_bytes() == raw.replace(b"- [ ] Map", b"- [x] Map")
    desk.run("step", "-", "parse", "input", "doing", check=True)
    desk.run("step", "1", "3", "blocked", "--question", "001", check=True)
    assert marks(desk) == ["- [~] Parse input", "- [x] Map columns", "- [?] Write it (IPC: 001.question)"]
    desk.run("step", "1", "3", "error", "the", "disk", "is", "done", check=True)
    desk.run("step", "1", "2", "error", "--reason", "no — really\nno", check=True)
    desk.run("step", "1", "2", "error", check=True)
    assert marks(desk)[1:] == ["- [!] Map columns — no \\— really no", "- [!] Write it — the disk is done"]
    assert desk.run("step", "1", check=True).out == (
        "  1 [~] Parse input\n  2 [!] Map columns — no — really no\n  3 [!] Write it — the disk is done\n0 of 3 done\n"
    )
    for number in "123":
        desk.run("step", "1", number, "open", check=True)
    assert (task(desk) / "HANDOFF.md").read_bytes() == raw
    events = [event for event in read_log(str(desk.task_record(task(desk).name))) if event["e"] == "step"]
    assert [(event["n"], event["marker"]) for event in events] == [
        (2, "x"), (1, "~"), (3, "?"), (3, "!"), (2, "!"), (1, " "), (2, " "), (3, " "),
    ]  # fmt: skip
    assert events[0]["text"] == "Map columns"
    assert events[0]["by"]["kind"] == "person"


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        ([], 2, "step needs ID outside a run"),
        (["1", "2"], 2, "'2' is no state of a step"),
        (["1", "done"], 2, "Which step is done?"),
        (["1", "2", "finished"], 2, "'finished' is no state"),
        (["1", "2", "done", "now"], 2, "'now' is one word too many"),
        (["1", "4", "done"], 4, "There is no step 4; the plan has 3"),
        (["1", "Map colums", "done"], 4, "Did you mean 2: Map columns?"),
        (["1", "p", "done"], 2, "fits 2 steps"),
        (["1", "2", "done", "--reason", "x"], 2, "--reason is for an error"),
        (["1", "2", "blocked", "--reason", "x"], 2, "--reason is for an error"),
        (["1", "2", "done", "--question", "1"], 2, "--question is for a step that is blocked"),
        (["1", "2", "blocked", "--question", "../x"], 2, "is not the number of a question"),
        (["7", "2", "done"], 4, "There is no task 7"),
    ],
)
def test_refusals_change_nothing(desk: ProjectDir, words: list[str], code: int, part: str) -> None:
    before = {path.name: path.read_bytes() for path in task(desk).iterdir() if path.is_file()}
    refused(desk.run("step", *words), code, part)
    assert {path.name: path.read_bytes() for path in task(desk).iterdir() if path.is_file()} == before


def test_a_handoff_that_cannot_be_marked(desk: ProjectDir, tmp_path: Path) -> None:
    path = task(desk) / "HANDOFF.md"
    outside = tmp_path / "outside.md"
    outside.write_text(PLAN)
    path.unlink()
    refused(desk.run("step", "1", "2", "done"), 4, "There is no HANDOFF.md")
    path.symlink_to(outside)
    refused(desk.run("step", "1", "2", "done"), 3, "is a link or no regular file")
    refused(desk.run("step", "1", "2", "error", "x"), 3, "is a link or no regular file")
    assert outside.read_text() == PLAN
    path.unlink()
    os.mkfifo(path)
    refused(desk.run("step", "1", "2", "done"), 3, "is a link or no regular file")
    path.unlink()
    path.mkdir()
    refused(desk.run("step", "1", "2", "done"), 3, "is a link or no regular file")
    path.rmdir()
    path.write_text("# T\n\n## Task\nx\n")
    refused(desk.run("step", "1", "2", "done"), 4, "has no steps")
    path.write_bytes(b"## Plan\n- [ ] x\n" + b" " * (16 << 20))
    refused(desk.run("step", "1", "1", "done"), 3, "more than 16 MB")


@pytest.mark.parametrize("words", [["done"], ["error", "why"]])
def test_a_read_only_handoff_is_left_alone(tmp_path: Path, words: list[str]) -> None:
    path = tmp_path / "HANDOFF.md"
    path.write_text(PLAN)
    path.chmod(0o444)
    tmp_path.chmod(0o777)
    pid = os.fork()
    if pid == 0:  # root may write everywhere: be somebody else
        code = 1
        try:
            os.chdir(tmp_path)
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
            suffix = failed_suffix(words[1]) if len(words) > 1 else None
            mark_step(Beneath("."), "1", STEP_STATES[words[0]], suffix)
        except BaseException as error:  # noqa: BLE001 -- whatever it is, the parent looks at it
            code = 0 if "permission denied" in str(error) else 2
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert path.read_text() == PLAN
    assert os.listdir(tmp_path) == ["HANDOFF.md"]


def test_permissions_and_owner_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "HANDOFF.md"
    path.write_text(PLAN)
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(tmp_path, 1234, 1235)  # an owner whose files are known
        os.chown(path, 1234, 1235)
    before = path.stat()
    mark_step(Beneath(str(tmp_path)), "1", "!", failed_suffix("x"))
    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


# inside a run

INSIDE = """
"$PY" -m overhand step 1 done && "$PY" -m overhand step "map col" doing --json
"$PY" -m overhand step 3 error no disk; "$PY" -m overhand step
"$PY" -m overhand step 1 2 done; echo "code $?"
env -i "$PY" -m overhand step 2 done && echo "known without an environment"
"$PY" -m overhand step --json >steps.json
printf '# Task Complete: x\\n\\n**Status:** partial\\n\\n## Summary\\nDone.\\n' >"$OVERHAND_OUTPUT"
"""


def test_a_run_marks_its_own_steps(desk: ProjectDir, tmp_path: Path) -> None:
    desk.agent("marker", command=["/bin/sh", "-c", f"PY={sys.executable}\n{INSIDE}"])
    desk.run("delegate", "--handoff", str(tmp_path / "plan.md"), "--agent", "marker", "--wait")
    shown = json.loads((desk.path / "steps.json").read_text())
    assert [(one["marker"], one.get("error")) for one in shown["steps"]] == [("x", None), ("x", None), ("!", "no disk")]
    assert (shown["handle"], shown["progress"]) == (2, {"done": 2, "total": 3})
    folder = desk.task_record(shown["task_id"])
    events = [event for event in read_log(str(folder)) if event["e"] == "step"]
    assert [(event["n"], event["marker"]) for event in events] == [(1, "x"), (2, "~"), (3, "!"), (2, "x")]
    assert {event["run"] for event in events} == {event["by"]["run"] for event in events}
    out = next(folder.glob("runs/*/stdout")).read_text()
    assert "known without an environment" in out
    assert "code 2" in out
    assert "Inside a run no task is named" in next(folder.glob("runs/*/stderr")).read_text()
    first = next(path for path in desk.path.glob(".agent-workspaces/worker-*/HANDOFF.md"))
    assert "- [ ] Parse input" in first.read_text(), "and only its own"


def test_a_stale_run_marks_nothing(desk: ProjectDir, tmp_path: Path) -> None:
    ran = desk.run("delegate", "--handoff", str(tmp_path / "plan.md"), "--agent", "worker", "--wait", "--json").json
    folder = desk.path / ".agent-workspaces" / ran["task_id"]
    before = (folder / "HANDOFF.md").read_bytes()
    run = next(folder.glob("runs/*")).name
    env = {"OVERHAND_TASK": ran["task_id"], "OVERHAND_RUN": run}
    stale = desk.run("step", "1", "done", "--json", env=env)
    assert (stale.code, stale.json["error"]["code"]) == (3, "STALE_RUN")
    assert (folder / "HANDOFF.md").read_bytes() == before
    desk.run("step", "2", "1", "done", check=True)
