"""Alerts: files that tell every new task what is different for a while.

Every delegation looks for them and there are hardly ever any, so their parser is imported when there is one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from overhand.errors import BadInput, NotFound, Refused, storage_failed
from overhand.system.files import is_there, random_text, read_file, second_name, write_file

if TYPE_CHECKING:
    from overhand.documents import alert as alerts
    from overhand.documents.handoff import Handoff
    from overhand.policy.config import Config
    from overhand.system.edits import Patch

_MOST = 10  # in one HANDOFF
_LONG = 300


@dataclass(frozen=True, slots=True)
class Found:
    """An alert and its file, relative to the project."""

    path: str
    alert: alerts.Alert


def find(root: str, config: Config) -> list[Found]:
    """Every alert of the project, by the name of its file; unreadable files are skipped."""
    if not is_there(f"{root}/{config.alerts}"):
        return []
    try:
        names = sorted(os.listdir(f"{root}/{config.alerts}"))
    except OSError:
        return []
    from overhand.documents import alert as alerts
    from overhand.documents.text import decode

    found = []
    for name in names:
        raw = read_file(f"{root}/{config.alerts}/{name}") if name.endswith(".md") else None
        if raw is not None and (alerts.ACTIVE.encode() in raw or alerts.DONE.encode() in raw):
            alert = alerts.parse(decode(raw)[0])[0]
            if alert.title and {alerts.ACTIVE, alerts.DONE} & set(alert.tags):
                found.append(Found(f"{config.alerts}/{name}", alert))
    return found


def told(root: str, config: Config, handoff: Handoff) -> Handoff:
    """The handoff with the alerts in force at the end of its context: titles and workarounds, no more."""
    active = [one for one in find(root, config) if one.alert.active]
    if not active:
        return handoff
    from overhand.documents.text import one_line, shorten

    rows = ["Alerts in force:"]
    for one in active[:_MOST]:
        title = shorten(one_line(one.alert.title), _LONG)
        workaround = shorten(one_line(one.alert.workaround.strip()), _LONG)
        rows.append(f"- **{title}**{f': {workaround}' if workaround else ''} ({one.path})")
    if len(active) > _MOST:
        rows.append(f"- and {len(active) - _MOST} more in {config.alerts}/")
    shown = "\n".join(rows)
    return replace(handoff, context=f"{handoff.context}\n\n{shown}".strip())


def raise_alert(root: str, config: Config, alert: alerts.Alert) -> str:
    """Write a new alert's file, never over another one; returns its path."""
    from overhand.documents import alert as alerts

    folder = f"{root}/{config.alerts}"
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise storage_failed(error, f"Cannot make {config.alerts}") from error
    base = alerts.file_name(alert.title)
    written = f"{folder}/.{base}.{os.getpid()}-{random_text(4)}.tmp"
    write_file(written, alerts.render(alert))
    try:
        for count in range(1, 100):
            name = base if count == 1 else f"{base.removesuffix('.md')}_{count}.md"
            if second_name(written, f"{folder}/{name}"):
                return f"{config.alerts}/{name}"
    finally:
        os.unlink(written)
    raise Refused(f"There are too many alerts called {base}.", "Give this one another title.")


def resolve(root: str, config: Config, wanted: str, note: str) -> Found:
    """Mark an alert as done and add the note, in one edit."""
    from overhand.documents import alert as alerts
    from overhand.documents import tags
    from overhand.documents.appendix import noted
    from overhand.documents.text import decode
    from overhand.system import edits

    found = _one(find(root, config), wanted)
    if not found.alert.active:
        raise Refused(f"The alert “{found.alert.title}” is not in force.", "See them: overhand alert list --all")

    def change(raw: bytes) -> Patch | None:
        active = [tag for tag in tags.scan(raw, alerts.ACTIVE.encode()) if tag.name == alerts.ACTIVE]
        swaps = [tags.swapped(raw, tag, alerts.DONE) for tag in active if tag.on_tags_line]
        return edits.together(raw, *swaps, noted(raw, "Resolved", note)) if swaps else None

    after = edits.edit(f"{root}/{found.path}", change)
    return Found(found.path, alerts.parse(decode(after)[0])[0])


def _one(known: list[Found], wanted: str) -> Found:
    """The alert with this path, file name or part of its title; those in force come first."""
    word = wanted.strip().lower()
    if not word:
        raise BadInput("Which alert?", "Name it by a part of its title: overhand alert resolve TITLE")
    exact = [one for one in known if word in (one.path.lower(), os.path.basename(one.path).lower())]
    part = [one for one in known if word in one.alert.title.lower()]
    for some in (exact, [one for one in part if one.alert.active], part):
        if len(some) == 1:
            return some[0]
        if some:
            titles = "; ".join(f"“{one.alert.title}” ({one.path})" for one in some[:5])
            raise BadInput(
                f"{wanted!r} fits several alerts: {titles}.", f"Name one: overhand alert resolve {some[0].path}"
            )
    raise NotFound(f"There is no alert {wanted!r}.", "See them: overhand alert list --all")
