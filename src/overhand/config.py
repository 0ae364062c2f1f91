"""Settings: user level, then the project's `.overhand/config.toml`, then `local.toml`, then `--set` for one task."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from overhand import budget as budgets
from overhand import kinds, model, notes
from overhand.errors import BadInput
from overhand.files import read_file
from overhand.shapes import Amount

FILES = (".overhand/config.toml", ".overhand/local.toml")
AGENT_MARKS = ("exclusive", "can_delegate", "real", "session")  # what a task remembers beside its own settings

# every setting: its default and one line for the reference page
SETTINGS: dict[str, tuple[Any, str]] = {
    "default_agent": ("", "the agent of a `delegate` without `--agent`"),
    "default_driver": ("", "what runs an agent file that has no `overhand:` part"),
    "on_limit": ("pause", "when a provider's limit is reached: `pause` until its reset, or `switch:AGENT`"),
    "decisions": (".agent-workspaces/DECISIONS.md", "where decisions of judged results are collected"),
    "limits.max_parallel": (3, "runs at the same time in this project; 0 = unbounded"),
    "limits.max_output": ("256MB", "what a run may print before it is stopped"),
    "limits.stop_grace": ("10s", "between SIGTERM and SIGKILL"),
    "limits.stall": ("10m", "without any sign of life before a notice is raised; 0 = never"),
    "limits.check_timeout": ("10m", "for one check"),
    "limits.answer_wait": ("3m", "that a blocked run waits for an answer before it is parked; 0 = for ever"),
    "limits.max_block": ("100s", "that one `overhand ask` blocks before it says to call again"),
    "limits.idle": ("60s", "until a supervisor with nothing to do ends"),
    "limits.agents.NAME": (0, "runs of one agent at the same time"),
    "limits.kinds.KIND": (0, "runs of one kind at the same time"),
    "kinds.KIND.timeout": ("2h", "time for a task of this kind"),
    "kinds.KIND.max_timeout": ("4h", "the longest `--timeout` that a task of this kind may ask for"),
    "kinds.KIND.level": ("work", "permission level: read, work or full"),
    "kinds.KIND.contract": ("", "the output contract of this kind"),
    "checks.NAME": ("", "a command that verifies every result of this project"),
    "drivers.NAME": ({}, "what an agent file's `overhand:` part starts from"),
    "budget.task": ("", "the budget of a task that is given none and draws on none, such as `200k tokens` or `$5`"),
    "budget.day": ("", "what all tasks together may use in a day (UTC); then nothing new starts"),
    "budget.share": (0.25, "the part of what is left that a child without a budget of its own may use at first"),
    "notify.desktop": ("auto", "notes on your screen: true, false, or `auto`: where there is a screen and no CI"),
    "notify.command": ([], "a program, as a list of words, that is given each note as JSON"),
    "notify.webhook": ("", "an http(s) address that each note is sent to as JSON, or `env:NAME`"),
    "notify.ntfy": ("", "the address of an ntfy topic, or `env:NAME`"),
    "notify.slack": ("", "the address of a Slack incoming webhook, or `env:NAME`"),
    "notify.on": (list(notes.KINDS), "what is told"),
}


@dataclass(frozen=True, slots=True)
class Kind:
    """What a kind of task brings along."""

    timeout: float
    max_timeout: float
    level: str
    contract: str | None


@dataclass(frozen=True, slots=True)
class Notify:
    """Whom to tell, and of what."""

    desktop: bool | str = "auto"
    command: tuple[str, ...] = ()
    webhook: str = ""
    ntfy: str = ""
    slack: str = ""
    on: tuple[str, ...] = notes.KINDS


@dataclass(frozen=True, slots=True)
class Budgets:
    """What may be used."""

    task: str = ""
    day: Amount = field(default_factory=budgets.amount)
    share: float = budgets.SHARE


@dataclass(frozen=True, slots=True)
class Config:
    """The settings in force."""

    default_agent: str = ""
    default_driver: str = ""
    on_limit: str = "pause"
    decisions: str = ".agent-workspaces/DECISIONS.md"
    max_parallel: int = 3
    per_agent: dict[str, int] = field(default_factory=dict)
    per_kind: dict[str, int] = field(default_factory=dict)
    max_output: int = 256 * 1000 * 1000
    stop_grace: float = 10.0
    stall: float = 600.0
    check_timeout: float = 600.0
    answer_wait: float = 180.0
    max_block: float = 100.0
    idle: float = 60.0
    checks: tuple[tuple[str, str], ...] = ()
    drivers: dict[str, dict[str, Any]] = field(default_factory=dict)
    kinds: dict[str, dict[str, Any]] = field(default_factory=dict)
    notify: Notify = Notify()
    budget: Budgets = field(default_factory=Budgets)

    def kind(self, name: str | None) -> Kind:
        """Times, level and contract of a kind."""
        from overhand.contracts import contract_for_kind

        timeout, longest, level = kinds.KINDS.get(name or "", kinds.NO_KIND)
        own = self.kinds.get(name or "none", {})
        return Kind(
            timeout=model.duration(own.get("timeout", timeout)),
            max_timeout=model.duration(own.get("max_timeout", longest)),
            level=own.get("level", level),
            contract=own.get("contract") or contract_for_kind(name),
        )


def user_folder() -> str:
    """The user's own folder: settings, agents, what is trusted."""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(base, "overhand")


