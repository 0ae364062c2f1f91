"""What people read: each verb's answer as lines of text. Pure, except for asking whether this is a terminal."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from overhand.verbs import Answer

    Payload = dict[str, Any]

_COLOURS = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "bold": "1", "dim": "2"}
_TONES = {"needs you": "yellow", "working": "blue", "queued": "dim", "ready": "green", "stopped": "red", "done": "dim"}


def lines(verb: str, answer: Answer) -> Iterable[str]:
    """The answer as text."""
    payload = answer.payload
    if answer.stream is not None:
        return (_event(item) for item in answer.stream)
    if payload.get("raw"):
        return [str(payload["text"]).rstrip("\n")]
    if verb in ("show", "wait") or (verb in ("delegate", "run") and "headline" in payload) or "tasks" in payload and verb == "delegate":
        if "tasks" in payload:
            return [line for one in payload["tasks"] for line in (*_brief(one), "")]
        return list(_task(payload) if verb == "show" else _brief(payload))
    return list(_TEXTS.get(verb, _plain)(payload))


def colour(text: str, tone: str) -> str:
    """Only on a terminal, and only if nobody objects."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{_COLOURS[tone]}m{text}\x1b[0m"


def printable(text: object) -> str:
    """Without control characters: what an agent wrote must not drive the terminal."""
    return "".join(c if c in "\n\t" or (c >= " " and not "\x7f" <= c <= "\x9f") else "\ufffd" for c in str(text))


