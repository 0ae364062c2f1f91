"""Plans with something wrong with them, one kind of mistake each; the name says which."""

from __future__ import annotations

import json
from typing import Any

from overhand.plans.yamlsource import load
from plans.reading.examples import PARALLEL, PIPELINE_OUT, REVIEW_IN, REVIEW_OUT, SEQUENTIAL, SHORT, STANDARD

TEAM = """\
plan: Mend the login
token_budget: 100k
nodes:
  find:
    agent: worker
    task: Find where sessions are kept and list the files
    outputs: {files: array of strings, count: integer}
    verify: data.count == len(data.files)
  mend:
    agent: worker
    task: "Mend what is wrong in ${find.files}"
    outputs: {patch: string}
    writes: [src/login.py]
  test:
    agent: writer
    task: "Write a test for ${mend.patch}"
    deliverable: tests/test_login.py
    writes: [tests/**]
merge: sequential
"""


def swapped(text: str, *pairs: str) -> str:
    """`text` with the first of every two words replaced by the second; each must be there."""
    for old, new in zip(pairs[::2], pairs[1::2], strict=True):
        assert old in text, old
        text = text.replace(old, new)
    return text


def _json(text: str, **changes: Any) -> str:
    return json.dumps({**load(text).value, **changes}, indent=2)


