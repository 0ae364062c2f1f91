"""What docs/map.md takes from the source: the packages, and the names that others use of each."""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src/overhand"


def contracts() -> list[dict[str, Any]]:
    """The import contracts of pyproject.toml."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return list(settings["tool"]["importlinter"]["contracts"])


def layers() -> list[list[str]]:
    """The packages from the top, as the import contract has them; those of one layer don't import each other."""
    (contract,) = [one for one in contracts() if one["id"] == "layers"]
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


def public(package: str) -> dict[str, list[str]]:
    """The public names of a package, by the module that defines them: what its `__init__` imports for type checkers."""
    found: dict[str, list[str]] = defaultdict(list)
    for node in ast.walk(_checked_part(package)):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(f"overhand.{package}."):
            found[str(node.module).removeprefix(f"overhand.{package}.")] += [one.name for one in node.names]
    return found


def lazy(package: str) -> dict[str, list[str]]:
    """The same as it is imported at run time; names that only annotations use are not among them."""
    for node in ast.walk(_tree(package)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "lazy_names":
            return {module: names.split() for module, names in ast.literal_eval(node.args[1]).items()}
    return {}


def used(package: str) -> set[str]:
    """What other packages import from it."""
    found = set()
    for path in SRC.rglob("*.py"):
        if path.relative_to(SRC).parts[0] != package:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module == f"overhand.{package}":
                    found |= {one.name for one in node.names}
    return found


def only_annotations(package: str, module: str) -> set[str]:
    """The names that a module defines for type checkers alone."""
    path = SRC / package / f"{module.replace('.', '/')}.py"
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            inside = ast.Module(node.body, [])  # what stands under `else` is there at run time
            return {one.id for one in ast.walk(inside) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    return set()


def _checked_part(package: str) -> ast.AST:
    """The block that only type checkers read."""
    blocks = [one for one in _tree(package).body if isinstance(one, ast.If)]
    return ast.Module(blocks[0].body, []) if blocks else ast.Module([], [])


def _tree(package: str) -> ast.Module:
    return ast.parse((SRC / package / "__init__.py").read_text(encoding="utf-8"))


def packages() -> str:
    """The table of packages."""
    rows = ["| package | what it is for | public names |", "|---|---|---|"]
    for name, about in purposes().items():
        is_package = (SRC / name).is_dir()
        names = public(name) if is_package else {}
        shown = "; ".join(f"{module}: {', '.join(sorted(names[module]))}" for module in sorted(names))
        rows.append(f"| `{name}{'/' if is_package else '.py'}` | {about} | {shown} |")
    return "\n".join(rows) + "\n"


def figures() -> str:
    """How large the source is."""
    files = list(SRC.rglob("*.py"))
    lines = sum(path.read_bytes().count(b"\n") for path in files)
    top = sum(path.name not in {"py.typed", "__pycache__"} for path in SRC.iterdir())
    rows = (("entries at the top of `src/overhand`", top), ("import layers", len(layers())), ("files", len(files)))
    about = f"lines, in thousands | {round(lines / 1000)}"
    return "| what | count |\n|---|---|\n" + "".join(f"| {w} | {n} |\n" for w, n in rows) + f"| {about} |\n"


PARTS: dict[str, Callable[[], str]] = {"packages": packages, "figures": figures}
