"""The supervisor looks at the timers of its plans while jobs take plans up and let them go."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from overhand import conducting

if TYPE_CHECKING:
    from collections.abc import Callable, ValuesView


class Timers(dict[str, float]):
    """A job of another thread has its turn in the middle of a look at them."""

    def __init__(self, at: float, job: Callable[[], None]) -> None:
        super().__init__(timeout=at)
        self.job = job

    def values(self) -> ValuesView[float]:  # type: ignore[override]
        self.job()
        return super().values()


def test_a_job_that_takes_up_another_plan_meanwhile_disturbs_nobody() -> None:
    boss = SimpleNamespace(plans={})

    def job() -> None:
        boss.plans["second"] = SimpleNamespace(timers={"timeout": 0.0})

    boss.plans["first"] = SimpleNamespace(timers=Timers(time.time() + 3600, job))
    assert conducting.due(cast("Any", boss)) > 0
    assert conducting.due(cast("Any", boss)) == 0
