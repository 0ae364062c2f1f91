"""Output contracts: the three `=== NAME ===` blocks, and data checked by a JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from overhand.documents.inline import cell, uncell
from overhand.documents.problems import Problem, by_line, warning, wrong
from overhand.documents.text import load_json, one_line, shorten, unix_lines

_TOKENS = 2000
SEVERITIES = ("critical", "major", "minor")


class _Listing(NamedTuple):
    """A list of a contract: how each of its entries divides into fields."""

    fields: tuple[str, ...]  # of the part before the first pipe; none if that part is named too (`REQ: …`)
    by: str = ""  # what divides that part: `:`, a word in capitals, or nothing
    parts: tuple[str, ...] = ()  # fields named after a pipe (`| SOURCE: …`)
    needed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Shape:
    scalars: tuple[str, ...]
    lists: Mapping[str, _Listing]
    allowed: Mapping[str, tuple[str, ...]]


_SHAPES = {
    "DOCUMENT_ANALYSIS": _Shape(
        ("source", "type"),
        {
            "numbers": _Listing(("metric", "value"), ":", (), ("value",)),
            "requirements": _Listing((), "", ("req", "condition", "priority"), ("req",)),
            "decisions_referenced": _Listing((), "", ("dec", "why", "rejected"), ("dec",)),
            "contradictions": _Listing(("says", "contradicts"), "CONTRADICTS", (), ("contradicts",)),
            "open": _Listing(("item",), "", ("needs",)),
        },
        {"priority": ("P0", "P1", "P2", "P3")},
    ),
    "RESEARCH_OUTPUT": _Shape(
        ("query", "confidence", "core_finding"),
        {
            "evidence": _Listing(("point", "value"), ":", ("source",), ("source",)),
            "conclusions": _Listing(("if", "then"), "THEN", ("evidence",), ("then",)),
            "gaps": _Listing(("gap",)),
        },
        {"confidence": ("high", "medium", "low")},
    ),
    "REVIEW_OUTPUT": _Shape(
        ("reviewed", "against", "pass"),
        {
            "issues": _Listing(("severity", "description"), ":", ("location", "fix"), ("description",)),
            "missing": _Listing(("item",), "", ("required_by",)),
            "inconsistencies": _Listing(("says", "but"), "BUT", (), ("but",)),
        },
        {"severity": SEVERITIES, "pass": ("yes", "no", "partial")},
    ),
}
CONTRACTS = tuple(_SHAPES)

_KINDS = {
    **dict.fromkeys(("document", "summary"), "DOCUMENT_ANALYSIS"),
    **dict.fromkeys(("research", "exploration"), "RESEARCH_OUTPUT"),
    **dict.fromkeys(("review", "qa", "audit"), "REVIEW_OUTPUT"),
}
_HEAD = re.compile(r"^={3,}[ \t]*([A-Za-z][A-Za-z _]*?)[ \t]*={3,}[ \t]*$", re.MULTILINE)
_KEY = re.compile(r"[ \t]*\**([A-Za-z][A-Za-z_ ]*?)\**[ \t]*:\**(?:[ \t]+|$)")
_BULLET = re.compile(r"[ \t]*[-*+•][ \t]+")
_COLON = re.compile(r"(?<!\\):(?=\s|$)")
_BECAUSE = re.compile(r"\s*[,;:(—\u2013-]?\s*\bbecause\b:?\s*", re.IGNORECASE)
_ASIDE = re.compile(r"\s*(?:[,;(]|\s(?:—|\u2013|--?)\s)\s*")
_SHARE = re.compile(r"(0?\.\d+|1(?:\.0+)?|\d{1,3}(?=\s*%))\s*(%?)")
_SIGNS = {"✅": "yes", "✔": "yes", "❌": "no", "✖": "no", "✗": "no"}
# other words for the values that a contract allows
_OTHER_WORDS = {
    "confidence": {
        **dict.fromkeys(("very high", "certain", "strong"), "high"),
        **dict.fromkeys(("moderate", "med", "medium-high", "medium high", "medium-low", "medium to high"), "medium"),
        **dict.fromkeys(("very low", "weak"), "low"),
    },
    "pass": {
        **dict.fromkeys(("y", "pass", "passed", "passes", "true", "ok", "approved"), "yes"),
        **dict.fromkeys(("n", "fail", "failed", "fails", "false", "rejected", "not passed"), "no"),
        **dict.fromkeys(("partially", "partly", "conditional", "conditionally", "mixed"), "partial"),
    },
    "severity": {
        **dict.fromkeys(("blocker", "blocking", "severe", "p0"), "critical"),
        **dict.fromkeys(("high", "error", "serious", "p1"), "major"),
        **dict.fromkeys(("medium", "moderate", "low", "nit", "info", "warning", "trivial", "p2", "p3"), "minor"),
    },
    "priority": {
        **dict.fromkeys(("critical", "urgent", "blocker", "0"), "p0"),
        **dict.fromkeys(("high", "must", "1"), "p1"),
        **dict.fromkeys(("medium", "normal", "should", "2"), "p2"),
        **dict.fromkeys(("low", "could", "3"), "p3"),
    },
}
_NOTHING = frozenset(("", "none", "none.", "n/a", "-", "—", "[]"))


@dataclass(frozen=True, slots=True)
class ContractBlock:
    """A block's contract and data, keys in lower case; unrecognized lines are under `other`."""

    name: str
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """The block in one sentence."""
        if self.name == "RESEARCH_OUTPUT":
            return str(self.data.get("core_finding", ""))
        return _document_summary(self.data) if self.name == "DOCUMENT_ANALYSIS" else _review_summary(self.data)


