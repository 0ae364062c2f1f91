"""`tag add|remove|swap|find|await`: tags in Markdown files."""

from __future__ import annotations

import os

from overhand.documents import (
    is_tag,
    kind_of_tag,
    patch_adding_tag,
    patch_swapping_tag,
    patches_removing_tag,
    scan_tags,
    stage_of_tag,
    tag_row,
)
from overhand.errors import BadInput, NotFound, Refused, TimedOut
from overhand.items import is_text, literal_prefix, search_tags, shown_path, tag_matcher, with_hash
from overhand.verbs.verb import Reply, Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from overhand.documents import Tag
    from overhand.items import Hit
    from overhand.system import Patch

SCHEMA = "overhand.tag/1"
USAGE = {
    "add": "overhand tag add FILE '#TAG'",
    "remove": "overhand tag remove FILE '#TAG'",
    "swap": "overhand tag swap FILE '#OLD' '#NEW'",
    "find": "overhand tag find '#needs-*' [PATH]",
    "await": "overhand tag await FILE '#TAG'",
}
_WORDS = {"add": (2, 2), "remove": (2, 2), "swap": (3, 3), "find": (1, 2), "await": (2, 2)}
_OPTIONS = {"find": {"context", "tags_only", "files", "no_ignore"}, "await": {"timeout"}}
_MOST = 1 << 30  # bytes: such a file still fits into memory a few times


def tag(session: Session, do: str, word: list[str] | None = None, **options: Any) -> Reply:
    words = list(word or ())
    least, most = _WORDS[do]
    if not least <= len(words) <= most:
        raise BadInput(
            f"tag {do} takes {least if least == most else f'{least} or {most}'} words, not {len(words)}.",
            f"{USAGE[do]} (in quotes: to a shell, # begins a comment)",
        )
    given = {name for name, value in options.items() if value}
    if wrong := given - _OPTIONS.get(do, set()):
        raise BadInput(f"--{min(wrong).replace('_', '-')} is not for tag {do}.", USAGE[do])
    calls: dict[str, Callable[..., Reply]]
    calls = {"add": add_tag, "remove": remove_tag, "swap": swap_tag, "find": find_tags, "await": await_tag}
    return calls[do](session, *words, **options)


def named(word: str, *, wild: bool = False) -> str:
    """A tag as it is written; the `#` may be left out."""
    name = with_hash(word)
    if is_tag(name) or (wild and any(sign in name for sign in "*?[")):
        return name
    raise BadInput(f"{word!r} is no tag.", "A tag is #, a letter, then letters, digits, - and _, such as '#needs-fix'.")


def find_tags(
    session: Session,
    name: str,
    where: str = ".",
    context: str | None = None,
    tags_only: bool = False,
    files: bool = False,
    no_ignore: bool = False,
    **_: Any,
) -> Reply:
    """Every live tag that matches, in a file or a folder."""
    around = _context_lines(context, where)
    warnings: list[str] = []

    def warn(text: str) -> None:
        warnings.append(text)
        session.tell(text)

    hits = search_tags(shown_path(where), named(name, wild=True), all=no_ignore, warn=warn)
    if tags_only:
        hits = [(path, raw, kept) for path, raw, found in hits if (kept := [one for one in found if one.on_tags_line])]
    if session.plain:
        lines = [path for path, _, _ in hits] if files else _lines(hits, around)
        return Reply({"schema": SCHEMA, "raw": True, "text": "\n".join(lines)})
    if files:
        return Reply({"schema": SCHEMA, "do": "find", "files": [path for path, _, _ in hits], "warnings": warnings})
    rows = [tag_row(path, raw, one) for path, raw, found in hits for one in found]
    return Reply({"schema": SCHEMA, "do": "find", "hits": rows, "warnings": warnings})


def _context_lines(context: str | None, where: str) -> int:
    """Lines around each hit; the word behind a bare `--context` is a path, or was meant as a number."""
    if context is None:
        return 0
    if context == "2" and not os.path.lexists(where):
        raise BadInput(
            f"{where!r} is no number of lines for --context, and there is no such file or folder.",
            "Write it as: overhand tag find '#needs-*' [PATH] --context 2",
        )
    if not (context.isascii() and context.isdigit() and len(context) < 7):
        raise BadInput(f"--context cannot be {context!r}.", "Write how many lines: --context 2")
    return int(context)


