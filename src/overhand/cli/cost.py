"""What was used, as people read it: the table of `list --cost`, and the lines of a receipt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from overhand.budget import say_tokens, say_usd
from overhand.cli.words import colour, one_line, width

if TYPE_CHECKING:
    from collections.abc import Iterator

    Payload = dict[str, Any]

_HEAD = f"{'task':>5}  {'in':>8} {'out':>8} {'money':>9} {'with children':>14}  {'of budget':<22} title"


def table(payload: Payload) -> Iterator[str]:
    """One line a task, children below their parent, then the sums."""
    yield colour(_HEAD, "dim")
    for row in payload["tasks"]:
        handle = row["handle"] if row["handle"] is not None else "-"
        tokens = f"{_about(row, row['input']):>8} {_about(row, row['output']):>8} {money(row['usd']):>9}"
        tree = _about(row["tree"], row["tree"]["tokens"]) if row["tree"]["tasks"] > 1 else ""
        title = "  " * row["indent"] + one_line(row["title"], max(20, width() - 72))
        yield f"{handle:>5}  {tokens} {tree:>14}  {_of_budget(row):<22} {title}"
    today, total = payload["today"], payload["total"]
    yield f"today  {say_tokens(today['tokens'])} tokens, {say_usd(today['usd'])}"
    yield f"total  {_about(total, total['tokens'])} tokens, {say_usd(total['usd'])}"
    if total["estimated"]:
        yield colour("~ is an estimate: the agent did not report what it used", "dim")


def used(usage: Payload) -> Iterator[str]:
    """The lines of a receipt."""
    if not usage["runs"] and not usage["budget"]:
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
