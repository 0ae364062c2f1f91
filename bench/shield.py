"""The shield: wall time of a program behind it against the same program without, with walls as a run has them."""

from __future__ import annotations

import os
import subprocess
from functools import partial
from pathlib import Path

import measure
from measure import Row

from overhand.runs import tree_snapshot
from overhand.system.shield import Walls, plan_mounts, probe_shield, shield_words

_WHAT = "time that the shield adds to a run"
_WITH_GIT = "the same, in a git repository"
_BAR, _AIM = 0.040, 0.010
_PROGRAM = ["/bin/true"]


def rows(*, quick: bool) -> list[Row]:
    """A run alone, and one before and after which git looks at the project, behind the shield as well."""
    with measure.folder() as place:
        probe = probe_shield(str(place))
        if probe.how == "off":
            return [Row(_WHAT, "", "≤ 40 ms", "10 ms", meets_bar=False, meets_aim=None, note=probe.why)]
        walls, rounds = _walls(place), 41 if quick else 201
        plan = plan_mounts(walls)
        assert not plan.why, plan.why
        behind = [*shield_words(plan), *_PROGRAM]
        commands = (_PROGRAM, [*behind[:3], "-c", "pass"], behind)
        doings = [partial(measure.run, argv, place, dict(os.environ)) for argv in commands]
        with_git = [partial(_run_with_git, walls, shielded=shielded) for shielded in (False, True)]
        for do in (*doings, *with_git):
            do()
        times = measure.interleaved(rounds, *doings, *with_git)
    bare, python, shielded, looked, both = (measure.median(seconds) for seconds in times)
    note = f"{len(plan.mounts)} mounts; of it {(python - bare) * 1e3:.1f} ms are the start of Python"
    more = f"git looks at the project before and after it, behind the shield too: {both * 1e3:.1f} ms in all"
    return [_row(_WHAT, shielded - bare, note), _row(_WITH_GIT, both - looked, more)]


def _row(what: str, added: float, note: str) -> Row:
    return Row(what, f"{added * 1e3:.1f} ms", "≤ 40 ms", "10 ms", added <= _BAR, added <= _AIM, note)


def _run_with_git(walls: Walls, *, shielded: bool) -> None:
    """As a run does it, with its walls planned anew each time."""
    project = walls.read_only[0]

    def enter() -> list[str]:
        return shield_words(plan_mounts(walls)) if shielded else []

    before = tree_snapshot(project, enter())
    measure.run([*enter(), *_PROGRAM], Path(project), dict(os.environ))
    assert tree_snapshot(project, enter()) == before is not None


def _walls(place: Path) -> Walls:
    """Its record, checkout, settings and trees read-only, its tree and workspace writable, its supervisor hidden."""
    project, state, settings = (str(place / name) for name in ("project", "state", "config"))
    tree, workspace = f"{state}/trees/mine", f"{project}/.agent-workspaces/mine"
    hidden = f"{state}/projects/p/supervisor"
    for path in (tree, workspace, hidden, settings):
        os.makedirs(path)
    subprocess.run(["git", "init", "-q", project], check=True)
    return Walls((project, state, settings), (tree, workspace), (hidden,), tree)
