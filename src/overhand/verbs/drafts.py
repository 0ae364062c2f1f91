"""Drafts of many requests at once: what differs from another only in its title is not worked out again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from overhand.documents.handoff import is_plain
from overhand.policy import trust
from overhand.verbs.request import MAX_TITLE, Request

if TYPE_CHECKING:
    from overhand.documents.handoff import Handoff
    from overhand.record.store import Draft

_BEFORE = "# Task Handoff\n\n## Task\n"


class Drafted(NamedTuple):
    """A request that no guard refuses: the task as it would be made, and its HANDOFF as it is read."""

    request: Request
    draft: Draft
    handoff: Handoff


def alike(first: Drafted, title: object) -> Drafted | None:
    """The same request under another title; None where a title could change more than its own line."""
    request, (agent, text, created, schema), handoff = first
    if not isinstance(title, str) or not _is_plain(title) or not _is_plain(request.title):
        return None
    if request.strict or request.edit or request.handoff is not None or "cause" in created:
        return None
    own = f"{_BEFORE}{request.title}\n\n"
    if not text.startswith(own):
        return None
    handoff = replace(handoff, task=title)
    created = {**created, "title": handoff.title}
    created["seal"] = trust.seal(created)
    return Drafted(request, (agent, f"{_BEFORE}{title}\n\n{text[len(own) :]}", created, schema), handoff)


def _is_plain(title: str) -> bool:
    """Whether it is one line of words: under a heading it means nothing but itself."""
    return len(title) <= MAX_TITLE and is_plain(title)
