"""What agents do, and what Overhand must make of it: one row per behaviour."""

from __future__ import annotations

from dataclasses import dataclass, field

OUTPUT = "file:$OVERHAND_OUTPUT="
HEAD = "# Task Complete: x\\n\\n**Status:** completed\\n\\n## Summary\\nDone.\\n\\n"
RESEARCH = (
    "=== RESEARCH OUTPUT ===\\nQUERY: Which store?\\nCONFIDENCE: high\\nCORE_FINDING: Files are enough.\\n"
    "EVIDENCE:\\n- reads: 3 ms [SOURCE: bench/run.py]\\nCONCLUSIONS:\\n- IF one host THEN files | EVIDENCE: reads\\n"
    "GAPS:\\n- none\\n=== END ===\\n"
)
REVIEW = (
    "=== REVIEW OUTPUT ===\\nREVIEWED: src/a.py\\nAGAINST: SPEC.md\\nPASS: no\\n"
    "ISSUES:\\n- major: loses data | LOCATION: src/a.py:3 | FIX: sync\\n"
    "MISSING:\\n- tests | REQUIRED_BY: SPEC.md\\n=== END ===\\n"
)
DOCUMENT = (
    "=== DOCUMENT ANALYSIS ===\\nSOURCE: SPEC.md\\nTYPE: specification\\nNUMBERS:\\n- tasks: 3\\n"
    "REQUIREMENTS:\\n- REQ: be quick | CONDITION: always | PRIORITY: P1\\n=== END ===\\n"
)


@dataclass(frozen=True)
class Case:
    """An agent's actions, the delegation, and the judged result."""

    name: str
    actions: tuple[str, ...]
    args: tuple[str, ...] = ()
    status: str = "completed"
    errors: frozenset[str] = frozenset()
    warnings: frozenset[str] | None = frozenset()  # None: not looked at
    facts: dict[str, object] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)  # there before


def wants(*paths: str) -> tuple[str, ...]:
    return tuple(word for path in paths for word in ("--deliverable", path))


def codes(*names: str) -> frozenset[str]:
    return frozenset(names)


