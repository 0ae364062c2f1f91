"""What people read: each verb's answer as lines of text, and the words, colours and columns it is made of."""

from __future__ import annotations

import os
import sys

from overhand.words import SHOWN_VERIFICATIONS, say_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from overhand.verbs import Reply

    Payload = dict[str, Any]


def lines(verb: str, answer: Reply) -> Iterable[str]:
    payload = answer.payload
    if verb == "status":
        from overhand.cli import headline

        return headline.text(answer)
    if verb == "daemon" and answer.stream is not None:
        from overhand.cli.answers import daemon_line

        return (daemon_line(item) for item in answer.stream)
    if answer.stream is not None:
        demo = __import__("overhand.testing.demo", fromlist=["as_text"]) if verb == "demo" else None
        return (demo.as_text(item) if demo else _event(item) for item in answer.stream)
    if payload.get("later"):
        return ()  # a call that is yet to be carried out, as was said
    if payload.get("raw"):
        return _verbatim(verb, payload["text"])
    if verb == "show" or "headline" in payload or (verb in ("wait", "delegate", "run") and "tasks" in payload):
        from overhand.cli import receipt

        return list(receipt.whole(payload) if verb == "show" else receipt.brief(payload))
    if verb == "agents":
        from overhand.cli.agents import agents

        return list(agents(payload))
    if verb == "plan":
        from overhand.cli.plan import plan

        return list(plan(payload))
    if verb in _IN_ANSWERS or verb == "merge":
        from overhand.cli import answers, review

        return list(getattr(review if verb == "merge" else answers, verb)(payload))
    return list(_TEXTS.get(verb, _plain)(payload))


def _plain(payload: Payload) -> Iterator[str]:
    for name, value in payload.items():
        if name != "schema":
            yield f"{name}: {printable(value)}"


def _version(payload: Payload) -> Iterator[str]:
    yield f"overhand {payload['version']}"


def _delegate(payload: Payload) -> Iterator[str]:
    prepared = payload["state"] == "prepared"
    yield f"{colour(str(payload['handle']), 'bold')}  {printable(payload['title'])}"
    limits = f"in {payload['tree']} · level {payload['level']} · at most {say_duration(payload['timeout'])}"
    limits += f" · budget {printable(payload['budget'])}" if payload["budget"] else ""
    yield f"   {payload['agent']} · {'prepared, not started' if prepared else 'accepted'} · {limits}"
    if payload.get("may"):
        yield from folded(payload["may"], f"level {payload['level']}: it ")
    if payload.get("shield"):
        yield from folded(shield_line(payload["shield"]))
    if payload.get("reason"):
        yield from folded(printable(payload["reason"]), "waits: ")
    files = [printable(one["path"]) for one in payload["deliverables"] if "path" in one]
    if files:
        yield from folded(f"{', '.join(files)} (must be there and have changed)", "files: ")
    for one in payload["deliverables"]:
        if "text" in one:
            yield from folded(f"{one_line(one['text'], 200)} (a sentence, which is not checked)", "expects: ")
    if payload["checks"]:
        yield "   checks: " + "; ".join(printable(c["command"]) for c in payload["checks"])
    else:
        yield "   checks: none, so the result will read UNVERIFIED (add --verify CMD)"
    for warning in payload["warnings"]:
        yield from folded(printable(warning["message"]), "note: ")
    yield f"   {payload['folder']}"
    yield "   next: " + " · ".join(payload["next"])


def _run(payload: Payload) -> Iterator[str]:
    yield f"{colour(str(payload['handle']), 'bold')}  {printable(payload['title'])} · {payload['agent']} · accepted"
    yield "   next: " + " · ".join(payload["next"])


def _send(payload: Payload) -> Iterator[str]:
    yield f"{colour(str(payload['handle']), 'bold')}  {printable(payload['title'])} · message {payload['n']} recorded"
    yield from folded(printable(payload["message"]))
    if payload.get("reason"):
        yield from folded(printable(payload["reason"]), "waits: ")
    yield "   next: " + " · ".join(payload["next"])


def _list(payload: Payload) -> Iterator[str]:
    if payload.get("live"):
        yield from _live(payload)
        return
    if payload.get("resumable") and not payload["tasks"]:
        yield "Nothing ended short: there is nothing to resume."
    elif payload.get("prepared") and not payload["tasks"]:
        yield "Every workspace here has a record."
    elif not payload["tasks"]:
        yield 'No task yet. Make one: overhand delegate "what to do"'
    elif payload.get("cost"):
        from overhand.cli import receipt

        yield from receipt.table(payload)
        return
    room = width() - 34
    for row in payload["tasks"]:
        if row.get("node") and row["headline"] != "needs you" and not payload.get("resumable"):
            continue  # its plan's row stands for it
        handle = row["handle"] if row["handle"] is not None else "-"
        state = colour(f"{state_word(row):<22}", row_tone(row))
        whose = " · ".join(part for part in (row["agent"], of_plan(row)) if part)
        yield f"{handle:>5}  {state} {one_line(row['title'], room)}  {colour(whose, 'dim')}"
        if payload.get("prepared"):
            yield f"       overhand run {row['task_id']}"


