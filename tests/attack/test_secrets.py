"""The value of a secret variable is masked wherever an agent's return is kept or shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.items import AT, House
from support.scene import until

if TYPE_CHECKING:
    pass

VALUE = "s3cret-of-the-map-12345"
TOLD = """# Task Complete: x

**Status:** {status}

## Summary
The key is $MAP_TOKEN.

## For Primary
Use $MAP_TOKEN for it.

## Decisions
- **Take $MAP_TOKEN**: because it works
"""
ENV = {"MAP_TOKEN": VALUE}


def writes(status: str) -> str:
    text = TOLD.format(status=status)
    return f'cat >"$OVERHAND_OUTPUT" <<END\n{text}END\n'


@pytest.mark.parametrize("status", ["completed", "failed", "needs-input"])
def test_it_is_nowhere_in_what_is_kept_of_a_return(house: House, status: str) -> None:
    house.shell("worker", writes(status))
    task = house.json("delegate", "tell", "--agent", "worker", env=ENV)["task_id"]
    house.judged(task)
    folder = Path(house.store.record(task))
    kept = [folder / name for name in ("log.jsonl", "result.json", "CONTEXT.md", "OUTPUT.md")]
    kept += [*folder.glob("runs/*/report.*"), *folder.glob("ipc/*.question"), *house.path.glob("**/DECISIONS.md")]
    for path in kept:
        if (path.exists() and path.resolve().is_relative_to(folder)) or path.name == "DECISIONS.md":
            assert VALUE not in path.read_text(), path
    for words in (("show", task), ("list",), ("status",), ("wait", task)):
        ran = house.project.run(*words, "--json")
        assert VALUE not in ran.out, words
        assert VALUE not in house.project.run(*words).out, words
    assert "<MAP_TOKEN>" in house.json("show", task)["summary"]


def test_json_and_data_are_masked_too(house: House) -> None:
    made = {"status": "completed", "summary": "$MAP_TOKEN", "data": {"a": ["$MAP_TOKEN"]}, "next_steps": "$MAP_TOKEN"}
    house.shell("worker", f"cat <<END\n{json.dumps(made)}\nEND\n")
    task = house.json("delegate", "tell", "--agent", "worker", env=ENV)["task_id"]
    house.judged(task)
    shown = house.json("show", task)
    assert (shown["summary"], shown["data"]) == ("<MAP_TOKEN>", {"a": ["<MAP_TOKEN>"]})
    assert VALUE not in json.dumps(shown)
    assert VALUE not in house.project.run("show", task, "--output").out


def test_it_is_not_in_the_response_of_an_item(house: House) -> None:
    house.shell("worker", writes("completed"))
    house.write()
    house.project.run("item", "approve", f"{AT}#fix", env=ENV, check=True)
    (task,) = house.items()
    house.judged(task)
    until(lambda: "## Response" in house.read(), "the response")
    assert VALUE not in house.read()
    assert "<MAP_TOKEN>" in house.read()
