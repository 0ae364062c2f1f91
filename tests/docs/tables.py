"""The parts of the pages that come from the code and from the tests: `make docs` writes them, a test compares them.

PYTHONPATH=tests python -m docs.tables        writes docs/reference.md, docs/guide/agents.md and docs/map.md anew
"""

from __future__ import annotations

import inspect
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from agents import works
from docs import mapped
from overhand import errors
from overhand.agents import Call, installable
from overhand.agents import files as agent_files
from overhand.agents.drivers import command
from overhand.api import Project, Task
from overhand.cli import parse
from overhand.contracts import data
from overhand.documents import problems
from overhand.documents.control import lines
from overhand.plans import NODE_STATES, check, merge
from overhand.policy import Config
from overhand.policy.settings import KINDS, NO_KIND, SETTINGS
from overhand.runs import judge
from overhand.testing import agent as scripted
from overhand.verbs import ALIASES, doctor, plan_view
from overhand.words import STATUSES, say_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

REFERENCE = Path(__file__).parents[2] / "docs/reference.md"
AGENTS = Path(__file__).parents[2] / "docs/guide/agents.md"
MAP = Path(__file__).parents[2] / "docs/map.md"
_PART = re.compile(r"(<!-- generated: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table."""
    shown = [[str(cell).replace("|", "\\|") for cell in row] for row in (heads, *rows)]
    shown.insert(1, ["---"] * len(shown[0]))
    return "".join(f"| {' | '.join(row)} |\n" for row in shown)


def sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].rstrip('.')}."


def verbs() -> str:
    return parse.reference().removeprefix("## Verbs\n\n")


def aliases() -> str:
    return table(("Name", "Means"), [(f"`{name}`", f"`{' '.join(words)}`") for name, words in sorted(ALIASES.items())])


def settings() -> str:
    rows = [(f"`{name}`", f"`{json.dumps(default)}`", sentence(about)) for name, (default, about) in SETTINGS.items()]
    return table(("Setting", "Default", "Meaning"), rows)


def kinds() -> str:
    rows = []
    for name, (time, longest, level) in {**KINDS, "": NO_KIND}.items():
        contract = Config().kind(name or None).contract
        shown = f"`{name}`" if name else "any other, or none"
        rows.append((shown, say_duration(time), say_duration(longest), level, contract or ""))
    return table(("Kind", "Time", "Longest", "Level", "Contract"), rows)


def routes() -> str:
    rows = [(f"`{one.kind}`", f"{one.priority:g}", f"`{one.mode}`") for one in Config().routes.values()]
    return table(("Kind", "Priority", "Mode"), rows)


def statuses() -> str:
    return table(("Status", "Meaning"), [(f"`{name}`", sentence(about)) for name, about in STATUSES.items()])


def problem_codes() -> str:
    return table(("Code", "Meaning"), [(f"`{code}`", sentence(about)) for code, about in problems.CODES.items()])


def doctor_codes() -> str:
    return table(("Code", "Meaning"), [(f"`{code}`", sentence(about)) for code, about in doctor.CODES.items()])


def verdict_codes() -> str:
    return table(("Code", "Meaning"), [(f"`{code}`", sentence(about)) for code, about in judge.CODES.items()])


def control_codes() -> str:
    return table(("Code", "Meaning"), [(f"`{code}`", sentence(about)) for code, about in lines.CODES.items()])


def plan_codes() -> str:
    known = {**check.CODES, **data.CODES, **merge.CODES}
    return table(("Code", "Meaning"), [(f"`{code}`", sentence(about)) for code, about in known.items()])


def plan_states() -> str:
    rows = [(f"`{plan_view.WORDS[name]}`", sentence(about)) for name, about in NODE_STATES.items()]
    return table(("State", "Meaning"), rows)


def error_codes() -> str:
    """Every error that `--json` can name, by exit status."""
    found = [one for _, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, errors.OverhandError)]
    rows = sorted((one.exit_status, f"`{one.code}`", f"`{one.__name__}`") for one in found)
    return table(("Exit status", "Code", "In Python (`overhand.errors`)"), rows)


