"""The receipt: what was claimed, what was checked, what to look at."""

from __future__ import annotations

from overhand.cli.text import (
    VERIFICATION_TONES,
    cells,
    colour,
    counted,
    cut,
    folded,
    of_plan,
    one_line,
    printable,
    shield_line,
    state_word,
    width,
)
from overhand.policy import say_tokens, say_usd
from overhand.words import SHOWN_VERIFICATIONS, say_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    Payload = dict[str, Any]


def brief(payload: Payload) -> Iterator[str]:
    """One task, or several, in a few lines each."""
    for number, row in enumerate(payload.get("tasks", [payload])):
        if number:
            yield ""
        yield f"{row['handle'] or '-'}  {one_line(row['title'], _MOST_WIDE)}"
        yield f"   {_verdict(row)}"
        yield from _summary(row, _FEW_LINES)
        for problem in row["problems"]:
            if problem["level"] == "error":
                form = "form: " if problem.get("of") == "form" else ""
                yield f"   ! {form}{one_line(problem['message'], _MOST_WIDE)}"
                yield from _quoted(problem.get("detail", ""), "     ")
        if row.get("last_words"):
            yield "   its last words:"
            yield from _quoted(row["last_words"], "   ")
        for one in row["questions"]:
            if one["answered"] is None:
                options = " / ".join(one_line(option, 60) for option in one["options"])
                yield f"   ? {one_line(one['question'], 500)}{f' ({options})' if options else ''}"
                yield f"     overhand answer {row['handle']} {one['seq']} TEXT"
        if row.get("output"):
            yield f"   {row['output']}"
        yield f"   receipt: overhand show {row['handle'] or row['task_id']}"


def _quoted(text: str, lead: str = "") -> Iterator[str]:
    """What a program printed, line by line."""
    yield from (f"{lead}| {line[:_MOST_WIDE]}" for line in printable(text).splitlines())


def _verdict(payload: Payload) -> str:
    """The judged status, as loud when unverified as when verified."""
    status = payload["status"]
    if status is None:
        return state_word(payload)
    if status not in ("completed", "partial"):
        return colour(status.upper(), "red" if status in ("failed", "rejected") else "yellow")
    word = payload["verification"]
    how = f" ({_PROOFS[payload['proof']]})" if payload.get("proof") else ""
    return colour(f"{status.upper()} · {SHOWN_VERIFICATIONS[word]}{how}", VERIFICATION_TONES[word])


def whole(payload: Payload) -> Iterator[str]:
    yield f"{colour(str(payload['handle'] or '-'), 'bold')}  {colour(one_line(payload['title'], _MOST_WIDE), 'bold')}"
    started = payload["status"] is not None or payload["run_state"] is not None
    headline = payload["headline"] if started and payload["headline"] != payload["status"] else ""
    yield f"   {_verdict(payload)}   {colour(headline, 'dim')}".rstrip()
    limits = f"level {payload['level']}"
    limits += f" · at most {say_duration(payload['timeout'])}" if payload["timeout"] else ""
    yield f"   {payload['agent']} · {' → '.join(payload['path'])} · {limits}"
    if payload["item"]:
        yield f"   {printable(payload['item'])} · {payload['stage']}"
    if payload.get("node"):
        yield f"   {of_plan(payload)}"
    if payload["summary"]:
        yield ""
        yield from _summary(payload, _MOST_LINES)
    if payload["status"] is not None:
        yield ""
        for name, part in _OF_PLAN if _is_plan(payload) else _PARTS:
            yield from _block(name, part(payload))
    elif payload["wanted_checks"]:
        yield from _block("will check", [printable(c["command"]) for c in payload["wanted_checks"]])
    if payload["usage"]:
        yield from _block("used", _used(payload["usage"]))
    if payload.get("reason") and payload["status"] is None:
        yield from _block("waits", [printable(payload["reason"])])
    if payload.get("lately"):
        yield from _block("just now", [one_line(payload["lately"], 200)])
    if payload["runs"] and payload["runs"][-1]["shield"]:
        yield from _block("shield", [shield_line(payload["runs"][-1]["shield"])])
    yield from _block("asked", _asked(payload))
    if payload["for_primary"]:
        yield from _block("for you", _first_lines(payload["for_primary"], payload["handle"]))
    for one in payload["messages"]:
        yield from _block("message", [f"{one['n']} {one['state']}: {one_line(one['text'], 200)}"])
    for notice in payload["notices"]:
        yield from _block("notice", [printable(notice)])
    yield from _block(
        "files", [path for path in (payload.get("output"), payload.get("context"), payload["folder"]) if path]
    )
    yield from _block("next", _what_next(payload))


