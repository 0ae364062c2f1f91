"""A reviewer of performance: work that grows faster than the data."""

import ast
from collections.abc import Iterator

from finding import review


def look(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Lists and texts that are copied in every round of a loop."""
    if not isinstance(node, ast.For):
        return
    for inner in ast.walk(node):
        match inner:
            case ast.Compare(ops=[ast.NotIn() | ast.In()], comparators=[ast.Call(func=ast.Name(id="list"))]):
                yield "medium", "a list is made anew and searched in every round"
            case ast.Assign(value=ast.BinOp(left=ast.Name(), op=ast.Add(), right=ast.List())):
                yield "low", "a list is copied to add one element"


review(look, "AABC", metrics={"worst": "quadratic"})
