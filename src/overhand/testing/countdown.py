"""A process that kills itself at its Nth moment: every write that a successor can see has one before and one behind it.

What is wrapped is wrapped in that process only, which does one thing and dies.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Countdown:
    """So many moments are left."""

    def __init__(self, left: int) -> None:
        self.left = left

    def point(self) -> None:
        """One more moment at which the process may die."""
        if self.left == 0:
            self.die()
        self.left -= 1

    def die(self) -> None:
        """As nobody can prevent it."""
        os.kill(os.getpid(), signal.SIGKILL)

    def between(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, with a moment before and behind it."""

        def wrapped(*args: Any, **options: Any) -> Any:
            self.point()
            value = call(*args, **options)
            self.point()
            return value

        return wrapped

    def everywhere(self, call: Callable[..., Any]) -> None:
        """The same for every module of ours that has this function by its name."""
        wrapped, name = self.between(call), call.__name__
        for module in [one for key, one in sys.modules.items() if key.startswith("overhand.")]:
            if vars(module).get(name) is call:
                setattr(module, name, wrapped)
