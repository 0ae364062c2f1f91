"""`overhand tag`: what people type, what they read, and who wins."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from overhand.errors import Refused
from overhand.record import Store
from overhand.system import edit_file
from overhand.testing.project import ProjectDir
from overhand.verbs import Session
from overhand.verbs import tag as verb
from support.warm import make_project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ITEM = "# T\n**Tags**: #needs-fix #P1 #M\n\ntext\n- one #needs-docs\n`#needs-fix`\n"
LIGHT = {
    "argparse", "yaml", "jsonschema_rs", "asyncio", "dataclasses", "typing", "re", "subprocess", "json", "inspect",
    "tomllib", "psutil", "pathlib", "logging", "ctypes",
}  # fmt: skip


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[ProjectDir]:
    project = make_project(tmp_path / "project")
    (project.path / "a.md").write_text(ITEM)
    yield project
    project.cleanup()


def text(desk: ProjectDir, name: str = "a.md") -> str:
    return (desk.path / name).read_bytes().decode()


def test_find_as_text(desk: ProjectDir) -> None:
    (desk.path / "b").mkdir()
    (desk.path / "b/c.md").write_text("no\r\n\r\nx #needs-fix #needs-docs\r\ny\r\nz\r\n")
    said = desk.run("tag", "find", "#needs-*")
    assert (said.code, said.err) == (0, "")
    assert said.out == (
        "a.md:2: **Tags**: #needs-fix #P1 #M\na.md:5: - one #needs-docs\nb/c.md:3: x #needs-fix #needs-docs\n"
    )
    assert desk.run("tag", "find", "needs-fix", "b", "--context", "1").out == (
        "b/c.md-2-\nb/c.md:3: x #needs-fix #needs-docs\nb/c.md-4-y\n"
    )
    assert desk.run("tag", "find", "#needs-fix", "b/c.md", "--context").out.splitlines()[0] == "b/c.md-1-no"
    assert desk.run("tag", "find", "#needs-*", "--files").out == "a.md\nb/c.md\n"
    assert desk.run("tag", "find", "#needs-*", str(desk.path / "b"), "--files").out == "b/c.md\n"
    assert desk.run("tag", "find", "#needs-*", "--tags-only").out == "a.md:2: **Tags**: #needs-fix #P1 #M\n"
    nothing = desk.run("tag", "find", "#nothing")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "")


def test_find_as_json(desk: ProjectDir) -> None:
    said = desk.run("tag", "find", "#*", "--json").json
    assert said["schema"] == "overhand.tag/1"
    assert said["hits"][0] == {
        "item": "a.md#fix", "path": "a.md", "line": 2, "tag": "#needs-fix", "kind": "fix", "stage": "needs",
        "priority": "P1", "effort": "M", "text": "**Tags**: #needs-fix #P1 #M", "task_id": None,
    }  # fmt: skip
    assert [(hit["item"], hit["tag"]) for hit in said["hits"][1:]] == [
        (None, "#P1"),
        (None, "#M"),
        ("a.md:5#docs", "#needs-docs"),
    ]
    assert desk.run("tag", "find", "#nothing", "--json").json["hits"] == []
    assert desk.run("tag", "find", "#*", "--files", "--json").json["files"] == ["a.md"]


def test_a_hostile_line_does_not_drive_the_terminal(desk: ProjectDir) -> None:
    (desk.path / "h.md").write_bytes(b"\x1b[2J #needs-x \xff \r\x07\n")
    assert desk.run("tag", "find", "#needs-x").out == "h.md:1: \ufffd[2J #needs-x \ufffd \ufffd\ufffd\n"


def test_add_and_remove(desk: ProjectDir) -> None:
    assert desk.run("tag", "add", "a.md", "#review", check=True).out == "a.md:2: #review added\n"
    assert text(desk) == ITEM.replace("#M\n", "#M #review\n")
    assert desk.run("tag", "add", "a.md", "review", "--json", check=True).json["changed"] is False
    assert desk.run("tag", "remove", "a.md", "#review", check=True).out == "a.md: #review removed\n"
    assert text(desk) == ITEM
    gone = desk.run("tag", "remove", "a.md", "#review")
    assert (gone.code, gone.out) == (0, "a.md has no #review.\n")


def test_swap(desk: ProjectDir) -> None:
    assert desk.run("tag", "swap", "a.md", "#needs-fix", "#done-fix", check=True).out == (
        "a.md:2: #needs-fix → #done-fix\n"
    )
    assert text(desk) == ITEM.replace("#needs-fix #P1", "#done-fix #P1")
    again = desk.run("tag", "swap", "a.md", "#needs-fix", "#done-fix")
    assert again.code == 3
    assert "line 2 has #done-fix" in again.err
    either = desk.run("tag", "swap", "a.md:5", "#next-docs,#needs-docs", "#claimed-docs", "--json", check=True).json
    assert (either["old"], either["tag"], either["path"], either["line"]) == ("#needs-docs", "#claimed-docs", "a.md", 5)
    assert desk.run("tag", "swap", "a.md", "#nothing", "#x").code == 3


def test_the_loser_is_told_who_has_it(desk: ProjectDir) -> None:
    desk.run("list", check=True)
    Store(str(desk.path)).ensure()
    desk.run("tag", "swap", "a.md", "#needs-fix", "#claimed-fix", check=True, env={"USER": "ada", "LOGNAME": "ada"})
    lost = desk.run("tag", "swap", "a.md", "#needs-fix", "#claimed-fix", "--json")
    assert lost.code == 3
    assert "line 2 has #claimed-fix: ada took it at 20" in lost.json["error"]["message"]
    (desk.path / "b.md").write_text("#claimed-fix <!--overhand:worker-1-->\n")
    assert "task worker-1 has it" in desk.run("tag", "swap", "b.md", "#needs-fix", "#claimed-fix").err


def test_which_of_several(desk: ProjectDir) -> None:
    (desk.path / "m.md").write_text("a #x\nb #x\n")
    said = desk.run("tag", "swap", "m.md", "#x", "#y")
    assert (said.code, text(desk, "m.md")) == (2, "a #x\nb #x\n")
    assert "in lines 1, 2" in said.err
    desk.run("tag", "swap", "m.md:2", "#x", "#y", check=True)
    assert text(desk, "m.md") == "a #x\nb #y\n"


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (["find"], 2, "in quotes"),
        (["find", "#1"], 2, "is no tag"),
        (["find", "#x", "nope"], 4, "no file or folder nope"),
        (["find", "#x", "--context", "-1"], 2, "There is no option -1"),
        (["find", "#x", "--context", "x"], 2, "'x' is no number of lines for --context"),
        (["find", "--context", "x", "#x"], 2, "'#x' is no number of lines for --context"),
        (["find", "#x", "--timeout", "3"], 2, "--timeout is not for tag find"),
        (["swap", "a.md", "#x"], 2, "takes 3 words"),
        (["swap", "a.md", ",", "#x"], 2, "Swap which tag?"),
        (["add", "nope.md", "#x"], 4, "There is no nope.md"),
        (["add", ".", "#x"], 2, "is a folder"),
        (["add", "a.md:3", "#x"], 2, "the Tags line"),
        (["take", "a.md", "#x"], 2, "cannot be 'take'"),
        (["await", "no/a.md", "#x"], 4, "There is no folder"),
        (["await", "a.md", "#x", "--timeout", "soon"], 2, "soon"),
    ],
)
def test_clear_errors(desk: ProjectDir, words: list[str], code: int, part: str) -> None:
    said = desk.run("tag", *words)
    assert (said.code, said.out) == (code, "")
    assert part in said.err
    assert "Traceback" not in said.err
    assert text(desk) == ITEM


@pytest.mark.parametrize("words", [["add", "#x"], ["remove", "#needs-fix"], ["swap", "#needs-fix", "#x"]])
def test_what_is_not_text_keeps_every_byte(desk: ProjectDir, words: list[str]) -> None:
    raw = b"\x89PNG\0\0 #needs-fix\n"
    (desk.path / "b.md").write_bytes(raw)
    said = desk.run("tag", words[0], "b.md", *words[1:])
    assert (said.code, said.out, (desk.path / "b.md").read_bytes()) == (2, "", raw)
    assert "b.md is not text; nothing was changed." in said.err


@pytest.mark.parametrize("words", [["add", "#x"], ["remove", "#needs-fix"], ["swap", "#needs-fix", "#x"]])
@pytest.mark.parametrize("name", ["notes.txt", "hostname", "link.md"])
def test_only_markdown_is_written_to(desk: ProjectDir, words: list[str], name: str) -> None:
    before = b"**Tags**: #needs-fix\n"
    (desk.path / "notes.txt").write_bytes(before)
    (desk.path / "hostname").write_bytes(before)
    (desk.path / "link.md").symlink_to("notes.txt")
    told = desk.run("tag", words[0], name, *words[1:])
    assert (told.code, f"{name} is not a Markdown file" in told.err) == (2, True)
    assert (desk.path / name).read_bytes() == before


def test_a_line_without_the_tag_is_named(desk: ProjectDir) -> None:
    said = desk.run("tag", "swap", "a.md:4", "#needs-fix", "#x")
    assert (said.code, text(desk)) == (3, ITEM)
    assert "Line 4 of a.md has no live tag #needs-fix." in said.err


def test_a_link_leads_to_its_file(desk: ProjectDir) -> None:
    (desk.path / "link.md").symlink_to("a.md")
    desk.run("tag", "add", "link.md", "#x", check=True)
    assert (desk.path / "link.md").is_symlink()
    assert "#M #x\n" in text(desk)


def test_await_checks_first_then_hears(desk: ProjectDir) -> None:
    assert desk.run("tag", "await", "a.md", "#needs-*", check=True).out == "a.md:2: **Tags**: #needs-fix #P1 #M\n"
    assert desk.run("tag", "await", "a.md", "#done-fix", "--timeout", "0.05").code == 124
    waits = desk.start("tag", "await", "a.md", "#done-fix")
    late = desk.start("tag", "await", "later.md", "#done-fix", "--timeout", "60")
    desk.run("tag", "swap", "a.md", "#needs-fix", "#done-fix", check=True)
    (desk.path / ".new").write_text("`#done-fix`\n#done-fix here\n")
    (desk.path / ".new").rename(desk.path / "later.md")
    assert waits.communicate(timeout=60)[0] == "a.md:2: **Tags**: #done-fix #P1 #M\n"
    assert late.communicate(timeout=60)[0] == "later.md:2: #done-fix here\n"


def test_a_run_cannot_approve(desk: ProjectDir) -> None:
    call = f"'{sys.executable}' -m overhand tag"
    tries = [
        f"{call} swap a.md '#needs-fix' '#delegated-fix'",
        f"{call} add a.md '#next-fix'",
        f"env -i PYTHONPATH=\"$PYTHONPATH\" {call} swap a.md '#needs-fix' '#delegated-fix'",
        f"(setsid {call} swap a.md '#needs-fix' '#next-fix') & wait $!",
    ]
    script = "".join(f"{line}\necho $? >> codes\n" for line in tries)
    (desk.path / "try.sh").write_text(f"{script}exit 0\n")
    desk.agent("worker", command=["sh", "try.sh"])
    desk.run("delegate", "Try", "--agent", "worker", "--wait", env={"PYTHONPATH": os.pathsep.join(sys.path)})
    assert (desk.path / "codes").read_text().split() == ["3", "3", "3", "3"]
    assert text(desk) == ITEM


@pytest.mark.parametrize(
    "words",
    [
        ["find", "#needs-*"], ["find", "#needs-*", "--json"], ["swap", "a.md", "#needs-fix", "#done-fix"],
        ["add", "a.md", "#x"], ["remove", "a.md", "#P1"],
    ],
)  # fmt: skip
def test_it_starts_light(desk: ProjectDir, words: list[str]) -> None:
    code = (
        f"import sys; sys.path[:0] = {sys.path!r}; from overhand.cli import main; code = main(sys.argv[1:]);"
        "print('LOADED', *sys.modules, file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, "tag", *words],
        cwd=desk.path, env=desk.environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    heavy = set(done.stderr.partition("LOADED ")[2].split()) & (LIGHT - {"ctypes"} if words[0] != "find" else LIGHT)
    if words[0] == "find" and not any(os.access(f"{p}/rg", os.X_OK) for p in os.environ["PATH"].split(":")):
        heavy -= {"re"}  # the walk needs it for .gitignore
    assert heavy == set()


def big(size: int) -> bytes:
    line = b"Some text with `code` and a [link](x.md#part) in it, over and over.\n\n"
    return b"# Big\n**Tags**: #delegated-fix #P1\n\n" + line * (size // len(line))


@pytest.mark.parametrize("count", [2, 8])
def test_one_of_many_processes_wins(desk: ProjectDir, count: int) -> None:
    raw = big(3_000_000)
    (desk.path / "big.md").write_bytes(raw)
    words = ("tag", "swap", "big.md", "#delegated-fix", "#claimed-fix")
    racers = [desk.start(*words) for _ in range(count)]
    said = [racer.communicate(timeout=120) for racer in racers]
    assert sorted(racer.returncode for racer in racers) == [0] + [3] * (count - 1)
    assert all("#claimed-fix" in err for out, err in said if not out)
    after = (desk.path / "big.md").read_bytes()
    assert after == raw.replace(b"#delegated-fix", b"#claimed-fix")
    assert not [name for name in os.listdir(desk.path) if name.endswith(".tmp")]


def test_one_of_many_threads_wins_each_file(tmp_path: Path) -> None:
    raw = b"# T\n**Tags**: #delegated-fix\n\n" + b"text\n" * 100
    names = [f"{number}.md" for number in range(60)]
    for name in names:
        (tmp_path / name).write_bytes(raw)
    won: list[str] = []

    def race() -> None:
        session = Session(str(tmp_path))
        for name in names:
            try:
                verb.tag(session, "swap", [str(tmp_path / name), "#delegated-fix", "#claimed-fix"])
                won.append(name)
            except Refused:
                pass

    racers = [threading.Thread(target=race) for _ in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert sorted(won) == sorted(names)
    assert {(tmp_path / name).read_bytes() for name in names} == {raw.replace(b"delegated", b"claimed")}


def test_a_file_of_fifty_megabytes(desk: ProjectDir) -> None:
    raw = big(50_000_000)
    (desk.path / "huge.md").write_bytes(raw)
    desk.run("tag", "swap", "huge.md", "#delegated-fix", "#done-fix", check=True)
    want = hashlib.sha256(raw.replace(b"#delegated-fix", b"#done-fix")).hexdigest()
    assert hashlib.sha256((desk.path / "huge.md").read_bytes()).hexdigest() == want
    assert desk.run("tag", "find", "#done-fix", check=True).out == "huge.md:2: **Tags**: #done-fix #P1\n"


@pytest.mark.parametrize("how", ["rename", "append"])
def test_a_foreign_editor_loses_nothing(desk: ProjectDir, how: str) -> None:
    """It writes numbered lines, by its own means, while tags are swapped to and fro; every line must be there."""
    path = desk.path / "e.md"
    path.write_text("# E\n**Tags**: #needs-fix\n\n")
    code = (
        "import os, sys\n"
        "for n in range(300):\n"
        "    if sys.argv[1] == 'append':\n"
        "        open('e.md', 'a').write(f'line {n}\\n')\n"
        "        continue\n"
        "    open('log', 'a').write(f'line {n}\\n')\n"
        "    text = open('e.md').read().partition('\\n\\n')[0]\n"
        "    open('.e', 'w').write(text + '\\n\\n' + open('log').read())\n"
        "    os.rename('.e', 'e.md')\n"
    )
    editor = subprocess.Popen([sys.executable, "-c", code, how], cwd=desk.path)
    session = Session(str(desk.path))
    stages = ["needs", "claimed"]
    while editor.poll() is None:
        found = verb.tag(session, "find", ["#*", str(path)]).payload["hits"]
        now = next((hit["stage"] for hit in found if hit["stage"]), None)
        if now is not None:
            try:
                verb.tag(session, "swap", [str(path), f"#{now}-fix", f"#{stages[now == 'needs']}-fix"])
            except Refused:
                pass  # the editor's older text came back in between
    assert editor.returncode == 0
    lines = [line for line in text(desk, "e.md").splitlines() if line.startswith("line ")]
    assert lines == [f"line {number}" for number in range(300)]


def test_edits_wait_for_each_other(tmp_path: Path) -> None:
    """An edit that takes long is not undone by another one of ours."""
    path = tmp_path / "a.md"
    path.write_text("a b")
    inside, go_on = threading.Event(), threading.Event()

    def slow(raw: bytes) -> tuple[int, int, bytes]:
        inside.set()
        go_on.wait(30)
        at = raw.index(b"a")
        return at, at + 1, b"slow"

    def fast(raw: bytes) -> tuple[int, int, bytes]:
        at = raw.index(b"b")
        return at, at + 1, b"fast"

    first = threading.Thread(target=edit_file, args=(str(path), slow))
    first.start()
    assert inside.wait(30)
    second = threading.Thread(target=edit_file, args=(str(path), fast))
    second.start()
    go_on.set()
    first.join(30)
    second.join(30)
    assert path.read_text() == "slow fast"
