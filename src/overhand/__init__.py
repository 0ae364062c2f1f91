"""Overhand hands work to AI agents and brings a checked result back."""

from __future__ import annotations

import sys

__version__ = "0.1.0"
__all__ = ["Call", "Project", "Result", "Task", "__version__"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from overhand.agents import Call
    from overhand.api import Project, Result, Task


def lazy_names(package: str, modules: dict[str, str]) -> Callable[[str], object]:
    """A package's `__getattr__`, which imports the module of a public name on first use: no command pays for others."""
    where = {name: module for module, names in modules.items() for name in names.split()}

    def find(name: str) -> object:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found: object = getattr(__import__(f"{package}.{where[name]}", fromlist=[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    return find


if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, {"agents": "Call", "api": "Project Result Task"})
