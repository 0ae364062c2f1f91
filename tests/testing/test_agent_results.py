"""What the scripted agent hands back, read as a plain program's files and output."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from testing.conftest import Desk


def test_no_action_writes_a_good_output(desk: Desk) -> None:
    done = desk.act()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    text = desk.output.read_text()
    assert text.startswith("# Task Complete: Tidy the shed\n\n**Status:** completed\n")
    assert "**Agent:** yard-hand\n" in text
    assert "## Summary\nDid the scripted work.\n" in text


def test_output_takes_words_and_names_the_files_written_before(desk: Desk) -> None:
    desk.act("file:a/b.txt=one\\ntwo", "file:c.txt", "output:status=blocked,summary=No key, no door,title=X")
    text = desk.output.read_text()
    assert "**Status:** blocked" in text
    assert "# Task Complete: X\n" in text
    assert "## Summary\nNo key, no door\n" in text
    assert "| `a/b.txt` |" in text
    assert "- `c.txt` — " in text
    assert (desk.project / "a/b.txt").read_text() == "one\ntwo"
    assert (desk.project / "c.txt").read_text() == "scripted\n"


def test_top_output_goes_into_the_task_folder(desk: Desk) -> None:
    desk.act("top-output")
    assert not desk.output.exists()
    assert (desk.workspace / "OUTPUT.md").read_text().startswith("# Task Complete")


def test_claim_names_a_file_that_is_not_there(desk: Desk) -> None:
    desk.act("claim:phantom.txt")
    text = desk.output.read_text()
    assert "**Status:** completed" in text
    assert "| `phantom.txt` |" in text
    assert not (desk.project / "phantom.txt").exists()


def test_rubbish_is_not_text(desk: Desk) -> None:
    desk.act("rubbish")
    with pytest.raises(UnicodeDecodeError):
        desk.output.read_text(encoding="utf-8")


def test_clumsy_has_the_substance_and_not_the_form(desk: Desk) -> None:
    desk.act("file:a.txt", "clumsy")
    raw = desk.output.read_bytes()
    assert b"\r\n" in raw
    assert b"# Task Complete" not in raw
    assert b"`a.txt`" in raw
    desk.act("file:a.txt", "clumsy:prose")
    assert desk.output.read_text() == "Done! I wrote a.txt and it works great.\n"


def test_result_and_data_are_json_files(desk: Desk) -> None:
    desk.act("file:a.txt", "result:status=partial,summary=Half", 'data:{"n": 1}')
    returned = json.loads((desk.run / "result.json").read_text())
    artifact = {"type": "file", "path": "a.txt", "summary": "Written by a script"}
    assert returned == {"status": "partial", "summary": "Half", "artifacts": [artifact]}
    assert json.loads((desk.run / "data.json").read_text()) == {"n": 1}


@pytest.mark.parametrize(
    ("action", "before", "after"),
    [
        ("stdout-json", "", "\n"),
        ("stdout-json:fenced", "```json\n", "\n```\n"),
        ("stdout-json:prose", "All done, see here: ", " (that was it).\n"),
    ],
)
def test_the_return_on_stdout(desk: Desk, action: str, before: str, after: str) -> None:
    out = desk.act(action).stdout
    assert out.startswith(before)
    assert out.endswith(after)
    assert json.loads(out.removeprefix(before).removesuffix(after))["status"] == "completed"


def test_echo_shows_what_the_agent_was_given(desk: Desk) -> None:
    done = desk.act("echo-prompt", "echo-env", prompt="You are a worker.")
    prompt, *env = done.stdout.splitlines()
    assert prompt == "You are a worker."
    given = {name: value for name, value in desk.environment.items() if name.startswith("OVERHAND_")}
    assert dict(line.split("=", 1) for line in env) == given


def test_unset_env_hides_the_run_but_output_still_works(desk: Desk) -> None:
    assert desk.act("unset-env", "echo-env", "output").stdout.strip() == ""
    assert desk.output.exists()


def test_print_stderr_and_exit(desk: Desk) -> None:
    done = desk.act("print:a\\nb", "stderr:c", "exit:7", "output")
    assert (done.returncode, done.stdout, done.stderr) == (7, "a\nb\n", "c\n")
    assert not desk.output.exists()


@pytest.mark.parametrize(("size", "count"), [("100", 100), ("4k", 4096), ("3m", 3 * 1024 * 1024)])
def test_flood_writes_exactly_so_much(desk: Desk, size: str, count: int) -> None:
    assert len(desk.act(f"flood:{size}").stdout) == count


def test_step_marks_one_line_of_the_plan(desk: Desk) -> None:
    desk.act("step:2", "step:1=?")
    assert (desk.workspace / "HANDOFF.md").read_text().endswith("## Plan\n- [?] Look\n- [x] Lift\n")


def test_an_unknown_action_is_refused_before_anything_is_done(desk: Desk) -> None:
    done = desk.act("output", "dance:now")
    assert done.returncode == 2
    assert done.stderr == "overhand.testing.agent: no action 'dance:now'; --help lists them.\n"
    assert not desk.output.exists()


def test_help_documents_every_action(desk: Desk) -> None:
    from overhand.testing.agent import Script

    shown = desk.act("--help").stdout
    words = {word.split(":")[0].split("[")[0] for line in shown.splitlines() for word in line.split()}
    actions = {name[3:].replace("_", "-") for name in vars(Script) if name.startswith("do_")}
    assert actions - words == set()


def test_starts_without_the_rest_of_overhand(desk: Desk) -> None:
    code = (
        "import sys; before = set(sys.modules)\n"
        "import overhand.testing.agent as agent; agent.main(['output'])\n"
        "print(*sorted(m for m in set(sys.modules) - before if m.startswith('overhand') or m == 're'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=desk.environment,
        cwd=desk.project,
        capture_output=True,
        text=True,
        check=True,
    )
    ours = ["overhand", *(f"overhand.testing{name}" for name in ("", ".agent", ".returns"))]
    assert done.stdout.split() == ours
