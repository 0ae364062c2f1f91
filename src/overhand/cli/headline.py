"""The headline screen as text: groups in the order of their urgency, and beside each task the command to type."""

from __future__ import annotations

import os
import sys

from overhand.cli.text import TONES, cells, colour, cut, of_plan, one_line, pad, printable, row_tone, state_word, wrap
from overhand.words import HEADLINES, say_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from overhand.verbs import Reply

    Payload = dict[str, Any]
    Row = dict[str, Any]

_MOST = {"needs you": 50, "failed": 5, "working": 50, "queued": 10, "ready": 10, "done": 5}
_QUIET = 30.0  # seconds without a sign of life that are worth showing
_TITLE = 20  # columns that a title has at least
_LONG = 2000  # characters of any text that are looked at


def columns() -> int:
    """The terminal's width; without one, COLUMNS or 80."""
    try:
        found = os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        given = os.environ.get("COLUMNS", "")
        found = int(given) if given.isascii() and given.isdigit() and len(given) < 5 else 80
    return max(40, min(200, found or 80))


def text(answer: Reply) -> Iterator[str]:
    """The screen once, or again after each change, with an empty line behind it."""
    if answer.stream is None:
        yield from screen(answer.payload)
        return
    for payload in answer.stream:
        yield from screen(payload)
        yield ""


def screen(payload: Payload, width: int | None = None) -> Iterator[str]:
    """The whole screen, no line wider than the terminal."""
    width = width or columns()
    if "projects" in payload:
        yield from _projects(payload["projects"], width)
    elif not (payload["tasks"] or payload["items"] or payload["prepared"]):
        yield "No task yet in this project."
        yield '  overhand delegate "what to do" --agent NAME      hand something over'
        yield "  overhand agents                                  who is there to do it"
        yield "  overhand demo                                    see it work in a minute"
    else:
        yield from _groups(payload, width, "")


def _groups(payload: Payload, width: int, where: str) -> Iterator[str]:
    """One project; `where` leads a command to it."""
    if payload["items"]:
        yield colour(f"waits for approval ({len(payload['items'])})", "bold")
    for row in payload["items"][: _MOST["needs you"]]:
        yield from _first({"handle": None, "title": row["item"]}, width, _command(row, where))
        yield f"       {colour(cut(one_line(row['why'] or '', _LONG), width - 7), TONES['needs you'])}"
    for name in HEADLINES:
        count = payload["counts"][name]
        rows = payload["groups"][name][-_MOST[name] :]
        if not count:
            continue
        yield colour(f"{name} ({count})", "bold")
        if count > len(rows):
            yield colour(cut(f"       … {count - len(rows)} more: overhand{where} list", width), "dim")
        if name in ("needs you", "working"):
            for row in rows:
                yield from _live(row, width, where, TONES[name])
        else:
            yield from _resting(rows, width, where)
    if count := payload["prepared"]:
        some = "1 prepared folder" if count == 1 else f"{count} prepared folders"
        yield colour(cut(f"{some}: overhand{where} list --prepared", width), "dim")


def _first(row: Row, width: int, command: str, middle: str = "", taken: int = 0, right: int = 0) -> Iterator[str]:
    """Handle, title, what is in the middle (so many columns), and the command; a long one has a line of its own."""
    handle = str(row["handle"]) if row["handle"] is not None else "-"
    beside = cells(command) <= width // 2
    right = max(right, cells(command)) if beside else right
    title = pad(one_line(row["title"], _LONG), width - 7 - taken - (right + 2 if right else 0))
    end = " " * (right - cells(command) + 2) + colour(command, "dim") if beside else ""
    yield f"{handle:>5}  {title}{middle}{end}"
    if not beside:
        yield colour(f"{cut(command, width - 7):>{width}}", "dim")


def _command(row: Row, where: str) -> str:
    return printable(row["command"]).replace("overhand", f"overhand{where}", 1)


def _live(row: Row, width: int, where: str, tone: str) -> Iterator[str]:
    """What needs a person or is at work: what is known of it, and its step or question."""
    yield from _first(row, width, _command(row, where))
    agent, state = cut(one_line(row["agent"], _LONG), 20), _state(row)
    done = row["progress"]
    steps = f"{done['done']}/{done['total']}" if done else ""
    quiet = f"quiet {_brief(row['sign'])}" if row["sign"] is not None and row["sign"] > _QUIET else ""
    known = (of_plan(row), steps, _age(row), _left(row), _cost(row), quiet)
    facts = "".join(f" · {fact}" for fact in known if fact)
    room = width - 10 - cells(agent + state)
    step = "" if row["question"] else one_line(row["step"] or "", _LONG)
    beside = step and cells(facts) + _TITLE + 3 <= room
    yield f"       {agent} · {colour(state, tone)}{cut(facts + (f' · {step}' if beside else ''), room)}"
    if step and not beside:
        yield f"       {cut(step, width - 7)}"
    if row["question"]:
        yield from _question(row, width)
    elif row["headline"] == "needs you" and row["summary"]:
        yield from (f"       {line}" for line in wrap(one_line(row["summary"], _LONG), width - 7, 2))
    if row.get("notice"):
        yield f"       {cut(one_line(row['notice'], _LONG), width - 7)}"


