"""`plan check|new|run|show|graph`: files in which several tasks hand results to each other."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from overhand.errors import AgentNotFound, BadInput, OverhandError, Refused, storage_failed
from overhand.plans import fitting_agents, outline_plan, plan_slug, plan_template, short_plan
from overhand.policy import find_caller, mark_trusted, trusted_config, untrusted_files
from overhand.system import MAX_PLAN, Beneath, read_given, read_named
from overhand.verbs.verb import Reply, Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from overhand.documents import Problem
    from overhand.plans import AgentFacts, Plan

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


def plan(session: Session, do: str, file_or_id: str | None = None, **options: Any) -> Reply:
    given = {name: value for name, value in options.items() if value}
    if wrong := given.keys() - _OPTIONS[do]:
        raise BadInput(f"--{min(wrong).replace('_', '-')} is not for plan {do}.", USAGE[do])
    if file_or_id is None and not given.get("stdin"):
        what = {"new": "what is to be done", "show": "a task", "graph": "a plan file or a task"}.get(do, "a plan file")
        raise BadInput(f"plan {do} needs {what}.", USAGE[do])
    word = "-" if file_or_id is None else file_or_id
    if do == "check":
        document = plan_source(word, stdin=bool(given.get("stdin")))
        found = check_source(session, document, strict=bool(given.get("strict")))
        return Reply(*report(document, found, explain=bool(given.get("explain"))))
    if do == "new":
        return new(session, word, **given)
    from overhand.verbs import plan_run

    calls: dict[str, Callable[..., Reply]] = {"run": plan_run.run, "show": plan_run.show, "graph": plan_run.graph}
    return calls[do](session, word, **given)


class PlanSource:
    """A plan's text: where it comes from, and what it is called."""

    def __init__(self, word: str, path: str, raw: bytes) -> None:
        self.word = word  # as it was typed; - for standard input
        self.path = path  # the file itself, without links; "" for text that is no file
        self.raw = raw

    def inside(self, root: str) -> str | None:
        """Its name from the project's folder; None for what lies elsewhere."""
        real = os.path.realpath(root)
        return os.path.relpath(self.path, real) if self.path.startswith(real + os.sep) else None


def plan_source(word: str, *, stdin: bool = False, folder: str = "") -> PlanSource:
    """Read a plan from a file, whose name is relative to `folder`, or from standard input."""
    if word == "-" or stdin:
        found = PlanSource(word, "", read_given("-", MAX_PLAN) or b"")
    else:
        raw = read_named(word, "plan file", 'Write one: overhand plan new "what is to be done"')
        found = PlanSource(word, os.path.realpath(os.path.join(folder, word)), raw)
    if len(found.raw) > MAX_PLAN:
        most = f"{MAX_PLAN // (1024 * 1024)} MB"
        raise BadInput(f"{word} is larger than {most}, which no plan may be.", "Split it into several plans.")
    return found


class Checked:
    """A plan that was read and checked."""

    def __init__(self, plan: Plan | None, problems: list[Problem]) -> None:
        self.plan, self.problems = plan, problems
        self.errors = sum(one.level == "error" for one in problems)


def check_source(session: Session, given: PlanSource, *, strict: bool = False, own: Iterable[str] = ()) -> Checked:
    """Every problem of a plan at once; nodes without an agent get one. `own` are agents of the calling process."""
    from overhand.documents import as_errors as as_strict
    from overhand.documents import by_line
    from overhand.plans import AgentFacts, check_plan, match_agents, read_plan_text

    found = read_plan_text(given.raw, given.word)
    plan, problems = found.plan, list(found.problems)
    if plan is not None:
        agents = {**facts(session), **{name: AgentFacts() for name in own}}
        depth = find_caller(session.store).depth + 1  # the plan itself is no level
        plan = match_agents(plan, agents)
        problems += check_plan(plan, agents, lines=found.lines, depth=depth)
    return Checked(plan, by_line(as_strict(problems) if strict else problems))


def facts(session: Session) -> Mapping[str, AgentFacts]:
    """The capabilities of every agent that a node can name."""
    from overhand.agents import agent_files, find_agent, installable
    from overhand.plans import AgentFacts

    config = trusted_config(session.root)
    found = {}
    for name in (*agent_files(session.root), *installable()):
        try:
            agent = find_agent(session.root, name, config)
        except OverhandError:
            continue  # `overhand agents` says what is wrong with it
        found[name] = AgentFacts(agent.capabilities)
    return found


