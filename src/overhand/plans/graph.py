"""A plan as a picture: text for Mermaid and Graphviz, and an SVG of our own that needs neither."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from overhand.plans import progress
from overhand.plans.model import Plan
from overhand.plans.order import dependencies, dependents, plan_waves

PICTURE_FORMATS = ("mermaid", "dot", "svg")

# what a state looks like: fill, line
_GOOD, _BUSY, _HELD, _BAD = (
    ("#d8f0dc", "#2e7d46"),
    ("#d9e8fb", "#2b62b0"),
    ("#fdf0cc", "#a87900"),
    ("#fadcd9", "#b3362b"),
)
_OVER, _LATER = ("#ece4ee", "#7d5a86"), ("#eef3fa", "#7a93b5")
COLOURS = {
    "completed": _GOOD,
    progress.STARTING: _BUSY,
    progress.RUNNING: _BUSY,
    progress.VERIFYING: _BUSY,
    progress.WAITING: _HELD,
    progress.HELD: _HELD,
    progress.FAILED: _BAD,
    progress.STOPPING: _OVER,
    progress.STOPPED: _OVER,
    progress.SKIPPED: ("#eeeeee", "#8a8a8a"),
    progress.READY: _LATER,
}
_PLAIN = ("#ffffff", "#6b6b6b")
_INVISIBLE = re.compile(r"[^\t\n\r -~\xa0-\ud7ff\ue000-\U0010ffff]|[\u202a-\u202e\u2066-\u2069]")
_MERGE = "merge"


class Layout(NamedTuple):
    """Where everything is: the nodes of each layer in order, and the edges as pairs of ids."""

    layers: list[list[str]]
    edges: list[tuple[str, str]]
    sinks: list[str]


def draw_plan(plan: Plan, states: Mapping[str, str], format: str) -> str:
    return {"mermaid": mermaid, "dot": dot, "svg": svg}[format](plan, states)


def layout(plan: Plan) -> Layout:
    """Each node one layer behind the last one it waits for; what is in a cycle comes after everything else."""
    needs = dependencies(plan.nodes)
    after = dependents(needs)
    edges = [(one, name) for name, before in needs.items() for one in before]
    return Layout(_untangled(plan_waves(plan.nodes), needs, after), edges, [name for name in needs if not after[name]])


def _untangled(
    layers: list[list[str]], needs: Mapping[str, Sequence[str]], after: Mapping[str, list[str]]
) -> list[list[str]]:
    """Each layer in the order of its neighbours' middles, forth and back: fewer lines cross."""
    place = {name: float(number) for layer in layers for number, name in enumerate(layer)}

    def middle(name: str, around: Mapping[str, Sequence[str]]) -> float:
        found = around[name]
        return sum(place[one] for one in found) / len(found) if found else place[name]

    for around, order in ((needs, layers), (after, layers[::-1]), (needs, layers)):
        for layer in order:
            layer.sort(key=lambda name: middle(name, around))
            place.update((name, float(number)) for number, name in enumerate(layer))
    return layers


def _numbered(plan: Plan) -> dict[str, str]:
    """Names that every format takes, whatever the nodes are called."""
    return {name: f"n{number}" for number, name in enumerate(plan.nodes)}


def _label(plan: Plan, states: Mapping[str, str], name: str) -> str:
    """The second line of a node: its agent and its state; of the merge: its strategy."""
    if name == _MERGE:
        return plan.merge.strategy
    return " · ".join(part for part in (plan.nodes[name].agent or "any agent", states.get(name, "")) if part)


def mermaid(plan: Plan, states: Mapping[str, str]) -> str:
    names, found = _numbered(plan), layout(plan)
    lines = ["flowchart LR"]
    lines += [
        f'  {number}["{_entities(name)}<br/>{_entities(_label(plan, states, name))}"]' for name, number in names.items()
    ]
    lines.append(f'  {_MERGE}(["merge<br/>{_entities(plan.merge.strategy)}"])')
    lines += [f"  {names[one]} --> {names[two]}" for one, two in found.edges]
    lines += [f"  {names[one]} --> {_MERGE}" for one in found.sinks]
    for state, (fill, line) in COLOURS.items():
        if members := [number for name, number in names.items() if states.get(name) == state]:
            lines.append(f"  classDef {state} fill:{fill},stroke:{line},color:#1b1b1b")
            lines.append(f"  class {','.join(members)} {state}")
    return "\n".join(lines) + "\n"


def _entities(text: str) -> str:
    """Text in a quoted label: what Mermaid or a browser would take for a sign of its own becomes a number."""
    return "".join(c if c.isalnum() or c in " .,:-_/+=!?·…" else f"#{ord(c)};" for c in _flat(text))


