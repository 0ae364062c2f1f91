"""`delegate`: make a task of words, check it against every guard, hand it over."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from overhand import config as configs
from overhand import guards, model, summon, trust
from overhand.agents import Agent, driver, files
from overhand.contracts import CONTRACTS, contract_name
from overhand.documents import handoff as handoffs
from overhand.documents.text import decode
from overhand.errors import BadInput, NotFound, OverhandError, Refused
from overhand.files import read_file, write_file
from overhand.verbs import Answer, Session

if TYPE_CHECKING:
    from overhand.config import Config
    from overhand.documents.handoff import Handoff
    from overhand.documents.problems import Problem
    from overhand.guards import Caller
    from overhand.model import State

MAX_TITLE = 2000


@dataclass(frozen=True, slots=True)
class Request:
    """Everything `delegate` can be told."""

    title: str = ""
    agent: str | None = None
    kind: str | None = None
    context: list[str] = field(default_factory=list)
    file: list[str] = field(default_factory=list)
    constraint: list[str] = field(default_factory=list)
    deliverable: list[str] = field(default_factory=list)
    returns: list[str] = field(default_factory=list)
    step: list[str] = field(default_factory=list)
    verify: list[str] = field(default_factory=list)
    handoff: str | None = None
    edit: bool = False
    no_start: bool = False
    wait: bool = False
    timeout: str | None = None
    budget: str | None = None
    priority: str | None = None
    contract: str | None = None
    model: str | None = None
    read_only: bool = False
    here: bool = False
    after: str | None = None
    settings: list[str] = field(default_factory=list)
    strict: bool = False


def delegate(session: Session, **given: Any) -> Answer:
    """Accept a task; a supervisor carries on."""
    request = request_of(given)
    state, agent, problems = accept(session, request)
    if not request.no_start and not summon.call(session.store, [state["task_id"]]):
        session.tell(
            "It is recorded, but no supervisor may be started from inside this sandbox; the next verb outside will."
        )
    if request.wait and not request.no_start:
        from overhand.verbs.look import wait_for

        return wait_for(session, [state["task_id"]], None, verb="delegate")
    return Answer(receipt_of_start(session, state, agent, problems, request))


def request_of(given: dict[str, Any]) -> Request:
    """The command line's names, where Python has its own meaning for them."""
    renamed = {"return": "returns", "set": "settings"}
    values = {renamed.get(name, name): value for name, value in given.items() if value is not None}
    unknown = [name for name in values if name not in Request.__dataclass_fields__]
    if unknown:
        near = get_close_matches(unknown[0], Request.__dataclass_fields__, 1)
        meant = f" Did you mean {near[0]}?" if near else ""
        raise BadInput(f"delegate has no option {unknown[0]!r}.{meant}", "See them all: overhand delegate --help")
    for name, value in values.items():
        if name in _REPEATED and isinstance(value, str):  # one where several may be given
            values[name] = [value]
    return Request(**values)


_REPEATED = ("context", "file", "constraint", "deliverable", "returns", "step", "verify", "settings")


def accept(
    session: Session, request: Request, *, start: bool = True, sync: bool = True
) -> tuple[State, Agent, list[Problem]]:
    """Check everything, then make the task; a refusal makes none and is noted in the parent's log."""
    from overhand.verbs.setup import first_use

    if not request.title.strip() and request.handoff is None:
        raise _nothing_to_do()
    first_use(session)
    who = guards.caller(session.store)
    try:
        return _accept(session, request, who, start=start and not request.no_start, sync=sync)
    except Refused as error:
        note_refusal(session, who, request, error)
        raise


def _accept(
    session: Session, request: Request, who: Caller, *, start: bool, sync: bool
) -> tuple[State, Agent, list[Problem]]:
    only_from_people(who, request)
    ask_for_trust(session, who)
    settings = dict(configs.setting(text) for text in request.settings)
    config = configs.load(session.root, settings)
    name = request.agent or files.default(session.root, config)
    agent = files.find(session.root, name, config)
    trust.require(session.root, agent.trusted_with)
    for warning in agent.warnings:
        session.tell(f"{agent.source}: {warning}")
    state, problems, _ = make(session, request, who, agent, config, settings, start=start, sync=sync)
    return state, agent, problems


