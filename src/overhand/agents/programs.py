"""Agent programs on this machine: where they are, their versions, and what Overhand adds to a run of one."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

from overhand.agents.driver import find_driver, installable
from overhand.errors import ToolMissing
from overhand.system import find_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from overhand.agents.driver import Agent, Job

# what our MCP server needs of a run's environment, for agents that don't pass on all of it
SERVER_VARIABLES = (
    *("OVERHAND_PROJECT", "OVERHAND_HOME", "OVERHAND_TASK", "OVERHAND_RUN", "OVERHAND_DEPTH", "OVERHAND_MCP_BLOCK"),
    *("OVERHAND_STATE", "HOME", "PATH", "PYTHONPATH", "TMPDIR", "USER", "LOGNAME"),
    *("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"),
)

HOOK_SECONDS = 20  # for our stop hook; after that the agent stops anyway
_PATIENCE = 5.0  # seconds for all programs together to print their versions


def require(agent: Agent) -> str:
    """The program that runs this agent: the one its file names, or the one on PATH."""
    driver = find_driver(agent.driver)
    wanted = str(agent.options.get("program") or driver.program)
    found = wanted if os.sep in wanted and os.access(wanted, os.X_OK) else find_program(wanted)
    if found is None:
        raise ToolMissing(
            f"Agent {agent.name} needs the program {wanted}, which is not there.",
            f"Install it: {driver.install or f'put {wanted} on your PATH'}",
        )
    return found


def stop_hook(agent: Agent, job: Job) -> str:
    """The command that an agent's program is to run before it stops; `hooks: false` in the agent's file leaves it out.

    A shell runs it in the project's folder, from which no module may be imported as ours.
    """
    if not agent.options.get("hooks", True):
        return ""
    return shlex.join((sys.executable, "-P", "-m", "overhand.verbs.hook", job.home, job.place))


def mcp_server_command(agent: Agent) -> tuple[str, ...]:
    """The command of our MCP server, for agents that take one; `mcp: false` in the agent's file leaves it out."""
    if not agent.real or not agent.options.get("mcp", True):
        return ()
    from importlib.util import find_spec

    if find_spec("mcp") is None:
        return ()
    return (sys.executable, "-P", "-m", "overhand", "mcp")  # -P: nothing in the project is a module of ours


def session_command(agent: Agent, session: str) -> list[str]:
    """The command that opens a session for a person."""
    return [require(agent), *find_driver(agent.driver).open_session, session]


def asks_permission(agent: Agent) -> bool:
    """Whether what its level withholds becomes a question; some programs ask only through our MCP server."""
    driver = find_driver(agent.driver)
    return driver.asks and (driver.permit is None or bool(mcp_server_command(agent)))


def wrong_patterns(options: Mapping[str, Any]) -> list[str]:
    wrong = []
    for key in ("allow", "deny"):
        given = options.get(key, [])
        if not isinstance(given, list) or not all(isinstance(one, str) and one.strip() for one in given):
            wrong.append(f'overhand.{key} must be a list of patterns: ["execute: git *"].')
    return wrong


def choose() -> tuple[str, str] | None:
    """The first installed program that seems logged in, else the first whose login is unknown, else the first;
    and the reason."""
    logins = {name: driver.login for name, driver in installable().items() if find_program(driver.program)}
    found = [(name, login, *login.state()) for name, login in logins.items() if login]
    for wanted, why in ((True, "it is installed, and"), (None, "it is installed;"), (False, "it is installed, but")):
        for name, login, logged_in, rests_on in found:
            if logged_in is wanted:
                return name, f"{why} {rests_on}" + (f" (log in: {login.hint()})" if logged_in is False else "")
    return None


def program_versions(names: Iterable[str], tell: Callable[[str], None] | None = None) -> dict[str, str | None]:
    """The version of each installed program; one that doesn't answer in time has none and is asked again next time."""
    import json

    from overhand.errors import OverhandError
    from overhand.system import write_file

    paths = {name: path for name in names if (path := find_program(find_driver(name).program))}
    known = _remembered()
    keys = {name: _key(path) for name, path in paths.items()}
    new = {name: path for name, path in paths.items() if keys[name] not in known}
    if new and tell:
        tell(f"Asking {', '.join(new)} for {'its' if len(new) == 1 else 'their'} version …")
    asked = _ask(new)
    if found := {keys[name]: version for name, version in asked.items() if version}:
        try:
            os.makedirs(os.path.dirname(_cache()), exist_ok=True)
            write_file(_cache(), json.dumps(dict(list({**known, **found}.items())[-100:])))
        except (OSError, OverhandError):
            pass  # without a cache the programs are asked again
    return {name: known.get(keys[name]) or asked.get(name) for name in paths}


def _key(path: str) -> str:
    """What changes when another version is installed."""
    real = os.path.realpath(path)
    try:
        stat = os.stat(real)
    except OSError:
        return path
    return f"{path} {real} {stat.st_mtime_ns} {stat.st_size}"


def _ask(paths: Mapping[str, str]) -> dict[str, str | None]:
    """Run all `--version`s in parallel, each in its own session, and kill those that time out."""
    import signal
    import subprocess
    import time

    running: dict[str, subprocess.Popen[bytes]] = {}
    for name, path in paths.items():
        try:
            running[name] = subprocess.Popen(
                [path, "--version"],
                env={**os.environ, **find_driver(name).quiet, "NO_COLOR": "1"},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            continue
    until = time.monotonic() + _PATIENCE
    printed: dict[str, str | None] = {}
    for name, process in running.items():
        try:
            out, _ = process.communicate(timeout=max(0.1, until - time.monotonic()))
            printed[name] = _number(out.decode("utf-8", "replace"))
        except subprocess.TimeoutExpired:
            printed[name] = None
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.communicate()
    return printed


def _number(text: str) -> str | None:
    """The first word that looks like a version: `codex-cli 0.166.0`, `2.1.325 (Claude Code)`."""
    for word in text.split():
        bare = word.strip("v,()")
        if bare[:1].isdigit() and "." in bare:
            return bare[:40]
    return None


def _cache() -> str:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "overhand", "versions.json")


def _remembered() -> dict[str, str]:
    import json

    from overhand.system import read_file

    try:
        found = json.loads(read_file(_cache()) or b"{}")
    except ValueError:
        return {}
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}
