"""One POST, in a process of its own: whatever a server does or does not do, the process can be ended.

Reads `{"url", "headers", "body", "seconds", "pause"}` as JSON from standard input, where `ps` does not show it. Prints
one line, which never holds the address, if it failed.
"""

from __future__ import annotations

import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from overhand.system import load_line

if TYPE_CHECKING:
    from collections.abc import Mapping


def post(url: str, headers: Mapping[str, str], body: bytes, seconds: float) -> int:
    """Send it and return the status of the answer; a redirection is an answer like any other and is not followed."""
    import base64
    from urllib import request
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(url)
    login, _, host = parts.netloc.rpartition("@")
    # Only these: no files, no data addresses, no error or redirect handling that would make a GET of it.
    opener = request.OpenerDirector()
    for handler in (request.ProxyHandler(), request.HTTPHandler(), request.HTTPSHandler()):
        opener.add_handler(handler)
    wanted = request.Request(parts._replace(netloc=host, fragment="").geturl(), body, dict(headers), method="POST")  # noqa: S310
    wanted.add_header("User-Agent", "overhand")
    if login:  # `https://user:password@host/…` becomes an Authorization header
        pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        wanted.add_header("Authorization", "Basic " + base64.b64encode(pair.encode()).decode())
    with opener.open(wanted, timeout=seconds) as answer:
        return int(answer.status)


def is_address(url: str) -> bool:
    """Whether this is a URL to post to: http or https, a host, and no characters that don't belong in a URL."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 -- it raises when it is no number
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and url.isascii() and url.isprintable()


def main() -> int:
    """Post what standard input describes; a failed attempt is retried once."""
    wanted: dict[str, Any] = load_line(sys.stdin.buffer.read().decode("utf-8"))
    signal.setitimer(signal.ITIMER_REAL, float(wanted["seconds"]) + 1)  # the parent may be gone by then
    problem, again = _attempt(wanted)
    if again:
        time.sleep(float(wanted["pause"]))
        problem, _ = _attempt(wanted)
    sys.stdout.write(problem and f"{problem}\n")
    return 1 if problem else 0


def _attempt(wanted: dict[str, Any]) -> tuple[str, bool]:
    """Post once; returns what went wrong, and whether a retry may help."""
    import http.client

    try:
        body = wanted["body"].encode("utf-8", "replace")
        status = post(wanted["url"], wanted["headers"], body, float(wanted["seconds"]))
    except (UnicodeError, http.client.InvalidURL):
        return "that is no http or https address", False
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError):
            return "no answer in time", False
        # the system's own message, which never contains the URL
        return getattr(reason, "strerror", None) or type(reason).__name__, True
    if 200 <= status < 300:
        return "", False
    elsewhere = " and leads elsewhere, which is not followed" if 300 <= status < 400 else ""
    return f"it answered {status}{elsewhere}", status >= 500 or status == 429


if __name__ == "__main__":
    sys.exit(main())
