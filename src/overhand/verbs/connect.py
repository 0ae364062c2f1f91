"""`connect`: add our MCP server to a coding client's own configuration, or remove it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import tomllib
from typing import TYPE_CHECKING, Any

from overhand.agents import all_drivers, lookup
from overhand.documents import NotJson, drop_entry, put_entry, read_jsonc
from overhand.errors import BadInput, Refused
from overhand.policy import find_caller, require_person
from overhand.system import read_file, write_file
from overhand.verbs.verb import Reply, Session

if TYPE_CHECKING:
    from overhand.agents import McpClient

    Settings = dict[str, Any]

_MOST = 64 * 1024 * 1024
_KEPT = ".before-overhand"  # what was there, until it is taken back
_END = "# overhand: end\n"


def connect(
    session: Session,
    client: str,
    write: bool = False,
    remove: bool = False,
    here: bool = False,
    plugin: str | None = None,
) -> Reply:
    """Print what belongs where; write or remove it on request."""
    require_person(find_caller(session.store), "Changing a client's configuration")
    driver = lookup(client)
    if driver is None or driver.client is None:
        raise BadInput(f"CLIENT cannot be {client!r}.", f"One of: {', '.join(clients())}")
    known = driver.client
    if plugin is not None:
        return _write_plugin(client, known, plugin, remove=remove)
    if write and remove:
        raise BadInput("--write and --remove at once make no sense.", "Say one of them.")
    path = os.path.realpath(known.path(session.root if here else None))
    did = "print"
    if write or remove:
        changed = _change(path, client, known, write=write)
        did = "nothing" if not changed else "remove" if remove else "write"
    follow = [f"overhand connect {client}{' --here' if here else ''} {'--remove' if write else '--write'}"]
    if known.plugin and not remove:
        follow.append(f"overhand connect {client} --plugin DIR")
    head = {"schema": "overhand.connect/1", "client": client, "path": path}
    return Reply({**head, "entry": snippet(known), "did": did, "next": follow})


def clients() -> tuple[str, ...]:
    """The names of known clients: each is the program of a driver."""
    return tuple(name for name, driver in all_drivers().items() if driver.client)


def _change(path: str, name: str, client: McpClient, *, write: bool) -> bool:
    """Add or remove our entry; a file that can't be read or parsed is refused, never overwritten."""
    before = read_file(path, limit=_MOST)
    if before is None and os.path.lexists(path):
        raise Refused(f"{path} cannot be read, or is no file; nothing was changed.", "Look at that path.")
    if before is not None and len(before) > _MOST:
        raise Refused(f"{path} is larger than {_MOST >> 20} MB; nothing was changed.", "Look at that file.")
    try:
        after = _added(before, name, client) if write else _removed(before, name, client, path)
    except ValueError as error:
        why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        todo = f"Mend it first, or add this by hand:\n{snippet(client)}" if write else "Mend it first."
        raise Refused(f"{path} cannot be changed as {client.form}: {why}. Nothing was changed.", todo) from None
    if after != before:
        _replace(path, before, after, keep=write)
    return after != before


def command() -> list[str]:
    """How a client starts us, from any folder."""
    beside = os.path.join(os.path.dirname(sys.executable), "overhand")
    return [beside, "mcp"] if os.access(beside, os.X_OK) else [sys.executable, "-m", "overhand", "mcp"]


def snippet(client: McpClient) -> str:
    """What belongs into the file, to be read or pasted."""
    entry = client.entry(command())
    if client.form == "TOML":
        lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in entry.items()]
        return f"[{client.key}.overhand]\n{''.join(lines)}"
    return json.dumps({client.key: {"overhand": entry}}, indent=2, ensure_ascii=False) + "\n"


def _added(before: bytes | None, name: str, client: McpClient) -> bytes:
    """With our entry; every other byte stays, comments too."""
    if client.form == "TOML":
        return _added_to_toml(before, name, client)
    text = (before or b"").decode()
    entry = client.entry(command())
    found = _settings(text, client)
    if isinstance(servers := found.get(client.key), dict) and servers.get("overhand") == entry:
        return before or b""
    return put_entry(text, (client.key, "overhand"), entry).encode()


def _settings(text: str, client: McpClient) -> Settings:
    """What the file says, in the JSON that its client reads."""
    found = read_jsonc(text) if client.comments or not text.strip() else json.loads(text)
    if not isinstance(found, dict):
        raise NotJson("it is not an object")
    return found


