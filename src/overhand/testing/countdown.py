"""A process that kills itself at its Nth kill point: there is one before and one after every visible write.

Functions are wrapped only in that process, which does one thing and dies.
"""

from __future__ import annotations

import os
import signal
import sys
from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Countdown:
    """The number of kill points that are left."""

    def __init__(self, left: int) -> None:
        self.left = left

    def point(self) -> None:
        """Pass a kill point, at which the process may die."""
        if self.left == 0:
            self.die()
        self.left -= 1

    def die(self) -> None:
        """Die by SIGKILL, which nothing can catch."""
        os.kill(os.getpid(), signal.SIGKILL)

    def between(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, with a kill point before and after it."""

        def wrapped(*args: Any, **options: Any) -> Any:
            self.point()
            value = call(*args, **options)
            self.point()
            return value

        return wraps(call)(wrapped)

    def everywhere(self, call: Callable[..., Any], wrap: Callable[..., Any] | None = None) -> None:
        """Wrap this function, in kill points unless told otherwise, wherever a module of ours has it by name."""
        wrapped, name = (wrap or self.between)(call), call.__name__
        for module in [one for key, one in sys.modules.items() if key.startswith("overhand.")]:
            if vars(module).get(name) is call:
                setattr(module, name, wrapped)