def make(
    session: Session,
    request: Request,
    who: Caller,
    agent: Agent,
    config: Config,
    settings: dict[str, Any],
    *,
    start: bool,
    sync: bool,
) -> tuple[State, list[Problem], str]:
    """The task's folder and its first events; with the problems of its HANDOFF, and that itself."""
    if request.kind is not None and not model.is_name(request.kind):
        raise BadInput(
            f"--kind {request.kind!r} is not a kind.", "A kind is one word, such as research, fix or review."
        )
    depth, path = guards.check_delegation(who, agent)
    kind = config.kind(request.kind)
    handoff = build_handoff(session, request, kind.contract)
    contract, schema = choose_contract(session, request, handoff, kind.contract)
    text = edit(handoffs.render(handoff), session) if request.edit else handoffs.render(handoff)
    problems = check_handoff(session, text, agent, request.strict)
    check_program(session, agent)
    handoff = handoffs.parse(text)
    created = {
        "title": handoff.title,
        "kind": request.kind,
        "priority": request.priority or "P2",
        "parent": None if who.is_person else {"task": who.task, "run": who.run},
        "depth": depth,
        "path": path,
        "timeout": guards.time_for(request.timeout, kind, request.kind, who.left if request.wait else None),
        "level": "read" if request.read_only else kind.level,
        "contract": contract,
        "checks": checks_of(request, config),
        "after": session.store.resolve(request.after) if request.after else None,
        "settings": {
            **settings,
            **({"exclusive": True} if agent.exclusive else {}),
            **({} if agent.can_delegate else {"can_delegate": False}),
        },
        "model": request.model,
        "budget": request.budget,
        "strict": request.strict,
    }
    created = {name: value for name, value in created.items() if value not in (None, [], {}, False)}
    created["seal"] = trust.seal(created)
    by = who.by(session.via)
    return session.store.new_task(agent.name, text, created, by, start=start, sync=sync, schema=schema), problems, text


def only_from_people(who: Caller, request: Request) -> None:
    """Checks and settings come from a person or the trusted configuration, never from an agent."""
    if not who.is_person and request.verify:
        raise Refused(
            "--verify comes from a person, never from an agent.",
            "Put the check into [checks] of the project's settings.",
        )
    if not who.is_person and request.settings:
        raise Refused("--set comes from a person, never from an agent.", "Leave it out.")


def note_refusal(session: Session, who: Caller, request: Request, error: Refused) -> None:
    """A refused delegation makes no task; the run that wanted it keeps a note."""
    if who.task is None:
        return
    event = {
        "e": "refused",
        "code": error.code,
        "agent": request.agent,
        "title": request.title[:200],
        "why": error.message[:1000],
    }
    try:
        with session.store.locked(who.task, who.by(session.via), patience=1.0) as task:
            task.append(event)
    except OverhandError as second:
        session.tell(f"The refusal could not be noted in the parent's log: {second}")


def ask_for_trust(session: Session, who: Caller) -> None:
    """On a terminal the question is asked where it arises."""
    if session.confirm is not None and who.is_person and trust.untrusted(session.root):
        from overhand.verbs.setup import trust_project

        trust_project(session, yes=False)


def _nothing_to_do() -> BadInput:
    return BadInput("There is nothing to do: the task is empty.", 'Say what: overhand delegate "what to do"')


