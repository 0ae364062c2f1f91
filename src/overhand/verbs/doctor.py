"""`doctor`: what is not as it should be here, why it matters, and what to type; `--fix` asks before each step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overhand.errors import Busy, OverhandError, Refused
from overhand.items import sync
from overhand.policy import caller
from overhand.supervisor import client
from overhand.system.files import write_file
from overhand.verbs import Answer, Session, examine
from overhand.verbs.reconcile import looks_dead, needs_supervisor, refresh

if TYPE_CHECKING:
    from collections.abc import Callable

    from overhand.verbs.examine import Finding

_PATIENCE = 20.0  # seconds


def doctor(session: Session, fix: bool = False) -> Answer:
    """Look at everything; with `fix`, offer what can be mended without losing anything."""
    if fix:
        caller.require_person(caller.caller(session.store), "Mending a project")
        if session.confirm is None:
            raise Refused(
                "`doctor --fix` asks before it does anything, and there is nobody to ask.",
                "Run it on a terminal; without --fix it only looks.",
            )
    found = list(examine.everything(session))
    done, failed = _mend(session, found) if fix else ([], [])
    if done:
        found = list(examine.everything(session))
    problems = sum(one.level == examine.PROBLEM for one in found)
    payload = {
        "schema": "overhand.doctor/1",
        "problems": problems,
        "notes": len(found) - problems,
        "findings": [one.as_json() for one in found],
        "fixed": done,
        "failed": failed,
        **examine.facts(session),
    }
    return Answer(payload, 1 if problems else 0)


def _mend(session: Session, found: list[Finding]) -> tuple[list[str], list[str]]:
    """What a person agreed to and what came of it; nothing here removes anything."""
    done: list[str] = []
    failed: list[str] = []
    for one in found:
        if one.fix not in REMEDIES or session.confirm is None:
            continue
        sentence, remedy = REMEDIES[one.fix]
        if not session.confirm(f"{one.what}\n  {sentence}?"):
            continue
        try:
            remedy(session, one)
            done.append(one.what)
        except OverhandError as error:
            failed.append(f"{one.what} {error.message}")
    return done, failed


def _settle(session: Session, one: Finding) -> None:
    """Whoever agreed to it waits longer for a supervisor that is behind than who only looks."""
    session.patience = _PATIENCE
    task = refresh(session, session.store.task(one.task))
    current = task.current_run
    if current is not None and not current.has_ended and looks_dead(session, task):
        raise Busy("The supervisor has not come to it yet.")


def _supervise(session: Session, _one: Finding) -> None:
    client.hand_over(session.store, [task.id for task in session.store.tasks() if needs_supervisor(task)])


def _ignore(session: Session, _one: Finding) -> None:
    write_file(f"{session.store.workspaces}/.gitignore", "*\n")


def _show_tag(session: Session, one: Finding) -> None:
    sync.show(session.store, caller.caller(session.store).by(session.via), one.task)


REMEDIES: dict[str, tuple[str, Callable[[Session, Finding], None]]] = {
    "settle": ("Record how it ended", _settle),
    "supervise": ("Start a supervisor", _supervise),
    "ignore": ("Write it", _ignore),
    "tag": ("Bring the tag in line with the record", _show_tag),
}
