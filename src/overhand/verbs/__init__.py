"""One function per verb, over one table."""

from overhand import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overhand.verbs.agents import installed_programs
    from overhand.verbs.ask import give_answer, walk_questions
    from overhand.verbs.calls import call_by_file
    from overhand.verbs.control import require_runnable, run_again, stop_tasks
    from overhand.verbs.delegate import delegate_task, draft_in_session, make_tasks, note_refusal
    from overhand.verbs.dispatch import carry_out
    from overhand.verbs.finish_run import handoff_of_caller
    from overhand.verbs.log import log_events
    from overhand.verbs.permit import prompts_of
    from overhand.verbs.plan import PlanSource, check_source, plan_source, require_sound_plan
    from overhand.verbs.plan_run import find_plan, may_run_plan, plan_dry_run, plan_rows, submit_plan, wait_for_plan
    from overhand.verbs.resume import require_resumable, resume_from, resume_task
    from overhand.verbs.send import send_message
    from overhand.verbs.setup import ensure_project, in_groups
    from overhand.verbs.show import describe_task
    from overhand.verbs.status import Headline
    from overhand.verbs.table import ALIASES, GLOBAL_ARGS, GROUPS, PERMIT, VERBS, VERB_BY_NAME
    from overhand.verbs.tasks import list_tasks, refresh_task
    from overhand.verbs.verb import Arg, Reply, Session, Verb, call_verb, calling_run, open_session
    from overhand.verbs.wait import wait_for_tasks
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "agents": "installed_programs",
            "ask": "give_answer walk_questions",
            "calls": "call_by_file",
            "control": "require_runnable run_again stop_tasks",
            "delegate": "delegate_task draft_in_session make_tasks note_refusal",
            "dispatch": "carry_out",
            "finish_run": "handoff_of_caller",
            "log": "log_events",
            "permit": "prompts_of",
            "plan": "PlanSource check_source plan_source require_sound_plan",
            "plan_run": "find_plan may_run_plan plan_dry_run plan_rows submit_plan wait_for_plan",
            "resume": "require_resumable resume_from resume_task",
            "send": "send_message",
            "setup": "ensure_project in_groups",
            "show": "describe_task",
            "status": "Headline",
            "table": "ALIASES GLOBAL_ARGS GROUPS PERMIT VERBS VERB_BY_NAME",
            "tasks": "list_tasks refresh_task",
            "verb": "Arg Reply Session Verb call_verb calling_run open_session",
            "wait": "wait_for_tasks",
        },
    )
