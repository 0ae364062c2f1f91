"""The shield: wall time of a program behind it against the same program without, with walls as a run has them."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import measure
from measure import Row

from overhand.system.shield import Walls, plan_mounts, probe_shield, shield_words

_WHAT = "time that the shield adds to a run"
_BAR, _AIM = 0.040, 0.010


def rows(*, quick: bool) -> list[Row]:
    """Its record, checkout, settings and trees read-only, its tree and workspace writable, its supervisor hidden."""
    with measure.folder() as place:
        probe = probe_shield(str(place))
        if probe.how == "off":
            return [Row(_WHAT, "", "≤ 40 ms", "10 ms", meets_bar=False, meets_aim=None, note=probe.why)]
        plan = plan_mounts(_walls(place))
        assert not plan.why, plan.why
        program = ["/bin/true"]
        behind = [*shield_words(plan), *program]
        commands = (program, [*behind[:3], "-c", "pass"], behind)
        doings = [partial(measure.run, argv, place, dict(os.environ)) for argv in commands]
        for do in doings:
            do()
        times = measure.interleaved(41 if quick else 201, *doings)
    bare, python, shielded = (measure.median(seconds) for seconds in times)
    added = shielded - bare
    note = f"{len(plan.mounts)} mounts; of it {(python - bare) * 1e3:.1f} ms are the start of Python"
    return [Row(_WHAT, f"{added * 1e3:.1f} ms", "≤ 40 ms", "10 ms", added <= _BAR, added <= _AIM, note)]


def _walls(place: Path) -> Walls:
    project, state, settings = (str(place / name) for name in ("project", "state", "config"))
    tree, workspace = f"{state}/trees/mine", f"{project}/.agent-workspaces/mine"
    hidden = f"{state}/projects/p/supervisor"
    for path in (tree, workspace, hidden, settings):
        os.makedirs(path)
    return Walls((project, state, settings), (tree, workspace), (hidden,), tree)
