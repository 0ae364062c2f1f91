"""`connect`: a coding client's own configuration, with our MCP server in it or taken back out."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import tomllib
from typing import TYPE_CHECKING, Any

from overhand.agents import all_drivers, lookup
from overhand.documents import jsonc
from overhand.errors import BadInput, Refused
from overhand.policy.caller import caller, require_person
from overhand.system.files import read_file, write_file
from overhand.verbs import Reply, Session

if TYPE_CHECKING:
    from overhand.agents.driver import McpClient

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
    """Print what belongs where; write it or take it back on request."""
    require_person(caller(session.store), "Changing a client's configuration")
    known = _client(client)
    if plugin is not None:
        return _write_plugin(client, known, plugin, remove=remove)
    if write and remove:
        raise BadInput("--write and --remove at once make no sense.", "Say one of them.")
    path = os.path.realpath(known.path(session.root if here else None))
    what = "remove" if remove else "write"
    changed = False
    if write or remove:
        before = _read(path)
        try:
            after = _edit(before, client, known) if write else _taken_back(before, client, known, path)
        except ValueError as error:
            raise _unfit(path, known, error, write=write) from None
        changed = after != before
        if changed:
            _put(path, before, after, keep=write)
    return Reply(
        {
            "schema": "overhand.connect/1",
            "client": client,
            "path": path,
            "entry": snippet(known),
            "did": what if changed else "nothing" if write or remove else "print",
            "next": _next(client, known, here=here, write=write, remove=remove),
        }
    )


def clients() -> tuple[str, ...]:
    """The clients that are known here: each is the program of a driver."""
    return tuple(name for name, driver in all_drivers().items() if driver.client)


def _client(name: str) -> McpClient:
    driver = lookup(name)
    if driver is None or driver.client is None:
        raise BadInput(f"CLIENT cannot be {name!r}.", f"One of: {', '.join(clients())}")
    return driver.client


def _read(path: str) -> bytes | None:
    """What is there; what is there and cannot be read must not be taken for nothing."""
    found = read_file(path, limit=_MOST)
    if found is None and os.path.lexists(path):
        raise Refused(f"{path} cannot be read, or is no file; nothing was changed.", "Look at that path.")
    if found is not None and len(found) > _MOST:
        raise Refused(f"{path} is larger than {_MOST >> 20} MB; nothing was changed.", "Look at that file.")
    return found


def _unfit(path: str, client: McpClient, error: ValueError, *, write: bool) -> Refused:
    """A file that we cannot change without guessing."""
    why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
    todo = f"Mend it first, or add this by hand:\n{snippet(client)}" if write else "Mend it first."
    return Refused(f"{path} cannot be changed as {client.form}: {why}. Nothing was changed.", todo)


def _next(client: str, known: McpClient, *, here: bool, write: bool, remove: bool) -> list[str]:
    place = " --here" if here else ""
    if remove:
        return [f"overhand connect {client}{place} --write"]
    more = [f"overhand connect {client}{place} --remove"] if write else [f"overhand connect {client}{place} --write"]
    return [*more, *([f"overhand connect {client} --plugin DIR"] if known.plugin else [])]


def command() -> list[str]:
    """How a client starts us, wherever it is started from itself."""
    beside = os.path.join(os.path.dirname(sys.executable), "overhand")
    return [beside, "mcp"] if os.access(beside, os.X_OK) else [sys.executable, "-m", "overhand", "mcp"]


def snippet(client: McpClient) -> str:
    """What belongs into the file, to be read or pasted."""
    entry = client.entry(command())
    if client.form == "TOML":
        return f"[{client.key}.overhand]\n" + "".join(f"{key} = {_quoted(value)}\n" for key, value in entry.items())
    return json.dumps({client.key: {"overhand": entry}}, indent=2, ensure_ascii=False) + "\n"


def _quoted(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _edit(before: bytes | None, name: str, client: McpClient) -> bytes:
    """With our entry; every other byte stays, comments too."""
    if client.form == "TOML":
        return _edit_toml(before, name, client)
    text = (before or b"").decode()
    entry = client.entry(command())
    found = _settings(text, client)
    if isinstance(servers := found.get(client.key), dict) and servers.get("overhand") == entry:
        return before or b""
    return jsonc.put(text, (client.key, "overhand"), entry).encode()


def _settings(text: str, client: McpClient) -> Settings:
    """What the file says, in the JSON that its client reads."""
    found = jsonc.read(text) if client.comments or not text.strip() else json.loads(text)
    if not isinstance(found, dict):
        raise jsonc.NotJson("it is not an object")
    return found


def _edit_toml(before: bytes | None, name: str, client: McpClient) -> bytes:
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


def _taken_back(before: bytes | None, name: str, client: McpClient, path: str) -> bytes | None:
    """Without our entry; the very bytes of before where nothing else was changed since. None: no file."""
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


def _write_plugin(name: str, client: McpClient, folder: str, *, remove: bool) -> Reply:
    if not client.plugin:
        able = next(one for one, driver in all_drivers().items() if driver.client and driver.client.plugin)
        raise BadInput(f"There is no plugin for {name}.", f"overhand connect {able} --plugin DIR")
    import overhand

    source = os.path.join(os.path.dirname(os.path.abspath(overhand.__file__)), "mcp", "plugin")
    files = {target: read_file(f"{source}/{file}") or b"" for file, target in client.plugin.items()}
    files[".mcp.json"] = snippet(client).encode()
    folder = os.path.abspath(folder)
    foreign = [
        file
        for file, text in files.items()
        if os.path.lexists(f"{folder}/{file}") and read_file(f"{folder}/{file}") != text and file != ".mcp.json"
    ]
    manifest = read_file(f"{folder}/{client.plugin['plugin.json']}")
    ours = manifest is not None and _named_overhand(manifest, client)
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
    return Reply(
        {
            "schema": "overhand.connect/1",
            "client": name,
            "path": folder,
            "files": sorted(files),
            "did": "remove" if remove else "write",
            "next": [f"{name} --plugin-dir {shlex.quote(folder)}"] if not remove else [],
        }
    )


def _named_overhand(manifest: bytes, client: McpClient) -> bool:
    try:
        return bool(_settings(manifest.decode(), client).get("name") == "overhand")
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