def _added_to_toml(before: bytes | None, name: str, client: McpClient) -> bytes:
    text = (before or b"").decode()
    settings = tomllib.loads(text)  # its error is a ValueError
    ours = snippet(client)
    block = f"{_begin(name)}{ours}{_END}"
    if block in text:
        return before or b""
    rest = _without_block(text, name)
    if "overhand" in tomllib.loads(rest).get(client.key, {}):
        raise Refused(
            f"There is an entry {client.key}.overhand that is not ours; nothing was changed.",
            f"Remove it yourself: {name} mcp remove overhand",
        )
    gap = "" if not rest or rest.endswith("\n") else "\n"
    after = f"{rest}{gap}{block}"
    wanted = {**settings.get(client.key, {}), **tomllib.loads(ours)[client.key]}
    if tomllib.loads(after) != {**settings, client.key: wanted}:
        raise Refused("The entry cannot be added to this file by itself.", f"Add it by hand: {ours}")
    return after.encode()


def _begin(name: str) -> str:
    return f"# overhand: begin (taken back by: overhand connect {name} --remove)\n"


def _without_block(text: str, name: str) -> str:
    start, end = text.find(_begin(name)), text.find(_END)
    return text if start < 0 or end < start else text[:start] + text[end + len(_END) :]


def _removed(before: bytes | None, name: str, client: McpClient, path: str) -> bytes | None:
    """Without our entry; the exact bytes of before if nothing else was changed since. None: no file."""
    if before is None:
        return None
    kept = read_file(f"{path}{_KEPT}", limit=_MOST)
    if client.form == "TOML":
        rest: bytes = _without_block(before.decode(), name).encode()
        if kept is not None and rest.rstrip(b"\n") == kept.rstrip(b"\n"):
            return kept
        return rest if rest.strip() else None
    text = before.decode()
    key = client.key
    servers = _settings(text, client).get(key)
    if not isinstance(servers, dict) or "overhand" not in servers:
        return before
    was = None if kept is None else _settings(kept.decode(), client)
    after = drop_entry(text, (key, "overhand"))
    if len(servers) == 1 and key not in (was or {}):
        after = drop_entry(after, (key,))  # the key was ours as well
    if kept is not None and _settings(after, client) == was:
        return kept
    return after.encode() if kept is not None or after.strip() != "{}" else None


def _replace(path: str, before: bytes | None, after: bytes | None, *, keep: bool) -> None:
    """Replace the file as a whole; the original is kept beside it until our entry is removed."""
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


def _write_plugin(name: str, client: McpClient, folder: str, *, remove: bool) -> Reply:
    if not client.plugin:
        able = next(one for one, driver in all_drivers().items() if driver.client and driver.client.plugin)
        raise BadInput(f"There is no plugin for {name}.", f"overhand connect {able} --plugin DIR")
    import overhand

    source = os.path.join(os.path.dirname(os.path.abspath(overhand.__file__)), "mcp", "plugin")
    files = {target: read_file(f"{source}/{file}") or b"" for file, target in client.plugin.items()}
    files[".mcp.json"] = snippet(client).encode()
    folder = os.path.abspath(folder)
    there = {file: read_file(f"{folder}/{file}") for file in files if os.path.lexists(f"{folder}/{file}")}
    foreign = [file for file, text in there.items() if text != files[file] and file != ".mcp.json"]
    manifest = read_file(f"{folder}/{client.plugin['plugin.json']}")
    try:
        ours = manifest is not None and _settings(manifest.decode(), client).get("name") == "overhand"
    except ValueError:
        ours = False
    if foreign and not ours:
        raise Refused(f"{folder} holds other files: {', '.join(foreign)}.", "Name a folder of its own.")
    for file, text in files.items():
        path = f"{folder}/{file}"
        if remove:
            _unlink(path, folder)
        elif read_file(path) != text:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as written:
                written.write(text)
    follow = [] if remove else [f"{name} --plugin-dir {shlex.quote(folder)}"]
    head = {"schema": "overhand.connect/1", "client": name, "path": folder}
    return Reply({**head, "files": sorted(files), "did": "remove" if remove else "write", "next": follow})


def _unlink(path: str, top: str) -> None:
    """Remove a file, and the folders that become empty."""
    try:
        os.unlink(path)
        while path != top:
            path = os.path.dirname(path)
            os.rmdir(path)
    except OSError:
        return  # not there, or not empty
