"""What the agent of a plan's node is told: its task, its inputs, and in words what it must return."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from overhand.documents import handoff as handoffs
from overhand.documents.handoff import Deliverable, Handoff, KeyFile, Section
from overhand.documents.lists import looks_like_path
from overhand.documents.text import one_line, shorten
from overhand.errors import BadInput
from overhand.plans.contract import ENFORCED
from overhand.runs.prompt import INPUTS

if TYPE_CHECKING:
    from overhand.plans.model import Node, Plan

BIG = 4096  # bytes of JSON; what is larger is referred to, not pasted

_OWN_DATA = "Put it into a `## Data` section of OUTPUT.md as one fenced json block, or into `data.json`."


def compact(value: object) -> bytes:
    """JSON without blanks, types as they are; raises BadInput for what JSON has no word for."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"A value of the plan cannot be written as JSON: {error}.", "Give it as text.") from None
    return text.encode("utf-8", "replace")


def for_all(plan: Plan) -> str:
    """The plan's task and everything that it tells all of its nodes."""
    parts = [f"It is one part of: {one_line(plan.task)}"] if plan.task else []
    rows = [f"- {one_line(str(name))}: {_shown(value)}" for name, value in (*plan.context, *plan.labels.items())]
    return "\n\n".join([*parts, "\n".join(rows)] if rows else parts)


def handoff(
    plan: Plan, node: Node, inputs: Mapping[str, Any], task: str, schema: Mapping[str, Any], common: str
) -> Handoff:
    """The node's HANDOFF; `common` is what every node of the plan is told."""
    context = "\n\n".join(part for part in (node.context.strip(), common) if part)
    about = [Section("Inputs", _inputs(inputs))] if inputs else []
    wanted = Handoff(
        task=task.strip() or _made_up(plan, node),
        context=context,
        key_files=tuple(KeyFile(path) for path in node.key_files),
        constraints=tuple(_constraints(plan, node)),
        deliverables=tuple(deliverables(node)),
        contract=_promise(plan, node, schema),
        extra=tuple(about),
    )
    return handoffs.filled(wanted, node.kind)


def _made_up(plan: Plan, node: Node) -> str:
    """Words for a node that has none: its id, the plan's task, what goes in and what comes out."""
    name = " ".join(node.id.replace("_", "-").split("-")).strip() or node.id
    title = f"{name[:1].upper()}{name[1:]}"
    title += f" (a part of: {shorten(one_line(plan.task).rstrip('.'), 60)})." if plan.task else "."
    given = ", ".join(f"`{name}`" for name in node.inputs)
    made = ", ".join(f"`{name}`" for name in (*node.outputs, *(node.deliverables if not node.outputs else ())))
    parts = [f"From {given} (see Inputs)" if given else "", f"make {made}" if made else ""]
    words = ", ".join(part for part in parts if part)
    return f"{title}\n\n{words[:1].upper()}{words[1:]}." if words else title


def _inputs(inputs: Mapping[str, Any]) -> str:
    """Small values as they are, big ones by reference to the file that holds all of them."""
    small, big = {}, []
    for name, value in inputs.items():
        raw = compact(value)
        if len(raw) <= BIG:
            small[name] = value
        else:
            big.append(f"- `{one_line(name)}`: {_measure(value, len(raw))}")
    parts = [f"All of them stand in `{INPUTS}` of the task's folder (OVERHAND_INPUTS), as JSON."]
    if small:
        parts.append(f"```json\n{json.dumps(small, ensure_ascii=False, indent=1)}\n```")
    if big:
        parts.append(f"Too big to be shown here, read them from `{INPUTS}`:\n" + "\n".join(big))
    return "\n\n".join(parts)


def _measure(value: object, size: int) -> str:
    """How much a big value is."""
    amount = f"{size / 1000:.0f} KB"
    if isinstance(value, list):
        return f"a list of {len(value)}, {amount}"
    if isinstance(value, dict):
        return f"an object with {', '.join(f'`{one_line(str(key))}`' for key in list(value)[:10])}, {amount}"
    return f"a text, {amount}"


def _constraints(plan: Plan, node: Node) -> Iterable[str]:
    """What nobody enforces is for the agent to keep to."""
    for name, value in {**plan.constraints, **node.constraints}.items():
        enforced = name in ENFORCED or (name.startswith("max_") and name[4:] in node.outputs)
        if not enforced:
            yield name if value is True else f"{one_line(str(name))}: {_shown(value)}"
    if node.writes:
        yield f"Write only to: {', '.join(node.writes)}"


def _shown(value: object) -> str:
    return one_line(value) if isinstance(value, str) else compact(value).decode()


def deliverables(node: Node) -> list[Deliverable]:
    """Paths are checked, sentences are prose."""
    found = []
    for text in node.deliverables:
        bare = text.strip().strip("`")
        is_path = bool(bare) and not any(c.isspace() for c in bare) and (looks_like_path(bare) or "*" in bare)
        found.append(Deliverable(path=bare) if is_path else Deliverable(text=text.strip()))
    return found


def _promise(plan: Plan, node: Node, schema: Mapping[str, Any]) -> str:
    """What must be in `## Data`, in words an agent understands."""
    notes = schema.get("overhand", {})
    parts = []
    if node.outputs:
        rows = "\n".join(f"- `{name}`: {_typed(plan, node, name)}" for name in node.outputs)
        parts.append(f"Return one JSON object with exactly these fields:\n\n{rows}\n\n{_OWN_DATA}")
    needed = [_edge(row) for row in notes.get("edges", ()) if row.get("required")]
    if needed:
        parts.append("Others go on with it:\n\n" + "\n".join(needed))
    rules = [f"- `{text}`" for text in notes.get("expressions", ())]
    rules += [f"- the file `{path}` exists" for path in notes.get("exists", ())]
    rules += [f"- the data fit this JSON Schema: `{compact(one).decode()}`" for one in schema.get("allOf", ())]
    if rules:
        parts.append("This is checked afterwards, and must hold:\n\n" + "\n".join(rules))
    prose = [one for one in node.verification if isinstance(one, str)]
    if prose:
        rows = "\n".join(f"- {one_line(one)}" for one in prose)
        parts.append(f"This is expected too, though no program checks it:\n\n{rows}")
    return "\n\n".join(parts)


def _typed(plan: Plan, node: Node, name: str) -> str:
    """The type of an output as its plan words it, and its limit."""
    wanted = node.outputs[name]
    text = one_line(wanted) if isinstance(wanted, str) else f"as by this JSON Schema: `{compact(wanted).decode()}`"
    most = {**plan.constraints, **node.constraints}.get(f"max_{name}")
    return f"{text}, at most {most}" if most is not None else text


def _edge(edge: Mapping[str, Any]) -> str:
    """What the next node needs of a field."""
    needed = ", ".join(f"`{name}`" for name in edge["required"])
    where = f"in `{edge['field']}` (of a list: in each entry)" if edge.get("field") else "in the data"
    return f"- `{edge.get('to', '')}` needs {needed} {where}"
