"""Agent files: Markdown with YAML front matter, as in Claude Code; our settings are under `overhand:`.

This module doesn't know the drivers and what each needs: `agents/files.py` reads an agent file with it and adds that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from overhand.documents.markdown import front_matter
from overhand.documents.problems import Problem, by_line, warning, wrong
from overhand.documents.text import is_texts, unix_lines

_NAME = re.compile(r"[a-z][a-z0-9-]*")
_SURPRISES = ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp")
_COMMANDS = ("command", "start", "poll", "collect", "stop")
_SWITCHES = ("reentrant", "can_delegate", "control", "exclusive", "compacts", "mcp", "hooks")


@dataclass(frozen=True, slots=True)
class AgentFile:
    """An agent file as it was written: every key of its front matter, and the role prompt."""

    name: str
    fields: dict[str, Any] = field(default_factory=dict)
    prompt: str = ""
    yaml: str = ""

    @property
    def settings(self) -> dict[str, Any]:
        found = self.fields.get("overhand")
        return found if isinstance(found, dict) else {}

    def line(self, key: str) -> int:
        """The line number of a key in the file (front matter begins on line 2)."""
        pattern = re.compile(rf"[\s\{{,]*['\"]?{re.escape(key)}['\"]?\s*:")
        return next((number for number, line in enumerate(self.yaml.split("\n"), 2) if pattern.match(line)), 1)


def parse_agent_file(text: str, name: str = "") -> tuple[AgentFile | None, list[Problem]]:
    """An agent file and everything that is wrong with it; None without readable front matter.

    For a file in an agents folder, `name` is the name that its file name gives; the front matter may then omit it.
    """
    text = unix_lines(text)
    yaml, body = front_matter(text)
    if yaml is None:
        fix = "Begin with `---`, `name: …`, `---`."
        return None, [Problem("front-matter-missing", "The file has no front matter.", line=1, fix=fix)]
    try:
        fields = load_yaml(yaml)
    except ValueError as error:
        message, line = error.args
        fix = "Correct the YAML; quote values that hold `: ` or begin with `[`, `{` or `*`."
        return None, [wrong("front-matter-invalid", f"The front matter is not YAML: {message}.", line, fix)]
    if not isinstance(fields, dict) or not all(isinstance(key, str) for key in fields):
        message = "The front matter is not a mapping of names to values."
        return None, [wrong("front-matter-invalid", message, 1, "Write `name: value` lines.")]
    given = fields.get("name", name or None)
    found = AgentFile(given if isinstance(given, str) else "", fields, body.strip(), yaml)
    check = _Check(found)
    check.name(given, name)
    if not isinstance(fields.get("description", ""), str):
        check.bad("description", "description must be text.", "Quote it.")
    check.words("capabilities", fields.get("capabilities"))
    cdp = fields.get("cdp")
    if isinstance(cdp, dict):
        check.words("cdp.input_requirements", cdp.get("input_requirements"))
        check.words("cdp.output_includes", cdp.get("output_includes"))
    elif cdp is not None:
        check.bad("cdp", "cdp must be a mapping.", "Write `cdp: {version: 1.0}`.")
    check.settings(found.settings)
    if not isinstance(fields.get("overhand"), dict | None):
        check.bad("overhand", "overhand: must be a mapping.", "Write `overhand:` and indented `driver: …`.")
    if not found.prompt:
        line = text.count("\n") or 1
        fix = "Write below the front matter what the agent is for."
        check.problems.append(warning("agent-prompt-missing", "The agent has no role prompt.", line, fix))
    return found, by_line(check.problems)


def settings_problems(settings: dict[str, Any], found: AgentFile) -> list[Problem]:
    """The format errors in the `overhand:` settings, wherever they come from."""
    check = _Check(found)
    check.settings(settings)
    return check.problems


def load_yaml(text: str) -> object:
    """YAML with `yes`, `no`, `on`, `off` and dates as text; ValueError(message, line) if it is broken."""
    import yaml

    class Loader(yaml.SafeLoader):
        """The safe loader without the words of YAML 1.1 that surprise people."""

    Loader.yaml_implicit_resolvers = {
        first: [(tag, how) for tag, how in resolvers if tag not in _SURPRISES]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), list("tTfF")
    )
    try:
        return yaml.load(text, Loader)  # noqa: S506 -- a subclass of SafeLoader
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else None
        raise ValueError(error.problem or "it cannot be read", line) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ValueError(str(error).split("\n", 1)[0], None) from None


class _Check:
    """Collects the problems of fields, with their lines."""

    def __init__(self, found: AgentFile) -> None:
        self.line = found.line
        self.problems: list[Problem] = []

    def bad(self, key: str, message: str, fix: str) -> None:
        self.problems.append(wrong("agent-field", message, self.line(key.rsplit(".", 1)[-1]), fix))

    def name(self, name: object, of_file: str) -> None:
        """Check that the name can be typed, and that it matches the file name where that identifies the agent."""
        line = self.line("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            message = f"The name {name!r} is not of the form [a-z][a-z0-9-]*." if name else "The agent has no name."
            self.problems.append(wrong("agent-name", message, line, "Add `name: my-agent`."))
        elif of_file and name != of_file:
            message = f"The name {name!r} differs from the file's name."
            self.problems.append(wrong("agent-name", message, line, f"Write `name: {of_file}`."))

    def words(self, key: str, value: object) -> None:
        if value is not None and not is_texts(value):
            self.bad(key, f"{key} must be a list of strings.", f"Write `{key.rsplit('.', 1)[-1]}: [a, b]`.")

    def settings(self, ours: dict[str, Any]) -> None:
        """Check the format of each setting; a command is an argv, never a shell string."""
        if not isinstance(ours.get("driver", ""), str | None):
            self.bad("driver", "overhand.driver must be a name.", "Write `driver: command`.")
        for key in _COMMANDS:
            command = ours.get(key)
            if isinstance(command, str):
                words = ", ".join(f'"{word}"' for word in command.split())
                self.bad(key, f"{key} must be a list, not a shell string.", f"Write `{key}: [{words}]`.")
            elif command is not None and not (is_texts(command) and command):
                self.bad(key, f"{key} must be a list of strings.", f'Write `{key}: ["program", "argument"]`.')
        for key in _SWITCHES:
            if not isinstance(ours.get(key, False), bool):
                self.bad(key, f"overhand.{key} must be true or false.", f"Write `{key}: true`.")
