"""The demo's reviewers, `reviewer.py security|performance|style`: each reads some files and returns what it found."""

import ast
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path


def security(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Secrets in the source, SQL made of text, eval, and errors that are swallowed."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str())) if "PASSWORD" in name:
            yield "high", f"{name} stands in the source"
        case ast.Call(func=ast.Attribute(attr="execute"), args=[ast.JoinedStr(), *_]):
            yield "critical", "SQL is put together from text"
        case ast.Call(func=ast.Name(id="eval")):
            yield "critical", "eval runs whatever the data say"
        case ast.ExceptHandler(type=None):
            yield "medium", "a bare except hides every error"


def performance(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Lists and texts that are copied in every round of a loop."""
    if not isinstance(node, ast.For):
        return
    for inner in ast.walk(node):
        match inner:
            case ast.Compare(ops=[ast.NotIn() | ast.In()], comparators=[ast.Call(func=ast.Name(id="list"))]):
                yield "medium", "a list is made anew and searched in every round"
            case ast.Assign(value=ast.BinOp(left=ast.Name(), op=ast.Add(), right=ast.List())):
                yield "low", "a list is copied to add one element"


def style(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Functions without a docstring or with a name in another style, and a bare except."""
    match node:
        case ast.FunctionDef(name=name) if name != name.lower():
            yield "low", f"{name} is not written in small letters"
        case ast.FunctionDef(name=name) if ast.get_docstring(node) is None:
            yield "low", f"{name} has no docstring"
        case ast.ExceptHandler(type=None):
            yield "medium", "a bare except hides every error"


# which look, the grades from best to worst, and what the result has beside them
REVIEWS = {
    "security": (security, "ABCD", {}),
    "performance": (performance, "AABC", {"metrics": {"worst": "quadratic"}}),
    "style": (style, "AAAB", {}),
}


def main(kind: str) -> None:
    """Look at every node of every file; print the result as JSON."""
    look, grades, more = REVIEWS[kind]
    inputs = json.loads(Path(os.environ["OVERHAND_INPUTS"]).read_text(encoding="utf-8"))
    issues = []
    for path in sorted({path for pattern in inputs["files"] for path in Path().glob(pattern)}):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for severity, description in look(node):
                line = getattr(node, "lineno", 1)
                issues.append({"severity": severity, "file": str(path), "line": line, "description": description})
    bad = [one for one in issues if one["severity"] in ("high", "critical")]
    data = {
        "issues": issues,
        "passed": not bad,
        "grade": grades[min(len(issues), len(grades) - 1)],
        "summary": f"{len(issues)} issues of {inputs['focus']}, {len(bad)} of them grave.",
        **more,
    }
    json.dump({"status": "completed", "summary": data["summary"], "data": data}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
