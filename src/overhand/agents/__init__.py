"""Agents: a name for something that can be run. Each driver is one module of `agents/drivers`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overhand.agents.driver import (
        Agent,
        Driver,
        Job,
        Launch,
        all_drivers,
        driver_names,
        find_driver,
        installable,
        lookup,
        translator,
    )

__all__ = [
    "Agent",
    "Driver",
    "Job",
    "Launch",
    "all_drivers",
    "driver_names",
    "find_driver",
    "installable",
    "lookup",
    "translator",
]


def __getattr__(name: str) -> object:
    """Import the names that other packages use on first access."""
    if name in __all__:
        from overhand.agents import driver

        return getattr(driver, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