def report(given: PlanSource, found: Checked, *, explain: bool = False) -> tuple[dict[str, Any], int]:
    """The object of `plan check`, and its exit status."""
    payload: dict[str, Any] = {
        "schema": SCHEMA,
        "do": "check",
        "file": given.word,
        "document": "plan",
        "errors": found.errors,
        "warnings": len(found.problems) - found.errors,
        "problems": [one.as_json() for one in found.problems],
    }
    if (plan := found.plan) is not None:
        from overhand.plans import explain_score, plan_waves, score_plan

        rated = score_plan(plan)
        payload |= {"task": plan.task, "form": plan.form, "nodes": len(plan.nodes), **rated.as_json()}
        payload |= {"merge": plan.merge.strategy, "notes": list(plan.notes)}
        if explain:
            payload["explained"] = explain_score(rated)
            payload["waves"] = [[row(plan, name) for name in wave] for wave in plan_waves(plan.nodes)]
    return payload, 1 if found.errors else 0


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
        "checks": [_brief(check) for check in node.verification],
        "writes": list(node.writes),
        "requires_approval": node.requires_approval,
    }


def _brief(check: object) -> str:
    """A verification in a few words."""
    if not isinstance(check, dict):
        return f"unverified: {check}"
    kind, value = next(iter(check.items()))
    return f"{kind}: {value if isinstance(value, str) else 'given'}"


def require_sound_plan(given: PlanSource, found: Checked) -> Plan:
    """The plan; or an error with all its problems."""
    if not found.errors and found.plan is not None:
        return found.plan
    lines = [
        f"{given.word}{f':{p.line}' if p.line else ''}: {p.message} [{p.code}]{f' ({p.fix})' if p.fix else ''}"
        for p in found.problems
        if p.level == "error"
    ]
    count = f"{len(lines)} errors" if len(lines) != 1 else "an error"
    raise BadInput(
        f"{given.word} has {count}; nothing was run.\n" + "\n".join(lines),
        f"Mend it, then look: overhand plan check {given.word}",
        problems=[one.as_json() for one in found.problems],
    )


def refuse_link_outside(session: Session, given: PlanSource) -> None:
    """Refuse a link in the project that leads out of it: trusting the project does not cover that file."""
    if not given.path:
        return
    here = os.path.abspath(os.path.join(session.folder(), given.word))
    named = any(here.startswith(f"{root}{os.sep}") for root in {session.root, os.path.realpath(session.root)})
    if named and given.inside(session.root) is None:
        raise Refused(
            f"{given.word} leads out of the project, to {given.path}.",
            "Copy the plan into the project, or name that file itself.",
        )


_OURS = ".overhand/"
FOLDER = f"{_OURS}plans"
_LONGEST = 2000  # characters of a task, as of any other


def new(
    session: Session,
    task: str,
    agents: str | None = None,
    template: str | None = None,
    strategy: str | None = None,
    out: str | None = None,
) -> Reply:
    """Write a skeleton; a file that a person has us write is trusted."""
    title = " ".join(task.split())
    if not title or len(title) > _LONGEST:
        raise BadInput(f"The task has {len(title)} characters.", 'Say in a line what: overhand plan new "what to do"')
    if template and strategy:
        raise BadInput("--template and --strategy contradict each other.", "Say one of them.")
    known = facts(session)
    chosen, why = _choose_agents(session, title, agents, template, known)
    text, made = _text(title, chosen, template, strategy)
    found = check_source(session, PlanSource("the skeleton", "", text.encode("utf-8", "replace")))
    if found.plan is None or found.errors:
        first = next(one for one in found.problems if one.level == "error")
        raise BadInput(f"That cannot be the task of a plan: {first.message}", "Say it in other words.")
    if out == "-":
        return Reply({"schema": SCHEMA, "do": "new", "file": out, "agents": chosen, "text": text, "raw": True})
    path = _place(session, title, out)
    name = _write_new(session, path, text)
    shown = os.path.relpath(path)
    return Reply({
        "schema": SCHEMA,
        "do": "new",
        "file": shown,
        "task": title,
        "agents": chosen,
        "why": why,
        "form": template or "short",
        "strategy": made,
        "nodes": len(found.plan.nodes),
        "trusted": name is not None and not untrusted_files(session.root, [name]),
        "next": [f"overhand plan check {shown}", f"overhand plan run {shown} --wait"],
    })  # fmt: skip


