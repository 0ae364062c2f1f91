"""The shield of a run: which folders its program and its checks cannot write, and what is recorded and said about it.

docs/security.md says what holds and what stays open.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from overhand.agents import lookup
from overhand.documents import promises_files
from overhand.errors import NotShielded
from overhand.policy import user_folder
from overhand.system import (
    Plan,
    Walls,
    plan_mounts,
    probe_shield,
    repository_of,
    shield_facts,
    shield_words,
    wanted_shield,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from overhand.agents import Agent
    from overhand.documents import Handoff
    from overhand.policy import Actor, Config
    from overhand.record import Run, Store, Task

_TURNED_OFF = "the setting `shield` is off"
_OPENED = "you opened it on your terminal"
_IN_PROCESS = "a function in your own Python process can't be shielded"
_NOT_STARTED = 'echo "overhand: not started, because the shield would not hold: $0" >&2; exit 126'


class Shield(NamedTuple):
    """How a run is shielded: what is recorded about it, and what stands before its program's arguments."""

    facts: dict[str, Any] | None = None
    enter: tuple[str, ...] = ()

    @property
    def keeps_project(self) -> bool:
        """Whether the whole project is read-only, but for the workspace."""
        return is_project_kept(self.facts)


NO_SHIELD = Shield()


def shield_setting(config: Config, agent: Agent, settings: Mapping[str, Any]) -> str:
    """`off`, `auto` or `require`: as the user wants it for this task, agent or at all; a project can only raise it.

    What a shielded run delegates must be shielded too.
    """
    if settings.get("shielded"):
        return "require"
    own = settings.get("shield") or (agent.shield if not agent.is_of_project else None) or config.shield
    return wanted_shield(own, config.least_shield, agent.shield if agent.is_of_project else None)


def may_only_read(level: str, handoff: Handoff) -> bool:
    """Whether the whole project is read-only for a run: its level says so, and it promises no file."""
    return level == "read" and not promises_files(handoff)


def is_project_kept(facts: Mapping[str, Any] | None) -> bool:
    """Whether the project is read-only behind a shield of which these are the facts."""
    return "project" in (facts or {}).get("read_only", ())


def shield_run(actor: Actor, agent: Agent, task: Task, *, read_only: bool, opened: bool = False) -> Shield:
    """The shield of the task's next run; raises NotShielded where it is required and would not hold.

    A session that a person opens on a terminal has none unless it is required: no supervisor answers its verbs.
    """
    store, setting = actor.store, shield_setting(actor.config, agent, task.settings)
    if setting == "off":
        return Shield({"held": False, "why": _TURNED_OFF})
    if setting == "auto" and opened:
        return Shield({"held": False, "why": _OPENED})
    probe = probe_shield(_state(store))
    walls, names = walls_of(store, store.workspace(task.id), read_only=read_only, tree=_tree_of(task))
    plan = plan_mounts(walls) if probe.how != "off" else Plan((), walls.cwd)
    facts = shield_facts(probe, plan, names, actor.env)
    if facts["held"]:
        return Shield(facts, tuple(shield_words(plan, probe.bwrap)))
    if setting == "require":
        raise refusal(facts["why"], is_child=bool(task.settings.get("shielded")))
    return Shield(facts)


def _state(store: Store) -> str:
    """The user's folder of all records."""
    return os.path.dirname(os.path.dirname(store.home))


def _tree_of(task: Task) -> str:
    return task.tree.path if task.tree else ""


def walls_of(
    store: Store, *writable: str, read_only: bool, tree: str = "", make: bool = True
) -> tuple[Walls, list[str]]:
    """The walls around a program that works for this project, and names for them; `read_only`: the project is.

    So it is for one that works in a tree, and so are the trees of other tasks. Folders that are missing and could be
    made from inside are made before, so that they can be protected.
    """
    root, git = store.root, _git_folder(store.root)
    read_only = read_only or bool(tree)
    if _is_in(os.path.realpath(os.path.expanduser("~")), root):
        read_only = False  # its programs need their own folders there
    found = {"record": _state(store), "settings and trust": user_folder()}
    if tree:
        found["other trees"] = os.path.dirname(tree)
        found |= {"hooks of its tree": f"{tree}/.git/hooks"} if os.path.isdir(f"{tree}/.git") else {}
        writable = (*writable, tree)
    if read_only:
        found["your checkout" if tree else "project"] = root
    else:
        found |= {"other tasks": store.workspaces, ".overhand": f"{root}/.overhand"}
    if git and not (read_only and _is_in(git, root)):
        found["git hooks"] = f"{git}/hooks"
    found["Overhand itself"] = _installation(root)
    protected = {name: path for name, path in found.items() if path and _is_there(path, make=make)}
    rest = () if read_only else (root,)
    return Walls(tuple(protected.values()), (*writable, *rest), (store.own,), tree or root), list(protected)


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _git_folder(folder: str) -> str:
    """The `.git` of the repository around a folder; empty if there is none, or if it is elsewhere."""
    while not os.path.isdir(f"{folder}/.git"):
        above = os.path.dirname(folder)
        if above == folder:
            return ""
        folder = above
    return f"{folder}/.git"


