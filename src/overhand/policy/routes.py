"""Kinds of work: how long they may take, what an agent may do for them, and the route that each takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from overhand.errors import Refused
from overhand.policy.settings import a_number, a_switch, a_text, a_word_of, take, tell_unknown
from overhand.words import is_name

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

MODES = ("agent", "interactive", "external")
LAST = 10.0  # for a kind that only the settings define, without a priority

# kind: default time, longest time (seconds), permission level
_HOUR = 3600.0
KINDS: dict[str, tuple[float, float, str]] = {
    "research": (_HOUR, 2 * _HOUR, "read"),
    "exploration": (_HOUR, 2 * _HOUR, "read"),
    "plan": (_HOUR / 2, _HOUR, "read"),
    "implementation": (2 * _HOUR, 4 * _HOUR, "work"),
    "implement": (2 * _HOUR, 4 * _HOUR, "work"),
    "fix": (2 * _HOUR, 4 * _HOUR, "work"),
    "revise": (_HOUR / 2, _HOUR, "work"),
    "review": (_HOUR, 2 * _HOUR, "read"),
    "qa": (_HOUR, 2 * _HOUR, "read"),
    "audit": (_HOUR, 2 * _HOUR, "read"),
    "brainstorm": (2 * _HOUR, 4 * _HOUR, "read"),
    "document": (2 * _HOUR, 4 * _HOUR, "read"),
    "summary": (2 * _HOUR, 4 * _HOUR, "read"),
}
NO_KIND = (2 * _HOUR, 4 * _HOUR, "work")


@dataclass(frozen=True, slots=True)
class Route:
    """Where items of one kind go."""

    kind: str
    priority: float = LAST  # among items of equal weight the smaller one goes first
    mode: str = "agent"  # it runs by itself; `interactive`: a person opens it; `external`: it is a job elsewhere
    agent: str = ""  # empty: the agent named like the kind, else the default agent
    auto_approve: bool = False


_FIRST = {
    "brainstorm": 1.0,  # exploring unblocks decisions
    "research": 2.0,  # takes long, so it is queued early
    "fix": 3.0,  # bugs block everyone
    "implementation": 4.0,
    "loop": 4.5,
    "chores": 5.0,
    "documentation": 6.0,
}


def read_routes(tables: Mapping[str, dict[str, Any]], problems: list[str]) -> dict[str, Route]:
    """The table of routes: the seven built-in kinds, changed and extended by `[routes.KIND]`."""
    found = {kind: Route(kind, priority) for kind, priority in _FIRST.items()}
    readers = {"agent": _an_agent, "mode": a_word_of(MODES), "priority": a_number, "auto_approve": a_switch}
    for kind, table in tables.items():
        if not is_name(kind):
            problems.append(f"routes.{kind}: a kind is one word of small letters, digits and dashes.")
            continue
        values = take(table, readers, f"routes.{kind}.", problems)
        tell_unknown(table, tuple(readers), f"routes.{kind}.", problems)
        found[kind] = replace(found.get(kind, Route(kind)), **values)
    return found


def _an_agent(value: Any) -> str:
    name = a_text(value)
    if name and not is_name(name):
        raise ValueError("the name of an agent was needed")
    return name


def route_of(routes: Mapping[str, Route], kind: str) -> Route:
    """The route of a kind; a kind without one cannot be approved."""
    if kind in routes:
        return routes[kind]
    from difflib import get_close_matches

    near = get_close_matches(kind, routes, 1)
    meant = f" Did you mean #needs-{near[0]}?" if near else ""
    if not is_name(kind):
        raise Refused(f"{kind!r} is no kind of work.{meant}", f"There are {', '.join(routes)}.")
    raise Refused(
        f"There is no route for the kind {kind}, so nobody would take it.{meant}",
        f'Write into .overhand/config.toml: [routes.{kind}] and below it agent = "NAME"; then: overhand trust',
    )


def check_route_mode(route: Route, agent: str, driver: str, *, elsewhere: bool) -> None:
    """Refuse an agent whose driver doesn't fit the route's mode: external work needs a driver that starts it there."""
    if route.mode == "external" and not elsewhere:
        raise Refused(
            f"The kind {route.kind} is done elsewhere (mode external), but {agent} runs here, on the driver {driver}.",
            f"Give .overhand/agents/{agent}.md the driver external, or set routes.{route.kind}.mode to agent.",
        )


def agent_of_route(route: Route, known: Container[str]) -> str:
    """The agent named by the route, else the one named like the kind; empty means the default agent."""
    return route.agent or (route.kind if route.kind in known else "")
