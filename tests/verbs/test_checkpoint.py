"""`checkpoint create|list|show` and `resume --from`: what people read, and what nobody can break."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cli.test_text import GOLDEN, WRITE, normal
from overhand.record import read_log
from support.scene import until
from support.warm import make_project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.testing.project import ProjectDir, Ran

ASK = ("delegate", "Sort the log", "--step", "Read it", "--step", "Sort it", "--deliverable", "a.txt", "--wait")


def compare(name: str, ran: Ran, project: ProjectDir) -> None:
    """Against the golden file, without dates, commits and estimates."""
    shown = normal(f"{ran.out}{'--- stderr' if ran.err else ''}\n{ran.err}".rstrip() + f"\n=> {ran.code}\n", project)
    for pattern, word in (
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "STAMP"),
        (r"\b[0-9a-f]{40}\b", "COMMIT"),
        (r"~?(\d+|N) tokens|tokens ~?(\d+|N)", "N tokens"),
    ):
        shown = re.sub(pattern, word, shown)
    path = GOLDEN / f"{name}.txt"
    if WRITE:
        path.write_text(shown, encoding="utf-8")
    assert shown == path.read_text(encoding="utf-8")


def folder_of(project: ProjectDir, task: int = 1) -> Path:
    found: str = project.run("show", str(task), "--json", check=False).json["task_id"]
    return project.task_record(found)


def half_way(folder: Path) -> ProjectDir:
    """A task that ended half way, in a repository."""
    stays = '[limits]\nidle = "1h"\n'  # files are counted here, and a supervisor that leaves takes its socket along
    project = make_project(folder / "project", git=True, config=stays)
    half = ("file:a.txt=hi", "step:1", "print:CONTROL: CHECKPOINT REASON: Half way")
    go = folder / "go"  # its checkpoint is in the record, which is not the agent's to look into
    project.agent("worker", *half, f"until:{go}", "exit:3", control=True)
    delegated = project.start(*ASK, "--agent", "worker")
    until(lambda: [*project.record.glob("tasks/*/checkpoints/latest")], "the checkpoint")
    go.touch()
    delegated.communicate(timeout=60)
    return project


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProjectDir]:
    """One that tests share: they may add checkpoints."""
    project = half_way(tmp_path_factory.mktemp("desk"))
    yield project
    project.cleanup()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[ProjectDir]:
    """One with the run's own checkpoint only."""
    project = half_way(tmp_path)
    yield project
    project.cleanup()


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[ProjectDir]:
    """The same, for a test that changes it."""
    project = make_project(tmp_path / "project", {"worker": ("file:a.txt=hi", "exit:3"), "good": ("output",)})
    project.run(*ASK, "--agent", "worker")
    try:
        yield project
    finally:
        project.cleanup()


def test_texts(own: ProjectDir) -> None:
    compare("checkpoint-show", own.run("checkpoint", "show", "1"), own)
    words = ("--reason", "Before lunch, see a.txt:1", "--name", "lunch", "--git-tag", "--handoff", "full")
    compare("checkpoint-create", own.run("checkpoint", "create", "1", *words), own)
    compare("checkpoint-list", own.run("checkpoint", "list", "1"), own)
    compare("checkpoint-show-full", own.run("checkpoint", "show", "ckpt_lunch"), own)
    compare("error-checkpoint-taken", own.run("checkpoint", "create", "1", "--name", "lunch"), own)
    compare("error-checkpoint-name", own.run("checkpoint", "create", "1", "--name", "../lunch"), own)
    compare("error-checkpoint", own.run("checkpoint", "show", "ckpt_dinner"), own)
    compare("error-checkpoint-which", own.run("checkpoint", "list"), own)
    compare("error-resume-from", own.run("resume", "1", "--from", "ckpt_dinner"), own)
    own.run("delegate", "Do nothing yet", "--agent", "worker", "--no-start", check=True)
    compare("checkpoint-list-none", own.run("checkpoint", "list", "2"), own)
    tags = subprocess.run(["git", "tag"], cwd=own.path, capture_output=True, text=True, check=True).stdout
    assert tags == "ckpt_lunch\n"


def test_every_document_is_valid_by_our_own_check(desk: ProjectDir) -> None:
    for how in ("quick", "full"):
        desk.run(
            "checkpoint", "create", "1", "--handoff", how, "--reason", "See a.txt:1 and\n# not a heading", check=True
        )
    places = sorted((folder_of(desk) / "checkpoints").glob("ckpt_*"))
    assert len(places) >= 6
    for place in places:
        ran = desk.run("check", str(place), "--json")
        assert (ran.code, ran.json["errors"]) == (0, 0), ran.out
        assert ran.json["document"] in ("checkpoint", "quick", "full")


