"""Type words as people write them (“array of {severity, file}”) as JSON Schema; unknown words allow anything."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

Schema = dict[str, Any]

_ARRAYS = frozenset(("array", "list", "tuple", "sequence", "set"))
_MAPS = frozenset(("map", "mapping", "dict", "dictionary", "record", "hashmap"))
_HARD = {
    **dict.fromkeys(("string", "str"), "string"),
    **dict.fromkeys(("integer", "int"), "integer"),
    **dict.fromkeys(("number", "float", "double", "decimal"), "number"),
    **dict.fromkeys(("boolean", "bool"), "boolean"),
}
_SOFT = {
    **dict.fromkeys(
        ("text", "markdown", "date", "datetime", "date-time", "time", "url", "uri", "path", "email"), "string"
    ),
    **dict.fromkeys(("filename", "uuid", "sha256", "char"), "string"),
    **dict.fromkeys(("percentage", "percent"), "number"),
    **dict.fromkeys(("null", "none", "nil", "nothing"), "null"),
}
_AS_TEXT = frozenset(("markdown", "bullet", "bulleted", "numbered", "html", "csv", "separated", "plain", "textual"))
_DATES = ("iso", "iso-8601", "iso8601", "8601", "utc", "rfc3339")
_BEFORE_SOFT = frozenset((*_DATES, "absolute", "relative", "file", "a", "an", "the", "full", "short", "plain"))
_CHOICE = re.compile(
    r"(?:(?:exactly |any )?one of|any of|either|enum(?:eration)?(?: of)?|choice of|literal)\b[ :]*", re.IGNORECASE
)
_GENERIC = re.compile(r"([A-Za-z]+)\s*[<\[](.+)[>\]]$", re.DOTALL)
_RANGE = re.compile(
    r"(?:an? )?(?:(number|float|decimal|integer|int)s? )?(?:in |from |between )?"
    r"(-?\d+(?:\.\d+)?)(?:\s*(?:\.\.\.?|…)\s*| and )(-?\d+(?:\.\d+)?)",
    re.IGNORECASE,
)
_NAME = re.compile(r"[\w$@.-]+$")
_BARE = re.compile(r"[a-z0-9][a-z0-9_-]*$")
_NUMBER = re.compile(r"-?\d+(\.\d+)?$")
_OPTIONAL = re.compile(
    r"^optional\b|[,;(]\s*optional\b|\boptional\s*\)?$"
    r"|\bif (?:any|available|known|present|found)\s*(?:\)|$)",
    re.IGNORECASE,
)
_ITEMS = re.compile(r"(.*?\bof )(?=(?:exactly |any )?one of\b|either\b)", re.IGNORECASE | re.DOTALL)
_GROUP = re.compile(r"(.*\bof )\(([^()]*)\)$", re.IGNORECASE | re.DOTALL)
_ONE_OF = re.compile(r"(?:strings?|str|integers?|int|numbers?)[,:]? +(?=(?:exactly )?one of\b)", re.IGNORECASE)
_FIELDS = re.compile(r"\b(?:fields?|keys?|properties|attributes)\b:? +(.+)$", re.IGNORECASE | re.DOTALL)
"""“with fields a, b”: everything after the word is names."""

_LINKS = """
of with containing that where which whose for from in per by to describing listing holding keyed including between
under at on up each one mapping
"""
_STOPS = frozenset(_LINKS.split())
_OPENING, _CLOSING = "([{<", ")]}>"


def read(text: str) -> Schema:
    return _read(text.strip(), 0)


def is_optional(text: str) -> bool:
    """Whether the words say that the value may be missing."""
    outside = re.sub(r"\{.*\}", "", text.strip(), flags=re.DOTALL) if "{" in text else text.strip()
    if _OPTIONAL.search(outside):
        return True
    return "?" in text and _main_part(_without_notes(text)).endswith("?") and bool(read(text))


def _read(text: str, depth: int) -> Schema:
    if depth > 20 or len(text) > 4000:
        return {}
    if group := _GROUP.match(text):
        return _items(group.group(1), _read(group.group(2), depth + 1))
    text = _without_notes(text).strip()
    if choice := _ONE_OF.match(text):
        text = text[choice.end() :]
    if choice := _CHOICE.match(text):
        return _choices(text[choice.end() :])
    if choice := _ITEMS.match(text):
        return _items(choice.group(1), _read(text[choice.end() :], depth + 1))
    parts = _cut(text, "|")
    if len(parts) == 1 and " or " in text:
        parts = _cut(text, " or ")
    return _either(parts, depth) if len(parts) > 1 else _single(text, depth)


def _items(head: str, items: Schema) -> Schema:
    """“array of” with an items schema that was parsed already."""
    found = _head(head.strip().removesuffix("of")) or {}
    return {**found, "items": items} if items and found.get("type") == "array" else found


def _either(parts: list[str], depth: int) -> Schema:
    """`a | b`; what follows “array of a” belongs to the items, except null."""
    head, of, tail = parts[0].partition(" of ")
    rest = [part for part in parts[1:] if part.strip().lower() not in ("null", "none")]
    if of and rest and "{" not in head:
        found = _items(f"{head} of", _read(" | ".join([tail, *rest]), depth + 1))
        return found if len(rest) == len(parts) - 1 or not found else nullable(found)
    words = [part.strip() for part in parts]
    plain = [word for word in words if word.lower() not in ("null", "none")]
    if plain and all(_quoted(word) or (_BARE.match(word) and not _simple(word)) for word in plain):
        return {"enum": [_literal(word) for word in words]}  # values (low | medium | high) rather than types
    return _union(_read(word, depth + 1) for word in words)


def _choices(text: str) -> Schema:
    text = text.strip()
    if text[:1] in ("[", "(", "{") and text[-1:] in ("]", ")", "}"):
        text = text[1:-1]
    parts = [one for part in _cut(text, "|") for one in _cut(part, ",")]
    if not _quoted(parts[-1].strip()):
        parts[-1:] = re.split(r"\s+or\s+|^or\s+|^\s*and\s+|\s+and\s+", parts[-1])
    words = [part.strip() for part in parts if part.strip()]
    if not words or any(" " in word and not _quoted(word) for word in words):
        return {}
    return {"enum": [_literal(word) for word in words]}


def _single(text: str, depth: int) -> Schema:
    text = _main_part(text)
    if text.endswith("?"):
        return nullable(_read(text[:-1], depth + 1))
    if text.endswith("[]"):
        return array_of(_read(text[:-2], depth + 1))
    if text.lower().startswith("optional "):
        return nullable(_read(text[9:], depth + 1))
    if _quoted(text):
        return {"enum": [_literal(text)]}
    if found := _RANGE.fullmatch(text):
        word, *bounds = found.groups()
        least, most = (float(one) if "." in one else int(one) for one in bounds)
        kind = "integer" if (word or "").lower().startswith("int") else "number"
        return {"type": kind, "minimum": least, "maximum": most}
    if text.startswith("[") and text.endswith("]"):
        return array_of(_read(text[1:-1], depth + 1)) if len(_cut(text[1:-1], ",")) == 1 else {}
    if (generic := _GENERIC.match(text)) and (
        named := _generic(generic.group(1).lower(), generic.group(2), depth)
    ) is not None:
        return named
    return _phrase(text, depth)


def _phrase(text: str, depth: int) -> Schema:
    """Words around an object in braces, or words alone: a head, then what it consists of."""
    head, link, tail = _at_stop(text)
    found = _head(head)
    if link == "as":
        return _phrase(tail, depth + 1) or found or {}
    if found is None:
        inner = _braces(text)
        return _fields(inner, depth) if inner is not None else {}
    if found.get("type") == "array" and "items" not in found:
        items = _read(tail, depth + 1) if link in ("of", "containing") else _objects(tail, depth)
        return {**found, "items": items} if items else found
    if found.get("type") == "object":
        if _last(head) in _MAPS and link in ("of", "from"):
            values = _read(re.split(r" to |->|→|=>|: ", tail, maxsplit=1)[-1], depth + 1)
            return {**found, "additionalProperties": values} if values else found
        return {**found, **_objects(text, depth)}
    return found


def _objects(text: str, depth: int) -> Schema:
    """The fields that words name in braces, or after “fields”."""
    inner = _braces(text)
    if inner is not None:
        return _fields(inner, depth)
    named = _FIELDS.search(text)
    return _fields(named.group(1), depth) if named else {}


def _fields(text: str, depth: int) -> Schema:
    """What stands in braces: `a, b?: integer`; every field without a mark is required."""
    parts = [one for line in text.splitlines() for part in _cut(line, ";") for one in _cut(part, ",")]
    properties: dict[str, Schema] = {}
    required: list[str] = []
    for part in (one for each in parts for one in _at_and(each)):
        name, _, words = _without_notes(part).partition(":")
        name, words = name.strip(), words.strip()
        maybe = name.endswith("?") or is_optional(part)
        name = name.rstrip("?").strip().strip("\"'`")
        if not _NAME.match(name) or name.strip(".") in ("", "etc"):
            continue
        found = _read(words, depth + 1) if words else {}
        if name == "string" and found and len(parts) == 1:
            return {"type": "object", "additionalProperties": found}
        properties[name] = nullable(found) if maybe else found
        if not maybe and name not in required:
            required.append(name)
    shown: Schema = {"type": "object"}
    if properties:
        shown["properties"] = properties
    if required:
        shown["required"] = required
    return shown


def _at_and(text: str) -> list[str]:
    return re.split(r"\s+and\s+|^\s*and\s+", text) if " and " in f" {text}" and ":" not in text else [text]


def _head(text: str) -> Schema | None:
    """The schema of a phrase's head (“sorted list”, “customer objects”, “integer count”); None: not known."""
    words = text.lower().split()
    if not words:
        return None
    last = _last(text)
    if last in _ARRAYS or last in _MAPS or last == "object":
        if any(part in _AS_TEXT for word in words for part in (word, word.rpartition("-")[2])):
            return None
        if last == "record" and words != ["record"]:
            return None
        found: Schema = {"type": "array" if last in _ARRAYS else "object"}
        inner = _simple(words[-2]) if found["type"] == "array" and len(words) > 1 else None
        if inner:
            found["items"] = inner
        return _qualified(found, words)
    if last in _HARD:
        return _qualified({"type": _HARD[last]}, words)
    if last in _SOFT and all(word in _BEFORE_SOFT for word in words[:-1]):
        return {"type": _SOFT[last]}
    if last in ("timestamp", "duration") and all(word in _BEFORE_SOFT for word in words[:-1]):
        return {"type": ["string", "number"]}
    first = next((word for word in words if word not in _ADJECTIVES), "")
    return _qualified({"type": _HARD[first]}, words) if first in _HARD else None