def _live(payload: Payload) -> Iterator[str]:
    if not payload["tasks"]:
        yield "Nothing is running."
    for row in payload["tasks"]:
        run = f"{row['handle']:>5}  {row['session_id']}  {row['agent']:<14} {row['run_state']:<8}"
        when = f"{say_duration(row['age']):>7}  until {row['deadline'] or '-'}"
        yield f"{run} {when}  depth {row['depth']}  {' → '.join(row['path'])}"
        yield f"       {one_line(row['title'], width() - 8)}"


def _flat(value: object) -> str:
    """Lists, mappings and numbers as people write them."""
    if isinstance(value, float):
        return f"{value:.4f}".rstrip("0").rstrip(".")
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_flat(one)}" for key, one in value.items())
    return ", ".join(map(_flat, value)) if isinstance(value, list) else str(value)


_HIDDEN = {
    "e", "t", "mono", "boot", "by", "v", "schema", "task", "handoff", "result", "machine", "pidns", "control", "shield",
}  # fmt: skip


def _event(item: Payload) -> str:
    name = item.get("e", "")
    if name in ("stdout", "stderr"):
        return f"{'  | ' if name == 'stdout' else '  ! '}{printable(item['text'])}"
    if name in _SPOKEN:
        return _spoken(item)
    stamp = str(item.get("t", ""))[11:19]
    facts = " ".join(
        f"{key}={one_line(_flat(value), 80)}"
        for key, value in item.items()
        if key not in _HIDDEN
        and value not in (None, "", [], {})
        and (name == "usage" or key != "output")
        and (name != "usage" or value or key in ("input", "output"))
    )
    by = item.get("by", {})
    author = by.get("run") or by.get("user") or by.get("kind") or ""
    return f"{stamp}  {name:<12} {facts}  {colour(f'({author})', 'dim')}"


_SPOKEN = {"said": "  ", "did": "* ", "denied": "x not allowed: ", "failed": "! ", "noted": "! "}


def _spoken(item: Payload) -> str:
    """What a coding agent said or did, below the event that began its run; the tool first, then what for."""
    mark = _SPOKEN[item["e"]]
    if item["e"] == "said":
        return "\n".join(f"    {mark}{line}" for line in printable(item["text"]).strip().splitlines())
    tool = f"{one_line(item['tool'], 40)} " if item.get("tool") else ""
    return f"    {colour(f'{mark}{tool}', 'dim')}{one_line(item['text'], max(40, width() - 6 - len(mark + tool)))}"


def _stop(payload: Payload) -> Iterator[str]:
    if not payload["tasks"]:
        yield "Nothing is queued or at work."
    for row in payload["tasks"]:
        what = {
            "queued": "taken out of the queue",
            "waiting": "it waits no longer for what it delegated",
            "asked": "stopped",
            "leftovers ended": "its leftover processes were ended",
        }
        name = row["handle"] or row["task_id"]
        if pids := row.get("left"):
            yield f"{name}  not stopped: processes could not be ended: {', '.join(map(str, pids))}"
            yield f"   End them as root or as the user they belong to: kill -KILL {' '.join(map(str, pids))}"
        elif row.get("problem"):
            yield f"{name}  its processes were ended"
        else:
            yield f"{name}  {what.get(row['was'], 'nothing ran')} · {row['status'] or 'not started'}"
        if row.get("problem"):
            yield f"   This could not be recorded: {printable(row['problem'])}"


def _check(payload: Payload) -> Iterator[str]:
    from overhand.cli.receipt import how_checked

    if "file" not in payload:
        word, was = payload["verification"], payload["before"]
        changed = f" (before: {SHOWN_VERIFICATIONS[was]})" if was != word else ""
        yield f"{payload['handle']}  {colour(SHOWN_VERIFICATIONS[word], VERIFICATION_TONES[word])}{changed}"
        yield from (f"   {printable(doubt)}" for doubt in payload["doubts"])
        for check in payload["checks"]:
            mark = "passed" if check["passed"] else "FAILED"
            yield f"   {mark}  {printable(check['command'])} · {how_checked(check)}"
            yield from (f"           | {line}" for line in printable(check.get("why", "")).splitlines())
        return
    from overhand.cli.plan import check as check_document

    yield from check_document(payload)