def _lines(hits: list[Hit], around: int) -> list[str]:
    """The lines with hits, each once, and the lines around them."""
    lines: list[str] = []
    for path, raw, found in hits:
        if around:
            lines += _with_context(path, raw, {one.on.number for one in found}, around)
            continue
        last = 0
        for one in found:
            if one.on.number != last:
                last = one.on.number
                lines.append(f"{path}:{last}: {raw[one.on.start : one.on.end].decode('utf-8', 'replace')}")
    return lines


def _with_context(path: str, raw: bytes, hit: set[int], around: int) -> list[str]:
    from overhand.documents import BOM

    every = raw.removeprefix(BOM).split(b"\n")
    if every and not every[-1]:
        every.pop()
    wanted = {number for line in hit for number in range(max(1, line - around), min(len(every), line + around) + 1)}
    lines = []
    for number in sorted(wanted):
        text = every[number - 1].removesuffix(b"\r").decode("utf-8", "replace")
        lines.append(f"{path}:{number}: {text}" if number in hit else f"{path}-{number}-{text}")
    return lines


def _place(written: str) -> tuple[str, str, int]:
    """The file as it was typed, its real path, and the line (or 0) of `path` or `path:line`."""
    head, colon, number = written.rpartition(":")
    is_line = bool(colon) and number.isascii() and number.isdigit() and len(number) < 10 and not os.path.exists(written)
    path = head if is_line else written
    if os.path.isdir(path):
        raise BadInput(f"{path} is a folder.", "Name a file in it.")
    return path, os.path.realpath(path), int(number) if is_line else 0


def _changed(file: str, path: str, change: Callable[[bytes], Patch | None]) -> bytes:
    from overhand.system import edit_file

    if not path.lower().endswith((".md", ".markdown")) and os.path.exists(path):
        raise BadInput(
            f"{file} is not a Markdown file; nothing was changed.", "Tags stand in files that end in .md or .markdown."
        )

    def in_text(raw: bytes) -> Patch | None:
        if not is_text(raw):
            raise BadInput(f"{file} is not text; nothing was changed.", "Tags stand in Markdown files: name one.")
        return change(raw)

    return edit_file(path, in_text, limit=_MOST)


def add_tag(session: Session, file: str, name: str, **_: Any) -> Reply:
    """Add a tag at the end of the Tags line."""
    file, path, line = _place(file)
    wanted = named(name)
    if line:
        message = "A tag is added to the Tags line, not to a line of its own."
        raise BadInput(message, f"overhand tag add {file} '{wanted}'")
    _may_write(session, wanted)
    patches: list[Patch | None] = []

    def change(raw: bytes) -> Patch | None:
        patches.append(patch_adding_tag(raw, wanted))
        return patches[-1]

    raw = _changed(file, path, change)
    found = next(one for one in scan_tags(raw, wanted.encode()) if one.name == wanted and one.on_tags_line)
    return _reply("add", file, raw, found, changed=patches[-1] is not None)


def remove_tag(session: Session, file: str, name: str, **_: Any) -> Reply:  # noqa: ARG001 -- all five are called alike
    """Remove a tag wherever it is live in the file, or in one line."""
    from overhand.system import merge_patches

    file, path, line = _place(file)
    wanted = named(name)
    counts: list[int] = []

    def change(raw: bytes) -> Patch | None:
        patches = patches_removing_tag(raw, wanted, line)
        counts.append(len(patches))
        return merge_patches(raw, *patches)

    _changed(file, path, change)
    head = {"schema": SCHEMA, "do": "remove", "path": file, "tag": wanted}
    return Reply({**head, "changed": bool(counts[-1]), "removed": counts[-1]})


def swap_tag(session: Session, file: str, old: str, new: str, **_: Any) -> Reply:
    """Replace one tag by another; exactly one caller succeeds."""
    file, path, line = _place(file)
    wanted = named(new)
    olds = [named(word) for word in old.split(",") if word]
    if not olds:
        raise BadInput("Swap which tag?", USAGE["swap"])
    _may_write(session, wanted)
    chosen: list[Tag] = []
    read: list[bytes] = []

    def change(raw: bytes) -> Patch:
        read.append(raw)
        found = _chosen(raw, file, olds, line)
        if found is None:
            raise NotFound("")  # the edit retries: the file may be half-written
        chosen.append(found)
        return patch_swapping_tag(raw, found, wanted)

    try:
        raw = _changed(file, path, change)
    except NotFound:
        if not read:
            raise
        raise _lost(session, file, path, read[-1], olds, line) from None
    found = next(one for one in scan_tags(raw, wanted.encode()) if one.start == chosen[-1].start)
    if stage_of_tag(wanted) == "claimed":
        _note_claim(session, path, found)
    return _reply("swap", file, raw, found, changed=True, old=chosen[-1].name)