def _question(row: Row, width: int) -> Iterator[str]:
    first = row["question"]
    more = f" (and {row['questions'] - 1} more)" if row["questions"] > 1 else ""
    lines = wrap(one_line(first["question"], _LONG) + more, width - 9, 3)
    for number, line in enumerate(lines):
        yield f"       {colour('?', 'yellow') if number == 0 else ' '} {line}"
    if first["options"]:
        options = " / ".join(one_line(option, _LONG) for option in first["options"])
        yield from (f"         {line}" for line in wrap(options, width - 9, 2))


def _resting(rows: list[Row], width: int, where: str) -> Iterator[str]:
    """Queued or over: a line each, in columns; on a narrow screen the last ones are left out."""
    commands = [_command(row, where) for row in rows]
    right = max((size for size in map(cells, commands) if size <= width // 2), default=0)
    room = width - 9 - right - _TITLE
    facts = [(_state(row), cut(one_line(row["agent"], _LONG), 12), _age(row), _cost(row, width >= 100)) for row in rows]
    sizes = []
    for column in zip(*facts, strict=True):
        size = max(map(cells, column))
        sizes.append(size if size + 2 <= room else 0)
        room -= sizes[-1] + 2 if sizes[-1] else 0
    taken = sum(size + 2 for size in sizes if size)
    for row, command, texts in zip(rows, commands, facts, strict=True):
        shown = [pad(text, size) for text, size in zip(texts, sizes, strict=True) if size]
        shown[:1] = [colour(text, row_tone(row)) for text in shown[:1]]
        middle = "".join(f"  {text}" for text in shown)
        yield from _first(row, width, command, middle, taken, right)
        if row["headline"] == "failed" and (why := row["why"] or row["summary"]):
            yield f"       {cut(one_line(why, _LONG), width - 7)}"
        if row.get("notice"):
            yield f"       {cut(one_line(row['notice'], _LONG), width - 7)}"


def _state(row: Row) -> str:
    """In the shortest words: of a completed task the group says the rest."""
    word = one_line(state_word(row), _LONG)
    return cut(word.removeprefix("completed ").removeprefix("queued ") or word, 22)


def _brief(seconds: float) -> str:
    """The largest unit only."""
    return say_duration(seconds // 1).partition(" ")[0]


def _age(row: Row) -> str:
    return _brief(row["age"]) if row["age"] is not None else ""


def _left(row: Row) -> str:
    """How long a run may still take."""
    if row["deadline"] is None:
        return ""
    import time

    from overhand.system import epoch_of

    seconds = epoch_of(row["deadline"]) - time.time()
    if seconds <= 0:
        return "over time"
    return f"{say_duration(seconds // 60 * 60 if seconds >= 60 else seconds // 1)} left"


def _cost(row: Row, whole: bool = True) -> str:
    """Tokens and money, or only the money if that is known; an estimate is marked as one."""
    used = row["usage"]
    if used is None:
        return ""
    tokens = used["tokens"]
    size = next((f"{tokens / unit:.{int(tokens < 10 * unit)}f}{name}" for unit, name in _SIZES if tokens >= unit), None)
    mark = "~" if used["estimated"] else ""
    money = f"{mark}${used['usd']:.2f}" if used["usd"] else ""
    return f"{mark}{size or tokens} tok {money}".strip() if whole or not money else money


_SIZES = ((1_000_000_000, "G"), (1_000_000, "M"), (1000, "k"))


def _projects(projects: list[Payload], width: int) -> Iterator[str]:
    """Every project: those in which nothing happens in one line each."""
    home = os.path.expanduser("~")
    if not projects:
        yield "No project yet. In the folder of one: overhand init"
    for number, project in enumerate(projects):
        path = project["project"]
        if len(home) > 1 and f"{path}/".startswith(f"{home}/"):
            path = f"~{path[len(home) :]}"
        path = one_line(path, _LONG)
        if "error" in project:
            yield colour(cut(path, width), "bold")
            yield cut(f"       {one_line(project['error']['message'], _LONG)}", width)
            continue
        counts = project["counts"]
        some = " · ".join(f"{counts[name]} {name}" for name in HEADLINES if counts[name]) or "no task yet"
        if not any(counts[name] for name in ("needs you", "working", "queued")):
            path = cut(path, max(16, width - cells(some) - 2))
            yield f"{colour(path, 'bold')}  {cut(some, width - cells(path) - 2)}"
            continue
        if number:
            yield ""
        yield colour(cut(path, width), "bold")
        import shlex

        word = f"~/{shlex.quote(path[2:])}" if path.startswith("~/") else shlex.quote(path)  # no quotes around the ~
        yield from _groups(project, width, f" -C {word}")
