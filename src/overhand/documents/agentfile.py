"""Agent files: Markdown with YAML front matter, as in Claude Code; our settings are under `overhand:`.

This module doesn't know the drivers and what each needs: `agents/files.py` reads an agent file with it and adds that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from overhand.documents.problems import Problem, by_line, warning, wrong
from overhand.documents.text import is_texts, unix_lines
from overhand.words import is_agent_name

_SURPRISES = ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp")
_COMMANDS = ("command", "start", "poll", "collect", "stop")
_SWITCHES = ("reentrant", "can_delegate", "control", "exclusive", "compacts", "mcp", "hooks")
_SETTINGS = (
    *_COMMANDS, *_SWITCHES, "driver", "every", "function", "level", "shield", "max_block", "on_limit", "hints",
    "repair", "program", "args", "model", "tools", "allow", "deny", "mode", "auth",
)  # fmt: skip
_SIGNS = ("name", "description", "overhand")  # a file with none of these keys is no agent
_KEY = re.compile(r"([A-Za-z_][\w-]*)[ \t]*:(?:[ \t]+(.*))?")
_RULE = re.compile(r"-{3,}|\.\.\.")


@dataclass(frozen=True, slots=True)
class AgentFile:
    """An agent file as it was written: every key of its front matter, and the role prompt."""

    name: str
    fields: dict[str, Any] = field(default_factory=dict)
    prompt: str = ""
    yaml: str = ""
    first: int = 2  # the number of the front matter's first line

    @property
    def settings(self) -> dict[str, Any]:
        found = self.fields.get("overhand")
        return found if isinstance(found, dict) else {}

    def line(self, key: str) -> int:
        """The line number of a key in the file."""
        pattern = re.compile(rf"[\s\{{,]*['\"]?{re.escape(key)}['\"]?\s*:")
        lines = enumerate(self.yaml.split("\n"), self.first)
        return next((number for number, line in lines if pattern.match(line)), self.first - 1)


def agent_name(text: str, file_name: str) -> str | None:
    """The name of the agent that a file in an agents folder describes; None if it describes none, like a README.

    Where the name is written plainly, no YAML is read: a folder may hold hundreds of files.
    """
    yaml, _, _ = _front_matter(unix_lines(text))
    if yaml is None:
        return None
    if is_agent_name(plain := _written_name(yaml)):
        return plain
    try:
        fields, _ = _fields(yaml)
    except ValueError:
        return file_name if any(line.startswith(_SIGNS) for line in yaml.split("\n")) else None
    if not any(sign in fields for sign in _SIGNS):
        return None
    return name if is_agent_name(name := _name(fields, yaml)) else file_name


def parse_agent_file(text: str, name: str = "") -> tuple[AgentFile | None, list[Problem]]:
    """An agent file and everything that is wrong with it; None without readable front matter.

    For a file in an agents folder, `name` is the name of the file; the front matter may then omit it.
    """
    text = unix_lines(text)
    yaml, body, first = _front_matter(text)
    if yaml is None:
        fix = "Begin with `---`, `name: …`, `---`."
        return None, [Problem("front-matter-missing", "The file has no front matter.", line=1, fix=fix)]
    try:
        fields, note = _fields(yaml)
    except ValueError as error:
        message, line = error.args
        fix = "Correct the YAML; quote values that hold `: ` or begin with `[`, `{` or `*`."
        at = line + first - 2 if line else first - 1
        return None, [wrong("front-matter-invalid", f"The front matter is not YAML: {message}.", at, fix)]
    if not all(isinstance(key, str) for key in fields) or (not fields and yaml.strip()):
        message = "The front matter is not a mapping of names to values."
        return None, [wrong("front-matter-invalid", message, first - 1, "Write `name: value` lines.")]
    given = _name(fields, yaml)
    found = AgentFile(given if is_agent_name(given) else name, fields, body.strip(), yaml, first)
    check = _Check(found)
    if note:
        message, line = note
        told = f"The front matter is not YAML ({message}); it was read line by line."
        fix = "Quote values that hold `: ` or begin with `[`, `{` or `*`."
        check.problems.append(warning("front-matter-lines", told, line and line + first - 2, fix))
    check.name(given, name)
    check.fields(fields)
    if not found.prompt:
        line = text.count("\n") or 1
        fix = "Write below the front matter what the agent is for."
        check.problems.append(warning("agent-prompt-missing", "The agent has no role prompt.", line, fix))
    return found, by_line(check.problems)


def _front_matter(text: str) -> tuple[str | None, str, int]:
    """The lines between the first two rules, what follows, and the number of its first line; blank lines may precede.

    Unlike other documents, an agent file may have anything there: descriptions hold headings and bold text.
    """
    begin = text.lstrip("\ufeff \t\n")
    lines = begin.split("\n")
    skipped = text[: len(text) - len(begin)].count("\n")
    if not _RULE.fullmatch(lines[0].rstrip()) or not lines[0].startswith("-"):
        return None, text, 1
    end = next((number for number, line in enumerate(lines) if number and _RULE.fullmatch(line.rstrip())), None)
    if end is None:
        return None, text, 1
    return "\n".join(lines[1:end]) + "\n", "\n".join(lines[end + 1 :]), skipped + 2


def _fields(yaml: str) -> tuple[dict[str, Any], tuple[str, int | None] | None]:
    """The keys of a front matter; and why it is no YAML, where it had to be read line by line.

    Raises ValueError(message, line) for what cannot be read so: the settings of Overhand must be YAML.
    """
    try:
        found = load_yaml(yaml)
        return (found if isinstance(found, dict) else {}), None
    except ValueError as error:
        message, line = error.args
        blocks: dict[str, list[str]] = {}
        block: list[str] = []
        for row in yaml.split("\n"):
            if key := _KEY.fullmatch(row):
                block = []
                blocks.setdefault(key[1], block)  # the first one counts: examples in a description repeat keys
            block.append(row)
        if not blocks:
            raise
        fields = {key: _field(key, rows, error) for key, rows in blocks.items()}
        return fields, (message, line)


def _field(key: str, rows: list[str], error: ValueError) -> object:
    """The value of one key: as YAML if it is, else as the text that stands there."""
    try:
        found = load_yaml("\n".join(rows))
        if isinstance(found, dict) and list(found) == [key]:
            return found[key]
    except ValueError:
        if key in ("overhand", "cdp"):
            raise error from None
    begin = rows[0].partition(":")[2]
    return _unquoted("\n".join(row.strip() for row in (begin, *rows[1:])).strip())


def _unquoted(text: str) -> str:
    """A plain value, without its quotes or the comment after it."""
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return re.sub(r"[ \t]+#.*", "", text)


def _name(fields: dict[str, Any], yaml: str) -> str:
    """The name in the file: as it is written, which may be a number, or what YAML makes of it."""
    plain, given = _written_name(yaml), fields.get("name")
    return plain if is_agent_name(plain) else given.strip() if isinstance(given, str) else plain


def _written_name(yaml: str) -> str:
    rows = (found for line in yaml.split("\n") if (found := _KEY.fullmatch(line)) and found[1] == "name")
    return next((_unquoted(row[2] or "") for row in rows), "")


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

    def name(self, name: str, of_file: str) -> None:
        """Check that the name can be typed; where it cannot, the name of the file counts."""
        if is_agent_name(name) or (not name and is_agent_name(of_file)):
            return
        line = self.line("name")
        if is_agent_name(of_file):
            message = f"The name {name!r} cannot be typed; the agent is called {of_file}, like its file."
            self.problems.append(warning("agent-name", message, line, f"Write `name: {of_file}`."))
            return
        message = "The agent has no name."
        if name or of_file:
            message = f"The name {name or of_file!r} is not of the form [A-Za-z0-9][A-Za-z0-9._-]*."
        self.problems.append(wrong("agent-name", message, line, "Add `name: my-agent`."))

    def fields(self, fields: dict[str, Any]) -> None:
        if not any(sign in fields for sign in _SIGNS):
            message = "The front matter has no name and no description, so this is no agent."
            self.problems.append(wrong("agent-field", message, 1, "Add `description: …`."))
        if not isinstance(fields.get("description", ""), str | None):
            line = self.line("description")
            self.problems.append(warning("agent-field", "description should be text.", line, "Quote it."))
        if not isinstance(fields.get("capabilities"), str):
            self.words("capabilities", fields.get("capabilities"))
        cdp = fields.get("cdp")
        if isinstance(cdp, dict):
            self.words("cdp.input_requirements", cdp.get("input_requirements"))
            self.words("cdp.output_includes", cdp.get("output_includes"))
        elif cdp is not None:
            self.bad("cdp", "cdp must be a mapping.", "Write `cdp: {version: 1.0}`.")
        ours = fields.get("overhand")
        if not isinstance(ours, dict | None):
            self.bad("overhand", "overhand: must be a mapping.", "Write `overhand:` and indented `driver: …`.")
        elif ours:
            self.known(ours)
            self.settings(ours)

    def known(self, ours: dict[str, Any]) -> None:
        """Keys below `overhand:` are ours; what stands beside it may be of any tool."""
        for key in (str(key) for key in ours if key not in _SETTINGS):
            near = get_close_matches(key, _SETTINGS, 1)
            meant = f" Did you mean {near[0]}?" if near else ""
            message = f"overhand.{key} is no setting of an agent, and is ignored.{meant}"
            fix = f"Write `{near[0]}`." if near else "Take it out, or write it beside `overhand:`."
            self.problems.append(warning("agent-field", message, self.line(key), fix))

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
