"""Finding and reading agent files: Markdown with YAML front matter."""

from __future__ import annotations

import hashlib
import os
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from overhand.agents import DRIVERS, LATER, REAL, Agent, driver
from overhand.documents.markdown import front_matter
from overhand.errors import AgentNotFound, BadInput
from overhand.policy import trust
from overhand.policy.config import FILES, Config, user_folder
from overhand.record import model
from overhand.system.files import read_file

if TYPE_CHECKING:
    from collections.abc import Mapping

HELD = ("claude", "acp")  # drivers whose agents ask before they act
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
    """Where agent files are looked for, the first wins."""
    return [*(f"{root}/{name}" for name in trust.AGENT_FOLDERS), os.path.join(user_folder(), "agents")]


def names(root: str) -> dict[str, str]:
    """Every agent's name and the file that defines it."""
    found: dict[str, str] = {}
    for folder in folders(root):
        try:
            entries = sorted(os.listdir(folder))
        except OSError:
            continue
        for entry in entries:
            if entry.endswith(".md"):
                found.setdefault(entry.removesuffix(".md"), f"{folder}/{entry}")
    return found


def find(root: str, name: str, config: Config) -> Agent:
    """The agent of this name."""
    known = names(root)
    if name not in known and name in REAL:
        told = tuple(f for f in FILES if os.path.lexists(f"{root}/{f}"))  # its options come from there
        if wrong := _unheld(name, config.drivers.get(name, {})):
            raise BadInput(f"[drivers.{name}]: {wrong[0]}", "Take them out, or write an agent file for another driver.")
        about = f"{name}, as it is installed here"
        told += tuple(trust.of_program(root, name))
        return Agent(name, name, options=config.drivers.get(name, {}), description=about, trusted_with=told)
    if name not in known:
        if name in LATER or name in DRIVERS:
            raise AgentNotFound(f"There is no agent file for {name}.", example_hint(root, name))
        near = get_close_matches(name, [*known, *REAL], 1)
        meant = f" Did you mean {near[0]}?" if near else ""
        raise AgentNotFound(f"There is no agent {name!r}.{meant}", "See them all: overhand agents", known=sorted(known))
    return load(root, name, known[name], config)


def example_hint(root: str, name: str) -> str:
    """How to make one."""
    return f"Write .overhand/agents/{name}.md; `overhand agents {name} --example` shows one." if root else ""


def default(root: str, config: Config) -> str:
    """The agent of a `delegate` without `--agent`."""
    return choose(root, config)[0]


def choose(root: str, config: Config) -> tuple[str, str]:
    """The configured agent, the only one there is, or a program that is installed; and why, where nobody said so."""
    if config.default_agent:
        return config.default_agent, ""
    known = sorted(names(root))
    if len(known) == 1:
        return known[0], ""
    from overhand.agents import installed

    if found := installed.choose():
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


def load(root: str, name: str, path: str, config: Config) -> Agent:
    """Read one agent file; every problem at once."""
    source = os.path.relpath(path, root) if path.startswith(root + os.sep) else path
    raw = read_file(path)
    if raw is None:
        raise BadInput(f"{source} is not a regular file.", "An agent file must not be a symbolic link.")
    header, body = front_matter(raw.decode("utf-8", "replace"))
    problems: list[str] = []
    keys = parse_yaml(header or "", source, problems)
    options = keys.get("overhand", {})
    if not isinstance(options, dict):
        problems.append("overhand: must be a mapping.")
        options = {}
    chosen = options.get("driver") or config.default_driver
    merged = {**config.drivers.get(str(chosen), {}), **options}
    if not model.is_name(name):
        problems.append(f"the file's name {name!r} is no agent name ([a-z][a-z0-9-]*).")
    if keys.get("name", name) != name:
        problems.append(f"name: {keys['name']!r} differs from the file's name.")
    if not chosen:
        problems.append("it names no driver (overhand.driver) and default_driver is not set.")
    elif chosen not in DRIVERS:
        problems.append(f"driver {chosen!r} is not available; this version has {', '.join(DRIVERS)}.")
    warnings: list[str] = []
    needs, gives = _requirements(keys.get("cdp", {}), warnings)
    inside = path.startswith(root + os.sep)
    agent = Agent(
        name=name,
        driver=str(chosen),
        source=source,
        trusted_with=(
            *(f for f in FILES if os.path.lexists(f"{root}/{f}")),
            *((source,) if inside else ()),
            *trust.of_program(root, str(chosen)),
        ),
        description=str(keys.get("description", "")),
        body=body.strip(),
        options=merged,
        capabilities=_words(keys.get("capabilities"), "capabilities", problems),
        needs=needs,
        gives=gives,
        digest=hashlib.sha256(raw).hexdigest(),
        warnings=tuple(warnings),
    )
    problems += [*_options(merged), *_unheld(str(chosen), merged)]
    if chosen in DRIVERS:
        problems += driver(str(chosen)).problems(agent)
    if problems:
        raise BadInput(f"{source}: " + " ".join(problems), f"Mend it, then look: overhand check {source}")
    return agent


