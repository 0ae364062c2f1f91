"""`connect`: a coding client's own configuration, with our MCP server in it or taken back out."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import tomllib
from typing import TYPE_CHECKING, Any

from overhand.documents import jsonc
from overhand.errors import BadInput, Refused
from overhand.policy.caller import caller, require_person
from overhand.system.files import read_file, write_file
from overhand.verbs import Answer, Session

if TYPE_CHECKING:
    from collections.abc import Callable

    Settings = dict[str, Any]

_MOST = 64 * 1024 * 1024
_KEPT = ".before-overhand"  # what was there, until it is taken back
_BEGIN = "# overhand: begin (taken back by: overhand connect codex --remove)\n"
_END = "# overhand: end\n"
_PLUGIN = {
    "plugin.json": ".claude-plugin/plugin.json",
    "dispatch.md": "commands/dispatch.md",
    "SKILL.md": "skills/overhand/SKILL.md",
    "README.md": "README.md",
}


def connect(
    session: Session,
    client: str,
    write: bool = False,
    remove: bool = False,
    here: bool = False,
    plugin: str | None = None,
) -> Answer:
    """Print what belongs where; write it or take it back on request."""
    require_person(caller(session.store), "Changing a client's configuration")
    if plugin is not None:
        return _write_plugin(client, plugin, remove=remove)
    if write and remove:
        raise BadInput("--write and --remove at once make no sense.", "Say one of them.")
    path = os.path.realpath(_path(client, session.root if here else None))
    edit: Callable[[bytes | None, str], bytes | None] = _edit_toml if client == "codex" else _edit_json
    what = "remove" if remove else "write"
    changed = False
    if write or remove:
        before = _read(path)
        try:
            after = edit(before, client) if write else _taken_back(before, client, path)
        except ValueError as error:
            raise _unfit(path, client, error, write=write) from None
        changed = after != before
        if changed:
            _put(path, before, after, keep=write)
    return Answer(
        {
            "schema": "overhand.connect/1",
            "client": client,
            "path": path,
            "entry": snippet(client),
            "did": what if changed else "nothing" if write or remove else "print",
            "next": _next(client, here=here, write=write, remove=remove),
        }
    )


def _read(path: str) -> bytes | None:
    """What is there; what is there and cannot be read must not be taken for nothing."""
    found = read_file(path, limit=_MOST)
    if found is None and os.path.lexists(path):
        raise Refused(f"{path} cannot be read, or is no file; nothing was changed.", "Look at that path.")
    if found is not None and len(found) > _MOST:
        raise Refused(f"{path} is larger than {_MOST >> 20} MB; nothing was changed.", "Look at that file.")
    return found


def _unfit(path: str, client: str, error: ValueError, *, write: bool) -> Refused:
    """A file that we cannot change without guessing."""
    kind = "TOML" if client == "codex" else "JSON"
    why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
    todo = f"Mend it first, or add this by hand:\n{snippet(client)}" if write else "Mend it first."
    return Refused(f"{path} cannot be changed as {kind}: {why}. Nothing was changed.", todo)


def _next(client: str, *, here: bool, write: bool, remove: bool) -> list[str]:
    place = " --here" if here else ""
    if remove:
        return [f"overhand connect {client}{place} --write"]
    more = [f"overhand connect {client}{place} --remove"] if write else [f"overhand connect {client}{place} --write"]
    return [*more, *(["overhand connect claude --plugin DIR"] if client == "claude" else [])]


def _path(client: str, root: str | None) -> str:
    """The client's own file: the user's, or the one in the project."""
    home = os.path.expanduser("~")
    if root is not None:
        names = {"claude": ".mcp.json", "codex": ".codex/config.toml", "gemini": ".gemini/settings.json"}
        return f"{root}/{names[client]}" if client in names else _opencode(root)
    if client == "claude":
        return f"{os.environ.get('CLAUDE_CONFIG_DIR') or home}/.claude.json"
    if client == "codex":
        return f"{os.environ.get('CODEX_HOME') or f'{home}/.codex'}/config.toml"
    if client == "gemini":
        return f"{home}/.gemini/settings.json"
    return _opencode(f"{os.environ.get('XDG_CONFIG_HOME') or f'{home}/.config'}/opencode")


def _opencode(folder: str) -> str:
    """It reads both names; the one that is there is the person's."""
    with_comments = f"{folder}/opencode.jsonc"
    plain = f"{folder}/opencode.json"
    return with_comments if os.path.lexists(with_comments) and not os.path.lexists(plain) else plain


def command() -> list[str]:
    """How a client starts us, wherever it is started from itself."""
    beside = os.path.join(os.path.dirname(sys.executable), "overhand")
    return [beside, "mcp"] if os.access(beside, os.X_OK) else [sys.executable, "-m", "overhand", "mcp"]


def _entry(client: str) -> tuple[str, Settings]:
    """The key under which servers stand, and our own entry."""
    program, *words = command()
    if client == "opencode":
        return "mcp", {"type": "local", "command": [program, *words], "enabled": True, "timeout": 60000}
    common: Settings = {"command": program, "args": words}
    if client == "claude":
        return "mcpServers", {"type": "stdio", **common, "env": {}}
    return "mcpServers", {**common, "timeout": 600000}


def snippet(client: str) -> str:
    """What belongs into the file, to be read or pasted."""
    if client == "codex":
        return _toml()
    key, entry = _entry(client)
    return json.dumps({key: {"overhand": entry}}, indent=2, ensure_ascii=False) + "\n"


