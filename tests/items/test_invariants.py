"""The invariants of handing over, each a test of its name.

Those of the daemon stand with its other tests: `test_inv_daemon_debounce`, `test_inv_daemon_stateless`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overhand.items import handle_changed_file
from support.items import AT, BY, NOTES, REQUEST

if TYPE_CHECKING:
    from support.items import House


def test_inv_claim_before_work(house: House) -> None:
    """What an agent sees of its own item, with its first breath, is claimed."""
    house.shell("worker", f"cp '{AT}' seen")
    house.write()
    task = house.approve()
    house.judged(task)
    assert house.tags("seen") == [("#claimed-fix", task)]
    names = [event["e"] for event in house.events(task)]
    assert names.index("run.created") < names.index("tagged", 2) < names.index("run.started")


def test_inv_needs_is_staging(house: House) -> None:
    """Nobody takes a `#needs-X` by itself, whoever looks and however often."""
    house.agent("worker", "output")
    house.write()
    house.write("notes.md", NOTES)
    house.judged(house.delegate("something else"))
    for path in (AT, "notes.md"):
        assert handle_changed_file(house.store, house.work.config, path, BY) == []
    house.json("item", "list")
    assert (house.items(), house.read(), house.read("notes.md")) == ([], REQUEST, NOTES)


def test_inv_next_is_immediate(house: House) -> None:
    """A `#next-X` waits for somebody who asks for it, never for a supervisor."""
    house.agent("worker", "output")
    house.write()
    task = house.approve(f"{AT}#fix", "--next")
    house.judged(house.delegate("something else"))
    assert handle_changed_file(house.store, house.work.config, AT, BY) == [task]
    house.json("list")
    assert (house.starts(task), house.tag(), house.state(task).queued) == (0, "#next-fix", False)
    assert house.json("item", "next", "fix")["status"] == "completed"
    assert (house.starts(task), house.tag()) == (1, "#done-fix")


def test_inv_dispatch_approval_required(house: House) -> None:
    """Neither delegated nor next without a person: not by a script that nobody allowed, not by a run."""
    house.settings("")
    house.write()
    for how in ([], ["--next"]):
        assert house.json("item", "approve", *how, f"{AT}#fix", code=3)["error"]["code"] == "APPROVAL_REQUIRED"
    house.settings("approve_without_terminal = true\n")
    house.shell("worker", f"$OVERHAND item approve '{AT}#fix'; $OVERHAND item approve --next '{AT}#fix'; true")
    task = house.delegate()
    house.judged(task)
    assert len(house.events(task, "refused")) == 2
    assert (house.items(), house.read()) == ([], REQUEST)
