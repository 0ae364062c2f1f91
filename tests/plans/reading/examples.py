"""Plans in every form: the worked ones with their ids, keys, type words and structure, told in our own words."""

from __future__ import annotations

REVIEW_IN = """\
task: "Look at change #123: is it safe, fast and tidy?"
agents:
  - id: "security-agent"
    capabilities: ["security-analysis", "vulnerability-detection"]
  - id: "perf-agent"
    capabilities: ["performance-analysis", "profiling"]
  - id: "style-agent"
    capabilities: ["lint", "style-check"]
constraints:
  timeout: "10m"
  max_issues_per_category: 20
"""

_REVIEWER = """\
  - id: "{id}"
    agent: "{agent}"
    contract:
      inputs:
        pr_number: 123
        files: ["src/**/*.ts"]
        focus: "{focus}"
      outputs:
        issues: "array of {{severity, file, line, description}}"{more}
        passed: "boolean"
      constraints:
        timeout: "{timeout}"
        max_issues: 20
      verification: "every issue has a place, severity in [low, medium, high, critical]"
    dependencies: []
    status: pending
    result: null
"""
REVIEW_OUT = (
    """\
delegation:
  task: "Look at change #123"
  delegated_to: ["security-agent", "perf-agent", "style-agent"]
  status: pending
subtasks:
"""
    + _REVIEWER.format(
        id="security-review", agent="security-agent", focus="security", timeout="5m", more='\n        summary: "string"'
    )
    + _REVIEWER.format(
        id="perf-review",
        agent="perf-agent",
        focus="performance",
        timeout="5m",
        more='\n        metrics: "object with timing estimates"',
    )
    + _REVIEWER.format(id="style-review", agent="style-agent", focus="style", timeout="3m", more="")
    + """\
interfaces:
  - from: "all_subtasks"
    to: "merge"
    format:
      issues: "array"
      passed: "boolean"
    required_fields: ["issues", "passed"]
merge_plan:
  strategy: aggregate
  conflict_resolution: "All issues in one list; passed only if all passed"
  final_output_format:
    all_issues: "array (combined)"
    passed: "boolean (all must pass)"
    summary: "string (generated)"
failure_handling:
  policy: continue
  max_retries: 1
  fallback: "Give what is there, and say what is missing"
handoff_context:
  - key: "repository"
    value: { "owner": "org", "repo": "project" }
  - key: "base_branch"
    value: "main"
confidence: 0.9
evidence_anchors:
  - "task:split-by-concern"
  - "agent:security-agent:has-security-analysis"
assumptions:
  - "Everybody can read the repository"
  - "Change #123 is there"
"""
)

PIPELINE_IN = """\
task: "Customer records: check them, add to them, keep them"
agents:
  - id: "validator"
  - id: "enricher"
  - id: "persister"
merge_strategy: "sequential"
"""

PIPELINE_OUT = """\
delegation:
  task: "Customer records, step by step"
  delegated_to: ["validator", "enricher", "persister"]
  status: pending
subtasks:
  - id: "validate-data"
    agent: "validator"
    contract:
      inputs:
        data: "raw customer records"
      outputs:
        valid_records: "array of validated records"
        invalid_records: "array with error reasons"
      constraints:
        schema: "customer_v2"
      verification: "valid_records keep to the schema"
    dependencies: []
    status: pending
    result: null
  - id: "enrich-data"
    agent: "enricher"
    contract:
      inputs:
        records: "${validate-data.valid_records}"
      outputs:
        enriched_records: "array with added fields"
      constraints:
        enrich_fields: ["company_size", "industry"]
      verification: "no record lacks one of enrich_fields"
    dependencies: ["validate-data"]
    status: pending
    result: null
  - id: "store-data"
    agent: "persister"
    contract:
      inputs:
        records: "${enrich-data.enriched_records}"
      outputs:
        stored_count: "integer"
        storage_location: "string"
      constraints:
        destination: "customer_db"
      verification: "as many are stored as came in"
    dependencies: ["enrich-data"]
    status: pending
    result: null
interfaces:
  - from: "validate-data"
    to: "enrich-data"
    format:
      records: "array of customer objects"
    required_fields: ["id", "name", "email"]
  - from: "enrich-data"
    to: "store-data"
    format:
      records: "array of enriched customer objects"
    required_fields: ["id", "name", "email", "company_size", "industry"]
merge_plan:
  strategy: custom
  conflict_resolution: "None can arise in a row"
  final_output_format:
    processed: "integer"
    stored: "integer"
    errors: "array"
failure_handling:
  policy: abort
  max_retries: 0
  fallback: null
handoff_context:
  - key: "batch_id"
    value: "batch-2024-01-15"
confidence: 0.85
evidence_anchors:
  - "task:stages"
assumptions:
  - "There is room for more records"
"""

