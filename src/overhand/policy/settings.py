"""All settings and their allowed values; the kinds of work and their routes. `config` reads the files."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from overhand.errors import Refused
from overhand.policy import budget as budgets
from overhand.record import Amount
from overhand.words import SHIELDS, duration, is_agent_name, is_limit_rule, is_name

Reader = Callable[[Any], Any]  # raises ValueError or TypeError
NOTE_KINDS = ("question", "parked", "blocked", "ready", "stopped", "notice", "budget")
# every setting: its default and one line for the reference page
SETTINGS: dict[str, tuple[Any, str]] = {
    "default_agent": ("", "the agent of a `delegate` without `--agent`"),
    "default_driver": ("", "what runs an agent file that has no `overhand:` part"),
    "on_limit": ("pause", "when a provider's limit is reached: `pause` until its reset, or `switch:AGENT`"),
    "decisions": (".agent-workspaces/DECISIONS.md", "where decisions of judged results are collected"),
    "requests": ("requests", "the folder of request files (`item new`, and inline items that are approved)"),
    "alerts": ("alerts", "the folder of alerts (`alert raise`)"),
    "approval": (
        "typed",
        "`typed`: a person may also approve by typing `#delegated-KIND`; `record`: only by `item approve`",
    ),
    "approve_without_terminal": (False, "whether scripts may approve for you; in your own config.toml only"),
    "shield": (
        "auto",
        "keeps runs from writing the record: `auto` where it can, `require` or refuse, `off`; projects only raise it",
    ),
    "watch_in_tmux": (False, "open a tmux window `agent-KIND-EPOCH` in the session `dispatch` for each run of an item"),
    "routes.KIND.agent": ("", "who takes this kind: else the agent named like it, else the default agent"),
    "routes.KIND.mode": ("agent", "`agent`: runs by itself; `interactive`: waits for you; `external`: a job elsewhere"),
    "routes.KIND.priority": (10, "which kind goes first among items of equal weight; smaller is earlier"),
    "routes.KIND.auto_approve": (False, "items of this kind are approved as they are found, also those of agents"),
    "limits.max_parallel": (3, "runs at the same time in this project; 0 = unbounded"),
    "limits.max_output": ("256MB", "what a run may print before it is stopped"),
    "limits.stop_grace": ("10s", "between SIGTERM and SIGKILL"),
    "limits.stall": ("10m", "without any sign of life before a notice is raised; 0 = never"),
    "limits.check_timeout": ("10m", "for one check"),
    "limits.answer_wait": ("3m", "that a blocked run waits for an answer before it is parked; 0 = for ever"),
    "limits.max_block": ("100s", "that one `overhand ask` blocks before it says to call again"),
    "limits.idle": ("60s", "until a supervisor with nothing to do ends"),
    "limits.debounce": ("3s", "after the last change of a file until the daemon looks at the tags in it"),
    "limits.agents.NAME": (0, "runs of one agent at the same time"),
    "limits.kinds.KIND": (0, "runs of one kind at the same time"),
    "kinds.KIND.timeout": ("2h", "time for a task of this kind"),
    "kinds.KIND.max_timeout": ("4h", "the longest `--timeout` that a task of this kind may ask for"),
    "kinds.KIND.level": ("work", "permission level: read, work or full"),
    "kinds.KIND.contract": ("", "the output contract of this kind"),
    "checks.NAME": ("", "a command that verifies every result of this project"),
    "checks.NAME.command": ("", "the same, where the check has more than a command"),
    "checks.NAME.files": ([], "paths and patterns of the check's own files: a task that changes one proves nothing"),
    "drivers.NAME": ({}, "what an agent file's `overhand:` part starts from"),
    "budget.task": ("", "the budget of a task that is given none and draws on none, such as `200k tokens` or `$5`"),
    "budget.day": ("", "what all tasks together may use in a day (UTC); then nothing new starts"),
    "budget.share": (0.25, "the part of what is left that a child without a budget of its own may use at first"),
    "trees.default": ("here", "where a task that may write works: in a `tree` of its own, or `here` in your checkout"),
    "trees.root": ("", "the folder of all trees, from / or ~ on; empty: in your state folder"),
    "trees.setup": ([], "commands, one text each, that a shell runs in a new tree before the agent starts"),
    "trees.teardown": ([], "commands that a shell runs in a tree before it is removed"),
    "trees.setup_timeout": ("10m", "for all commands of `setup` together"),
    "trees.copy": ([], "ignored files and folders that a new tree gets a copy of"),
    "trees.link": ([], "ignored files and folders that a new tree gets a link to"),
    "trees.hooks": (False, "whether the project's git hooks run in a tree"),
    "trees.ports": (10, "how many ports each tree has for itself, from OVERHAND_PORT on"),
    "trees.max": (20, "trees at the same time in this project"),
    "trees.size": ("20GB", "what all trees together may take on the disk"),
    "trees.commits": ("squash", "what `merge` lands: one commit (`squash`), or the agent's own, `replay`ed"),
    "notify.desktop": ("auto", "notes on your screen: true, false, or `auto`: where there is a screen and no CI"),
    "notify.command": ([], "a program, as a list of words, that is given each note as JSON"),
    "notify.webhook": ("", "an http(s) address that each note is sent to as JSON, or `env:NAME`"),
    "notify.ntfy": ("", "the address of an ntfy topic, or `env:NAME`"),
    "notify.slack": ("", "the address of a Slack incoming webhook, or `env:NAME`"),
    "notify.on": (list(NOTE_KINDS), "what is told"),
}


def take(
    table: dict[str, Any], readers: Mapping[str, Reader], prefix: str, problems: list[str], *, secret: bool = False
) -> dict[str, Any]:
    """The values that have a reader; one that cannot be read is a problem, which does not quote a secret one."""
    values: dict[str, Any] = {}
    for name, read in readers.items():
        if name in table:
            try:
                values[name] = read(table[name])
            except (ValueError, TypeError) as error:
                quoted = "" if secret else f" = {table[name]!r}"
                problems.append(f"{prefix}{name}{quoted}: {error}.")
    return values


def a_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text was needed")
    return value


def a_rule(value: Any) -> str:
    if not is_limit_rule(value):
        raise ValueError("`pause` or `switch:AGENT` was needed")
    return str(value)


def a_switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("true or false was needed")
    return value


def a_number(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError("a number was needed")
    return float(value)


def a_word_of(words: tuple[str, ...]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in words:
            raise ValueError(f"one of {', '.join(words)} was needed")
        return str(value)

    return read


def a_place(value: Any) -> str:
    path = posixpath.normpath(a_text(value))
    if posixpath.isabs(path) or path.split("/")[0] in ("..", "."):
        raise ValueError("a place inside the project was needed")
    return path


def a_count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError("a whole number was needed")
    return value


def a_size(value: Any) -> int:
    """A number of bytes, such as 256MB."""
    units = {"": 1, "B": 1, "K": 1000, "KB": 1000, "M": 10**6, "MB": 10**6, "G": 10**9, "GB": 10**9}
    text = str(value).strip().upper()
    digits = text.rstrip("KMGB")
    if not digits.isdigit() or text[len(digits) :] not in units:
        raise ValueError("a size such as 256MB was needed")
    return int(digits) * units[text[len(digits) :]]


def table_in(merged: dict[str, Any], name: str, problems: list[str]) -> dict[str, Any]:
    value = merged.get(name, {})
    if not isinstance(value, dict):
        problems.append(f"{name} must be a table: [{name}].")
        return {}
    return value


def tables_in(merged: dict[str, Any], name: str, problems: list[str]) -> dict[str, dict[str, Any]]:
    """The tables inside a table, by name."""
    table = table_in(merged, name, problems)
    problems += [f"{name}.{key} must be a table." for key, value in table.items() if not isinstance(value, dict)]
    return {key: value for key, value in table.items() if isinstance(value, dict)}


def a_budget(value: Any) -> str:
    """A budget in its normal form."""
    return budgets.say_budget(an_amount(value))


def an_amount(value: Any) -> Amount:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError(f"a budget was needed; {budgets.NEEDED}")
    return budgets.parse_budget(value) if value not in ("", 0) else budgets.make_amount()


def a_part(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= 1:
        raise ValueError("a part of 1 was needed, such as 0.25")
    return float(value)


def a_desktop(value: Any) -> bool | str:
    if value is True or value is False or value == "auto":
        return value  # type: ignore[no-any-return] # one of these three
    raise ValueError('true, false or "auto" was needed')


def a_command(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) and "\0" not in word for word in value):
        raise TypeError('a list of words such as ["notify-me", "--loud"] was needed')
    if value and not value[0]:
        raise ValueError("the first word must name a program")
    return tuple(value)


def texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) and one and "\0" not in one for one in value):
        raise TypeError('a list of texts such as ["npm ci"] was needed')
    return tuple(value)


def a_folder(value: Any) -> str:
    path = a_text(value)
    if path and not path.startswith(("/", "~")):
        raise ValueError("a path from / or ~ on was needed")
    return path


def an_address(value: Any) -> str:
    """An address, or the variable that holds it."""
    text = a_text(value)
    name = text.removeprefix("env:")
    if text and not (name != text and name.isidentifier()) and not text.lower().startswith(("http://", "https://")):
        raise ValueError("an http:// or https:// address, or env:NAME for one in a variable, was needed")
    return text


def a_choice_of_notes(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or any(word not in NOTE_KINDS for word in value):
        raise ValueError(f"a list of {', '.join(NOTE_KINDS)} was needed")
    return tuple(value)


def tell_unknown(table: dict[str, Any], known: tuple[str, ...], prefix: str, problems: list[str]) -> None:
    """Report unknown keys, with the one that was probably meant."""
    for key in table:
        if key not in known:
            near = get_close_matches(key, known, 1)
            problems.append(f"{prefix}{key} is unknown" + (f"; did you mean {prefix}{near[0]}?" if near else "."))


# the values of each table
READERS: dict[str, dict[str, Reader]] = {
    "": {
        "default_agent": a_text, "default_driver": a_text, "decisions": a_place, "requests": a_place,
        "alerts": a_place, "on_limit": a_rule, "approval": a_word_of(("typed", "record")),
        "approve_without_terminal": a_switch, "watch_in_tmux": a_switch, "shield": a_word_of(SHIELDS),
    },
    "limits": {
        "max_parallel": a_count, "max_output": a_size, "stop_grace": duration, "stall": duration,
        "check_timeout": duration, "idle": duration, "debounce": duration, "answer_wait": duration,
        "max_block": duration,
    },
    "notify": {
        "desktop": a_desktop, "command": a_command, "webhook": an_address, "ntfy": an_address, "slack": an_address,
        "on": a_choice_of_notes,
    },
    "trees": {
        "default": a_word_of(("here", "tree")), "root": a_folder, "setup": texts, "teardown": texts,
        "setup_timeout": duration, "copy": texts, "link": texts, "hooks": a_switch, "ports": a_count, "max": a_count,
        "size": a_size, "commits": a_word_of(("squash", "replay")),
    },
    "budget": {"task": a_budget, "day": an_amount, "share": a_part},
    "kinds": {"timeout": duration, "max_timeout": duration},
}  # fmt: skip

# kinds of work and their routes

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
    if name and not is_agent_name(name):
        raise ValueError("the name of an agent was needed")
    return name


def route_of(routes: Mapping[str, Route], kind: str) -> Route:
    """The route of a kind; a kind without one cannot be approved."""
    if kind in routes:
        return routes[kind]
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
