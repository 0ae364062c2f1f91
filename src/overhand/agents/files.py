"""Finding and reading agent files: Markdown with YAML front matter."""

from __future__ import annotations

import hashlib
import os
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from overhand.agents.driver import Agent, Driver, all_drivers, driver_names, installable, lookup
from overhand.documents import (
    AgentFile,
    Problem,
    agent_name,
    by_line,
    decode_text,
    parse_agent_file,
    settings_problems,
    warning,
    wrong,
)
from overhand.errors import AgentNotFound, BadInput, ToolMissing
from overhand.policy import Config, existing_files, read_project_file, settings_files, user_folder
from overhand.system import MAX_DOCUMENT, Beneath, names_in, read_file
from overhand.words import LEVELS, SHIELDS, duration, is_limit_rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    DriverFiles = dict[str, tuple[str, ...]]  # what several agents have in common, by a word for it

FOLDER = ".overhand/agents"
_DEPTH = 6  # folders below one another
_HEAD = 16384  # bytes of a file in which its front matter usually ends
PLAN_FOLDER = ".overhand/plans"
PLAN_SUFFIXES = (".yaml", ".yml", ".json")  # suffixes of plan files
_NO_MODEL = ("inherit", "default")
_TOLD = ("agent-field", "agent-name")  # warnings that whoever delegates to it sees
# words of `cdp` requirements, and the sections they mean
INPUT_WORDS = {
    "task": "task", "task description": "task", "description": "task", "context": "context",
    "key files": "key_files", "files": "key_files", "constraints": "constraints",
    "deliverables": "deliverables", "expected deliverables": "deliverables",
    "return requirements": "return_requirements", "plan": "plan", "contract": "contract",
}  # fmt: skip
OUTPUT_WORDS = {
    "summary": "summary", "deliverables": "deliverables", "decisions": "decisions", "decisions made": "decisions",
    "for primary": "for_primary", "files modified": "files_modified", "files": "files_modified", "data": "data",
    "duration": "duration", "agent": "agent",
}  # fmt: skip


def folders(root: str) -> dict[str, str]:
    """The folders with agent files, the one with precedence first, and the driver of those that a program has."""
    found = {f"{root}/{FOLDER}": ""}
    for driver in driver_names():  # a program called x has its own in .x/agents, and they are agents here, too
        for folder in (f"{root}/.{driver}/agents", f"{root}/.{driver}/agent"):
            if os.path.isdir(folder) and (its := lookup(driver)) and its.program:
                found[folder] = driver
    return {**found, _own_folder(): ""}


def _own_folder() -> str:
    return os.path.join(user_folder(), "agents")


def agent_files(root: str) -> dict[str, str]:
    """Every agent's name and the file that defines it."""
    found: dict[str, str] = {}
    for name, path in every_agent_file(root):
        found.setdefault(name, path)
    return found


def every_agent_file(root: str) -> Iterator[tuple[str, str]]:
    """The name and file of every agent, the file with precedence first: several may have the same name."""
    for folder in folders(root):
        for path in _files(root, folder):
            if (name := _name_of(root, f"{folder}/{path}")) is not None:
                yield name, f"{folder}/{path}"


def _files(root: str, folder: str, inside: str = "", depth: int = 0) -> Iterator[str]:
    """The Markdown files in a folder and then in those below it, which collections use as groups."""
    names = sorted(name for name in _names(root, f"{folder}/{inside}".rstrip("/")) if not name.startswith("."))
    for name in names:
        if name.lower().endswith(".md"):
            yield inside + name
    for name in names if depth < _DEPTH else ():
        if not name.lower().endswith(".md") and name != "node_modules":
            yield from _files(root, folder, f"{inside}{name}/", depth + 1)


def _names(root: str, folder: str) -> list[str]:
    """The names in a folder of files; no link leads to one of Overhand's own."""
    name = folder.removeprefix(f"{root}/")
    return Beneath(root).names(name) if name.startswith(".overhand/") else names_in(folder)