def _is_plan(payload: Payload) -> bool:
    return "conflicts" in payload


def _summary(payload: Payload, most: int) -> Iterator[str]:
    """Ours as it stands; what the agent said is quoted line by line, so that it never looks like a verdict of ours."""
    changed = any(one["code"] == "document-changed" for one in payload["problems"])  # then it is not known whose it is
    is_agents = payload["claimed"] or payload["source"] or changed
    if not is_agents or _is_plan(payload):
        yield from (f"   {line}" for line in [one_line(payload["summary"], _MOST_WIDE)] if line)
        return
    if payload["summary"] and payload["claimed"] != payload["status"]:
        yield "   it said:"  # a claim that did not hold
    yield from (f"   | {line}" for line in _first_lines(payload["summary"], payload["handle"], most))


_FEW_LINES, _MOST_LINES, _MOST_WIDE = 10, 40, 1000


def _first_lines(text: str, handle: object, most: int = _MOST_LINES) -> Iterator[str]:
    """What fits on a screen; OUTPUT.md has the rest."""
    rows = printable(text).splitlines()
    yield from (row[:_MOST_WIDE] + ("…" if len(row) > _MOST_WIDE else "") for row in rows[:most])
    if len(rows) > most:
        yield f"… {counted(len(rows) - most, 'more line')}: overhand show {handle} --output"


def _block(name: str, rows: Iterable[str]) -> Iterator[str]:
    for number, row in enumerate(rows):
        yield from folded(row, f"{name if number == 0 else '':>10}  ", 1)


def _claimed(payload: Payload) -> Iterator[str]:
    yield f"{payload['claimed']}, in {payload['source']}" if payload["claimed"] else "nothing that could be read"
    if payload.get("last_words"):
        yield "its last words:"
        yield from _quoted(payload["last_words"])
    for decision in payload["decisions"]:
        yield f"decided: {one_line(decision['what'], 60)}: {one_line(decision['why'], 100)}"


def _checked(payload: Payload) -> Iterator[str]:
    yield from _problems(payload)
    if not payload["checks"]:
        how = " (add --verify CMD, or [checks] in .overhand/config.toml)" if payload["status"] == "completed" else ""
        yield colour("no check was run", "yellow") + how
    yield from (colour(f"{_unproved(payload)}: {printable(doubt)}", "yellow") for doubt in payload["doubts"])
    for check in payload["checks"]:
        mark = "passed" if check["passed"] else colour("FAILED", "red")
        yield f"{mark}  {printable(check['command'])} · {how_checked(check, payload['tree'])}"
        yield from _quoted(check.get("why", ""))
    for item in payload["deliverables"]:
        if "path" in item:
            mark = "there" if item["holds"] else colour("NOT", "red")
            yield f"{mark:<7} {printable(item['path'])} ({item['state']})"
        else:
            yield f"unverified  {one_line(item['text'], 90)}"
    for text in payload.get("unverified", ()):
        yield f"unverified  {one_line(text, 90)}"


def _unproved(payload: Payload) -> str:
    return "unverified" if payload["verification"] == "none" else "not proved"


_PROOFS = {"red-green": "red before, green now", "data": "the data holds what was asked"}


