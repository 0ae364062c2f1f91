"""Answers of the verbs about questions, items, alerts, checkpoints and set-up, as lines of text."""

from __future__ import annotations

from overhand.cli.text import colour, counted, one_line, printable, shield_line, width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Payload = dict[str, Any]


def ask(payload: Payload) -> Iterator[str]:
    """The answer and nothing else: an agent reads it."""
    yield printable(payload["answer"])


def answer(payload: Payload) -> Iterator[str]:
    if "questions" not in payload:
        yield from _given(payload)
        return
    for one in payload["answered"]:
        yield from _given(one)
    if not payload["questions"]:
        yield "Nothing waits for an answer." if not payload["answered"] else "Nothing else waits for an answer."
    for one in payload["questions"]:
        yield from _question(one)


def _question(one: Payload) -> Iterator[str]:
    yield f"{colour(str(one['handle'] or '-'), 'bold')}  {one_line(one['title'], width() - 8)}"
    path = " → ".join(one["path"])
    yield f"   {one['seq']}. {printable(one['question'])}   {colour(path, 'dim')}"
    yield from (f"      - {printable(option)}" for option in one["options"])
    yield f"   {one['command']}"


def _given(payload: Payload) -> Iterator[str]:
    handle = payload["handle"]
    yield f"{handle}  {one_line(payload['title'], width() - 8)}"
    yield f"   question {payload['seq']} is answered: {one_line(payload['answer'], width() - 30)}"
    if payload["resumed"]:
        yield f"   it goes on: overhand wait {handle} · overhand log -f {handle}"
    elif payload["left"]:
        yield f"   {payload['left']} more open: overhand answer {handle}"
    elif payload["run_state"] == "ended":
        yield f"   go on with it: overhand resume {handle}"


def alert(payload: Payload) -> Iterator[str]:
    rows = payload.get("alerts", [payload])
    if not rows:
        yield "No alert is in force." if not payload["all"] else "There is no alert."
    for one in rows:
        state = colour(f"{one['state']:<7}", "yellow" if one["state"] == "active" else "dim")
        yield f"{state} {one_line(one['title'], width() - 8)}  {colour(printable(one['path']), 'dim')}"
        facts = (("what changed", "what_changed"), ("impact", "impact"), ("for", "expected_duration"))
        for name, key in (*facts, ("meanwhile", "workaround"), ("resolved", "resolved")):
            if one[key]:
                yield f"        {name}: {one_line(one[key], width() - 20)}"
    if "next" in payload:
        yield "   next: " + " · ".join(printable(one) for one in payload["next"])


def doctor(payload: Payload) -> Iterator[str]:
    """Every finding in three lines, then what is so."""
    for text in payload["fixed"]:
        yield f"{colour('mended', 'green'):<8} {printable(text)}"
    for text in payload["failed"]:
        yield f"{colour('not mended', 'red'):<8} {printable(text)}"
    for one in payload["findings"]:
        word = colour("PROBLEM", "red") if one["level"] == "problem" else colour("note   ", "dim")
        yield f"{word}  {printable(one['what'])}"
        yield f"         {printable(one['why'])}"
        yield f"         {printable(one['next'])}"
    here = ", ".join(name for name, path in payload["tools"].items() if path) or "none"
    disk = f" on {payload['file_system']}" if payload["file_system"] else ""
    needed = "" if payload["supervisor"] is None and payload["problems"] else " (none is needed yet)"
    state = f"supervisor {payload['supervisor']}" if payload["supervisor"] else f"no supervisor runs{needed}"
    yield f"{counted(payload['tasks'], 'task')}, {payload['bytes'] / 1e6:.1f} MB{disk}; {state}; tools: {here}"
    if payload["shield"]:
        yield f"runs: {shield_line(payload['shield'])}"
    told = f"{counted(payload['problems'], 'problem')}, {counted(payload['notes'], 'note')}"
    yield told if payload["findings"] else "All is well."