def _name_of(root: str, path: str) -> str | None:
    """The name of the agent that a file describes; of one that cannot be read, the file's own."""
    raw = _content(root, path, _HEAD)
    if raw is None:
        return _stem(path)
    text = decode_text(raw)[0]
    if len(raw) > _HEAD and "\n---" not in text:  # its front matter is longer
        text = decode_text(_content(root, path) or b"")[0]
    return agent_name(text, _stem(path))


def _stem(path: str) -> str:
    return os.path.basename(path)[: -len(".md")]


def _content(root: str, path: str, limit: int = MAX_DOCUMENT) -> bytes | None:
    source = path.removeprefix(f"{root}/")
    return read_project_file(root, source, limit) if source != path else read_file(path, limit)


def runnable_files(root: str) -> list[str]:
    """Everything in the project that can make Overhand run something, relative to the root."""
    inside = f"{root}/"
    found = [*settings_files(root), *(path.removeprefix(inside) for _, path in every_agent_file(root))]
    found = [name for name in found if not os.path.isabs(name)]
    names = _names(root, f"{root}/{PLAN_FOLDER}")
    found += [f"{PLAN_FOLDER}/{name}" for name in sorted(names) if name.endswith(PLAN_SUFFIXES)]
    return list(dict.fromkeys([*found, *program_files(root, *all_drivers().values())]))


def program_files(root: str, *drivers: Driver) -> list[str]:
    """The project's own files from which the programs of these drivers would run something."""
    if any(driver.runs_any for driver in drivers):
        drivers = tuple(all_drivers().values())
    names = dict.fromkeys(name for driver in drivers for name in driver.project_files)
    return existing_files(root, names, {name for driver in drivers for name in driver.personal_files})


def find_agent(root: str, name: str, config: Config) -> Agent:
    known = agent_files(root)
    if name in known:
        agent = load_agent(root, known[name], config)
        if not agent.driver:
            hint = f"See how: overhand agents. Or name a driver in {agent.source}."
            raise ToolMissing(f"No coding agent is installed that could run {name}.", hint)
        return agent
    driver = lookup(name)
    if driver and driver.program:
        options = config.drivers.get(name, {})
        if problem := _unheld(name, options):
            raise BadInput(f"[drivers.{name}]: {problem}", "Take them out, or write an agent file for another driver.")
        about = f"{name}, as it is installed here"
        trusted_with = (*settings_files(root), *program_files(root, driver))  # the settings define its options
        return Agent(name, name, options=options, description=about, trusted_with=trusted_with)
    if driver:
        hint = f"Write .overhand/agents/{name}.md; `overhand agents {name} --example` shows one." if root else ""
        raise AgentNotFound(f"There is no agent file for {name}.", hint)
    if path := next((path for path in _all_paths(root) if _stem(path) == name), None):
        agent = load_agent(root, path, config)  # raises if it describes no agent, and says why
        what = f"There is no agent {name!r}: {agent.source} describes {agent.name}."
        raise AgentNotFound(what, f"Name that one: --agent {agent.name}", known=sorted(known))
    near = get_close_matches(name, [*known, *installable()], 1)
    meant = f" Did you mean {near[0]}?" if near else ""
    raise AgentNotFound(f"There is no agent {name!r}.{meant}", "See them all: overhand agents", known=sorted(known))


def _all_paths(root: str) -> Iterator[str]:
    return (f"{folder}/{path}" for folder in folders(root) for path in _files(root, folder))


def default_agent(root: str, config: Config) -> str:
    """The agent of a `delegate` without `--agent`."""
    return choose_agent(root, config)[0]


