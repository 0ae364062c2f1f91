"""A plan as YAML: only what JSON can say, `yes` and `no` are words, and aliases cannot blow it up."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from overhand.documents import Problem, wrong
from overhand.plans.source import DEPTH, EXPANDED, YAML_LIMIT, Path, Source, syntax, too_deep, too_large

_TAG = "tag:yaml.org,2002:"
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}
_FIX = "Correct the YAML there; quote texts that hold `: ` or ` #`, or begin with one of [ { * & ! | > @ `."
_AGAIN = 1024 * 1024
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)(?:\.[0-9]+(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)")


def load(text: str) -> Source:
    """The values of a YAML text, or why it has none."""
    if len(text) > YAML_LIMIT:
        return Source(None, [too_large(len(text), YAML_LIMIT, "one in YAML")])
    if _too_deep(text):
        return Source(None, [too_deep(1)])
    import yaml

    try:
        root = _compose(text)
    except yaml.MarkedYAMLError as error:
        return Source(None, [_broken(error)])
    except yaml.YAMLError as error:
        return Source(None, [_unreadable(error, text)])
    except (RecursionError, ValueError):
        return Source(None, [too_deep(1)])
    if root is None:
        return Source(None, [])
    reading = _Reading()
    try:
        reading.size(root)
        value = None if reading.problems else reading.value(root)
    except RecursionError:
        return Source(None, [too_deep(1)])
    return Source(value, reading.problems, _YamlPlaces(root).line)


def _compose(text: str) -> Any:
    """The tree of nodes with their marks; the message of an error is always that of the readable parser."""
    import yaml

    quick, plain = _loaders()
    try:
        return yaml.compose(text, quick)
    except yaml.YAMLError:
        if len(text) <= _AGAIN:
            yaml.compose(text, plain)
        raise


@cache
def _loaders() -> tuple[Any, Any]:
    """The loader in C, where there is one, and the one in Python; both resolve only what JSON has."""
    import yaml

    bases = (getattr(yaml, "CSafeLoader", yaml.SafeLoader), yaml.SafeLoader)
    resolvers = _resolvers()
    quick, plain = (type(base.__name__, (base,), {"yaml_implicit_resolvers": resolvers}) for base in bases)
    return quick, plain


def _resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """What an unquoted word can be besides text, without the words and numbers of YAML 1.1 that surprise people."""
    whole = {
        "bool": (re.compile(r"(?:true|True|TRUE|false|False|FALSE)$"), "tTfF"),
        "null": (re.compile(r"(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
        "int": (re.compile(_INT.pattern + "$"), "-+0123456789"),
        "float": (re.compile(_FLOAT.pattern + "$"), "-+0123456789"),
        "merge": (re.compile(r"<<$"), "<"),
    }
    found: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for kind, (pattern, firsts) in whole.items():
        for first in firsts:
            found.setdefault(first, []).append((_TAG + kind, pattern))
    return found


def _too_deep(text: str) -> bool:
    """Whether brackets or dashes nest so deeply that a parser in C might run out of stack."""
    if text.count("[") + text.count("{") > DEPTH:
        depth = 0
        for found in re.finditer(r"[\[\]{}]", text):
            depth = depth + 1 if found.group() in "[{" else max(depth - 1, 0)
            if depth > 10 * DEPTH:
                return True
    most = 10 * DEPTH
    return re.search(rf"^[ \t]*(?:(?:[-?:][ \t]+){{{most}}}| {{{most}}})", text, re.MULTILINE) is not None


def _broken(error: Any) -> Problem:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else None
    reason = error.problem or "it cannot be read"
    if "\\t" in reason:
        return syntax("YAML", "a tab stands where only spaces may", line, "Indent with spaces, never with tabs.")
    if error.context and "expected a single document" in error.context:
        return syntax("YAML", "there is more than one document", line, "Keep one, without a second `---`.")
    if mark:
        reason += f" at column {mark.column + 1}"
    begun = error.context_mark
    if error.context and begun and begun.line + 1 != line:
        reason += f" ({error.context}, begun on line {begun.line + 1})"
    return syntax("YAML", reason, line, _FIX)


def _unreadable(error: Any, text: str) -> Problem:
    at = getattr(error, "position", None)
    line = text.count("\n", 0, at) + 1 if isinstance(at, int) else None
    character = getattr(error, "character", None)
    reason = f"the character U+{character:04X} is not allowed" if isinstance(character, int) else "it cannot be read"
    return syntax("YAML", reason, line, "Remove it, or write it as an escape in double quotes.")


class _Reading:
    """From nodes to values, with everything that is wrong on the way."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._sizes: dict[int, int] = {}
        self._made: dict[int, Any] = {}
        self._count = 0

    def size(self, node: Any, depth: int = 0) -> int:
        """How many values a node stands for; what is too deep, too much or inside itself is noted."""
        if (known := self._sizes.get(id(node))) is not None:
            if known < 0 and not self.problems:
                message = "An alias stands inside what it names."
                self._note("plan-aliases", message, node, "Write the value out where it is needed.")
            return abs(known)
        if depth > DEPTH:
            if not self.problems:
                self.problems.append(too_deep(node.start_mark.line + 1))
            return 1
        self._count += 1
        if isinstance(node.value, str):
            self._sizes[id(node)] = 1
            return 1
        self._sizes[id(node)] = -1
        pairs = node.id == "mapping"
        parts = (part for pair in node.value for part in pair) if pairs else node.value
        total = 1 + sum(self.size(part, depth + 1) for part in parts)
        self._sizes[id(node)] = total
        if total > self._count + EXPANDED and not self.problems:
            message = f"Its aliases make more than {EXPANDED:,} values of what is written here."
            self._note("plan-aliases", message, node, "Write out what is needed, without aliases of aliases.")
        return total

    def _note(self, code: str, message: str, node: Any, fix: str) -> None:
        self.problems.append(wrong(code, message, node.start_mark.line + 1, fix))

    def value(self, node: Any) -> Any:
        """What a node says; an aliased one is read once."""
        if id(node) in self._made:
            return self._made[id(node)]
        if node.id == "scalar":
            found = self._scalar(node)
        elif node.id == "sequence":
            found = [self.value(one) for one in node.value]
            self._tagged(node, "seq")
        else:
            found = self._mapping(node)
            self._tagged(node, "map")
        self._made[id(node)] = found
        return found

    def _tagged(self, node: Any, *kinds: str) -> None:
        if node.tag.removeprefix(_TAG) not in kinds:
            tag = node.tag.replace(_TAG, "!!")
            fix = "Remove the tag; a plan holds texts, numbers, true, false, null, lists and mappings."
            self._note("plan-tag", f"The tag {tag[:60]} is not read in plans.", node, fix)

    def _scalar(self, node: Any) -> Any:
        kind, text = node.tag.removeprefix(_TAG), node.value
        self._tagged(node, "str", "int", "float", "bool", "null", "merge")
        if kind in ("bool", "null") and text.lower() in _WORDS:
            return _WORDS[text.lower()]
        try:
            if kind == "int" and _INT.fullmatch(text):
                return int(text)
            if kind == "float" and (_FLOAT.fullmatch(text) or _INT.fullmatch(text)):
                number = float(text)
                if abs(number) != float("inf"):
                    return number
        except ValueError:
            pass
        if kind in ("int", "float", "bool", "null"):
            self._note("plan-tag", f"{text[:40]} cannot be held as {kind}.", node, "Quote it, or write another number.")
        return text

    def _mapping(self, node: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag == _TAG + "merge":
                self._merge(value, merged)
                continue
            if key.id != "scalar":
                self._note("plan-syntax", "A key is a list or a mapping.", key, "Use a word as the key.")
                continue
            name = key.value
            if name in found:
                message = f"The key {name[:60]!r} occurs twice in one mapping."
                self._note("plan-key-twice", message, key, "Remove one of them, or give it another name.")
                continue
            found[name] = self.value(value)
        return {**merged, **found} if merged else found

    def _merge(self, value: Any, merged: dict[str, Any]) -> None:
        """`<<: *name`: what is there, unless the mapping says it itself; the first of several wins."""
        for one in value.value if value.id == "sequence" else [value]:
            if one.id != "mapping":
                self._note("plan-syntax", "`<<` needs a mapping.", one, "Write `<<: *name` of a mapping.")
                return
            for key, part in self.value(one).items():
                merged.setdefault(key, part)


class _YamlPlaces:
    """The lines of keys and entries."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._known: dict[int, dict[str, tuple[Any, Any]]] = {}

    def line(self, path: Path) -> int | None:
        """The line of the key (or the entry of a list) at this path, as far as it can be followed."""
        node, line = self._root, self._root.start_mark.line
        for step in path:
            if node.id == "mapping":
                found = self._pairs(node).get(str(step))
                if found is None:
                    break
                line, node = found[0].start_mark.line, found[1]
            elif node.id == "sequence" and isinstance(step, int) and step < len(node.value):
                node = node.value[step]
                line = node.start_mark.line
            else:
                break
        return int(line) + 1

    def _pairs(self, node: Any) -> dict[str, tuple[Any, Any]]:
        found = self._known.get(id(node))
        if found is None:
            found = {key.value: (key, value) for key, value in reversed(node.value) if key.id == "scalar"}
            self._known[id(node)] = found
        return found