def one_line(text: object, width: int) -> str:
    """Printable, in one line, cut to this many characters."""
    flat = " ".join(printable(text).split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def width() -> int:
    """Columns to write in."""
    try:
        return max(60, min(120, os.get_terminal_size(1).columns))
    except OSError:
        return 100


def _plain(payload: Payload) -> Iterator[str]:
    for name, value in payload.items():
        if name != "schema":
            yield f"{name}: {printable(value)}"


def _version(payload: Payload) -> Iterator[str]:
    yield f"overhand {payload['version']}"


def _delegate(payload: Payload) -> Iterator[str]:
    prepared = payload["state"] == "prepared"
    yield f"{colour(str(payload['handle']), 'bold')}  {printable(payload['title'])}"
    yield f"   {payload['agent']} · {'prepared, not started' if prepared else 'accepted'} · in {payload['tree']} · level {payload['level']} · at most {_time(payload['timeout'])}"
    if payload["checks"]:
        yield "   checks: " + "; ".join(printable(c["command"]) for c in payload["checks"])
    else:
        yield f"   checks: none, so the result will read UNVERIFIED (add --verify CMD)"
    for warning in payload["warnings"]:
        yield f"   note: {printable(warning['message'])}"
    yield f"   {payload['folder']}"
    yield "   next: " + " · ".join(payload["next"])


def _run(payload: Payload) -> Iterator[str]:
    yield f"{colour(str(payload['handle']), 'bold')}  {printable(payload['title'])} · {payload['agent']} · accepted"
    yield "   next: " + " · ".join(payload["next"])


def _time(seconds: float) -> str:
    from overhand.model import say_duration

    return say_duration(seconds)


def _list(payload: Payload) -> Iterator[str]:
    if payload.get("live"):
        yield from _live(payload)
        return
    if not payload["tasks"]:
        yield 'No task yet. Make one: overhand delegate "what to do"'
    for row in payload["tasks"]:
        yield _row(row)


def _row(row: Payload) -> str:
    handle = row["handle"] if row["handle"] is not None else "-"
    word = _state_word(row)
    room = width() - 34
    return f"{handle:>5}  {colour(f'{word:<22}', _TONES[row['headline']])} {one_line(row['title'], room)}  {colour(row['agent'], 'dim')}"


def _state_word(row: Payload) -> str:
    """Status where there is one, else what is happening."""
    if row["status"] == "completed":
        mark = {"all": "verified", "some": "partly verified", "none": "UNVERIFIED"}[row["verified"]]
        return f"completed {mark}"
    if row["status"]:
        return str(row["status"])
    if row["run_state"] == "queued":
        if row.get("after"):
            return f"queued after {row['after'][-8:]}"
        return f"queued #{row['position']}" if row.get("position") else "queued"
    if row["run_state"] == "ended":
        return "being checked"
    return row["run_state"] or "prepared"


def _live(payload: Payload) -> Iterator[str]:
    if not payload["tasks"]:
        yield "Nothing is running."
    for row in payload["tasks"]:
        path = " → ".join(row["path"])
        yield f"{row['handle']:>5}  {row['session_id']}  {row['agent']:<14} {row['run_state']:<8} {_time(row['age']):>7}  depth {row['depth']}  until {row['deadline'] or '-'}  {path}"
        yield f"       {one_line(row['title'], width() - 8)}"


_NEXT = {
    "needs you": "overhand show {handle}",
    "working": "overhand log -f {handle}",
    "queued": "overhand show {handle}",
    "ready": "overhand show {handle}",
    "stopped": "overhand show {handle}",
    "done": "overhand show {handle}",
}


def _status(payload: Payload) -> Iterator[str]:
    from overhand.model import HEADLINES

    if not payload["tasks"]:
        yield "No task yet in this project."
        yield '  overhand delegate "what to do" --agent NAME      hand something over'
        yield "  overhand agents                                  who is there to do it"
        yield "  overhand demo                                    see it work in a minute"
        return
    for headline in HEADLINES:
        rows = payload["groups"][headline]
        if not rows:
            continue
        shown = rows if headline in ("needs you", "working") else rows[-10:]
        yield colour(f"{headline} ({len(rows)})", "bold")
        if len(shown) < len(rows):
            yield f"       … {len(rows) - len(shown)} more: overhand list"
        for row in shown:
            handle = row["handle"] if row["handle"] is not None else "-"
            age = _time(row["age"]) if "age" in row else ""
            left = f"{handle:>5}  {one_line(row['title'], 34):<34} {row['agent'][:12]:<12} {_state_word(row)[:22]} {age}"
            yield f"{left:<{width() - 24}}{colour(_NEXT[headline].format(handle=handle), 'dim')}"
            if row.get("notice"):
                yield f"       {one_line(row['notice'], width() - 8)}"


def verdict(payload: Payload) -> str:
    """The judged status, as loud when unverified as when verified."""
    status = payload["status"]
    if status is None:
        return _state_word(payload)
    if status != "completed":
        return colour(status.upper(), "red" if status in ("failed", "rejected") else "yellow")
    if payload["verified"] == "all":
        return colour("COMPLETED · VERIFIED", "green")
    if payload["verified"] == "some":
        return colour("COMPLETED · PARTLY VERIFIED", "yellow")
    return colour("COMPLETED · UNVERIFIED", "yellow")


def _brief(payload: Payload) -> Iterator[str]:
    yield f"{payload['handle']}  {printable(payload['title'])}"
    yield f"   {verdict(payload)}"
    if payload["summary"]:
        yield f"   {printable(payload['summary'])}"
    for problem in payload["problems"]:
        if problem["level"] == "error":
            yield f"   ! {printable(problem['message'])}"
    if payload.get("output"):
        yield f"   {payload['output']}"
    yield f"   receipt: overhand show {payload['handle']}"


def _task(payload: Payload) -> Iterator[str]:
    """The whole receipt."""
    yield f"{colour(str(payload['handle'] or '-'), 'bold')}  {colour(printable(payload['title']), 'bold')}"
    yield f"   {verdict(payload)}   {colour(payload['headline'], 'dim')}"
    yield f"   {payload['agent']} · {' → '.join(payload['path'])} · level {payload['level']} · at most {_time(payload['timeout'])}"
    if payload["summary"]:
        yield ""
        yield from (f"   {line}" for line in printable(payload["summary"]).splitlines())
    if payload["status"] is not None:
        yield ""
        for name, part in (("claimed", _claimed), ("checked", _checked), ("look at", _look_at), ("runs", _runs)):
            yield from _block(name, part(payload))
    elif payload["wanted_checks"]:
        yield from _block("will check", [printable(c["command"]) for c in payload["wanted_checks"]])
    if payload["for_primary"]:
        yield from _block("for you", printable(payload["for_primary"]).splitlines())
    for notice in payload["notices"]:
        yield from _block("notice", [printable(notice)])
    yield from _block("files", [path for path in (payload.get("output"), payload.get("context"), payload["folder"]) if path])
    yield from _block("next", _what_next(payload))


def _block(name: str, rows: Iterable[str]) -> Iterator[str]:
    for number, row in enumerate(rows):
        yield f" {name if number == 0 else '':>10}  {row}"


def _claimed(payload: Payload) -> Iterator[str]:
    if payload["claimed"]:
        yield f"{payload['claimed']}, in {payload['source']}"
    else:
        yield "nothing that could be read"
    for decision in payload["decisions"]:
        yield f"decided: {one_line(decision['what'], 60)}: {one_line(decision['why'], 100)}"


def _checked(payload: Payload) -> Iterator[str]:
    if not payload["checks"]:
        yield colour("UNVERIFIED: no check was run", "yellow") + " (add --verify CMD, or [checks] in .overhand/config.toml)"
    for check in payload["checks"]:
        mark = colour("passed", "green") if check["passed"] else colour("FAILED", "red")
        code = "timed out" if check["timed_out"] else f"exit {check['exit']}"
        yield f"{mark}  {printable(check['command'])} · {code} · {_change(check)} · {check['seconds']}s in {payload['tree']} · {check['evidence']}"
    for item in payload["deliverables"]:
        if "path" in item:
            mark = colour("there", "green") if item["holds"] else colour("NOT", "red")
            yield f"{mark:<7} {item['path']} ({item['state']})"
        else:
            yield f"unverified  {one_line(item['text'], 90)}"
    for problem in payload["problems"]:
        tone = "red" if problem["level"] == "error" else "yellow"
        yield f"{colour(problem['level'], tone)}  {printable(problem['message'])}"


def _change(check: Payload) -> str:
    if check["before"] is None:
        return "not run before"
    before = "green" if check["before"] == 0 else "red"
    if check["already_red"]:
        return "already red before → still red"
    return f"{before} before → {'green' if check['passed'] else 'red'} after"


def _look_at(payload: Payload) -> Iterator[str]:
    look = payload.get("look_at") or {}
    if look.get("changed") is None:
        yield "worked in your checkout; git cannot tell here which files changed"
    elif not look.get("alone"):
        yield f"worked in your checkout beside other runs; changed meanwhile: {one_line(', '.join(look['changed']) or 'nothing', 200)}"
    else:
        yield f"worked in your checkout; changed: {one_line(', '.join(look['changed']) or 'nothing', 200)}"
    if look.get("sensitive"):
        yield colour(f"tests, checks, CI or settings changed: {one_line(', '.join(look['sensitive']), 200)}", "yellow")
    if look.get("leftovers"):
        pids = ", ".join(map(str, look["leftovers"]))
        yield colour(f"processes were left behind: {pids} (overhand stop {payload['handle']} ends them)", "yellow")


def _runs(payload: Payload) -> Iterator[str]:
    repairs = payload.get("repairs") or 0
    yield f"{len(payload['runs'])} run(s), {repairs} repair(s)"
    for run in payload["runs"][-3:]:
        code = "" if run["exit"] is None else f", exit {run['exit']}"
        yield f"{run['id']} · {run['agent']} · {run['cause'] or run['state']}{code} · {run['status'] or 'not judged'}"


def _what_next(payload: Payload) -> list[str]:
    handle = payload["handle"] if payload["handle"] is not None else payload["task_id"]
    if payload["status"] is None:
        if payload["run_state"] is None:
            return [f"overhand run {handle}"]
        return [f"overhand log -f {handle} · overhand wait {handle} · overhand stop {handle}"]
    if payload["status"] == "completed":
        return [f"overhand show {handle} --output" + (f" · overhand check {handle}" if payload["checks"] else "")]
    return [f"overhand log {handle} -o · overhand run {handle}"]


def _event(item: Payload) -> str:
    """One event in one line."""
    name = item.get("e", "")
    if name in ("stdout", "stderr"):
        return f"{'  | ' if name == 'stdout' else '  ! '}{printable(item['text'])}"
    stamp = str(item.get("t", ""))[11:19]
    skip = ("e", "t", "mono", "boot", "by", "v", "schema", "task", "handoff", "output", "result", "machine", "pidns")
    facts = " ".join(f"{key}={one_line(value, 80)}" for key, value in item.items() if key not in skip and value not in (None, [], {}))
    by = item.get("by", {})
    return f"{stamp}  {name:<12} {facts}  {colour('(' + str(by.get('run') or by.get('user') or by.get('kind') or '') + ')', 'dim')}"


def _stop(payload: Payload) -> Iterator[str]:
    if not payload["tasks"]:
        yield "Nothing is queued or at work."
    for row in payload["tasks"]:
        what = {"queued": "taken out of the queue", "asked": "stopped", "leftovers ended": "its leftover processes were ended"}
        yield f"{row['handle']}  {what.get(row['was'], 'nothing ran')} · {row['status']}"


def _check(payload: Payload) -> Iterator[str]:
    if "file" not in payload:
        yield f"{payload['handle']}  {'VERIFIED' if payload['verified'] == 'all' else 'NOT VERIFIED'}"
        for check in payload["checks"]:
            yield f"   {'passed' if check['passed'] else 'FAILED'}  {printable(check['command'])} · exit {check['exit']} · {_change(check)} · {check['evidence']}"
        return
    for problem in payload["problems"]:
        place = f"{payload['file']}:{problem['line']}" if problem.get("line") else payload["file"]
        fix = f" ({printable(problem['fix'])})" if problem.get("fix") else ""
        yield f"{place}: {problem['level']}: {printable(problem['message'])} [{problem['code']}]{fix}"
    yield f"{payload['file']}: {payload['document']}, {payload['errors']} errors, {payload['warnings']} warnings"


def _clean(payload: Payload) -> Iterator[str]:
    verb = "would remove" if payload["dry_run"] else "removed"
    for row in payload["tasks"]:
        if payload["dry_run"] or row["task_id"] in payload["removed"]:
            yield f"{verb}  {row['handle']}  {one_line(row['title'], 60)} ({row['status']})"
    yield f"{len(payload['tasks']) if payload['dry_run'] else len(payload['removed'])} {verb}, {payload['kept']} finished ones stay"


def _agents(payload: Payload) -> Iterator[str]:
    for row in payload["agents"]:
        trusted = "" if row["trusted"] or row["problem"] else colour("  not trusted yet: overhand trust", "yellow")
        star = "*" if row["default"] else " "
        yield f"{star} {row['name']:<16} {row['driver'] or '?':<10} {one_line(row['description'], 50)}  {colour(row['source'], 'dim')}{trusted}"
        if row["problem"]:
            yield colour(f"    {printable(row['problem'])}", "red")
        for warning in row["warnings"]:
            yield f"    note: {printable(warning)}"
    if not payload["agents"]:
        yield "No agent yet. An agent is a file .overhand/agents/NAME.md; this prints one to start from:"
        yield "  overhand agents --example"
    if payload["programs"]:
        yield "Found on your PATH: " + ", ".join(payload["programs"])


def _trust(payload: Payload) -> Iterator[str]:
    for row in payload["trusted"]:
        yield f"trusted  {row['file']}"
        yield from (f"           {printable(line)}" for line in row["runs"])
    for name in payload["refused"]:
        yield f"REFUSED  {name} is a symbolic link"
    if not payload["trusted"] and not payload["refused"]:
        yield "Everything is trusted already." if payload["all"] else "There is nothing to trust: no agents, checks or settings."


def _init(payload: Payload) -> Iterator[str]:
    yield f"{payload['project']} is an Overhand project."
    for name in payload["wrote"]:
        yield f"  wrote {name}"
    for name, command in payload["proposed"].items():
        yield f"  proposed check {name}: {command} (commented out in .overhand/config.toml; switch it on there)"
    yield "  next: " + " · ".join(payload["next"])


def _demo(payload: Payload) -> Iterator[str]:
    yield from payload["closing"]


_TEXTS: dict[str, Callable[[Any], Iterator[str]]] = {
    "version": _version, "delegate": _delegate, "run": _run, "list": _list, "status": _status, "stop": _stop,
    "check": _check, "clean": _clean, "agents": _agents, "trust": _trust, "init": _init, "demo": _demo,
}  # fmt: skip
