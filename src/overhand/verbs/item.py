"""`item`: work that is noted in Markdown: list it, approve it, run the next."""

from __future__ import annotations

import os
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from overhand.documents import TAG_STAGES
from overhand.errors import BadInput, OverhandError, Refused
from overhand.items import (
    approve_item,
    draft_of_item,
    hand_item_back,
    may_approve,
    original_place,
    queue_item,
    wanted_stage,
)
from overhand.policy import load_config, require_person
from overhand.system import read_file
from overhand.verbs import moves
from overhand.verbs.moves import ItemSession
from overhand.verbs.verb import Recorded, Reply, Session

if TYPE_CHECKING:
    from overhand.items import ItemPlace
    from overhand.record import Task

    Row = dict[str, Any]


_OPEN = ("needs", "delegated", "next")  # stages at which an item may wait for approval


def item(session: Session, do: str = "list", item: list[str] | None = None, **given: Any) -> Reply:
    calls = {
        "list": _list_items,
        "approve": approve,
        "next": _run_next,
        "claim": moves.claim,
        "done": moves.done,
        "needs": moves.needs,
        "dismiss": moves.dismiss,
        "new": moves.new,
    }
    return calls[do](session, item or [], **given)


def _list_items(session: Session, words: list[str], all: bool = False, kind: str | None = None, **_: Any) -> Reply:
    """Everything that is noted and not done, in the order in which it would be started."""
    if words:
        raise BadInput(f"{words[0]!r} is one word too many.", "Choose by kind: overhand item list --kind fix")
    items = ItemSession(session)
    found = items.all(kind, *(TAG_STAGES if all else TAG_STAGES[:-1]))
    return Reply({"schema": "overhand.item/1", "do": "list", "items": [items.row(place) for place in found]})


def approve(
    session: Session,
    words: list[str],
    all: bool = False,
    kind: str | None = None,
    again: bool = False,
    next: bool = False,
    **_: Any,
) -> Reply:
    """Make tasks of items; without naming any, on a terminal, walk through all that wait."""
    from overhand.verbs.setup import ask_for_trust, ensure_project

    items = ItemSession(session)
    how = items.may_approve(f"Approving {', '.join(words) or 'items'}")
    ensure_project(session)
    ask_for_trust(session, items.caller)
    items.config = load_config(session.root)
    stage = "next" if next else "delegated"
    if words:
        chosen = [items.place(word) for word in words]
    elif all or kind:
        chosen = [place for place in items.all(kind, *_OPEN) if _is_waiting(items, place, again=again)]
    elif session.interactive and session.read is not None:
        return walk(items, [place for place in items.all(None, *_OPEN) if _is_waiting(items, place)], how)
    else:
        raise BadInput("Approve what?", "Name an item: overhand item approve path#kind, or all of them: --all")
    done, refused = [], []
    for place in chosen:
        try:
            done.append(_approve_one(items, place, stage, how, again=again))
        except OverhandError as error:
            if len(words) == 1:
                raise
            refused.append({"item": items.row(place)["item"], **error.as_json()})
    _hand_over(session, done)
    payload = {"schema": "overhand.item/1", "do": "approve", "approved": done, "refused": refused}
    return Reply(payload, 3 if refused else 0)


def _is_waiting(items: ItemSession, place: ItemPlace, *, again: bool = False) -> bool:
    """Whether it waits for an approval that would start it for the first time, or again."""
    if place.stage not in _OPEN or (place.task and place.stage != "needs"):
        return False
    if not place.task:
        was = items.past.task_of(place) if place.stage == "needs" else None
        return was is None or (again and was.status is not None)
    task = items.state(place)
    if task is None or task.status is None:
        return False
    return not task.runs or (again and not original_place(items.store, task, place))


def _approve_one(
    items: ItemSession, place: ItemPlace, stage: str, how: str, *, again: bool, shown: bool = False
) -> Row:
    """Approve one item; the row of its task."""
    task = may_approve(items.store, place, again=again, past=items.past)
    if task is not None and place.stage == "claimed" and task.item and task.item.how != "outside":
        task = hand_item_back(items.store, task, items.by)
    else:
        if place.stage == "claimed":  # it was claimed before it was approved: there is no task to continue
            draft_of_item(items.actor, place, stage=stage, how=how)
            place = moves.give_up(items, place)
        task = approve_item(items.actor, place, stage=stage, how=how, shown=shown)
    moves.see_to_tag(items, task)
    path = os.path.relpath(f"{items.root}/{moves.file_of_item(task)}", items.session.folder())
    name = f"{path}#{task.kind}"
    follow = [f"overhand wait {task.handle}", f"overhand show {task.handle}"]
    return {
        "item": name,
        "task_id": task.id,
        "handle": task.handle,
        "title": task.title,
        "agent": task.agent,
        "kind": task.kind,
        "stage": task.tag.stage if task.tag else stage,
        "priority": task.priority,
        "next": follow if task.queued or not task.tag else [f"overhand item next {name}"],
    }


