"""Tolerant reading: what agents and people really write."""

from __future__ import annotations

import pytest

from overhand.documents import (
    Deliverable,
    FileNote,
    Handoff,
    HandoffStep,
    Output,
    Problem,
    as_errors,
    contract_for_kind,
    find_return,
    ipc,
    is_vague,
    lint_document,
    lint_handoff,
    parse_agent_file,
    parse_context,
    parse_handoff,
    parse_output,
    parse_question,
    parse_return,
    validate_data,
    wanted_contract,
)
from overhand.documents.contracts import CONTRACTS, block_template, parse_block
from overhand.documents.returns import return_from_output


def codes(problems: list[Problem]) -> list[str]:
    return [one.code for one in problems]


def test_output_in_other_words() -> None:
    found, problems = parse_output(
        "# TASK COMPLETE: Tidy up\n\n- **Status**: `Needs_Input` | **Duration:** 5 min | **Agent:** `worker`\n\n"
        "## FILES MODIFIED:\n* src/a.py: moved\n* `b c.txt` — new\n* None\n\n## Risks\nnone known\n\n"
        "### Deeper\n## 1. Summary\nMoved things.\n\n## Deliverables\n"
        "| File | What | Lines |\n| :--- | --- | ---: |\n| `a|b.py` | pipes | 3 |\n| plain.py | no ticks | 4 |\n"
        "| **bold.py** | x | 5 |\n\n## Decisions\n- **Kept:** it works\n- Dropped X — unused\n- All else stays\n"
    )
    assert problems == []
    assert (found.title, found.status, found.duration, found.agent) == ("Tidy up", "needs-input", "5 min", "worker")
    assert found.summary == "Moved things."
    assert found.files_modified == (FileNote("src/a.py", "moved"), FileNote("b c.txt", "new"))
    assert found.deliverables == (
        FileNote("a|b.py", "pipes | 3"),
        FileNote("plain.py", "no ticks | 4"),
        FileNote("bold.py", "x | 5"),
    )
    assert [(one.what, one.why) for one in found.decisions] == [
        ("Kept", "it works"),
        ("Dropped X", "unused"),
        ("All else stays", ""),
    ]
    assert [(one.title, one.body) for one in found.extra] == [("Risks", "none known\n\n### Deeper")]


def test_prose_is_not_taken_for_a_path() -> None:
    text = "## Summary\nx\n## Deliverables\n- Fixed the login\n- `npm run build` — passes\n- See README.md for more\n"
    assert [one.path for one in parse_output(text)[0].deliverables] == ["", "", ""]


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("Status: COMPLETED", "completed"),
        ("**Status:** ✅ completed (all tests pass)", "completed"),
        ("**Status**: Needs input", "needs-input"),
        ("> **Status:** *failed*", None),
        ("```\n**Status:** completed\n```", None),
        ("**Status:** completed | partial | failed", None),
        ("**Status:** completed, but two tests fail", None),
        ("**Status:** 50 % complete", None),
        ("## Status\npartial", "partial"),
        ("**Status:** canceled", "cancelled"),
        ("**Status:** succeeded.", "completed"),
        ("**Status:** not completed", None),
        ("**Status:** incompletely", None),
    ],
)
def test_status(line: str, status: str | None) -> None:
    assert parse_output(f"# Task Complete: x\n{line}\n\n## Summary\ny\n")[0].status == status


def test_a_contract_block_alone_is_an_output() -> None:
    block = (
        "=== REVIEW OUTPUT ===\nREVIEWED: a.py\nAGAINST: spec\nPASS: no\n\n"
        "ISSUES:\n- **major**: slow | FIX: cache\n=== END ===\n"
    )
    for text in (block, f"```\n{block}```\n", block.lower().replace("reviewed", "REVIEWED")):
        found, _ = parse_output(text)
        assert (found.status, found.contract) == ("completed", "REVIEW_OUTPUT")
    found, problems = parse_output(block)
    assert problems == []
    assert found.summary == "PASS: no for a.py: 1 major issues, 0 missing, 0 inconsistencies."
    assert found.data == {
        "reviewed": "a.py", "against": "spec", "pass": "no", "missing": [], "inconsistencies": [],
        "issues": [{"severity": "major", "description": "slow", "fix": "cache"}],
    }  # fmt: skip


