"""Agents that speak ACP: a toy made with the official SDK for the edges, and the real ones against a scripted model."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from overhand.agents import stream_summary
from overhand.record import Store
from overhand.system.machine import read_proc
from overhand.testing import processes
from overhand.testing.project import ProjectDir
from support.installed import require
from support.real_agents import House, house, output, returns, until
from support.warm import make_project

if TYPE_CHECKING:
    from collections.abc import Iterator

TOY = Path(__file__).with_name("toy.py")
SOON = '[limits]\nanswer_wait = "0.3s"\nstop_grace = "30s"\n'


@pytest.fixture
def project(tmp_path: Path) -> Iterator[ProjectDir]:
    made = make_project(tmp_path / "project", agents={}, config='[limits]\nstop_grace = "30s"\n')
    yield made
    made.cleanup()


def toy(project: ProjectDir, *words: str, **keys: object) -> None:
    project.agent("toy", driver="acp", **{"command": [sys.executable, str(TOY), *words], "repair": 0, **keys})


def done(project: ProjectDir, *flags: str) -> dict[str, Any]:
    ran = project.run("delegate", "do it", "--agent", "toy", "--wait", "--json", *flags)
    assert ran.out, ran.err
    return dict(ran.json)


def show(project: ProjectDir, handle: object = "1") -> dict[str, Any]:
    return dict(project.run("show", str(handle), "--json", check=True).json)


def notes(project: ProjectDir) -> list[str]:
    path = Path(f"{project.path}.notes")
    return path.read_text().splitlines() if path.exists() else []


def heard(project: ProjectDir, handle: object = "1") -> Any:
    store = Store(str(project.path))
    task = store.task(store.resolve(str(handle)))
    return stream_summary(store.run_folder(task.id, task.runs[-1].id), "acp")


def question(project: ProjectDir, handle: object = "1") -> dict[str, Any]:
    """The open question, as soon as there is one."""
    found = until(lambda: [q for q in show(project, handle)["questions"] if q["answered"] is None], "a question")
    return dict(found[0])


# the conversation


def test_a_turn(project: ProjectDir) -> None:
    toy(project, "say:Hello_there.", "return")
    shown = done(project)
    assert (shown["status"], shown["problems"]) == ("completed", [])
    assert (shown["usage"]["input"], shown["usage"]["output"], shown["usage"]["estimated"]) == (100, 30, False)
    said = heard(project)
    assert (said.end, said.text, said.session[:4]) == ("clean", ["Hello_there."], "toy-")
    assert notes(project) == ["mode default"]


@pytest.mark.parametrize(
    ("word", "end"), [("refusal", "refused"), ("max_tokens", "max-turns"), ("max_turn_requests", "max-turns")]
)
def test_a_turn_that_ends_otherwise_is_no_clean_one(project: ProjectDir, word: str, end: str) -> None:
    toy(project, "return", word)
    assert done(project)["status"] != "completed"
    assert heard(project).end == end


@pytest.mark.parametrize(
    ("word", "end", "words"),
    [
        ("die", "api-error", "exit code 3"),
        ("locked", "auth", "Authentication required"),
        ("future", "api-error", "version 7"),
    ],
)
def test_a_conversation_that_fails_says_why(project: ProjectDir, word: str, end: str, words: str) -> None:
    toy(project, word)
    shown = done(project)
    said = heard(project)
    assert (shown["status"], said.end) == ("failed", end)
    assert words in said.why


def test_a_program_that_is_not_there_is_told_before(project: ProjectDir) -> None:
    project.agent("toy", driver="acp", command=["codex-acp-of-nobody"])
    ran = project.run("delegate", "do it", "--agent", "toy")
    assert ran.code == 5
    assert "codex-acp-of-nobody" in ran.err


def test_what_is_no_message_and_what_is_huge_do_no_harm(project: ProjectDir) -> None:
    toy(project, "babble", "huge", "read:/etc/passwd", "return")
    assert done(project)["status"] == "completed"
    said = heard(project)
    assert (said.end, said.tools, [len(text) for text in said.text]) == ("clean", 1, [1_000_000])
    assert notes(project)[-1] == "refused -32601"


def test_stop_ends_the_turn_first(project: ProjectDir) -> None:
    toy(project, "wait")
    project.run("delegate", "do it", "--agent", "toy", check=True)
    until(lambda: "waiting" in notes(project))
    project.run("stop", "1", check=True)
    assert notes(project)[-1] == "cancelled"
    assert heard(project).end == "aborted"
    until(lambda: not _agents(project))


def test_one_that_does_not_listen_is_ended_all_the_same(project: ProjectDir) -> None:
    project.config('[limits]\nstop_grace = "1s"\n')
    toy(project, "hang")
    project.run("delegate", "do it", "--agent", "toy", check=True)
    until(lambda: "hanging" in notes(project))
    project.run("stop", "1", check=True)
    until(lambda: not _agents(project))


def test_a_killed_client_leaves_nobody_and_the_session_goes_on(project: ProjectDir) -> None:
    toy(project, "hang")
    project.run("delegate", "do it", "--agent", "toy", check=True)
    until(lambda: "hanging" in notes(project))
    (place,) = project.record.glob("tasks/*/runs/*")
    os.kill(int((place / "pid").read_text()), signal.SIGKILL)
    project.run("wait", "1")
    project.run("stop", "1")
    until(lambda: not _agents(project))
    session = heard(project).session
    toy(project, "return")
    project.run("resume", "1", check=True)
    assert project.run("wait", "1").code == 0
    assert f"loaded {session}" in notes(project)
    assert heard(project).text == []  # what was replayed is not said again
    assert show(project)["questions"] == []


def test_an_agent_that_cannot_load_gets_a_new_session(project: ProjectDir) -> None:
    toy(project, "forgetful", "die")
    done(project)
    toy(project, "forgetful", "return")
    project.run("resume", "1", check=True)
    assert project.run("wait", "1").code == 0


def lines(project: ProjectDir) -> list[str]:
    """The command lines of its processes."""
    found = [read_proc(pid, "cmdline") for pid in processes.of_project(project.path)]
    return [line.replace(b"\0", b" ").decode() for line in found]


def _agents(project: ProjectDir) -> list[str]:
    return [line for line in lines(project) if "toy.py" in line or "overhand.agents.drivers.acp.client" in line]


# permissions


def test_a_level_withholds_and_a_person_grants(project: ProjectDir) -> None:
    toy(project, "ask:touch_x", "ask:touch_x", "return")
    project.run("delegate", "do it", "--agent", "toy", "--read-only", check=True)
    asked = question(project)
    assert asked["options"] == ["Allow once", "Always for this task: execute: touch *", "Reject"]
    assert "touch x" in asked["question"]
    assert "level read" in asked["question"]
    assert until(lambda: show(project)["headline"] == "needs you")
    project.run("answer", "1", "allow once", check=True)
    again = until(lambda: [q for q in show(project)["questions"] if q["seq"] == 2])  # once is once
    assert again[0]["answered"] is None
    project.run("answer", "1", "3", check=True)
    assert project.run("wait", "1").code in (0, 1)
    assert notes(project)[-2:] == ["touch x -> yes", "touch x -> no"]
    assert [p["code"] for p in show(project)["problems"]] == ["permission-denied"]


def test_a_change_of_the_project_is_refused_unasked_at_level_read(project: ProjectDir, tmp_path: Path) -> None:
    """The shield keeps the project read-only, so a person would be asked in vain; elsewhere an answer counts."""
    inside, outside = str(project.path / "a.txt"), str(tmp_path / "b.txt")
    toy(project, f"write:{inside}", f"write:{outside}", "return", allow=["edit: *"])
    told = project.run("delegate", "do it", "--agent", "toy", "--read-only", "--set=shield=require", "--json")
    assert "changes to the project are refused" in told.json["may"]
    project.run("wait", "1")
    shown = show(project)
    assert notes(project)[-2:] == [f"{inside} -> no", f"{outside} -> yes"]
    assert shown["questions"] == []
    assert [p["code"] for p in shown["problems"]] == ["permission-denied"]


def test_always_for_this_task_holds_for_the_next_run_too(project: ProjectDir) -> None:
    toy(project, "ask:touch_x", "ask:touch_y", "die")
    project.run("delegate", "do it", "--agent", "toy", "--read-only", check=True)
    question(project)
    project.run("answer", "1", "2", check=True)
    project.run("wait", "1")
    assert notes(project)[-2:] == ["touch x -> yes", "touch y -> yes"]
    toy(project, "ask:touch_z", "ask:touch_z;rm_all", "return")
    project.run("resume", "1", check=True)
    asked = question(project)
    assert "touch z;rm all" in asked["question"]
    assert asked["options"][1] == "Always for this task: exactly this"
    project.run("answer", "1", "Reject", check=True)
    project.run("wait", "1")
    assert notes(project)[-2:] == ["touch z -> yes", "touch z;rm all -> no"]


def test_unanswered_it_is_parked_and_the_answer_is_found_by_the_next_run(project: ProjectDir) -> None:
    project.config(SOON)
    toy(project, "ask:touch_x", "return")
    shown = done(project, "--read-only")
    assert (shown["status"], shown["cause"]) == ("needs-input", "answer-timeout")
    until(lambda: not _agents(project))
    assert notes(project)[-2:] == ["cancelled", "touch x -> cancelled"] or notes(project)[-1] == "cancelled"
    project.run("answer", "1", "Allow once", check=True)
    assert project.run("wait", "1").code == 0
    shown = show(project)
    assert (shown["status"], len(shown["runs"]), len(shown["questions"])) == ("completed", 2, 1)
    assert notes(project)[-1] == "touch x -> yes"


def test_two_requests_at_a_time_are_two_questions(project: ProjectDir) -> None:
    toy(project, "both", "return")
    project.run("delegate", "do it", "--agent", "toy", "--read-only", check=True)
    until(lambda: len(show(project)["questions"]) == 2)
    project.run("answer", "1", "2", "Reject", check=True)
    until(lambda: notes(project)[-1].endswith("no"))
    project.run("answer", "1", "1", "Allow once", check=True)
    project.run("wait", "1")
    assert sorted(line[-3:] for line in notes(project)[-2:]) == [" no", "yes"]


def test_patterns_and_folders(project: ProjectDir, tmp_path: Path) -> None:
    inside, outside = str(project.path / "a.txt"), str(tmp_path / "b.txt")
    keys = {"allow": [f"edit: {tmp_path}/*"], "deny": ["execute: git push*"]}
    toy(project, "ask:make_all", "ask:cd_x;git_push", f"write:{inside}", f"write:{outside}", "return", **keys)
    assert done(project)["status"] == "completed"
    assert notes(project)[1:] == [
        "make all -> yes",
        "cd x;git push -> no",
        f"{inside} -> yes",
        f"{outside} -> yes",
    ]
    assert "git push" in show(project)["problems"][0]["message"]


def test_a_request_of_a_nested_agent_reaches_the_top(project: ProjectDir) -> None:
    toy(project, "write:/etc/of-nobody", "return")
    give = 'printf "%s" "$0" >"$OVERHAND_OUTPUT"'
    call = f"{sys.executable} -m overhand delegate part --agent toy --wait; {give}"
    project.agent("boss", command=["/bin/sh", "-c", call, output()])
    project.run("delegate", "all of it", "--agent", "boss", check=True)
    child = until(
        lambda: [t for t in project.run("list", "--json").json["tasks"] if t["agent"] == "toy" and t["handle"]]
    )
    asked = question(project, child[0]["handle"])
    assert "/etc/of-nobody" in asked["question"]
    assert show(project, child[0]["handle"])["path"] == ["user", "boss", "toy"]
    seen = project.run("answer")
    assert "/etc/of-nobody" in seen.out + seen.err
    project.run("answer", str(child[0]["handle"]), "Reject", check=True)
    assert project.run("wait", "1").code == 0


# real agents

REAL = {"codex": ["codex-acp"], "goose": ["goose", "acp", "--with-builtin", "developer"]}
WORK: list[dict[str, Any]] = [
    {"text": "I begin.", "ops": [{"write": {"path": "{project}/hello.txt", "content": "hello\n"}}]},
    {"ops": [{"bash": {"command": "cat hello.txt > copy.txt; pwd"}}]},
    returns(summary="Both are there.", files="hello.txt"),
    {"text": "All done."},
]


def at_home(place: House, name: str, **keys: object) -> None:
    require("codex-acp" if name == "codex" else name)
    place.agent("it", driver="acp", **{"command": REAL[name], **keys})


def delegate(place: House, title: str, *words: str, wait: bool = True) -> dict[str, Any]:
    return place.delegate(title, "--agent", "it", *words, wait=wait)


@pytest.mark.case("delegation", "ACP")
@pytest.mark.case("message", "ACP")
@pytest.mark.parametrize("name", list(REAL))
def test_a_real_agent_works_and_resumes(name: str, tmp_path: Path) -> None:
    more = [{"ops": [{"bash": {"command": "echo more >> hello.txt"}}]}, returns(summary="More."), {"text": "Done."}]
    with house(name, tmp_path, {"work": WORK, "more": more}) as place:
        at_home(place, name)
        shown = delegate(place, "Write it. script:work", "--deliverable", "hello.txt", "--verify", "test -s copy.txt")
        assert (shown["status"], shown["verification"], shown["problems"]) == ("completed", "passing", []), (
            place.stream(shown["runs"][0])
        )
        place.is_over(shown["runs"][0]["id"])
        assert place.turns("work") == [0, 1, 2, 3]
        (first,) = place.sessions()
        place.run("send", "1", "Now script:more", check=True)
        again = place.judged()
        assert again["summary"] == "More.", place.stream(again["runs"][-1])
        assert place.sessions() == [first, first]
        assert (place.path / "hello.txt").read_text().endswith("more\n")


@pytest.mark.case("granted", "ACP")
@pytest.mark.case("denied", "ACP")
@pytest.mark.parametrize(("name", "level"), [("goose", "--read-only"), ("codex", "--priority=P1")])
@pytest.mark.parametrize("answer", ["Allow once", "Reject", "2"])
@pytest.mark.soak
def test_a_real_agent_asks_for_permission(name: str, level: str, answer: str, tmp_path: Path) -> None:
    """Goose asks for each tool, Codex for what its sandbox does not let it do."""
    there = tmp_path / "outside.txt"
    extra = {"sandbox_permissions": "require_escalated", "justification": "It lies outside."}
    shell = {"bash": {"command": f"touch {there}", "extra": extra}}
    script = [{"ops": [shell]}, {"ops": [shell]}, {"text": output(summary="I tried.")}]
    with house(name, tmp_path, {"out": script}) as place:
        at_home(place, name)
        delegate(place, "Touch it. script:out", level, wait=False)
        asked = question(place)
        assert str(there) in asked["question"]
        place.run("answer", "1", answer, check=True)
        if answer == "Allow once":
            until(lambda: len(place.show()["questions"]) == 2)
            place.run("answer", "1", answer, check=True)
        shown = place.judged()
        assert there.exists() == (answer != "Reject"), place.stream(shown["runs"][-1])
        codes = [problem["code"] for problem in shown["problems"]]
        assert ("permission-denied" in codes) == (answer == "Reject")
        place.is_over(shown["runs"][-1]["id"])


@pytest.mark.case("killed", "ACP")
@pytest.mark.parametrize("name", list(REAL))
@pytest.mark.soak
def test_a_real_agent_is_killed_and_goes_on(name: str, tmp_path: Path) -> None:
    scripts = {
        "slow": [{"ops": [{"bash": {"command": "echo one > one.txt; sleep 60"}}]}, {"text": "?"}],
        "rest": [returns(summary="The rest is done."), {"text": "Done."}],
    }
    with house(name, tmp_path, scripts) as place:
        at_home(place, name)
        delegate(place, "Be slow. script:slow", wait=False)
        until((place.path / "one.txt").exists)
        run = place.live_run()
        (folder,) = place.record.glob(f"tasks/*/runs/{run}")
        os.kill(int((folder / "pid").read_text()), signal.SIGKILL)
        place.run("wait", "1", timeout=60)
        place.run("stop", "1", timeout=60)
        place.is_over(run)
        first = place.sessions()[0]
        place.run("resume", "1", "--answer", "Now script:rest", check=True)
        shown = place.judged()
        assert shown["summary"] == "The rest is done.", place.stream(shown["runs"][-1])
        assert place.sessions()[-1] == first
