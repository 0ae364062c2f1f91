"""What people read of plans: what is wrong with one, what would run, how far it is."""

from __future__ import annotations

import sys

from overhand.cli.text import colour, counted, folded, one_line, printable, terminal, width
from overhand.words import say_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Payload = dict[str, Any]

# of a node's state: tone, mark
_LOOKS = {
    "pending": ("dim", "·"),
    "ready": ("dim", "·"),
    "held": ("yellow", "?"),
    "starting": ("blue", "▸"),
    "running": ("blue", "▸"),
    "waiting": ("yellow", "?"),
    "verifying": ("blue", "▸"),
    "stopping": ("yellow", "■"),
    "completed": ("bold", "✓"),
    "failed": ("red", "✗"),
    "skipped": ("dim", "-"),
    "stopped": ("yellow", "■"),
}
_PRESSING = ("held", "waiting", "failed", "running", "verifying", "starting", "stopping", "stopped", "ready", "pending")


def plan(payload: Payload) -> Iterator[str]:
    texts = {"check": check, "new": _new, "run": _run, "show": _show, "dry-run": _dry_run, "graph": _graph}
    return texts[payload["do"]](payload)


def check(payload: Payload) -> Iterator[str]:
    """The problems of a plan or another document, each where it stands, as editors and `make` understand it."""
    name = printable(payload["file"])
    for one in payload["problems"]:
        place = f"{name}:{one['line']}" if one.get("line") else name
        fix = f" ({printable(one['fix'])})" if one.get("fix") else ""
        yield f"{place}: {one['level']}: {printable(one['message'])} [{one['code']}]{fix}"
    yield from (f"note: {printable(note)}" for note in payload.get("notes", ()))
    told = f"{counted(payload['errors'], 'error')}, {counted(payload['warnings'], 'warning')}"
    if "nodes" not in payload:
        yield f"{name}: {payload['document']}, {told}"
        return
    yield f"{name}: plan ({payload['form']}, {counted(payload['nodes'], 'node')}), {told}"
    if "explained" in payload:
        yield from (f"   {printable(line)}" for line in payload["explained"])
    else:
        counts = ", ".join(counted(row["count"], row["what"]) for row in payload["breakdown"] if row["count"])
        yield f"   complexity {payload['complexity']:.2f} · {payload['strategy']} · model hint {payload['model_hint']}"
        own = "" if payload["auto_calculated"] else " (the plan's own word counts)"
        yield f"   {counted(payload['points'], 'point')}{f': {counts}' if counts else ''}{own}"
    for number, wave in enumerate(payload.get("waves", ()), 1):
        yield from _wave(number, wave)


def _wave(number: int, rows: list[Payload]) -> Iterator[str]:
    yield f"   wave {number}"
    for row in rows:
        name, agent = colour(printable(row["node"]), "bold"), printable(row["agent"] or "no agent")
        yield f"     {name}  {agent}  {one_line(_limits(row), width() - 20)}".rstrip()
        for check in row["checks"]:
            yield f"       {one_line(check, width() - 8)}"


def _limits(row: Payload) -> str:
    told = [f"at most {say_duration(row['timeout'])}"] if row["timeout"] else []
    told += [f"{row['budget']} tokens"] if row["budget"] else []
    told += [f"writes {', '.join(map(str, row['writes']))}"] if row["writes"] else []
    told += ["asks for approval"] if row["requires_approval"] else []
    told += [f"after {', '.join(row['needs'])}"] if row["needs"] else []
    return " · ".join(printable(one) for one in told)


def _new(payload: Payload) -> Iterator[str]:
    facts = (counted(payload["nodes"], "node"), payload["form"], payload["strategy"])
    yield f"{printable(payload['file'])}  {' · '.join(facts)}"
    why = f" ({printable(payload['why'])})" if payload["why"] else ""
    yield f"   {', '.join(payload['agents'])}{why}"
    if not payload["trusted"]:
        yield "   not trusted: a person has to, before its commands run"
    yield f"   next: {' · '.join(printable(one) for one in payload['next'])}"


def _dry_run(payload: Payload) -> Iterator[str]:
    yield f"{printable(payload['task'])} · {counted(payload['nodes'], 'node')} · nothing was run"
    limits = payload["limits"]
    told = [_at_once(limits["max_parallel"])]
    told += [f"at most {say_duration(limits['timeout'])}"] if limits["timeout"] else []
    told += [f"budget {printable(limits['budget'])}"] if limits["budget"] else []
    told += [f"merge {payload['merge']}", f"on failure {payload['on_failure']}"]
    yield f"   {' · '.join(told)}"
    for number, wave in enumerate(payload["waves"], 1):
        yield from _wave(number, wave)
    for one in payload["warnings"]:
        yield from folded(printable(one["message"]), "note: ")
    yield f"   next: {' · '.join(printable(one) for one in payload['next'])}"


