"""Carrying out a call from inside a run, in the supervisor: the verb's own function, with that run as the caller."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

from overhand.errors import BadInput, OverhandError, Refused, storage_failed
from overhand.policy import current_call, inside_run
from overhand.record import read_call, stale_run, tasks_of_call
from overhand.system import brought
from overhand.verbs.calls import LATER
from overhand.verbs.table import PERMIT, VERB_BY_NAME
from overhand.verbs.verb import Deferred, Session, is_called

if TYPE_CHECKING:
    from collections.abc import Callable

    from overhand.record import Call
    from overhand.supervisor import TakenCall
    from overhand.verbs.verb import Pending, Reply, Verb

# a second time they find what the first has done
_REPEATABLE = ("ask", "permit", "step", "finish", "stop", "wait", "monitor")
_UNRECORDED = ("item", "alert")  # edit files of the project before, or without, an event
_MAKES_TASK = ("delegate", "plan")


class WaitingCall:
    """A call whose reply is due later."""

    def __init__(self, taken: TakenCall, call: Call, pending: Pending) -> None:
        self._taken, self._call, self._pending = taken, call, pending
        self.run, self.tasks, self.until, self.seq = call.run, pending.tasks, pending.until, pending.seq

    def look(self, over: bool) -> dict[str, Any] | None:
        """Its reply, once there is one; `over`: the time is, or its caller is gone."""
        return _reply(self._taken, self._call, lambda: self._pending.look(over))


def carry_out(taken: TakenCall, raw: bytes | None) -> dict[str, Any] | WaitingCall:
    """The reply to a call, or what it waits for; whatever is wrong with the call is said in its reply."""
    try:
        call = read_call(raw)
    except BadInput as error:
        return {**error.as_json(), "told": []}
    try:
        return _reply(taken, call, lambda: _call(taken, call)) or {}
    except Deferred as deferred:
        return WaitingCall(taken, call, deferred.pending)


def _reply(taken: TakenCall, call: Call, work: Callable[[], Reply | None]) -> dict[str, Any] | None:
    """Do it in the name of the run, with no file but those that came along; an error is a reply, too."""
    inside = inside_run.set((taken.store.root, taken.task_id, call.run))
    current, documents = current_call.set(taken.call_id), brought.set(call.documents)
    try:
        reply = work()
        return None if reply is None else {"payload": reply.payload, "code": reply.code, "told": taken.told}
    except OverhandError as error:
        return {**error.as_json(), "told": taken.told}
    except OSError as error:
        return {**storage_failed(error, "That did not work").as_json(), "told": taken.told}
    except Deferred:
        raise
    except Exception as error:  # noqa: BLE001 -- a bug: it must hurt this call only
        taken.say("".join(traceback.format_exception(error)))
        hint = "This is a mistake in Overhand; the supervisor's log shows where."
        return {**OverhandError(f"{type(error).__name__}: {error}", hint).as_json(), "told": taken.told}
    finally:
        brought.reset(documents)
        current_call.reset(current)
        inside_run.reset(inside)


def _call(taken: TakenCall, call: Call) -> Reply:
    verb = PERMIT if call.verb == PERMIT.name else VERB_BY_NAME.get(call.verb)
    if verb is None or not is_called(call.verb, call.values):
        raise BadInput(f"{call.verb[:100]!r} is nothing that a run calls so.", "See all verbs: overhand --help")
    if taken.gone and call.verb not in LATER:
        raise Refused("Its caller is gone.")  # there is nothing to reply to
    _check_values(verb, call)
    current = taken.store.task(taken.task_id).current_run  # a call speaks for the run that holds the task
    if current is None or current.id != call.run or current.has_ended:
        raise stale_run(taken.task_id, call.run)
    session = Session(taken.store.root, call.via, tell=taken.told.append, progress=taken.progress, store=taken.store)
    session.env, session.cwd, session.defers = taken.env, call.cwd, True
    session.has_left = lambda: taken.gone
    if taken.repeated and call.verb not in _REPEATABLE and (done := _done_before(taken, call, session)) is not None:
        return done
    return verb.function()(session, **call.values)


def _check_values(verb: Verb, call: Call) -> None:
    """Refuse arguments that the verb doesn't have, as the command line does."""
    args = {(arg.key.replace("|", "_or_") if "|" in arg.name else arg.key): arg for arg in (*verb.words, *verb.options)}
    see = f"overhand {verb.name} --help"
    for name, value in call.values.items():
        arg = args.get(name)
        if arg is None:
            raise BadInput(f"{verb.name} has no argument {name[:100]!r}.", see)
        is_flag = arg.name.startswith("-") and not arg.value
        kinds = bool if is_flag else (list, str) if arg.many else str
        if value is not None and not isinstance(value, kinds):
            raise BadInput(f"{verb.name}: {name} cannot be {str(value)[:100]!r}.", see)
        if arg.choices and value is not None and value not in arg.choices:
            raise BadInput(f"{name} cannot be {str(value)[:100]!r}.", f"One of: {', '.join(arg.choices)}")
    needed = [name for name, arg in args.items() if not arg.name.startswith("-") and not arg.optional]
    if missing := [name for name in needed if call.values.get(name) is None]:
        raise BadInput(f"{verb.name} needs {missing[0]}.", see)


def _done_before(taken: TakenCall, call: Call, session: Session) -> Reply | None:
    """The reply to a call that an earlier supervisor has carried out; None if it has left nothing."""
    if call.verb in _UNRECORDED:
        raise Refused(
            "The supervisor was interrupted while it did this; it may be done, or not.",
            "Look at the file before you try again.",
        )
    found = tasks_of_call(taken.store, taken.call_id)
    if call.verb in _MAKES_TASK:
        found = [task_id for task_id in found if task_id != taken.task_id]  # there only a refusal is noted
    if not found:
        return None
    if call.verb == "delegate":
        from overhand.verbs.delegate import receipt_of_task

        return receipt_of_task(session, taken.store.task(found[0]), wait=call.values.get("wait") is True)
    names = " ".join(taken.store.task(task_id).name for task_id in found)
    raise Refused(
        "It is done, but the supervisor was interrupted before it could reply.",
        f"Don't repeat it; look: overhand show {names}",
    )
