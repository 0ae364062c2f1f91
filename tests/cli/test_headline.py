"""The headline screen: golden texts at two widths, a crowd, a pipe, a terminal that is drawn in place, all projects.

`OVERHAND_GOLDEN=write pytest tests/cli/test_headline.py` writes the golden files anew.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cli import written
from cli.test_table import LIGHT
from overhand.cli.headline import screen
from overhand.cli.parse import parse
from overhand.cli.text import cells, cut, pad, wrap
from overhand.verbs import Headline, Session
from overhand.verbs.status import command, usage
from support.warm import make_project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.testing.project import ProjectDir

GOLDEN = Path(__file__).parent.parent / "golden/headline"
WRITE = os.environ.get("OVERHAND_GOLDEN") == "write"
ESCAPE = "\x1b"
DRAWN = "\x1b[J"  # what every drawing ends with
SHORT = "worker-20250101-000000-5"


@pytest.fixture
def crowd(overhand_project: ProjectDir) -> Iterator[ProjectDir]:
    """Something in every group; the supervisor's lock is held by us, so nothing is started or settled."""
    written.crowd(overhand_project.path)
    with written.supervised(overhand_project.path):
        yield overhand_project


@pytest.mark.parametrize("width", [80, 120])
def test_golden_screen(crowd: ProjectDir, width: int) -> None:
    ran = crowd.run("status", check=True, env={"COLUMNS": str(width)})
    path = GOLDEN / f"{width}.txt"
    if WRITE:
        path.write_text(ran.out, encoding="utf-8")
    assert ran.out == path.read_text(encoding="utf-8")
    assert max(map(cells, ran.out.splitlines())) == width


def test_a_pipe_gets_plain_text_of_80_columns(crowd: ProjectDir) -> None:
    ran = crowd.run(check=True)
    assert ran.out == (GOLDEN / "80.txt").read_text(encoding="utf-8")
    assert not set(ran.out) & {ESCAPE, "\r", "\x07", "\u202e"}


@pytest.mark.parametrize("width", [40, 61, 80, 200])
def test_no_line_is_wider_than_the_screen(crowd: ProjectDir, width: int) -> None:
    lines = list(screen(Headline(Session(str(crowd.path))).payload(), width))
    assert max(map(cells, lines)) <= width


def test_json_has_what_a_person_sees(crowd: ProjectDir) -> None:
    shown = crowd.run("--json", check=True).json
    assert list(shown["groups"]) == ["needs you", "failed", "working", "queued", "ready", "done"]
    assert shown["counts"] == {"needs you": 4, "failed": 1, "working": 2, "queued": 2, "ready": 16, "done": 2}
    assert shown["tasks"] == 27
    first = shown["groups"]["needs you"][0]
    question = first["question"]
    assert (question["seq"], question["question"]) == (1, "Which database is it?")
    assert question["options"] == ["staging", "production"]
    assert question["file"] == ".agent-workspaces/worker-20250101-000000-1/ipc/001.question"
    assert question["path"][0] == "user"
    assert first["progress"] == {"done": 2, "total": 5}
    assert first["step"].startswith("Copy the tables")
    assert first["usage"] == {"tokens": 41_200, "usd": 0.4, "estimated": True}
    assert first["command"] == "overhand answer 1 OPTION"
    assert 250 <= first["age"] < 400
    assert first["deadline"].endswith("Z")
    working = shown["groups"]["working"][0]
    assert working["sign"] >= 130
    assert [row["command"] for row in shown["groups"]["failed"]] == ["overhand resume 24"]
    assert [row.get("after_handle") for row in shown["groups"]["queued"]] == [None, 5]


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_looking_at_live_tasks_imports_nothing_heavy(crowd: ProjectDir, words: list[str]) -> None:
    code = (
        "import sys; from overhand.cli import main; code = main(sys.argv[1:]);"
        "print(*sorted(sys.modules), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}", *words],
        cwd=crowd.path, env=crowd.environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert set(done.stderr.split()).isdisjoint(LIGHT)


def test_the_clock_stands_still_while_a_run_waits(overhand_project: ProjectDir) -> None:
    run = written.run_id(1)
    going = [{"e": "run.waiting", "run": run}, {"e": "run.going", "run": run}]
    folder = written.task(overhand_project.path, 1, *written.begun(1, 1000))
    with written.supervised(overhand_project.path):
        before = overhand_project.run("--json", check=True).json["groups"]["working"][0]["deadline"]
        lines = [{**event, "mono": mono, "t": written.stamp(0)} for event, mono in zip(going, (100, 700), strict=True)]
        with (folder / "log.jsonl").open("a") as log:
            log.writelines(json.dumps(line) + "\n" for line in lines)
        after = overhand_project.run("--json", check=True).json["groups"]["working"][0]["deadline"]
    seconds = [time.mktime(time.strptime(stamp, "%Y-%m-%dT%H:%M:%SZ")) for stamp in (before, after)]
    assert seconds[1] - seconds[0] == 600