def _options(options: dict[str, Any]) -> list[str]:
    """What is wrong with the part that every driver has."""
    switches = ("reentrant", "can_delegate", "control", "exclusive", "compacts", "mcp", "hooks")
    wrong = [
        f"overhand.{key} must be true or false." for key in switches if not isinstance(options.get(key, False), bool)
    ]
    if options.get("level", "full") not in model.LEVELS:
        wrong.append(f"overhand.level must be one of {', '.join(model.LEVELS)}.")
    if not model.is_limit_rule(options.get("on_limit", "pause")):
        wrong.append("overhand.on_limit must be `pause` or `switch:AGENT`.")
    try:
        model.duration(options.get("max_block", 0))
    except (TypeError, ValueError):
        wrong.append("overhand.max_block must be a duration, such as 30s.")
    return wrong


def _unheld(driver_name: str, options: Mapping[str, Any]) -> list[str]:
    """Patterns that nobody would see to: better none than ones that are not kept."""
    given = [key for key in ("allow", "deny") if options.get(key)]
    if driver_name in HELD or not given:
        return []
    return [f"{driver_name} cannot be held to {' and '.join(given)}; the drivers {' and '.join(HELD)} can."]


def parse_yaml(text: str, source: str, problems: list[str]) -> dict[str, Any]:
    """Front matter as a mapping; `no` and `on` stay words."""
    import yaml

    class Plain(yaml.SafeLoader):
        """Only true and false are booleans."""

    Plain.yaml_implicit_resolvers = {
        first: [(tag, regexp) for tag, regexp in found if tag != "tag:yaml.org,2002:bool" or first in "tTfF"]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    try:
        keys = yaml.load(text, Loader=Plain)  # noqa: S506 -- a subclass of SafeLoader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 2}" if mark else ""
        problems.append(f"the front matter is no YAML{where}: {getattr(error, 'problem', None) or 'cannot be read'}.")
        return {}
    except (ValueError, RecursionError) as error:
        problems.append(f"the front matter cannot be read: {error}.")
        return {}
    if keys is None:
        return {}
    if not isinstance(keys, dict):
        problems.append(f"the front matter of {source} is not a mapping.")
        return {}
    return keys


def _requirements(cdp: Any, warnings: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if not isinstance(cdp, dict):
        warnings.append("cdp: must be a mapping; it is ignored.")
        return (), ()
    return (
        _sections(cdp.get("input_requirements"), INPUT_WORDS, "input_requirements", warnings),
        _sections(cdp.get("output_includes"), OUTPUT_WORDS, "output_includes", warnings),
    )


def _words(value: Any, key: str, problems: list[str]) -> tuple[str, ...]:
    if value is None or isinstance(value, list):
        return tuple(str(word) for word in value or [])
    problems.append(f"{key} must be a list: [{value}].")
    return ()


def _sections(words: Any, known: dict[str, str], key: str, warnings: list[str]) -> tuple[str, ...]:
    found = []
    for word in _words(words, f"cdp.{key}", warnings):
        section = known.get(str(word).lower().replace("_", " ").strip())
        if section is None:
            warnings.append(f"cdp.{key}: {word!r} is not a section Overhand knows; it is ignored.")
        else:
            found.append(section)
    return tuple(dict.fromkeys(found))
