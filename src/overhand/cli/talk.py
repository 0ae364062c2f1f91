"""What people read of questions, answers, resumes, checkpoints, returns and connections."""

from __future__ import annotations

from overhand.cli.words import colour, one_line, printable, width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Payload = dict[str, Any]


def ask(payload: Payload) -> Iterator[str]:
    """The answer and nothing else: an agent reads it."""
    yield printable(payload["answer"])


def answer(payload: Payload) -> Iterator[str]:
    """What was answered, or what waits."""
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
    """A checkpoint that was made, or those of a task."""
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
    """For an agent: it is written, and what is left to do is nothing."""
    yield f"{printable(payload['output'])} is written: {payload['status']}. End now; it is judged when the run ends."
    for problem in payload["problems"]:
        yield f"   note: {printable(problem['message'])}"


def connect(payload: Payload) -> Iterator[str]:
    """What belongs where, or what was done."""
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
