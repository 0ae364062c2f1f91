"""What a calling agent is told: the verb's facts, fewer of them, and what comes next."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Told = dict[str, Any]

_BRIEF = ("handle", "task_id", "title", "agent", "headline", "status", "verified", "progress", "step", "question",
          "node", "plan")  # fmt: skip
_RESULT = (
    *("task_id", "handle", "title", "agent", "kind", "headline", "status", "verified", "run_state", "cause"),
    *("summary", "data", "deliverables", "decisions", "for_primary", "files_modified", "errors", "next_steps"),
    *("problems", "checks", "unverified", "usage", "output", "folder", "node", "plan"),
)
_MOST = 20  # tasks at rest that a status tells of


def accepted(made: Told) -> Told:
    """A task that was handed over."""
    handle = made["handle"]
    keys = (*_BRIEF[:4], "state", "level", "timeout", "budget", "checks", "contract", "warnings", "folder")
    unchecked = "" if made["checks"] else " No check is set for it, so its result will read as not verified."
    more = f"Task {handle} is accepted; {made['agent']} works on it without you.{unchecked}"
    return {**_some(made, keys), "next": f"{more} It can be waited for, stopped and looked at as {handle}."}


def begun(made: Told) -> Told:
    """A plan that was handed over."""
    keys = (*_BRIEF[:4], "state", "nodes", "strategy", "timeout", "budget", "warnings", "folder")
    handle = made["handle"]
    more = f"Plan {handle} is accepted (nodes: {made['nodes']}); it goes on without you."
    return {**_some(made, keys), "nodes": [], "next": f"{more} Wait for it: plan_run with again: {handle}."}


def planned(found: Told) -> Told:
    """What a plan would do."""
    keys = ("task", "strategy", "merge", "on_failure", "limits", "waves", "commands", "warnings")
    return {**_some(found, keys), "next": "Nothing was run. Without dry_run it is."}


def node(row: Told) -> Told:
    """A node of a plan in a few words."""
    keys = ("node", "agent", "state", "status", "verified", "attempt", "seconds", "tokens", "handle", "question", "why")
    return {key: row[key] for key in keys if row[key] not in (None, "", 0)}


def with_nodes(told: Told, rows: list[Told]) -> Told:
    """A plan and its nodes; what one of them asks comes first."""
    asks = [f"node {row['node']} (task {row.get('handle', '-')})" for row in rows if row.get("question")]
    first = f"{', '.join(asks)} asks something: see nodes. " if asks else ""
    return {**told, "nodes": rows, "next": f"{first}{told['next']}"}


def overview(found: Told) -> Told:
    """The headline screen as rows."""
    groups = found["groups"]
    rows = [brief(one) for name, group in groups.items() if name != "done" for one in group[-_MOST:]]
    needs = len(groups.get("needs you", ()))
    told = f"{needs} need a person: see inbox." if needs else "Nothing needs a person."
    return {"project": found["project"], "counts": found["counts"], "tasks": rows, "next": told}


def brief(row: Told) -> Told:
    """A task in a few words."""
    return {key: row[key] for key in _BRIEF if row.get(key) is not None}


def open_questions(shown: Told) -> list[Told]:
    """What is not answered yet, in full."""
    keys = ("seq", "question", "options", "closed", "via")
    return [_some(one, keys) for one in shown["questions"] if one["answered"] is None]


def waiting(project: str, rows: list[Told]) -> Told:
    """Everything that waits for a person."""
    told = "Ask the person you work for, then pass their words on with answer." if rows else "Nothing waits."
    return {"project": project, "tasks": rows, "next": told}


def not_yet(shown: list[Told], tool: str) -> Told:
    """Not judged in time; or a question came in between."""
    rows = [{**brief(one), "status": one["status"], "questions": open_questions(one)} for one in shown]
    handles = [one["handle"] for one in shown]
    asked = [str(row["handle"]) for row in rows if row["questions"]]
    told = f"Not judged yet; the work goes on. Call {tool} again"
    told += f" with again: {handles[0]}." if tool in ("delegate", "plan_run") else f" with id: {handles}."
    if asked:
        told = f"Task {', '.join(asked)} asks something: see questions, and answer it. {told}"
    first = {**rows[0]} if len(rows) == 1 else {"tasks": rows}
    return {**first, "pending": True, "next": told}


def judged(found: Told, tool: str) -> Told:
    """One result, or several."""
    if "tasks" in found:
        rows = [_one(one, tool) for one in found["tasks"]]
        return {"tasks": rows, "pending": False, "next": " ".join(row["next"] for row in rows)}
    return _one(found, tool)


def _one(found: Told, tool: str) -> Told:
    shown = {**_some(found, _RESULT), "questions": open_questions(found), "pending": found["status"] is None}
    return {**shown, "next": f"Task {found['handle']}: {_next(found, shown['questions'], tool)}"}


def _next(found: Told, questions: list[Told], tool: str) -> str:
    status = found["status"]
    if questions:
        return "it waits for an answer; see questions." + (
            "" if tool == "delegate" else " Ask the person you work for, then use answer."
        )
    if status is None:
        return "it is not judged yet. " + (f"Call {tool} again." if tool != "result" else "Use wait.")
    if status == "completed" and found["verified"] in (None, "none"):
        return "completed, but no check of Overhand's ran: what it claims is not verified. Look before you rely on it."
    if status == "completed":
        return "completed, and checked."
    return f"{status}. `problems` and `for_primary` say why; a person can resume it."


def answered(found: Told) -> Told:
    """An answer that was recorded."""
    told = "Its next run starts by itself." if found["resumed"] else "Whoever asked has it now."
    left = f" Questions still open: {found['left']}." if found["left"] else ""
    return {**found, "next": f"{told}{left} Use wait for the result."}


def unanswered(seq: int) -> Told:
    """Before the client's patience ends."""
    told = f"No answer yet; question {seq} stays open. Call ask again with again: {seq} to wait on, at once."
    return {"seq": seq, "answer": None, "pending": True, "next": told}


def given(found: Told) -> Told:
    """A run's own task."""
    return {**found, "next": "Do it, mark its steps with step, ask what you cannot know, then return with finish."}


def steps(found: Told) -> Told:
    """The plan, or one step of it."""
    progress = found.get("progress")
    if progress is None:
        return {**found, "next": "Go on."}
    left = progress["total"] - progress["done"]
    told = f"{left} of {progress['total']} steps are left." if left else "All steps are done: return with finish."
    return {**found, "next": told}


def finished(found: Told) -> Told:
    """A return that was written."""
    checks = f" These checks run now without you: {'; '.join(found['checks'])}." if found["checks"] else ""
    return {**found, "next": f"OUTPUT.md is written. End your turn now; it is judged when your run ends.{checks}"}


def _some(found: Told, keys: tuple[str, ...]) -> Told:
    return {key: found[key] for key in keys if key in found}
