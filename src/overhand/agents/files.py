"""Finding and reading agent files: Markdown with YAML front matter."""

from __future__ import annotations

import hashlib
import os
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from overhand.agents.driver import Agent, Driver, all_drivers, installable, lookup
from overhand.documents import (
    AgentFile,
    Problem,
    by_line,
    decode_text,
    parse_agent_file,
    settings_problems,
    warning,
    wrong,
)
from overhand.errors import AgentNotFound, BadInput
from overhand.policy import Config, existing_files, read_project_file, settings_files, user_folder
from overhand.system import Beneath, names_in, read_file
from overhand.words import LEVELS, SHIELDS, duration, is_limit_rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FOLDERS = (".overhand/agents", ".claude/agents")  # Claude Code's agent files are agents here, too
PLAN_FOLDER = ".overhand/plans"
PLAN_SUFFIXES = (".yaml", ".yml", ".json")  # suffixes of plan files
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


def folders(root: str) -> list[str]:
    """The folders with agent files, the one with precedence first."""
    return [*(f"{root}/{name}" for name in FOLDERS), os.path.join(user_folder(), "agents")]


def agent_files(root: str) -> dict[str, str]:
    """Every agent's name and the file that defines it."""
    found: dict[str, str] = {}
    for folder in folders(root):
        for entry in sorted(_names(root, folder)):
            if entry.endswith(".md"):
                found.setdefault(entry.removesuffix(".md"), f"{folder}/{entry}")
    return found


def _names(root: str, folder: str) -> list[str]:
    """The names in a folder of files; no link leads to one of Overhand's own."""
    name = folder.removeprefix(f"{root}/")
    return Beneath(root).names(name) if name.startswith(".overhand/") else names_in(folder)


def runnable_files(root: str) -> list[str]:
    """Everything in the project that can make Overhand run something, relative to the root."""
    found = settings_files(root)
    for folder, ends in (*((folder, (".md",)) for folder in FOLDERS), (PLAN_FOLDER, PLAN_SUFFIXES)):
        names = _names(root, f"{root}/{folder}")
        found += [f"{folder}/{name}" for name in sorted(names) if name.endswith(ends)]
    return [*found, *program_files(root, *all_drivers().values())]


def program_files(root: str, *drivers: Driver) -> list[str]:
    """The project's own files from which the programs of these drivers would run something."""
    if any(driver.runs_any for driver in drivers):
        drivers = tuple(all_drivers().values())
    names = dict.fromkeys(name for driver in drivers for name in driver.project_files)
    return existing_files(root, names, {name for driver in drivers for name in driver.personal_files})


def find_agent(root: str, name: str, config: Config) -> Agent:
    known = agent_files(root)
    if name in known:
        return load_agent(root, name, known[name], config)
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
    near = get_close_matches(name, [*known, *installable()], 1)
    meant = f" Did you mean {near[0]}?" if near else ""
    raise AgentNotFound(f"There is no agent {name!r}.{meant}", "See them all: overhand agents", known=sorted(known))


def default_agent(root: str, config: Config) -> str:
    """The agent of a `delegate` without `--agent`."""
    return choose_agent(root, config)[0]


def choose_agent(root: str, config: Config) -> tuple[str, str]:
    """The configured agent, the only one there is, or an installed program; and why, unless it is configured."""
    if config.default_agent:
        return config.default_agent, ""
    known = sorted(agent_files(root))
    if len(known) == 1:
        return known[0], ""
    from overhand.agents import programs

    if found := programs.choose():
        return found
    if not known:
        raise AgentNotFound(
            "There is no agent yet.",
            "Install a coding agent, or write .overhand/agents/NAME.md; overhand agents says how.",
        )
    raise BadInput(
        f"Which agent? There are {', '.join(known)}.",
        "Name one with --agent, or set default_agent in .overhand/config.toml",
    )


def load_agent(root: str, name: str, path: str, config: Config) -> Agent:
    """Read one agent file; raises with all problems at once."""
    source = os.path.relpath(path, root) if path.startswith(root + os.sep) else path
    raw = read_project_file(root, source) if source != path else read_file(path)
    if raw is None:
        raise BadInput(f"{source} is not a regular file.", "An agent file must not be a symbolic link.")
    agent, problems = read_agent(root, name, raw, config, source)
    if errors := [problem.message for problem in problems if problem.level == "error"]:
        raise BadInput(f"{source}: " + " ".join(errors), f"Mend it, then look: overhand check {source}")
    return agent


def read_agent(root: str, name: str, raw: bytes, config: Config, source: str) -> tuple[Agent, list[Problem]]:
    """The agent that a file of this name describes, and everything that is wrong with the file."""
    text, problems = decode_text(raw)
    found, more = parse_agent_file(text, name)
    problems += more
    found = found or AgentFile(name)
    chosen = found.settings.get("driver") or config.default_driver
    driver = lookup(chosen) if isinstance(chosen, str) else None
    base = {key: value for key, value in config.drivers.get(str(chosen), {}).items() if key != "shield"}
    needs, gives = _requirements(found, problems)
    agent = Agent(
        name=name,
        driver=str(chosen),
        source=source,
        trusted_with=(
            *settings_files(root),
            *((source,) if not os.path.isabs(source) else ()),
            *(program_files(root, driver) if driver else ()),
        ),
        description=str(found.fields.get("description", "")),
        body=found.prompt,
        options={**base, **found.settings},
        capabilities=_words(found.fields.get("capabilities")),
        needs=needs,
        gives=gives,
        digest=hashlib.sha256(raw).hexdigest(),
        warnings=tuple(one.message for one in problems if one.level == "warning" and one.code == "agent-field"),
    )
    problems += settings_problems({k: v for k, v in base.items() if k not in found.settings}, found)
    for key, message, fix in _settings_problems(agent, driver):
        problems.append(wrong("agent-field", message, found.line(key), fix))
    return agent, by_line(problems)


def _settings_problems(agent: Agent, driver: Driver | None) -> Iterator[tuple[str, str, str]]:
    """What is wrong with the values under `overhand:`: the key, a message, and the fix."""
    options, name = agent.options, agent.driver
    if not name:
        message = "it names no driver (overhand.driver) and default_driver is not set."
        yield "overhand", message, "Write `overhand:` and indented `driver: command`."
    elif driver is None:
        message = f"driver {name!r} is not available; this version has {', '.join(all_drivers())}."
        yield "driver", message, "Use one of them."
    for key in driver.commands if driver else ():
        if options.get(key) is None:
            yield "driver", f"The driver {name} needs a {key}.", f'Add `{key}: ["program", "argument"]`.'
    if options.get("level", "full") not in LEVELS:
        yield "level", f"overhand.level must be one of {', '.join(LEVELS)}.", "Write `level: work`."
    if options.get("shield", "auto") not in SHIELDS:
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
    return tuple(str(word) for word in value) if isinstance(value, list) else ()
