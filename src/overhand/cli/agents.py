"""What `agents` shows: each with its file, or, where there are many, their names by folder."""

from __future__ import annotations

from overhand.cli.text import colour, folded, one_line, printable, width, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Payload = dict[str, Any]

_MANY = 30  # more than this are shown by their names only


def agents(payload: Payload) -> Iterator[str]:
    if "test" in payload:
        yield f"{printable(payload['test'])}: {payload['outcome']} · {payload['seconds']}s"
        yield f"   {printable(payload['message'])}"
        yield f"   next: {printable(payload['next'])}"
        return
    if "unpaused" in payload:
        name, was = payload["unpaused"], payload["was_paused"]
        yield f"{name} is no longer paused; tasks that wait for it start now." if was else f"{name} is not paused."
        return
    rows = payload["agents"]
    yield from _many_agents(rows) if len(rows) > _MANY else _agent_rows(rows)
    yield from _about_agents(payload)
    there = [row for row in payload["programs"] if row["path"]]
    if not rows and not there and "words" not in payload:
        yield "No agent yet. An agent is a file .overhand/agents/NAME.md; this prints one to start from:"
        yield "  overhand agents --example"
    if there:
        yield "Agent programs on your PATH, each an agent of its own name:"
    for row in there:
        word = {True: "logged in", False: "not logged in", None: "login unknown"}[row["logged_in"]]
        facts = f"{row['version'] or 'version unknown':<15} {word} ({printable(row['rests_on'])})"
        yield f"  {row['name']:<10} {facts}"
        yield f"    {colour(printable(row['path']), 'dim')} · {printable(row['next'])}"
    if chosen := payload.get("default"):
        yield from folded(f"delegate takes {chosen['agent']} where none is named: {printable(chosen['why'])}", begin=0)
    if missing := [row["name"] for row in payload["programs"] if not row["path"]]:
        yield f"Not installed: {', '.join(missing)} (overhand agents NAME says how to install it)"
    if len(payload["programs"]) == 1 and missing:
        yield f"  {printable(payload['programs'][0]['next'])}"


def _agent_rows(rows: list[Payload]) -> Iterator[str]:
    for row in rows:
        trusted = "" if row["trusted"] or row["problem"] else colour("  not trusted yet: overhand trust", "yellow")
        star = "*" if row["default"] else " "
        about = f"{one_line(row['description'], 50)}  {colour(printable(row['source']), 'dim')}"
        yield f"{star} {printable(row['name']):<16} {row['driver'] or '?':<10} {about}{trusted}"
        if row["problem"]:
            yield colour(f"    {printable(row['problem'])}", "red")
        for warning in row["warnings"]:
            yield f"    note: {printable(warning)}"


def _many_agents(rows: list[Payload]) -> Iterator[str]:
    """Names by folder, and in full only those with a problem."""
    groups: dict[str, list[str]] = {}
    for row in sorted(rows, key=lambda row: str(row["source"])):
        if not row["problem"]:
            groups.setdefault(str(row["source"]).rpartition("/")[0], []).append(printable(row["name"]))
    for folder, names in groups.items():
        yield f"{colour(printable(folder), 'bold')}  {len(names)}"
        yield from (f"  {line}" for line in wrap(", ".join(sorted(names)), max(width() - 2, 38), 200))
    yield from _agent_rows([row for row in rows if row["problem"]])
    waiting = sum(not row["trusted"] and not row["problem"] for row in rows)
    if waiting:
        yield colour(f"{waiting} are not trusted yet: overhand trust", "yellow")


def _about_agents(payload: Payload) -> Iterator[str]:
    """What concerns several agents, said once."""
    rows = payload["agents"]
    if "words" in payload:
        found = f"{len(rows)} agent{'' if len(rows) == 1 else 's'} with {' and '.join(payload['words'])}"
        yield f"{printable(found)} in the name, the description or the path."
    elif len(rows) > _MANY:
        yield f"{len(rows)} agents. Find some: overhand agents WORD. Look at one: overhand agents NAME"
    missing = {row["name"]: row["next"] for row in payload["programs"] if not row["path"]}
    for program, how in missing.items():
        if needed := sum(row["driver"] == program for row in rows):
            told = (
                f"{program} is not installed, and {needed} of these agents need it: {how.removeprefix('install it: ')}"
            )
            yield colour(printable(told), "yellow")
    if needed := sum(row["driver"] is None and not row["problem"] for row in rows):
        yield colour(f"No coding agent is installed, and {needed} of these agents need one.", "yellow")
    if more := payload.get("repeated"):
        some = ", ".join(printable(row["source"]) for row in more[:3]) + (" …" if len(more) > 3 else "")
        yield f"{len(more)} files have a name that another one has, and are not used: {some}"
