"""Everything that can go wrong, as one tree.

    OverhandError            UNKNOWN_ERROR      exit 1
    ├── BadInput             VALIDATION_FAILED  exit 2   wrong usage, unreadable document, bad setting
    ├── Refused              REFUSED            exit 3   a rule said no; nothing was started
    │   ├── CycleDetected    CYCLE_DETECTED
    │   ├── TooDeep          MAX_DEPTH_EXCEEDED
    │   ├── LimitExceeded    LIMIT_EXCEEDED
    │   ├── BudgetExceeded   BUDGET_EXCEEDED    too little is left of a budget to start
    │   ├── NotTrusted       NOT_TRUSTED
    │   ├── NotAllowed       APPROVAL_REQUIRED  only a person may do this
    │   ├── NotShielded      NOT_SHIELDED       a shield is required, and would not hold
    │   ├── StaleRun         STALE_RUN          the report of a run that no longer holds the task
    │   ├── Busy             LOCK_BUSY          another process holds the task
    │   └── StorageFailed    STORAGE_FAILED     full disk, read-only folder, unusable file system
    │       ├── StorageUnavailable  (the same)   full disk, failing disk, no free descriptor: it may work later
    │       └── Damaged      STORAGE_FAILED     a file of the record that is not what was written
    ├── NotFound             FILE_NOT_FOUND     exit 4
    │   ├── TaskNotFound     TASK_NOT_FOUND
    │   └── AgentNotFound    AGENT_NOT_FOUND
    ├── ToolMissing          TOOL_UNAVAILABLE   exit 5
    ├── GitFailed            GIT_FAILED         exit 1   git did not do what we need; the message quotes it
    └── TimedOut             TIMEOUT            exit 124 the command's own --timeout passed
        └── Unanswered       TIMEOUT            nobody answered a function's question in time; it stays open

`message` says what is so, `hint` what to type next; a hint never names a destructive command.
"""

from __future__ import annotations

import errno


class OverhandError(Exception):
    """Something went wrong."""

    code = "UNKNOWN_ERROR"
    exit_status = 1

    def __init__(self, message: str, hint: str = "", **facts: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.facts = facts

    def as_json(self) -> dict[str, object]:
        """The error object that `--json` prints."""
        return {"error": {"code": self.code, "message": self.message, "hint": self.hint, **self.facts}}


class BadInput(OverhandError):
    code = "VALIDATION_FAILED"
    exit_status = 2


class Refused(OverhandError):
    code = "REFUSED"
    exit_status = 3


class CycleDetected(Refused):
    code = "CYCLE_DETECTED"


class TooDeep(Refused):
    code = "MAX_DEPTH_EXCEEDED"


class LimitExceeded(Refused):
    code = "LIMIT_EXCEEDED"


class BudgetExceeded(Refused):
    code = "BUDGET_EXCEEDED"


class NotTrusted(Refused):
    code = "NOT_TRUSTED"


class NotAllowed(Refused):
    code = "APPROVAL_REQUIRED"


class NotShielded(Refused):
    code = "NOT_SHIELDED"


class StaleRun(Refused):
    code = "STALE_RUN"


class Busy(Refused):
    code = "LOCK_BUSY"


class StorageFailed(Refused):
    code = "STORAGE_FAILED"


class StorageUnavailable(StorageFailed):
    """The disk is full or fails, or too many files are open: the same may work later."""


class Damaged(StorageFailed):
    """A file of the record is not what was written: trying again would find the same."""


class NotFound(OverhandError):
    code = "FILE_NOT_FOUND"
    exit_status = 4


class TaskNotFound(NotFound):
    code = "TASK_NOT_FOUND"


class AgentNotFound(NotFound):
    code = "AGENT_NOT_FOUND"


class ToolMissing(OverhandError):
    code = "TOOL_UNAVAILABLE"
    exit_status = 5


class GitFailed(OverhandError):
    code = "GIT_FAILED"


class TimedOut(OverhandError, TimeoutError):
    code = "TIMEOUT"
    exit_status = 124


class Unanswered(TimedOut):
    """Nobody answered `call.ask` in time: a function that lets it pass is parked, the answer is for its next run."""


def from_json(value: dict[str, object]) -> OverhandError:
    """The error that a verb printed with `--json`, as the exception it was."""
    told = value.get("error")
    facts: dict[str, object] = dict(told) if isinstance(told, dict) else {}
    code, message, hint = (str(facts.pop(name, "")) for name in ("code", "message", "hint"))
    kind = next((one for one in _family(OverhandError) if one.code == code), OverhandError)
    return kind(message, hint, **facts)


def _family(one: type[OverhandError]) -> list[type[OverhandError]]:
    """This class and those below it, level by level."""
    found = [one]
    for known in found:
        found += known.__subclasses__()
    return found


EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # says nothing about what was asked for
PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EIO, *EXHAUSTED)  # what a retry may not meet again


def storage_failed(error: OSError, what: str) -> StorageFailed:
    """Say in words what the disk refused."""
    reasons = {
        errno.ENOSPC: ("the disk is full", "Free some space, then type the same command again."),
        errno.EDQUOT: ("the disk quota is used up", "Free some space, then type the same command again."),
        errno.EROFS: ("the file system is read-only", "Use a writable folder: overhand --project DIR …"),
        errno.EACCES: ("permission denied", "Give yourself write permission on it and its folder; try again."),
        errno.EMFILE: ("too many files are open", "Raise the limit (ulimit -n), then type the same command again."),
        errno.EPERM: ("operation not permitted", "Give yourself write permission on it and its folder; try again."),
    }
    why, hint = reasons.get(error.errno or 0, (error.strerror or str(error), "Look at that path, then try again."))
    place = f" ({error.filename})" if error.filename else ""
    kind = StorageUnavailable if error.errno in PASSING else StorageFailed
    return kind(f"{what}: {why}{place}. Nothing was half-written.", hint)