_TO_LOOK_AT = ("permission-denied", "changed-unlisted")  # nothing is wrong with them by themselves


def _problems(payload: Payload) -> Iterator[str]:
    """What speaks against the result; errors of form are marked, since they do not fail it."""
    for problem in payload["problems"]:
        if problem["code"] in _TO_LOOK_AT and problem["level"] == "warning":
            continue
        tone = "red" if problem["level"] == "error" else "yellow"
        form = " of form" if problem.get("of") == "form" else ""
        yield f"{colour(problem['level'] + form, tone)}  {one_line(problem['message'], _MOST_WIDE)}"
        if problem["code"] != "check-failed":  # the check itself is listed below
            yield from _quoted(problem.get("detail", ""))


def how_checked(check: Payload, tree: str = "") -> str:
    """How a check was made and what it said; what a plan's contract says needs no program."""
    if check.get("kind", "command") != "command":
        return f"{_KINDS.get(check['kind'], check['kind'])}, by the plan"
    code = "timed out" if check["timed_out"] else f"exit {check['exit']}"
    took = f"{check['seconds']}s in {tree} · " if tree else ""
    change = f"{'green' if check['before'] == 0 else 'red'} before → {'green' if check['passed'] else 'red'} after"
    if check["before"] is None:
        change = "not run before"
    elif check["already_red"]:
        change = "already red before → still red"
    return f"{code} · {change} · {took}{check['evidence']}"


_KINDS = {
    "shape": "types of the data",
    "edge": "what the next node needs",
    "expression": "expression over the data",
    "exists": "file exists",
}


_OF_TREES = {
    "hidden": "hidden by its own ignore rules",
    "left": "not part of the result",
    "submodules": "changed submodules, which are not landed",
}


def _look_at(payload: Payload) -> Iterator[str]:
    look = payload.get("look_at") or {}
    if look.get("git"):
        yield colour(f"changed under .git: {one_line(', '.join(look['git']), 400)}", "yellow")
    for group, files in look.get("groups", {}).items():
        if files:
            yield colour(f"{group}: {one_line(', '.join(files), 200)}", "yellow")
    for problem in payload["problems"]:
        if problem["code"] in _TO_LOOK_AT and problem["level"] == "warning":
            yield colour(one_line(problem["message"], 400), "yellow")
    for name, said in _OF_TREES.items():
        if look.get(name):
            yield colour(f"{said}: {one_line(', '.join(look[name]), 400)}", "yellow")
    if look.get("changed") is None:
        why = f": {one_line(look['why'], 300)}" if look.get("why") else ""
        yield f"worked in {payload['tree']}; git cannot tell here which files changed{why}"
    elif not look.get("alone"):
        files = one_line(", ".join(look["changed"]) or "nothing", 200)
        beside = one_line(", ".join(look.get("company", ())) or "other runs", 200)
        yield f"worked in your checkout beside {beside}; changed meanwhile: {files}"
    else:
        yield f"worked in {payload['tree']}; changed: {one_line(', '.join(look['changed']) or 'nothing', 200)}"
    if look.get("leftovers"):
        pids = ", ".join(map(str, look["leftovers"]))
        tried = any(notice.startswith("Processes could not be ended") for notice in payload["notices"])
        how = "it could not end them" if tried else f"overhand stop {payload['handle']} ends them"
        yield colour(f"processes were left behind: {pids} ({how})", "yellow")


def _asked(payload: Payload) -> Iterator[str]:
    for one in payload["questions"][-5:]:
        yield f"{one['seq']}. {one_line(one['question'], 200)}"
        if one["answered"]:
            yield f"   answered: {one_line(one['answer'] or '', 200)}"
            continue
        if one["options"]:
            yield "   " + " / ".join(one_line(option, 60) for option in one["options"])
        yield colour(f"   open: overhand answer {payload['handle']} {one['seq']} TEXT", "yellow")