def build_handoff(session: Session, request: Request, contract: str | None) -> Handoff:
    """From a file, or from the words of the command line."""
    title = " ".join(request.title.split()) if "\n" not in request.title else request.title.strip()
    if len(title) > MAX_TITLE:
        raise BadInput(
            f"The title has {len(title)} characters.",
            "Keep it to a line; put the rest into --context or --handoff FILE.",
        )
    base = handoffs.Handoff(task="")
    if request.handoff is not None:
        base = handoffs.parse(read_document(request.handoff))
    if not title and not base.task.strip():
        raise _nothing_to_do()
    returns = [f"- {line}" for line in request.returns]
    if contract and not handoffs.wanted_contract(base):
        returns.append(f"Use: {contract} contract")
    promised = (*base.deliverables, *(_deliverable(session, text) for text in request.deliverable))
    return replace(
        base,
        task=title or base.task,
        context=_joined(base.context, "\n\n".join(request.context)),
        key_files=(*base.key_files, *(_key_file(text) for text in request.file)),
        constraints=(*base.constraints, *request.constraint),
        deliverables=promised or (handoffs.Deliverable(text=_EXPECTED.get(request.kind or "", _EXPECTED["none"])),),
        return_requirements=_joined(base.return_requirements, "\n".join(returns)) or DEFAULT_RETURN,
        plan=(*base.plan, *(handoffs.Step(" ", text) for text in request.step)),
    )


# what a task without a deliverable is expected to bring, by kind; a sentence, so it stays unverified
_EXPECTED = {
    "research": "An answer to the question, with its sources",
    "exploration": "An account of what is there, with the places where it was found",
    "plan": "A plan that somebody else could carry out",
    "review": "A verdict, with every issue and where it is",
    "fix": "The fault no longer occurs",
    "none": "What the task asks for",
}
DEFAULT_RETURN = "- What was done, what was checked, and what is left open"


def _joined(first: str, second: str) -> str:
    return "\n\n".join(part for part in (first.strip(), second.strip()) if part)


def _key_file(text: str) -> handoffs.KeyFile:
    path, _, why = text.partition("=")
    return handoffs.KeyFile(path.strip(), why.strip())


def _deliverable(session: Session, text: str) -> handoffs.Deliverable:
    """A path or a sentence: a path has no blanks and a slash, a suffix or a glob, or it exists."""
    text = text.strip()
    waived = text.endswith("(may be unchanged)")
    bare = text.removesuffix("(may be unchanged)").strip().strip("`")
    is_path = bool(bare) and not any(c.isspace() for c in bare) and (
        "/" in bare or "*" in bare or "." in bare.strip(".") or os.path.exists(f"{session.root}/{bare}")
    )  # fmt: skip
    return handoffs.Deliverable(text="" if is_path else text, path=bare if is_path else None, may_be_unchanged=waived)


def read_document(path: str) -> str:
    """A document from a file or, for `-`, from standard input."""
    import sys

    if path == "-":
        raw = sys.stdin.buffer.read(16 * 1024 * 1024 + 1)
    else:
        found = read_file(os.path.realpath(path))
        if found is None:
            raise NotFound(f"There is no file {path}.", "Name an existing file, or - for standard input.")
        raw = found
    text, problems = decode(raw)
    errors = [p for p in problems if p.level == "error"]
    if errors:
        raise BadInput(f"{path}: {errors[0].message}", "Give a smaller text document in UTF-8.")
    return text


def choose_contract(
    session: Session, request: Request, handoff: Handoff, of_kind: str | None
) -> tuple[str | None, bytes]:
    """Asked for by option, by a line of the HANDOFF, or by kind: its name, and the schema if it is a file."""
    wanted = request.contract or handoffs.wanted_contract(handoff) or of_kind
    if not wanted:
        return None, b""
    if wanted.endswith(".json"):
        return wanted, read_schema(os.path.join(os.getcwd() if request.contract else session.root, wanted))
    name = contract_name(wanted)
    if name not in CONTRACTS:
        raise BadInput(f"There is no contract {wanted!r}.", f"Use {', '.join(CONTRACTS)}, or a JSON Schema file.")
    return name, b""


