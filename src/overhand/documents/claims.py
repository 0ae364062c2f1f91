"""What a status claims: one of the seven words, read as a whole phrase, or nothing.

A word counts only where the phrase says nothing else. "Not completed", "50 % complete", "completed, but tests fail"
and a list of words to choose from claim nothing: what is not known is never guessed.
"""

from __future__ import annotations

import re

from overhand.documents.problems import Problem, warning
from overhand.words import STATUSES

_WORDS = ", ".join(STATUSES)
_SYNONYMS = {
    **dict.fromkeys(("done", "complete", "success", "successful", "succeeded", "finished", "ok", "okay"), "completed"),
    **dict.fromkeys(("error", "errored", "failure"), "failed"),
    **dict.fromkeys(("partially-completed", "partially-complete", "partially-done", "partly-completed"), "partial"),
    **dict.fromkeys(("partly-done", "partial-success", "partial-completion", "incomplete"), "partial"),
    **dict.fromkeys(("canceled", "aborted"), "cancelled"),
    **dict.fromkeys(("input-needed", "needs-clarification", "waiting-for-input", "needs-user-input"), "needs-input"),
}
# The phrase ends where a note begins: a parenthesis, a dash, a comma, the end of a sentence.
_PHRASE = re.compile(r"([^(\[{,;:.!?/|&+<>\u2013—]*?)\s*(?:([(\[{,;:.!?/|&+<>\u2013—]| -+ )(.*))?", re.DOTALL)
_FILLER = re.compile(
    r"^(?:(?:the|this|my|task|work|job|all|now|fully|successfully|100 ?%|is|was|has been|have been)\s+)+"
    r"|(?:\s+(?:now|fully|successfully|100 ?%|and (?:tested|verified|committed|pushed)))+$"
)
# `blocked by the missing key`: the reason needs no comma, as it takes nothing back
_REASON = re.compile(
    r"(blocked|failed|partial|needs input|cancelled) (?:by|on|because|due|since|waiting|after|from)\b.*"
)
_MARKUP = str.maketrans({**dict.fromkeys("*`~\"'“”„«»\u2018\u2019\u200b\u200d\ufe0f\ufeff", ""), "_": " ", "\xa0": " "})
# signs that speak against "completed", whatever the word beside them says
_DOUBT = frozenset("❌✖✗✘🚫⛔🛑⚠🟡🟠🔴🟨🟧🟥⏳⌛🔄🚧❓❗⏸🕐🔜")
_GOOD_NEWS = re.compile(
    r"\b(?:no|zero|0|without(?: any)?) (?:(?:known|open|new|remaining|further|other) )?"
    r"(?:issues?|errors?|failures?|failed|failing|warnings?|problems?|regressions?|skipped|blockers?|todos?)\b"
    r"|\bnothing (?:is |was )?(?:else )?(?:left|missing|open|remaining|failed|failing|skipped|broken)\b"
    r"|\bnot? (?:only|just)\b|\b100 ?%|\b(\d+) ?(?:/|of|out of) ?\1\b"
)
_TAKES_BACK = re.compile(
    r"\b(?:not?|never|none|nothing|cannot|unable|without|but|except\w*|excluding|however|though|although|minus|apart|aside"
    r"|only|part(?:s|ly|ial|ially)?|mostly|most|some|almost|nearly|half|todo|tbd|wip|progress|pending|remain\w*|left"
    r"|yet|still|until|later|tomorrow|next|needs?|needed|requires?|wait\w*|block\w*|fail\w*|errors?|broken|breaks?|red"
    r"|miss\w*|skip\w*|incomplete|unfinished|untested|unverified|unsuccessful\w*|issues?|problems?|caveats?|warnings?"
    r"|cancel\w*|abort\w*|crash\w*|stub\w*|mock\w*|placeholder\w*|assum\w*|draft|unless|if|would|should|could|will|can"
    r"|to be|input)\b|\w+n['\u2019]t\b|%|\?|\d ?(?:/|of|out of) ?\d"
)


def read_status(raw: str, line: int | None = None) -> tuple[str | None, list[Problem]]:
    """The status that `raw` claims, in the spelling of the specification, and what was odd about it."""
    if raw in STATUSES:
        return raw, []
    plain = raw.lower().replace("n\u2019t", "n't")
    shown = "".join(char if char.isascii() or char.isalpha() or char in "\u2013—" else " " for char in plain)
    match = _PHRASE.fullmatch(" ".join(shown.translate(_MARKUP).split()))
    phrase, sign, note = match.groups("") if match else ("", "", "")
    bare = _FILLER.sub("", phrase.strip(" -")).replace("-", " ")
    word = "-".join(_REASON.sub(r"\1", bare).split())
    status = word if word in STATUSES else _SYNONYMS.get(word)
    if sign and sign in "/|&+?" and status and any(one in note for one in STATUSES):
        message = "Several statuses are listed; none of them is a claim."
        return None, [Problem("status-several", message, line=line, fix="Leave only the one that holds.")]
    if status is None or (sign and sign in "/|&+?<>") or (status == "completed" and _is_doubtful(raw, note)):
        message = f"The status “{raw.strip()[:40]}” is not known." if raw.strip() else "The status is empty."
        return None, [Problem("status-unknown", message, line=line, fix=f"Write one of {_WORDS}.")]
    if word == status:
        return status, []
    message = f"The status “{raw.strip()[:40]}” was read as {status}."
    return status, [warning("status-synonym", message, line, f"Write {status}.")]


def _is_doubtful(raw: str, note: str) -> bool:
    """Whether a sign beside “completed”, or the note behind it, takes some of it back."""
    return not _DOUBT.isdisjoint(raw) or takes_back(note)


def takes_back(note: str) -> bool:
    """Whether a note behind a claim speaks of something that is not done."""
    return bool(_TAKES_BACK.search(_GOOD_NEWS.sub(" ", note.lower())))