def _runs(payload: Payload) -> Iterator[str]:
    repairs = payload.get("repairs") or 0
    yield f"{len(payload['runs'])} run(s), {repairs} repair(s)"
    for row in payload["runs"][-3:]:
        how = [row["cause"] or row["state"]] if row["cause"] != "exit" else []
        how += [] if row["exit"] is None else [f"exit {row['exit']}"]
        yield " · ".join(filter(None, (row["id"], row["agent"], ", ".join(how), row["status"] or "not judged")))


def _what_next(payload: Payload) -> list[str]:
    handle = payload["handle"] if payload["handle"] is not None else payload["task_id"]
    if payload["status"] is None:
        item = printable(payload["item"])
        if payload["run_state"] is None and payload["stage"] == "claimed":  # outside Overhand
            return [f"overhand item done {item}", f"overhand item needs {item}"]
        if payload["run_state"] is None:
            return [f"overhand item next {item}" if payload["item"] else f"overhand run {handle}"]
        if _is_plan(payload):
            return [f"overhand plan show {handle} --watch · overhand wait {handle} · overhand stop {handle}"]
        return [f"overhand log -f {handle} · overhand wait {handle} · overhand stop {handle}"]
    if payload["status"] == "completed" and not payload["runs"]:
        return []  # done by hand: there is no more to see
    if payload["status"] == "completed":
        return [f"overhand show {handle} --output" + (f" · overhand check {handle}" if payload["checks"] else "")]
    if any(one["answered"] is None for one in payload["questions"]):
        return [f"overhand answer {handle}"]
    if payload["cause"] == "budget":
        return [f"overhand resume {handle} --budget AMOUNT"]
    look = f"overhand plan show {handle}" if _is_plan(payload) else f"overhand log {handle} -o"
    rows = [f"{look} · overhand resume {handle}"]
    if payload["stage"] == "needs":
        rows.append(f"overhand item approve --again {printable(payload['item'])}")
    return rows


_NODES, _CHECKS, _CONFLICTS = 30, 6, 20  # that a screen shows; --json has more


def _checked_nodes(payload: Payload) -> Iterator[str]:
    """A line for each thing that was checked, below the node that it was checked for."""
    yield from _problems(payload)
    rows = [row for row in payload["nodes"] if row["attempts"]]
    if len(rows) > _NODES:
        rows.sort(key=lambda row: row["state"] == "verified")  # what fell short comes first
    for row in rows[:_NODES]:
        checks, name = row.get("checked", ()), one_line(row["node"], 40)
        for check in checks[:_CHECKS]:
            mark = "passed" if check["passed"] else colour("FAILED", "red")
            there = " exists" if check["kind"] == "exists" else ""
            yield f"{mark}  {name}: {one_line(check['command'], 100)}{there}"
        if len(checks) > _CHECKS:
            yield f"        {name}: {len(checks) - _CHECKS} more"
        yield from (f"unverified  {name}: {one_line(text, 90)}" for text in row.get("unverified", ())[:_CHECKS])
        if not checks and not row.get("unverified"):
            known = row["checks"]  # where its own result cannot be read any more, the plan's has the figures
            told = f"{known['passed']} of {known['of']} checks passed" if known else "nothing was checked"
            yield f"{colour('UNVERIFIED', 'yellow')}  {name}: {told}"
    if len(rows) > _NODES:
        yield f"… {counted(len(rows) - _NODES, 'more node')}: overhand plan show {payload['handle']}"
    if payload["nodes"] and not rows:
        yield "no node began"


