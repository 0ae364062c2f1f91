"""What a check of a plan finds: problems, each with its code and its line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from overhand.documents import Problem, warning, wrong
from overhand.plans.model import Plan
from overhand.plans.values import meant

if TYPE_CHECKING:
    from overhand.plans.reader import Lines

CODES: dict[str, str] = {
    # the file
    "plan-too-large": "the file is larger than a plan may be",
    "plan-encoding": "the file is not UTF-8 text",
    "plan-syntax": "the file is neither valid YAML nor valid JSON",
    "plan-deep": "values are nested too deeply",
    "plan-aliases": "aliases make the file too large, or contain themselves",
    "plan-tag": "a YAML tag asks for something that no plan holds",
    "plan-key-twice": "a key occurs twice in one mapping",
    "plan-form": "none of the forms of a plan was recognised",
    # single values
    "plan-type": "a value has the wrong type",
    "plan-value": "a value is none of those that are allowed",
    "plan-key": "a key is not part of the form",
    "plan-missing": "something that the form needs is missing",
    "plan-duration": "a time is not a duration",
    "plan-budget-value": "a budget is not a number of tokens",
    "plan-id": "an id cannot name a node",
    "plan-id-twice": "two nodes have one id",
    "plan-id-reserved": "an id has a meaning of its own",
    # how nodes hang together
    "plan-empty": "the plan has no nodes",
    "plan-ref": "a `${…}` cannot be read",
    "plan-ref-self": "a node refers to itself",
    "plan-node-unknown": "a node that is named does not exist",
    "plan-field-unknown": "a field that is named does not exist",
    "plan-cycle": "nodes wait for each other in a circle",
    "plan-interface": "what one node gives does not fit what another takes",
    "plan-agent-unknown": "an agent that is named does not exist",
    "plan-agent-missing": "a node has no agent, and none has what it needs",
    "plan-expression": "an expression cannot be read",
    "plan-schema": "a JSON Schema is not one",
    "plan-outside": "a file that must be there lies outside the project",
    "plan-depth": "the nodes would be delegated too deeply",
    "plan-budget": "the nodes may use more than the plan",
    "plan-timeout": "a node may take longer than the plan",
    "plan-custom": "a custom merge has nothing that merges",
    # what makes a delegation worth starting
    "plan-contract": "a node promises nothing",
    "plan-verification": "nobody checks what a node gives back",
    "plan-failure": "the plan does not say what happens when a node fails",
    "plan-writers": "nodes that might run at once write the same file",
    "plan-mutates": "a node changes things and does not say which",
    "plan-unmerged": "something of the merge cannot be filled",
    "vague-task": "a task is too general to be done by somebody else",
    "no-deliverable": "a node is asked for nothing that could be checked",
    "no-budget": "the nodes of a workflow have no token budget",
}
_SUGGESTIONS = 50


class Findings:
    """What was found, with lines where they are known."""

    def __init__(self, plan: Plan, lines: Lines | None) -> None:
        self.plan = plan
        self.lines = lines
        self.problems: list[Problem] = []
        self._unknown: dict[tuple[str, str], str] = {}

    def wrong(self, code: str, message: str, line: int | None, fix: str) -> None:
        """Note an error; one without a line is reported at the beginning of the file."""
        self.problems.append(wrong(code, message, line or self.of_plan(), fix))

    def warn(self, code: str, message: str, line: int | None, fix: str) -> None:
        self.problems.append(warning(code, message, line or self.of_plan(), fix))

    def of_node(self, id: str, name: str = "", *more: str | int) -> int | None:
        if self.lines is None:
            return self.plan.nodes[id].at or None if id in self.plan.nodes else None
        return self.lines.node(id, name, *more)

    def of_plan(self, name: str = "", *more: str | int) -> int | None:
        return self.lines.plan(name, *more) if self.lines else None

    def meant(self, kind: str, name: str, known: Iterable[str]) -> str:
        """` Did you mean X?`: looked for once for each name, and not for hundreds."""
        key = (kind, name)
        if key not in self._unknown:
            self._unknown[key] = meant(name, known) if len(self._unknown) < _SUGGESTIONS else ""
        return self._unknown[key]