CASES = [
    # ---- the doors a return may come through
    Case("good", ("file:good/a.txt=hi", "output"), wants("good/a.txt"), facts={"source": "OUTPUT.md"}),
    Case("top-output", ("top-output",), facts={"source": "OUTPUT.md"}),
    Case("result-json", ("file:rj/a.txt", "result"), wants("rj/a.txt"), facts={"source": "result.json"}),
    Case("stdout-plain", ("print:Working …", "stdout-json"), facts={"source": "stdout"}),
    Case("stdout-fenced", ("stdout-json:fenced",), facts={"source": "stdout"}),
    Case("stdout-prose", ("stdout-json:prose",), facts={"source": "stdout"}),
    Case("data-file", ('data:{"n": 3}', "output"), facts={"data": {"n": 3}}),
    Case("data-section", (f'{OUTPUT}{HEAD}## Data\\n```json\\n{{"n": 4}}\\n```\\n',), facts={"data": {"n": 4}}),
    Case("data-broken", ("data:{]", "output"), status="failed", errors=codes("data-invalid")),
    Case("data-nan", ('data:{"n": NaN}', "output"), status="failed", errors=codes("data-invalid")),
    Case(
        "contradicts", ("output", "result:status=failed"), status="failed", errors=codes("return-contradicts")
    ),
    Case(
        "contradicts-held",
        ("file:ch/a.txt", "output", "stdout-json", "result:status=blocked"),
        wants("ch/a.txt"),
        status="partial",
        errors=codes("return-contradicts"),
    ),
    # ---- output contracts
    Case("research", (OUTPUT + RESEARCH,), ("--kind", "research"), warnings=None,
         facts={"summary": "Files are enough."}),
    Case("review", (OUTPUT + REVIEW,), ("--kind", "review"), warnings=None),
    Case("document", (OUTPUT + DOCUMENT,), ("--kind", "document"), warnings=None),
    Case(
        "research-without", ("output",), ("--kind", "research"),
        status="failed", errors=codes("contract-required"), warnings=None,
    ),
    # ---- claims that stand
    Case("blocked", ("output:status=blocked",), status="blocked", facts={"headline": "needs you"}),
    Case("needs-input", ("output:status=needs_input",), status="needs-input", facts={"headline": "needs you"}),
    Case("partial", ("output:status=partial",), status="partial", facts={"headline": "failed"}),
    Case("failed", ("output:status=failed",), status="failed", facts={"headline": "failed"}),
    Case(
        "blocked-red", ("output:status=blocked",), ("--verify", "false"),
        status="blocked", errors=codes("check-failed"),
    ),
    # ---- deliverables
    Case("false-claim", ("claim:fc.txt",), status="failed", errors=codes("file-missing")),
    Case("phantom", ("claim:ph.txt",), wants("ph.txt"), status="failed", errors=codes("deliverable-missing")),
    Case(
        "half", ("file:half/a.txt", "output"), wants("half/a.txt", "half/b.txt"),
        status="partial", errors=codes("deliverable-missing"),
    ),
    Case(
        "untouched", ("output",), wants("un/a.txt"), files={"un/a.txt": "old\n"},
        status="failed", errors=codes("deliverable-untouched"),
    ),
    Case(
        "same-bytes", ("file:sb/a.txt=old", "output"), wants("sb/a.txt"), files={"sb/a.txt": "old"},
        warnings=codes("deliverable-same-content"),
    ),
    Case("may-be", ("output",), wants("mb/a.txt (may be unchanged)"), files={"mb/a.txt": "old\n"}),
    Case("empty", ("touch:em/a.txt", "output"), wants("em/a.txt"), status="failed", errors=codes("deliverable-empty")),
    Case("names-outside", ("output:file=/etc/hostname",), status="failed", errors=codes("file-outside")),
    Case("link-out", ("output",), wants("lo/link"), status="failed", errors=codes("deliverable-outside")),
    Case("glob", ("file:gl/a.txt", "file:gl/b.txt", "output"), wants("gl/*.txt")),
    Case("glob-none", ("output",), wants("gn/*.txt"), status="failed", errors=codes("deliverable-missing")),
    Case("glob-old", ("file:go/b.txt", "output"), wants("go/*.txt"), files={"go/a.txt": "old\n"}),
    Case("folder", ("file:fo/b.txt", "output"), wants("fo/"), files={"fo/a.txt": "old\n"}),
    Case(
        "folder-old", ("output",), wants("fu/"), files={"fu/a.txt": "old\n"},
        status="failed", errors=codes("deliverable-untouched"),
    ),
    Case("pipe", ("output",), wants("pi/pipe"), status="failed", errors=codes("deliverable-missing")),
    Case("prose", ("output",), wants("a short note on what was found")),
    # ---- clumsy, worthless, violent
    Case("clumsy", ("file:cl/a.txt", "clumsy"), wants("cl/a.txt"), warnings=None),
    Case("only-prose", ("file:op/a.txt", "clumsy:prose"), wants("op/a.txt"), status="partial",
         errors=codes("return-missing", "status-missing", "summary-missing"), warnings=None),
    Case("rubbish", ("rubbish",), status="failed",
         errors=codes("return-missing", "status-missing", "summary-missing"), warnings=None),
    Case("folder-output", ("file:$OVERHAND_OUTPUT/x", "result"), facts={"source": "result.json"}),
    Case("folder-result", ("file:$OVERHAND_WORKSPACE/result.json/x", "file:$OVERHAND_WORKSPACE/CONTEXT.md/x"),
         status="failed", errors=codes("return-missing")),
    Case("nothing", ("print:I did it all, trust me.",), status="failed", errors=codes("return-missing")),
    Case(
        "dies", ("die:KILL",), status="failed", errors=codes("return-missing", "exit-not-zero"),
        facts={"cause": "killed"},
    ),
    Case("dies-done", ("output", "die:SEGV"), status="failed", errors=codes("exit-not-zero")),
    Case("exit-3", ("output", "exit:3"), status="failed", errors=codes("exit-not-zero")),
    Case(
        "exit-3-checked", ("output", "exit:3"), ("--verify", "true"),
        warnings=codes("exit-not-zero"), facts={"verification": "passing"},
    ),
    # ---- checks
    Case("green", ("output",), ("--verify", "true", "--verify", "test -d ."), facts={"verification": "passing"}),
    Case(
        "some", ("output",), ("--verify", "true", "--verify", "false"),
        status="failed", errors=codes("check-failed"), facts={"verification": "failing"},
    ),
    Case(
        "already-red", ("output",), ("--verify", "false"),
        status="failed", errors=codes("check-failed"), facts={"verification": "failing"},
    ),
    Case("mended", ("file:me/a.txt", "output"), ("--verify", "test -s me/a.txt"), facts={"verification": "passing"}),
    Case(
        "broken-by-it", ("file:br/a.txt", "output"), ("--verify", "test ! -e br/a.txt"),
        status="failed", errors=codes("check-failed"),
    ),
    Case(
        "hanging-check", ("output",), ("--verify", "exec sleep 600", "--set", "limits.check_timeout=0.2s"),
        status="failed", errors=codes("check-failed"), facts={"verification": "failing"},
    ),
    # ---- the plan's steps
    Case("steps", ("step:1", "step:2", "output"), ("--step", "Look", "--step", "Lift")),
    Case("step-open", ("step:1", "output"), ("--step", "Look", "--step", "Lift"), warnings=codes("plan-step-open")),
    Case(
        "step-failed", ("step:1=!", "step:2", "output"), ("--step", "Look", "--step", "Lift"),
        status="failed", errors=codes("plan-step-failed"),
    ),
    # ---- time; who does something first has enough of it to be kept from the processor for a while
    Case(
        "late-partial", ("file:lp/a.txt", "hang"), ("--timeout", "10s", *wants("lp/a.txt")), status="partial",
        errors=codes("return-missing"), facts={"cause": "timeout"},
    ),
    Case(
        "late-failed", ("hang",), ("--timeout", "0.2s"), status="failed",
        errors=codes("return-missing"), facts={"cause": "timeout"},
    ),
    Case(
        "late-done", ("output", "hang"), ("--timeout", "10s"),
        warnings=codes("exit-unknown"), facts={"cause": "timeout"},
    ),
]  # fmt: skip
