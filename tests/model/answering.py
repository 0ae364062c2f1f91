"""The answer to one request: the turn that its conversation is at, put into tool calls and words."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from model import conversation, tools
from model.conversation import Answer, Place, Request
from model.scripts import Turn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from model.scripts import Script
    from model.wire import Json

CUT = 4000  # characters of a text that the log keeps


@dataclass(frozen=True)
class Reply:
    """What is to be done about a request; `failing`: the turn's error is given instead of the answer."""

    request: Request
    place: Place
    turn: Turn
    answer: Answer
    impossible: tuple[str, ...]
    failing: bool
    hang_until: str

    @property
    def status(self) -> int:
        return self.turn.status if self.failing else 200

    def row(self) -> Json:
        """The request and its answer as the log has them."""
        request, usage = self.request, self.turn.usage
        return {
            "model": request.model,
            "stream": request.stream,
            "script": self.place.name or None,
            "turn": self.place.number,
            "status": self.status,
            "hang": bool(self.turn.hang),
            "tools": [f"{tool.namespace}.{tool.name}" if tool.namespace else tool.name for tool in request.tools],
            "calls": [] if self.failing else [call.tool.name for call in self.answer.calls],
            "impossible": list(self.impossible),
            "input": 0 if self.failing else usage.input,
            "output": 0 if self.failing else usage.output,
            "said": conversation.last_said(request)[-CUT:],
            "results": [text[:CUT] for text in conversation.last_results(request)],
        }


def reply(request: Request, scripts: Mapping[str, Script]) -> Reply:
    """Choose the turn and compose its answer; operations that cannot be done become sentences."""
    place = conversation.find(request, scripts)
    turn = _turn(place, scripts)
    known = conversation.facts(request)
    name = uuid.uuid4().hex
    calls, impossible = tools.calls(turn.ops, request.tools, known, name)
    said = [_filled(turn.text, known), *impossible]
    text = "\n".join(one for one in said if one) or ("" if calls else "Done.")
    answer = Answer(name, request.model, text, tuple(calls), turn.usage, turn.refuses)
    failing = bool(turn.status) and not (turn.until and os.path.exists(_filled(turn.until, known)))
    hang_until = _filled(turn.hang, known) if isinstance(turn.hang, str) else ""
    return Reply(request, place, turn, answer, tuple(impossible), failing, hang_until)


def _turn(place: Place, scripts: Mapping[str, Script]) -> Turn:
    """The turn to be given, also where no script says one."""
    if not place.name:
        return Turn(text="Nobody named a script; say script:NAME.")
    if place.name not in scripts:
        names = ", ".join(sorted(scripts)) or "none"
        return Turn(status=400, message=f"There is no script {place.name}; there are: {names}.")
    turns = scripts[place.name].turns
    if place.number < len(turns):
        return turns[place.number]
    return Turn(text=f"Script {place.name} has no turn {place.number}: it is over.")


def _filled(text: str, known: Mapping[str, str]) -> str:
    try:
        return str(tools.filled(text, known))
    except tools.Impossible:
        return text
