"""One run from start to verdict: prepare, start, settle, stop, judge, hand over."""

from overhand import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overhand.runs.checkpoints import NewCheckpoint, checkpoint_json, checkpoint_owner, checkpoint_text
    from overhand.runs.checkpoints import create_checkpoint, find_checkpoint
    from overhand.runs.checks import check_base, checks_after, end_checks
    from overhand.runs.control import ControlInput, child_of_control, handle_control, has_printed_delegation
    from overhand.runs.control import owes_report, report_to_parent
    from overhand.runs.evidence import Collected, Returned, collect_return, live_steps, preview_return, read_return
    from overhand.runs.finish import can_be_mended, finish_run, gather_evidence, give_up, unjudged_run
    from overhand.runs.handover import is_resumable, message_event, shown_messages, tail_of_file, whole_message
    from overhand.runs.handover import write_previous_runs
    from overhand.runs.judge import Evidence, Fact, Verdict, judge_run
    from overhand.runs.limits import NOTE_EVERY, Counted, count_usage, in_process_meter
    from overhand.runs.own_tree import git_of, hidden_files, part_now
    from overhand.runs.phases import ESCALATED, PHASE_ORDER, IllegalMove, PhaseMove, move_phase, next_phases
    from overhand.runs.prepare import Prepared, archive_last_run, keep_given, lay_out_run, read_spec
    from overhand.runs.prepare import read_task_handoff, run_prompt, shield_of, take_baseline
    from overhand.runs.promises import check_promises, contract_in, inputs_in
    from overhand.runs.prompt import RUN_MARKER, run_environment
    from overhand.runs.proof import Verification, verification
    from overhand.runs.result import checks_as_json, kept_report, report_lines, run_report, show_document
    from overhand.runs.result import verification_as_json, write_result
    from overhand.runs.run import COULD_NOT_END, adopt, cancel_queued, claim_run, end_members, living_members
    from overhand.runs.run import living_runs, reject_task, run_created, same_pid_world, settle_run, start_run
    from overhand.runs.run import still_alive, stop_cause, stop_children, stop_run, tell_left
    from overhand.runs.spending import USAGE_FILE, capped_above, final_usage, mend_spending, reported_usage
    from overhand.runs.spending import require_budget_left, reserve_budget, settle_budget, spent_today
    from overhand.runs.spending import tree_spending, usage_event
    from overhand.runs.steps import STEP_STATES, StepItem, asked_suffix, failed_suffix, mark_step, read_steps
    from overhand.runs.steps import step_progress
    from overhand.runs.throwaway import check_elsewhere
    from overhand.runs.walls import enter_git, expected_shield, is_project_kept, probed_shield, require_no_shield
    from overhand.runs.walls import require_shield, unshielded
    from overhand.runs.worktree import deliverable_facts, named_facts, path_inside, read_baseline, tree_snapshot
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "checkpoints": "NewCheckpoint checkpoint_json checkpoint_owner checkpoint_text create_checkpoint "
            "find_checkpoint",
            "checks": "check_base checks_after end_checks",
            "control": "ControlInput child_of_control handle_control has_printed_delegation owes_report "
            "report_to_parent",
            "evidence": "Collected Returned collect_return live_steps preview_return read_return",
            "finish": "can_be_mended finish_run gather_evidence give_up unjudged_run",
            "handover": "is_resumable message_event shown_messages tail_of_file whole_message write_previous_runs",
            "judge": "Evidence Fact Verdict judge_run",
            "limits": "NOTE_EVERY Counted count_usage in_process_meter",
            "own_tree": "git_of hidden_files part_now",
            "phases": "ESCALATED PHASE_ORDER IllegalMove PhaseMove move_phase next_phases",
            "prepare": "Prepared archive_last_run keep_given lay_out_run read_spec read_task_handoff run_prompt "
            "shield_of take_baseline",
            "promises": "check_promises contract_in inputs_in",
            "prompt": "RUN_MARKER run_environment",
            "proof": "Verification verification",
            "result": "checks_as_json kept_report report_lines run_report show_document verification_as_json "
            "write_result",
            "run": "COULD_NOT_END adopt cancel_queued claim_run end_members living_members living_runs reject_task "
            "run_created same_pid_world settle_run start_run still_alive stop_cause stop_children stop_run "
            "tell_left",
            "spending": "USAGE_FILE capped_above final_usage mend_spending reported_usage require_budget_left "
            "reserve_budget settle_budget spent_today tree_spending usage_event",
            "steps": "STEP_STATES StepItem asked_suffix failed_suffix mark_step read_steps step_progress",
            "throwaway": "check_elsewhere",
            "walls": "enter_git expected_shield is_project_kept probed_shield require_no_shield require_shield "
            "unshielded",
            "worktree": "deliverable_facts named_facts path_inside read_baseline tree_snapshot",
        },
    )
