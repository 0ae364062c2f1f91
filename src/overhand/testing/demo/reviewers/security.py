"""A reviewer of security: what is run or stored that should not be."""

import ast
from collections.abc import Iterator

from finding import review


def look(node: ast.AST) -> Iterator[tuple[str, str]]:
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


review(look, "ABCD")