def _choose_agents(
    session: Session, task: str, named: str | None, template: str | None, known: Mapping[str, AgentFacts]
) -> tuple[list[str], str]:
    """The agents that take part, and why, unless they were named."""
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
    fit = fitting_agents(task, {name: one.capabilities for name, one in known.items()})
    if fit:
        return (fit[:1] if template == "standard" else fit), "their capabilities fit the task"
    from overhand.agents import choose_agent

    try:
        name, told = choose_agent(session.root, trusted_config(session.root))
    except BadInput as error:
        raise BadInput(error.message, "No capabilities fit the task; name some: --agents a,b") from None
    return [name], told or "no other agent's capabilities fit the task"


def _must_exist(session: Session, names: list[str], known: Mapping[str, AgentFacts]) -> None:
    """Refuse unknown names, each with a similar one."""
    from difflib import get_close_matches

    from overhand.agents import agent_files

    missing = [name for name in dict.fromkeys(names) if name not in known]
    if not missing:
        return
    broken = [name for name in missing if name in agent_files(session.root)]
    if broken:
        raise BadInput(f"The agent {broken[0]!r} cannot be used.", f"See why: overhand agents {broken[0]}")
    told = []
    for name in missing:
        near = get_close_matches(name, known, 1)
        told.append(f"There is no agent {name!r}." + (f" Did you mean {near[0]}?" if near else ""))
    raise AgentNotFound(" ".join(told), "See them all: overhand agents", missing=missing, known=sorted(known))


def _text(task: str, agents: list[str], template: str | None, strategy: str | None) -> tuple[str, str]:
    """The file's text, and the strategy that it follows."""
    from overhand.plans import score_plan

    if template:
        return plan_template(template, task, agents), "sequential" if template == "sequential" else "parallel"
    rated = score_plan(outline_plan(task, agents))
    made = strategy or rated.strategy
    why = "" if strategy else f"the score is {rated.value:.2f}"
    return short_plan(outline_plan(task, agents, made), why), made


def _place(session: Session, task: str, out: str | None) -> str:
    """The file to write: as named, or a new name among the project's plans."""
    if out is None:
        there = Beneath(session.root).names(FOLDER)
        return f"{session.root}/{FOLDER}/{plan_slug(task, there)}"
    if out.endswith(os.sep) or os.path.isdir(out):
        raise BadInput(f"--out {out} is a folder.", "Name the file to write, such as plan.yaml")
    return os.path.abspath(out)


def _write_new(session: Session, path: str, text: str) -> str | None:
    """Its name in the project, if it is inside; an existing file is never overwritten."""
    from overhand.verbs.setup import ensure_project

    raw = text.encode("utf-8", "replace")
    real = f"{os.path.realpath(os.path.dirname(path))}/{os.path.basename(path)}"
    own, root = path.removeprefix(f"{session.root}/"), os.path.realpath(session.root)
    inside = own.startswith(_OURS) or real.startswith(root + os.sep)
    if inside:
        ensure_project(session)
    if not _made(session.root, own, real, raw):
        raise Refused(f"{os.path.relpath(path)} is there already.", "Name another file: --out FILE")
    if not inside:
        return None
    name = own if own.startswith(_OURS) else os.path.relpath(real, root)
    if find_caller(session.store).is_person and session.via != "mcp":  # an agent cannot make anything trusted
        import hashlib

        mark_trusted(session.root, {name: hashlib.sha256(raw).hexdigest()})
    return name


def _made(root: str, own: str, real: str, raw: bytes) -> bool:
    """Write the file; False if it is there already. No link leads into Overhand's own folder."""
    if own.startswith(_OURS):
        files = Beneath(root)
        files.make_folder(os.path.dirname(own), mode=0o755)
        return files.write_if_missing(own, raw)
    try:
        os.makedirs(os.path.dirname(real), exist_ok=True)
    except OSError as error:
        raise storage_failed(error, f"Cannot write {real}") from error
    return Beneath(os.path.dirname(real)).write_if_missing(os.path.basename(real), raw)
