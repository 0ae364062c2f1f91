"""Budgets: amounts of tokens and money, levels of a cap, shares of what is left, and what agents report.

An amount has both measures; as a cap, 0 means that there is none in that measure. Pure: no I/O, no clock.
"""

from __future__ import annotations

from overhand.record import Amount, Usage
from overhand.system import load_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from overhand.record import Task

WARN_LEVEL = 70  # per cent of a cap
CHECKPOINT_LEVEL = 85
STOP_LEVEL = 95
LEVELS = (WARN_LEVEL, CHECKPOINT_LEVEL, STOP_LEVEL)
SHARE = 0.25  # of the rest, for a child without its own budget: three at once leave some for a fourth
NEEDED = "write it as 200k tokens, $5, or both: 200k tokens, $5"
MOST_TOKENS, MOST_USD = 10**12, 10.0**7  # a larger number must be a mistake

_TIMES = {"": 1, "k": 10**3, "m": 10**6}
_TOKENS = ("tokens", "token", "tok")
_MONEY = ("dollars", "dollar", "usd", "us$", "$")
_SMALL = 1e-9  # money is added up as floats


NOTHING = Amount()


def make_amount(tokens: int = 0, usd: float = 0.0) -> Amount:
    return Amount(tokens=tokens, usd=usd)


# words


def parse_budget(text: str | float) -> Amount:
    """`200k tokens`, `200000`, `1.5M`, `$5`, `5 USD`, or both: `200k tokens, $3`; raises ValueError."""
    found = make_amount()
    for part in _apart(str(text).lower()):
        tokens, usd = _one(part.strip())
        if (tokens and found.tokens) or (usd and found.usd):
            raise ValueError(f"{str(text)!r} names the same measure twice; {NEEDED}")
        found = found + make_amount(tokens, usd)
    return found


def _apart(text: str) -> list[str]:
    """The parts of a budget: a comma between digits belongs to the number."""
    text = text.replace(" and ", ";").replace("+", ";")
    marked = [
        ";" if c == "," and not (text[i - 1 : i].isdigit() and text[i + 1 : i + 2].isdigit()) else c
        for i, c in enumerate(text)
    ]
    return "".join(marked).split(";")


def _one(part: str) -> tuple[int, float]:
    """Tokens or money from one part; the other is 0."""
    money = next((word for word in _MONEY if part.startswith(word) or part.endswith(word)), "")
    bare = part.removeprefix(money) if part.startswith(money) else part.removesuffix(money)
    if not money:
        bare = part.removesuffix(next((word for word in _TOKENS if part.endswith(word)), ""))
    value = _number(bare.strip(), part)
    tokens, usd = (0, round(value, 6)) if money else (round(value), 0.0)
    if not (0 < tokens <= MOST_TOKENS or 0 < usd <= MOST_USD):
        raise ValueError(f"{part!r} is no budget; {NEEDED}")
    return tokens, usd


def _number(text: str, part: str) -> float:
    unit = text[-1:] if text[-1:] in ("k", "m") else ""
    digits = text.removesuffix(unit).strip().replace("_", "")
    groups = digits.partition(".")[0].split(",")
    plain = digits.replace(",", "").replace(".", "", 1)
    grouped = len(groups) == 1 or (0 < len(groups[0]) <= 3 and all(len(group) == 3 for group in groups[1:]))
    if not (plain.isascii() and plain.isdigit() and grouped and len(plain) <= 30):
        raise ValueError(f"{part!r} is no budget; {NEEDED}")
    return float(digits.replace(",", "")) * _TIMES[unit]


def say_budget(cap: Amount) -> str:
    """A budget as people write it; exact, so that it can be parsed again."""
    parts = [f"{_exact(cap.tokens)} tokens"] if cap.tokens else []
    if cap.usd:
        whole, _, cents = f"{cap.usd:.6f}".partition(".")
        parts.append(f"${whole}.{cents.rstrip('0'):0<2}")
    return ", ".join(parts)


