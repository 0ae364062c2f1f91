"""`alert raise|resolve|list`: facts that every new task must know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from overhand.documents import Alert
from overhand.drafts import FoundAlert, find_alerts, raise_alert, resolve_alert
from overhand.errors import BadInput
from overhand.policy import find_caller, load_config, user_name
from overhand.system import now_stamp
from overhand.verbs.verb import Reply, Session

if TYPE_CHECKING:
    from overhand.drafts import FoundAlert


def alert(
    session: Session,
    do: str,
    title: list[str] | None = None,
    what: str | None = None,
    impact: str | None = None,
    duration: str | None = None,
    workaround: str | None = None,
    note: str | None = None,
    all: bool = False,
) -> Reply:
    config = load_config(session.root)
    words = " ".join(" ".join(title or []).split())
    if do == "list":
        found = [one for one in find_alerts(session.root, config) if all or one.alert.active]
        return Reply({"schema": "overhand.alert/1", "alerts": [_shown(one) for one in found], "all": all})
    if not words:
        raise BadInput("Which alert?", f"Say it: overhand alert {do} TITLE")
    caller = find_caller(session.store)
    stamp = f"{now_stamp()} by {f'run {caller.run} of {caller.path[-1]}' if caller.run else user_name()}"
    if do == "resolve":
        stamp = f"{stamp}: {note}" if note else stamp
        return Reply({"schema": "overhand.alert/1", **_shown(resolve_alert(session.root, config, words, stamp))})
    made = Alert(words, what or "", impact or "", duration or "", workaround or "", stamp)
    path = raise_alert(session.root, config, made)
    payload = _shown(FoundAlert(path, made))
    return Reply({"schema": "overhand.alert/1", **payload, "next": [f"overhand alert resolve {path}"]})


def _shown(found: FoundAlert) -> dict[str, Any]:
    one = found.alert
    return {
        "title": one.title,
        "state": "active" if one.active else "done",
        "path": found.path,
        "what_changed": one.what,
        "impact": one.impact,
        "expected_duration": one.duration,
        "workaround": one.workaround,
        "raised": one.raised,
        "resolved": one.resolved,
    }
