"""Settings: user level, then the project's `.overhand/config.toml`, then `local.toml`, then `--set` for one task."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from overhand.errors import BadInput
from overhand.policy import budget as budgets
from overhand.policy.settings import (
    KINDS,
    NO_KIND,
    NOTE_KINDS,
    READERS,
    Route,
    a_count,
    read_routes,
    table_in,
    tables_in,
    take,
    tell_unknown,
)
from overhand.record import Amount
from overhand.system import MAX_DOCUMENT, Beneath, read_file
from overhand.words import LEVELS, SHIELDS, duration

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = ".overhand"
FILES = (f"{FOLDER}/config.toml", f"{FOLDER}/local.toml")
OWN = ("approve_without_terminal",)  # settings that only the user's own file may have, never a project or a task
# recorded with a task beside its own settings
AGENT_MARKS = ("exclusive", "can_delegate", "real", "session", "plan", "shielded")


@dataclass(frozen=True, slots=True)
class Kind:
    """The defaults of a kind of task."""

    timeout: float
    max_timeout: float
    level: str
    contract: str | None


@dataclass(frozen=True, slots=True)
class Notify:
    """Which channels to notify, and of what."""

    desktop: bool | str = "auto"
    command: tuple[str, ...] = ()
    webhook: str = ""
    ntfy: str = ""
    slack: str = ""
    on: tuple[str, ...] = NOTE_KINDS


@dataclass(frozen=True, slots=True)
class Budgets:
    """How much tasks may use."""

    task: str = ""
    day: Amount = field(default_factory=budgets.make_amount)
    share: float = budgets.SHARE


@dataclass(frozen=True, slots=True)
class Trees:
    """Where tasks that may write work, and what a working tree of their own is given."""

    default: str = "here"
    root: str = ""
    setup: tuple[str, ...] = ()
    teardown: tuple[str, ...] = ()
    setup_timeout: float = 600.0
    copy: tuple[str, ...] = ()
    link: tuple[str, ...] = ()
    hooks: bool = False
    ports: int = 10
    max: int = 20
    size: int = 20 * 10**9
    commits: str = "squash"


@dataclass(frozen=True, slots=True)
class Config:
    """The settings in force."""

    default_agent: str = ""
    default_driver: str = ""
    on_limit: str = "pause"
    decisions: str = ".agent-workspaces/DECISIONS.md"
    requests: str = "requests"
    alerts: str = "alerts"
    approval: str = "typed"
    approve_without_terminal: bool = False
    shield: str = "auto"  # as the user wants it
    least_shield: str = "off"  # as the project's files want it
    watch_in_tmux: bool = False
    routes: dict[str, Route] = field(default_factory=lambda: read_routes({}, []))
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
    debounce: float = 3.0
    checks: tuple[tuple[str, str], ...] = ()
    check_files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by check: patterns of its own files
    drivers: dict[str, dict[str, Any]] = field(default_factory=dict)
    kinds: dict[str, dict[str, Any]] = field(default_factory=dict)
    notify: Notify = Notify()
    budget: Budgets = field(default_factory=Budgets)
    trees: Trees = Trees()

    def kind(self, name: str | None) -> Kind:
        timeout, longest, level = KINDS.get(name or "", NO_KIND)
        own = self.kinds.get(name or "none", {})
        contract = own.get("contract")
        if name and not contract:
            from overhand.documents import contract_for_kind

            contract = contract_for_kind(name)
        return Kind(
            timeout=duration(own.get("timeout", timeout)),
            max_timeout=duration(own.get("max_timeout", longest)),
            level=own.get("level", level),
            contract=contract or None,
        )

    def route(self, kind: str) -> Route | None:
        """Where items of this kind go; None for a kind that cannot be approved."""
        return self.routes.get(kind)

    @property
    def auto_approved(self) -> tuple[str, ...]:
        """Tags of items that need no person's approval."""
        return tuple(f"#needs-{kind}" for kind, route in self.routes.items() if route.auto_approve)


def user_folder() -> str:
    """The user's own folder: settings, agents, what is trusted."""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(base, "overhand")


def settings_files(root: str) -> list[str]:
    """The project's existing settings files."""
    files = Beneath(root)
    return [name for name in FILES if files.exists(name)]


def read_project_file(root: str, name: str, limit: int = MAX_DOCUMENT) -> bytes | None:
    """A regular file of the project; in Overhand's own folder no link is followed on the way to it either."""
    return Beneath(root).read(name, limit) if name.startswith(f"{FOLDER}/") else read_file(f"{root}/{name}", limit)


def settings_marks(root: str, *more: str) -> list[tuple[int, int, int] | None]:
    """Marks that change when one of the settings files (or of `more`) is written."""
    files = Beneath(root)
    looks = [_look(os.path.join(user_folder(), "config.toml")), *map(files.look, FILES), *map(_look, more)]
    return [found and (found.st_mtime_ns, found.st_size, found.st_ino) for found in looks]