def test_workspaces_without_a_record_are_one_line(overhand_project: ProjectDir) -> None:
    names = ["a-folder-that-was-written-by-hand-and-has-a-long-name", "another-one"]
    for name in names:
        folder = overhand_project.path / ".agent-workspaces" / name
        folder.mkdir(parents=True)
        (folder / "HANDOFF.md").write_text(written.PLAN)
    written.task(overhand_project.path, 1, title="Short")
    out = overhand_project.run(check=True).out
    assert out.splitlines()[-1] == "2 prepared folders: overhand list --prepared"
    assert not [name for name in names if name in out]
    listed = overhand_project.run("list", "--prepared", check=True).out
    assert [line.strip() for line in listed.splitlines() if "overhand run" in line] == [
        f"overhand run {name}" for name in names
    ]


def test_two_hundred_tasks_fit_on_a_page(overhand_project: ProjectDir) -> None:
    for number in range(1, 201):
        events = (*written.begun(number), *written.judged(number, "completed" if number % 2 else "failed"))
        written.task(overhand_project.path, number, *events, title="Long title " * 20)
    ran = overhand_project.run(check=True)
    assert len(ran.out.splitlines()) < 30
    assert [ran.out.count(f"… {left} more: overhand list") for left in (95, 90)] == [1, 1]
    shown = overhand_project.run("--json", check=True).json
    assert [row["handle"] for row in shown["groups"]["ready"]] == list(range(1, 200, 2))
    assert overhand_project.run("list", check=True).out.count("\n") == 200


def test_done_shows_only_the_newest(overhand_project: ProjectDir) -> None:
    for number in range(1, 31):
        written.task(overhand_project.path, number, *written.begun(number), *written.judged(number), {"e": "seen"})
    shown = overhand_project.run("--json", check=True).json
    assert shown["counts"]["done"] == 30
    assert [row["handle"] for row in shown["groups"]["done"]] == list(range(11, 31))


def test_a_live_question_is_shown_and_answered_by_what_the_row_says(overhand_project: ProjectDir) -> None:
    overhand_project.agent("asker", "ask:Which one?", "output")
    overhand_project.run("delegate", "Choose", "--agent", "asker", check=True)
    with overhand_project.start("--watch", "--json") as watching:
        assert watching.stdout is not None
        for line in watching.stdout:
            if json.loads(line)["counts"]["needs you"]:
                break
        watching.send_signal(signal.SIGTERM)
        watching.communicate()
    row = json.loads(line)["groups"]["needs you"][0]
    assert row["question"]["question"] == "Which one?"
    assert row["command"] == 'overhand answer 1 "…"'
    overhand_project.run("answer", "1", "the first", check=True)
    overhand_project.run("wait", "1", check=True)
    assert overhand_project.run("--json").json["counts"]["ready"] == 1


def test_watching_in_a_pipe_prints_a_screen_per_change(crowd: ProjectDir) -> None:
    with crowd.start("--watch") as watching:
        assert watching.stdout is not None
        first = list(iter(watching.stdout.readline, "\n"))
        written.append(crowd.task_record(SHORT), written.asked(5, 1, "Really?"))
        second = list(iter(watching.stdout.readline, "\n"))
        watching.send_signal(signal.SIGINT)
        assert watching.communicate()[0] == ""
        assert watching.returncode == 130
    assert "".join(first) == (GOLDEN / "80.txt").read_text(encoding="utf-8")
    assert "       ? Really?\n" in second


def test_watching_as_json_is_a_line_per_change(crowd: ProjectDir) -> None:
    with crowd.start("status", "--watch", "--json") as watching:
        assert watching.stdout is not None
        first = json.loads(watching.stdout.readline())
        written.append(crowd.task_record(SHORT), written.asked(5, 1, "Really?"))
        second = json.loads(watching.stdout.readline())
        watching.send_signal(signal.SIGINT)
        watching.communicate()
    assert first["schema"] == second["schema"] == "overhand.status/1"
    assert [one["counts"]["needs you"] for one in (first, second)] == [4, 5]


