"""What `doctor` finds in Markdown: claims nobody stands behind, requests without an answer, tags that lag behind."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from overhand.items import handle_changed_file
from overhand.policy import load_config
from overhand.record import LOG_FILE
from overhand.verbs import Session
from overhand.verbs.doctor import doctor
from support.items import AT, House
from support.scene import until

if TYPE_CHECKING:
    pass


def findings(house: House) -> dict[str, dict[str, Any]]:
    return {one["code"]: one for one in house.json("doctor", code=None)["findings"]}


def completed(house: House) -> str:
    house.agent("worker", "output")
    house.write()
    task = house.approve()
    assert house.json("wait", task)["status"] == "completed"
    until(lambda: house.tag() == "#done-fix", "the tag says done")
    return task


def test_a_finished_request_is_well(house: House) -> None:
    completed(house)
    assert not {"missing-response", "stale-claim", "tag-behind"} & findings(house).keys()


def test_a_response_that_somebody_took_away(house: House) -> None:
    task = completed(house)
    text = house.read()
    house.write(text=text[: text.index("## Response")])
    found = findings(house)["missing-response"]
    assert found["what"].startswith(f"{AT} is done")
    assert (found["task"], found["next"]) == (task, "overhand show 1 --output")


def test_a_claim_that_an_editor_wrote_back(house: House) -> None:
    completed(house)
    house.retag("#done-fix", "#claimed-fix")
    assert findings(house)["stale-claim"]["what"] == f"{AT}:3#fix is claimed, but task 1 ended: completed."


@pytest.mark.parametrize("how", ["typed", "item claim"])
def test_a_claim_from_outside_is_shown_after_a_day(house: House, how: str) -> None:
    house.agent("worker", "output")
    if how == "typed":
        house.store.ensure()
        house.write(text="# Fix Request: The map\n\n**Tags**: #claimed-fix\n\n## What\nMend it.\n")
        (task,) = handle_changed_file(
            house.store, load_config(str(house.path)), AT, {"kind": "overhand", "via": "test"}
        )
    else:
        house.trusted()
        house.write()
        task = house.prepared(stage="next")
        house.json("item", "claim", f"{AT}#fix")
    assert "outside-claim" not in findings(house), "it is young"
    path = f"{house.store.record(task)}/{LOG_FILE}"
    with open(path, encoding="utf-8") as file:
        events = [json.loads(line) for line in file]
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps({**event, "t": "2020-01-01T00:00:00Z"}) + "\n" for event in events)
    found = findings(house)["outside-claim"]
    assert f"overhand item done {AT}#fix" in found["next"]
    assert found["level"] == "problem"
    house.json("item", "needs", f"{AT}#fix")
    assert "outside-claim" not in findings(house)


def test_the_remedy_brings_the_tag_in_line(house: House) -> None:
    task = completed(house)
    house.retag("#done-fix", "#claimed-fix")
    asked: list[str] = []

    def yes(question: str) -> bool:
        asked.append(question)
        return True

    session = Session(str(house.path), confirm=yes)
    done = doctor(session, fix=True).payload
    assert any(f"{AT}:3#fix is claimed" in one for one in done["fixed"]), done
    assert house.tags() == [("#done-fix", task)]
    assert any("Bring the tag in line" in one for one in asked)
