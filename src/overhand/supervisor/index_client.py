"""Asking the project's daemon for something that it holds in memory; light, for `tag find` is to be quick."""

from __future__ import annotations

import os

from overhand.system.jsonline import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overhand.record.store import Store

_PATIENCE = 5.0
_FOLDER = "/proc/self/fd/{}/sock"  # a long path goes through the open folder: the kernel takes 107 bytes


def find(store: Store, where: str, pattern: str, *, tags_only: bool, form: str) -> str | None:
    """What a search in this folder prints, as the daemon has it; None if one must search."""
    if not os.path.exists(f"{store.own}/daemon"):
        return None
    real = os.path.realpath(where)
    if not f"{real}/".startswith(f"{store.root}/") or not os.path.isdir(real):
        return None
    shown = "" if where in (".", "./") else where.rstrip("/") + "/"
    told = ask(
        store,
        {"ask": "find", "where": real, "shown": shown, "pattern": pattern, "tags_only": tags_only, "form": form},
    )
    return None if told is None else told.decode("utf-8", "surrogateescape")


def ask(store: Store, question: dict[str, object]) -> bytes | None:
    """The daemon's answer; None if nobody is there, or it does not know."""
    told = _heard(store, question)
    if told == b"":  # it sends away who dawdles: that is no answer
        told = _heard(store, question)
    return told[4:-1] if told and told.startswith(b"yes\n") and told.endswith(b"\0") else None


def _heard(store: Store, question: dict[str, object]) -> bytes | None:
    """All that it said."""
    import _socket

    place = f"{store.own}/sock"
    peer = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    folder = -1
    try:
        if len(os.fsencode(place)) >= 100:
            folder = os.open(store.own, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
            place = _FOLDER.format(folder)
        peer.settimeout(_PATIENCE)
        peer.connect(place)
        view = memoryview(dumps(question).encode("utf-8", "surrogatepass") + b"\n")
        while view:
            view = view[peer.send(view) :]
        parts = []
        while part := peer.recv(1 << 20):
            parts.append(part)
    except (BrokenPipeError, ConnectionResetError):
        return b""
    except OSError:
        return None
    finally:
        peer.close()
        if folder >= 0:
            os.close(folder)
    return b"".join(parts)
