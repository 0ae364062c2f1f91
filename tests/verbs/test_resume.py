"""`resume`, and what a run that ended short leaves behind: CONTEXT.md tells the truth, HANDOFF.md gains it once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.test_text import compare
from overhand.documents import Context, markdown_sections, parse_context, parse_handoff
from overhand.runs import handover, read_steps
from overhand.verbs import Session, describe_task
from support.scene import QUICK, Scene, kill
from support.strategies import light
from support.warm import make_project
from verbs.test_step import document

if TYPE_CHECKING:
    from collections.abc import Iterator

SOON = '[limits]\nanswer_wait = "0.2s"\nstop_grace = "0.2s"\n'
PLAN = ("--step", "Read it", "--step", "Sort it", "--step", "Write it")
MARK = (
    'h="$OVERHAND_HANDOFF"; sed -e "s/\\[ \\] Read it/[x] Read it/; s/\\[ \\] Sort it/[!] Sort it — no key/" "$h" >h2; '
    'cat h2 >"$h"; '
)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """A project in which nothing is left afterwards."""
    project = make_project(tmp_path / "project", {}, config=SOON)
    try:
        yield Scene(project)
    finally:
        project.cleanup()


def folder(scene: Scene, task: str) -> Path:
    return Path(scene.store.record(task))


def context_of(scene: Scene, task: str) -> Context:
    """CONTEXT.md, which our own check finds nothing wrong with."""
    path = folder(scene, task) / "CONTEXT.md"
    ran = scene.project.run("check", str(path))
    assert ran.code == 0, ran.out + ran.err
    found, problems = parse_context(path.read_text())
    assert problems == []
    assert found.task_id == task
    return found


CAUSES = {
    "exit": ("exit", MARK + "echo working; exit 0", ()),
    "error exit": ("exit", MARK + "echo working; exit 3", ()),
    "timeout": ("timeout", "exec sleep 600", ("--timeout", "1s", "--no-start")),
    "answer-timeout": ("answer-timeout", MARK + '$OVERHAND ask "Which\n## Key\nis it?"', ()),
    "killed": ("killed", MARK + "kill -9 $$", ()),
    "cancelled": ("cancelled", MARK + "touch up; exec sleep 600", ()),
    "lost": ("lost", MARK + "touch up; exec sleep 600", ()),
    "flood": ("error", MARK + "head -c 300000 /dev/zero; exec sleep 600", ("--set", "limits.max_output=100KB")),
    "escapes": ("exit", MARK + "printf '\\033[31m\\000\\377\\n```\\n## Plan\\n- [ ] x\\n'", ()),
}


@pytest.mark.parametrize("case", CAUSES)
def test_the_context_is_true_for_every_end(scene: Scene, case: str) -> None:
    cause, script, words = CAUSES[case]
    scene.shell("worker", script)
    task = scene.delegate("Sort the table", *PLAN, *words)
    if case == "timeout":  # marked before it begins: its second may be over before it has done anything
        scene.json("step", task, "1", "done")
        scene.json("step", task, "2", "error", "no key")
        scene.json("run", task)
    if case == "cancelled":
        scene.appears("up")
        scene.json("stop", task)
    if case == "lost":
        scene.appears("up")
        pids = [scene.pid(task, "shim"), scene.pid(task, "pid")]
        for pid in pids:
            kill(pid)
        scene.json("list")
    state = scene.judged(task)
    assert state.runs[0].cause == cause
    found = context_of(scene, task)
    assert found.reason == cause
    assert found.progress.startswith("1 of 3 steps are done.")
    assert "- [x] Read it" in found.progress
    assert "- [!] Sort it" in found.progress
    assert f"judged {state.status}" in found.state
    assert "Session:" in found.handoff or "Session" in found.handoff
    if case == "answer-timeout":
        assert "Question 1 is open: Which" in found.blocking
        assert f"overhand answer {state.handle} 1 TEXT" in found.resume
    else:
        assert f"overhand resume {state.handle}" in found.resume
    assert task in [row["task_id"] for row in scene.json("list", "--resumable")["tasks"]]
    handoff = (scene.place(task) / "handoff.md").read_text()
    assert handoff.endswith("<!-- overhand -->\n")


def test_an_agents_own_context_and_handoff_are_kept(scene: Scene) -> None:
    scene.shell(
        "worker",
        'echo "# Mine" >"$OVERHAND_WORKSPACE/CONTEXT.md"; d=$(dirname "$OVERHAND_OUTPUT"); '
        'printf "Session: mine\\nStatus: half\\nNext: a.py:3\\n" >"$d/handoff.md"; exit 1',
    )
    task = scene.delegate()
    scene.judged(task)
    assert (folder(scene, task) / "CONTEXT.md").read_text().startswith("# Mine\n\n## Found By Overhand\n")
    assert "Session: mine" in (scene.place(task) / "handoff.md").read_text()


@pytest.mark.parametrize("what", ["folder", "fifo", "empty", "too long"])
def test_what_cannot_be_a_handoff_is_put_aside(scene: Scene, what: str) -> None:
    make = {
        "folder": "mkdir {0}",
        "fifo": "mkfifo {0}",
        "empty": ": >{0}",
        "too long": "yes word | head -6000 >{0}",
    }[what]
    scene.shell(
        "worker",
        f'd=$(dirname "$OVERHAND_OUTPUT"); {make.format("$d/handoff.md")}; '
        f"{make.format('$OVERHAND_WORKSPACE/CONTEXT.md') if what != 'too long' else ':'}; exit 1",
    )
    task = scene.delegate()
    assert scene.judged(task).status == "failed"
    context_of(scene, task)
    if what == "too long":
        assert (scene.place(task) / "handoff-refused.md").exists()
        assert len((scene.place(task) / "handoff.md").read_text()) < 3000


def test_a_resumed_task_knows_what_was_left(scene: Scene) -> None:
    scene.shell(
        "worker",
        'n=$(ls "$OVERHAND_WORKSPACE/runs" | wc -l); cp "$OVERHAND_HANDOFF" "seen$n"; '
        f'if [ $n = 3 ]; then {QUICK}; else {MARK} echo "words of run $n"; echo done >"$OVERHAND_WORKSPACE/ipc/.done"; '
        "exit 1; fi",
    )
    scene.shell("other", f'cp "$OVERHAND_HANDOFF" taken; {QUICK}')
    task = scene.delegate("Sort the table", *PLAN)
    scene.judged(task)
    first = scene.place(task)
    scene.json("resume", task, "--answer", "Use the date.", "--wait", code=1)
    assert scene.json("resume", task, "--agent", "other", "--wait")["status"] == "completed"
    begin, again, last = [(scene.path / name).read_text() for name in ("seen1", "seen2", "taken")]
    assert "Previous Worker Context" not in begin
    for text, words in ((again, "words of run 1"), (last, "words of run 2")):
        assert text.count("## Previous Worker Context") == 1
        assert words in text
        assert "- [x] Read it" in text
        assert "- [ ] Sort it\n" in text, "what was stuck is open again"
        assert [(s.marker, s.text) for s in parse_handoff(text).plan] == [
            ("x", "Read it"),
            (" ", "Sort it"),
            (" ", "Write it"),
        ]
    assert "**From the person:** Use the date." in again
    assert "Use the date." not in last
    assert "words of run 1" not in last
    assert again.startswith(begin.replace("[ ] Read it", "[x] Read it").rstrip("\n"))
    assert {"CONTEXT.md", "judged.json", "handoff.md"} <= set(os.listdir(first))
    workspace = Path(scene.store.workspace(task))
    assert {"CONTEXT.md", "done"} <= set(os.listdir(workspace / "runs" / first.name))
    assert not (folder(scene, task) / "CONTEXT.md").exists()
    assert not (workspace / "CONTEXT.md").exists()
    assert not (workspace / "ipc/.done").exists()
    assert scene.state(task).agent == "other"


def test_resume_with_an_answer(scene: Scene) -> None:
    scene.shell("worker", f'$OVERHAND ask "Which?" >one; $OVERHAND ask "And then?" >two && {QUICK}')
    task = scene.delegate()
    scene.judged(task)
    compare("resume-open", scene.project.run("resume", "1"), scene.project)
    scene.json("resume", task, "--answer", "this", "--wait", code=1)
    assert [(q.text, q.answer) for q in scene.state(task).questions] == [
        ("Which?", "this"),
        ("And then?", None),
    ]
    compare("resume-answer-empty", scene.project.run("resume", "1", "--answer", " "), scene.project)
    ran = scene.project.run("resume", "1", "--answer", "that")
    compare("resume", ran, scene.project)
    assert scene.json("wait", task)["status"] == "completed"
    assert (scene.path / "two").read_text() == "that\n"


def test_a_result_is_found_although_the_next_run_has_begun(scene: Scene) -> None:
    """Whoever was told that it is judged reads its result a moment later."""
    scene.shell("worker", '$OVERHAND ask "Which?" >one; touch up; exec sleep 600')
    task = scene.delegate()
    judged = scene.judged(task)
    session = Session(str(scene.path))
    before = describe_task(session, judged, "wait")
    scene.json("answer", task, "this")
    scene.appears("up")
    assert not (folder(scene, task) / "result.json").exists()
    assert describe_task(session, judged, "wait") == before


def test_resume_with_several_open_questions(scene: Scene) -> None:
    scene.shell(
        "worker",
        'for n in 1 2; do echo "number $n" >"$OVERHAND_WORKSPACE/ipc/00$n.question"; done; exit 1',
    )
    task = scene.delegate()
    scene.judged(task)
    compare("resume-several", scene.project.run("resume", "1", "--answer", "this"), scene.project)
    said = scene.json("answer", task, "2", "b", "--no-resume")
    assert (said["resumed"], said["left"]) == (False, 1)
    said = scene.json("answer", task, "a", "--no-resume")
    assert (said["resumed"], said["left"]) == (False, 0)
    assert scene.state(task).status == "needs-input"
    scene.shell("worker", f'grep -c Answer: "$OVERHAND_HANDOFF" >answers; {QUICK}')
    assert scene.json("resume", task, "--wait")["status"] == "completed"
    assert (scene.path / "answers").read_text() == "2\n"


def test_what_cannot_be_resumed(scene: Scene) -> None:
    scene.agent("strayer", "spawn:daemon", "exit:1")
    scene.shell("busy", "touch up; exec sleep 600")
    first = scene.delegate("leave something", "--agent", "strayer")
    scene.judged(first)
    ran = scene.project.run("resume", first)
    assert (ran.code, "still alive" in ran.err) == (3, True)
    scene.json("stop", first)
    second = scene.delegate("be busy", "--agent", "busy")
    scene.appears("up")
    assert scene.project.run("resume", second).code == 3
    third = scene.delegate("wait", "--agent", "busy", "--after", second)
    compare("resume-queued", scene.project.run("resume", "3"), scene.project)
    scene.json("delegate", "perhaps", "--agent", "busy", "--no-start")
    compare("resume-unstarted", scene.project.run("resume", "4"), scene.project)
    compare("resume-no-checkpoint", scene.project.run("resume", "1", "--from", "ckpt_none"), scene.project)
    scene.json("stop", second, third)
    assert scene.project.run("resume", second, "--agent", "nobody").code == 4
    assert scene.project.run("resume", "nothing").code == 4


def test_a_run_may_not_resume_what_it_did_not_delegate(scene: Scene) -> None:
    scene.shell("worker", "exit 1")
    scene.shell("meddler", "$OVERHAND resume 1; echo $? >code; exit 1")
    scene.judged(scene.delegate())
    scene.judged(scene.delegate("meddle", "--agent", "meddler"))
    assert (scene.path / "code").read_text() == "3\n"


# HANDOFF.md, byte by byte

HEAD = (
    "# Task Handoff\n\n## Task\nGröße 日本\n\n## Plan\n- [x] one\n- [!] two — broke\n- [?] three (IPC: 001.question)\n"
    "- [~] four\n\n## Notes\nkeep  \n"
)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False], ids=["newline", "no newline"])
def test_the_section_is_there_once_and_nothing_else_changes(ending: str, last: bool) -> None:
    raw = (HEAD if last else HEAD.rstrip()).replace("\n", ending).encode()
    once = written(raw, "first body\n\n## Heading in it\n- [ ] no step")
    twice = written(once, "second body")
    for text, words in ((once, b"first body"), (twice, b"second body")):
        assert text.count(b"## Previous Worker Context") == 1
        assert words in text
        assert text.startswith(reopened(raw).rstrip())
        assert text.count(b"\n") == text.count(ending.encode())
        assert [item.marker for item in read_steps(text)] == ["x", " ", " ", " "]
    assert b"first body" not in twice
    behind = twice + f"{ending}## After{ending}kept{ending}".encode()
    third = written(behind, "third body")
    assert third.endswith(f"## After{ending}kept{ending}".encode())
    assert third.count(b"## Previous Worker Context") == 1


def written(raw: bytes, body: str) -> bytes:
    """As `handover.write_previous` changes a file, without the file."""
    patch = handover._section(raw, body)
    assert patch is not None
    return reopened(raw[: patch[0]] + patch[2] + raw[patch[1] :])


def reopened(raw: bytes) -> bytes:
    patch = handover._reopened(raw)
    return raw if patch is None else raw[: patch[0]] + patch[2] + raw[patch[1] :]


@light
@given(st.integers(0, 1_000_000), st.text(max_size=200))
def test_any_document_gains_the_section_and_loses_nothing(seed: int, body: str) -> None:
    raw = document(seed)
    patch = handover._section(raw, body)
    assert patch is not None
    new = raw[: patch[0]] + patch[2] + raw[patch[1] :]
    assert raw == new[: patch[0]] + new[patch[0] + len(patch[2]) :]
    opened = reopened(new)
    assert all(item.marker in " x" for item in read_steps(opened))
    assert len(read_steps(opened)) == len(read_steps(raw)), "the body brings no steps"
    again = handover._section(new, body)
    if any(part.level for part in markdown_sections(raw.decode("utf-8", "surrogateescape"))):
        twice = new if again is None else new[: again[0]] + again[2] + new[again[1] :]
        assert len(handover._ours(twice.decode("utf-8", "surrogateescape"))) == 1
        assert len(twice) <= len(new) + 20, "replaced, not added"
