"""The truth on disk: events, log, fold, store, overview."""

from overhand import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overhand.record.call import BELL, CALLS, CALL_ID, GONE, MAX_CALL, NEW, PROGRESS, REPLY, TAKEN, Call
    from overhand.record.call import has_lying_calls, is_call_id, read_call, stale_run, tasks_of_call
    from overhand.record.environment import drop_environment, keep_environment, kept_environment
    from overhand.record.environment import tasks_with_environment
    from overhand.record.events import ABSENT, Accepted, Answered, Asked, BudgetReleased, BudgetReserved
    from overhand.record.events import CheckpointSaved, ChildRefused, ControlHandled, Created, Dismissed, Event
    from overhand.record.events import Judged, LateReturn, LimitReached, Merged, MessageSent, Notice, PhaseMoved
    from overhand.record.events import Rechecked, Requeued, RunBlocked, RunCreated, RunEnded, RunNeverBegan
    from overhand.record.events import RunStarted, RunUnblocked, Seen, StageSet, StepMarked, StopRequested
    from overhand.record.events import TagHeldBack, TagWritten, TreeReady, UsageReported, fold
    from overhand.record.identity import find_root, known_roots, record_times, recorded_root, remove_record
    from overhand.record.log import LOG_FILE, LockedTask, append_lines, cut_torn_tail, log_lines, parse_log
    from overhand.record.log import read_log, whole_appends
    from overhand.record.overview import Overview
    from overhand.record.registry import state_folder
    from overhand.record.shape import EVENT_KIND, read_state
    from overhand.record.store import INPUTS_FILE, WORKSPACES, NewTask, RunFolders, Store, new_run_id, open_tasks
    from overhand.record.task import PLAN_KIND, Amount, By, Item, Message, Question, Record, Run, ShownTag, Task
    from overhand.record.task import Usage
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "call": "BELL CALLS CALL_ID GONE MAX_CALL NEW PROGRESS REPLY TAKEN Call has_lying_calls is_call_id "
            "read_call stale_run tasks_of_call",
            "environment": "drop_environment keep_environment kept_environment tasks_with_environment",
            "events": "ABSENT Accepted Answered Asked BudgetReleased BudgetReserved CheckpointSaved ChildRefused "
            "ControlHandled Created Dismissed Event Judged LateReturn LimitReached Merged MessageSent "
            "Notice PhaseMoved Rechecked Requeued RunBlocked RunCreated RunEnded RunNeverBegan RunStarted "
            "RunUnblocked Seen StageSet StepMarked StopRequested TagHeldBack TagWritten TreeReady "
            "UsageReported fold",
            "identity": "find_root known_roots record_times recorded_root remove_record",
            "log": "LOG_FILE LockedTask append_lines cut_torn_tail log_lines parse_log read_log whole_appends",
            "overview": "Overview",
            "registry": "state_folder",
            "shape": "EVENT_KIND read_state",
            "store": "INPUTS_FILE WORKSPACES NewTask RunFolders Store new_run_id open_tasks",
            "task": "PLAN_KIND Amount Item Message Question Record Run ShownTag Task Usage",
        },
    )
