"""What Responses and Chat Completions share: OpenAI's error bodies and limit headers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from model.wire import Json, Problem

KINDS = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "unsupported_country_region_territory"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}


def failure(problem: Problem) -> tuple[dict[str, str], Json]:
    """The error as OpenAI words it; an account's used-up limit as Codex's own back end does."""
    kind, code = KINDS.get(problem.status, ("server_error" if problem.status >= 500 else "invalid_request_error", None))
    error: Json = {"message": problem.message, "type": kind, "param": None, "code": code}
    headers = {}
    if problem.status == 429:
        headers = {
            "retry-after": f"{problem.wait:.0f}",
            "x-ratelimit-limit-requests": "60",
            "x-ratelimit-remaining-requests": "0",
            "x-ratelimit-reset-requests": f"{problem.wait:.0f}s",
        }
    if problem.status == 429 and problem.resets_in is not None:
        resets_at = int(problem.now + problem.wait)
        error = {"type": "usage_limit_reached", "message": problem.message, "plan_type": "plus"}
        error |= {"resets_at": resets_at, "resets_in_seconds": int(problem.wait)}
        headers |= {
            "x-codex-primary-used-percent": "100",
            "x-codex-primary-window-minutes": "300",
            "x-codex-primary-reset-at": str(resets_at),
        }
    return headers, {"error": error}
