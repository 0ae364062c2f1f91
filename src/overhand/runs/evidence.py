"""What a run left behind: its return, whichever door it came through, and the facts to judge it by.

What the agent wrote is copied from its desk into the record once, and only the copy is read from then on.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from overhand.agents import read_end
from overhand.documents import (
    CONTRACTS,
    Problem,
    Reading,
    contract_name,
    decode_text,
    find_return,
    has_contract_fields,
    load_json,
    load_return,
    named_files,
    parse_handoff,
    parse_return,
    plain_quotes,
    read_document,
    validate_data,
)
from overhand.record import read_state
from overhand.system import MAX_DOCUMENT, Beneath, is_there, pid_namespace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overhand.agents import StreamSummary
    from overhand.documents import Handoff, HandoffStep, Listed, Look, NamedFile, Output, Return
    from overhand.record import Run, RunFolders, Store, Task
    from overhand.runs.judge import Fact

_STDOUT_TAIL = 1_000_000
_LISTED = 80_000  # characters of lists in which files are looked for


@dataclass(frozen=True, slots=True)
class Returned:
    """The first return that could be read, with everything noticed on the way."""

    source: str = ""
    value: Return | None = None
    output: Output | None = None
    problems: tuple[Problem, ...] = ()
    complete_form: bool = False
    raw: bytes | None = None  # the document, unless it was JSON
    facts: tuple[Fact, ...] = ()  # what the contract of a plan's node says of it
    unverified: tuple[str, ...] = ()
    listed: tuple[Listed, ...] = ()  # the document's lists of files

    def named_files(self, look: Look) -> list[NamedFile]:
        """The files that it names as made, changed or deleted; `look` says what the tree has at a path."""
        return named_files(self.value, _within(self.listed, _LISTED) if self.output else None, look)


def _within(listed: Sequence[Listed], limit: int) -> tuple[Listed, ...]:
    """The lists up to this many characters."""
    kept = []
    for one in listed:
        kept.append(one._replace(body=one.body[:limit]))
        limit = max(0, limit - len(one.body))
    return tuple(kept)


@dataclass(frozen=True, slots=True)
class Collected:
    """What an ended run was given, and where the rest of the evidence lies."""

    folders: RunFolders
    spec: dict[str, Any]
    handoff: Handoff
    problems: Sequence[Problem] = ()  # noticed while its return was collected
    given: object = None  # what a function returned


def read_return(
    folders: RunFolders,
    spec: dict[str, Any],
    given: object = None,
    heard: StreamSummary | None = None,
    noticed: Sequence[Problem] = (),
    *,
    live: bool = False,
) -> Returned:
    """The return of a run: OUTPUT.md, result.json (or `given` in its place), JSON on stdout.

    The first that parses counts. It is read from what was collected; of a live run, from its desk. Nothing is changed.
    """
    problems = list(noticed)
    if not live and not is_there(folders.place):  # of a function that kept nothing there
        return _read_return(folders, None, spec, given, heard, problems)
    with (folders.desk_files if live else Beneath(folders.place)).held() as files:
        return _read_return(folders, files, spec, given, heard, problems)


def _read_return(
    folders: RunFolders,
    files: Beneath | None,
    spec: dict[str, Any],
    given: object,
    heard: StreamSummary | None,
    problems: list[Problem],
) -> Returned:
    there = files.names() if files else []
    doors: list[Returned | None] = [_from_output(files)] if files and "OUTPUT.md" in there else []
    if given is not None:
        doors.append(_from_json("result.json", given))
    else:
        doors.append(_from_result(files) if files and "result.json" in there else None)
        doors.append(_from_words(heard) if heard else _from_stdout(folders.place))
    found = [r for r in doors if r is not None]
    if not found:
        return Returned(problems=tuple(problems))
    first = next((r for r in found if r.value and r.value.status), found[0])
    if first.value and first.value.status:
        problems = [one for one in problems if one.code != "output-unreadable"]  # another return stands in for it
        for other in found:
            if other is not first and other.value and other.value.status not in (None, first.value.status):
                text = f"{first.source} says {first.value.status}, {other.source} says {other.value.status}."
                problems.append(Problem("return-contradicts", text, of="substance"))
    return _examined(first, spec, folders, files if "data.json" in there else None, problems)


def _examined(
    found: Returned, spec: dict[str, Any], folders: RunFolders, files: Beneath | None, problems: Sequence[Problem] = ()
) -> Returned:
    """The return with its data file, if there is one, compared with the contract and the promised sections."""
    value, data_problems = _with_data(found.value, files) if files else (found.value, [])
    facts, broken, unverified = _promised(spec, value, folders)
    contract = _contract(spec, found, value, folders.place)
    more = [*data_problems, *contract, *broken, *_required_sections(spec, found)]
    if value is found.value and not (problems or more or facts or unverified):
        return found
    every = (*problems, *found.problems, *more)
    return replace(found, value=value, problems=every, facts=facts, unverified=unverified)


_COLLECTED = ("OUTPUT.md", "result.json", "data.json", "CONTEXT.md", "handoff.md", "usage.jsonl")


def collect_return(store: Store, task: Task, folders: RunFolders) -> list[Problem]:
    """Copy what the agent left on its desk into the record; the caller is the only one that judges the run."""
    desk = folders.desk[len(folders.workspace) + 1 :]
    with folders.workspace_files.held() as files:
        whole = files.names()
        noticed = _take_top_level(store, task, files, desk) if "OUTPUT.md" in whole else []
        if whole and "OUTPUT.md" not in whole and "runs" not in whole:
            return []  # of a function that wrote nothing
        there = files.names(desk)
        if not there and (blocker := files.in_the_way(desk)):
            text = f"{store.relative(blocker)} is a link or no folder; nothing in it was read."
            return [*noticed, Problem("desk-unreadable", text, level="warning", of="substance")]
        if there:
            os.makedirs(folders.place, 0o700, exist_ok=True)
        for name in [name for name in _COLLECTED if name in there]:
            copied = files.copy_out(f"{desk}/{name}", f"{folders.place}/{name}")
            if name == "OUTPUT.md" and copied is None:
                noticed.append(_unreadable(_NO_FILE))
            elif name == "OUTPUT.md" and copied is not None and copied[1] > MAX_DOCUMENT:
                noticed.append(_unreadable(f"OUTPUT.md has more than {MAX_DOCUMENT >> 20} MB; the rest was not read."))
    return noticed


_NO_FILE = "OUTPUT.md is not a regular file (a link, a folder or a pipe); it was not read."


def _unreadable(text: str) -> Problem:
    return Problem("output-unreadable", text, of="substance")


def _take_top_level(store: Store, task: Task, files: Beneath, desk: str) -> list[Problem]:
    """Move an OUTPUT.md from the workspace to the run's desk; it is this run's if every earlier run is dead."""
    files.make_folder(desk, aside=True)
    earlier_dead = all(_is_dead(store, task, run) for run in task.runs[:-1])
    if earlier_dead and not files.exists(f"{desk}/OUTPUT.md"):
        files.rename("OUTPUT.md", f"{desk}/OUTPUT.md")
        return []
    same = files.read("OUTPUT.md") == files.read(f"{desk}/OUTPUT.md")
    files.rename("OUTPUT.md", f"{desk}/stray-OUTPUT.md")
    if same:
        return []
    text = "An OUTPUT.md in the task's folder was set aside as stray-OUTPUT.md; it may come from another run."
    return [Problem("output-stray", text, level="warning", of="substance")]


def _is_dead(store: Store, task: Task, run: Run) -> bool:
    """Whether no process of an earlier run is left; a shim that has recorded its agent's end writes nothing more."""
    if not run.has_ended or run.leftovers:
        return False
    was_seen = run.exit is not None and run.pidns in ("", pid_namespace())  # and its leftovers, too
    return was_seen or not store.is_alive(task.id, run)


