"""Returns of agents with their truth, and the judge on them without any process.

A file below `tests/judge/returns/` is a family; `README.md` there says what a case can hold.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overhand.documents import parse_handoff, wanted_contract
from overhand.policy import Actor, Config
from overhand.record import Store, fold
from overhand.runs import can_be_mended, gather_evidence, judge_run
from overhand.runs.evidence import Collected, collect_return
from overhand.runs.judge import CheckFact
from overhand.runs.proof import Work
from overhand.runs.worktree import baseline
from overhand.system import detached

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from overhand.documents import Deliverable

RETURNS = Path(__file__).parents[1] / "judge/returns"
TASK, RUN, EARLIER = "worker-20261118-101500", "sess_1795000000_abc123", "sess_1794990000_def456"
_SLUG = re.compile(r"[^A-Za-z0-9]+")
_FILLED = ("output", "result", "stdout", "said", "returns", "asked")  # where a form can stand
# every case's project before the run; `had` adds to it
PROJECT = (
    *("README.md", "LICENSE", "Makefile", "CHANGELOG.md", "package.json", "pyproject.toml", "config/settings.yaml"),
    *("src/shop/cart.py", "src/shop/prices.py", "src/shop/report.py", "tests/test_cart.py", "tests/test_prices.py"),
    *("app/[slug]/page.tsx", "app/layout.tsx", "docs/guide.md", "docs/my notes.md"),
)


@dataclass(frozen=True)
class ReturnCase:
    """One return, what the run did to the project, and the truth about it."""

    family: str
    id: str
    given: Mapping[str, Any]

    @property
    def truth(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.given["truth"]
        return found


@dataclass(frozen=True)
class JudgedReturn:
    """What the judge makes of a return, in the words of a case's truth."""

    status: str
    verification: str
    summary: str
    files: frozenset[str]
    decisions: tuple[str, ...]
    data: object
    contract: str  # the one that the task requires
    repair: bool
    problems: tuple[str, ...]


def return_cases() -> list[ReturnCase]:
    """Every case of every family, those with several forms taken apart."""
    found: list[ReturnCase] = []
    for path in sorted(RETURNS.glob("*.toml")):
        for given in tomllib.loads(path.read_text("utf-8"))["case"]:
            found += _forms(path.stem.partition("-")[0], given)
    return found


def _forms(family: str, given: dict[str, Any]) -> Iterator[ReturnCase]:
    """A case as it is, or one for each of its forms; a phantom is the same return of a run that wrote nothing."""
    if "forms" not in given:
        yield ReturnCase(family, given["id"], given)
    for number, form in enumerate(given.get("forms", ()), 1):
        text, file = (form, "") if isinstance(form, str) else form
        one = {**given, **{key: _filled(given[key], text) for key in _FILLED if key in given}}
        if file:
            one |= {"wrote": [file], "truth": {**given["truth"], "files": [file]}}
        name = f"{given['id']}/{number}-{_SLUG.sub('-', text).strip('-').lower()[:40]}".rstrip("-")
        yield ReturnCase(family, name, one)
        if phantom := given.get("phantom"):
            missing = {**one, "wrote": [], "absent": one["wrote"], "truth": phantom}
            yield ReturnCase("false", f"{name}/phantom", {**missing, "why": "the same claim, and no such file"})


def _filled(value: str | list[str], form: str) -> str | list[str]:
    return value.replace("@@", form) if isinstance(value, str) else [line.replace("@@", form) for line in value]


def judge_case(case: ReturnCase, folder: Path) -> JudgedReturn:
    """Judge a return by the same functions that judge a run which has ended."""
    root = folder / "project"
    store = Store(str(root), str(folder / "record"))
    folders = store.run_folders(TASK, RUN)
    os.makedirs(folders.place)
    os.makedirs(folders.desk)
    handoff_text = _handoff(case.given)
    handoff = parse_handoff(handoff_text)
    _write_project(root, case.given, Path(folders.record), handoff.deliverables)
    _write_return(case.given, Path(folders.desk), Path(folders.workspace), Path(folders.place), root)
    contract = _contract(case.given, Path(folders.place)) or wanted_contract(handoff)
    spec = {"tree": False, "handoff": handoff_text, "agent": {}, "contract": contract}
    alive = _earlier_run(store, case.given)
    try:
        task = fold(TASK, _events(case.given))
        noticed = collect_return(store, task, folders)
    finally:
        if alive is not None:
            os.close(alive)
    ended = task.current_run
    assert ended is not None
    actor = Actor(store, Config(), {"kind": "test"}, {})
    gathered = gather_evidence(actor, task, ended, Collected(folders, spec, handoff, noticed))
    given = case.given
    every = tuple(sorted(_changed(given)))
    company = ("task 7 (worker)",) if given.get("company") else ()
    changed = () if company else every
    found = replace(
        gathered.found,
        checks=tuple(_check(line) for line in given.get("checks", ())),
        changed=changed,
        work=Work(every, every, company=company),
        read_only=bool(given.get("reads")),
        open_questions=given.get("questions", 0),
    )
    verdict = judge_run(found)
    value, output = gathered.returned.value, gathered.returned.output
    decided = output or value
    return JudgedReturn(
        status=verdict.status,
        verification=verdict.verification.word,
        summary=verdict.summary,
        files=frozenset(fact.path for fact in found.named if _counts(root, fact.path, given)),
        decisions=tuple(one.what for one in (decided.decisions if decided else ())),
        data=value.data if value else None,
        contract=contract or "",
        repair=can_be_mended(verdict, spec),
        problems=tuple(f"{one.code}: {one.message}" for one in verdict.problems),
    )


