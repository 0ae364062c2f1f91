"""Nothing below `.agent-workspaces` and `.overhand` is opened by its path, only through `Beneath`: it follows no link.

A call of a plain function is found if one of its arguments is such a path, or a name in the same function that got one.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import overhand

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(overhand.__file__).parent
PLAIN = {
    "open", "read_file", "read_named", "read_end", "write_file", "write_new", "put_file", "put_new", "second_name",
    "remove_file", "edit_file", "is_there", "names_in", "size_of", "is_held", "has_reader", "Lock", "ring_bells",
    "rmtree", "news.add", "_news.add", "os.open", "os.stat", "os.lstat", "os.listdir", "os.scandir", "os.walk",
    "os.access", "os.mkdir", "os.makedirs", "os.rename", "os.replace", "os.unlink", "os.remove", "os.rmdir",
    "os.link", "os.symlink", "os.mkfifo", "os.chmod", "os.path.exists", "os.path.lexists", "os.path.isfile",
    "os.path.isdir", "os.path.getsize", "os.path.getmtime", "shutil.rmtree", "shutil.copy", "shutil.copyfile",
    "shutil.copytree", "shutil.move",
}  # fmt: skip
PATH_METHODS = {"workspace", "desk", "shown"}  # called, they return such a path
PATH_FIELDS = {"workspace", "desk", "workspaces"}
OURS = (".agent-workspaces", ".overhand")
FOR_USERS = "testing"  # writes projects for the tests of others, in which no agent has been yet
ONLY_ASK = {
    "agents/drivers/codex.py",
    "record/identity.py",
}  # whether `.overhand` is a folder, no more


def name_of(function: ast.expr) -> str:
    """`a.b.c` of a call, without a leading `self.`."""
    if isinstance(function, ast.Attribute):
        before = name_of(function.value)
        return f"{before}.{function.attr}" if before and before != "self" else function.attr
    return function.id if isinstance(function, ast.Name) else ""


def leads_there(value: ast.AST, known: set[str]) -> bool:
    """Whether an expression has a path below our folders in it; the result of another call is none."""
    if isinstance(value, ast.Call):
        if isinstance(value.func, ast.Attribute) and value.func.attr in PATH_METHODS:
            return True
        return name_of(value.func) in ("os.path.join", "str", "os.fsencode") and any(
            leads_there(one, known) for one in value.args
        )
    if isinstance(value, ast.Constant):
        return isinstance(value.value, str) and value.value.lstrip("/").startswith(OURS)
    if isinstance(value, ast.Attribute):
        return value.attr in PATH_FIELDS
    if isinstance(value, ast.Name):
        return value.id in known
    if isinstance(value, ast.Compare | ast.Subscript | ast.Lambda):
        return False
    return any(leads_there(one, known) for one in ast.iter_child_nodes(value))


def found_in(text: str) -> Iterator[int]:
    """The lines of calls that open such a path."""
    tree = ast.parse(text)
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        known: set[str] = set()
        for _ in range(2):  # a name may get its path from a later line, in a loop
            for node in ast.walk(function):
                targets: list[ast.expr] = []
                if isinstance(node, ast.Assign):
                    targets, value = node.targets, node.value
                elif isinstance(node, ast.NamedExpr | ast.AnnAssign) and node.value is not None:
                    targets, value = [node.target], node.value
                elif isinstance(node, ast.For | ast.comprehension):
                    targets, value = [node.target], node.iter
                for target in targets:
                    known |= set(gets_path(target, value, known))
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and name_of(node.func) in PLAIN:
                given = [*node.args, *(word.value for word in node.keywords)]
                yield from [node.lineno] if any(leads_there(one, known) for one in given) else []


def gets_path(target: ast.expr, value: ast.expr, known: set[str]) -> Iterator[str]:
    """The names in a target that get a path; of two tuples, each from its own."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for one, other in zip(target.elts, value.elts, strict=True):
            yield from gets_path(one, other, known)
    elif leads_there(value, known):
        yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


@pytest.mark.parametrize(
    "line",
    [
        'read_file(f"{store.workspace(task)}/HANDOFF.md")',
        'path = f"{self.store.desk(task, run)}/OUTPUT.md"\n    write_file(path, b"x")',
        "for path in watch.folders.desk, other:\n        os.stat(path)",
        'place, desk = folders.place, folders.desk\n    with open(f"{desk}/x") as file: pass',
        'os.listdir(os.path.join(root, ".overhand/agents"))',
        'shutil.rmtree(f"{store.workspaces}/{task}")',
        'read_file(files.shown("HANDOFF.md"))',
        'any(os.path.exists(p) for p in (f"{store.workspace(task)}/x", y))',
    ],
)
def test_such_a_call_is_found(line: str) -> None:
    assert list(found_in(f"def some(store, folders):\n    {line}\n"))


@pytest.mark.parametrize(
    "line",
    [
        'store.workspace_files(task).read("HANDOFF.md")',
        'place, desk = folders.place, folders.desk\n    read_file(f"{place}/spec.json")',
        'shown = store.relative(store.workspace(task))\n    write_file(f"{store.own}/x", shown)',
        'read_file(f"{store.record(task)}/HANDOFF.md")',
    ],
)
def test_another_call_is_not(line: str) -> None:
    assert not list(found_in(f"def some(store, folders):\n    {line}\n"))


def test_nothing_of_ours_in_a_project_is_opened_by_its_path() -> None:
    files = {str(path.relative_to(SOURCE)): path.read_text() for path in SOURCE.rglob("*.py")}
    ours = {name: text for name, text in files.items() if not name.startswith(FOR_USERS) and name not in ONLY_ASK}
    assert len(ours) > 150
    found = [f"{name}:{line}" for name, text in ours.items() for line in found_in(text)]
    assert all(len(list(found_in(files[name]))) == 1 for name in ONLY_ASK)
    assert not found, f"Use Beneath (store.workspace_files, folders.desk_files): {', '.join(found)}"