def _step(payload: Payload) -> Iterator[str]:
    if "phase" in payload:
        before = f"{payload['from']} → " if payload["from"] else ""
        yield f"{before}{colour(payload['phase'], 'bold')} · iteration {payload['iteration']}"
        yield from (f"   note: {warning}" for warning in payload["warnings"])
        if payload["checkpoint"]:
            yield f"   saved: {payload['checkpoint']}"
        yield f"   next: {', '.join(payload['next'])}" if payload["next"] else "   that is the end"
        return
    rows = payload.get("steps", [payload["step"]] if "step" in payload else [])
    for row in rows:
        text = one_line(row["text"], width() - 8)
        more = [f"(IPC: {row['question']})"] if "question" in row else []
        more += [f"— {one_line(row['error'], width())}"] if "error" in row else []
        yield " ".join([f"{row['n']:>3} [{row['marker']}] {text}", *more])
    done, total = payload["progress"]["done"], payload["progress"]["total"]
    yield f"{done} of {total} done" if total else "The HANDOFF.md has no steps under `## Plan`."


def _clean(payload: Payload) -> Iterator[str]:
    verb = "would be removed" if payload["dry_run"] else "removed"
    if "projects" in payload:
        for row in payload["projects"]:
            yield f"{verb}  {printable(row['project'])}"
        if not payload["projects"]:
            yield "Every project that has a record is still there."
        return
    for row in payload["tasks"]:
        if payload["dry_run"] or row["task_id"] in payload["removed"]:
            yield f"{verb}  {row['handle']}  {one_line(row['title'], 60)} ({row['status']})"
    count = len(payload["tasks"] if payload["dry_run"] else payload["removed"])
    yield f"{count} {verb}; finished and kept: {payload['kept']}"


def _trust(payload: Payload) -> Iterator[str]:
    from overhand.verbs import in_groups

    for row in in_groups(payload["trusted"]):
        yield f"trusted  {printable(row['file'])}"
        yield from (f"           {printable(line)}" for line in row["runs"])
    for name in payload["refused"]:
        yield f"REFUSED  {printable(name)} is a link or no regular file"
    if not payload["trusted"] and not payload["refused"]:
        nothing = "There is nothing to trust: no agents, checks or settings."
        yield "Everything is trusted already." if payload["all"] else nothing


def _init(payload: Payload) -> Iterator[str]:
    yield f"{payload['project']} is an Overhand project."
    for name in payload["wrote"]:
        yield f"  wrote {name}"
    for name, command in payload["proposed"].items():
        yield f"  proposed check {name}: {command} (commented out in .overhand/config.toml; switch it on there)"
    yield "  next: " + " · ".join(payload["next"])


def _projects(payload: Payload) -> Iterator[str]:
    if not payload["projects"]:
        yield "No project has a record yet. The first task in a folder makes it one."
    for row in payload["projects"]:
        gone = colour("  gone: overhand clean --gone", "yellow") if row["gone"] else ""
        yield f"{printable(row['project'])}{gone}"
        yield colour(f"  {printable(row['record'])}  {row['bytes'] / 1e6:.1f} MB", "dim")


# verbs whose text is a function of their own name in another module of this package
_IN_ANSWERS = (
    "log", "ask", "answer", "checkpoint", "connect", "finish", "monitor", "alert", "doctor", "tag", "item", "daemon",
    "dismiss",
)  # fmt: skip
_TEXTS: dict[str, Callable[[Any], Iterator[str]]] = {
    "version": _version, "delegate": _delegate, "run": _run, "resume": _run, "send": _send, "list": _list,
    "stop": _stop, "check": _check, "step": _step, "clean": _clean, "trust": _trust, "init": _init,
    "projects": _projects,
}  # fmt: skip


_COLOURS = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36", "bold": "1", "dim": "2"}

# of the groups that people see
TONES = {"needs you": "yellow", "working": "blue", "queued": "dim", "ready": "bold", "failed": "red", "done": "dim"}
VERIFICATION_TONES = {"failing": "red", "none": "yellow", "passing": "yellow", "proved": "green"}