YAML: dict[str, str] = {
    "yaml-syntax": swapped(TEAM, "agent: writer", "agent: [writer"),
    "yaml-tab": swapped(TEAM, "    agent: writer", "\tagent: writer"),
    "yaml-colon": swapped(TEAM, "task: Find where", "task: Find: where"),
    "yaml-two-documents": TEAM + "---\n" + TEAM,
    "key-twice": swapped(TEAM, "    agent: writer\n", "    agent: writer\n    agent: worker\n"),
    "aliases-bomb": "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True))
    + TEAM,
    "alias-inside-itself": swapped(TEAM, "outputs: {patch: string}", "outputs: &o {patch: *o}"),
    "tag": swapped(TEAM, "deliverable: tests/test_login.py", "deliverable: !!python/object/apply:os.system [ls]"),
    "too-deep": swapped(TEAM, "deliverable: tests/test_login.py", f"inputs: {{a: {'[' * 150}{']' * 150}}}"),
    "empty": "# nothing yet\n",
    "no-form": "plans: x\nnods: {}\n",
    "not-a-mapping": "- just\n- a list\n",
    "no-nodes": "plan: Nothing to do\nnodes: {}\n",
    "wrong-types": swapped(
        TEAM,
        *(
            "agent: worker\n    task: Find",
            "agent: [worker]\n    task: Find",
            "writes: [tests/**]",
            "writes: {tests: 1}",
        ),
        *("outputs: {patch: string}", "outputs: {patch: 3}", "plan: Mend the login", "plan: [Mend]"),
        *("token_budget: 100k", "max_parallel: some\ncheckpoint_after: 1\ncomplexity: 7"),
    ),
    "unknown-keys": swapped(
        TEAM,
        "    verify:",
        "    verfy:",
        "    deliverable:",
        "    colour: red\n    deliverable:",
        "token_budget:",
        "token_budgets:",
    ),
    "ids-twice": swapped(REVIEW_OUT, 'id: "perf-review"', 'id: "security-review"'),
    "ids-hostile": swapped(TEAM, "  find:", '  "../../etc":', "  mend:", '  "a b":', "  test:", f"  {'x' * 70}:"),
    "ids-reserved": swapped(TEAM, "  find:", "  merge:", "  test:", "  all_subtasks:"),
    "ids-missing": swapped(REVIEW_OUT, '- id: "perf-review"\n    agent: "perf-agent"', '- agent: "perf-agent"'),
    "cycle": swapped(TEAM, "    agent: worker\n    task: Find", "    agent: worker\n    after: [test]\n    task: Find"),
    "cycles-two": """\
plan: Two circles
nodes:
  a: {agent: worker, task: "Use what b gives: ${b}", deliverable: a.md}
  b: {agent: worker, task: "Use what a gives: ${a}", deliverable: b.md}
  c: {agent: worker, task: "Use what e gives: ${e}", deliverable: c.md}
  d: {agent: worker, task: "Use what c gives: ${c}", deliverable: d.md}
  e: {agent: worker, task: "Use what d gives: ${d}", deliverable: e.md}
  f: {agent: worker, task: "Behind both of them", deliverable: f.md, after: [a, c]}
""",
    "waits-for-itself": swapped(TEAM, "    writes: [tests/**]", "    after: [test]\n    inputs: {x: '${test.y}'}"),
    "dependency-unknown": swapped(
        PIPELINE_OUT, 'dependencies: ["validate-data"]', 'dependencies: ["validate-date", "nobody"]'
    ),
    "agent-unknown": swapped(
        TEAM, "agent: writer", "agent: wirter", "merge: sequential", "on_failure: {policy: retry, fallback: worke}"
    ),
    "agent-missing": swapped(
        TEAM,
        "    agent: writer\n",
        "",
        "    agent: worker\n    task: Find",
        "    capabilities: [lint, fly]\n    task: Find",
    ),
    "producer-unknown": swapped(PIPELINE_OUT, "${validate-data.valid_records}", "${validate.valid_records}"),
    "field-unknown": swapped(PIPELINE_OUT, "${enrich-data.enriched_records}", "${enrich-data.enriched_record}"),
    "field-of-a-number": swapped(TEAM, "${find.files}", "${find.count.first}"),
    "reference-malformed": swapped(
        TEAM, "${find.files}", "${find.files and ${}", "${mend.patch}", "${mend..patch} or $${HOME}"
    ),
    "interface-types": swapped(REVIEW_OUT, '      issues: "array"\n', '      issues: "integer"\n'),
    "interface-ends": swapped(
        PIPELINE_OUT, '- from: "validate-data"', '- from: "validate"', '    to: "store-data"', '    to: "enrich-data"'
    ),
    "interface-input-unknown": swapped(
        PIPELINE_OUT, '      records: "array of customer', '      record: "array of customer'
    ),
    "interface-output-missing": swapped(
        REVIEW_OUT, '      passed: "boolean"\n    required_fields', '      metrics: "object"\n    required_fields'
    ),
    "interface-required-missing": swapped(
        REVIEW_OUT,
        '    format:\n      issues: "array"\n      passed: "boolean"\n',
        '    format:\n      passed: "boolean"\n',
        '["issues", "passed"]',
        '["pased"]',
    ),
    "contract-missing": swapped(
        PIPELINE_OUT,
        *('      verification: "valid_records keep to the schema"\n', ""),
        *('      outputs:\n        enriched_records: "array with added fields"\n', ""),
        *("${enrich-data.enriched_records}", "${enrich-data}"),
    ),
    "failure-missing": swapped(
        PIPELINE_OUT, "failure_handling:\n  policy: abort\n  max_retries: 0\n  fallback: null\n", ""
    ),
    "merge-and-failure-values": swapped(
        SHORT,
        "merge: aggregate",
        "merge: {strategy: agregate, quorum: 1, rule: newest, function: 'no such'}",
        "policy: retry, max_retries: 1",
        "policy: ignore, max_retries: -1",
    ),
    "merge-fields": swapped(
        TEAM,
        "merge: sequential",
        "merge: {strategy: custom, rules: {patches: fail}, shape: {all: {from: fils}}}",
        "    deliverable: tests/test_login.py",
        "    outputs: {ok: boolean}",
    ),
    "durations": swapped(REVIEW_OUT, '"5m"', '"5 parsecs"', '"3m"', "0"),
    "budgets": swapped(
        TEAM,
        "token_budget: 100k",
        "token_budget: 10k",
        "    writes: [tests/**]",
        "    token_budget: 8k",
        "    writes: [src/login.py]",
        "    budget: 9,000",
    ),
    "budget-values": swapped(
        TEAM, "token_budget: 100k", "token_budget: plenty", "    writes: [tests/**]", "    token_budget: -1"
    ),
    "timeout-beyond": swapped(TEAM, "token_budget: 100k", "timeout: 5m", "    writes: [tests/**]", "    timeout: 10m"),
    "expressions": swapped(
        TEAM,
        "data.count == len(data.files)",
        "data.count = open('x')",
        "    outputs: {patch: string}",
        "    outputs: {patch: string}\n    verify: [len(data.path) > 0, inputs.x == 1]",
    ),
    "checks-unknown": swapped(
        TEAM, "verify: data.count == len(data.files)", "verify: [{comand: make test}, 3, {}, {exists: a.md}]"
    ),
    "schemas": swapped(
        TEAM,
        "outputs: {patch: string}",
        "outputs: {patch: {type: string, minLength: many}}\n    verify: {schema: {type: object, minProperties: many}}",
    ),
    "writers": swapped(
        TEAM, "    writes: [src/login.py]", "    writes: [src/login.py, tests/test_*.py]", "${mend.patch}", "the login"
    ),
    "writers-many": "plan: All at once\nnodes:\n"
    + "".join(
        f"  n{number}: {{agent: worker, task: Add your part to the list, writes: [LIST.md]}}\n" for number in range(8)
    ),
    "mutates": swapped(TEAM, "    writes: [src/login.py]", "    mutates: true"),
    "vague": swapped(
        PARALLEL, "List every file that handles tokens", "Analyze the code", "timeout: 10min", "timeout: ten"
    ),
    "priority": swapped(STANDARD, "HIGH", "URGENT", "to_agent: codebase-analyzer", "to_agent: code-analyzer"),
    "template-empty": "delegation:\n  from_agent: user\n  to_agnet: worker\n",
    "steps": swapped(
        SEQUENTIAL,
        "step: 3",
        "step: 2",
        "{step_3_input}",
        "{step_4_input}",
        "output_to: step_3_input",
        "output_to: [x]",
    ),
    "steps-later": swapped(SEQUENTIAL, "List the files that bug #1234 can be in", "List the files for {step_3_input}"),
    "outside": swapped(
        SHORT,
        *(
            "deliverable: NOTES.md",
            "deliverable: docs/../../NOTES.md",
            '{command: "test -s NOTES.md"}',
            "{exists: ../x}",
        ),
    ),
    "steps-none": "sequential_delegation: {workflow: Mend a bug, stepps: []}\n",
    "input-form": swapped(
        REVIEW_IN,
        '- id: "perf-agent"',
        '- id: "perf agent"',
        'timeout: "10m"',
        "timeout: soon",
        '["lint", "style-check"]',
        "{lint: yes}",
    ),
    "everything-at-once": swapped(
        TEAM,
        *("agent: writer", "agent: writr", "${find.files}", "${fnd.files}", "${mend.patch}", "${mend.path}"),
        *(
            "verify: data.count == len(data.files)",
            "verify: count ==",
            "    writes: [tests/**]",
            "    timeout: long\n    after: [nobody]",
        ),
        *("merge: sequential", "merge: sequental\nmax_paralel: 3"),
    ),
}
JSON: dict[str, str] = {
    "json-syntax": _json(TEAM).replace('"merge": "sequential"', '"merge": "sequential",'),
    "json-key-twice": _json(TEAM).replace('"agent": "writer",', '"agent": "writer",\n      "agent": "worker",'),
    "json-number": _json(SHORT, complexity=0.5).replace("0.5", "1e999"),
    "json-lines": swapped(_json(PIPELINE_OUT), '"policy": "abort"', '"policy": "abrot"', "${enrich-data.", "${enrich."),
    "json-deep": _json(SHORT, context={"a": 1}).replace('"a": 1', '"a": ' + "[" * 120 + "]" * 120),
    "json-half-a-pair": _json(SHORT, context={"a": "b"}).replace('"b"', '"\\ud800"'),
}
BYTES: dict[str, bytes] = {
    "not-utf8": SHORT.replace("Release", "R\xe9lease").encode("latin-1"),
    "utf16": SHORT.encode("utf-16"),
    "nul": SHORT.encode().replace(b"writer", b"wri\0ter"),
}