_ADJECTIVES = frozenset(
    ("a", "an", "the", "positive", "non-negative", "nonnegative", "non-empty", "nonempty", "single")
)


def _qualified(found: Schema, words: Iterable[str]) -> Schema:
    """The schema with the limits that positive, non-negative and non-empty mean."""
    qualities = set(words)
    kind = found["type"]
    if qualities & {"non-empty", "nonempty"}:
        key = {"array": "minItems", "string": "minLength", "object": "minProperties"}.get(kind)
        return {**found, key: 1} if key else found
    if kind in ("integer", "number") and "positive" in qualities:
        return {**found, "exclusiveMinimum": 0}
    if kind in ("integer", "number") and qualities & {"non-negative", "nonnegative"}:
        return {**found, "minimum": 0}
    return found


def _simple(word: str) -> Schema | None:
    """The schema of one word, or None."""
    last = _last(word)
    if last in _HARD or last in _SOFT:
        return {"type": _HARD.get(last) or _SOFT[last]}
    if last in _ARRAYS:
        return {"type": "array"}
    return {"type": "object"} if last == "object" or last in _MAPS else {} if last in ("any", "anything") else None


def _last(text: str) -> str:
    """The last word in the singular."""
    word = (text.lower().split() or [""])[-1].strip(".:")
    for end, one in (("dictionaries", "dictionary"), ("s", "")):
        if word.endswith(end):
            single = word.removesuffix(end) + one
            if single in _ARRAYS or single in _MAPS or single in _HARD or single in _SOFT or single == "object":
                return single
    return word


