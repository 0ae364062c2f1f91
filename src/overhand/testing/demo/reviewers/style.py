"""A reviewer of style: names, documentation, and errors that are swallowed."""

import ast
from collections.abc import Iterator

from finding import review


def look(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Functions without a docstring or with a name in another style, and a bare except."""
    match node:
        case ast.FunctionDef(name=name) if name != name.lower():
            yield "low", f"{name} is not written in small letters"
        case ast.FunctionDef(name=name) if ast.get_docstring(node) is None:
            yield "low", f"{name} has no docstring"
        case ast.ExceptHandler(type=None):
            yield "medium", "a bare except hides every error"


review(look, "AAAB")
