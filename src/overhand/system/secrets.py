"""Hide secrets: the values of variables with secret-sounding names, and the part of a URL that may be a key."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")


def mask_secrets(text: str, env: Mapping[str, str] | None = None, also: Collection[str] = ()) -> str:
    """Replace the values of variables that have a secret-sounding name or are named in `also`."""
    for name, value in (os.environ if env is None else env).items():
        if len(value) >= 8 and value in text and (name in also or any(word in name.upper() for word in _SECRET_NAMES)):
            text = text.replace(value, f"<{name}>")
    return text


def shown_address(url: object) -> str:
    """An http URL reduced to what may be shown, its scheme and host; any other value is returned unchanged."""
    scheme, found, rest = str(url).partition("://")
    if not found or scheme.lower() not in ("http", "https"):
        return str(url)
    host = rest.replace("?", "/").replace("#", "/").replace("\\", "/").partition("/")[0].rpartition("@")[2]
    return f"{scheme}://{host}/…"
