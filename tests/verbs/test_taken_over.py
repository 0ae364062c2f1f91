"""Small things that lose work, or count wrongly: paths after another agent took over, titles, decisions, files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from support.scene import QUICK

if TYPE_CHECKING:
    from support.scene import Scene

FAILS = "exit 1"
DECIDES = (
    "printf '# Task Complete: x\\n\\n**Status:** {}\\n\\n## Summary\\nHalf.\\n\\n"
    '## Decisions Made\\n- **Use SQLite**: one file\\n\' >"$OVERHAND_OUTPUT"'
)


def test_the_path_names_the_agent_that_took_over(scene: Scene) -> None:
    scene.shell("worker", FAILS)
    task = scene.delegate()
    scene.judged(task)
    tries = "".join(
        f'$OVERHAND delegate "Do a part of it" --agent {name} --json >{name}.json; ' for name in ("worker", "other")
    )
    scene.shell("other", f'cd "$OVERHAND_PROJECT"; {tries}{QUICK}')
    scene.json("resume", task, "--agent", "other", "--wait")
    shown = scene.json("show", task)
    assert (shown["agent"], shown["path"]) == ("other", ["user", "other"])
    context = json.loads((scene.desk(task) / "context.json").read_text())
    assert context["delegation_path"] == ["user", "other"]
    assert json.loads((scene.path / "worker.json").read_text())["path"] == ["user", "other", "worker"]
    assert json.loads((scene.path / "other.json").read_text())["error"]["code"] == "CYCLE_DETECTED"


def test_an_agent_above_cannot_take_over(scene: Scene) -> None:
    scene.shell("worker", f'$OVERHAND delegate "Do a part of it" --agent part --wait; {QUICK}')
    scene.shell("part", FAILS)
    scene.judged(scene.delegate())
    child = next(one for one in scene.ids() if one.startswith("part"))
    refused = scene.json("resume", child, "--agent", "worker", code=3)
    assert refused["error"]["code"] == "CYCLE_DETECTED"
    assert scene.state(child).path == ["user", "worker", "part"]


@pytest.mark.parametrize("status", ["partial", "blocked"])
def test_decisions_of_what_is_not_completed_are_collected_once(scene: Scene, status: str) -> None:
    scene.shell("worker", DECIDES.format(status))
    task = scene.delegate()
    scene.judged(task)
    scene.json("resume", task, "--wait", code=None)
    text = (scene.path / ".agent-workspaces/DECISIONS.md").read_text()
    assert text.count("- **Use SQLite**: one file") == 1


def test_a_title_names_the_task_and_the_file_s_task_stays(scene: Scene) -> None:
    scene.shell("worker", QUICK)
    text = "# Task Handoff\n\n## Task\nRewrite src/a.py so that it streams.\n\nDo not touch src/b.py.\n"
    (scene.path / "h.md").write_text(text)
    task = scene.delegate("Stream a.py", "--handoff", "h.md", "--no-start")
    assert scene.state(task).title == "Stream a.py"
    written = (scene.path / ".agent-workspaces" / task / "HANDOFF.md").read_text()
    assert "Rewrite src/a.py so that it streams.\n\nDo not touch src/b.py.\n" in written
    assert scene.project.run("list").out.count("Stream a.py") == 1


def test_delegate_says_what_is_a_file_and_what_a_sentence(scene: Scene) -> None:
    scene.shell("worker", QUICK)
    args = ("--deliverable", "src/a.py", "--deliverable", "a short report", "--no-start")
    out = scene.project.run("delegate", "Make all of it", "--agent", "worker", *args).out
    assert "   files: src/a.py (must be there and have changed)\n" in out
    assert "   expects: a short report (a sentence, which is not checked)\n" in out
    assert "expects" not in scene.project.run("delegate", "Make it", "--agent", "worker", "--no-start").out


def test_what_was_not_looked_at_is_not_cleaned(scene: Scene) -> None:
    scene.shell("worker", DECIDES.format("partial"))
    scene.judged(scene.delegate())
    scene.shell("worker", FAILS)
    scene.judged(scene.delegate())
    assert scene.json("clean", "--older", "0s", "--yes")["removed"] == []
    scene.json("dismiss", "1")
    assert len(scene.json("clean", "--older", "0s", "--yes")["removed"]) == 1


def test_a_reading_run_delegates_only_the_files_it_is_asked_for(scene: Scene) -> None:
    tries = "".join(
        f'$OVERHAND delegate "Write a part" --agent part --deliverable {name}.md {more} --wait --json >$d/{name}; '
        for name, more in (("report", ""), ("other", ""), ("third", "--kind research"))
    )
    scene.shell("worker", f'd=$(dirname "$OVERHAND_OUTPUT"); {tries}{QUICK}')
    scene.shell("part", f'cd "$OVERHAND_PROJECT"; echo x >report.md; {QUICK}')
    task = scene.delegate("Write a report", "--kind", "research", "--deliverable", "report.md")
    scene.judged(task)
    done, *refused = (json.loads((scene.desk(task) / name).read_text()) for name in ("report", "other", "third"))
    assert (done["status"], done["level"]) == ("completed", "read")
    assert [one["error"]["message"].partition(", and run")[0] for one in refused] == [
        "This task is to write other.md",
        "This task is to write third.md",
    ]