def _generic(name: str, inner: str, depth: int) -> Schema | None:
    parts = [part.strip() for part in _cut(inner, ",")]
    if name in _ARRAYS:
        return array_of(_read(parts[0], depth + 1)) if len(parts) == 1 else {"type": "array"}
    if name in _MAPS or name == "object":
        values = _read(parts[-1], depth + 1)
        return {"type": "object", "additionalProperties": values} if values else {"type": "object"}
    if name == "optional":
        return nullable(_read(inner, depth + 1))
    if name == "union":
        return _union(_read(part, depth + 1) for part in parts)
    return None


def array_of(items: Schema) -> Schema:
    """An array of such items; of any, if nothing is known about them."""
    return {"type": "array", "items": items} if items else {"type": "array"}


def nullable(found: Schema) -> Schema:
    return _union((found, {"type": "null"}))


def _union(schemas: Iterable[Schema]) -> Schema:
    """A schema of what any of them allows; types alone become one list of types."""
    found = list(schemas)
    if not all(found):
        return {}
    if all("enum" in one or one == {"type": "null"} for one in found):
        return {"enum": [value for one in found for value in one.get("enum", [None])]}
    if all(one.keys() == {"type"} for one in found):
        kinds = [kind for one in found for kind in ([one["type"]] if isinstance(one["type"], str) else one["type"])]
        kinds = list(dict.fromkeys(kinds))
        return {"type": kinds[0] if len(kinds) == 1 else kinds}
    if len(found) == 2 and found[1] == {"type": "null"} and isinstance(found[0].get("type"), str):
        return {**found[0], "type": [found[0]["type"], "null"]}
    return {"anyOf": found}