def schemas() -> str:
    names = sorted(path.name for path in files("overhand.documents.schemas").iterdir() if path.name.endswith(".json"))
    rows = [
        (f"`{name}`", json.loads((files("overhand.documents.schemas") / name).read_text())["title"]) for name in names
    ]
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
    fields = {name: kind for name, kind in Call.__annotations__.items() if not name.startswith("_")}
    fields |= {
        name: value.fget.__annotations__["return"] for name, value in vars(Call).items() if isinstance(value, property)
    }
    rows = [(f"`call.{name}`", f"`{kind}`") for name, kind in fields.items()]
    for name in ("ask", "ask_async"):
        given = inspect.signature(getattr(Call, name), eval_str=False)
        words = ", ".join(str(one).split(":")[0] + _default(one) for one in list(given.parameters.values())[1:])
        rows.append((f"`call.{name}({words})`", f"`{given.return_annotation}`"))
    return table(("Field", "Type"), rows)


def python_names() -> str:
    """What a project and a task can do, from Python."""
    rows = []
    for kind, name in ((Project, "project"), (Task, "task")):
        for called, value in vars(kind).items():
            if called.startswith("_") or not (value.__doc__ or ""):
                continue
            told = " ".join(value.__doc__.split()).replace("`@p.agent", "`@project.agent")
            rows.append((f"`{name}.{called}{_words(value)}`", told))
    return table(("Name", "What it does"), rows)


def _words(value: object) -> str:
    """How it is called; nothing for what is only read."""
    if isinstance(value, property):
        return ""
    given = list(inspect.signature(value).parameters.values())[1:]  # type: ignore[arg-type]
    marks: dict[object, str] = {inspect.Parameter.VAR_KEYWORD: "**", inspect.Parameter.VAR_POSITIONAL: "*"}
    return f"({', '.join(f'{marks.get(one.kind, str())}{one.name}{_default(one)}' for one in given)})"


def _default(one: inspect.Parameter) -> str:
    return "" if one.default is inspect.Parameter.empty else f"={one.default!r}"


def scripted_agent() -> str:
    return f"```text\n{(scripted.__doc__ or '').strip()}\n```\n"


# of docs/guide/agents.md


def agent_programs() -> str:
    """What is driven, how it is installed, and how one logs in."""
    rows = [
        (driver.title, f"`{name}`", f"`{driver.install}`", _as_code(driver.login.command if driver.login else ""))
        for name, driver in installable().items()
    ]
    return table(("Agent", "Name", "Install", "Log in"), rows)


def _as_code(told: str) -> str:
    """`claude, then /login` with its command as code."""
    typed, comma, rest = told.partition(", ")
    return f"`{typed}`{comma}{rest}"


def what_works() -> str:
    """The table that the tests have filled, and what they ran."""
    known = json.loads(works.WORKS.read_text(encoding="utf-8"))
    rows = [
        (about[0].upper() + about[1:], *(_cell(known["cases"][case][agent]) for agent in works.AGENTS))
        for case, about in works.CASES.items()
    ]
    ran = [f"{full} {known['versions'][name]}" for name, full in works.AGENTS.items()]
    ran += [f"{name} {known['pins'][name].rpartition('@')[2]}" for name in works.ADAPTERS.values()]
    return table(("Case", *works.AGENTS.values()), rows) + f"\nMade with {', '.join(ran)}.\n"


def _cell(words: Iterable[str]) -> str:
    return ", ".join(sorted(words, key=lambda word: word == "ACP"))


GUIDE_PARTS: dict[str, Callable[[], str]] = {"programs": agent_programs, "works": what_works}
PARTS: dict[str, Callable[[], str]] = {
    "verbs": verbs,
    "aliases": aliases,
    "settings": settings,
    "kinds": kinds,
    "routes": routes,
    "statuses": statuses,
    "problem-codes": problem_codes,
    "verdict-codes": verdict_codes,
    "doctor-codes": doctor_codes,
    "control-codes": control_codes,
    "plan-codes": plan_codes,
    "plan-states": plan_states,
    "error-codes": error_codes,
    "schemas": schemas,
    "placeholders": placeholders,
    "requirement-words": requirement_words,
    "python-names": python_names,
    "call-fields": call_fields,
    "scripted-agent": scripted_agent,
}


def renewed(page: str, parts: dict[str, Callable[[], str]] = PARTS) -> str:
    """The page with every generated part as it is now."""
    return _PART.sub(lambda found: f"{found[1]}{parts[found[2]]().rstrip()}\n{found[3]}", page)


def parts_of(page: str) -> list[str]:
    """The names of the generated parts of a page."""
    return [found[2] for found in _PART.finditer(page)]


if __name__ == "__main__":
    for place, parts in ((REFERENCE, PARTS), (AGENTS, GUIDE_PARTS), (MAP, mapped.PARTS)):
        place.write_text(renewed(place.read_text(encoding="utf-8"), parts), encoding="utf-8")
