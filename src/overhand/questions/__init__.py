"""What an agent asks during a run: one record, many ways in, answered once."""

from overhand import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overhand.questions.blocked import QUIET_SECONDS, has_waiting_process, may_park, record_blocked
    from overhand.questions.blocked import update_blocked
    from overhand.questions.files import PendingAnswer, WaitingMark, has_file_question, has_unread_files
    from overhand.questions.files import leave_waiting_mark, mark_of_caller, take_in_files
    from overhand.questions.record import Asking, answer_question, ask_question, choose_question, cut_text
    from overhand.questions.record import deliver_answer, full_answer, full_question, hand_over_events
    from overhand.questions.record import has_leftovers, keep_text, kept_text, let_leftovers_end, plain_text
    from overhand.questions.record import recorded_answer, unread_marks
    from overhand.questions.resume import ended_waiting, next_run_after_result, next_run_after_verdict
    from overhand.questions.resume import question_in_return
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "blocked": "QUIET_SECONDS has_waiting_process may_park record_blocked update_blocked",
            "files": "PendingAnswer WaitingMark has_file_question has_unread_files leave_waiting_mark mark_of_caller "
            "take_in_files",
            "record": "Asking answer_question ask_question choose_question cut_text deliver_answer full_answer "
            "full_question hand_over_events has_leftovers keep_text kept_text let_leftovers_end plain_text "
            "recorded_answer unread_marks",
            "resume": "ended_waiting next_run_after_result next_run_after_verdict question_in_return",
        },
    )