def _look(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def load_config(root: str, settings: dict[str, Any] | None = None, *, project: bool = True) -> Config:
    """Read every level and report all problems at once; `project=False` ignores the project's own files."""
    merged: dict[str, Any] = {}
    problems: list[str] = []
    raised: list[str] = []
    own = os.path.join(user_folder(), "config.toml")
    _merge(merged, _parsed(own, read_file(own), os.path.lexists(own), problems))
    files = Beneath(root)
    if project and (blocker := files.in_the_way(FOLDER)):
        problems.append(f"{blocker} is a link or no folder; nothing in it is read.")
    for name in FILES if project else ():
        path = f"{root}/{name}"
        found = _parsed(path, files.read(name), files.exists(name), problems)
        _keep_own(found, path, own, problems)
        raised += take(found, {"shield": READERS[""]["shield"]}, f"{path}: ", problems).values()
        found.pop("shield", None)
        _merge(merged, found)
    for key, value in (settings or {}).items():
        nested = _nest(key, value)
        _keep_own(nested, f"--set {key}", own, problems)
        _merge(merged, nested)
    config = _build(merged, problems)
    if problems:
        raise BadInput(
            "Settings: " + " ".join(problems), "Look at .overhand/config.toml; docs/reference.md lists them."
        )
    return replace(config, least_shield=max(raised, key=SHIELDS.index)) if raised else config


def _keep_own(found: dict[str, Any], where: str, own: str, problems: list[str]) -> None:
    """Reject settings that a project may not decide for its user."""
    for name in OWN:
        if name in found:
            problems.append(f"{where}: {name} counts in {own} only.")
            del found[name]


def config_of_task(root: str, config: Config, settings: dict[str, Any]) -> Config:
    """The settings in force for one task, which may have its own (`--set`)."""
    own = {key: value for key, value in settings.items() if key not in AGENT_MARKS}
    return load_config(root, own) if own else config


def _parsed(path: str, raw: bytes | None, is_there: bool, problems: list[str]) -> dict[str, Any]:
    if raw is None:
        if is_there:
            problems.append(f"{path} is a link, no regular file or another user's, and is not read.")
        return {}
    try:
        return tomllib.loads(raw.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
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


def parse_setting(text: str) -> tuple[str, Any]:
    """`key=value` of `--set`; the value is read as TOML, else as a string."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise BadInput(f"--set {text!r} has no value.", "Write it as --set limits.stall=5m")
    try:
        return key.strip(), tomllib.loads(f"x = {value.strip()}")["x"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return key.strip(), value.strip()


def _build(merged: dict[str, Any], problems: list[str]) -> Config:
    limits = table_in(merged, "limits", problems)
    values = {**take(merged, READERS[""], "", problems), **take(limits, READERS["limits"], "limits.", problems)}
    values["per_agent"] = _counts(limits, "agents", problems)
    values["per_kind"] = _counts(limits, "kinds", problems)
    values["checks"], values["check_files"] = _checks(table_in(merged, "checks", problems), problems)
    values["drivers"] = tables_in(merged, "drivers", problems)
    values["kinds"] = _kinds(tables_in(merged, "kinds", problems), problems)
    for name, make in (("notify", Notify), ("budget", Budgets), ("trees", Trees)):
        table = table_in(merged, name, problems)
        # an address of a channel may hold a token
        values[name] = make(**take(table, READERS[name], f"{name}.", problems, secret=make is Notify))
        tell_unknown(table, tuple(READERS[name]), f"{name}.", problems)
    values["routes"] = read_routes(tables_in(merged, "routes", problems), problems)
    tables = ("limits", "kinds", "checks", "drivers", "notify", "budget", "routes", "trees")
    tell_unknown(merged, (*READERS[""], *tables), "", problems)
    tell_unknown(limits, (*READERS["limits"], "agents", "kinds"), "limits.", problems)
    return Config(**values)


def _counts(limits: dict[str, Any], name: str, problems: list[str]) -> dict[str, int]:
    table = table_in(limits, name, problems)
    return take(table, dict.fromkeys(table, a_count), f"limits.{name}.", problems)


def _checks(
    table: dict[str, Any], problems: list[str]
) -> tuple[tuple[tuple[str, str], ...], dict[str, tuple[str, ...]]]:
    """The commands by name, each written alone or as a table with its own files."""
    commands, files = [], {}
    for name, given in table.items():
        entry = given if isinstance(given, dict) else {"command": given}
        command, own = entry.get("command"), entry.get("files", [])
        if not isinstance(command, str):
            problems.append(f"checks.{name} must be a command in quotes, or a table with one.")
            continue
        if not isinstance(own, list) or not all(isinstance(one, str) for one in own):
            problems.append(f"checks.{name}.files must be a list of paths or patterns in quotes.")
            own = []
        tell_unknown(entry, ("command", "files"), f"checks.{name}.", problems)
        commands.append((name, command))
        files[name] = tuple(own)
    return tuple(commands), files


def _kinds(tables: dict[str, dict[str, Any]], problems: list[str]) -> dict[str, dict[str, Any]]:
    for kind, table in tables.items():
        take(table, READERS["kinds"], f"kinds.{kind}.", problems)
        if table.get("level", "work") not in LEVELS:
            problems.append(f"kinds.{kind}.level must be one of {', '.join(LEVELS)}.")
        tell_unknown(table, (*READERS["kinds"], "level", "contract"), f"kinds.{kind}.", problems)
    return tables
