"""`agents`: the agents of the project, the agent programs of this machine, and a trial of one."""

from __future__ import annotations

import time

from overhand.errors import BadInput, OverhandError, ToolMissing
from overhand.verbs.verb import Reply, Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from overhand.agents import Agent
    from overhand.drafts import Brief
    from overhand.record import Task

TASK = "Say that you are there: change nothing, and return as you are told, with the summary «ok»."
_PATIENCE = 180.0  # seconds that a trial may take

EXAMPLE = """\
---
name: {name}
description: Does one task and says what is true afterwards.
overhand:
{how}---
You do one task at a time. Read the handoff, do what it asks and nothing else, and return as you are told.
"""
# of programs without a driver: how they take a prompt; the worker has none yet, and does nothing but return
_COMMANDS = {
    "aider": ["aider", "--yes-always", "--message", "{prompt}"],
    "worker": ["sh", "-c", 'cat >/dev/null; echo \'{"status": "completed", "summary": "Hello."}\''],
}


def agents(
    session: Session, name: list[str] | str | None = None, example: bool = False, unpause: bool = False
) -> Reply:
    """What is there, what is wrong with what cannot be used, and what to do next."""
    words = [name] if isinstance(name, str) else list(name or ())
    if unpause:
        return _unpause(session, words)
    if len(words) == 2 and words[0] == "test" and not example:
        return trial(session, words[1])
    if len(words) > 1 and (words[0] == "test" or example):
        raise BadInput(f"agents has one word too many: {words[-1]!r}.", "overhand agents NAME, or agents test NAME")
    only = words[0] if words else None
    if example:
        return Reply({"schema": "overhand.agents/1", "text": example_file(only), "raw": True})
    from overhand.agents import agent_files, find_agent, installable
    from overhand.policy import load_config

    config = load_config(session.root)
    known = agent_files(session.root)
    if only == "test" and only not in known:
        raise BadInput("Test which agent?", "Name it: overhand agents test NAME")
    if only and (len(words) > 1 or (only not in known and only not in installable())):
        rows = _matching(_files(session, config, known), words)
        if not rows and len(words) == 1:
            find_agent(session.root, only, config)  # raises, with what was meant
        return Reply({"schema": "overhand.agents/1", "agents": rows, "programs": [], "words": words}, 0 if rows else 1)
    rows = _files(session, config, {only: known[only]} if only in known else {} if only else known)
    known_programs = installable()
    driver = next((row["driver"] for row in rows if row["driver"] in known_programs), only) if only else None
    shown = [driver] if driver in known_programs else [] if only else list(known_programs)
    programs = _programs(session, shown)
    payload: dict[str, Any] = {"schema": "overhand.agents/1", "agents": rows, "programs": programs}
    if not only:
        payload.update(default=_default(session, config), repeated=_repeated(session, known))
    return Reply(payload, 1 if rows and only and rows[0]["problem"] else 0)


def _programs(session: Session, names: list[str]) -> list[dict[str, Any]]:
    from overhand.agents import program_versions

    programs = [_program(one) for one in names]
    found = program_versions([row["name"] for row in programs if row["path"]], session.progress)
    for row in programs:
        row["version"] = found.get(row["name"])
    return programs


def _matching(rows: list[dict[str, Any]], words: list[str]) -> list[dict[str, Any]]:
    """The agents that have each of these words in their name, their description or their file's path."""
    wanted = [word.lower() for word in words]
    return [row for row in rows if all(word in _searched(row) for word in wanted)]


def _searched(row: dict[str, Any]) -> str:
    return f"{row['name']} {row['description']} {row['source']}".lower()


def _repeated(session: Session, known: dict[str, str]) -> list[dict[str, str]]:
    """The files whose agent another file of the same name comes before."""
    from overhand.agents import every_agent_file

    more = [(name, path) for name, path in every_agent_file(session.root) if known.get(name) != path]
    return [{"name": name, "source": path.removeprefix(f"{session.root}/")} for name, path in more]


def _unpause(session: Session, words: list[str]) -> Reply:
    """Lift the pause of a program, named by itself or by an agent that uses it; what waits for it starts at once."""
    if len(words) != 1:
        raise BadInput("--unpause needs one name.", "overhand agents NAME --unpause")
    from overhand.agents import all_pauses, end_pause, find_agent
    from overhand.policy import find_caller, load_config, require_person

    require_person(find_caller(session.store), "Lifting a pause")
    paused = all_pauses(session.store)
    driver = words[0] if words[0] in paused else find_agent(session.root, words[0], load_config(session.root)).driver
    if driver in paused:
        end_pause(session.store, driver)
        session.hand_over([])
    return Reply({"schema": "overhand.agents/1", "unpaused": driver, "was_paused": driver in paused})


def _files(session: Session, config: Any, known: dict[str, str]) -> list[dict[str, Any]]:
    from overhand.agents import load_agent, runnable_files
    from overhand.policy import untrusted_files

    untrusted = set(untrusted_files(session.root, runnable_files(session.root)))
    drivers: dict[str, tuple[str, ...]] = {}
    rows: list[dict[str, Any]] = []
    for name, path in sorted(known.items()):
        source = path.removeprefix(f"{session.root}/")
        shown: dict[str, Any] = {"name": name, "source": source, "default": name == config.default_agent}
        try:
            agent = load_agent(session.root, path, config, drivers)
            shown.update(
                driver=agent.driver or None,
                description=agent.description,
                problem=None,
                warnings=list(agent.warnings),
                runs=list(agent.options.get("command", [])) or agent.options.get("function"),
                trusted=not untrusted.intersection(agent.trusted_with),
            )
        except OverhandError as error:
            shown.update(driver=None, description="", problem=error.message, warnings=[], trusted=False)
        rows.append(shown)
    return rows


