"""What people read of questions, answers, resumes, checkpoints."""

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
        yield f"{colour(str(one['handle'] or '-'), 'bold')}  {one_line(one['title'], width() - 8)}"
        path = " → ".join(one["path"])
        yield f"   {one['seq']}. {printable(one['question'])}   {colour(path, 'dim')}"
        for number, option in enumerate(one["options"], 1):
            yield f"      {number}) {printable(option)}"
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
