"""What a task changed and what became of it, as lines of text; long ones through the user's pager."""

from __future__ import annotations

import os
import sys

from overhand.cli.text import colour, counted, one_line, printable, width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    Payload = dict[str, Any]

_TONES = {"+": "green", "-": "red", "@": "cyan"}
_MOST_HUNKS = 10  # of a file in conflict
_BAR = 20  # columns of a bar of changed lines, at most


def diff(payload: Payload) -> Iterator[str]:
    """The files, then the patch."""
    name = f"{colour(str(payload['handle']), 'bold')}  {one_line(payload['title'], width() - 8)}"
    yield f"{name}{colour('   still running', 'yellow') if payload['live'] else ''}"
    if not payload["files"]:
        yield "   nothing changed"
    most = max((_size(one) for one in payload["files"]), default=1)
    wide = min(60, max((len(one["path"]) for one in payload["files"]), default=0))
    for one in payload["files"]:
        change = "" if one["change"] == "changed" else f" ({one['change']})"
        yield f"   {one_line(one['path'], 60):<{wide}}  {_lines(one, most)}{change}"
    for path in payload["hidden"]:
        yield colour(f"   {printable(path)}  hidden by its own ignore rules", "yellow")
    for one in payload["left"]:
        yield colour(f"   {printable(one['path'])}  not part of it: {printable(one['why'])}", "yellow")
    added, deleted = (sum(one[which] or 0 for one in payload["files"]) for which in ("added", "deleted"))
    if payload["files"]:
        yield f"   {counted(len(payload['files']), 'file')}, {added} lines added, {deleted} deleted"
    if payload["patch"]:
        yield ""
        yield from patch(payload["patch"])


def _size(one: Payload) -> int:
    return (one["added"] or 0) + (one["deleted"] or 0)


def _lines(one: Payload, most: int) -> str:
    if one["added"] is None:
        return "binary"
    scale = min(1.0, _BAR / (most or 1))
    added, deleted = (-(-int(one[which] * scale * 1000) // 1000) for which in ("added", "deleted"))
    return f"{_size(one):>5} {colour('+' * added, 'green')}{colour('-' * deleted, 'red')}"


def patch(text: str) -> Iterator[str]:
    """A patch in colours of our own: what it holds must not drive the terminal."""
    inside = False
    for line in text.splitlines():
        shown = printable(line)
        if line.startswith("diff --git "):
            inside = False
            yield colour(shown, "bold")
            continue
        inside = inside or line.startswith("@@")
        tone = _TONES.get(line[:1]) if inside else "bold"
        yield colour(shown, tone) if tone else shown


def merge(payload: Payload) -> Iterator[str]:
    """Each task: landed, or why not; then what to type."""
    for row in payload["tasks"]:
        yield f"{colour(str(row['handle']), 'bold')}  {one_line(row['title'], width() - 8)}"
        yield from _merged(row, dry_run=payload["dry_run"])
    if payload["not_tried"]:
        names = " ".join(str(one["handle"]) for one in payload["not_tried"])
        yield f"not tried: {names}"


def _merged(row: Payload, *, dry_run: bool) -> Iterator[str]:
    if "error" in row:
        yield colour(f"   not landed: {printable(row['error']['message'])}", "red")
        yield f"   {printable(row['error']['hint'])}"
        return
    for one in row["conflicts"]:
        yield colour(f"   {printable(one['message'])}", "red")
        for hunk in one["hunks"][:_MOST_HUNKS]:
            yield f"   {printable(one['path'])}:{hunk['line']}"
            yield from (colour(f"     yours  {printable(line)}", "cyan") for line in hunk["target"].splitlines()[:10])
            yield from (colour(f"     task   {printable(line)}", "green") for line in hunk["task"].splitlines()[:10])
    for check in row["checks"]:
        word, tone = ("passed", "green") if check["passed"] else ("FAILED", "red")
        yield f"   {colour(word, tone)}  {printable(check['command'])} on the merged tree · {check['evidence']}"
    files = counted(row["files"], "file")
    if row["landed"]:
        yield f"   landed on {printable(row['into'])} as {row['commit'][:10]}, {files}"
        yield from (colour(f"   {printable(note)}", "yellow") for note in row.get("notes", ()))
        for late in row.get("late", ()):
            yield colour(
                f"   you changed {printable(late['path'])} meanwhile; kept: {printable(late['kept'])}", "yellow"
            )
        if row.get("undo"):
            yield f"   undo: {row['undo']}"
    elif row["conflicts"]:
        yield f"   not landed; tell the agent: overhand send {row['handle']} TEXT"
    elif row["failing"]:
        yield f"   not landed; to land it all the same: overhand merge {row['handle']} --anyway"
    elif dry_run:
        yield f"   can be landed on {printable(row['into'])}, {files}: overhand merge {row['handle']}"


def paged(lines: Iterable[str]) -> None:
    """Print through the pager that the user's environment names; without a terminal, or with `cat`, directly."""
    pager = os.environ.get("GIT_PAGER") or os.environ.get("PAGER") or "less"
    if not sys.stdout.isatty() or pager == "cat":
        for line in lines:
            print(line)
        return
    import subprocess

    environment = {**os.environ, "LESS": os.environ.get("LESS", "FRX")}
    try:
        with subprocess.Popen(["/bin/sh", "-c", pager], stdin=subprocess.PIPE, env=environment) as process:
            if process.stdin is not None:
                process.stdin.write("".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace"))
                process.stdin.close()
    except BrokenPipeError:
        return  # the reader has seen enough