def _hand_over(session: Session, approved: list[Row]) -> None:
    if tasks := [row["task_id"] for row in approved if row["stage"] == "delegated"]:
        session.hand_over(tasks)


def _run_next(session: Session, words: list[str], **_: Any) -> Reply:
    """Run the first item of a kind that is approved as next, here and now, and wait for its result."""
    if len(words) != 1:
        raise BadInput("The next of which kind?", "Say it: overhand item next fix, or name one: path#kind")
    items = ItemSession(session)
    require_person(items.caller, "Running the next item")
    if "#" in words[0]:
        place = items.place(words[0])
    else:
        waiting = (p for p in items.all(words[0], "next") if not p.task or _is_ready(items.state(p)))
        if (first := next(waiting, None)) is None:
            hint = "Approve one: overhand item approve --next ITEM"
            raise Refused(f"No item of kind {words[0]} is approved as next.", hint)
        place = first
    task = items.state(place)
    if task is None:
        row = _approve_one(items, place, "next", items.may_approve(f"Approving {place.name}"), again=False)
        task = items.store.task(row["task_id"])
    queue_item(items.store, task.id, place, items.by)
    from overhand.verbs.wait import wait_for_tasks

    with Recorded(task):
        if held := session.hand_over([task.id]):
            raise Refused(held)
        return wait_for_tasks(session, [task.id], None, verb="item")


def _is_ready(task: Task | None) -> bool:
    return task is not None and wanted_stage(task) == "next" and not task.queued


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


def walk(items: ItemSession, waiting: list[ItemPlace], how: str) -> Reply:
    """Ask about each item in turn, in the order in which it would be started."""
    payload: dict[str, Any] = {"schema": "overhand.item/1", "do": "approve", "approved": [], "refused": []}
    payload |= {"dismissed": [], "split": [], "left": 0}
    everything = False
    for number, place in enumerate(waiting, 1):
        choice = "a" if everything else _ask(items, place, f"{number} of {len(waiting)}")
        if choice == "q":
            payload["left"] += len(waiting) - number + 1
            break
        everything = everything or choice == "A"
        try:
            _do(items, place, choice, how, payload)
        except OverhandError as error:
            items.session.tell(f"  {error.message} {error.hint}")
            payload["refused"].append({"item": place.name, **error.as_json()})
    _hand_over(items.session, payload["approved"])
    return Reply(payload, 3 if payload["refused"] else 0)


def _ask(items: ItemSession, place: ItemPlace, number: str) -> str:
    weight = " ".join(word for word in (f"P{place.priority}", place.effort) if word)
    items.session.tell(f"\n{number} · {place.kind} {weight} · {place.name}")
    for line in _shown(items, place):
        items.session.tell(f"  {line}".rstrip())
    while items.session.read is not None and (typed := items.session.read(f"  {_CHOICES}")) is not None:
        typed = typed.strip()
        if typed in ("a", "A", "n", "d", "s", "q", ""):
            return typed
        if typed in _WORDS:
            return _WORDS[typed]
        items.session.tell(_MEANT)  # a guess might approve: “no” is not “next”
    return "q"


def _shown(items: ItemSession, place: ItemPlace) -> list[str]:
    """What would be approved: the line, or the title and the beginning of the document."""
    rows = wrap(place.text, _WIDTH)
    if not place.on_tags_line:
        return rows
    raw = read_file(f"{items.root}/{place.path}") or b""
    below = raw.decode("utf-8", "replace").splitlines()[place.line :]
    text = [part for line in below if line.strip() for part in wrap(line, _WIDTH)]
    more = [f"… the rest is in {place.path}"] if len(text) > _LINES else []
    return [*rows, *text[:_LINES], *more]


def _do(items: ItemSession, place: ItemPlace, choice: str, how: str, payload: dict[str, Any]) -> None:
    if choice in ("a", "A", "n"):
        stage = "next" if choice == "n" else "delegated"
        payload["approved"].append(_approve_one(items, place, stage, how, again=False, shown=True))
    elif choice == "d":
        moves.remove(items, place)
        payload["dismissed"].append(place.name)
    elif choice == "s" and (titles := _read_titles(items)):
        payload["split"] += moves.split(items, place, titles)
    else:
        payload["left"] += 1


def _read_titles(items: ItemSession) -> list[str]:
    """The titles of the parts, line by line."""
    titles: list[str] = []
    while items.session.read is not None:
        line = items.session.read(f"  part {len(titles) + 1} (Enter when that is all): ")
        if line is None or not line.strip():
            break
        titles.append(" ".join(line.split()))
    return titles