def _chosen(raw: bytes, file: str, olds: list[str], line: int) -> Tag | None:
    """The tag that is meant: on the Tags line, else the only one."""
    for name in olds:
        found = [one for one in scan_tags(raw, name.encode()) if one.name == name and line in (0, one.line)]
        first = next((one for one in found if one.on_tags_line), None)
        if first is None and len(found) > 1 and not line:
            lines = ", ".join(str(one.line) for one in found[:5])
            raise BadInput(
                f"{name} stands in {file} {len(found)} times, in lines {lines}.",
                f"Say which: overhand tag swap {file}:{found[0].line} '{name}' …",
            )
        if found:
            return first or found[0]
    return None


def _may_write(session: Session, name: str) -> None:
    """An agent cannot approve, by any verb."""
    if stage_of_tag(name) not in ("delegated", "next") or not session.store.exists():
        return
    from overhand.policy import find_caller, require_person

    require_person(find_caller(session.store), f"Approving an item ({name})")


def _lost(session: Session, file: str, path: str, raw: bytes, olds: list[str], line: int) -> Refused:
    """The refusal of a swap that came too late, with the holder as far as it is known."""
    kinds = {kind_of_tag(name) for name in olds} - {""}
    there = [one for one in scan_tags(raw) if kind_of_tag(one.name) in kinds and line in (0, one.line)]
    names = " or ".join(olds)
    if not there:
        where = f"Line {line} of {file}" if line else file
        return Refused(f"{where} has no live tag {names}.", f"See which there are: overhand tag find '#*' {file}")
    held = next((one for one in there if stage_of_tag(one.name) == "claimed"), there[0])
    holder = f": {_holder(session, path, held)}" if stage_of_tag(held.name) == "claimed" else ""
    return Refused(
        f"{names} is gone from {file}; line {held.line} has {held.name}{holder}.",
        "Nothing was changed. Somebody else was first.",
        tag=held.name,
        task_id=held.task or None,
    )


def _holder(session: Session, path: str, held: Tag) -> str:
    if held.task:
        return f"task {held.task} has it"
    from overhand.system import load_line

    try:
        with open(f"{session.store.own}/claims.jsonl", encoding="utf-8", errors="replace") as file:
            lines = file.readlines()
    except OSError:
        lines = []
    for line in reversed(lines):
        try:
            claim = load_line(line)
        except ValueError:
            continue
        if claim.get("path") == path and claim.get("tag") == held.name:
            return f"{claim.get('user')} took it at {claim.get('t')} (process {claim.get('pid')})"
    return "who took it is not recorded"


def _note_claim(session: Session, path: str, held: Tag) -> None:
    """Record the claim for the message of a swap that comes too late; nothing else depends on it."""
    if held.task or not session.store.exists():
        return
    from overhand.policy import user_name
    from overhand.system import dump_line, now_stamp

    claim: dict[str, Any] = {"t": now_stamp(), "path": path, "tag": held.name, "user": user_name(), "pid": os.getppid()}
    if run := os.environ.get("OVERHAND_RUN"):
        claim["run"] = run
    try:
        fd = os.open(f"{session.store.own}/claims.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        with os.fdopen(fd, "wb") as file:
            file.write(dump_line(claim).encode() + b"\n")
    except OSError:
        return


def _reply(do: str, file: str, raw: bytes, found: Tag, **more: Any) -> Reply:
    return Reply({"schema": SCHEMA, "do": do, **tag_row(file, raw, found), "path": file, **more})


def await_tag(session: Session, file: str, name: str, timeout: str | None = None, **_: Any) -> Reply:  # noqa: ARG001 -- as above
    """Wait until a tag is in the file."""
    from overhand.system import wait_for_file
    from overhand.words import option_duration

    wanted = named(name, wild=True)
    file, path, line = _place(file)
    patience = None if timeout is None else option_duration("--timeout", timeout)
    fits, literal = tag_matcher(wanted), literal_prefix(wanted).encode()

    def first(raw: bytes) -> Tag | None:
        return next((one for one in scan_tags(raw, literal) if fits(one.name) and line in (0, one.line)), None)

    seen = wait_for_file(path, first, patience, _MOST)
    if seen is None:
        raise TimedOut(f"{file} did not get {wanted} in time (--timeout {timeout}).", "Wait on with the same command.")
    return _reply("await", file, *seen)