def _literal(word: str) -> Any:
    if _quoted(word):
        return word[1:-1]
    plain = {"true": True, "false": False, "null": None, "none": None}
    if word.lower() in plain:
        return plain[word.lower()]
    if _NUMBER.match(word):
        return float(word) if "." in word else int(word)
    return word


def _quoted(word: str) -> bool:
    return len(word) > 2 and word[0] in "\"'`" and word[-1] == word[0] and word[0] not in word[1:-1]


def _main_part(text: str) -> str:
    """What stands before a comma, a dash or a colon outside of brackets: the rest explains."""
    if _FIELDS.search(text):
        return text.strip().rstrip(".")
    text = _cut(text, ",")[0]
    for sign in (" - ", " — ", " \u2013 ", ". ", ": "):
        before, found, after = text.partition(sign)
        if found and not _open(before) and not (sign == ": " and after.lstrip().startswith("{")):
            text = before
    return text.strip().rstrip(".")


def _open(text: str) -> bool:
    return sum(text.count(sign) for sign in "([{") > sum(text.count(sign) for sign in ")]}")


def _at_stop(text: str) -> tuple[str, str, str]:
    """The words before the first preposition, the preposition, and what follows."""
    for found in re.finditer(r"[^\s{]+|\{", text):
        word = found.group().lower()
        if word == "{":
            return text[: found.start()].strip().rstrip(":"), "{", text[found.start() :]
        if word in _STOPS or word == "as":
            return text[: found.start()].strip(), word, text[found.end() :].strip()
    return text, "", ""


def _braces(text: str) -> str | None:
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


def _without_notes(text: str) -> str:
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


def _cut(text: str, at: str) -> list[str]:
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
