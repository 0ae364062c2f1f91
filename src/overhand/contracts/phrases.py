"""Phrases taken apart: at commas and prepositions outside of brackets, with notes in parentheses left out."""

from __future__ import annotations

import re

FIELDS = re.compile(r"\b(?:fields?|keys?|properties|attributes)\b:? +(.+)$", re.IGNORECASE | re.DOTALL)
"""“with fields a, b”: everything behind the word is names."""

_LINKS = """
of with containing that where which whose for from in per by to describing listing holding keyed including between
under at on up each one mapping
"""
_STOPS = frozenset(_LINKS.split())
_OPENING, _CLOSING = "([{<", ")]}>"


def main_part(text: str) -> str:
    """What stands before a comma, a dash or a colon outside of brackets: the rest explains."""
    if FIELDS.search(text):
        return text.strip().rstrip(".")
    text = cut(text, ",")[0]
    for sign in (" - ", " — ", " \u2013 ", ". ", ": "):
        before, found, after = text.partition(sign)
        if found and not _open(before) and not (sign == ": " and after.lstrip().startswith("{")):
            text = before
    return text.strip().rstrip(".")


def _open(text: str) -> bool:
    return sum(text.count(sign) for sign in "([{") > sum(text.count(sign) for sign in ")]}")


def at_stop(text: str) -> tuple[str, str, str]:
    """The words before the first preposition, the preposition, and what follows."""
    for found in re.finditer(r"[^\s{]+|\{", text):
        word = found.group().lower()
        if word == "{":
            return text[: found.start()].strip().rstrip(":"), "{", text[found.start() :]
        if word in _STOPS or word == "as":
            return text[: found.start()].strip(), word, text[found.end() :].strip()
    return text, "", ""


def braces(text: str) -> str | None:
    """What stands in the first braces."""
    start = text.find("{")
    if start < 0:
        return None
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if not depth:
            return text[start + 1 : at]
    return text[start + 1 :]


def without_notes(text: str) -> str:
    """The text without what stands in parentheses."""
    if "(" not in text:
        return text
    kept: list[str] = []
    depth = 0
    for sign in text:
        depth += sign == "("
        if not depth:
            kept.append(sign)
        depth -= sign == ")" and depth > 0
    return re.sub(r" {2,}", " ", "".join(kept)).strip()


def cut(text: str, at: str) -> list[str]:
    """The text cut at a sign or a word outside of brackets and quotes."""
    if at not in text:
        return [text]
    parts, begin, depth, quote = [], 0, 0, ""
    for place, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in '"`' or (sign == "'" and not text[place - 1 : place].isalnum()):
            quote = sign if sign in text[place + 1 :] else ""
        elif sign in _OPENING:
            depth += 1
        elif sign in _CLOSING:
            depth = max(depth - 1, 0)
        elif not depth and place >= begin and text.startswith(at, place):
            parts.append(text[begin:place])
            begin = place + len(at)
    return [*parts, text[begin:]]
