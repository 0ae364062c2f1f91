"""Alerts: files that tell every new task what is different for a while.

Every delegation looks for them and there are hardly ever any, so their parser is imported when there is one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from overhand.errors import BadInput, NotFound, Refused, storage_failed
from overhand.system import is_there, random_text, read_file, second_name, write_file

if TYPE_CHECKING:
    from overhand.documents import Alert, Handoff
    from overhand.policy import Config
    from overhand.system import Patch

_MOST = 10  # in one HANDOFF
_LONG = 300


@dataclass(frozen=True, slots=True)
class FoundAlert:
    """An alert and its file, relative to the project."""

    path: str
    alert: Alert


def find_alerts(root: str, config: Config) -> list[FoundAlert]:
    """Every alert of the project, by the name of its file; unreadable files are skipped."""
    if not is_there(f"{root}/{config.alerts}"):
        return []
    try:
        names = sorted(os.listdir(f"{root}/{config.alerts}"))
    except OSError:
        return []
    from overhand.documents import ALERT_ACTIVE, ALERT_DONE, decode_text, parse_alert

    found = []
    for name in names:
        raw = read_file(f"{root}/{config.alerts}/{name}") if name.endswith(".md") else None
        if raw is not None and (ALERT_ACTIVE.encode() in raw or ALERT_DONE.encode() in raw):
            alert = parse_alert(decode_text(raw)[0])[0]
            if alert.title and {ALERT_ACTIVE, ALERT_DONE} & set(alert.tags):
                found.append(FoundAlert(f"{config.alerts}/{name}", alert))
    return found


def with_alerts(root: str, config: Config, handoff: Handoff) -> Handoff:
    """The handoff with the alerts in force at the end of its context: titles and workarounds, no more."""
    active = [one for one in find_alerts(root, config) if one.alert.active]
    if not active:
        return handoff
    from overhand.documents import one_line, shorten

    rows = ["Alerts in force:"]
    for one in active[:_MOST]:
        title = shorten(one_line(one.alert.title), _LONG)
        workaround = shorten(one_line(one.alert.workaround.strip()), _LONG)
        rows.append(f"- **{title}**{f': {workaround}' if workaround else ''} ({one.path})")
    if len(active) > _MOST:
        rows.append(f"- and {len(active) - _MOST} more in {config.alerts}/")
    shown = "\n".join(rows)
    return replace(handoff, context=f"{handoff.context}\n\n{shown}".strip())


def raise_alert(root: str, config: Config, alert: Alert) -> str:
    """Write a new alert's file, never over another one; returns its path."""
    from overhand.documents import alert_file_name, render_alert

    folder = f"{root}/{config.alerts}"
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise storage_failed(error, f"Cannot make {config.alerts}") from error
    base = alert_file_name(alert.title)
    written = f"{folder}/.{base}.{os.getpid()}-{random_text(4)}.tmp"
    write_file(written, render_alert(alert))
    try:
        for count in range(1, 100):
            name = base if count == 1 else f"{base.removesuffix('.md')}_{count}.md"
            if second_name(written, f"{folder}/{name}"):
                return f"{config.alerts}/{name}"
    finally:
        os.unlink(written)
    raise Refused(f"There are too many alerts called {base}.", "Give this one another title.")


def resolve_alert(root: str, config: Config, wanted: str, note: str) -> FoundAlert:
    """Mark an alert as done and add the note, in one edit."""
    from overhand.documents import (
        ALERT_ACTIVE,
        ALERT_DONE,
        add_note,
        decode_text,
        parse_alert,
        patch_swapping_tag,
        scan_tags,
    )
    from overhand.system import edit_file, merge_patches

    found = _one(find_alerts(root, config), wanted)
    if not found.alert.active:
        raise Refused(f"The alert “{found.alert.title}” is not in force.", "See them: overhand alert list --all")

    def change(raw: bytes) -> Patch | None:
        active = [tag for tag in scan_tags(raw, ALERT_ACTIVE.encode()) if tag.name == ALERT_ACTIVE]
        swaps = [patch_swapping_tag(raw, tag, ALERT_DONE) for tag in active if tag.on_tags_line]
        return merge_patches(raw, *swaps, add_note(raw, "Resolved", note)) if swaps else None

    after = edit_file(f"{root}/{found.path}", change)
    return FoundAlert(found.path, parse_alert(decode_text(after)[0])[0])


def _one(known: list[FoundAlert], wanted: str) -> FoundAlert:
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