def _exact(tokens: int) -> str:
    if tokens >= 10**6 and tokens % 10**5 == 0:
        millions, tenth = divmod(tokens // 10**5, 10)
        return f"{millions}.{tenth}M" if tenth else f"{millions}M"
    return f"{tokens // 1000}k" if tokens >= 1000 and tokens % 1000 == 0 else str(tokens)


def say_tokens(tokens: int) -> str:
    """A number of tokens, rounded to three digits."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if tokens >= 10 * size or (tokens >= size and unit != "k"):
            return f"{tokens / size:.3g}{unit}" if tokens < 1000 * size else f"{tokens // size}{unit}"
    return str(tokens)


def say_usd(usd: float) -> str:
    """An amount of money; less than a cent is not shown as zero."""
    return f"${usd:.2f}" if usd >= 0.995 or usd == 0 else f"${usd:.4f}"


# arithmetic


def add_amounts(*amounts: Amount) -> Amount:
    if not amounts:
        return NOTHING
    return make_amount(sum(a.tokens for a in amounts), sum((a.usd for a in amounts), 0.0))


def tighter_cap(one: Amount, other: Amount) -> Amount:
    """Both caps combined: the smaller one in each measure, where there is one."""
    tokens = min(filter(None, (one.tokens, other.tokens)), default=0)
    return make_amount(tokens, min(filter(None, (one.usd, other.usd)), default=0.0))


def capped_measures(wanted: Amount, cap: Amount) -> Amount:
    """Only the measures in which there is a cap."""
    return make_amount(wanted.tokens if cap.tokens else 0, wanted.usd if cap.usd else 0.0)


def larger_amount(one: Amount, other: Amount) -> Amount:
    """The greater in each measure."""
    return make_amount(max(one.tokens, other.tokens), max(one.usd, other.usd))


def budget_level(spent: Amount, cap: Amount) -> int:
    """The highest of 70, 85 and 95 per cent that was reached, in either measure; 0 below."""
    return max(_level(spent.tokens, cap.tokens), _level(spent.usd + _SMALL, cap.usd))


def context_level(usage: Usage) -> int:
    """The same for the latest turn and the model's context window; 0 if its size is unknown."""
    return _level(usage.context, usage.window)


def _level(spent: float, cap: float) -> int:
    return max((one for one in LEVELS if cap and spent * 100 >= one * cap), default=0)


def child_share(cap: Amount, committed: Amount, asked: Amount, part: float = SHARE) -> Amount:
    """A child's budget: what it asks for, or a part of the rest; never more than the rest."""
    left = cap - committed
    tokens = asked.tokens or max(1, int(left.tokens * part))
    return capped_measures(make_amount(min(tokens, left.tokens), min(asked.usd or left.usd * part, left.usd)), cap)


def own_cap(task: Task) -> Amount:
    """The task's own cap; a value that can't be parsed, from an older version, is none."""
    try:
        return parse_budget(task.budget) if task.budget else NOTHING
    except ValueError:
        return NOTHING


def amount_used(usage: Usage | None) -> Amount:
    return usage.amount if usage else NOTHING


def own_spending(task: Task) -> Amount:
    """What the task's own runs have used, as it is recorded."""
    return add_amounts(*(run.usage.amount for run in task.runs if run.usage))


def total_used(tasks: Iterable[Task]) -> Amount:
    """What the runs of all these tasks have used."""
    return add_amounts(*map(own_spending, tasks))


def child_holds(task: Task) -> dict[str, Amount]:
    """Each child's share of this task's budget: what it holds while it may run, what it used once it has ended."""
    return {**task.settled, **task.reserved}


# what agents report


def tally_reports(raw: bytes, *, last: bool = False) -> Usage | None:
    """The sum of all reported turns, None without any; unreadable lines and an incomplete last one are skipped."""
    whole, _, rest = raw.rpartition(b"\n")
    turns = [turn for line in (*whole.split(b"\n"), *([rest] if last else [])) if (turn := _turn(line))]
    if not turns:
        return None
    return Usage(
        input=min(MOST_TOKENS, sum(_count(turn, "input") for turn in turns)),
        output=min(MOST_TOKENS, sum(_count(turn, "output") for turn in turns)),
        usd=round(min(MOST_USD, sum(_positive(turn.get("usd")) for turn in turns)), 6),
        turns=len(turns),
        context=_count(turns[-1], "context") or _count(turns[-1], "input") + _count(turns[-1], "output"),
        window=next((found for turn in reversed(turns) if (found := _count(turn, "window"))), 0),
        estimated=False,
    )


def _turn(line: bytes) -> dict[str, Any] | None:
    if not line.strip():
        return None
    try:
        value = load_line(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    keys = ("input", "output", "usd", "context")
    return value if isinstance(value, dict) and any(_positive(value.get(key)) for key in keys) else None


def _count(turn: Mapping[str, Any], key: str) -> int:
    return int(min(MOST_TOKENS, _positive(turn.get(key))))


def _positive(value: object) -> float:
    """A number to add up; anything else counts as 0, and an impossible one as very large."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
        return 0.0
    return float(min(value, MOST_TOKENS))


def estimate_usage(given: int, printed: int) -> Usage:
    """The estimated usage of an agent that reported none: a token is about four bytes of prompt and output."""
    return Usage(input=given // 4, output=printed // 4, usd=0.0, turns=0, context=0, window=0, estimated=True)


def usage_of_task(task: Task) -> dict[str, Any]:
    """What a task has used so far, as JSON shows it."""
    known = [(run.id, run.usage) for run in task.runs if run.usage]
    spent, cap = own_spending(task), own_cap(task)
    children = add_amounts(*child_holds(task).values())
    return {
        "input": sum(usage.input for _, usage in known),
        "output": sum(usage.output for _, usage in known),
        **vars(spent.rounded()),
        "turns": sum(usage.turns for _, usage in known),
        "estimated": any(usage.estimated for _, usage in known),
        "budget": {**vars(cap), "text": say_budget(cap)} if cap.is_cap else None,
        "used_of_budget": round((spent + children).portion(cap), 4) if cap.is_cap else None,
        "children": {**vars(children.rounded()), "held": sorted(task.reserved)},
        "limits": task.limits,
        "runs": [{"id": run_id, **vars(usage), "tokens": amount_used(usage).tokens} for run_id, usage in known],
    }


NODE_MEASURES = ("input", "output", "tokens", "usd", "turns", "estimated")


def usage_with_nodes(usage: dict[str, Any], nodes: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """A plan's usage: the sum of its nodes', as it uses nothing itself."""
    found = list(nodes)
    sums = {name: sum((one.get(name, 0) for one in found), usage[name]) for name in NODE_MEASURES[:-1]}
    about = usage["estimated"] or any(one.get("estimated") for one in found)
    return {**usage, **sums, "usd": round(sums["usd"], 6), "estimated": about}


def usage_figures(task: Task) -> dict[str, Any]:
    """The usage of its runs, without zeros."""
    usage = usage_of_task(task)
    return {name: usage[name] for name in NODE_MEASURES if usage[name]}
