"""What becomes of an item whose run did not complete: it is queued again a few times, or waits for a person."""

from __future__ import annotations

from overhand.record import Judged, Notice, Requeued, StageSet
from overhand.system import epoch_of, now_stamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overhand.documents import Return
    from overhand.record import Event, Run, Task

ATTEMPTS = 3
BACKOFF = (5.0, 60.0)  # seconds before the second and the third attempt
_DIED = ("lost", "killed")  # not ended by Overhand, nor by itself


def recovery_events(task: Task, judged: Judged, ended: Run, returned: Return | None) -> list[Event]:
    """What to record with the verdict: the next attempt, or why there is none."""
    item, status = task.item, judged.status
    if item is None or item.how == "outside" or status in ("completed", "cancelled"):
        return []
    why = _reason(status, ended, returned)
    if not why:
        return [_notice(task, f"judged {status} ({ended.cause}), which another attempt would not mend")]
    if ended.leftovers:
        return [_notice(task, f"{why}, and processes of its run are left: {', '.join(map(str, ended.leftovers))}")]
    if task.requeued + 1 >= ATTEMPTS:
        return [_notice(task, f"{why}; that was attempt {ATTEMPTS} of {ATTEMPTS}")]
    if item.stage != "delegated":  # a person asked for this run, and may ask again
        return [StageSet(stage=item.stage, how="recovery"), _notice(task, why, item.stage)]
    return [Requeued(run=ended.id, why=why, resume={"run": ended.id, "why": why})]


def _reason(status: str, ended: Run, returned: Return | None) -> str:
    """Why another attempt makes sense, if it does."""
    if status not in ("failed", "partial"):
        return ""
    if ended.cause in _DIED:
        return "its process was lost" if ended.cause == "lost" else "its process was killed"
    if ended.cause == "timeout":
        return "its time was over" if status == "partial" else ""
    told = returned.errors if returned is not None else ()
    return "it says that this may pass" if told and all(one.recoverable for one in told) else ""


def _notice(task: Task, why: str, stage: str = "needs") -> Notice:
    return Notice(text=f"Its item is at #{stage}-{task.kind} again: {why}.")


def retry_not_before(task: Task) -> float:
    """When the next attempt may start, in seconds since 1970; a restart does not shorten it."""
    if not task.requeued or not task.queued_at:
        return 0.0
    return epoch_of(task.queued_at) + BACKOFF[min(task.requeued, len(BACKOFF)) - 1]


def why_it_waits(task: Task) -> str:
    at = retry_not_before(task)
    stamp = now_stamp()[:11] + "00:00:00Z"
    hours = int(at - epoch_of(stamp)) % 86400
    when = f"{hours // 3600:02}:{hours // 60 % 60:02}:{hours % 60:02} UTC"
    return f"attempt {task.requeued + 1} of {ATTEMPTS}, not before {when}"
