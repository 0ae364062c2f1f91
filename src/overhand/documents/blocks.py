"""Entries of a contract block: `- point: value | SOURCE: where` to fields and back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from overhand.documents.inline import cell, uncell
from overhand.documents.problems import Problem, warning, wrong
from overhand.documents.text import one_line, shorten

_COLON = re.compile(r"(?<!\\):(?=\s|$)")


class Listing(NamedTuple):
    """A list of a contract: how each of its entries divides into fields."""

    fields: tuple[str, ...]
    """Fields of the part before the first pipe; none if that part is named too (`REQ: …`)."""
    by: str = ""
    """What divides that part: `:`, a word in capitals, or nothing."""
    parts: tuple[str, ...] = ()
    """Fields named after a pipe (`| SOURCE: …`)."""
    needed: tuple[str, ...] = ()


def read_entry(text: str, listing: Listing) -> dict[str, str]:
    """One entry's fields, empty ones left out."""
    pieces = _split_pipes(text, listing.parts)
    name, head = pieces[0]
    if listing.fields:
        pieces[:1] = zip(listing.fields, _divide(head, listing.by), strict=False)
    elif head:  # the name of the first part was left out
        pieces[0] = (name, head) if name else (listing.parts[0], uncell(head))
    entry: dict[str, str] = {}
    for name, value in pieces:
        if value:
            entry.setdefault(name, value)
    return entry


def _split_pipes(text: str, parts: tuple[str, ...]) -> list[tuple[str, str]]:
    """`a | SOURCE: b` as [("", a), ("source", b)]; a pipe that names no part is text."""
    if not parts:
        return [("", text)]
    names = re.compile(rf"(?:^|(?<!\\)\|)\s*\**({'|'.join(parts)})\**\s*:\**\s*", re.IGNORECASE)
    pieces: list[tuple[str, str]] = []
    name, begin = "", 0
    for match in names.finditer(text):
        if match.start() or name:
            pieces.append((name, text[begin : match.start()].strip()))
        name, begin = match.group(1).lower(), match.end()
    pieces.append((name, text[begin:].strip()))
    return [(name, uncell(value) if name else value) for name, value in pieces]


def _divide(head: str, by: str) -> list[str]:
    """The part before the pipes, divided into its fields."""
    if by == ":":
        match = _COLON.search(head)
        left, right = (head[: match.start()], head[match.end() :]) if match else (head, "")
        return [_plain(left).replace("\\: ", ": "), _plain(right)]
    if by == "THEN" and head[:3].upper() == "IF ":
        head = head[3:]
    if by:
        left, _, right = head.partition(f" {by} ")
        return [_plain(left), _plain(right)]
    return [_plain(head)]


def _plain(text: str) -> str:
    text = text.strip()
    bold = text.startswith("**") and text.endswith("**") and len(text) > 4
    return uncell(text[2:-2] if bold else text)


def render_entry(entry: Mapping[str, str], listing: Listing) -> str:
    """An entry as `read_entry` reads it."""
    fields = [cell(one_line(entry.get(name, ""))) for name in listing.fields]
    parts = [(name, cell(one_line(entry[name]))) for name in listing.parts if entry.get(name)]
    shown = [f"{name.upper()}: {value}" for name, value in parts]
    if not fields:
        return " | ".join(shown)
    if listing.by == ":":
        head = f"{fields[0].replace(': ', chr(92) + ': ')}: {fields[1]}" if fields[1] else fields[0]
    elif len(fields) == 2:
        head = ("IF " if listing.by == "THEN" else "") + f" {listing.by} ".join(one for one in fields if one)
    else:
        head = fields[0]
    return " | ".join([head, *shown])


def check_entry(
    key: str, entry: Mapping[str, str], listing: Listing, allowed: Mapping[str, tuple[str, ...]], line: int
) -> list[Problem]:
    """What an entry lacks, and values that its contract does not allow."""
    problems = []
    for name in listing.needed:
        if name not in entry:
            fix = f"Add `| {name.upper()}: …`." if name in listing.parts else f"Add `{listing.by} …`."
            message = f"{name.upper()} is missing in an entry of {key.upper()}."
            problems.append(warning("contract-part-missing", message, line, fix))
    for name, value in entry.items():
        if name in allowed:
            problems += check_value(name, value, allowed[name], line)
    return problems


def check_value(key: str, value: str, allowed: tuple[str, ...], line: int) -> list[Problem]:
    """A problem if `value` is not allowed."""
    if value in allowed:
        return []
    words = ", ".join(allowed)
    message = f"{key.upper()} is “{shorten(value, 40)}”, not one of {words}."
    return [wrong("contract-value", message, line, f"Write one of {words}.")]


def choice(value: str, allowed: tuple[str, ...]) -> str:
    """`value` in the spelling of `allowed`, brackets and emphasis removed, if it is one of them."""
    bare = value.strip("[]*` .")
    return next((one for one in allowed if one.lower() == bare.lower()), value)