def test_a_block_beside_sections_is_the_data_also_inside_a_fence() -> None:
    block = (
        "=== RESEARCH OUTPUT ===\nQUERY: q\nCONFIDENCE: [High] BECAUSE r\nCORE_FINDING: f\nGAPS: none\n=== END ===\n"
    )
    head = "# Task Complete: x\n**Status:** partial\n\n## Summary\nMine.\n"
    found, problems = parse_output(f"{head}\n{block}\n## For Primary\nread it\n")
    assert problems == []
    assert (found.status, found.summary, found.for_primary) == ("partial", "Mine.", "read it")
    assert found.contract == "RESEARCH_OUTPUT"
    assert parse_output(f"{head}\n```\n{block}```\n")[0].contract == "RESEARCH_OUTPUT"
    # A plain block goes before one in a fence; and without a status, one in a fence below a heading claims nothing.
    other = block.replace("RESEARCH OUTPUT", "REVIEW OUTPUT")
    assert parse_output(f"{head}\n```\n{other}```\n\n{block}")[0].contract == "RESEARCH_OUTPUT"
    assert parse_output(f"# x\n\n## Summary\ny\n\n```\n{block}```\n")[0].status is None


def test_handoff_in_other_words() -> None:
    found = parse_handoff(
        "# task handoff\n\n## PLAN\n<!-- - [ ] not a step -->\n1. [X] Read\n   - [?] Ask (IPC: 001.question)\n"
        "* [!] Write — disk — full\n```\n- [ ] not a step\n```\n- no box\n\n## Task:\nDo it well enough.\n\n"
        "## Expected deliverables\n- [x] `src/a b.py`: code\n- [ ] `docs/**` \u2013 pages (may be unchanged)\n"
        "- `x.py` updated\n- [ ] `make test` passes\n- [ ] Tests\n\n## Key Files\n- src/a.py: entry\n- `b.md`\n"
    )
    assert found.task == "Do it well enough."
    assert found.plan == (
        HandoffStep("x", "Read"),
        HandoffStep("?", "Ask", question="001.question"),
        HandoffStep("!", "Write — disk", error="full"),
    )
    assert [step.line for step in found.plan] == [5, 6, 7]
    assert found.deliverables == (
        Deliverable("code", "src/a b.py", done=True),
        Deliverable("pages", "docs/**", may_be_unchanged=True),
        Deliverable("updated", "x.py"),
        Deliverable("`make test` passes"),
        Deliverable("Tests"),
    )
    assert [(one.path, one.why) for one in found.key_files] == [("src/a.py", "entry"), ("b.md", "")]


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("Fix the login page", "Fix the login page"),
        ("# Fix the login page\n\nIt is slow.\n", "Fix the login page\n\nIt is slow."),
        ("# Task Handoff: Fix it\n\nIt is slow.\n", "Fix it\n\nIt is slow."),
        ("", ""),
    ],
)
def test_a_handwritten_handoff(text: str, task: str) -> None:
    assert parse_handoff(text).task == task


def test_handoff_title_and_contract() -> None:
    found = Handoff("Fix the login. Then rest.\nMore", return_requirements="Use: `research_output` contract (1K)")
    assert found.title == "Fix the login"
    assert wanted_contract(found) == "RESEARCH_OUTPUT"
    assert wanted_contract(Handoff("x")) is None
    assert len(Handoff("word " * 60).title) <= 80


def test_strict_turns_warnings_into_errors() -> None:
    problems = lint_handoff("## Task\nFix it\n")
    assert {one.level for one in problems} == {"warning"}
    assert {one.level for one in lint_handoff("## Task\nFix it\n", strict=True)} == {"error"}
    assert codes(as_errors(problems)) == codes(problems)


