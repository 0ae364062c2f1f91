"""`plan check|new|run|show|graph`: files in which several tasks hand results to each other."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from overhand.errors import BadInput, Refused
from overhand.system.files import MAX_PLAN, read_named
from overhand.verbs import Answer, Session

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from overhand.documents.problems import Problem
    from overhand.plans.check import AgentFacts
    from overhand.plans.model import Plan

SCHEMA = "overhand.plan/1"
USAGE = {
    "check": "overhand plan check FILE",
    "new": 'overhand plan new "what is to be done" --agents a,b',
    "run": "overhand plan run FILE --wait",
    "show": "overhand plan show ID",
    "graph": "overhand plan graph FILE --format mermaid",
}
_OPTIONS: dict[str, set[str]] = {
    "check": {"explain", "strict", "stdin"},
    "new": {"agents", "template", "strategy", "out"},
    "run": {"strict", "stdin", "wait", "max_parallel", "dry_run", "budget", "timeout", "set"},
    "show": {"watch", "format"},
    "graph": {"format", "out"},
}


def plan(session: Session, do: str, file_or_id: str | None = None, **options: Any) -> Answer:
    """One of the five."""
    given = {name: value for name, value in options.items() if value}
    if wrong := given.keys() - _OPTIONS[do]:
        raise BadInput(f"--{min(wrong).replace('_', '-')} is not for plan {do}.", USAGE[do])
    if file_or_id is None and not given.get("stdin"):
        what = {"new": "what is to be done", "show": "a task", "graph": "a plan file or a task"}.get(do, "a plan file")
        raise BadInput(f"plan {do} needs {what}.", USAGE[do])
    word = "-" if file_or_id is None else file_or_id
    if do == "check":
        return check_file(session, word, **given)
    if do == "new":
        from overhand.verbs.plannew import new

        return new(session, word, **given)
    if do == "run":
        from overhand.verbs.planrun import run

        return run(session, word, **given)
    from overhand.verbs import planlook

    return (planlook.show if do == "show" else planlook.graph)(session, word, **given)


class Source:
    """A plan's text: where it comes from, and what it is called."""

    def __init__(self, word: str, path: str, raw: bytes) -> None:
        self.word = word  # as it was typed; - for standard input
        self.path = path  # the file itself, without links; "" for text that is no file
        self.raw = raw

    def inside(self, root: str) -> str | None:
        """Its name from the project's folder; None for what lies elsewhere."""
        real = os.path.realpath(root)
        return os.path.relpath(self.path, real) if self.path.startswith(real + os.sep) else None


def source(word: str, *, stdin: bool = False) -> Source:
    """The bytes of a plan; everything that is no document is told as what it is."""
    if word == "-" or stdin:
        found = Source(word, "", sys.stdin.buffer.read(MAX_PLAN + 1))
    else:
        raw = read_named(word, "plan file", 'Write one: overhand plan new "what is to be done"')
        found = Source(word, os.path.realpath(word), raw)
    if len(found.raw) > MAX_PLAN:
        most = f"{MAX_PLAN // (1024 * 1024)} MB"
        raise BadInput(f"{word} is larger than {most}, which no plan may be.", "Split it into several plans.")
    return found


class Checked:
    """A plan that was read and looked at from all sides."""

    def __init__(self, plan: Plan | None, problems: list[Problem]) -> None:
        self.plan, self.problems = plan, problems
        self.errors = sum(one.level == "error" for one in problems)


def look_over(session: Session, given: Source, *, strict: bool = False, own: Iterable[str] = ()) -> Checked:
    """Everything that is wrong with it, at once; nodes that name no agent have one afterwards.

    `own` are agents of the calling process.
    """
    from overhand.documents.problems import by_line
    from overhand.documents.problems import strict as as_strict
    from overhand.plans.check import check
    from overhand.plans.reader import read

    found = read(given.raw, given.word)
    plan, problems = found.plan, list(found.problems)
    if plan is not None:
        from overhand.plans.check import AgentFacts, match
        from overhand.policy.caller import caller

        agents = {**facts(session), **{name: AgentFacts() for name in own}}
        depth = caller(session.store).depth + 1  # the plan itself is no level
        plan = match(plan, agents)
        problems += check(plan, agents, lines=found.lines, depth=depth)
    return Checked(plan, by_line(as_strict(problems) if strict else problems))


