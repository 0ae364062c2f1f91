"""What people read of items, and of the daemon that watches their tags."""

from __future__ import annotations

from overhand.cli.text import colour, counted, one_line, printable, width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Payload = dict[str, Any]

_TONES = {"needs": "yellow", "delegated": "blue", "next": "blue", "claimed": "blue", "done": "green"}
_DONE = {  # what is said, and what comes next
    "claim": ("claimed for you", "done"),
    "done": ("done", ""),
    "needs": ("put back", "approve"),
    "dismiss": ("dismissed, its tag is gone", ""),
    "new": ("noted", "approve"),
}


def item(payload: Payload) -> Iterator[str]:
    if payload["do"] == "list":
        yield from _list(payload["items"])
    elif payload["do"] == "approve":
        yield from _approved(payload)
    else:
        said, then = _DONE[payload["do"]]
        for row in payload["items"]:
            yield f"{_name(row['item'])}  {said}"
            if then:
                yield f"   next: overhand item {then} {_name(row['item'])}"


def _name(item: str) -> str:
    """An item in one line, whatever its file is called."""
    return printable(item).replace("\n", "\ufffd")


def _list(rows: list[Payload]) -> Iterator[str]:
    if not rows:
        yield "Nothing is noted. An item is a line with a tag such as #needs-fix."
        yield "   next: overhand item new fix TITLE"
    for row in rows:
        stage = colour(f"{row['stage']:<9}", _TONES.get(row["stage"], "dim"))
        weight = f"{row['priority']} {row['effort'] or ' '}"
        task = f"  task {row['handle']}" if row["handle"] else ""
        yield f"{stage} {weight}  {_name(row['item'])}{task}"
        yield f"               {one_line(row['text'], width() - 16)}"
        if row["waits"] and row["waits"] != "approval":
            yield colour(f"               {one_line(row['waits'], 400)}", "yellow")  # whole: it may end in a command


def _approved(payload: Payload) -> Iterator[str]:
    for row in payload["approved"]:
        yield f"{colour(str(row['handle']), 'bold')}  {one_line(row['title'], width() - 8)}"
        how = "approved" if row["stage"] == "delegated" else f"approved as {row['stage']}"
        yield f"   {row['agent']} · {how} · {_name(row['item'])}"
        yield f"   next: {' · '.join(printable(word) for word in row['next'])}"
    for row in payload["refused"]:
        yield f"{colour('refused', 'red')}  {_name(row['item'])}"
        yield f"   {printable(row['error']['message'])}"
        if row["error"]["hint"]:
            yield f"   {printable(row['error']['hint'])}"
    for name in payload.get("dismissed", ()):
        yield f"dismissed  {_name(name)}"
    for name in payload.get("split", ()):
        yield f"noted  {_name(name)}"
    if payload.get("left"):
        yield f"{payload['left']} left for later: overhand item approve"
    if not any(payload.get(key) for key in ("approved", "refused", "dismissed", "split", "left")):
        yield "Nothing waits for approval."


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
    facts = " ".join(
        f"{key}={one_line(str(value), 100)}"
        for key, value in item.items()
        if key not in _SKIP and value not in (None, "")
    )
    return f"{str(item.get('t', ''))[11:19]}  {item.get('what', ''):<9} {printable(facts)}".rstrip()