class _Found(NamedTuple):
    name: str
    start: int
    end: int
    line: int
    body: str
    closed: bool


def contract_for_kind(kind: str | None) -> str | None:
    """The contract that a kind of work requires, if any."""
    return _KINDS.get((kind or "").strip().lower())


def has_contract_fields(name: str, data: object) -> bool:
    """Whether data given as JSON has what the block of a contract must say."""
    return isinstance(data, dict) and all(str(data.get(key) or "").strip() for key in _SHAPES[name].scalars)


def contract_name(text: str) -> str:
    """A contract's name as it is looked up (`Research Output` → `RESEARCH_OUTPUT`)."""
    return "_".join(text.replace("_", " ").replace("-", " ").split()).upper()


def find_block(text: str, start: int = 0) -> _Found | None:
    """The first block of a known contract."""
    for head in _HEAD.finditer(text, start):
        name = contract_name(head.group(1))
        if name in _SHAPES:
            stops = (one.span() for one in _HEAD.finditer(text, head.end()) if one.group(1).upper() == "END")
            stop = next(stops, None)
            last, end = stop or (len(text), len(text))
            line = text.count("\n", 0, head.start()) + 1
            return _Found(name, head.start(), end, line, text[head.end() : last], stop is not None)
    return None


def parse_block(text: str) -> tuple[ContractBlock | None, list[Problem]]:
    """The first block of `text` and everything that is wrong with it."""
    text = unix_lines(text)
    found = find_block(text)
    if found:
        return read_block(found)
    names = ", ".join(f"=== {name.replace('_', ' ')} ===" for name in CONTRACTS)
    head = _HEAD.search(text)
    if head:
        line = text.count("\n", 0, head.start()) + 1
        message = f"“{head.group(1)}” is no contract."
        return None, [wrong("contract-unknown", message, line, f"Use one of {names}.")]
    return None, [wrong("contract-missing", "There is no contract block.", fix=f"Begin with one of {names}.")]