def test_context_reasons() -> None:
    text = (
        "**Task ID:** a-1\n**Dumped:** now\n**Reason:** {}\n## Progress\nx\n## Current State\ny\n## How to resume\nz\n"
    )
    assert parse_context(text.format("IPC timeout | error"))[0].reason == "answer-timeout"
    assert parse_context(text.format("Budget exhausted"))[0].reason == "budget"
    assert codes(parse_context(text.format("bored"))[1]) == ["reason-unknown"]


@pytest.mark.parametrize(
    ("value", "status", "expected"),
    [
        ({"status": "Completed", "summary": "x"}, "completed", []),
        ({"status": "done", "summary": "x", "artifacts": ["a.py"]}, "completed", ["status-synonym"]),
        ({"status": "blocked", "summary": "x", "errors": [{"type": "needs_input", "message": "?"}]}, "needs-input", []),
        ({"summary": "x"}, None, ["field-missing"]),
        (
            {"status": 3, "summary": "", "artifacts": [{}, 7], "errors": "no", "metadata": []},
            None,
            ["field-type", "field-missing", "field-type", "field-missing", "field-type", "field-type"],
        ),
    ],
)
def test_returns(value: object, status: str | None, expected: list[str]) -> None:
    found, problems = parse_return(value)
    assert found is not None
    assert found.status == status
    assert codes(problems) == expected


@pytest.mark.parametrize(
    "text",
    [
        'x {"status": "partial", "summary": "old"} y {"status": "completed", "summary": "new"} z',
        'I used { and " a lot.\n\n```json\n{"summary": "new", "status": "completed"}\n```\n',
        '{"type": "wrap", "inner": {"status": "completed", "summary": "new"}}',
        '{"status": "bad", "summary": nope}\n{"status": "completed", "summary": "new"}\n{"status": "x"} }}}',
        '{"status": "completed", "summary": "new", "data": {"status": "a", "summary": "inner"}}',
        '{"status": "completed", "summary": "new", "note": "a } brace \\" {"}',
    ],
)
def test_the_last_return_is_found(text: str) -> None:
    found, _ = parse_return(find_return(text))
    assert found is not None
    assert (found.status, found.summary) == ("completed", "new")


def test_no_return_is_found() -> None:
    assert find_return('{"status": 1} {"summary": 2} "status" "summary"') is None
    assert find_return("done") is None


def test_durations_convert() -> None:
    for text, seconds in (("90s", 90), ("12 minutes", 720), ("2h", 7200), ("about 5 min", 300), ("soon", None)):
        value = return_from_output(Output(duration=text))
        assert value.metadata.get("duration_seconds") == seconds


def test_contract_tolerance() -> None:
    block, problems = parse_block(
        "=== document_analysis ===\n**SOURCE:** a.pdf\nTYPE: note\nNUMBERS:\n* pages: 12\n"
        "REQUIREMENTS:\n- must be fast | PRIORITY: p1\n- REQ: a|b | CONDITION: always\n"
        "OPEN:\n- who pays\n  for it\n=== END ===\n"
    )
    assert problems == []
    assert block is not None
    assert block.data["numbers"] == [{"metric": "pages", "value": "12"}]
    assert block.data["requirements"] == [
        {"req": "must be fast", "priority": "P1"},
        {"req": "a|b", "condition": "always"},
    ]
    assert block.data["open"] == [{"item": "who pays for it"}]
    assert block.summary == "note of a.pdf: 1 number, 2 requirements, 0 contradictions, 1 open."


def test_contract_kinds() -> None:
    assert contract_for_kind("QA") == contract_for_kind("audit") == "REVIEW_OUTPUT"
    assert contract_for_kind("summary") == "DOCUMENT_ANALYSIS"
    assert contract_for_kind("exploration") == "RESEARCH_OUTPUT"
    assert contract_for_kind("implementation") is contract_for_kind(None) is None


def test_validate_data_reports_all_at_once() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"items": {"enum": [1]}}}}
    assert validate_data(schema, {"a": 1, "b": [1]}) == []
    assert len(validate_data(schema, {"a": "x", "b": [1, 2, 3]})) == 3


def test_agent_files_keep_words_that_yaml_would_change() -> None:
    found, problems = parse_agent_file("---\nname: a\nmodel: no\nsince: 2026-01-01\nflag: true\n---\nrole\n")
    assert problems == []
    assert found is not None
    assert found.fields == {"name": "a", "model": "no", "since": "2026-01-01", "flag": True}
    assert (found.settings, found.prompt) == ({}, "role")