def log(payload: Payload) -> Iterator[str]:
    yield f"{payload['handle']}  is shown in {payload['window']}"
    yield "   next: " + " · ".join(payload["next"])


def monitor(payload: Payload) -> Iterator[str]:
    """The questions, or the path of what was judged and, where there is no result, how far it got."""
    if payload["what"] == "timeout":
        yield f"{payload['handle']}  neither asked nor judged yet: overhand monitor {payload['handle']}"
    elif payload["what"] == "question":
        for one in payload["questions"]:
            yield from _question(one)
    else:
        yield payload["path"] or f"{payload['status']}: {printable(payload['summary'])}"
        if "context" in payload:
            yield ""
            yield printable(payload["context"]).rstrip("\n")


def checkpoint(payload: Payload) -> Iterator[str]:
    if "checkpoints" in payload:
        yield f"{payload['handle']}  {one_line(payload['title'], width() - 8)}"
        if not payload["checkpoints"]:
            yield f"   no checkpoint yet: overhand checkpoint create {payload['handle']}"
        for row in payload["checkpoints"]:
            when = (row["created"] or "")[:19].replace("T", " ")
            yield f"   {row['checkpoint_id']}  {when}  {row['why']}  {one_line(row['reason'], 60)}".rstrip()
        return
    yield f"{payload['checkpoint_id']}  {payload['words']} words, about {payload['tokens']} tokens"
    yield f"   {payload['path']}"
    if payload["git_tag"]:
        yield f"   git tag {payload['git_tag']}"
    yield "   next: " + " · ".join(payload["next"])


def finish(payload: Payload) -> Iterator[str]:
    """For an agent: the return is written, and nothing is left to do."""
    yield f"{printable(payload['output'])} is written: {payload['status']}. End now; it is judged when the run ends."
    for problem in payload["problems"]:
        yield f"   note: {printable(problem['message'])}"


def connect(payload: Payload) -> Iterator[str]:
    if payload["did"] == "print":
        yield f"This belongs into {printable(payload['path'])}:"
        yield ""
        yield printable(payload["entry"]).rstrip("\n")
        yield ""
    elif payload["did"] == "nothing":
        yield f"{payload['path']}: nothing to change."
    else:
        done = "added to" if payload["did"] == "write" else "taken back from"
        yield f"Overhand was {done} {printable(payload['path'])}"
        yield from (f"   {name}" for name in payload.get("files", ()))
    if payload["next"]:
        yield "next:"
    for command in payload["next"]:
        yield f"   {printable(command)}"


def tag(payload: Payload) -> Iterator[str]:
    path, name = printable(payload["path"]), payload["tag"]
    if payload["do"] == "remove":
        count = payload["removed"]
        times = f" ({count} times)" if count > 1 else ""
        yield f"{path}: {name} removed{times}" if count else f"{path} has no {name}."
    elif payload["do"] == "await":
        yield f"{path}:{payload['line']}: {printable(payload['text'])}"
    elif payload["do"] == "swap":
        yield f"{path}:{payload['line']}: {payload['old']} → {name}"
    else:
        yield f"{path}:{payload['line']}: {name} " + ("added" if payload["changed"] else "is there already")


_TONES = {"needs": "yellow", "delegated": "blue", "next": "blue", "claimed": "blue", "done": "dim"}
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


def dismiss(payload: Payload) -> Iterator[str]:
    for row in payload["tasks"]:
        if row["was"] == "item":
            yield f"{printable(row['item'])}  dismissed, its tag is gone"
        else:
            yield f"{row['handle'] or row['task_id']}  dismissed · take it back: overhand resume {row['handle']}"


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


def daemon_line(item: Payload) -> str:
    facts = " ".join(
        f"{key}={one_line(str(value), 100)}"
        for key, value in item.items()
        if key not in _SKIP and value not in (None, "")
    )
    return f"{str(item.get('t', ''))[11:19]}  {item.get('what', ''):<9} {printable(facts)}".rstrip()
