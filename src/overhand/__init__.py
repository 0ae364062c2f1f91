"""Overhand hands work to AI agents and brings a checked result back."""

from __future__ import annotations

__version__ = "0.1.0"
__all__ = ["Call", "Project", "Result", "Task", "__version__"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overhand.agents.drivers.function import Call
    from overhand.api.project import Project, Result, Task


def __getattr__(name: str) -> object:
    """Import the Python API only when somebody asks for it: every command starts here."""
    if name in ("Project", "Result", "Task"):
        from importlib import import_module

        return getattr(import_module("overhand.api.project"), name)
    if name == "Call":  # what a function agent is given
        from importlib import import_module

        return getattr(import_module("overhand.agents.drivers.function"), name)
    raise AttributeError(f"module 'overhand' has no attribute {name!r}")
