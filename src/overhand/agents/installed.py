"""Which agent programs this machine has, in which version, and whether they seem to be logged in.

Whether somebody is logged in is told from the outside: a variable that is set, or a file that is there. Nothing of
what stands in them is ever read.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from overhand.agents import REAL, programs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_PATIENCE = 5.0  # seconds that all programs together may take to say their version


@dataclass(frozen=True, slots=True)
class Place:
    """A file in a folder that a variable names, or else in its default."""

    variable: str
    default: str
    name: str

    @property
    def path(self) -> str:
        """Where it is on this machine."""
        return os.path.join(os.path.expanduser(os.environ.get(self.variable) or self.default), self.name)


@dataclass(frozen=True, slots=True)
class Signs:
    """What tells that a program is logged in, and how to log in."""

    variables: tuple[str, ...]
    files: tuple[Place, ...]
    settings: tuple[Place, ...]  # where they are, the program may have a key that cannot be seen from here
    log_in: str
    provider: str = ""  # names whose key it takes; without it and without settings no key is of use
    unread: str = ""  # a key that people expect it to take, and it does not


SIGNS: Mapping[str, Signs] = {
    "claude": Signs(
        ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK",
         "CLAUDE_CODE_USE_VERTEX"),
        (Place("CLAUDE_CONFIG_DIR", "~/.claude", ".credentials.json"),),
        (),
        "claude, then /login",
    ),
    "codex": Signs(
        ("CODEX_API_KEY",),
        (Place("CODEX_HOME", "~/.codex", "auth.json"),),
        (Place("CODEX_HOME", "~/.codex", "config.toml"),),
        "codex login",
        unread="OPENAI_API_KEY",
    ),
    "gemini": Signs(
        ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"),
        (Place("", "~/.gemini", "oauth_creds.json"),),
        (Place("", "~/.gemini", "settings.json"),),
        "gemini, then choose how to log in",
    ),
    "opencode": Signs(
        ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
        (Place("XDG_DATA_HOME", "~/.local/share", "opencode/auth.json"),),
        (Place("XDG_CONFIG_HOME", "~/.config", "opencode/opencode.json"),),
        "opencode auth login",
    ),
    "goose": Signs(
        (),
        (Place("XDG_CONFIG_HOME", "~/.config", "goose/secrets.yaml"),),
        (Place("XDG_CONFIG_HOME", "~/.config", "goose/config.yaml"),),
        "goose configure",
        provider="GOOSE_PROVIDER",
    ),
    "qwen": Signs(
        ("OPENAI_API_KEY", "DASHSCOPE_API_KEY"),
        (Place("", "~/.qwen", "oauth_creds.json"),),
        (Place("", "~/.qwen", "settings.json"),),
        "qwen, then /auth",
    ),
}  # fmt: skip


def login(name: str) -> tuple[bool | None, str]:
    """Whether a program seems to be logged in (None: it cannot be told from outside), and what that rests on."""
    signs = SIGNS[name]
    if variable := next((v for v in signs.variables if os.environ.get(v)), None):
        return True, f"{variable} is set"
    if path := next((p.path for p in signs.files if os.path.isfile(p.path)), None):
        return True, f"{_shown(path)} is there"
    if provider := os.environ.get(signs.provider):
        key = f"{provider.upper()}_API_KEY"
        told = f"{key} is set" if os.environ.get(key) else f"{signs.provider} is {provider}, a key may be elsewhere"
        return (True if os.environ.get(key) else None), told
    if path := next((p.path for p in signs.settings if os.path.isfile(p.path)), None):
        return None, f"{_shown(path)} may name a key"
    if name == "claude" and sys.platform == "darwin":
        return None, "it may have its key in the keychain"
    if os.environ.get(signs.unread):
        return False, f"{signs.unread} is set, but it does not take that one"
    return False, "no provider was chosen" if signs.provider else "no key and no login was found"


def log_in(name: str) -> str:
    """What to type to log in."""
    signs = SIGNS[name]
    if signs.unread and os.environ.get(signs.unread):
        return f"printenv {signs.unread} | {signs.log_in} --with-api-key"
    return signs.log_in


def _shown(path: str) -> str:
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if path.startswith(f"{home}/") else path


def choose() -> tuple[str, str] | None:
    """The first program that is installed and seems logged in, else the first whose login cannot be told, else the
    first; and why it was taken."""
    found = [(name, *login(name)) for name in REAL if programs.find(name)]
    for wanted, why in ((True, "it is installed, and"), (None, "it is installed;"), (False, "it is installed, but")):
        for name, logged_in, rests_on in found:
            if logged_in is wanted:
                return name, f"{why} {rests_on}" + (f" (log in: {log_in(name)})" if logged_in is False else "")
    return None


def versions(names: Iterable[str] = REAL, tell: Callable[[str], None] | None = None) -> dict[str, str | None]:
    """The version of each program that is there; one that does not answer in time has none, and is asked again."""
    paths = {name: path for name in names if (path := programs.find(name))}
    known = _remembered()
    keys = {name: _key(path) for name, path in paths.items()}
    new = {name: path for name, path in paths.items() if keys[name] not in known}
    if new and tell:
        tell(f"Asking {', '.join(new)} for {'its' if len(new) == 1 else 'their'} version …")
    asked = _ask(new)
    if told := {keys[name]: version for name, version in asked.items() if version}:
        _remember({**known, **told})
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
    """All at the same time, each in a session of its own, ended when the time is over."""
    import signal
    import subprocess
    import time

    quiet = {"DISABLE_AUTOUPDATER": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1", "NO_COLOR": "1"}
    running: dict[str, subprocess.Popen[bytes]] = {}
    for name, path in paths.items():
        try:
            running[name] = subprocess.Popen(
                [path, "--version"],
                env={**os.environ, **quiet},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            continue
    until = time.monotonic() + _PATIENCE
    told: dict[str, str | None] = {}
    for name, process in running.items():
        try:
            out, _ = process.communicate(timeout=max(0.1, until - time.monotonic()))
            told[name] = _number(out.decode("utf-8", "replace"))
        except subprocess.TimeoutExpired:
            told[name] = None
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.communicate()
    return told


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

    from overhand.system.files import read_file

    try:
        found = json.loads(read_file(_cache()) or b"{}")
    except ValueError:
        return {}
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def _remember(known: dict[str, str]) -> None:
    """Only a cache: where it cannot be written, the programs are asked again."""
    import json

    from overhand.errors import OverhandError
    from overhand.system.files import write_file

    try:
        os.makedirs(os.path.dirname(_cache()), exist_ok=True)
        write_file(_cache(), json.dumps(dict(list(known.items())[-100:])))
    except (OSError, OverhandError):
        return