def _conflicts(payload: Payload) -> Iterator[str]:
    """Which node returned what, and whose value counts."""
    for one in payload["conflicts"][:_CONFLICTS]:
        said = ", ".join(f"{one_line(v['node'], 40)} says {_value(v['value'])}" for v in one["values"][:_CHECKS])
        said += f" and {len(one['values']) - _CHECKS} others" if len(one["values"]) > _CHECKS else ""
        taken = f"taken: {one_line(one['taken'], 40)}" if one["taken"] else "none taken"
        yield f"{printable(one['field'])}: {said} · {taken} ({one['rule']})"
    if len(payload["variants"]) > 1:
        for one in payload["variants"][:_CONFLICTS]:
            yield f"{one_line(', '.join(one['nodes']), 80)}: {_value(one['data'])}"
    if len(payload["conflicts"]) > _CONFLICTS:
        yield f"… {len(payload['conflicts']) - _CONFLICTS} more: overhand show {payload['handle']} --output"


def _value(value: object) -> str:
    import json

    return one_line(json.dumps(value, ensure_ascii=False), 60)


def _look_at_nodes(payload: Payload) -> Iterator[str]:
    tasks = [str(row["handle"]) for row in payload["nodes"] if row.get("handle")]
    if tasks:
        told = ", ".join(tasks[:5]) + (", …" if len(tasks) > 5 else "")
        yield f"what each node changed is in its own receipt: overhand show {tasks[0]} (tasks {told})"


_HEAD = ("task", "in", "out", "money", "with children", "of budget", "agent", "title")


def table(payload: Payload) -> Iterator[str]:
    """One line a task, children below their parent, then the sums; a column in which nothing stands is left out."""
    rows = [_HEAD, *map(_cells, payload["tasks"])]
    sizes = [max(least, *map(cells, column)) for least, column in zip(_LEAST, zip(*rows, strict=True), strict=True)]
    kept = [n for n, column in enumerate(zip(*rows[1:], strict=True)) if any(column)][:-1]
    room = max(20, width() - 2 - sum(sizes[n] + 2 for n in kept))
    for number, row in enumerate(rows):
        gaps = [" " * (size - cells(text)) for size, text in zip(sizes, row, strict=True)]
        shown = "".join(f"  {row[n]}{gaps[n]}" if n > _NUMBERS else f"  {gaps[n]}{row[n]}" for n in kept)
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
    spent = _about(row, row["input"]), _about(row, row["output"]), say_usd(row["usd"]) if row["usd"] else ""
    share = f"{row['used_of_budget']:.0%} of {row['budget']}" if row["budget"] else ""
    title = "  " * row["indent"] + one_line(row["title"], 200)
    return (handle, *spent, tree, share, one_line(row["agent"], 20), title)


def _used(usage: Payload) -> Iterator[str]:
    if not usage["runs"] and not usage["budget"] and not usage["tokens"]:
        return
    told = f"{_about(usage, usage['tokens'])} tokens ({_about(usage, usage['input'])} in, "
    told += f"{_about(usage, usage['output'])} out)"
    told += f" · {say_usd(usage['usd'])}" if usage["usd"] else ""
    told += f" · {usage['turns']} turns" if usage["turns"] else ""
    yield told
    if usage["budget"]:
        share, below = f"{usage['used_of_budget']:.0%} of the budget, {usage['budget']['text']}", usage["children"]
        if below["tokens"] or below["usd"]:
            held = f", held by {len(below['held'])} at work" if below["held"] else ""
            share += f"; of it {say_tokens(below['tokens'])} tokens, {say_usd(below['usd'])} by what it delegated{held}"
        yield share
    if len(usage["runs"]) > 1:
        for row in usage["runs"][-3:]:
            cost = f" · {say_usd(row['usd'])}" if row["usd"] else ""
            yield f"{row['id']}: {_about(row, row['tokens'])} tokens{cost}"
    yield from (f"reached: {key}" for key in usage["limits"][-4:])


def _about(row: Payload, tokens: int) -> str:
    return f"{'~' if row['estimated'] else ''}{say_tokens(tokens)}"


_PARTS = (("claimed", _claimed), ("checked", _checked), ("look at", _look_at), ("runs", _runs))
_OF_PLAN = (("checked", _checked_nodes), ("conflict", _conflicts), ("look at", _look_at_nodes), ("runs", _runs))