def _is_there(folder: str, *, make: bool) -> bool:
    """Whether this is a folder now; one that can't be made here can't be made from inside either."""
    if make and not os.path.isdir(folder):
        try:
            os.makedirs(folder, 0o700 if folder == user_folder() else 0o777, exist_ok=True)
        except OSError:
            return False
    return os.path.isdir(folder)


def _installation(root: str) -> str:
    """The folder of our own code, if the user can write it and doesn't work on it."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return package if os.access(package, os.W_OK) and not _is_in(package, root) else ""


def enter_checks(store: Store, tree: str = "") -> tuple[str, ...]:
    """What stands before a check of a shielded run: the walls of level `work`, with the workspace read-only.

    At level `read`, too, checks may write what they build in the project; the run could not change what they execute.
    """
    return _enter(store, walls_of(store, read_only=False, tree=tree)[0])


def _enter(store: Store, walls: Walls) -> tuple[str, ...]:
    plan, bwrap = plan_mounts(walls), probe_shield(_state(store)).bwrap
    return ("/bin/sh", "-c", _NOT_STARTED, plan.why) if plan.why else tuple(shield_words(plan, bwrap))


def enter_git(store: Store, *, shielded: bool) -> tuple[str, ...]:
    """What stands before a git that looks at what a shielded run wrote: filters of the user's may run, and a run can
    write to the user's configuration. Git LFS keeps what it converts in a folder of its own.
    """
    if not shielded or repository_of(store.root) is None:
        return ()
    kept = f"{_git_folder(store.root)}/lfs"
    writable = (kept,) if os.path.isdir(kept) and not os.path.islink(kept) else ()
    return _enter(store, walls_of(store, *writable, read_only=True)[0])


def enter_tree_git(store: Store, task: Task, ours: str) -> tuple[str, ...]:
    """The same for a task with a tree: git reads its files, and writes to the git dir of ours only."""
    return _enter(store, walls_of(store, ours, read_only=True, tree=_tree_of(task))[0])


# saying


def refusal(why: str, *, is_child: bool = False) -> NotShielded:
    """The refusal to run without a shield."""
    if is_child:
        what = f"The run that delegates this is shielded, and this one could not be: {why}."
        return NotShielded(what, "Do it in the run itself.")
    return NotShielded(
        f"A shield is required, and there is none here: {why}.",
        'Look at the cause: overhand doctor; or allow runs without one: shield = "auto" where it says "require".',
    )


def expected_shield(store: Store, config: Config, agent: Agent, task: Task, handoff: Handoff) -> dict[str, Any]:
    """What is expected of the shield of a task that was just accepted; its first run may find out more."""
    setting = shield_setting(config, agent, task.settings)
    if setting == "off":
        return {"held": False, "why": _TURNED_OFF}
    probe = probe_shield(_state(store), anew=False)
    names = walls_of(store, read_only=task.begins is not None or may_only_read(task.level, handoff))[1]
    if task.begins is not None:  # its tree is not there yet
        names = ["your checkout" if name == "project" else name for name in names]
    return shield_facts(probe, Plan((), store.root), names, os.environ)


def require_shield(store: Store, config: Config, agent: Agent, settings: Mapping[str, Any]) -> None:
    """Refuse a task that must be shielded on a machine that can't do it."""
    if shield_setting(config, agent, settings) == "require":
        probe = probe_shield(_state(store))
        if probe.how == "off":
            raise refusal(probe.why, is_child=bool(settings.get("shielded")))


def require_no_shield(config: Config, agent: Agent, task: Task) -> None:
    """Refuse to run a function in this process where a shield is required; inside a shielded run it has one."""
    if not task.settings.get("shielded") and shield_setting(config, agent, task.settings) == "require":
        raise refusal(_IN_PROCESS)


def unshielded(run: Run, level: str) -> dict[str, Any]:
    """Why a run was not shielded, and what its program has instead."""
    facts = run.shield or {"held": False, "why": _IN_PROCESS}
    driver = lookup(run.driver)
    return {**facts, "instead": driver.sandbox} if driver and driver.sandbox and level != "full" else facts


def probed_shield(store: Store) -> dict[str, Any]:
    """What would hold for a run at level `work` in this project, on this machine."""
    walls, names = walls_of(store, read_only=False, make=False)
    return shield_facts(probe_shield(_state(store)), plan_mounts(walls), names, os.environ)
