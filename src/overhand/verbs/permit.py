"""`permit`, which only an agent's program calls, through MCP: whether a tool may be used, or a person has to say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from overhand.agents import OpenPermission, lookup
from overhand.documents import load_json
from overhand.errors import BadInput
from overhand.policy import find_caller
from overhand.questions import recorded_answer
from overhand.verbs.verb import Pending, Reply, Session

if TYPE_CHECKING:
    from overhand.agents import Permit
    from overhand.policy import Caller
    from overhand.record import Store


def prompts_of(store: Store, client: Caller) -> Permit | None:
    """The function that answers the permission prompts of the calling run's program, if it has any."""
    run = store.task(client.task).run(client.run) if client.task else None
    driver = lookup(run.driver) if run is not None else None
    return driver.permit if driver else None


def permit(session: Session, tool: str, input: str) -> Reply:
    """Wait until a person has decided; a run that waits too long is parked, as with any question."""
    caller = find_caller(session.store)
    ask = prompts_of(session.store, caller)
    if ask is None or caller.task is None or caller.run is None:
        raise BadInput("This run's program has no permission prompt.", "Use the tools that are listed.")
    given, odd = load_json(input)
    if odd or not isinstance(given, dict):
        raise BadInput("The input of a tool is a JSON object.", "Pass the tool's own input on.")
    found = ask(session.store, caller.task, caller.run, tool, given)
    if not isinstance(found, OpenPermission):
        return Reply(found)
    task_id, seq, reply = caller.task, found.question.seq, found.reply

    def look(over: bool) -> Reply | None:
        answer = recorded_answer(session.store, task_id, seq)
        if answer is None and over:
            later: dict[str, Any] = reply(None)
            return Reply({**later, "message": f"Question {seq} is not answered yet; end your turn."})
        return None if answer is None else Reply(reply(answer))

    return session.wait(Pending([task_id], look, float("inf"), seq=seq))