def read_block(found: _Found) -> tuple[ContractBlock, list[Problem]]:
    shape = _SHAPES[found.name]
    problems: list[Problem] = []
    if not found.closed:
        problems.append(warning("contract-unclosed", "The block has no end.", found.line, "Add `=== END ===`."))
    if len(found.body) > _TOKENS * 4:
        message = f"The block has about {len(found.body) // 4} tokens; {_TOKENS} are meant to be enough."
        problems.append(warning("contract-long", message, found.line, "Refer to files for the detail."))
    raw, other = _gather(found, shape, problems)
    data: dict[str, Any] = {}
    for key in shape.scalars:
        value, line = raw[key][0] if raw.get(key) else ("", found.line)
        if not value:
            fix = f"Add `{key.upper()}: …`."
            problems.append(wrong("contract-field-missing", f"{key.upper()} is missing.", line, fix))
            continue
        if key == "confidence":
            value, because = _reason(value)
            if because:
                data["because"] = because
            else:
                fix = "Write `CONFIDENCE: medium BECAUSE reason`."
                problems.append(warning("contract-part-missing", "CONFIDENCE has no BECAUSE.", line, fix))
        data[key] = _check_value(key, value, shape, line, problems).strip()
    for key, listing in shape.lists.items():
        items = []
        for text, line in raw.get(key, ()):
            entry = _read_entry(text, listing)
            for name in listing.needed:
                if name not in entry:
                    fix = f"Add `| {name.upper()}: …`." if name in listing.parts else f"Add `{listing.by} …`."
                    message = f"{name.upper()} is missing in an entry of {key.upper()}."
                    problems.append(warning("contract-part-missing", message, line, fix))
            items.append({name: _check_value(name, one, shape, line, problems) for name, one in entry.items()})
        data[key] = [item["gap"] for item in items] if key == "gaps" else items
    if other:
        data["other"] = other
    return ContractBlock(found.name, data), by_line(problems)


_Raw = dict[str, list[tuple[str, int]]]


def _gather(found: _Found, shape: _Shape, problems: list[Problem]) -> tuple[_Raw, list[str]]:
    """The block's lines by key, continuation lines joined to the line they continue."""
    raw: _Raw = {}
    other: list[str] = []
    key, goes_on = "", False
    for number, line in enumerate(found.body.split("\n"), found.line):
        text = line.strip()
        if not text or text.startswith("```"):
            goes_on = False
            continue
        match = _KEY.match(line)
        name = match.group(1).strip().replace(" ", "_").lower() if match else ""
        if match and (name in shape.scalars or name in shape.lists):
            key, goes_on = name, True
            value = line[match.end() :].strip()
            rows = raw.setdefault(key, [])
            if value.lower() not in _NOTHING or key in shape.scalars:
                rows.append((value, number))
        elif key in shape.lists and (bullet := _BULLET.match(line)):
            value = line[bullet.end() :].strip()
            goes_on = value.lower() not in _NOTHING
            if goes_on:
                raw[key].append((value, number))
        elif goes_on and raw.get(key):
            before, at = raw[key][-1]
            raw[key][-1] = (f"{before} {text}".strip(), at)
        else:
            other.append(text)
            fix = "Write `KEY: value`, or `- entry` under a key of the contract."
            problems.append(warning("contract-line", f"“{shorten(text, 60)}” was not understood.", number, fix))
    return raw, other


def _reason(value: str) -> tuple[str, str]:
    """`High, because two sources agree`: the value, and why."""
    match = _BECAUSE.search(value) or _ASIDE.search(value)
    if not match:
        return value, ""
    why = value[match.end() :].strip()
    return value[: match.start()].strip(), why.removesuffix(")") if "(" in match[0] else why


def _meant(key: str, value: str) -> str:
    """A value in the contract's word for it: `❌ fail (two issues)` for PASS is `no`."""
    word = _reason(value)[0].lower().strip()
    bare = "".join(char for char in word if char.isascii()).strip("[]*`_ .!")
    if not bare:
        return next((meant for sign, meant in _SIGNS.items() if key == "pass" and sign in word), value)
    if key == "confidence" and (match := _SHARE.fullmatch(bare)):
        share = float(match[1]) / (100 if match[2] or float(match[1]) > 1 else 1)
        return "high" if share >= 0.75 else "medium" if share >= 0.45 else "low"
    return _OTHER_WORDS.get(key, {}).get(bare, bare)


def _check_value(key: str, value: str, shape: _Shape, line: int, problems: list[Problem]) -> str:
    """The value, in the contract's spelling if it is one of those that the contract allows for the key."""
    if key not in shape.allowed:
        return value
    meant = _meant(key, value)
    found = next((one for one in shape.allowed[key] if one.lower() == meant), value)
    if found not in shape.allowed[key]:
        words = ", ".join(shape.allowed[key])
        message = f"{key.upper()} is “{shorten(value, 40)}”, not one of {words}."
        problems.append(wrong("contract-value", message, line, f"Write one of {words}."))
    return found


