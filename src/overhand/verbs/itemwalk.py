"""`item approve` without words: everything that waits for approval, one by one."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Any

from overhand.errors import OverhandError
from overhand.system.files import read_file
from overhand.verbs import Answer
from overhand.verbs.item import approve_one, hand_over
from overhand.verbs.moves import remove, split

if TYPE_CHECKING:
    from overhand.items.item import Place
    from overhand.verbs.item import Desk

_CHOICES = "[a]pprove, [A]ll, [n]ext, [d]ismiss, [s]plit, Enter: later, [q]uit, [?]: "
_WORDS = {"approve": "a", "next": "n", "dismiss": "d", "split": "s", "later": "", "quit": "q"}
_MEANT = """  a      approve: a supervisor starts it
  A      approve this one and all that follow
  n      next: approve it for `overhand item next KIND`, typed when you want it
  d      dismiss: take the tag away
  s      split: several requests in its place, each to be approved by itself
  Enter  later: leave it as it is
  q      quit: leave all that follow as they are"""
_WIDTH, _LINES = 76, 12  # of what is shown of a request


def walk(desk: Desk, waiting: list[Place], how: str) -> Answer:
    """Each item is put in turn, in the order in which it would be started."""
    payload: dict[str, Any] = {"schema": "overhand.item/1", "do": "approve", "approved": [], "refused": []}
    payload |= {"dismissed": [], "split": [], "left": 0}
    everything = False
    for number, place in enumerate(waiting, 1):
        said = "a" if everything else _ask(desk, place, number, len(waiting))
        if said == "q":
            payload["left"] += len(waiting) - number + 1
            break
        everything = everything or said == "A"
        try:
            _do(desk, place, said, how, payload)
        except OverhandError as error:
            desk.session.tell(f"  {error.message} {error.hint}")
            payload["refused"].append({"item": place.name, **error.as_json()})
    hand_over(desk, [row["task_id"] for row in payload["approved"] if row["stage"] == "delegated"])
    return Answer(payload, 3 if payload["refused"] else 0)


def _ask(desk: Desk, place: Place, number: int, count: int) -> str:
    read = desk.session.read
    if read is None:
        return "q"
    weight = " ".join(word for word in (f"P{place.priority}", place.effort) if word)
    desk.session.tell(f"\n{number} of {count} · {place.kind} {weight} · {place.name}")
    for line in _shown(desk, place):
        desk.session.tell(f"  {line}".rstrip())
    while True:
        said = read(f"  {_CHOICES}")
        if said is None:
            return "q"
        said = said.strip()
        if said in ("a", "A", "n", "d", "s", "q", ""):
            return said
        if said in _WORDS:
            return _WORDS[said]
        desk.session.tell(_MEANT)  # a guess might approve: “no” is not “next”


def _shown(desk: Desk, place: Place) -> list[str]:
    """What would be approved: the line, or the title and the beginning of the document."""
    rows = wrap(place.text, _WIDTH)
    if not place.on_tags_line:
        return rows
    raw = read_file(f"{desk.root}/{place.path}") or b""
    below = raw.decode("utf-8", "replace").splitlines()[place.line :]
    text = [part for line in below if line.strip() for part in wrap(line, _WIDTH)]
    more = [f"… the rest is in {place.path}"] if len(text) > _LINES else []
    return [*rows, *text[:_LINES], *more]


def _do(desk: Desk, place: Place, said: str, how: str, payload: dict[str, Any]) -> None:
    if said in ("a", "A", "n"):
        stage = "next" if said == "n" else "delegated"
        payload["approved"].append(approve_one(desk, place, stage, how, again=False, shown=True))
    elif said == "d":
        remove(desk, place)
        payload["dismissed"].append(place.name)
    elif said == "s":
        titles = _parts(desk)
        if titles:
            payload["split"] += split(desk, place, titles)
        else:
            payload["left"] += 1
    else:
        payload["left"] += 1


def _parts(desk: Desk) -> list[str]:
    """What the parts are called, line by line."""
    titles: list[str] = []
    while desk.session.read is not None:
        said = desk.session.read(f"  part {len(titles) + 1} (Enter when that is all): ")
        if said is None or not said.strip():
            break
        titles.append(" ".join(said.split()))
    return titles
