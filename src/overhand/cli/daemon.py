"""What people read of the daemon: how it is, and what it did."""

from __future__ import annotations

from overhand.cli.words import colour, counted, one_line, printable, width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Payload = dict[str, Any]

_SKIP = ("what", "t", "schema", "pid")


def daemon(payload: Payload) -> Iterator[str]:
    """Whether it runs, and over what it watches; or what `install` prints."""
    if payload["do"] == "install":
        yield payload["systemd"]
        yield payload["launchd"].rstrip("\n")
        return
    if not payload["running"]:
        if payload["do"] == "stop" and payload["was_on"]:
            yield "Tags are no longer watched. Agents at work go on; what was approved is still started."
        else:
            yield "The daemon does not run: tags are not watched."
        if payload["switched"]:
            yield "   it is switched on; the next command that starts something brings it back"
    else:
        since = str(payload["since"] or "")[:19].replace("T", " ")
        yield f"{colour('Tags are watched', 'green')} since {since} by process {payload['pid']}"
        part = "" if payload["complete"] else " (not all of them can be watched: looked at every few seconds)"
        watched = f"{counted(payload['folders'], 'folder')}{part}, {counted(payload['files'], 'file')} with items"
        yield f"   {watched if payload['scanned'] else 'all files are being read'}"
        names = {one["task_id"]: f"{one['handle']} {one['title']}" for one in payload["tasks"]}
        for key, told in (("pending", "just changed"), ("queue", "queued"), ("at_work", "at work")):
            if payload[key]:
                yield f"   {told}: {one_line(', '.join(names.get(one, one) for one in payload[key]), width() - 20)}"
    yield "   next: " + " · ".join(printable(one) for one in payload["next"])


def line(item: Payload) -> str:
    """One line of its log."""
    facts = " ".join(
        f"{key}={one_line(str(value), 100)}"
        for key, value in item.items()
        if key not in _SKIP and value not in (None, "")
    )
    return f"{str(item.get('t', ''))[11:19]}  {item.get('what', ''):<9} {printable(facts)}".rstrip()