def render_block(block: ContractBlock) -> str:
    """The block as `parse_block` reads it, without a final newline."""
    shape = _SHAPES[block.name]
    out = [f"=== {block.name.replace('_', ' ')} ==="]
    for key in shape.scalars:
        value = one_line(str(block.data.get(key, "")))
        if key == "confidence" and block.data.get("because"):
            value += f" BECAUSE {one_line(block.data['because'])}"
        out.append(f"{key.upper()}: {value}")
    for key, listing in shape.lists.items():
        if items := block.data.get(key):
            entries = ({"gap": one} if key == "gaps" else one for one in items)
            out += ["", f"{key.upper()}:", *(f"- {_render_entry(one, listing)}" for one in entries)]
    if other := block.data.get("other"):
        out += ["", *(one_line(line) for line in other)]
    return "\n".join([*out, "=== END ==="])


def block_template(name: str) -> str:
    """A block of this contract to be filled in; as it stands, it is not a valid one."""
    shape = _SHAPES[name]

    def blank(key: str) -> str:
        return " or ".join(shape.allowed.get(key, ())) or f"<{key}>"

    data: dict[str, Any] = {key: blank(key) for key in shape.scalars}
    if "confidence" in data:
        data["because"] = "<why>"
    for key, listing in shape.lists.items():
        data[key] = [blank("gap") if key == "gaps" else {one: blank(one) for one in (*listing.fields, *listing.parts)}]
    return render_block(ContractBlock(name, data))


def contract_form(name: str, schema: bytes = b"") -> str:
    """What a HANDOFF says about its contract: the block to fill in, or the schema and where to write the data."""
    if schema:
        found, _ = load_json(schema.decode("utf-8", "replace"))
        where = "the `## Data` section of OUTPUT.md as one fenced json block, or into the file named by $OVERHAND_DATA"
        import json

        shown = json.dumps(found, ensure_ascii=False, indent=1)
        return f"Write the result as JSON into {where}. It must match this JSON Schema:\n\n```json\n{shown}\n```"
    if name not in _SHAPES:
        return ""
    intro = "Return this block, filled in; lists may be left out, and OUTPUT.md may consist of it alone:"
    return f"{intro}\n\n```text\n{block_template(name)}\n```"


def _document_summary(data: Mapping[str, Any]) -> str:
    counts = _counts(data, {"numbers": "number", "requirements": "requirement", "contradictions": "contradiction"})
    still_open = len(data.get("open", ()))
    return f"{data.get('type', 'document')} of {data.get('source', '?')}: {counts}, {still_open} open."


def _review_summary(data: Mapping[str, Any]) -> str:
    found = [str(one.get("severity")) for one in data.get("issues", ())]
    issues = ", ".join(f"{found.count(word)} {word}" for word in SEVERITIES if word in found)
    counts = _counts(data, {"inconsistencies": "inconsistency"})
    missing = len(data.get("missing", ()))
    reviewed = data.get("reviewed", "?")
    return f"PASS: {data.get('pass', '?')} for {reviewed}: {issues or 'no'} issues, {missing} missing, {counts}."


def _counts(data: Mapping[str, Any], words: Mapping[str, str]) -> str:
    shown = []
    for key, word in words.items():
        count = len(data.get(key, ()))
        shown.append(f"{count} {word if count == 1 else key}")
    return ", ".join(shown)


def validate_data(schema: dict[str, Any], data: object) -> list[Problem]:
    """Everything in `data` that a JSON Schema (draft 2020-12) does not allow, with JSON paths."""
    import jsonschema_rs

    try:
        validator = jsonschema_rs.validator_for(schema)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, TypeError) as error:
        message = f"The contract's schema is not valid: {shorten(str(error).splitlines()[0], 200)}"
        return [wrong("schema-invalid", message, fix="Correct the JSON Schema (draft 2020-12).")]
    problems = []
    for one in validator.iter_errors(data):
        path = "$" + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in one.instance_path)
        message = f"{path}: {shorten(one_line(one.message), 200)}"
        problems.append(wrong("data-mismatch", message, fix="Change the data at that path."))
    return problems


def _read_entry(text: str, listing: _Listing) -> dict[str, str]:
    """The fields of an entry (`point: value | SOURCE: where`), empty ones left out."""
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


def _render_entry(entry: Mapping[str, str], listing: _Listing) -> str:
    """An entry as `_read_entry` reads it."""
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
