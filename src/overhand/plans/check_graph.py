"""How nodes hang together: dependencies, references and interfaces that fit, no circles, and an order among writers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations, islice, pairwise, product
from typing import TYPE_CHECKING, Any

from overhand.contracts import kinds_of_schema, kinds_of_spec, schema_of, type_mismatch
from overhand.documents import one_line, shorten
from overhand.plans import refs
from overhand.plans.contract import ALL, MERGE
from overhand.plans.model import RESERVED, Interface, Node
from overhand.plans.order import cycles, dependencies, glob_parts, in_order, may_overlap

if TYPE_CHECKING:
    from overhand.plans.check import Findings

_SHOWN = 12
_ESCAPE = "write `$${` where none is meant"
_PAIRS = 1_000_000
_STEPS = 2_000_000  # how far is looked in a plan whose nodes nearly all write; the run itself is always safe


def check(found: Findings) -> None:
    """Every dependency and every `${…}`, then the order of all."""
    nodes = found.plan.nodes
    for this, node in nodes.items():
        texts = [node.inputs, node.task, node.context]
        for name in node.needs:
            if name == this:
                fix = f"Remove {name} from its own dependencies."
                found.wrong("plan-ref-self", f"{name} waits for itself.", found.of_node(this, "needs"), fix)
            elif name not in nodes and all(ref.node != name for ref in refs.find(texts)):
                message = f"{this} waits for {shorten(one_line(name), 60)}, which is no node."
                message += found.meant("node", name, nodes)
                fix = "Name a node of this plan, or remove the dependency."
                found.wrong("plan-node-unknown", message, found.of_node(this, "needs"), fix)
        for text in refs.texts(node.inputs):
            _text(found, node, "inputs", text)
        _text(found, node, "task", node.task)
        _text(found, node, "context", node.context)
    for cycle in cycles(dependencies(nodes)):
        path = [*cycle, cycle[0]]
        shown = path if len(path) <= _SHOWN else [*path[: _SHOWN - 2], "…", path[-1]]
        more = f" ({len(cycle):,} nodes)" if len(path) > _SHOWN else ""
        message = f"Nodes wait for each other in a circle: {' → '.join(shown)}{more}."
        fix = "Take one of these dependencies out; → means “waits for”."
        found.wrong("plan-cycle", message, found.of_node(cycle[0], "needs"), fix)


def _text(found: Findings, node: Node, where: str, text: str) -> None:
    """Every `${` in a text."""
    for ref, start, _ in refs.scan(text):
        if ref is None:
            shown = shorten(one_line(text[start : start + 80]), 40)
            message = f"{node.id}: {shown!r} begins like a reference and is none."
            fix = f"Write `${{node.field}}`, or {_ESCAPE}."
            found.wrong("plan-ref", message, _line(found, node, where, text), fix)
        else:
            _ref(found, node, where, text, ref)


def _ref(found: Findings, node: Node, where: str, text: str, ref: refs.Ref) -> None:
    giver = found.plan.nodes.get(ref.node)
    if giver is not None and ref.node != node.id:
        if ref.field and giver.outputs:
            _field(found, node, where, text, ref)
    elif ref.node == node.id:
        message = f"{node.id} refers to itself: {ref}."
        found.wrong("plan-ref-self", message, _line(found, node, where, text), "Refer to a node that ends before it.")
    else:
        reserved = " It is a word of its own, not a node." if ref.node in RESERVED else ""
        near = reserved or found.meant("node", ref.node, found.plan.nodes)
        message = f"{node.id}: {ref} names no node of this plan.{near}"
        fix = f"Name a node of this plan, or {_ESCAPE}."
        found.wrong("plan-node-unknown", message, _line(found, node, where, text), fix)


def _field(found: Findings, node: Node, where: str, text: str, ref: refs.Ref) -> None:
    """A field that the giver does not declare, or a part of something that has no parts."""
    outputs = found.plan.nodes[ref.node].outputs
    first, _, rest = ref.field.partition(".")
    fix = f"Use one of {', '.join(outputs)}, or add {first} to the outputs of {ref.node}."
    if first not in outputs:
        message = f"{node.id}: {ref} asks for {first}, which {ref.node} does not give."
        message += found.meant(f"field {ref.node}", first, outputs)
    else:
        kinds = kinds_of_schema(schema_of(outputs[first])) if rest else set()
        if not kinds or kinds & {"object", "array"}:
            return
        message = f"{node.id}: {ref} asks for {rest} within {first}, which {ref.node} gives as {', '.join(kinds)}."
        fix = f"Write `${{{ref.node}.{first}}}`."
    found.wrong("plan-field-unknown", message, _line(found, node, where, text), fix)


def _line(found: Findings, node: Node, where: str, text: str) -> int | None:
    """The line of the field; within inputs that of the one that holds the text."""
    if where == "inputs":
        for key, value in node.inputs.items():
            if any(one == text for one in refs.texts(value)):
                return found.of_node(node.id, where, key)
    return found.of_node(node.id, where)


# interfaces: both ends exist, and what one node gives fits what the other takes


def check_interfaces(found: Findings) -> None:
    """Every interface of the plan."""
    nodes = found.plan.nodes
    for number, edge in enumerate(found.plan.interfaces):
        source, target = nodes.get(edge.source), nodes.get(edge.target)
        if source is not None and target is not None and source is not target:
            _between(found, number, edge, source, target)
            continue
        known = (source is not None or edge.source == ALL) and (target is not None or edge.target == MERGE)
        if not known or edge.source == edge.target:
            _ends(found, number, edge)
        elif target is None:
            _to_merge(found, number, edge, [source] if source is not None else list(nodes.values()))
        else:
            for one in nodes.values():
                if one is not target:
                    _between(found, number, edge, one, target)


def _ends(found: Findings, number: int, edge: Interface) -> None:
    """An end that is no node, or both the same."""
    nodes = found.plan.nodes
    for key, name, word in (("from", edge.source, ALL), ("to", edge.target, MERGE)):
        if name not in nodes and name != word:
            shown = shorten(one_line(name), 60)
            message = f"The interface goes {key} {shown}, which is no node."
            message += found.meant(f"end {key}", name, chain(nodes, (word,)))
            fix = f"Name a node of this plan, or `{word}`."
            found.wrong("plan-node-unknown", message, found.of_plan("interfaces", number, key), fix)
    if edge.source == edge.target and edge.source in nodes:
        message = f"The interface goes from {edge.source} to itself."
        found.wrong("plan-ref-self", message, found.of_plan("interfaces", number), "Name two different nodes.")


def _to_merge(found: Findings, number: int, edge: Interface, sources: list[Node]) -> None:
    """What is merged must be an output of every source."""
    for key, words in edge.format.items():
        for source in sources:
            if source.outputs:
                _fits(found, number, edge, source, key, key, words)
    for name in edge.required:
        first = name.partition(".")[0]
        if first in edge.format:
            continue
        for source in sources:
            if source.outputs and first not in source.outputs and not _has_array(source, edge, {}):
                _lacks(found, number, edge, source, first)


def _between(found: Findings, number: int, edge: Interface, source: Node, target: Node) -> None:
    ties: dict[str, str] = {}
    outputs, inputs = source.outputs, target.inputs
    for key, words in edge.format.items():
        if key not in inputs:
            message = f"{source.id} → {target.id}: {key} is not among the inputs of {target.id}."
            message += found.meant(f"input {target.id}", key, target.inputs)
            own = f"Name one of them ({', '.join(target.inputs)})" if target.inputs else "Name an input"
            fix = f'{own}, or add `{key}: "${{{source.id}.…}}"` to them.'
            found.wrong("plan-interface", message, found.of_plan("interfaces", number, "format", key), fix)
            continue
        named = refs.find(inputs[key])
        fields = [ref.field for ref in named if ref.node == source.id]
        if named and not fields:
            if all(ref.node in found.plan.nodes for ref in named):  # else it is reported where the input stands
                other = named[0].node
                message = f"{edge.source} → {target.id}: {key} comes from {other}, not from {edge.source}."
                fix = f"Refer to `${{{edge.source}.…}}` in the input {key}, or begin the interface at {other}."
                found.wrong("plan-interface", message, found.of_plan("interfaces", number, "format", key), fix)
            continue
        field = fields[0] if fields else key
        if not field:  # all its data: the key is looked for there
            field = key if key in outputs else ""
        if outputs and field:
            ties[key] = field
            _fits(found, number, edge, source, key, field, words)
    if not (outputs and edge.required) or _has_array(source, edge, ties):
        return
    for name in edge.required:
        first = name.partition(".")[0]
        if first not in outputs and first not in edge.format:
            _lacks(found, number, edge, source, first)


def _fits(found: Findings, number: int, edge: Interface, source: Node, key: str, field: str, words: Any) -> None:
    first, _, rest = field.partition(".")
    if first not in source.outputs:
        if key != field:
            return  # the reference itself is what is wrong, and is reported
        message = f"{source.id} → {edge.target}: {source.id} has no output {first}."
        message += found.meant(f"field {source.id}", first, source.outputs)
        fix = f"Add {first} to the outputs of {source.id}, or refer to one of {', '.join(source.outputs)}."
        found.wrong("plan-interface", message, found.of_plan("interfaces", number, "format", key), fix)
    elif not rest and (reason := type_mismatch(source.outputs[first], words)):
        other = f" {key}" if key != first else ""
        message = f"{source.id} → {edge.target}: {first} does not fit{other}: {reason}."
        fix = f"Let {source.id} give what is wanted, or change the format."
        found.wrong("plan-interface", message, found.of_plan("interfaces", number, "format", key), fix)


def _has_array(source: Node, edge: Interface, ties: dict[str, str]) -> bool:
    """Whether something on this edge may have items (or parts) in which a required field can be looked for."""
    fields = ties or {key: key for key in edge.format} or {key: key for key in source.outputs}
    for key, field in fields.items():
        for spec in (edge.format.get(key), source.outputs.get(field.partition(".")[0])):
            if spec is not None and (not (found := kinds_of_spec(spec)) or "array" in found or "object" in found):
                return True
    return False


def _lacks(found: Findings, number: int, edge: Interface, source: Node, name: str) -> None:
    message = f"{source.id} → {edge.target}: {name} is required, and {source.id} does not give it."
    message += found.meant(f"field {source.id}", name, source.outputs)
    fix = f"Add {name} to the outputs of {source.id}, or take it out of `required_fields`."
    found.wrong("plan-interface", message, found.of_plan("interfaces", number, "required_fields"), fix)


# writers: nodes that write the same files without waiting for each other are run one after the other


def check_writers(found: Findings) -> None:
    """Warn once for every pair of globs that may meet."""
    writers: dict[str, list[str]] = {}
    for this, node in found.plan.nodes.items():
        for glob in dict.fromkeys(node.writes):
            writers.setdefault(glob, []).append(this)
    order = _Order(found.plan.nodes)
    for one, other in _meeting(writers):
        clash = order.loose(writers[one]) if one == other else order.apart(writers[one], writers[other])
        if clash:
            names = f"{', '.join(clash[:5])}{f' and {len(clash) - 5:,} more' if len(clash) > 5 else ''}"
            what = f"`{one}`" if one == other else f"`{one}` and `{other}`, which may be one file"
            message = f"{names} could run at once and write {what}: they are run one after the other."
            fix = "Let one wait for the other (`dependencies:`), or give them files of their own."
            found.warn("plan-writers", message, found.of_node(clash[-1], "writes"), fix)


def _meeting(writers: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Pairs of globs that may name one file; a glob that several nodes have meets itself."""
    globs = list(writers)
    yield from ((glob, glob) for glob in globs if len(writers[glob]) > 1)
    parts = {glob: glob_parts(glob) for glob in globs}
    is_small = len(globs) ** 2 // 2 <= _PAIRS
    wild = [glob for glob in globs if is_small or any(sign in glob for sign in "*?[{")]
    plain = [] if is_small else sorted(set(globs) - set(wild))  # compared with wildcards only
    for one, other in islice(chain(combinations(wild, 2), product(wild, plain)), _PAIRS):
        if may_overlap(parts[one], parts[other]):
            yield one, other