def _program(name: str) -> dict[str, Any]:
    """One agent program: whether it is installed and logged in, and what to do next."""
    from overhand.agents import find_driver
    from overhand.system import find_program

    driver = find_driver(name)
    path = find_program(driver.program)
    logged_in, rests_on, todo = None, "", f"install it: {driver.install}"
    if path is not None:
        logged_in, rests_on = driver.login.state() if driver.login else (None, "")
        hint = driver.login.hint() if driver.login else ""
        todo = f"log in: {hint}" if logged_in is False else f"try it: overhand agents test {name}"
    head = {"name": name, "path": path, "version": None}
    return {**head, "logged_in": logged_in, "rests_on": rests_on, "next": todo}


def _default(session: Session, config: Any) -> dict[str, str] | None:
    """The agent of a task that names none, and why."""
    from overhand.agents import choose_agent

    try:
        name, why = choose_agent(session.root, config)
    except OverhandError:
        return None
    why = why or ("the settings say so" if config.default_agent else "its file is the only one")
    return {"agent": name, "why": why}


def installed_programs() -> dict[str, str]:
    """The agent programs on PATH."""
    from overhand.agents import installable
    from overhand.system import find_program

    known = (*(driver.program for driver in installable().values()), "aider")
    return {program: path for program in known if (path := find_program(program))}


def example_file(name: str | None) -> str:
    """An agent file to start from."""
    import json

    from overhand.agents import lookup

    chosen = name or next(iter(installed_programs()), "worker")
    driver = lookup(chosen)
    if driver and (driver.program or driver.example):
        how = f"  driver: {chosen}\n{driver.example}"
    else:
        how = f"  driver: command\n  command: {json.dumps(_COMMANDS.get(chosen, [chosen, '{prompt}']))}\n"
    return EXAMPLE.format(name=chosen, how=how)


# trying one out


def trial(session: Session, name: str) -> Reply:
    """Give the agent one tiny task that only reads, and report the outcome."""
    from overhand.agents import find_agent
    from overhand.drafts import Brief
    from overhand.policy import load_config

    agent = find_agent(session.root, name, load_config(session.root))
    shown: dict[str, Any] = {"schema": "overhand.agents/1", "test": name, "driver": agent.driver, "task_id": None}
    began = time.monotonic()
    try:
        task = _try(session, Brief(title=TASK, agent=name, level="read", timeout=f"{_PATIENCE:.0f}s"))
    except ToolMissing as error:
        shown.update(outcome="not installed", message=error.message, next=error.hint, seconds=0.0, handle=None)
        return Reply(shown, error.exit_status)
    outcome, message, todo = _outcome(session, agent, task)
    shown.update(task_id=task.id, handle=task.handle, outcome=outcome, message=message, next=todo)
    shown["seconds"] = round(time.monotonic() - began, 1)
    return Reply(shown, 0 if outcome == "works" else 1)


def _try(session: Session, brief: Brief) -> Task:
    """The judged task; it is stopped when its provider is paused or the time is over."""
    from overhand.agents import pause_of
    from overhand.policy import find_caller
    from overhand.supervisor import hand_to_supervisor
    from overhand.system import deadline
    from overhand.verbs.control import ask_to_stop
    from overhand.verbs.delegate import accept
    from overhand.verbs.show import agent_activity
    from overhand.verbs.tasks import refresh_task

    task, agent, *_ = accept(session, brief)
    task_id = task.id
    hand_to_supervisor(session.store, [task_id])
    until = deadline(_PATIENCE + 20)
    began = time.monotonic()
    with session.store.subscribe([task_id]) as bell:
        while not (task := refresh_task(session, session.store.task(task_id))).is_idle:
            if time.monotonic() >= until or (task.queued and pause_of(session.store, agent.driver)):
                ask_to_stop(session, find_caller(session.store), task_id, now=True)
                hand_to_supervisor(session.store, [task_id])
                break
            doing = agent_activity(session, task)
            session.progress(f"{agent.name} is at work, {time.monotonic() - began:.0f}s · {doing or 'it begins'}")
            bell.wait(min(1.0, until - time.monotonic()))
    return task


def _outcome(session: Session, agent: Agent, task: Task) -> tuple[str, str, str]:
    """A word for what happened, a sentence, and what to do next."""
    from overhand.agents import describe_pause, find_driver, pause_of, stream_summary
    from overhand.verbs.tasks import read_result

    look = f"overhand show {task.handle}"
    if task.status == "completed":
        follow = f'overhand delegate "what to do" --agent {agent.name}'
        return "works", "It answered and returned as it was told.", follow
    if pause := pause_of(session.store, agent.driver):
        return "limit reached", f"{describe_pause(agent.driver, pause)}.", "It goes on by itself then."
    run = task.last_run
    heard = stream_summary(session.store.run_folder(task.id, run.id), run.driver) if run else None
    why = heard.why if heard else ""
    if heard is not None and heard.end == "auth":
        login = find_driver(agent.driver).login
        return "not logged in", why or "Its key is not accepted.", f"log in: {login.hint() if login else look}"
    if heard is not None and heard.end in ("api-error", "rate-limit", "refused", "budget"):
        return "model error", why or "The model's service answered with an error.", look
    if task.status == "rejected":
        return "refused", task.summary, look
    if task.status is None or (run and run.cause == "timeout"):
        return "no answer", f"It did not return within {_PATIENCE:.0f} seconds.", look
    problems = [p["message"] for p in read_result(session, task).get("problems", ()) if p["level"] == "error"]
    return "does not work", " ".join(problems) or task.summary, look