def _at_once(most: int | None) -> str:
    """What really holds; the strategy that a score suggests is said by `plan check`."""
    if most is None:
        return "as parallel as dependencies allow"
    return "one at a time" if most == 1 else f"at most {most} at once"


def _run(payload: Payload) -> Iterator[str]:
    yield f"{colour(str(payload['handle']), 'bold')}  {printable(payload['title'])}"
    yield f"   plan · accepted · {counted(payload['nodes'], 'node')} · {_at_once(payload['max_parallel'])}"
    for warning in payload["warnings"]:
        yield from folded(printable(warning["message"]), "note: ")
    yield f"   {payload['folder']}"
    yield f"   next: {' · '.join(payload['next'])}"


def _graph(payload: Payload) -> Iterator[str]:
    yield f"{printable(payload['out'])}  {payload['format']}, {counted(payload['nodes'], 'node')}"


def _show(payload: Payload) -> Iterator[str]:
    yield from tree(payload)
    yield f"   next: {' · '.join(payload['next'])}"


def tree(payload: Payload, most: int = 0) -> Iterator[str]:
    """The nodes below each other, each under the first one it waits for; with `most`, what matters first."""
    yield f"{colour(str(payload['handle'] or '-'), 'bold')}  {colour(one_line(payload['title'], width() - 8), 'bold')}"
    counts = " · ".join(f"{count} {state}" for state, count in payload["counts"].items())
    used = [say_duration(payload["seconds"])] if payload["seconds"] is not None else []
    used += [f"{_short(payload['tokens'])} tokens"] if payload["tokens"] else []
    yield f"   {payload['state']}   {' · '.join([counts, *used])}"
    rows = payload["nodes"]
    shown = rows if not most or len(rows) <= most else _pressing(rows, most - 1)
    wide = min(34, max((row["indent"] * 2 + len(row["node"]) for row in shown), default=10))
    for row in shown:
        yield from _row(row, wide)
    if len(shown) < len(rows):
        yield colour(f"   … {counted(len(rows) - len(shown), 'more node')}", "dim")


def _pressing(rows: list[Payload], most: int) -> list[Payload]:
    """What waits for a person, failed or runs, before what is done or has not begun; in the plan's order."""
    rank = {state: number for number, state in enumerate(_PRESSING)}
    chosen = sorted(range(len(rows)), key=lambda at: (rank.get(rows[at]["state"], len(rank)), at))[:most]
    return [rows[at] for at in sorted(chosen)]


def _row(row: Payload, wide: int) -> Iterator[str]:
    tone, mark = _LOOKS[row["state"]]
    name = f"{'  ' * min(row['indent'], 8)}{one_line(row['node'], 60)}"
    facts = [one_line(row["agent"], 24), colour(row["said"], tone)]
    facts += [say_duration(row["seconds"])] if row["seconds"] is not None else []
    facts += [f"{_short(row['tokens'])} tokens"] if row["tokens"] else []
    facts += [f"attempt {row['attempt']}"] if row["attempt"] > 1 else []
    facts += [f"task {row['handle']}"] if row["handle"] else []
    yield f"   {colour(mark, tone)} {name:<{wide}}  {' · '.join(facts)}"
    if row["question"]:
        yield colour(f"       ? {one_line(row['question'], width() - 12)}", "yellow")
        yield f"         {row['answer']}"
    elif row["why"]:
        yield f"       {one_line(row['why'], width() - 8)}"


def _short(count: int) -> str:
    return f"{count / 1000:.1f}k".replace(".0k", "k") if count >= 1000 else str(count)


_UP, _REST_OF_LINE, _BELOW = "\x1b[{}A", "\x1b[K", "\x1b[J"
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"  # a line that is too long ends at the edge: each takes one row


class Picture:
    """What was drawn last, so that the next one covers it."""

    def __init__(self) -> None:
        self._before: list[str] = []

    def draw(self, payload: Payload) -> None:
        """Draw over the last picture, in one write; nothing if nothing has changed."""
        room = max(6, terminal(2).lines - 2)  # what stands above the screen cannot be drawn over
        lines = list(tree(payload))
        if len(lines) > room:
            lines = list(tree(payload, most=max(3, room // 2 - 3)))[:room]  # a question takes three lines
        if lines == self._before:
            return
        up = f"\r{_UP.format(len(self._before))}" if self._before else ""
        text = "".join(f"{line}{_REST_OF_LINE}\r\n" for line in lines)
        sys.stderr.write(f"{up}{_NO_WRAP}{text}{_WRAP}{_BELOW}")
        sys.stderr.flush()
        self._before = lines