def facts(session: Session) -> Mapping[str, AgentFacts]:
    """What is known of every agent that a node can name."""
    from overhand.agents import files, installable
    from overhand.errors import OverhandError
    from overhand.plans.check import AgentFacts
    from overhand.policy import trust

    config = trust.settings(session.root)
    found = {}
    for name in (*files.names(session.root), *installable()):
        try:
            agent = files.find(session.root, name, config)
        except OverhandError:
            continue  # `overhand agents` says what is wrong with it
        found[name] = AgentFacts(agent.capabilities)
    return found


def check_file(session: Session, word: str, explain: bool = False, strict: bool = False, stdin: bool = False) -> Answer:
    """Every problem, the score, and what follows from it."""
    given = source(word, stdin=stdin)
    return Answer(*report(given, look_over(session, given, strict=strict), explain=explain))


def report(given: Source, found: Checked, *, explain: bool = False) -> tuple[dict[str, Any], int]:
    """What `plan check` says, and its exit status."""
    payload: dict[str, Any] = {
        "schema": SCHEMA,
        "do": "check",
        "file": given.word,
        "document": "plan",
        "errors": found.errors,
        "warnings": len(found.problems) - found.errors,
        "problems": [one.as_json() for one in found.problems],
    }
    if found.plan is not None:
        payload.update(_about(found.plan, explain=explain))
    return payload, 1 if found.errors else 0


def _about(plan: Plan, *, explain: bool) -> dict[str, Any]:
    from overhand.plans import strategy

    rated = strategy.score(plan)
    told: dict[str, Any] = {"task": plan.task, "form": plan.form, "nodes": len(plan.nodes), **rated.as_json()}
    told |= {"merge": plan.merge.strategy, "notes": list(plan.notes)}
    if explain:
        from overhand.plans.order import waves

        told["explained"] = strategy.explain(rated)
        told["waves"] = [[row(plan, name) for name in wave] for wave in waves(plan.nodes)]
    return told


def row(plan: Plan, name: str) -> dict[str, Any]:
    """A node as it would run."""
    node = plan.nodes[name]
    return {
        "node": name,
        "agent": node.agent,
        "task": node.task,
        "needs": list(node.needs),
        "timeout": node.timeout,
        "budget": node.budget,
        "priority": node.priority,
        "checks": [_said(one) for one in node.verification],
        "writes": list(node.writes),
        "requires_approval": node.requires_approval,
    }


def _said(one: object) -> str:
    """A verification in a few words."""
    if not isinstance(one, dict):
        return f"unverified: {one}"
    kind, value = next(iter(one.items()))
    return f"{kind}: {value if isinstance(value, str) else 'given'}"


def commands(plan: Plan) -> list[str]:
    """What Overhand itself would run because of a plan: checks and whatever merges."""
    found = [
        f"{node.id} checks: {one['command']}"
        for node in plan.nodes.values()
        for one in node.verification
        if isinstance(one, dict) and one.get("command")
    ]
    found += [f"merge: {' '.join(plan.merge.command)}"] if plan.merge.command else []
    return found + ([f"merge: {plan.merge.function}"] if plan.merge.function else [])


def sound(given: Source, found: Checked) -> Plan:
    """The plan; or a refusal that tells all that is wrong with it."""
    if not found.errors and found.plan is not None:
        return found.plan
    shown = [f"{given.word}:{p.line}" if p.line else given.word for p in found.problems]
    lines = [
        f"{place}: {p.message} [{p.code}]" + (f" ({p.fix})" if p.fix else "")
        for place, p in zip(shown, found.problems, strict=True)
        if p.level == "error"
    ]
    count = f"{len(lines)} errors" if len(lines) != 1 else "an error"
    raise BadInput(
        f"{given.word} has {count}; nothing was run.\n" + "\n".join(lines),
        f"Mend it, then look: overhand plan check {given.word}",
        problems=[one.as_json() for one in found.problems],
    )


def refuse_way_out(session: Session, given: Source) -> None:
    """A name in the project that leads out of it: whoever trusts the project has not seen that file."""
    if not given.path:
        return
    here = os.path.abspath(given.word)
    named = any(here.startswith(f"{root}{os.sep}") for root in {session.root, os.path.realpath(session.root)})
    if named and given.inside(session.root) is None:
        raise Refused(
            f"{given.word} leads out of the project, to {given.path}.",
            "Copy the plan into the project, or name that file itself.",
        )