def present(root: str) -> list[str]:
    """The project's own settings files that are there."""
    return [name for name in FILES if os.path.lexists(f"{root}/{name}")]


def marks(root: str, *more: str) -> list[tuple[int, int, int] | None]:
    """What changes when one of the settings files (or one of these) is written again."""
    found: list[tuple[int, int, int] | None] = []
    for path in (os.path.join(user_folder(), "config.toml"), *(f"{root}/{name}" for name in FILES), *more):
        try:
            stat = os.lstat(path)
            found.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
        except OSError:
            found.append(None)
    return found


def load(root: str, settings: dict[str, Any] | None = None, *, project: bool = True) -> Config:
    """Read every level and report all problems at once; `project` is false where its own files do not count."""
    merged: dict[str, Any] = {}
    problems: list[str] = []
    for path in (os.path.join(user_folder(), "config.toml"), *(f"{root}/{name}" for name in FILES if project)):
        _merge(merged, _read(path, problems))
    for key, value in (settings or {}).items():
        _merge(merged, _nest(key, value))
    config = _build(merged, problems)
    if problems:
        raise BadInput(
            "Settings: " + " ".join(problems), "Look at .overhand/config.toml; docs/reference.md lists them."
        )
    return config


def of_task(root: str, config: Config, settings: dict[str, Any]) -> Config:
    """The settings in force for one task, which may have its own (`--set`)."""
    own = {key: value for key, value in settings.items() if key not in AGENT_MARKS}
    return load(root, own) if own else config


