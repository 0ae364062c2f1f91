"""One POST, in a process of its own: whatever a server does or does not do, the process can be ended.

Reads `{"url", "headers", "body", "seconds"}` as JSON from standard input, where `ps` does not show it. Prints one line,
which never holds the address, if it failed; the exit status says whether trying again makes sense.
"""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Any

from overhand.system import jsonline

if TYPE_CHECKING:
    from collections.abc import Mapping

FAILED = 1
TRY_AGAIN = 75  # as sysexits.h has it: a failure that may be gone the next time


def order(url: str, headers: Mapping[str, str], body: str, seconds: float) -> bytes:
    """What `main` reads."""
    wanted = {"url": url, "headers": dict(headers), "body": body, "seconds": seconds}
    return jsonline.dumps(wanted).encode("utf-8", "replace")


def post(url: str, headers: Mapping[str, str], body: bytes, seconds: float) -> int:
    """Send it and return the status of the answer; a redirection is an answer like any other and is not followed."""
    from urllib import request

    # Only these: no files, no data addresses, no error or redirect handling that would make a GET of it.
    opener = request.OpenerDirector()
    for handler in (request.ProxyHandler(), request.HTTPHandler(), request.HTTPSHandler()):
        opener.add_handler(handler)
    wanted = request.Request(_without_login(url), data=body, headers=dict(headers), method="POST")  # noqa: S310
    wanted.add_header("User-Agent", "overhand")
    if login := _login(url):
        wanted.add_header("Authorization", login)
    with opener.open(wanted, timeout=seconds) as answer:
        return int(answer.status)


def is_address(url: str) -> bool:
    """Whether this can be posted to: http or https, a host, and nothing that does not belong into an address."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 -- it raises when it is no number
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and url.isascii() and url.isprintable()


def _without_login(url: str) -> str:
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="").geturl()


def _login(url: str) -> str:
    """`https://user:password@host/…` as the header that says the same."""
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return ""
    import base64

    pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


def main() -> int:
    """Do what standard input asks for."""
    import http.client

    wanted: dict[str, Any] = jsonline.loads(sys.stdin.buffer.read().decode("utf-8"))
    seconds = float(wanted["seconds"])
    signal.setitimer(signal.ITIMER_REAL, seconds + 1)  # whoever waits for us may be gone by then
    if not is_address(wanted["url"]):
        return _tell("that is no http or https address", FAILED)
    try:
        status = post(wanted["url"], wanted["headers"], wanted["body"].encode("utf-8", "replace"), seconds)
    except (UnicodeError, http.client.InvalidURL):
        return _tell("that is no http or https address", FAILED)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError):
            return _tell("no answer in time", FAILED)
        # in the system's own words, none of which is the address
        return _tell(getattr(reason, "strerror", None) or type(reason).__name__, TRY_AGAIN)
    if 200 <= status < 300:
        return 0
    elsewhere = " and leads elsewhere, which is not followed" if 300 <= status < 400 else ""
    return _tell(f"it answered {status}{elsewhere}", TRY_AGAIN if status >= 500 or status == 429 else FAILED)


def _tell(text: str, code: int) -> int:
    sys.stdout.write(f"{text}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