def _toml() -> str:
    program, *words = command()
    # it hands on next to nothing of its environment; what a person trusts is kept in the configuration folder
    return (
        f"[mcp_servers.overhand]\ncommand = {_quoted(program)}\nargs = [{', '.join(map(_quoted, words))}]\n"
        'env_vars = ["XDG_CONFIG_HOME"]\n'
    )


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _edit_json(before: bytes | None, client: str) -> bytes:
    """With our entry; every other byte stays, comments too."""
    text = (before or b"").decode()
    key, entry = _entry(client)
    found = _settings(text, client)
    if isinstance(servers := found.get(key), dict) and servers.get("overhand") == entry:
        return before or b""
    return jsonc.put(text, (key, "overhand"), entry).encode()


def _dumped(settings: Settings) -> bytes:
    return (json.dumps(settings, indent=2, ensure_ascii=False) + "\n").encode()


def _settings(text: str, client: str) -> Settings:
    """What the file says, in the JSON that its client reads."""
    found = jsonc.read(text) if client != "claude" or not text.strip() else json.loads(text)
    if not isinstance(found, dict):
        raise jsonc.NotJson("it is not an object")
    return found


def _edit_toml(before: bytes | None, _client: str) -> bytes:
    text = (before or b"").decode()
    settings = tomllib.loads(text)  # its error is a ValueError
    block = f"{_BEGIN}{_toml()}{_END}"
    if block in text:
        return before or b""
    rest = _without_block(text)
    if "overhand" in tomllib.loads(rest).get("mcp_servers", {}):
        raise Refused(
            "There is an entry mcp_servers.overhand that is not ours; nothing was changed.",
            "Remove it yourself: codex mcp remove overhand",
        )
    gap = "" if not rest or rest.endswith("\n") else "\n"
    after = f"{rest}{gap}{block}"
    wanted = {**settings.get("mcp_servers", {}), **tomllib.loads(_toml())["mcp_servers"]}
    if tomllib.loads(after) != {**settings, "mcp_servers": wanted}:
        raise Refused("The entry cannot be added to this file by itself.", f"Add it by hand: {_toml()}")
    return after.encode()


def _without_block(text: str) -> str:
    start, end = text.find(_BEGIN), text.find(_END)
    return text if start < 0 or end < start else text[:start] + text[end + len(_END) :]


def _taken_back(before: bytes | None, client: str, path: str) -> bytes | None:
    """Without our entry; the very bytes of before where nothing else was changed since. None: no file."""
    if before is None:
        return None
    kept = read_file(f"{path}{_KEPT}", limit=_MOST)
    if client == "codex":
        rest: bytes = _without_block(before.decode()).encode()
        if kept is not None and rest.rstrip(b"\n") == kept.rstrip(b"\n"):
            return kept
        return rest if rest.strip() else None
    text = before.decode()
    key, _ = _entry(client)
    servers = _settings(text, client).get(key)
    if not isinstance(servers, dict) or "overhand" not in servers:
        return before
    was = None if kept is None else _settings(kept.decode(), client)
    after = jsonc.drop(text, (key, "overhand"))
    if len(servers) == 1 and key not in (was or {}):
        after = jsonc.drop(after, (key,))  # the key was ours as well
    if kept is not None and _settings(after, client) == was:
        return kept
    return after.encode() if kept is not None or after.strip() != "{}" else None


def _put(path: str, before: bytes | None, after: bytes | None, *, keep: bool) -> None:
    """Replace the file as a whole; what was there before is kept beside it until it is taken back."""
    kept = f"{path}{_KEPT}"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if keep and before is not None and not os.path.lexists(kept):
        shutil.copy2(path, kept)
    if after is None:
        os.unlink(path)
    else:
        write_file(path, after, mode=os.stat(path).st_mode & 0o777 if before is not None else 0o600)
    if not keep and os.path.lexists(kept):
        os.unlink(kept)


def _write_plugin(client: str, folder: str, *, remove: bool) -> Answer:
    if client != "claude":
        raise BadInput(f"There is no plugin for {client}.", "overhand connect claude --plugin DIR")
    import overhand

    source = os.path.join(os.path.dirname(os.path.abspath(overhand.__file__)), "mcp", "plugin")
    files = {target: read_file(f"{source}/{name}") or b"" for name, target in _PLUGIN.items()}
    key, entry = _entry("claude")
    files[".mcp.json"] = _dumped({key: {"overhand": entry}})
    folder = os.path.abspath(folder)
    foreign = [
        name
        for name, text in files.items()
        if os.path.lexists(f"{folder}/{name}") and read_file(f"{folder}/{name}") != text and name != ".mcp.json"
    ]
    manifest = read_file(f"{folder}/.claude-plugin/plugin.json")
    ours = manifest is not None and _named_overhand(manifest)
    if foreign and not ours:
        raise Refused(f"{folder} holds other files: {', '.join(foreign)}.", "Name a folder of its own.")
    for name, text in files.items():
        path = f"{folder}/{name}"
        if remove:
            _unlink(path, folder)
        elif read_file(path) != text:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(text)
    return Answer(
        {
            "schema": "overhand.connect/1",
            "client": client,
            "path": folder,
            "files": sorted(files),
            "did": "remove" if remove else "write",
            "next": [f"claude --plugin-dir {shlex.quote(folder)}"] if not remove else [],
        }
    )


def _named_overhand(manifest: bytes) -> bool:
    try:
        return bool(_settings(manifest.decode(), "claude").get("name") == "overhand")
    except ValueError:
        return False


def _unlink(path: str, top: str) -> None:
    """Remove a file of ours, and folders that are empty thereby."""
    try:
        os.unlink(path)
        while path != top:
            path = os.path.dirname(path)
            os.rmdir(path)
    except OSError:
        return  # not there, or not empty