def _read(path: str, problems: list[str]) -> dict[str, Any]:
    raw = read_file(path)
    if raw is None:
        if os.path.lexists(path):
            problems.append(f"{path} is a link or no regular file and is not read.")
        return {}
    try:
        return tomllib.loads(raw.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        problems.append(f"{path} cannot be read: {error}.")
        return {}


def _merge(into: dict[str, Any], more: dict[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def _nest(key: str, value: Any) -> dict[str, Any]:
    first, _, rest = key.partition(".")
    return {first: _nest(rest, value) if rest else value}


def setting(text: str) -> tuple[str, Any]:
    """`key=value` of `--set`; the value is read as TOML, else as a string."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise BadInput(f"--set {text!r} has no value.", "Write it as --set limits.max_parallel=5")
    try:
        return key.strip(), tomllib.loads(f"x = {value.strip()}")["x"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()


def _build(merged: dict[str, Any], problems: list[str]) -> Config:
    values: dict[str, Any] = {}
    limits = _table(merged, "limits", problems)
    for name, read_text in (
        ("default_agent", _text),
        ("default_driver", _text),
        ("decisions", _inside),
        ("on_limit", _rule),
    ):
        _take(values, merged, name, read_text, problems, name)
    takers = {
        "max_parallel": _count, "max_output": _size, "stop_grace": model.duration, "stall": model.duration,
        "check_timeout": model.duration, "idle": model.duration,
        "answer_wait": model.duration, "max_block": model.duration,
    }  # fmt: skip
    for name, read in takers.items():
        _take(values, limits, name, read, problems, f"limits.{name}")
    values["per_agent"] = _counts(limits, "agents", problems)
    values["per_kind"] = _counts(limits, "kinds", problems)
    values["checks"] = _checks(_table(merged, "checks", problems), problems)
    values["drivers"] = _tables(merged, "drivers", problems)
    values["kinds"] = _kinds(_tables(merged, "kinds", problems), problems)
    values["notify"] = _notify(_table(merged, "notify", problems), problems)
    values["budget"] = _budgets(_table(merged, "budget", problems), problems)
    known = (
        "default_agent",
        "default_driver",
        "decisions",
        "on_limit",
        "limits",
        "kinds",
        "checks",
        "drivers",
        "notify",
        "budget",
    )
    _unknown(merged, known, "", problems)
    _unknown(limits, (*takers, "agents", "kinds"), "limits.", problems)
    return Config(**values)


def _take(values: dict[str, Any], table: dict[str, Any], name: str, read: Any, problems: list[str], full: str) -> None:
    if name in table:
        try:
            values[name] = read(table[name])
        except (ValueError, TypeError) as error:
            problems.append(f"{full} = {table[name]!r}: {error}.")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text was needed")
    return value


def _rule(value: Any) -> str:
    if not model.is_limit_rule(value):
        raise ValueError("`pause` or `switch:AGENT` was needed")
    return str(value)


def _inside(value: Any) -> str:
    path = os.path.normpath(_text(value))
    if os.path.isabs(path) or path.split(os.sep)[0] in ("..", "."):
        raise ValueError("a file inside the project was needed")
    return path


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError("a whole number was needed")
    return value


def _size(value: Any) -> int:
    units = {"": 1, "B": 1, "K": 1000, "KB": 1000, "M": 10**6, "MB": 10**6, "G": 10**9, "GB": 10**9}
    text = str(value).strip().upper()
    digits = text.rstrip("KMGB")
    if not digits.isdigit() or text[len(digits) :] not in units:
        raise ValueError("a size such as 256MB was needed")
    return int(digits) * units[text[len(digits) :]]


def _table(merged: dict[str, Any], name: str, problems: list[str]) -> dict[str, Any]:
    value = merged.get(name, {})
    if not isinstance(value, dict):
        problems.append(f"{name} must be a table: [{name}].")
        return {}
    return value


def _tables(merged: dict[str, Any], name: str, problems: list[str]) -> dict[str, dict[str, Any]]:
    table = _table(merged, name, problems)
    problems += [f"{name}.{key} must be a table." for key, value in table.items() if not isinstance(value, dict)]
    return {key: value for key, value in table.items() if isinstance(value, dict)}


def _counts(limits: dict[str, Any], name: str, problems: list[str]) -> dict[str, int]:
    counts: dict[str, Any] = {}
    table = _table(limits, name, problems)
    for key in table:
        _take(counts, table, key, _count, problems, f"limits.{name}.{key}")
    return counts


def _checks(table: dict[str, Any], problems: list[str]) -> tuple[tuple[str, str], ...]:
    problems += [
        f"checks.{name} must be a command in quotes." for name, cmd in table.items() if not isinstance(cmd, str)
    ]
    return tuple((name, command) for name, command in table.items() if isinstance(command, str))


def _kinds(tables: dict[str, dict[str, Any]], problems: list[str]) -> dict[str, dict[str, Any]]:
    for kind, table in tables.items():
        scratch: dict[str, Any] = {}
        for name in ("timeout", "max_timeout"):
            _take(scratch, table, name, model.duration, problems, f"kinds.{kind}.{name}")
        if table.get("level", "work") not in model.LEVELS:
            problems.append(f"kinds.{kind}.level must be one of {', '.join(model.LEVELS)}.")
        _unknown(table, ("timeout", "max_timeout", "level", "contract"), f"kinds.{kind}.", problems)
    return tables


def _notify(table: dict[str, Any], problems: list[str]) -> Notify:
    values: dict[str, Any] = {}
    takers = {
        "desktop": _desktop, "command": _words, "webhook": _address, "ntfy": _address, "slack": _address, "on": _told,
    }  # fmt: skip
    for name, read in takers.items():
        try:
            if name in table:
                values[name] = read(table[name])
        except (ValueError, TypeError) as error:  # without the value: an address may hold a token
            problems.append(f"notify.{name}: {error}.")
    _unknown(table, tuple(takers), "notify.", problems)
    return Notify(**values)


def _budgets(table: dict[str, Any], problems: list[str]) -> Budgets:
    values: dict[str, Any] = {}
    takers = {"task": _budget, "day": _amount, "share": _part}
    for name, read in takers.items():
        _take(values, table, name, read, problems, f"budget.{name}")
    _unknown(table, tuple(takers), "budget.", problems)
    return Budgets(**values)


def _budget(value: Any) -> str:
    return budgets.say(_amount(value))


def _amount(value: Any) -> Amount:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError(f"a budget was needed; {budgets.NEEDED}")
    return budgets.parse(value) if value not in ("", 0) else budgets.amount()


def _part(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= 1:
        raise ValueError("a part of 1 was needed, such as 0.25")
    return float(value)


def _desktop(value: Any) -> bool | str:
    if value is True or value is False or value == "auto":
        return value  # type: ignore[no-any-return] # one of these three
    raise ValueError('true, false or "auto" was needed')


def _words(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) and "\0" not in word for word in value):
        raise TypeError('a list of words such as ["notify-me", "--loud"] was needed')
    if value and not value[0]:
        raise ValueError("the first word must name a program")
    return tuple(value)


def _address(value: Any) -> str:
    text = _text(value)
    name = text.removeprefix("env:")
    if text and not (name != text and name.isidentifier()) and not text.lower().startswith(("http://", "https://")):
        raise ValueError("an http:// or https:// address, or env:NAME for one in a variable, was needed")
    return text


def _told(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or any(word not in notes.KINDS for word in value):
        raise ValueError(f"a list of {', '.join(notes.KINDS)} was needed")
    return tuple(value)


def _unknown(table: dict[str, Any], known: tuple[str, ...], prefix: str, problems: list[str]) -> None:
    for key in table:
        if key not in known:
            near = get_close_matches(key, known, 1)
            problems.append(f"{prefix}{key} is unknown" + (f"; did you mean {prefix}{near[0]}?" if near else "."))
