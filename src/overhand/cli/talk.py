"""What people read of questions, answers, resumes, checkpoints, returns and connections."""

from __future__ import annotations

from overhand.cli.text import colour, counted, one_line, printable, width

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
