"""The steps under `## Plan` of a HANDOFF.md: read from its bytes, and marked in place without touching another byte.

`documents.handoff` says which section the plan is. One that is called just that is found without it, since a light verb
cannot afford its imports.
"""

from __future__ import annotations

from overhand.documents import BOM, front_matter_end, markdown_sections, task_lines
from overhand.errors import BadInput, NotFound
from overhand.system import MAX_DOCUMENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from overhand.documents import MarkdownLine
    from overhand.system import Beneath, Patch

STEP_STATES = {"open": " ", "doing": "~", "blocked": "?", "error": "!", "done": "x"}
WORDS = {marker: word for word, marker in STEP_STATES.items()}
_DASH = " — "


class StepItem:
    """One step: what it says and where it stands."""

    __slots__ = (
        *("at", "before", "end", "error", "line", "marker", "number", "question", "start", "stop", "tail", "text"),
    )

    def __init__(self, raw: bytes, number: int, line: int, start: int, end: int, at: int) -> None:
        self.number, self.line = number, line  # both from 1
        self.start, self.end, self.at = start, end, at  # the line without its end, and the marker's byte
        self.before: StepItem | None = None  # as it was, after `mark`
        self.marker = chr(raw[at]).lower()
        shown = raw[at + 2 : end]
        self.tail = at + 2 + len(shown.rstrip(b" \t"))
        begin = end - len(shown.lstrip(b" \t"))
        text = raw[begin : self.tail].decode("utf-8", "surrogateescape")
        bare, question, error = _split(text, self.marker)
        self.stop = self.tail  # where the text ends and what we put behind it begins
        if question or error:
            self.stop = begin + len(bare.encode("utf-8", "surrogateescape")) if bare else at + 2
        if self.marker == "!" and not error:
            bare, question, _ = _split(_unescaped(text), " ")
        self.text = _readable(bare.rstrip())
        self.question, self.error = _readable(question), _readable(_unescaped(error))

    @property
    def state(self) -> str:
        return WORDS[self.marker]


def _split(text: str, marker: str) -> tuple[str, str, str]:
    """A step's text without what stands behind it: the question it waits for, and its error."""
    error = ""
    if marker == "!" and _DASH in text:
        text, _, error = text.rpartition(_DASH)
    if text.endswith(")"):
        head, _, rest = text.rpartition("(")
        name = rest[4:-1].lstrip()
        if rest.startswith("IPC:") and name and ")" not in name and name.split() == [name]:
            if not head:
                return "", name, error
            if head[-1].isspace():
                return head[:-1], name, error
    return text, "", error


def _unescaped(text: str) -> str:
    """A dash that is no separator is written with a backslash."""
    words = text.split(" ") if "\\" in text else ()
    return " ".join(w[1:] if w[:1] == "\\" and w.lstrip("\\") == "—" else w for w in words) if words else text


