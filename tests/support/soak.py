"""What `make soak` runs: kill loops, real agents, servers. `make test` keeps one case of each kill loop.

A test that kills at every moment is cut into lots, each a parameter of it. The first lot belongs to `make test`, the
others to `make soak`, which takes a sample of them: `pytest -m soak --sample=SEED`. The same seed takes the same ones,
and without one all are taken.
"""

from __future__ import annotations

import random
import signal
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SHARE = 3  # one lot of three is taken
LOT = pytest.mark.soak(lot=True)
KILLS: Counter[str] = Counter()  # of this worker, by what was killed


def lots(values: int | Sequence[Any], *, kept: int = 1) -> list[Any]:
    """Parameters of which the first `kept` run in `make test` and the others in `make soak`."""
    every = range(values) if isinstance(values, int) else values
    return [*every[:kept], *(pytest.param(value, marks=LOT) for value in every[kept:])]


def variants(values: Iterable[Any], *, every: int) -> list[Any]:
    """Parameters of which one of `every` runs in `make test`, and all others in every `make soak`."""
    return [v if n % every == 0 else pytest.param(v, marks=pytest.mark.soak) for n, v in enumerate(values)]


def was_killed(code: int) -> bool:
    """Whether a process with this exit code was killed at the point where it was to be; counted for the summary."""
    assert code in (0, -signal.SIGKILL), code
    KILLS["at a chosen point"] += code != 0
    return code != 0


def left_out(items: Iterable[pytest.Item], seed: str) -> set[str]:
    """The ids of the lots that are not in the sample; of each test at least one is."""
    groups: dict[str, list[str]] = {}
    for item in items:
        mark = item.get_closest_marker("soak")
        if mark is not None and mark.kwargs.get("lot"):
            groups.setdefault(item.nodeid.partition("[")[0], []).append(item.nodeid)
    found: set[str] = set()
    for test, ids in groups.items():
        taken = random.Random(f"{seed} {test}").sample(sorted(ids), -(-len(ids) // SHARE))
        found.update(set(ids).difference(taken))
    return found