def differences(case: ReturnCase, judged: JudgedReturn) -> list[str]:
    """Everything in which a verdict differs from the truth."""
    truth, found = case.truth, []
    for name in ("status", "verification"):
        allowed = [truth[name]] if isinstance(truth.get(name), str) else truth.get(name, ())
        if allowed and getattr(judged, name) not in allowed:
            found.append(f"{name} {getattr(judged, name)}, not {' or '.join(allowed)}")
    if "files" in truth and judged.files != frozenset(truth["files"]):
        found.append(f"files {sorted(judged.files)}, not {sorted(truth['files'])}")
    if "decisions" in truth and not _same_decisions(judged.decisions, truth["decisions"]):
        found.append(f"decisions {list(judged.decisions)}, not {truth['decisions']}")
    if "data" in truth and judged.data != truth["data"]:
        found.append(f"data {judged.data!r}, not {truth['data']!r}")
    if "contract" in truth and judged.contract != truth["contract"]:
        found.append(f"contract {judged.contract!r}, not {truth['contract']!r}")
    if "has" in truth and not _has(judged.data, truth["has"]):
        found.append(f"data {judged.data!r} without {truth['has']!r}")
    if "summary" in truth and truth["summary"] not in judged.summary:
        found.append(f"summary {judged.summary[:120]!r} without {truth['summary']!r}")
    if "repair" in truth and judged.repair != truth["repair"]:
        found.append(f"repair {judged.repair}, not {truth['repair']}")
    if "says" in truth and not any(truth["says"] in one for one in judged.problems):
        found.append(f"no problem says {truth['says']!r}")
    return found


def _same_decisions(judged: tuple[str, ...], truth: list[str]) -> bool:
    return len(judged) == len(truth) and all(word in one for word, one in zip(truth, judged, strict=True))


def _has(data: object, part: Mapping[str, Any]) -> bool:
    return isinstance(data, dict) and all(data.get(key) == value for key, value in part.items())


def _counts(root: Path, path: str, given: Mapping[str, Any]) -> bool:
    """Whether a named path is compared with the truth: a folder, and a file that the run deleted, are not."""
    deleted = path in given.get("removed", ())
    try:
        return not deleted and not (root / path).is_dir()
    except (OSError, ValueError):
        return True


def _handoff(given: Mapping[str, Any]) -> str:
    lines = ["# Task Handoff", "", "## Task", given.get("task", "Add refunds to the shop, with tests.")]
    if asked := given.get("asked"):
        lines += ["", "## Expected Deliverables", *(f"- [ ] {line}" for line in asked)]
    if returns := given.get("returns"):
        lines += ["", "## Return Requirements", returns]
    if steps := given.get("steps"):
        lines += ["", "## Plan", *(f"- {line}" for line in steps)]
    return "\n".join(lines) + "\n"


def _write_project(root: Path, given: Mapping[str, Any], record: Path, promised: tuple[Deliverable, ...]) -> None:
    """The project as it was, its baseline, and what the run made of it."""
    for name in {*PROJECT, *given.get("had", ())} - {*given.get("absent", ())}:
        _write(root / name, f"{name} as it was\n")
    (record / "baseline.json").write_text(json.dumps(baseline(str(root), promised)))
    for name in given.get("wrote", ()):
        _write(root / name, f"{name} as the run wrote it\n")
    for name in given.get("touched", ()):  # another inode, so that the clock's grain does not matter
        _write(root / f"{name}.new", (root / name).read_text())
        (root / f"{name}.new").rename(root / name)
    for name in given.get("emptied", ()):
        _write(root / name, "")
    for name in given.get("removed", ()):
        (root / name).unlink()
    for name in given.get("folders", ()):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name, target in given.get("links", {}).items():
        (root / name).symlink_to(target)
    for name in given.get("pipes", ()):
        os.mkfifo(root / name)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _changed(given: Mapping[str, Any]) -> set[str]:
    return {name for key in ("wrote", "emptied", "removed") for name in given.get(key, ())}


