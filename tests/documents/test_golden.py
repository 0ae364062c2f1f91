"""One golden file per document, and one example per problem code.

A folder `problems/<code>/` holds the document (or `schema.json` and `data.json`, or `NAME.repeat`: a count, then
the text that is repeated so often) and `problems.json`, everything that is found in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from overhand.documents import (
    Alert,
    Checkpoint,
    CheckpointBudget,
    CheckpointCommand,
    CheckpointDelegation,
    Context,
    Decision,
    Deliverable,
    FileNote,
    Handoff,
    HandoffStep,
    KeyFile,
    Output,
    Problem,
    Quick,
    Request,
    Return,
    Section,
    add_recovery,
    contracts,
    done_entry,
    dump_json,
    lint_document,
    parse_agent_file,
    put_response,
    quick_of,
    render_alert,
    render_checkpoint,
    render_context,
    render_full_checkpoint,
    render_handoff,
    render_output,
    render_quick,
    render_request,
    returns,
    upcoming_entry,
    validate_data,
)
from overhand.documents.problems import CODES
from overhand.questions import record
from overhand.system import merge_patches

if TYPE_CHECKING:
    from overhand.system import Patch

GOLDEN = Path(__file__).parent.parent / "golden" / "documents"
CASES = sorted(folder.name for folder in (GOLDEN / "problems").iterdir())

# Nothing but the parser for its own kind says these: lint would call the file another kind.
PARSERS: dict[str, Callable[[str], list[Problem]]] = {
    "contract-missing": lambda text: contracts.parse_block(text)[1],
    "front-matter-missing": lambda text: parse_agent_file(text)[1],
}


def find_problems(code: str) -> list[Problem]:
    """Everything that is wrong with an example."""
    folder = GOLDEN / "problems" / code
    if (folder / "schema.json").exists():
        schema, data = (json.loads((folder / name).read_text()) for name in ("schema.json", "data.json"))
        return validate_data(schema, data)
    (path,) = (path for path in folder.iterdir() if path.name != "problems.json")
    raw = path.read_bytes()
    if path.suffix == ".repeat":
        count, text = raw.split(b"\n", 1)
        raw = text * int(count)
    if code in PARSERS:
        return PARSERS[code](raw.decode())
    size_of = {"src/tiles.py": 60}.get
    return lint_document(path.name.removesuffix(".repeat"), raw, exists=lambda _: False, size_of=size_of)[1]


@pytest.mark.parametrize("code", CASES)
def test_problem(code: str) -> None:
    expected = json.loads((GOLDEN / "problems" / code / "problems.json").read_text())
    assert [one.as_json() for one in find_problems(code)] == expected
    assert code in {one["code"] for one in expected}


def test_every_code_has_an_example_and_every_example_a_code() -> None:
    assert set(CASES) == set(CODES)
    assert {one.code for code in CASES for one in find_problems(code)} <= set(CODES)


HANDOFF = Handoff(
    task="Cache the tile index so that the map opens without a pause.\n\nKeep the old reader as a fallback.",
    context="The index is read from disk on every pan.\n\n```python\n# this is no heading\nread_index()\n```",
    key_files=(KeyFile("src/atlas.py", "reads the index"), KeyFile("bench/pan.py")),
    constraints=("No new dependency", "At most 64 MB:\nmeasured, not guessed"),
    deliverables=(
        Deliverable("the cache", "src/tiles.py"),
        Deliverable("", "docs/*.md", may_be_unchanged=True),
        Deliverable("`make bench` is faster than before", done=True),
    ),
    return_requirements="- how to empty the cache\n- Use: RESEARCH_OUTPUT contract",
    strategy=(("Mode", "sequential"), ("Complexity", "0.35"), ("Auto-calculated", "true")),
    plan=(
        HandoffStep("x", "Measure the pause"),
        HandoffStep("?", "Choose the eviction rule", question="001.question"),
        HandoffStep("!", "Fill the cache on start", error="the index has no version"),
        HandoffStep("~", "Wire it in"),
        HandoffStep(" ", "Measure again"),
    ),
    contract="- tiles: array of {x, y}",
    previous="The first worker ended because its budget was used up.",
    extra=(Section("Glossary", "## looks like a heading\nA tile is 256 pixels wide."),),
)
OUTPUT = Output(
    title="Cache the tile index",
    status="completed",
    duration="6m",
    agent="worker",
    summary="Tiles are read from a cache that is filled on start.",
    deliverables=(FileNote("src/tiles.py", "the cache; keys are `x|y`"), FileNote("docs/cache.md", "how to empty it")),
    decisions=(Decision("Least recently used", "panning goes back and forth"), Decision("No **locks**")),
    for_primary="Delete `.tiles/` after an upgrade.",
    files_modified=(FileNote("src/atlas.py", "asks the cache first"), FileNote("src/tiles.py")),
    data={"tiles": 12, "sizes": [1.5, 2], "note": "größer"},
    extra=(Section("Timing", "Before 900 ms, after 40 ms."),),
)
CONTEXT = Context(
    task_id="worker-20261115-191500",
    dumped="2026-11-15T19:40:00Z",
    reason="answer-timeout",
    progress="Two of five steps are done.",
    state="The cache is filled but never emptied.",
    blocking="Nobody said which eviction rule to use (001.question).",
    resume="1. Answer the question\n2. Begin with the second step",
    handoff="Next: src/tiles.py:40",
)
RETURN = Return(
    status="needs-input",
    summary="The cache is filled; the eviction rule is open.",
    artifacts=(returns.Artifact("src/tiles.py", "deliverable", "the cache"),),
    metadata={"session_id": "sess_1794770100_a1b2c3", "duration_seconds": 360, "agent_type": "worker"},
    errors=(returns.ReturnError("Which eviction rule?", "needs_input", True, "Answer 001.question."),),
    next_steps="Answer the question.",
    data={"tiles": 12},
)
BLOCKS: dict[str, dict[str, Any]] = {
    "DOCUMENT_ANALYSIS": {
        "source": "docs/atlas.pdf",
        "type": "design note",
        "numbers": [{"metric": "tile width: default", "value": "256 px"}],
        "requirements": [{"req": "tiles expire", "condition": "if the index changes", "priority": "P1"}],
        "decisions_referenced": [{"dec": "PNG", "why": "lossless", "rejected": "JPEG"}],
        "contradictions": [{"says": "page 2 says 256", "contradicts": "page 9 says 512"}],
        "open": [{"item": "licence of the maps", "needs": "legal"}],
    },
    "RESEARCH_OUTPUT": {
        "query": "How large may the cache grow?",
        "confidence": "medium",
        "because": "one city was measured",
        "core_finding": "The cache stays under 40 MB.",
        "evidence": [{"point": "peak size", "value": "38.2 MB | with overhead", "source": "bench/tiles.txt:14"}],
        "conclusions": [{"if": "zoom is capped at 14", "then": "no eviction is needed", "evidence": "peak size"}],
        "gaps": ["cities with more than a million tiles"],
    },
    "REVIEW_OUTPUT": {
        "reviewed": "src/tiles.py",
        "against": "docs/cache.md",
        "pass": "no",
        "issues": [{"severity": "major", "description": "never evicts", "location": "line 40", "fix": "add LRU"}],
        "missing": [{"item": "a test for expiry", "required_by": "docs/cache.md#tests"}],
        "inconsistencies": [{"says": "code allows 64 MB", "but": "docs allow 32 MB"}],
    },
}
QUICK = Quick(
    session="worker-20261115-191500",
    status="2 of 5 steps",
    next="src/tiles.py:40",
    text="The cache is filled on start.\n\n**Next:** is a word that may stand here.",
    state=(done_entry("Measure the pause (bench/pan.py:1-30)"), upcoming_entry("Choose the eviction rule")),
    gotchas=("Keys are strings:\n`x|y`, not tuples", "No locks"),
    extra=(Section("Glossary", "A tile is 256 pixels wide."),),
)
CHECKPOINT = Checkpoint(
    checkpoint_id="ckpt_tiles_2",
    task_id="worker-20261115-191500",
    run_id="sess_1794770100_a1b2c3",
    control_commands_issued=(
        CheckpointCommand("DELEGATE", "scout", status="complete"),
        CheckpointCommand("CHECKPOINT", reason="85 % of the window", status="complete"),
    ),
    delegation_chain=(
        CheckpointDelegation("worker", "scout", "15 files found"),
        CheckpointDelegation("worker", "reviewer"),
    ),
    workflow_state="SOLVE",
    token_budget=CheckpointBudget(136000, 160000),
    iteration=2,
    next_action="Choose the eviction rule in src/tiles.py:40",
    resume_instructions="The cache is filled but never emptied. Begin with the second step.",
    commit="3f2a9c1",
    changed_files=("src/tiles.py", "src/atlas.py"),
    created_at="2026-11-15T19:40:00Z",
)
REQUEST = Request(
    kind="fix",
    title="The map pauses when it is panned",
    what="Panning reads the tile index from disk. It must not (see `#needs-research` in notes.md).",
    why="Two customers gave up on it.",
    context="The index is 12 MB.\n\n```\n#needs-fix in a fence is no item\n```",
    expectations=(Deliverable("asks the cache first", "src/atlas.py"), Deliverable("a figure")),
    criteria=("Panning takes less than 50 ms", "The old reader still works:\n`make old`"),
    requester="anna, from notes/maps.md",
    tags=("#needs-fix", "#P1", "#M"),
    extra=(Section("Glossary", "A tile is 256 pixels wide."),),
)


def added(raw: bytes, *patches: Patch | None) -> bytes:
    """The file after these patches."""
    start, end, new = merge_patches(raw, *patches) or (0, 0, b"")
    return raw[:start] + new + raw[end:]


def answered() -> str:
    """A request that one run lost and another one answered."""
    raw = render_request(REQUEST).encode()
    told = ("2026-11-15T20:02:11Z", "its process died", "sess_1794770100_a1b2c3", "queued again, attempt 2 of 3")
    raw = added(raw, add_recovery(raw, *told))
    files = (FileNote("src/atlas.py", "asks the cache first"), FileNote("", "38 ms instead of 900"))
    link = "../.agent-workspaces/fix-20261115-191500/OUTPUT.md"
    said = "Panning asks a cache.\n\n## Not a section\nA #needs-fix in it is no item."
    return added(raw, put_response(raw, "sess_1794772931_d4e5f6", "completed", said, files, link)).decode()


ALERT = Alert(
    "The tile server is down",
    "The old server was switched off.",
    "Tests that load tiles fail.",
    "until Friday",
    "Use `make tiles-local`; a #needs-fix here is no item.",
    "2026-11-15T19:15:00Z by anna",
)
RENDERED: dict[str, str] = {
    "ALERT_THE_TILE_SERVER_IS_DOWN.md": render_alert(ALERT),
    "FIX_REQUEST_THE_MAP_PAUSES.md": render_request(REQUEST),
    "FIX_REQUEST_ANSWERED.md": answered(),
    "quick.md": render_quick(QUICK),
    "ckpt_tiles_2.json": render_checkpoint(CHECKPOINT),
    "ckpt_tiles_2.md": render_full_checkpoint(CHECKPOINT, quick_of(CHECKPOINT)),
    "HANDOFF.md": render_handoff(HANDOFF),
    "OUTPUT.md": render_output(OUTPUT),
    "CONTEXT.md": render_context(CONTEXT),
    "001.question": record.question_text(
        1, "2026-11-15T19:20:00Z", "Which eviction rule?", ("LRU", "FIFO"), "Choose the eviction rule"
    ),
    "001.answer": record.answer_text(1, "2026-11-15T19:22:00Z", "LRU, as the docs say"),
    "result.json": dump_json(RETURN.as_json()) + "\n",
    **{
        f"{name}.txt": contracts.render_block(contracts.ContractBlock(name, data)) + "\n"
        for name, data in BLOCKS.items()
    },
}


@pytest.mark.parametrize("name", RENDERED)
def test_rendered(name: str) -> None:
    assert RENDERED[name].encode() == (GOLDEN / "rendered" / name).read_bytes()


@pytest.mark.parametrize("name", RENDERED)
def test_what_we_write_has_no_problems(name: str) -> None:
    kind, problems = lint_document(name, RENDERED[name].encode())
    assert kind != "unknown"
    assert problems == []


def test_a_full_document_with_every_section_has_no_problems() -> None:
    assert lint_document("full.md", (GOLDEN / "rendered/full.md").read_bytes()) == ("full", [])