def read_schema(path: str) -> bytes:
    """A JSON Schema from a file; one that is none is told now, not after the work."""
    from overhand.contracts import validate_data
    from overhand.documents.jsontext import load

    raw = read_file(os.path.realpath(path))
    if raw is None:
        raise NotFound(f"There is no contract file {path}.", "Name a JSON Schema file.")
    schema, error = load(decode(raw)[0])
    if not error and not isinstance(schema, dict):
        error = "an object was needed"
    if not error:
        wrong = [p.message for p in validate_data(schema, {}) if p.code == "schema-invalid"]  # type: ignore[arg-type] # a dict
        error = wrong[0] if wrong else ""
    if error:
        raise BadInput(f"{path} is not a JSON Schema: {error}", "Mend it, then try again.")
    return json.dumps(schema).encode()


_FLAGS = {
    "context": "--context",
    "key_files": "--file",
    "constraints": "--constraint",
    "deliverables": "--deliverable",
    "return_requirements": "--return",
    "plan": "--step",
}


def check_handoff(session: Session, text: str, agent: Agent, strict: bool) -> list[Problem]:
    """All problems at once; errors refuse, warnings are told."""
    root = session.root
    problems = handoffs.lint(text, exists=lambda path: os.path.exists(os.path.join(root, path)), strict=strict)
    parsed = handoffs.parse(text)
    missing = [word for word in agent.needs if not getattr(parsed, word, None)]
    errors = [p.message for p in problems if p.level == "error"]
    errors += [f"Agent {agent.name} needs the section {word.replace('_', ' ')}." for word in missing]
    if errors:
        hint = " ".join(f"{_FLAGS[word]} …" for word in missing if word in _FLAGS) or "--handoff FILE"
        raise BadInput(" ".join(errors), f"Add it: {hint}", problems=[p.as_json() for p in problems])
    return problems


def check_program(session: Session, agent: Agent) -> None:
    """A missing program is told now, not after the task was accepted."""
    if agent.driver == "command":
        from overhand.agents import Job

        driver("command").launch(agent, Job("", session.root, "", "", session.root))


def checks_of(request: Request, config: Config) -> list[dict[str, str]]:
    """`--verify`, else the project's own checks."""
    if request.verify:
        empty = [command for command in request.verify if not command.strip()]
        if empty:
            raise BadInput("--verify is empty.", 'Give a command: --verify "pytest -q"')
        return [
            {"name": f"verify-{n}" if len(request.verify) > 1 else "verify", "command": c}
            for n, c in enumerate(request.verify, 1)
        ]
    return [{"name": name, "command": command} for name, command in config.checks]


def edit(text: str, session: Session) -> str:
    """Let the person change the HANDOFF in their editor."""
    import shlex
    import subprocess
    import tempfile

    if not session.interactive:
        raise BadInput("--edit needs a terminal.", "Write the HANDOFF to a file and use --handoff FILE.")
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/HANDOFF.md"
        write_file(path, text)
        try:
            subprocess.run([*editor, path], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise BadInput(
                f"The editor {editor[0]} did not work: {error}.", "Set EDITOR, or use --handoff FILE."
            ) from None
        return decode(read_file(path) or b"")[0]


def receipt_of_start(
    session: Session, state: State, agent: Agent, problems: list[Problem], request: Request
) -> dict[str, Any]:
    """What `delegate` prints: handle, agent, tree, limits, checks, what to type next."""
    prepared = request.no_start
    handle = state["handle"]
    return {
        "schema": "overhand.delegate/1",
        "task_id": state["task_id"],
        "handle": handle,
        "title": state["title"],
        "agent": agent.name,
        "driver": agent.driver,
        "kind": state["kind"],
        "state": "prepared" if prepared else "accepted",
        "depth": state["depth"],
        "path": state["path"],
        "tree": "your checkout",
        "level": state["level"],
        "timeout": state["timeout"],
        "checks": state["checks"],
        "contract": state["contract"],
        "warnings": [p.as_json() for p in problems],
        "folder": os.path.relpath(session.store.folder(state["task_id"]), session.root),
        "next": [f"overhand run {handle}"]
        if prepared
        else [f"overhand wait {handle}", f"overhand show {handle}", f"overhand stop {handle}"],
    }