HOSTILE = ["../x", "a/b", "x" * 200, "ä", "ckpt_", "a b", "a\n", ".", "..", "ckpt_../x", "$HOME", "*", "-"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_refused(desk: ProjectDir, name: str) -> None:
    before = len(list(desk.path.rglob("*")))
    ran = desk.run("checkpoint", "create", "1", f"--name={name}", "--json")
    if name == "-":  # odd, but it can name a file
        assert ran.json["checkpoint_id"] == "ckpt_-"
        return
    assert (ran.code, ran.json["error"]["code"]) == (2, "VALIDATION_FAILED")
    assert len(list(desk.path.rglob("*"))) == before


@pytest.mark.parametrize("name", ["ckpt_../../HANDOFF", "ckpt_/etc/passwd", "ckpt_\n", "ckpt_" + "x" * 5000])
def test_hostile_names_find_nothing(desk: ProjectDir, name: str) -> None:
    assert desk.run("checkpoint", "show", name).code == 4
    assert desk.run("resume", "1", "--from", name).code == 4


def test_many_at_once_have_names_of_their_own(fresh: ProjectDir) -> None:
    fresh.run("delegate", "Sort the log", "--agent", "worker", "--wait")
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda n: fresh.run("checkpoint", "create", str(1 + n % 2), "--json"), range(12)))
    names = [ran.json["checkpoint_id"] for ran in made]
    assert len(set(names)) == 12
    for task in (1, 2):
        recorded = [e["id"] for e in read_log(str(folder_of(fresh, task))) if e["e"] == "checkpoint"]
        assert sorted(recorded) == sorted(name for n, name in enumerate(names) if 1 + n % 2 == task)
        assert (folder_of(fresh, task) / "checkpoints/latest").read_text() == f"{recorded[-1]}\n"


def test_without_git_there_is_no_tag_and_it_is_said(fresh: ProjectDir) -> None:
    ran = fresh.run("checkpoint", "create", "1", "--git-tag")
    assert (ran.code, "git tag" in ran.out) == (0, False)
    assert "No git tag was made" in ran.err
    document = fresh.run("checkpoint", "show", "1", "--json").json["document"]
    assert document["commit"] is None


def test_a_folder_that_cannot_be_written_to(fresh: ProjectDir) -> None:
    (folder_of(fresh) / "checkpoints").write_text("in the way")
    ran = fresh.run("checkpoint", "create", "1", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (3, "STORAGE_FAILED")
    assert not [e for e in read_log(str(folder_of(fresh))) if e["e"] == "checkpoint"]


def test_documents_that_were_damaged_are_told(fresh: ProjectDir) -> None:
    fresh.run("checkpoint", "create", "1", "--name", "x", check=True)
    place = folder_of(fresh) / "checkpoints"
    (place / "ckpt_x.json").write_text("{")
    assert fresh.run("checkpoint", "show", "1").code == 2
    (place / "ckpt_x.md").unlink()
    assert fresh.run("checkpoint", "show", "ckpt_x").code == 4
    (place / "ckpt_x.md").symlink_to("/etc/passwd")
    ran = fresh.run("checkpoint", "show", "ckpt_x")
    assert (ran.code, "root:" in ran.out) == (4, False)


def test_inside_a_run(fresh: ProjectDir) -> None:
    script = """$OVERHAND checkpoint create --reason mine --json >made.json; $OVERHAND checkpoint list >list.txt
    $OVERHAND checkpoint show latest >shown.md; $OVERHAND checkpoint create 1 --json >other.json; echo $? >code"""
    command = ["/bin/sh", "-c", f"OVERHAND='{sys.executable} -m overhand'; {script}"]
    fresh.agent("inside", command=command)
    fresh.run("delegate", "Save it", "--agent", "inside", "--wait")
    made = json.loads((fresh.path / "made.json").read_text())
    assert made["handle"] == 2
    assert made["checkpoint_id"] in (fresh.path / "list.txt").read_text()
    assert "mine" in (fresh.path / "shown.md").read_text()
    assert (fresh.path / "code").read_text() == "3\n"
    assert json.loads((fresh.path / "other.json").read_text())["error"]["code"] == "APPROVAL_REQUIRED"
    (event,) = [e for e in read_log(str(folder_of(fresh, 2))) if e["e"] == "checkpoint"]
    assert (event["why"], event["by"]["kind"]) == ("agent", "run")


@pytest.mark.parametrize("name", ["ckpt_early", "latest"])
def test_resume_from_a_checkpoint_hands_its_document_over_and_rolls_nothing_back(fresh: ProjectDir, name: str) -> None:
    fresh.run("checkpoint", "create", "1", "--name", "early", "--reason", "Early on.", check=True)
    (fresh.path / "a.txt").write_text("changed since")
    if name == "latest":
        fresh.run("checkpoint", "create", "1", "--reason", "Later on.", "--handoff", "full", check=True)
    assert fresh.run("resume", "1", "--from", name, "--agent", "good", "--wait").code == 0
    told = (folder_of(fresh) / "HANDOFF.md").read_text().partition("## Previous Worker Context")[2]
    assert ("Early on." in told, "Later on." in told) == (name == "ckpt_early", name == "latest")
    assert "\\\\#" not in told
    assert (fresh.path / "a.txt").read_text() == "changed since"