def _write_return(given: Mapping[str, Any], desk: Path, workspace: Path, place: Path, root: Path) -> None:
    """What the agent left: documents on its desk, what it printed, and the plan as it marked it."""

    def encoded(key: str) -> bytes:
        text = str(given[key]).replace("{root}", str(root)).replace("{task}", TASK)
        for token, (unit, count) in given.get("expand", {}).items():
            text = text.replace(token, unit * count)
        return _encode(text, given.get("encoding", "utf-8"))

    documents = {"output": "OUTPUT.md", "result": "result.json", "data_json": "data.json"}
    for key in documents.keys() & given.keys():
        (desk / documents[key]).write_bytes(encoded(key))
    if "top" in given:
        (workspace / "OUTPUT.md").write_bytes(encoded("top"))
    if "in_tree" in given:
        (root / "OUTPUT.md").write_bytes(encoded("in_tree"))
    if "instead" in given:
        _put_instead(desk / "OUTPUT.md", given["instead"])
    if "said" in given:
        said = encoded("said").decode("utf-8")
        (place / "stdout").write_text(_stream(given["agent"], said, given.get("ended", "clean")))
    elif _driver(given) != "command":
        (place / "stdout").write_text(_stream(given["agent"], "I have finished.", given.get("ended", "clean")))
    elif "stdout" in given:
        (place / "stdout").write_bytes(encoded("stdout"))
    if steps := given.get("steps_now", given.get("steps")):
        (workspace / "HANDOFF.md").write_text(_handoff({**given, "steps": steps}))


def _put_instead(path: Path, what: str) -> None:
    if what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(what)


def _encode(text: str, encoding: str) -> bytes:
    if encoding == "crlf":
        return text.replace("\n", "\r\n").encode()
    if encoding == "cr":
        return text.replace("\n", "\r").encode()
    if encoding == "bytes":  # each character is a byte
        return text.encode("latin-1")
    return text.encode(encoding, "surrogatepass")


def _driver(given: Mapping[str, Any]) -> str:
    agent = given["agent"]
    return "command" if agent in ("aider", "script") or "said" not in given else str(agent)


def _stream(agent: str, said: str, ended: str) -> str:
    """The JSON lines of a coding agent whose last message is this."""
    clean = ended == "clean"
    error = {"message": "Internal server error"}
    lines: dict[str, list[dict[str, Any]]] = {
        "claude": [
            {"type": "assistant", "message": {"content": [{"type": "text", "text": said}]}},
            {"type": "result", "subtype": "success", "is_error": not clean, "result": said, "api_error_status": 500},
        ],
        "codex": [
            {"type": "item.completed", "item": {"type": "agent_message", "text": said}},
            {"type": "turn.completed", "usage": {}} if clean else {"type": "turn.failed", "error": error},
        ],
        "gemini": [
            {"type": "message", "role": "assistant", "content": said},
            {"type": "result", "status": "success"} if clean else {"type": "result", "status": "error", "error": error},
        ],
        "opencode": [
            {"type": "text", "part": {"text": said}},
            {"type": "step_finish", "part": {"reason": "stop"}}
            if clean
            else {"type": "error", "error": {"data": error}},
        ],
        "goose": [
            {
                "type": "message",
                "message": {"id": "m1", "role": "assistant", "content": [{"type": "text", "text": said}]},
            },
            {"type": "complete", "total_tokens": 9} if clean else {"type": "error", "error": "Internal server error"},
        ],
    }
    return "".join(json.dumps(line) + "\n" for line in lines[agent])


def _contract(given: Mapping[str, Any], place: Path) -> str | None:
    if schema := given.get("schema"):
        (place / "contract.json").write_text(schema)
        return "contract.json"
    found: str | None = given.get("contract")
    return found


def _earlier_run(store: Store, given: Mapping[str, Any]) -> int | None:
    """A run before this one, of which a process may still live."""
    if given.get("earlier") != "alive":
        return None
    place = store.run_folder(TASK, EARLIER)
    os.makedirs(place)
    return detached.hold_life(place)


def _events(given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    by = {"agent": given["agent"], "driver": _driver(given), "timeout": 600.0, "machine": "", "pidns": ""}
    yield {"e": "created", "v": 1, "task": TASK, "handle": 1, "title": "Add refunds", "agent": given["agent"]}
    if earlier := given.get("earlier"):
        yield {"e": "run.created", "run": EARLIER, **by}
        end = {"cause": "exit", "exit": 0} if earlier == "dead" else {"cause": "timeout"}
        yield {"e": "run.ended", "run": EARLIER, **end}
    yield {"e": "run.created", "run": RUN, **by}
    cause = given.get("cause", "exit")
    yield {"e": "run.ended", "run": RUN, "cause": cause, "exit": given.get("exit", 0 if cause == "exit" else None)}


def _check(line: str) -> CheckFact:
    """`red > green: make test` as the check that Overhand ran before and after."""
    colours, _, command = line.partition(": ")
    before, after = ({"green": 0, "red": 1, "?": None}[word] for word in colours.split(" > "))
    return CheckFact("verify", command, after, before)