def dot(plan: Plan, states: Mapping[str, str]) -> str:
    names, found = _numbered(plan), layout(plan)
    lines = ["digraph plan {", f"  label={_quoted(plan.task)};", "  rankdir=LR;"]
    lines.append('  node [shape=box, style="rounded,filled", fontname="sans-serif"];')
    for name, number in names.items():
        fill, line = COLOURS.get(states.get(name, ""), _PLAIN)
        label = _quoted(f"{name}\n{_label(plan, states, name)}")
        lines.append(f'  {number} [label={label}, fillcolor="{fill}", color="{line}"];')
    lines.append(f"  {_MERGE} [label={_quoted(f'merge{chr(10)}{plan.merge.strategy}')}, shape=ellipse];")
    lines += [f"  {names[one]} -> {names[two]};" for one, two in found.edges]
    lines += [f"  {names[one]} -> {_MERGE};" for one in found.sinks]
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    flat = "\n".join(" ".join(line.split()) for line in _visible(text).split("\n"))
    escaped = flat.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


# the SVG

_HIGH, _ROW, _GAP, _EDGE, _TOP = 44, 60, 70, 24, 56
_LETTER, _MOST = 7.4, 28  # pixels of a letter, about; letters of a label


class _Box(NamedTuple):
    x: float
    y: float
    width: float


def svg(plan: Plan, states: Mapping[str, str]) -> str:
    """A picture that stands on its own: layers from left to right, states by colour and by word."""
    found = layout(plan)
    boxes, wide, high = _boxes(plan, states, [*found.layers, [_MERGE]])
    size = f'width="{wide:.0f}" height="{high:.0f}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {wide:.0f} {high:.0f}" {size} {_FONT}>',
        f"<title>{_escaped(plan.task)}</title>",
        f'<rect {size} fill="#ffffff"/>',
        _TIP,
        f'<text x="{_EDGE}" y="30" font-size="15" font-weight="bold" fill="#1b1b1b">',
        f"{_escaped(_cut(plan.task, 90))}</text>",
        '<g fill="none" stroke="#8a8a8a" stroke-width="1.3" marker-end="url(#tip)">',
    ]
    lines += [_curve(boxes[one], boxes[two]) for one, two in found.edges]
    lines += [_curve(boxes[one], boxes[_MERGE]) for one in found.sinks]
    lines.append("</g>")
    for name, node in plan.nodes.items():
        lines.append(_node(boxes[name], name, _label(plan, states, name), states.get(name, ""), node.task))
    lines.append(_node(boxes[_MERGE], "merge", plan.merge.strategy, "", plan.merge.note, round=_HIGH // 2))
    return "\n".join([*lines, "</svg>"]) + "\n"


_FONT = 'font-family="sans-serif" font-size="13"'
_TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0L8 4L0 8z" fill="#8a8a8a"/></marker></defs>'
)


def _boxes(plan: Plan, states: Mapping[str, str], layers: list[list[str]]) -> tuple[dict[str, _Box], float, float]:
    """Where each node is, and how large the picture becomes."""
    high = _TOP + max(len(layer) for layer in layers) * _ROW + _EDGE
    boxes: dict[str, _Box] = {}
    x = float(_EDGE)
    for layer in layers:
        texts = [(name, _label(plan, states, name)) for name in layer]
        width = max((max(_long(_cut(a)), _long(_cut(b))) for a, b in texts), default=0) * _LETTER + 24
        first = _TOP + (high - _TOP - _EDGE - len(layer) * _ROW) / 2
        boxes.update((name, _Box(x, first + number * _ROW, width)) for number, name in enumerate(layer))
        x += width + _GAP
    return boxes, max(x - _GAP + _EDGE, 320.0), high


def _curve(one: _Box, two: _Box) -> str:
    x, y = one.x + one.width, one.y + _HIGH / 2
    to_x, to_y = two.x, two.y + _HIGH / 2
    bend = max(20.0, abs(to_x - x) / 2)
    return f'<path d="M{x:.1f} {y:.1f}C{x + bend:.1f} {y:.1f} {to_x - bend:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"/>'


def _node(box: _Box, name: str, caption: str, state: str, about: str, round: int = 6) -> str:
    fill, line = COLOURS.get(state, _PLAIN)
    middle = box.x + box.width / 2
    return (
        f"<g><title>{_escaped(': '.join(part for part in (name, about) if part))}</title>"
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{_HIGH}" rx="{round}"'
        f' fill="{fill}" stroke="{line}" stroke-width="1.5"/>'
        f'<text x="{middle:.1f}" y="{box.y + 18:.1f}" text-anchor="middle" fill="#1b1b1b">{_escaped(_cut(name))}</text>'
        f'<text x="{middle:.1f}" y="{box.y + 34:.1f}" text-anchor="middle" font-size="11" fill="{line}">'
        f"{_escaped(_cut(caption))}</text></g>"
    )


def _cut(text: str, most: int = _MOST) -> str:
    flat = _flat(text)
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


def _long(text: str) -> int:
    """Letters, wide ones twice."""
    return sum(2 if ord(c) >= 0x1100 else 1 for c in text)


def _escaped(text: str) -> str:
    return escape(_flat(text), {'"': "&quot;"})


def _flat(text: str) -> str:
    return " ".join(_visible(text).split())


def _visible(text: str) -> str:
    """Without what no picture can show: control characters, lone surrogates, marks that turn the direction."""
    shown = _INVISIBLE.sub("\ufffd", text)
    return "".join("\ufffd" if ord(c) & 0xFFFE == 0xFFFE else c for c in shown)
