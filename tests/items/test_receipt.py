"""The receipt of a task that an item made says which item, and what to type for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.items import AT
from support.scene import until

if TYPE_CHECKING:
    from support.items import House


def test_what_failed_can_be_approved_again(house: House) -> None:
    house.shell("worker", "exit 1")
    house.write()
    task = house.approve()
    until(lambda: house.tag() == "#needs-fix", "the tag back at needs")
    assert house.read().count("The run ended (exit)") == 1, "the reason is told once"
    shown = house.json("show", task)
    assert (shown["item"], shown["stage"]) == (f"{AT}#fix", "needs")
    text = house.project.run("show", task).out
    assert f"{AT}#fix · needs" in text
    assert f"overhand item approve --again {AT}#fix" in text


def test_what_is_next_is_run_by_item_next(house: House) -> None:
    house.write()
    task = house.approve(f"{AT}#fix", "--next")
    assert house.json("show", task)["stage"] == "next"
    assert f"overhand item next {AT}#fix" in house.project.run("show", task).out


def test_what_somebody_outside_has_is_theirs_to_close(house: House) -> None:
    house.trusted()
    house.write()
    task = house.prepared()
    house.json("item", "claim", f"{AT}#fix")
    assert f"overhand item done {AT}#fix" in house.project.run("show", task).out
    handle = house.store.task(task).handle
    assert f"overhand show {handle}" in house.project.run().out
    house.json("item", "done", f"{AT}#fix")
    assert "--output" not in house.project.run("show", task).out


def test_another_task_has_no_item(house: House) -> None:
    task = house.delegate("plain")
    house.judged(task)
    shown = house.json("show", task)
    assert (shown["item"], shown["stage"]) == (None, None)
    assert "#" not in house.project.run("show", task).out.splitlines()[3]


def test_the_list_says_why_a_typed_line_waits(house: House) -> None:
    house.write("notes.md", "# Notes\n\n- oil it #delegated-fix\n")
    assert house.waits()["notes.md:3#fix"] == "approval: a tag in a line of text starts nothing by itself"


def test_a_summary_that_has_no_place_is_not_lost_silently(house: House) -> None:
    house.write()
    assert "The summary is not kept" in house.project.run("item", "done", f"{AT}#fix", "--summary", "Oiled it.").err
    assert house.tag() == "#done-fix"
