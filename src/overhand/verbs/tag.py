"""`tag add|remove|swap|find|await`: tags in Markdown files; what changes a file is in retag.py."""

from __future__ import annotations

from overhand.errors import BadInput
from overhand.items import find
from overhand.verbs import Answer, Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from overhand.items.find import Hit

SCHEMA = "overhand.tag/1"
USAGE = {
    "add": "overhand tag add FILE '#TAG'",
    "remove": "overhand tag remove FILE '#TAG'",
    "swap": "overhand tag swap FILE '#OLD' '#NEW'",
    "find": "overhand tag find '#needs-*' [PATH]",
    "await": "overhand tag await FILE '#TAG'",
}
_WORDS = {"add": (2, 2), "remove": (2, 2), "swap": (3, 3), "find": (1, 2), "await": (2, 2)}


def tag(session: Session, do: str, word: list[str] | None = None, **options: Any) -> Answer:
    """One of the five."""
    words = list(word or ())
    least, most = _WORDS[do]
    if not least <= len(words) <= most:
        raise BadInput(
            f"tag {do} takes {least if least == most else f'{least} or {most}'} words, not {len(words)}.",
            f"{USAGE[do]} (in quotes: to a shell, # begins a comment)",
        )
    given = {name for name, value in options.items() if value}
    if wrong := given - _OPTIONS[do]:
        raise BadInput(f"--{min(wrong).replace('_', '-')} is not for tag {do}.", USAGE[do])
    if do == "find":
        return _find(session, words, **options)
    from overhand.verbs import retag

    answer: Answer = getattr(retag, f"{do}_tag")(session, *words, **options)
    return answer


def named(word: str, *, wild: bool = False) -> str:
    """A tag as it is written; the `#` may be left out."""
    name = find.hashed(word)
    if wild and any(sign in name for sign in "*?["):
        return name
    from overhand.documents.tags import is_tag

    if is_tag(name):
        return name
    raise BadInput(f"{word!r} is no tag.", "A tag is #, a letter, then letters, digits, - and _, such as '#needs-fix'.")


def _find(
    session: Session,
    words: list[str],
    context: str | None = None,
    tags_only: bool = False,
    files: bool = False,
    no_ignore: bool = False,
    **_: Any,
) -> Answer:
    name, where = (*words, ".")[:2]
    around = _number(context, where)
    warnings: list[str] = []

    def warn(text: str) -> None:
        warnings.append(text)
        session.tell(text)

    hits = find.search(find.relative(where), named(name, wild=True), all=no_ignore, warn=warn)
    if tags_only:
        hits = [(path, raw, kept) for path, raw, found in hits if (kept := [one for one in found if one.on_tags_line])]
    if session.plain:
        lines = [path for path, _, _ in hits] if files else _lines(hits, around)
        return Answer({"schema": SCHEMA, "raw": True, "text": "\n".join(lines)})
    if files:
        return Answer({"schema": SCHEMA, "do": "find", "files": [path for path, _, _ in hits], "warnings": warnings})
    from overhand.documents.tags import row

    rows = [row(path, raw, one) for path, raw, found in hits for one in found]
    return Answer({"schema": SCHEMA, "do": "find", "hits": rows, "warnings": warnings})


def _number(context: str | None, where: str) -> int:
    """Lines around each hit; the word behind a bare `--context` is a path, or was meant as a number."""
    if context is None:
        return 0
    import os

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
    from overhand.documents.markdown import BOM

    every = raw.removeprefix(BOM).split(b"\n")
    if every and not every[-1]:
        every.pop()
    wanted = {number for line in hit for number in range(max(1, line - around), min(len(every), line + around) + 1)}
    return [
        f"{path}:{number}: {_decoded(every[number - 1])}"
        if number in hit
        else f"{path}-{number}-{_decoded(every[number - 1])}"
        for number in sorted(wanted)
    ]


def _decoded(line: bytes) -> str:
    return line.removesuffix(b"\r").decode("utf-8", "replace")


_OPTIONS: dict[str, set[str]] = {
    "add": set(),
    "remove": set(),
    "swap": set(),
    "find": {"context", "tags_only", "files", "no_ignore"},
    "await": {"timeout"},
}