def _from_output(files: Beneath) -> Returned:
    raw = files.read("OUTPUT.md")
    return Returned("OUTPUT.md", problems=(_unreadable(_NO_FILE),)) if raw is None else read_output_bytes(raw)


def preview_return(raw: bytes, spec: dict[str, Any], folders: RunFolders) -> Returned:
    """The return that an OUTPUT.md of these bytes would be, with all its problems."""
    return _examined(read_output_bytes(raw), spec, folders, folders.desk_files)


def read_output_bytes(raw: bytes) -> Returned:
    """The return in an OUTPUT.md of these bytes."""
    text, problems = decode_text(raw)
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raw = text.encode("utf-8", "replace")
    return _of_document("OUTPUT.md", read_document(text), raw, problems)


def _of_document(source: str, read: Reading, raw: bytes, problems: Sequence[Problem] = ()) -> Returned:
    """A document as the return; JSON in its place is written as an OUTPUT.md when it is accepted."""
    every = (*problems, *read.problems)
    if sum(len(one.body) for one in read.listed) > _LISTED:
        text = f"The lists of files have more than {_LISTED // 1000} kB; the rest was not looked at."
        every = (*every, Problem("files-many", text, level="warning", of="substance"))
    kept = raw if read.output else None
    return Returned(source, read.value, read.output, every, read.is_whole, kept, listed=read.listed)


def _from_result(files: Beneath) -> Returned | None:
    raw = files.read("result.json")
    if raw is None:
        return None
    value, error = load_return(plain_quotes(decode_text(raw)[0]))
    if error:
        return Returned("result.json", problems=(Problem("return-invalid", f"result.json is not JSON: {error}."),))
    return _from_json("result.json", value)


