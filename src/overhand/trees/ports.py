"""Ports for the servers that a task starts: each tree has a block of its own among all trees of this user.

trees/.ports holds `{first port: tree}`; a block is free again when its tree is gone.
"""

from __future__ import annotations

import json
import os
import socket

from overhand.errors import Refused
from overhand.system import Lock, read_file, write_file

_WIDEST = 50  # ports of a block that another one may not be nearer to
_FIRST, _LAST = 20_000, 32_000  # below those that Linux gives to clients


def reserve_ports(root: str, tree: str, count: int) -> tuple[int, ...]:
    """The tree's ports: those that it has, or the first block in which none is in use."""
    if not count:
        return ()
    os.makedirs(root, 0o700, exist_ok=True)
    path = f"{root}/.ports"
    with Lock(f"{path}.lock", "The list of ports"):
        taken = {first: owner for first, owner in _read(path).items() if os.path.isdir(owner) or owner == tree}
        first = next((one for one, owner in taken.items() if owner == tree), None)
        first = first if first is not None else _free(taken, count)
        write_file(path, json.dumps({**taken, first: tree}))
    return tuple(range(first, first + count))


def _read(path: str) -> dict[int, str]:
    try:
        found = json.loads(read_file(path) or b"{}")
        return {int(first): str(owner) for first, owner in found.items()}
    except (ValueError, AttributeError):
        return {}  # it only keeps trees apart


def _free(taken: dict[int, str], count: int) -> int:
    width = -(-count // 10) * 10
    for first in range(_FIRST, _LAST - width, width):
        is_apart = not any(abs(one - first) < max(width, _WIDEST) for one in taken)
        if is_apart and all(map(_is_unused, range(first, first + count))):
            return first
    raise Refused("No block of ports is free for another tree.", "Remove trees, or set trees.ports lower.")


def _is_unused(port: int) -> bool:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