class Terminal:
    """`overhand ARGS` on a terminal of its own."""

    def __init__(self, project: ProjectDir, *args: str, rows: int = 50, columns: int = 80) -> None:
        self.master, slave = pty.openpty()
        self.resize(rows, columns)
        env = {**project.environment(), "TERM": "xterm"}
        words = " ".join(map(shlex.quote, [sys.executable, "-m", "overhand", *args]))
        # whoever leads a session and opens a terminal has it for its own
        script = f"exec {words} <>{os.ttyname(slave)} >&0 2>&0"
        self.process = subprocess.Popen(["sh", "-c", script], cwd=project.path, env=env, start_new_session=True)
        self.slave = slave  # kept open: what was written last can be read after its end
        self.text = ""

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read_until(self, wanted: str) -> str:
        """What is written up to the end of the drawing with this text; a terminal hands it over in pieces."""
        text, deadline = "", time.monotonic() + 30
        while wanted not in text or not text.endswith(DRAWN):
            ready, _, _ = select.select([self.master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{wanted!r} did not come; this did: {text[-2000:]!r}"
            text += os.read(self.master, 65536).decode("utf-8", "replace")
        self.text += text
        return text

    def end(self) -> tuple[int, str]:
        """How it ended, and what it wrote at the end."""
        code = self.process.wait(30)
        text = ""
        while select.select([self.master], [], [], 0.0)[0]:
            text += os.read(self.master, 65536).decode("utf-8", "replace")
        self.text += text
        return code, text

    def echoes(self) -> bool:
        return bool(termios.tcgetattr(self.slave)[3] & termios.ECHO)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def terminal(crowd: ProjectDir) -> Iterator[Terminal]:
    crowd.run("version", check=True)  # trust is settled before
    found = Terminal(crowd, "--watch", rows=60)
    try:
        yield found
    finally:
        found.close()


def test_watching_draws_in_place(crowd: ProjectDir, terminal: Terminal) -> None:
    first = terminal.read_until("q leaves")
    assert "\x1b[?25l" in first
    assert "Which database is it?" in first
    assert not terminal.echoes()
    written.append(crowd.task_record(SHORT), written.asked(5, 1, "Really?"))
    second = terminal.read_until("Really?")
    assert second.lstrip("\r\n").startswith("\x1b[H")
    os.write(terminal.master, b"q")
    code, rest = terminal.end()
    assert code == 0
    assert rest.endswith("\x1b[?25h")
    assert "\x1b[2J" not in terminal.text
    assert "\x1b[?1049h" not in terminal.text
    assert terminal.echoes()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_the_terminal_is_restored_however_it_ends(terminal: Terminal, number: int, code: int) -> None:
    terminal.read_until("q leaves")
    terminal.process.send_signal(number)
    ended, rest = terminal.end()
    assert ended == code
    assert "\x1b[?25h" in rest
    assert terminal.echoes()


def test_watching_follows_the_size_of_the_window(terminal: Terminal) -> None:
    terminal.read_until("q leaves")
    terminal.resize(12, 60)
    drawn = terminal.read_until("more lines")
    assert drawn.split("\x1b[H")[-1].count("\r\n") < 12
    os.write(terminal.master, b"q")
    assert terminal.end()[0] == 0


def test_a_suspended_screen_gives_the_terminal_back_and_takes_it_again(terminal: Terminal) -> None:
    terminal.read_until("q leaves")
    terminal.process.send_signal(signal.SIGTSTP)  # without a shell above it, nothing stops: it goes on at once
    drawn = terminal.read_until("q leaves")
    assert 0 <= drawn.index("\x1b[?25h") < drawn.index("\x1b[?25l") < drawn.index("\x1b[H")
    os.write(terminal.master, b"q")
    assert terminal.end()[0] == 0


def test_watching_nothing_costs_nearly_nothing(overhand_project: ProjectDir) -> None:
    headline = Headline(Session(str(overhand_project.path)))
    headline.payload()
    assert headline.pause >= 0.5


# all projects


def test_all_projects_on_one_screen(overhand_project: ProjectDir, tmp_path: Path) -> None:
    other, gone, broken, quiet = (tmp_path / name for name in ("other", "gone", "broken", "quiet"))
    for place in (other, gone, broken, quiet):
        place.mkdir()
        overhand_project.run("-C", str(place), "init", check=True)
        overhand_project.run("-C", str(place), "init", check=True)
    overhand_project.run("init", check=True)
    records = {row["project"]: row for row in overhand_project.run("projects", "--json", check=True).json["projects"]}
    here = {str(place): row for place in (other, gone, broken, quiet) if (row := records.get(str(place)))}
    assert [row["gone"] for row in here.values()] == [False] * 4
    assert str(overhand_project.path) in records
    for path in sorted(gone.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    gone.rmdir()
    (Path(here[str(broken)]["record"]) / "tasks").rmdir()
    (Path(here[str(broken)]["record"]) / "tasks").write_text("no folder")
    written.task(quiet, 1, *written.begun(1), *written.judged(1))
    written.task(other, 1, *written.begun(1), written.asked(1, 1, "Where?"), *written.judged(1, "needs-input"))
    shown = overhand_project.run("--all", "--json", check=True).json
    assert shown["projects"][0]["project"] == str(overhand_project.path), "the one around us comes first"
    rows = {project["project"]: project for project in shown["projects"]}
    assert [str(place) in rows for place in (other, gone, broken, quiet)] == [True, False, True, True]
    assert rows[str(other)]["counts"]["needs you"] == 1
    assert "error" in rows[str(broken)]
    again = overhand_project.run("projects", "--json", check=True).json["projects"]
    assert [row["gone"] for row in again if row["project"] == str(gone)] == [True]
    text = overhand_project.run("status", "--all", check=True, env={"HOME": str(tmp_path)}).out
    assert "~/quiet  1 ready\n" in text
    assert "overhand -C ~/other answer 1" in text
    assert "? Where?" in text
    assert max(map(cells, text.splitlines())) <= 80


def test_a_task_makes_its_project_known(overhand_project: ProjectDir) -> None:
    overhand_project.run("delegate", "Do it", "--agent", "worker", "--wait", check=True)
    listed = overhand_project.run("projects", "--json", check=True).json["projects"]
    (mine,) = (row for row in listed if row["project"] == str(overhand_project.path))
    assert (mine["record"], mine["gone"], mine["bytes"] > 0) == (str(overhand_project.record), False, True)


def test_looking_from_elsewhere_starts_nothing(overhand_project: ProjectDir, tmp_path: Path) -> None:
    other = make_project(tmp_path / "other")
    try:
        overhand_project.run("-C", str(other.path), "init", check=True)
        written.task(other.path, 1, {"e": "accepted"})
        shown = overhand_project.run("--all", "--json", check=True).json
        (there,) = (project for project in shown["projects"] if project["project"] == str(other.path))
        row = there["groups"]["queued"][0]
        assert row["notice"] == f"nobody looks after it: overhand -C {other.path}"
        assert not (other.record / "supervisor/lock").exists()
    finally:
        other.cleanup()


# small parts


def test_the_options_of_the_bare_screen_need_no_verb() -> None:
    for words in (["--watch"], ["--all", "--watch"], ["--json", "--all"], ["-C", "/tmp", "--all"]):
        assert parse(words).verb.name == "status"
    assert parse(["--all", "--watch"]).values == {"all": True, "watch": True}


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("abc", 3),
        ("時計", 4),
        ("e\u0301", 1),
        ("👩\u200d👩\u200d👧", 2),
        ("✔\ufe0f", 2),
        ("👍🏽", 2),
        ("🇨🇭", 2),
        ("ｱ", 1),
    ],
)
def test_columns_of_wide_and_combining_characters(text: str, width: int) -> None:
    assert cells(text) == width


@given(st.text(), st.integers(0, 40))
def test_cut_and_pad_keep_to_their_columns(text: str, width: int) -> None:
    assert cells(cut(text, width)) <= width
    assert cells(pad(text, width)) == width
    assert cut(text, max(1, cells(text))) == text or not text


@given(st.text(st.characters(blacklist_categories=("Cc", "Zl", "Zp"))), st.integers(2, 40), st.integers(1, 5))
@example("000\xad", 2, 2)  # a last character without width
def test_wrap_keeps_to_its_lines_and_columns(text: str, width: int, most: int) -> None:
    lines = wrap(" ".join(text.split()), width, most)
    assert len(lines) <= most
    assert all(cells(line) <= width for line in lines)


def test_what_to_type_next(overhand_project: ProjectDir) -> None:
    state = Session(str(overhand_project.path)).store
    folder = overhand_project.path / ".agent-workspaces/by-hand"
    folder.mkdir(parents=True)
    (folder / "HANDOFF.md").write_text(written.PLAN)
    prepared = state.task("by-hand")
    assert command(prepared, "queued") == "overhand run by-hand"
    assert usage(prepared) is None
    payload = Headline(Session(str(overhand_project.path))).payload()
    assert (payload["prepared"], payload["tasks"]) == (1, 0)
