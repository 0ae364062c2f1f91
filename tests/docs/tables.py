"""The parts of docs/reference.md that come from the code: `make docs` writes them, a test compares them.

python tests/docs/tables.py        writes docs/reference.md anew
"""

from __future__ import annotations

import inspect
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from overhand import config, control, errors, judge, model
from overhand.agents import command
from overhand.agents import files as agent_files
from overhand.agents.function import Call
from overhand.cli import helps
from overhand.documents import problems
from overhand.testing import agent as scripted
from overhand.verbs.table import ALIASES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

REFERENCE = Path(__file__).parents[2] / "docs/reference.md"
_PART = re.compile(r"(<!-- generated: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table."""
    shown = [[str(cell).replace("|", "\\|") for cell in row] for row in (heads, *rows)]
    shown.insert(1, ["---"] * len(shown[0]))
    return "".join(f"| {' | '.join(row)} |\n" for row in shown)


def sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].rstrip('.')}."


def verbs() -> str:
    return helps.reference().removeprefix("## Verbs\n\n")


def aliases() -> str:
    return table(("Name", "Means"), [(f"`{name}`", f"`{' '.join(words)}`") for name, words in sorted(ALIASES.items())])


def settings() -> str:
    rows = [
        (f"`{name}`", f"`{json.dumps(default)}`", sentence(about)) for name, (default, about) in config.SETTINGS.items()
    ]
    return table(("Setting", "Default", "Meaning"), rows)


def kinds() -> str:
    rows = []
    for name, (time, longest, level) in {**model.KINDS, "": model.NO_KIND}.items():
        contract = config.Config().kind(name or None).contract
        shown = f"`{name}`" if name else "any other, or none"
        rows.append((shown, model.say_duration(time), model.say_duration(longest), level, contract or ""))
    return table(("Kind", "Time", "Longest", "Level", "Contract"), rows)


def statuses() -> str:
    return table(("Status", "Meaning"), [(f"`{name}`", sentence(about)) for name, about in model.STATUSES.items()])


def problem_codes() -> str:
    return table(("Code", "Meaning"), [(f"`{code}`", sentence(about)) for code, about in problems.CODES.items()])


def verdict_codes() -> str:
    return table(("Code", "Meaning"), [(f"`{code}`", sentence(about)) for code, about in judge.CODES.items()])


def control_codes() -> str:
    return table(("Code", "Meaning"), [(f"`{code}`", sentence(about)) for code, about in control.CODES.items()])


def error_codes() -> str:
    """Every error that `--json` can name, by exit status."""
    found = [one for _, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, errors.OverhandError)]
    rows = sorted((one.exit_status, f"`{one.code}`", f"`{one.__name__}`") for one in found)
    return table(("Exit status", "Code", "In Python (`overhand.errors`)"), rows)


def schemas() -> str:
    names = sorted(path.name for path in files("overhand.schemas").iterdir() if path.name.endswith(".json"))
    rows = [(f"`{name}`", json.loads((files("overhand.schemas") / name).read_text())["title"]) for name in names]
    return table(("File", "What it describes"), rows)


def placeholders() -> str:
    return ", ".join(f"`{{{name}}}`" for name in command.PLACEHOLDERS) + "\n"


def requirement_words() -> str:
    rows = [
        ("`input_requirements`", ", ".join(f"`{word}`" for word in agent_files.INPUT_WORDS)),
        ("`output_includes`", ", ".join(f"`{word}`" for word in agent_files.OUTPUT_WORDS)),
    ]
    return table(("Key", "Words"), rows)


def call_fields() -> str:
    fields = dict(Call.__annotations__)
    fields |= {name: "Path" for name, value in vars(Call).items() if isinstance(value, property)}
    return table(("Field", "Type"), [(f"`call.{name}`", f"`{kind}`") for name, kind in fields.items()])


def scripted_agent() -> str:
    return f"```text\n{(scripted.__doc__ or '').strip()}\n```\n"


PARTS: dict[str, Callable[[], str]] = {
    "verbs": verbs,
    "aliases": aliases,
    "settings": settings,
    "kinds": kinds,
    "statuses": statuses,
    "problem-codes": problem_codes,
    "verdict-codes": verdict_codes,
    "control-codes": control_codes,
    "error-codes": error_codes,
    "schemas": schemas,
    "placeholders": placeholders,
    "requirement-words": requirement_words,
    "call-fields": call_fields,
    "scripted-agent": scripted_agent,
}


def renewed(page: str) -> str:
    """The page with every generated part as the code has it now."""
    return _PART.sub(lambda found: f"{found[1]}{PARTS[found[2]]().rstrip()}\n{found[3]}", page)


def parts_of(page: str) -> list[str]:
    """The names of the generated parts of a page."""
    return [found[2] for found in _PART.finditer(page)]


if __name__ == "__main__":
    REFERENCE.write_text(renewed(REFERENCE.read_text(encoding="utf-8")), encoding="utf-8")
