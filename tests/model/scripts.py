"""Scripts as data: what a turn may hold, read and checked once, before anything is served."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

# Operations and what each needs; `extra` may stand beside them.
OPERATIONS = {
    "write": ("path", "content"),
    "read": ("path",),
    "bash": ("command",),
    "mcp": ("server", "tool"),
    "call": ("name",),
}
WITH_ARGUMENTS = ("mcp", "call")


@dataclass(frozen=True)
class Operation:
    """One thing to do, in no agent's words."""

    kind: str
    given: Json
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True)
class Usage:
    """The tokens that a turn claims to have taken; fixed unless a script says otherwise, so that sums are known."""

    input: int = 1000
    output: int = 50
    cached: int = 0


@dataclass(frozen=True)
class Turn:
    """One answer of the model.

    delay: seconds before the answer. hang: true, or a path: no answer until that file exists or the client goes.
    status: this HTTP error in the provider's own words instead of an answer, while the file `until` does not exist;
    with `message`; for 429 with `retry_after` seconds, and `resets_in` seconds if it is the account's limit that is
    used up rather than a short throttle. refuses: the text is the model's refusal, told in the provider's own way.
    """

    text: str = ""
    ops: tuple[Operation, ...] = ()
    delay: float = 0
    hang: bool | str = False
    status: int = 0
    message: str = ""
    retry_after: float | None = None
    resets_in: float | None = None
    until: str = ""
    refuses: bool = False
    usage: Usage = Usage()


@dataclass(frozen=True)
class Script:
    """Turns in their order; `when` names another script for messages that contain a phrase."""

    turns: tuple[Turn, ...]
    when: Mapping[str, str] = field(default_factory=dict)


TURN_KEYS = frozenset(Turn.__dataclass_fields__)
TYPES: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "delay": (int, float),
    "hang": (bool, str),
    "status": (int,),
    "message": (str,),
    "retry_after": (int, float),
    "resets_in": (int, float),
    "until": (str,),
    "refuses": (bool,),
}


def load(data: object) -> dict[str, Script]:
    """Scripts by name; a ValueError says which turn is wrong and what it may hold."""
    if not isinstance(data, Mapping):
        raise ValueError("Scripts are an object: names, each with a list of turns.")  # noqa: TRY004 - data, not a call
    scripts = {str(name): _script(str(name), value) for name, value in data.items()}
    for name, script in scripts.items():
        missing = [other for other in script.when.values() if other not in scripts]
        if missing:
            raise ValueError(f"script {name}: `when` names {missing[0]}, which is not there.")
    return scripts


def _script(name: str, value: object) -> Script:
    if isinstance(value, Mapping):
        unknown = set(value) - {"turns", "when"}
        if unknown or not isinstance(value.get("when", {}), Mapping):
            raise ValueError(f"script {name}: an object has `turns` and `when` {{phrase: script}}, nothing else.")
        return Script(_turns(name, value.get("turns")), dict(value.get("when", {})))
    return Script(_turns(name, value))


def _turns(name: str, value: object) -> tuple[Turn, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise ValueError(f"script {name}: a list of turns is needed.")
    return tuple(_turn(f"script {name}, turn {number}", turn) for number, turn in enumerate(value))


def _turn(place: str, value: object) -> Turn:
    if not isinstance(value, Mapping):
        raise ValueError(f"{place}: a turn is an object.")  # noqa: TRY004 - data, not a call
    unknown = sorted(set(value) - TURN_KEYS)
    if unknown:
        raise ValueError(f"{place}: no key {unknown[0]!r}; there are {', '.join(sorted(TURN_KEYS))}.")
    for key, types in TYPES.items():
        if key in value and (not isinstance(value[key], types) or (bool not in types and value[key] is True)):
            raise ValueError(f"{place}: {key} must be {' or '.join(one.__name__ for one in types)}.")
    simple = {key: value[key] for key in TYPES if key in value}
    ops = tuple(_operation(place, op) for op in value.get("ops", ()))
    return Turn(**simple, ops=ops, usage=_usage(place, value.get("usage", {})))


def _operation(place: str, value: object) -> Operation:
    if not isinstance(value, Mapping) or len(value) != 1 or next(iter(value)) not in OPERATIONS:
        raise ValueError(f"{place}: an operation is one of {{{'|'.join(OPERATIONS)}: {{…}}}}, not {value!r}.")
    kind, given = next(iter(value.items()))
    needed = OPERATIONS[kind]
    known = {*needed, "extra", *(["arguments"] if kind in WITH_ARGUMENTS else [])}
    if not isinstance(given, Mapping) or not set(needed) <= set(given) <= known:
        raise ValueError(f"{place}: {kind} needs {', '.join(needed)} and may have {', '.join(sorted(known))}.")
    rest = {key: value for key, value in given.items() if key != "extra"}
    return Operation(kind, rest, dict(given.get("extra", {})))


def _usage(place: str, value: object) -> Usage:
    known = set(Usage.__dataclass_fields__)
    if not isinstance(value, Mapping) or set(value) - known or not all(isinstance(n, int) for n in value.values()):
        raise ValueError(f"{place}: usage is {{{', '.join(sorted(known))}}} as whole numbers.")
    return Usage(**value)