STANDARD = """\
delegation:
  from_agent: orchestrator
  to_agent: codebase-analyzer
  task:
    description: "Follow a login through auth.rs and say what it trusts"
    scope:
      - backend/src/handlers/auth.rs
      - backend/src/middleware/auth.rs
    deliverable: "A list of weak points with file:line"
  context:
    current_phase: "Audit"
    token_budget: 12000
    priority: HIGH
"""

PARALLEL = """\
parallel_delegation:
  coordinator: orchestrator
  agents:
    - agent: codebase-locator
      task: "List every file that handles tokens"
      timeout: 5min
    - agent: codebase-analyzer
      task: "Say how tokens are signed and checked"
      timeout: 10min
    - agent: thoughts-locator
      task: "List the decisions about signing in"
      timeout: 3min
  aggregation_strategy: "When all are there, put them together by priority"
"""

SEQUENTIAL = """\
sequential_delegation:
  workflow: "Mend a bug"
  steps:
    - step: 1
      agent: codebase-locator
      task: "List the files that bug #1234 can be in"
      output_to: step_2_input
    - step: 2
      agent: codebase-analyzer
      task: "Find the cause in {step_2_input}"
      output_to: step_3_input
    - step: 3
      agent: orchestrator
      task: "Mend what was found: {step_3_input}"
"""

AUDIT = """\
parallel_delegation:
  coordinator: orchestrator
  workflow: "Audit"
  token_budget: 55000
  agents:
    - agent: codebase-locator
      task: "List every file that handles tokens, on both sides"
      timeout: 5min
      expected_output: "A list of files by kind, counted"
    - agent: web-search-researcher
      task: "Find out what is advised for tokens this year"
      timeout: 8min
      expected_output: "The five worst mistakes and what helps"
    - agent: thoughts-locator
      task: "List the decisions about signing in"
      timeout: 3min
      expected_output: "The document about sessions"
  aggregation_strategy: "Put together by priority: mistakes, files, decisions"
  checkpoint_after: true
"""

SHORT = """\
plan: Release notes
nodes:
  collect: {agent: worker, task: Collect changes, outputs: {changes: array of strings}, verify: len(data.changes) > 0}
  write:
    agent: writer
    task: "Write notes from ${collect.changes}"
    deliverable: NOTES.md
    verify: {command: "test -s NOTES.md"}
merge: aggregate
on_failure: {policy: retry, max_retries: 1}
"""

ALL = {
    "review-in": REVIEW_IN,
    "review-out": REVIEW_OUT,
    "pipeline-in": PIPELINE_IN,
    "pipeline-out": PIPELINE_OUT,
    "standard": STANDARD,
    "parallel": PARALLEL,
    "sequential": SEQUENTIAL,
    "audit": AUDIT,
    "short": SHORT,
}
AGENTS = (
    *("security-agent", "perf-agent", "style-agent", "validator", "enricher", "persister", "orchestrator"),
    *("codebase-analyzer", "codebase-locator", "thoughts-locator", "web-search-researcher", "worker", "writer"),
)