def _from_stdout(place: str) -> Returned | None:
    value = find_return(read_end(f"{place}/stdout", _STDOUT_TAIL)[0].decode("utf-8", "replace"))
    return None if value is None else _from_json("stdout", value)


def _from_words(summary: StreamSummary) -> Returned | None:
    """A return in the agent's last message: JSON, or an OUTPUT.md as text."""
    text = summary.last_words
    read = read_document(text)
    if read.value and read.value.status:
        return _of_document("its last message", read, text.encode("utf-8", "replace"))
    value = find_return(text)
    return None if value is None else _from_json("its last message", value)


def _from_json(source: str, value: object) -> Returned:
    parsed, problems = parse_return(value)
    whole = parsed is not None and bool(parsed.status and parsed.summary)
    return Returned(source, parsed, None, tuple(problems), whole)


def _with_data(value: Return | None, files: Beneath) -> tuple[Return | None, list[Problem]]:
    """`data.json` in the run's folder is the data, unless the return has it already."""
    raw = files.read("data.json")
    if raw is None or value is None:
        return value, []
    data, error = load_json(decode_text(raw)[0])
    if error:
        return value, [Problem("data-invalid", f"data.json is not JSON: {error}.", of="substance")]
    if value.data is not None and value.data != data:
        text = "The return's own data and data.json differ; the return's own is used."
        return value, [Problem("return-contradicts", text, of="substance")]
    return replace(value, data=data), []


def _contract(spec: dict[str, Any], found: Returned, value: Return | None, place: str) -> list[Problem]:
    """The contract the task asked for: one of the named blocks, or a schema for the data."""
    wanted = spec.get("contract")
    if not wanted or value is None or value.status != "completed":
        return []
    schema = read_state(f"{place}/contract.json")
    if schema is not None:
        return [] if "overhand" in schema else [*validate_data(schema, value.data)]  # else by `_promised`
    given = found.output.contract if found.output else None
    name, shown = contract_name(wanted), wanted.replace("_", " ")
    if given is None and name in CONTRACTS and has_contract_fields(name, value.data):
        return []
    text = f"The task asked for a {shown} block; the return has {given or 'none'}."
    if given is not None and contract_name(given) == name:
        odd = [one.message for one in found.problems if one.code in ("contract-field-missing", "contract-value")]
        if not odd:
            return []
        text = f"The {shown} block cannot be read: {' '.join(odd)}"
    fix = f"Put it into OUTPUT.md: === {shown} === … === END ==="
    return [Problem("contract-required", text, of="substance", fix=fix)]


_Promised = tuple[tuple["Fact", ...], list[Problem], tuple[str, ...]]


def _promised(spec: dict[str, Any], value: Return | None, folders: RunFolders) -> _Promised:
    """What the contract of a plan's node says of the return, what is wrong with that, and what no program can check."""
    if value is None or not str(spec.get("contract") or "").endswith(".json"):
        return (), [], ()
    from overhand.runs import promises

    contract = promises.contract_in(folders.place)
    if contract is None:
        return (), [], ()
    unverified = promises.unverified_promises(contract)
    if value.status != "completed":
        return (), [], unverified
    inputs = promises.inputs_in(folders.record)
    facts = promises.check_promises(contract, value.data, inputs, folders.root)
    return facts, promises.problems(contract, value.data, inputs, facts), unverified


def _required_sections(spec: dict[str, Any], found: Returned) -> list[Problem]:
    """What the agent's own file promises of its returns."""
    if found.value is None or found.value.status != "completed":
        return []
    names = {} if found.output else {"deliverables": "artifacts", "files_modified": "artifacts"}  # those of JSON
    returned = found.output or found.value
    promised = spec.get("agent", {}).get("gives", [])
    missing = [section for section in promised if not getattr(returned, names.get(section, section), None)]
    texts = [f"The return has no {name.replace('_', ' ')}, which the agent's file promises." for name in missing]
    return [Problem("section-required", text) for text in texts]


def live_steps(workspace: Beneath, planned: Sequence[HandoffStep]) -> tuple[tuple[str, str], ...]:
    """Markers of the plan in the live HANDOFF.md: the only thing there that an agent may change.

    A planned step that does not stand there any more has none.
    """
    if not planned:
        return ()
    text, _ = decode_text(workspace.read("HANDOFF.md") or b"")
    found = [(step.marker, step.text) for step in parse_handoff(text).plan]
    named = {_words(step.text): step.text for step in planned}
    left = Counter(_words(step.text) for step in planned)
    left.subtract(_words(text) for _, text in found)
    return (*found, *(("", named[words]) for words, count in left.items() for _ in range(count)))


def _words(text: str) -> str:
    return " ".join(text.split()).casefold()