def choose_agent(root: str, config: Config) -> tuple[str, str]:
    """The configured agent, the only one there is, or an installed program; and why, unless it is configured."""
    if config.default_agent:
        return config.default_agent, ""
    ours = tuple(folder for folder, program in folders(root).items() if not program)
    known = sorted({name for name, path in every_agent_file(root) if path.startswith(ours)})
    if len(known) == 1:
        return known[0], ""
    from overhand.agents import programs

    if found := programs.choose():
        return found
    known = known or sorted(agent_files(root))
    if len(known) == 1:
        return known[0], ""
    if known:
        some = ", ".join(known[:8]) + (f" and {len(known) - 8} more" if len(known) > 8 else "")
        raise BadInput(
            f"Which agent? There are {some}.", "Name one with --agent, or set default_agent in .overhand/config.toml"
        )
    raise AgentNotFound(
        "There is no agent yet.",
        "Install a coding agent, or write .overhand/agents/NAME.md; overhand agents says how.",
    )


def load_agent(root: str, path: str, config: Config, drivers: DriverFiles | None = None) -> Agent:
    """Read one agent file; raises with all problems at once."""
    source = path.removeprefix(f"{root}/")
    raw = _content(root, path)
    if raw is None:
        raise BadInput(f"{source} is not a regular file.", "An agent file must not be a symbolic link.")
    agent, problems = read_agent(root, _stem(path), raw, config, source, drivers)
    if errors := [problem.message for problem in problems if problem.level == "error"]:
        raise BadInput(f"{source}: " + " ".join(errors), f"Mend it, then look: overhand check {source}")
    return agent


def read_agent(
    root: str, name: str, raw: bytes, config: Config, source: str, drivers: DriverFiles | None = None
) -> tuple[Agent, list[Problem]]:
    """The agent that a file of this name describes, and everything that is wrong with the file.

    Whoever reads many passes `drivers`, where what is the same for all is kept.
    """
    drivers = {} if drivers is None else drivers
    text, problems = decode_text(raw)
    found, more = parse_agent_file(text, name)
    problems += more
    found = found or AgentFile(name)
    chosen = found.settings.get("driver") or _driver(root, source, config, drivers)
    driver = lookup(chosen) if isinstance(chosen, str) else None
    base = {key: value for key, value in config.drivers.get(str(chosen), {}).items() if key != "shield"}
    needs, gives = _requirements(found, problems)
    words = _own_words(found, str(chosen), driver, problems)
    agent = Agent(
        name=found.name or name,
        driver=str(chosen),
        source=source,
        trusted_with=(
            *_shared(drivers, "settings", lambda: settings_files(root)),
            *((source,) if not os.path.isabs(source) else ()),
            *(_shared(drivers, f"of {chosen}", lambda: program_files(root, driver)) if driver else ()),
        ),
        description=str(found.fields.get("description") or ""),
        body=found.prompt,
        options={**base, **words, **found.settings},
        capabilities=_words(found.fields.get("capabilities")),
        needs=needs,
        gives=gives,
        digest=hashlib.sha256(raw).hexdigest(),
        warnings=tuple(one.message for one in problems if one.level == "warning" and one.code in _TOLD),
    )
    problems += settings_problems({k: v for k, v in base.items() if k not in found.settings}, found)
    for key, message, fix in _settings_problems(agent, driver):
        problems.append(wrong("agent-field", message, found.line(key), fix))
    return agent, by_line(problems)


def _shared(known: DriverFiles, key: str, find: Callable[[], Sequence[str]]) -> tuple[str, ...]:
    if key not in known:
        known[key] = tuple(find())
    return known[key]


def _driver(root: str, source: str, config: Config, known: DriverFiles) -> str:
    """What runs a file that names no driver: the program whose folder it is in, the default, or what is installed."""
    path = source if os.path.isabs(source) else f"{root}/{source}"
    if own := next((driver for folder, driver in folders(root).items() if path.startswith(f"{folder}/")), ""):
        return own
    if config.default_driver:
        return config.default_driver
    from overhand.agents import programs

    return next(iter(_shared(known, "installed", lambda: programs.choose() or ())), "")


