"""Why a run failed is shown wherever it says that it failed: the end of a check, of stderr, and its last words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from overhand.runs.checks import last_lines
from support.scene import QUICK

if TYPE_CHECKING:
    from support.scene import Scene

DEAD = "echo 'It began well.'; printf 'Traceback\\n\\033[31mKeyError: \"port\"\\033[0m\\n' >&2; exit 1"
TALKER = "echo 'I looked at it.'; echo 'All of it is done now.'"
CHECK = "echo 'collected 3'; echo 'FAILED test_x - assert 1 == 2' >&2; exit 3"
# by name: the agent, more arguments, the lines that tell why
ENDS: dict[str, tuple[str, tuple[str, ...], list[str]]] = {
    "a dead agent": (DEAD, (), ["Traceback", 'KeyError: "port"', "It began well."]),
    "only last words": (TALKER, (), ["I looked at it.", "All of it is done now."]),
    "a failed check": (QUICK, ("--verify", CHECK), ["collected 3", "FAILED test_x - assert 1 == 2"]),
    "killed": ("echo 'no room left' >&2; kill -KILL $$", (), ["no room left"]),
}


@pytest.mark.parametrize("name", ENDS)
def test_every_place_tells_why_it_failed(scene: Scene, name: str) -> None:
    script, more, lines = ENDS[name]
    scene.shell("worker", script)
    task = scene.delegate("Do it well", *more)
    assert scene.judged(task).status == "failed"
    for verb in ("wait", "show"):
        out = scene.project.run(verb, task).out
        for line in lines:
            assert f"| {line}\n" in out, (verb, line, out)
        assert "\x1b" not in out
    context = (scene.path / scene.json("show", task)["context"]).read_text()
    for line in lines:
        assert line in context
    scene.json("resume", task, "--wait", code=1)
    prompt = (scene.place(task) / "prompt.md").read_text()
    for line in lines:
        assert line in prompt


def test_delegate_that_waits_tells_it_at_once(scene: Scene) -> None:
    scene.shell("worker", DEAD)
    out = scene.project.run("delegate", "Do it well", "--agent", "worker", "--wait").out
    assert '   ! The agent\'s program ended with exit code 1.\n     | Traceback\n     | KeyError: "port"\n' in out
    assert "   its last words:\n   | It began well.\n" in out


def test_a_repair_is_given_what_the_check_printed(scene: Scene) -> None:
    scene.shell("worker", QUICK, repair="rerun")
    task = scene.delegate("Do it well", "--verify", CHECK)
    scene.judged(task)
    prompt = (scene.place(task) / "prompt.md").read_text()
    _, _, repair = prompt.partition("## Your last return could not be accepted")
    assert "  ```text\n  collected 3\n\n  FAILED test_x - assert 1 == 2\n  ```" in repair


def test_a_repair_is_given_its_last_words(scene: Scene) -> None:
    scene.shell("worker", TALKER, repair="rerun")
    task = scene.delegate("Do it well")
    scene.judged(task)
    assert "  I looked at it.\n  All of it is done now.\n" in (scene.place(task) / "prompt.md").read_text()


def test_checks_that_run_again_say_why_they_fail(scene: Scene) -> None:
    scene.shell("worker", QUICK)
    (scene.path / "ok").touch()
    task = scene.delegate("Do it well", "--verify", "cat ok")
    scene.judged(task)
    (scene.path / "ok").unlink()
    assert "| cat: ok: No such file or directory" in scene.project.run("check", task).out
    assert "| cat: ok: No such file or directory" in scene.project.run("show", task).out


def test_what_an_agent_left_itself_is_kept_and_what_we_found_is_added(scene: Scene) -> None:
    script = 'echo "Half of the parser is rewritten; look at lex.py first." >"$OVERHAND_WORKSPACE/CONTEXT.md"; '
    scene.shell("worker", script + DEAD)
    task = scene.delegate("Do it well")
    scene.judged(task)
    context = (scene.path / scene.json("show", task)["context"]).read_text()
    assert context.startswith("Half of the parser is rewritten; look at lex.py first.\n\n## Found By Overhand\n")
    assert 'KeyError: "port"' in context
    scene.json("resume", task, "--wait", code=1)
    prompt = (scene.place(task) / "prompt.md").read_text()
    assert "**Notes:**\n\nHalf of the parser is rewritten; look at lex.py first." in prompt
    assert 'KeyError: "port"' in prompt


def test_an_agent_that_returned_is_not_quoted(scene: Scene) -> None:
    scene.shell("worker", f"echo chatter; echo noise >&2; {QUICK}")
    task = scene.delegate("Do it well")
    scene.judged(task)
    shown = scene.json("show", task)
    assert shown["status"] == "completed"
    assert "last_words" not in shown
    assert "noise" not in scene.project.run("show", task).out


def test_a_secret_that_a_check_prints_is_masked(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "sk-very-secret-0123456789")
    scene.shell("worker", QUICK, repair="rerun")
    task = scene.delegate("Do it well", "--verify", "echo $SHOP_API_KEY; exit 1")
    scene.judged(task)
    shown = scene.json("show", task)
    texts = [str(shown), (scene.path / shown["context"]).read_text(), (scene.place(task) / "prompt.md").read_text()]
    assert [("<SHOP_API_KEY>" in text, "sk-very-secret" in text) for text in texts] == [(True, False)] * 3


def test_the_last_lines_are_few_and_plain() -> None:
    text = "\n".join(f"line {number}" for number in range(100))
    assert last_lines(text).splitlines() == [f"line {number}" for number in range(80, 100)]
    assert last_lines("\x1b[31mred\x1b[0m \x1b]0;title\x07and\x00 so on\r\n```\n") == "red and so on\n'''"
    assert len(last_lines("x" * 100_000)) <= 1501
    assert last_lines("\n\n") == ""
