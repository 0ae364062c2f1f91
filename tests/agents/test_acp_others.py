"""Agents beside Codex and Goose that speak ACP: they work, and what their level withholds is a person's to allow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.installed import require
from support.real_agents import House, house, output, returns, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.soak  # real agents

OTHERS = {
    "claude": ["claude-agent-acp"],
    "gemini": ["gemini", "--acp", "-m", "gemini-2.5-pro"],
    "opencode": ["opencode", "acp"],
    "qwen": ["qwen", "--acp"],
}


def delegate(place: House, title: str, *words: str) -> None:
    command = OTHERS[place.name]
    require(command[0])
    place.agent("it", driver="acp", command=command)
    place.delegate(title, "--agent", "it", *words, wait=False)


@pytest.mark.case("delegation", "ACP")
@pytest.mark.parametrize("name", list(OTHERS))
def test_a_file_a_command_a_return(name: str, tmp_path: Path) -> None:
    script: list[dict[str, Any]] = [
        {"text": "I begin.", "ops": [{"write": {"path": "{project}/hello.txt", "content": "hello\n"}}]},
        {"ops": [{"bash": {"command": "cat hello.txt > copy.txt"}}]},
        returns(summary="Both are there.", files="hello.txt"),
        {"text": "All done."},
    ]
    with house(name, tmp_path, {"work": script}) as place:
        delegate(place, "Write it. script:work", "--deliverable", "hello.txt", "--verify", "test -s copy.txt")
        done = place.judged()
        assert (done["status"], done["verification"], done["problems"]) == ("completed", "passing", []), place.stream(
            done["runs"][0]
        )
        assert (done["summary"], len(done["runs"])) == ("Both are there.", 1)
        place.is_over(done["runs"][-1]["id"])


@pytest.mark.case("granted", "ACP")
@pytest.mark.case("denied", "ACP")
@pytest.mark.parametrize("name", list(OTHERS))
@pytest.mark.parametrize("answer", ["Allow once", "Reject"])
def test_what_a_level_withholds_is_asked_of_a_person(name: str, answer: str, tmp_path: Path) -> None:
    there = tmp_path / "outside.txt"
    shell = {"ops": [{"bash": {"command": f"touch {there}"}}]}
    with house(name, tmp_path, {"out": [shell, *[{"text": output(summary="I tried.")}] * 3]}) as place:
        delegate(place, "Touch it. script:out", "--read-only")
        (asked,) = until(lambda: place.show()["questions"], "the question")
        assert (asked["via"], asked["closed"]) == ("permission", True)
        assert str(there) in asked["question"]
        place.run("answer", "1", answer, check=True)
        done = place.judged()
        assert there.exists() == (answer == "Allow once"), place.stream(done["runs"][-1])
        assert len(done["questions"]) == 1
        place.is_over(done["runs"][-1]["id"])