def _own_words(found: AgentFile, name: str, driver: Driver | None, problems: list[Problem]) -> dict[str, Any]:
    """The model and the tools that the file gives its program; they may be another program's words."""
    words: dict[str, Any] = {}
    model, tools = found.fields.get("model"), found.fields.get("tools")
    if driver is None or not driver.program:
        return words
    if isinstance(model, str) and driver.own_model(model):
        words["model"] = model
    elif model not in (None, "", *_NO_MODEL) and "model" not in found.settings:
        message = f"model: {model!r} is no model of {name}, which takes its own."
        fix = "Write `overhand:` and indented `model: …`."
        problems.append(warning("agent-field", message, found.line("model"), fix))
    if tools not in (None, "", "*", ["*"]):
        words["tools"] = tools
        if not driver.takes_tools:
            message = f"{name} cannot be limited to the tools that the file names."
            fix = "Write `overhand:` and indented `level: read` for one that only reads."
            problems.append(warning("agent-field", message, found.line("tools"), fix))
    return words


def _settings_problems(agent: Agent, driver: Driver | None) -> Iterator[tuple[str, str, str]]:
    """What is wrong with the values under `overhand:`: the key, a message, and the fix."""
    options, name = agent.options, agent.driver
    if name and driver is None:
        message = f"driver {name!r} is not available; this version has {', '.join(all_drivers())}."
        yield "driver", message, "Use one of them."
    for key in driver.commands if driver else ():
        if options.get(key) is None:
            yield "driver", f"The driver {name} needs a {key}.", f'Add `{key}: ["program", "argument"]`.'
    if str(options.get("level", "full")) not in LEVELS:
        yield "level", f"overhand.level must be one of {', '.join(LEVELS)}.", "Write `level: work`."
    if str(options.get("shield", "auto")) not in SHIELDS:
        yield "shield", f"overhand.shield must be one of {', '.join(SHIELDS)}.", "Write `shield: require`."
    if not is_limit_rule(options.get("on_limit", "pause")):
        yield "on_limit", "overhand.on_limit must be `pause` or `switch:AGENT`.", "Write `on_limit: pause`."
    try:
        duration(options.get("max_block", 0))
    except (TypeError, ValueError):
        yield "max_block", "overhand.max_block must be a duration, such as 30s.", "Write `max_block: 30s`."
    if unheld := _unheld(name, options):
        yield next(key for key in ("allow", "deny") if options.get(key)), unheld, "Take them out."
    for message in driver.problems(agent) if driver else ():
        key = message.partition(" ")[0].removeprefix("overhand.")
        yield key, message, f"See `{key}` on the reference page."


def _unheld(name: str, options: Mapping[str, Any]) -> str:
    """The problem with patterns that the driver can't enforce: none are better than unenforced ones."""
    given = [key for key in ("allow", "deny") if options.get(key)]
    driver = lookup(name)
    if not given or driver is None or driver.asks:
        return ""
    able = " and ".join(name for name, driver in all_drivers().items() if driver.asks)
    return f"{name} cannot be held to {' and '.join(given)}; the drivers {able} can."


def _requirements(found: AgentFile, problems: list[Problem]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The sections that `cdp` requires; unknown words are skipped."""
    given = found.fields.get("cdp")
    cdp = given if isinstance(given, dict) else {}
    sections: list[tuple[str, ...]] = []
    for key, known in (("input_requirements", INPUT_WORDS), ("output_includes", OUTPUT_WORDS)):
        meant = {word: known.get(word.lower().replace("_", " ").strip()) for word in _words(cdp.get(key))}
        for word in (word for word, section in meant.items() if section is None):
            message = f"cdp.{key}: {word!r} is not a section Overhand knows; it is ignored."
            problems.append(warning("agent-field", message, found.line(key), f"Use one of {', '.join(known)}."))
        sections.append(tuple(dict.fromkeys(section for section in meant.values() if section)))
    return sections[0], sections[1]


def _words(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [word.strip() for word in value.split(",") if word.strip()]
    return tuple(str(word) for word in value) if isinstance(value, list) else ()