def colour(text: str, tone: str) -> str:
    """Coloured on a terminal, unless NO_COLOR is set."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{_COLOURS[tone]}m{text}\x1b[0m"


# C0 (but tab and newline), DEL, C1, and the marks that turn the direction of writing
_UNSEEN = {*range(32), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_SEEN = dict.fromkeys(_UNSEEN - {9, 10}, "\ufffd")


def printable(text: object) -> str:
    """Without control characters: what an agent wrote must not drive the terminal."""
    return str(text).replace("\r\n", "\n").translate(_SEEN)


def _verbatim(verb: str, text: str) -> list[str]:
    """What a verb has to say as it stands; what is not found takes no line."""
    shown = printable(text).rstrip("\n")
    return [shown] if shown or verb != "tag" else []


def one_line(text: object, width: int) -> str:
    """Printable, in one line, cut to this many characters."""
    flat = " ".join(printable(text).split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def counted(count: int, what: str) -> str:
    """`1 node`, `2 nodes`, `3 retries`, `2 edges between different agents`."""
    first, blank, rest = what.partition(" between")
    several = f"{first[:-1]}ies" if first.endswith("try") else f"{first}s"
    return f"{count} {first if count == 1 else several}{blank}{rest}"


def terminal(fd: int, columns: int = 80) -> os.terminal_size:
    """Its size; where there is none, 24 lines of so many columns."""
    try:
        return os.get_terminal_size(fd)
    except OSError:
        return os.terminal_size((columns, 24))


def width() -> int:
    return max(60, min(120, terminal(1, 100).columns))


def folded(text: str, lead: str = "", begin: int = 3) -> list[str]:
    """A line, broken to the width of a terminal: each further one begins below the words behind the lead."""
    room = width() - begin - len(lead)
    if not sys.stdout.isatty() or "\x1b" in text:
        return [f"{' ' * begin}{lead}{text}"]

    rows = wrap(text, room, 50) or [""]
    return [f"{' ' * begin}{lead if number == 0 else ' ' * len(lead)}{row}" for number, row in enumerate(rows)]


def shield_line(facts: Payload) -> str:
    """What holds and what stays open, or why nothing holds."""
    if not facts["held"]:
        instead = f"; {facts['instead']}" if facts.get("instead") else ""
        return printable(f"not shielded: {facts['why']}{instead}")
    root = ", as root: against mistakes only" if facts["root"] else ""
    walls = f"; read-only: {', '.join(facts['read_only'])}" if facts["read_only"] else ""
    return printable(f"shielded{root}{walls}; open: {', '.join(facts['open'])}")


def of_plan(row: dict[str, Any]) -> str:
    """Which node of which plan a task is, if it is one."""
    return f"node {one_line(row['node'], 60)} of plan {row['plan_handle'] or row['plan']}" if row.get("node") else ""


def row_tone(row: dict[str, Any]) -> str:
    """The colour of a task's row: only what is verified is green."""
    if row["status"] in ("completed", "partial") and row["headline"] != "done":
        return VERIFICATION_TONES[row["verification"]]
    return TONES[row["headline"]]


def state_word(row: dict[str, Any]) -> str:
    """Status where there is one, else what is happening."""
    if row["status"] == "completed":
        return f"completed {SHOWN_VERIFICATIONS[row['verification']]}"
    if row["status"]:
        return str(row["status"])
    if row["run_state"] == "queued":
        if row.get("after"):
            return f"queued after {row['after_handle'] or row['after']}"
        if row.get("paused"):
            return f"{row['paused']} paused (limit)"
        if row.get("behind"):
            return f"queued behind {row['behind']}"
        if row.get("reason"):
            return "queued: no budget"
        return f"queued #{row['position']}" if row.get("position") else "queued"
    if row["run_state"] == "ended":
        return "being checked"
    return row["run_state"] or "prepared"


_JOINER, _EMOJI_STYLE = "\u200d", "\ufe0f"
_SKIN = range(0x1F3FB, 0x1F400)


def cells(text: str) -> int:
    return len(text) if text.isascii() else sum(_widths(text))


def _widths(text: str) -> Iterator[int]:
    """The width of each character; what is joined to the one before it takes no room of its own."""
    from unicodedata import category, east_asian_width

    before, last = "", 0
    for char in text:
        if before == _JOINER or ord(char) in _SKIN or category(char) in ("Mn", "Me", "Cf"):
            width = 1 if char == _EMOJI_STYLE and last == 1 else 0
        else:
            width = last = 2 if east_asian_width(char) in "WF" else 1
        before = char
        yield width


def cut(text: str, most: int) -> str:
    """At most this many columns; what is missing is shown by an ellipsis."""
    if cells(text) <= most:
        return text
    if most < 1:
        return ""
    return _beginning(text, most - 1) + "…"


def _beginning(text: str, most: int) -> str:
    """As much as goes into so many columns."""
    for number, width in enumerate(_widths(text)):
        most -= width
        if most < 0:
            return text[:number].rstrip()
    return text


def pad(text: str, width: int) -> str:
    text = cut(text, width)
    return text + " " * (width - cells(text))


def wrap(text: str, width: int, most: int) -> list[str]:
    """At most so many lines, broken between words where there are any."""
    lines: list[str] = []
    rest = text
    while rest and len(lines) < most - 1 and cells(rest) > width:
        head = _beginning(rest, width)
        if not rest[len(head) :].startswith(" ") and " " in head.strip():
            head = head[: head.rindex(" ")]
        if not head:
            break  # not even one character fits
        lines.append(head.rstrip())
        rest = rest[len(head) :].lstrip()
    return [*lines, cut(rest, width)] if rest else lines