class _Order:
    """Which node waits for which, at any distance."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._needs = dependencies(nodes)
        self._rank = {this: number for number, this in enumerate(in_order(self._needs))}
        self._steps = _STEPS

    def loose(self, names: Sequence[str]) -> list[str]:
        """Those of a group that do not all wait for each other; none where they form one row."""
        clash: dict[str, None] = {}
        for one, other in pairwise(sorted(names, key=self._rank.__getitem__)):
            if not self._waits(other, one):
                clash |= {one: None, other: None}
        return [name for name in names if name in clash]

    def apart(self, ones: Sequence[str], others: Sequence[str]) -> list[str]:
        """The first two of different groups that do not wait for each other."""
        for one in ones:
            for other in others:
                first, second = sorted((one, other), key=self._rank.__getitem__)
                if one != other and not self._waits(second, first):
                    return [one, other]
                if self._steps <= 0:
                    return []
        return []

    def _waits(self, one: str, other: str) -> bool:
        """Whether `one` waits for `other`, directly or through others; yes where it is too far to tell."""
        until = self._rank[other]
        seen, waiting = {one}, [one]
        while waiting:
            self._steps -= 1
            needs = self._needs[waiting.pop()]
            if other in needs or self._steps <= 0:
                return True
            for name in needs:
                if name not in seen and self._rank[name] > until:
                    seen.add(name)
                    waiting.append(name)
        return False
