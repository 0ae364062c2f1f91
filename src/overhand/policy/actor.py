"""The actor: which store, settings, name and environment an action uses. The first argument of every action."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from overhand.policy import config as configs
from overhand.record import Store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from overhand.policy.config import Config
    from overhand.record import By, Task


@dataclass(frozen=True, slots=True)
class Actor:
    """The store, the settings, the name that goes into the log, and the environment of what is started."""

    store: Store
    config: Config
    by: By
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    sync_results: bool = True  # False in a batch, which syncs its results to disk together
    spare: frozenset[int] = frozenset()  # processes that are never members of a run: the supervisor

    def config_of(self, task: Task) -> Config:
        """The settings in force for this task."""
        return configs.config_of_task(self.store.root, self.config, task.settings)
