"""A plan as a picture: every node and edge is in it, whatever they are called, and nothing breaks out of it."""

from __future__ import annotations

import shutil
import subprocess
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from overhand.plans import FAILED, PICTURE_FORMATS, RUNNING, Plan, draw_plan, plan_waves
from overhand.plans.graph import COLOURS, layout
from overhand.plans.model import Node

SVG = "{http://www.w3.org/2000/svg}"
NASTY = [
    '"quoted"',
    "<b>&amp;</b>",
    "a\nb",
    "]] --> x",
    "\x1b[31m\x00",
    "\ud800",
    "日本語のノード",
    "end",
    "#quot;",
    "\\",
]


def plan(**needs: tuple[str, ...]) -> Plan:
    return Plan("Draw it", {name: Node(name, "worker", f"Do {name}", before) for name, before in needs.items()})


DIAMOND = plan(a=(), b=("a",), c=("a",), d=("b", "c"))


def test_layers_follow_dependencies() -> None:
    assert plan_waves(DIAMOND.nodes) == [["a"], ["b", "c"], ["d"]]
    assert layout(DIAMOND).sinks == ["d"]
    assert plan_waves(plan(d=("c",), c=("b",), b=(), a=()).nodes) == [["b", "a"], ["c"], ["d"]]


def test_what_is_in_a_circle_or_waits_for_nobody_is_drawn_all_the_same() -> None:
    found = plan_waves(plan(a=(), b=("a", "c"), c=("b",), d=("nowhere",)).nodes)
    assert found == [["a", "d"], ["b", "c"]]
    assert draw_plan(plan(a=("b",), b=("a",)), {}, "svg").count("<rect") == 4


def test_a_layer_is_put_in_the_order_of_what_it_hangs_on() -> None:
    tangled = plan(a=(), b=(), c=(), z=("a",), y=("b",), x=("c",))
    assert layout(Plan("t", {n: tangled.nodes[n] for n in "abcxyz"})).layers[1] == ["z", "y", "x"]


@pytest.mark.parametrize("format", PICTURE_FORMATS)
def test_every_node_and_edge_is_there(format: str) -> None:
    text = draw_plan(DIAMOND, {"a": "completed", "b": FAILED}, format)
    assert all(f"{name}" in text for name in "abcd")
    edges = {"mermaid": "-->", "dot": " -> ", "svg": '<path d="M'}
    assert text.count(edges[format]) == 4 + 1 + (format == "svg")
    assert all(colour in text for colour in (COLOURS["completed"][0], COLOURS[FAILED][0]))
    assert COLOURS[RUNNING][0] not in text
    assert "completed" in text, "a state is told by its word, not only by a colour"


@pytest.mark.parametrize("format", PICTURE_FORMATS)
@pytest.mark.parametrize("name", NASTY)
def test_no_name_breaks_out(format: str, name: str) -> None:
    odd = Plan(name, {name: Node(name, name, name), "b": Node("b", "worker", name, (name,))})
    text = draw_plan(odd, {"b": RUNNING}, format)
    text.encode()
    assert not set(text) & {"\x1b", "\x00"}
    if format == "svg":
        root = ET.fromstring(text)  # noqa: S314 -- our own text
        assert len(root.findall(f"{SVG}g/{SVG}rect")) == 3
        assert {child.tag for child in root.iter()} <= {
            f"{SVG}{tag}" for tag in ("svg", "title", "rect", "defs", "marker", "path", "text", "g")
        }
        assert "href" not in text
    else:
        plain = draw_plan(Plan("t", {"a": Node("a", "w"), "b": Node("b", "w", "", ("a",))}), {"b": "running"}, format)
        assert len(text.splitlines()) == len(plain.splitlines())


def test_boxes_do_not_overlap() -> None:
    wide = plan(a=(), **{f"n{number}": ("a",) for number in range(30)})
    root = ET.fromstring(draw_plan(wide, {}, "svg"))  # noqa: S314 -- our own text
    boxes = [
        [float(one.attrib[key]) for key in ("x", "y", "width", "height")] for one in root.findall(f"{SVG}g/{SVG}rect")
    ]
    size = [float(root.attrib[key]) for key in ("width", "height")]
    assert all(x >= 0 and y >= 0 and x + w <= size[0] and y + h <= size[1] for x, y, w, h in boxes)
    by_column: dict[float, list[float]] = {}
    for x, y, _, _ in boxes:
        by_column.setdefault(x, []).append(y)
    assert sorted(map(len, by_column.values())) == [1, 1, 30]
    assert all(two - one >= boxes[0][3] for ys in by_column.values() for one, two in pairwise(sorted(ys)))


def test_graphviz_takes_it() -> None:
    if (program := shutil.which("dot")) is None:
        pytest.skip("graphviz is not installed here")
    for name in NASTY:
        text = draw_plan(Plan(name, {"a": Node(name, name, name)}), {}, "dot")
        subprocess.run([program, "-Tsvg"], input=text, capture_output=True, text=True, check=True)


def test_ten_thousand_nodes_in_a_row_and_side_by_side() -> None:
    row = {f"n{n}": Node(f"n{n}", "w", "", (f"n{n - 1}",) if n else ()) for n in range(10_000)}
    assert len(plan_waves(row)) == 10_000
    side = {f"n{n}": Node(f"n{n}", "w") for n in range(10_000)}
    assert draw_plan(Plan("side", side), {}, "svg").count("<rect") == 10_002
