"""What was used, as people read it: the table of `list --cost`, and the lines of a receipt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from overhand.cli.cells import cells, cut
from overhand.cli.words import colour, one_line, width
from overhand.policy.budget import say_tokens, say_usd

if TYPE_CHECKING:
    from collections.abc import Iterator

    Payload = dict[str, Any]

_HEAD = ("task", "in", "out", "money", "with children", "of budget", "agent", "title")


def table(payload: Payload) -> Iterator[str]:
    """One line a task, children below their parent, then the sums; a column in which nothing stands is left out."""
    rows = [_HEAD, *map(_cells, payload["tasks"])]
    sizes = [max(least, *map(cells, column)) for least, column in zip(_LEAST, zip(*rows, strict=True), strict=True)]
    kept = [n for n, column in enumerate(zip(*rows[1:], strict=True)) if any(column)][:-1]
    room = max(20, width() - 2 - sum(sizes[n] + 2 for n in kept))
    for number, row in enumerate(rows):
        shown = "".join(f"  {_aligned(row[n], sizes[n], left=n > _NUMBERS)}" for n in kept)
        line = f"{shown}  {cut(row[-1], room)}"
        yield colour(line, "dim") if number == 0 else line
    today, total = payload["today"], payload["total"]
    yield f"today  {say_tokens(today['tokens'])} tokens, {say_usd(today['usd'])}"
    yield f"total  {_about(total, total['tokens'])} tokens, {say_usd(total['usd'])}"
    if total["estimated"]:
        yield colour("~ is an estimate: the agent did not report what it used", "dim")


_LEAST = (4, 6, 6, 7, 0, 0, 0, 0)  # columns, so that the table looks the same from day to day
_NUMBERS = 4  # the last column that stands at the right


def _cells(row: Payload) -> tuple[str, ...]:
    tree = _about(row["tree"], row["tree"]["tokens"]) if row["tree"]["tasks"] > 1 else ""
    handle = str(row["handle"]) if row["handle"] is not None else "-"
    spent = (_about(row, row["input"]), _about(row, row["output"]), money(row["usd"]))
    title = "  " * row["indent"] + one_line(row["title"], 200)
    return (handle, *spent, tree, _of_budget(row), one_line(row["agent"], 20), title)


def _aligned(text: str, size: int, *, left: bool) -> str:
    gap = " " * (size - cells(text))
    return text + gap if left else gap + text


def used(usage: Payload) -> Iterator[str]:
    """The lines of a receipt."""
    if not usage["runs"] and not usage["budget"] and not usage["tokens"]:
        return
    told = f"{_about(usage, usage['tokens'])} tokens ({_about(usage, usage['input'])} in, "
    told += f"{_about(usage, usage['output'])} out)"
    told += f" · {money(usage['usd'])}" if usage["usd"] else ""
    told += f" · {usage['turns']} turns" if usage["turns"] else ""
    yield told
    if usage["budget"]:
        share, below = f"{usage['used_of_budget']:.0%} of the budget, {usage['budget']['text']}", usage["children"]
        if below["tokens"] or below["usd"]:
            held = f", held by {len(below['held'])} at work" if below["held"] else ""
            share += f"; of it {say_tokens(below['tokens'])} tokens, {say_usd(below['usd'])} by what it delegated{held}"
        yield share
    if len(usage["runs"]) > 1:
        for run in usage["runs"][-3:]:
            yield f"{run['id']}: {_about(run, run['tokens'])} tokens" + (
                f" · {money(run['usd'])}" if run["usd"] else ""
            )
    yield from (f"reached: {key}" for key in usage["limits"][-4:])


def _about(row: Payload, tokens: int) -> str:
    return f"{'~' if row['estimated'] else ''}{say_tokens(tokens)}"


def money(usd: float) -> str:
    """Nothing, where nobody said what it cost."""
    return say_usd(usd) if usd else ""


def _of_budget(row: Payload) -> str:
    return f"{row['used_of_budget']:.0%} of {row['budget']}" if row["budget"] else ""
