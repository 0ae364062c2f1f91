"""What docs/map.md takes from the source: the packages, and the names that others use of each."""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src/overhand"


def layers() -> list[list[str]]:
    """The packages from the top, as the import contract has them; those of one layer don't import each other."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (contract,) = [one for one in settings["contracts"] if one["type"] == "layers"]
    return [[name.strip("() ") for name in layer.replace(":", "|").split("|")] for layer in contract["layers"]]


def purposes() -> dict[str, str]:
    """What each package or module of the top is for: the first sentence of its docstring."""
    found = {}
    for layer in layers():
        for name in layer:
            path = SRC / name / "__init__.py" if (SRC / name).is_dir() else SRC / f"{name}.py"
            text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            found[name] = text.split("\n\n")[0].replace("\n", " ")
    return found


def public() -> dict[str, set[str]]:
    """By package, what other packages use of it, as `module.name`."""
    modules = {_module(path): path for path in SRC.rglob("*.py")}
    defined = {module: _defined(path) for module, path in modules.items()}
    found: dict[str, set[str]] = defaultdict(set)

    def note(here: str, module: str, name: str) -> None:
        package = module.split(".")[1] if "." in module else ""
        if package and package != [*here.split("."), ""][1]:
            found[package].add(f"{module.partition('.')[2].partition('.')[2]}.{name}".lstrip("."))

    for here, path in modules.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "overhand":
                for one in node.names:
                    whole = f"{node.module}.{one.name}"
                    if whole in modules:
                        imported[one.asname or one.name] = whole
                    else:
                        note(here, str(node.module), one.name)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
                module = imported[node.value.id]
                if node.attr in defined[module]:  # else a variable has the module's name here
                    note(here, module, node.attr)
    return found


def _defined(path: Path) -> set[str]:
    """The names that a module gives at its top level."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}
    return found


def _module(path: Path) -> str:
    parts = path.relative_to(SRC.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def packages() -> str:
    """The table of packages."""
    rows = ["| package | what it is for | what others use |", "|---|---|---|"]
    about, used = purposes(), public()
    for layer in layers():
        for name in layer:
            by_module: dict[str, list[str]] = defaultdict(list)
            for whole in sorted(used.get(name, ())):
                module, _, last = whole.rpartition(".")
                by_module[module].append(last)
            shown = "; ".join(f"{m + ': ' if m else ''}{', '.join(names)}" for m, names in sorted(by_module.items()))
            is_package = (SRC / name).is_dir()
            rows.append(f"| `{name}{'/' if is_package else '.py'}` | {about[name]} | {shown if is_package else ''} |")
    return "\n".join(rows) + "\n"


def figures() -> str:
    """How large the source is."""
    files = list(SRC.rglob("*.py"))
    lines = sum(path.read_bytes().count(b"\n") for path in files)
    top = sum(path.name not in {"py.typed", "__pycache__"} for path in SRC.iterdir())
    rows = (("entries at the top of `src/overhand`", top), ("import layers", len(layers())), ("files", len(files)))
    about = f"lines, rounded to hundreds | {round(lines, -2):,}"
    return "| what | count |\n|---|---|\n" + "".join(f"| {w} | {n} |\n" for w, n in rows) + f"| {about} |\n"


PARTS: dict[str, Callable[[], str]] = {"packages": packages, "figures": figures}