def _readable(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def read_steps(raw: bytes) -> list[StepItem]:
    if len(raw) > MAX_DOCUMENT or b"plan" not in raw.lower():
        return []
    cut = len(BOM) if raw.startswith(BOM) else 0
    text = raw[cut:].decode("latin-1")  # an offset is one into the bytes
    if raw.count(b"\r") != raw.count(b"\r\n"):
        text = text.replace("\r\n", "\0\n").replace("\r", "\n").replace("\0\n", "\r\n")
    found = enumerate(_tasks(raw, text), 1)
    return [
        StepItem(raw, number, one.number, cut + one.start, cut + one.end, cut + one.at + 1) for number, one in found
    ]


def _tasks(raw: bytes, text: str) -> Iterable[MarkdownLine]:
    part = next((part for part in markdown_sections(text) if "plan" in part.title.lower()), None)
    if part is not None and part.level == 2 and part.title.lower() == "plan":
        return task_lines(text, part.body, part.end, part.number + 1)
    if part is None and not any("plan" in part.title.lower() for part in markdown_sections(text, 6)):
        return ()
    from overhand.documents import decode_text, parse_handoff

    wanted = {step.line for step in parse_handoff(decode_text(raw)[0]).plan}
    begin = front_matter_end(text)
    return (one for one in task_lines(text, begin, None, text.count("\n", 0, begin) + 1) if one.number in wanted)


def step_progress(raw: bytes) -> tuple[int, int, str]:
    """How many steps are done, how many there are, and what the current one says."""
    return progress_of_steps(read_steps(raw))


def progress_of_steps(items: list[StepItem]) -> tuple[int, int, str]:
    """The same, of steps that were read already."""
    done = sum(item.marker == "x" for item in items)
    current = next((item.text for markers in ("~", "?!", " ") for item in items if item.marker in markers), "")
    return done, len(items), current


def choose(items: list[StepItem], select: str, see: str = "overhand step") -> StepItem:
    """The step of this number, of these words, or the only one that contains them."""
    if not items:
        raise NotFound("The HANDOFF.md has no steps.", "Write a section `## Plan` with lines like `- [ ] what to do`.")
    wanted = " ".join(select.split())
    if wanted.isascii() and wanted.isdigit():
        if 0 < int(wanted[:9]) <= len(items) and len(wanted) <= 9:
            return items[int(wanted) - 1]
        raise NotFound(f"There is no step {wanted}; the plan has {len(items)}.", f"See them: {see}")
    if not wanted:
        raise BadInput("Which step?", "Say its number or a part of its text.")
    folded = wanted.casefold()
    named = [(" ".join(item.text.split()), item) for item in items]
    found = (
        [item for text, item in named if text == wanted]
        or [item for text, item in named if text.casefold() == folded]
        or [item for text, item in named if folded in text.casefold()]
    )
    if len(found) == 1:
        return found[0]
    if found:
        some = ", ".join(f"{item.number} ({item.text[:40]})" for item in found[:5])
        raise BadInput(f"{wanted!r} fits {len(found)} steps: {some}.", "Say the number.")
    raise NotFound(f"No step says {wanted!r}.{_nearest(folded, items)}", f"See them with their numbers: {see}")


def _nearest(folded: str, items: list[StepItem]) -> str:
    from difflib import get_close_matches

    texts = {item.text.casefold(): item for item in items}
    near = get_close_matches(folded, texts, 1, 0.5)
    return f" Did you mean {texts[near[0]].number}: {texts[near[0]].text[:60]}?" if near else ""


def asked_suffix(seq: int) -> str:
    """What stands behind a step that waits for the answer to this question."""
    return f" (IPC: {seq:03d}.question)"


def failed_suffix(reason: str) -> str:
    """What stands behind a step that failed, on one line."""
    words = "".join(c if c.isprintable() else " " for c in reason).split()
    return _DASH + " ".join("\\" + word if word.lstrip("\\") == "—" else word for word in words) if words else ""


def patch(raw: bytes, item: StepItem, marker: str, suffix: str | None = None) -> Patch | None:
    """What to write where, or None if it stands there already; without a suffix, one of the same state is kept."""
    old = raw[item.stop : item.tail]
    kept = suffix is None and marker == item.marker
    new = old if kept else (suffix or "").encode("utf-8", "replace")
    if marker == "!" and not new and not kept and _DASH.encode() in raw[item.at + 2 : item.stop].strip(b" \t"):
        new = failed_suffix("no reason given").encode()  # else the last part of the text would be read as the reason
    if new.startswith(_DASH.encode()) and not item.text:
        new = b""  # nothing to stand behind
    is_same = marker == item.marker  # [X] stays as it is
    byte = raw[item.at : item.at + 1] if is_same else marker.encode()
    if new == old:
        return None if is_same else (item.at, item.at + 1, byte)
    return item.at, item.tail, byte + raw[item.at + 1 : item.stop] + new


def change(raw: bytes, item: StepItem, marker: str, suffix: str | None = None) -> bytes:
    wanted = patch(raw, item, marker, suffix)
    return raw if wanted is None else raw[: wanted[0]] + wanted[2] + raw[wanted[1] :]


def mark_step(
    workspace: Beneath, select: str, marker: str, suffix: str | None = None, see: str = "overhand step"
) -> StepItem:
    """Mark a step in HANDOFF.md, while others may write to it; the caller holds the task's lock. See edits.py."""
    seen: list[StepItem] = []

    def wanted(raw: bytes) -> Patch | None:
        items = read_steps(raw)
        same = [item for item in items if seen and item.text == seen[0].text]
        item = same[0] if len(same) == 1 else choose(items, select, see)  # the plan may have moved since the first look
        seen.append(item)
        return patch(raw, item, marker, suffix)

    raw = workspace.edit("HANDOFF.md", wanted)
    last = seen[-1]
    now = StepItem(raw, last.number, last.line, last.start, _end(raw, last.start), last.at)
    now.before = seen[0]
    return now


def _end(raw: bytes, start: int) -> int:
    return min((at for at in (raw.find(b"\n", start), raw.find(b"\r", start)) if at >= 0), default=len(raw))
