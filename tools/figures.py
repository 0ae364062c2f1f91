"""The size and shape of the source, as figures: `python tools/figures.py`."""

from __future__ import annotations

import ast
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import flow

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src/overhand"
EVENTS = SRC / "record/events.py"
# What the kernel keeps for this process, and what therefore has the lifetime of the process.
OF_THE_PROCESS = {
    "src/overhand/system/detached.py: _children": "the shims it started: until they are reaped, their pids stay theirs",
    "src/overhand/system/machine.py: _kernel": "boot id, machine id and pid namespace, which never change for it",
    "src/overhand/system/shield.py: _probed": "whether the kernel lets it put up a shield",
}
_MUTABLE = (ast.Dict, ast.List, ast.Set, ast.DictComp, ast.ListComp, ast.SetComp)
_MAKERS = {"dict", "list", "set", "deque", "defaultdict", "Counter", "OrderedDict", "local", "WeakValueDictionary"}


def files() -> list[Path]:
    """Every module of the package."""
    return sorted(SRC.rglob("*.py"))


def entries() -> int:
    """What lies at the top of the package, `py.typed` and caches left out."""
    return sum(path.name not in {"py.typed", "__pycache__"} for path in SRC.iterdir())


def layers() -> int:
    """The layers that the import contract names."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (contract,) = [one for one in settings["contracts"] if one["id"] == "layers"]
    return len(contract["layers"])


def event_literals() -> list[str]:
    """Dictionaries that are events, outside the file that defines them."""
    return [f"{path.relative_to(ROOT)}:{line}" for path in files() if path != EVENTS for line in _event_literals(path)]


def _event_literals(path: Path) -> Iterator[int]:
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Dict):
            for key in node.keys:
                if isinstance(key, ast.Constant) and key.value == "e":
                    yield node.lineno


def state_subscripts() -> list[str]:
    """Fields that are read by their name in quotes, `x["status"]` or `x.get("status")`, from a task, run or question.

    What holds one is known by its name, a variable or an attribute; rows of JSON have other names.
    """
    fields = _fields("record/task.py", {"Task", "Run", "Question"})
    names = {"state", "task", "run", "question", "ended", "child", "parent", "current", "asked"}
    return [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in files()
        for node in ast.walk(_tree(path))
        if (read := _quoted(node)) and _name(read[0]) in names and read[1] in fields
    ]


def _quoted(node: ast.AST) -> tuple[ast.expr, object] | None:
    """What is read from, and the constant that names the part."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return node.value, node.slice.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
        first = node.args[0]
        return (node.func.value, first.value) if isinstance(first, ast.Constant) else None
    return None


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _fields(module: str, classes: set[str]) -> set[str]:
    return {
        statement.target.id
        for node in ast.walk(_tree(SRC / module))
        if isinstance(node, ast.ClassDef) and node.name in classes
        for statement in node.body
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    }


def module_state() -> list[str]:
    """Module-level names that are bound to something mutable and are neither constants nor the kernel's."""
    found = [f"{path.relative_to(ROOT)}: {name}" for path in files() for name in _module_state(_tree(path))]
    return [name for name in found if name not in OF_THE_PROCESS]


def _module_state(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
        made = isinstance(value, ast.Call) and getattr(value.func, "id", getattr(value.func, "attr", "")) in _MAKERS
        for target in targets:
            if (
                isinstance(target, ast.Name)
                and not target.id.isupper()
                and target.id != "__all__"
                and (made or isinstance(value, _MUTABLE))
            ):
                yield target.id
    changed = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    yield from sorted(changed)


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def main() -> int:
    """Print each figure, and where the ones that should be 0 come from."""
    lines = sum(path.read_bytes().count(b"\n") for path in files())
    with tempfile.TemporaryDirectory() as place:
        ran = {path for path, _ in flow.trace(Path(place))}
    print(f"entries at the top of src/overhand: {entries()}")
    print(f"import layers: {layers()}")
    print(f"lines in src: {lines}, files: {len(files())}")
    print(f"modules run by delegate, wait, show: {len(ran)}")
    for what, found in (
        ("subscripts of a task, run or question", state_subscripts()),
        ("event literals outside the event file", event_literals()),
        ("module-level mutable names", module_state()),
        ("the same, for what the kernel keeps per process", [f"{n} ({why})" for n, why in OF_THE_PROCESS.items()]),
    ):
        print(f"{what}: {len(found)}")
        if "--where" in sys.argv:
            print(*(f"  {place}" for place in found), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
