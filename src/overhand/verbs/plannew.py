"""`plan new`: a plan file that can be run as it is, and is meant to be filled in."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from overhand.errors import AgentNotFound, BadInput, Refused, storage_failed
from overhand.plans import skeleton
from overhand.policy import trust
from overhand.policy.caller import caller
from overhand.verbs import Answer, Session
from overhand.verbs.plan import SCHEMA, Source, facts, look_over

if TYPE_CHECKING:
    from collections.abc import Mapping

    from overhand.plans.check import AgentFacts

FOLDER = ".overhand/plans"
_MOST = 2000  # characters of a task, as of any other


def new(
    session: Session,
    task: str,
    agents: str | None = None,
    template: str | None = None,
    strategy: str | None = None,
    out: str | None = None,
) -> Answer:
    """Write a skeleton; what a person had written by us is trusted."""
    title = " ".join(task.split())
    if not title or len(title) > _MOST:
        raise BadInput(f"The task has {len(title)} characters.", 'Say in a line what: overhand plan new "what to do"')
    if template and strategy:
        raise BadInput("--template and --strategy contradict each other.", "Say one of them.")
    known = facts(session)
    chosen, why = _chosen(session, title, agents, template, known)
    text, made = _text(title, chosen, template, strategy)
    found = look_over(session, Source("the skeleton", "", text.encode("utf-8", "replace")))
    if found.plan is None or found.errors:
        first = next(one for one in found.problems if one.level == "error")
        raise BadInput(f"That cannot be the task of a plan: {first.message}", "Say it in other words.")
    if out == "-":
        return Answer({"schema": SCHEMA, "do": "new", "file": out, "agents": chosen, "text": text, "raw": True})
    path = _place(session, title, out)
    name = _write(session, path, text)
    shown = os.path.relpath(path)
    return Answer({
        "schema": SCHEMA,
        "do": "new",
        "file": shown,
        "task": title,
        "agents": chosen,
        "why": why,
        "form": template or "short",
        "strategy": made,
        "nodes": len(found.plan.nodes),
        "trusted": name is not None and not trust.untrusted(session.root, [name]),
        "next": [f"overhand plan check {shown}", f"overhand plan run {shown} --wait"],
    })  # fmt: skip


def _chosen(
    session: Session, task: str, named: str | None, template: str | None, known: Mapping[str, AgentFacts]
) -> tuple[list[str], str]:
    """Who takes part, and why, where nobody said so."""
    if named is not None:
        names = [one.strip() for one in named.split(",") if one.strip()]
        if not names:
            raise BadInput("--agents names nobody.", "Write them as --agents a,b,c")
        if template == "standard" and len(names) > 1:
            raise BadInput(
                f"The standard template hands over to one agent, not {len(names)}.",
                "Name one, or take --template parallel or sequential.",
            )
        _must_exist(session, names, known)
        return names, ""
    fit = skeleton.fitting(task, {name: one.capabilities for name, one in known.items()})
    if fit:
        return (fit[:1] if template == "standard" else fit), "their capabilities fit the task"
    from overhand.agents import files

    try:
        name, told = files.choose(session.root, trust.settings(session.root))
    except BadInput as error:
        raise BadInput(error.message, "No capabilities fit the task; name some: --agents a,b") from None
    return [name], told or "no other agent's capabilities fit the task"


def _must_exist(session: Session, names: list[str], known: Mapping[str, AgentFacts]) -> None:
    """Every name that is none, each with the one that was perhaps meant."""
    from difflib import get_close_matches

    from overhand.agents import files

    missing = [name for name in dict.fromkeys(names) if name not in known]
    if not missing:
        return
    broken = [name for name in missing if name in files.names(session.root)]
    if broken:
        raise BadInput(f"The agent {broken[0]!r} cannot be used.", f"See why: overhand agents {broken[0]}")
    told = []
    for name in missing:
        near = get_close_matches(name, known, 1)
        told.append(f"There is no agent {name!r}." + (f" Did you mean {near[0]}?" if near else ""))
    raise AgentNotFound(" ".join(told), "See them all: overhand agents", missing=missing, known=sorted(known))


def _text(task: str, agents: list[str], template: str | None, strategy: str | None) -> tuple[str, str]:
    """The file's text, and the strategy that it follows."""
    from overhand.plans.strategy import score

    if template:
        return skeleton.template(template, task, agents), "sequential" if template == "sequential" else "parallel"
    rated = score(skeleton.outline(task, agents))
    made = strategy or rated.strategy
    why = "" if strategy else f"the score is {rated.value:.2f}"
    return skeleton.short(skeleton.outline(task, agents, made), why), made


def _place(session: Session, task: str, out: str | None) -> str:
    """Where it goes: what was named, or a new name among the project's plans."""
    if out is not None:
        if out.endswith(os.sep) or os.path.isdir(out):
            raise BadInput(f"--out {out} is a folder.", "Name the file to write, such as plan.yaml")
        return os.path.abspath(out)
    folder = f"{session.root}/{FOLDER}"
    try:
        there = os.listdir(folder)
    except OSError:
        there = []
    return f"{folder}/{skeleton.slug(task, there)}"


def _write(session: Session, path: str, text: str) -> str | None:
    """Its name from the project's folder, if it lies there; a file that is there stays as it is."""
    from overhand.verbs.setup import first_use

    raw = text.encode("utf-8", "replace")
    folder = os.path.realpath(os.path.dirname(path))
    real = f"{folder}/{os.path.basename(path)}"
    root = os.path.realpath(session.root)
    inside = real.startswith(root + os.sep)
    if inside:
        first_use(session)
    try:
        os.makedirs(folder, exist_ok=True)
        fd = os.open(real, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except FileExistsError:
        raise Refused(f"{os.path.relpath(path)} is there already.", "Name another file: --out FILE") from None
    except OSError as error:
        raise storage_failed(error, f"Cannot write {path}") from error
    with os.fdopen(fd, "wb") as file:
        file.write(raw)
    if not inside:
        return None
    name = os.path.relpath(real, root)
    if caller(session.store).is_person and session.via != "mcp":  # an agent's word makes nothing trusted
        import hashlib

        trust.remember(session.root, {name: hashlib.sha256(raw).hexdigest()})
    return name
