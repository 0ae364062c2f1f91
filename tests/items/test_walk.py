"""The walk through what waits: what is shown before a person decides, and that nothing is guessed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from items.test_verbs import typed
from overhand.verbs.item import _CHOICES, _MEANT
from support.items import AT, REQUEST

if TYPE_CHECKING:
    from support.items import House


@pytest.mark.parametrize("word", ["no", "Approve", "All", "y", "?"])
def test_a_word_that_is_no_choice_explains_them_and_decides_nothing(house: House, word: str) -> None:
    house.write()
    shown = typed(house, ["item", "approve"], word, "q")
    assert "dismiss: take the tag away" in shown
    assert "1 left for later" in shown
    assert house.read() == REQUEST


def test_a_whole_word_is_a_choice(house: House) -> None:
    house.write()
    assert f"dismissed  {AT}#fix" in typed(house, ["item", "approve"], "dismiss")
    assert house.tags() == []


def test_what_would_be_approved_is_shown(house: House) -> None:
    house.write(AT, REQUEST + "\n".join(f"line {number}" for number in range(20)) + "\n\x1b[2J")
    shown = typed(house, ["item", "approve"], "q")
    assert "The map pauses when one zooms in." in shown
    assert f"… the rest is in {AT}" in shown
    assert "line 19" not in shown
    assert "\x1b[2J" not in shown


def test_it_fits_into_eighty_columns(house: House) -> None:
    house.write("notes.md", f"# Notes\n\n- {'words that go on ' * 20}#needs-fix\n")
    shown = typed(house, ["item", "approve"], "?", "q")
    assert " ".join(shown.split()).count("words that go on") == 20
    assert max(len(line) for line in shown.splitlines() if "words" in line) < 80
    assert all(len(line) < 80 for line in f"{_MEANT}\n  {_CHOICES}q".splitlines())