def test_agent_file_reports_all_at_once() -> None:
    text = "---\nname: a b\ncapabilities: 1\ncdp: 1\noverhand:\n  driver: 3\n  command: []\n  reentrant: maybe\n---\n"
    found = [(one.code, one.line) for one in parse_agent_file(text)[1]]
    assert found == [
        ("agent-name", 2),
        *(("agent-field", line) for line in (3, 4, 6, 7, 8)),
        ("agent-prompt-missing", 9),
    ]


@pytest.mark.parametrize(
    ("name", "raw", "kind"),
    [
        ("x/HANDOFF.md", b"", "handoff"),
        ("output.md", b"", "output"),
        ("draft.md", b"# Task Handoff\n", "handoff"),
        ("draft.md", b"\n# Task Complete: x\n", "output"),
        ("draft.md", b"# Worker Context Dump\n", "context"),
        ("a.json", b'{"seq": 1, "question": "?"}', "question"),
        ("a.json", b'{"seq": 1, "answer": "!"}', "answer"),
        ("a.json", b'{"status": "completed"}', "return"),
        ("12.question", b"", "question"),
        ("a.json", b'{"checkpoint_id": "x", "status": "completed"}', "checkpoint"),
        ("ckpt_a.json", b"", "checkpoint"),
        ("runs/x/handoff.md", b"## Quick Handoff\n", "quick"),
        ("draft.md", b"## \xf0\x9f\x93\x8b QUICK HANDOFF (100 words)\n", "quick"),
        ("draft.md", b"# Sprint 3 - Checkpoint\n## Quick Handoff\n", "full"),
        ("agents/a.md", b"---\nname: a\n---\nx", "agent"),
        ("a.txt", b"=== RESEARCH OUTPUT ===\n", "contract"),
        ("a.txt", b"hello", "unknown"),
        ("a.json", b"[1]", "unknown"),
    ],
)
def test_kind_of_document(name: str, raw: bytes, kind: str) -> None:
    found, problems = lint_document(name, raw, strict=True)
    assert found == kind
    assert all(one.level == "error" for one in problems)
    if kind == "unknown":
        assert codes(problems) == ["unknown-document"]


def test_question_numbers() -> None:
    good = '{"seq": 1.0, "timestamp": "2026-02-25 11:30:00+01:00", "question": "q", "options": null}'
    found, problems = parse_question(good, 1)
    assert (found, problems) == (ipc.QuestionFile(1, "2026-02-25 11:30:00+01:00", "q"), [])
    for bad in ("0", "1.5", "true", "1e999", '"1"'):
        assert parse_question(good.replace("1.0", bad))[0] is None


@pytest.mark.parametrize("name", CONTRACTS)
def test_a_template_is_read_and_not_taken_for_an_answer(name: str) -> None:
    block, problems = parse_block(block_template(name))
    assert block is not None
    assert (block.name, {one.code for one in problems}) == (name, {"contract-value"})


def test_a_handoff_in_a_fence_is_read_without_it() -> None:
    inside = "# Task Handoff\n\n## Task\nStream a.py.\n\n## Context\n```sh\nmake\n```\n"
    for fence in ("```markdown", "````", "~~~md"):
        mark = fence.rstrip("markdown")
        assert parse_handoff(f"{fence}\n{inside}{mark}\n") == parse_handoff(inside)
    quoted = f"Do as this says:\n\n```markdown\n{inside}```\n\nSoon."
    assert parse_handoff(quoted).task != "Stream a.py."


@pytest.mark.parametrize(
    ("task", "vague"),
    [
        ("Write hello.txt", False),
        ("修复登录页面的错误并添加测试", False),
        ("修复", True),
        ("Check the codebase", True),
        ("[Clear, specific task description]", True),
        ("Fix it", True),
        ("Mend the login of the site", False),
    ],
)
def test_what_is_too_vague(task: str, vague: bool) -> None:
    assert is_vague(task) == vague
