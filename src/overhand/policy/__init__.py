"""Settings, trust, callers and budgets, and the actor that they add up to."""

from overhand import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overhand.policy.budget import CHECKPOINT_LEVEL, NODE_MEASURES, STOP_LEVEL, WARN_LEVEL, add_amounts
    from overhand.policy.budget import amount_used, budget_level, capped_measures, child_holds, child_share
    from overhand.policy.budget import context_level, estimate_usage, larger_amount, make_amount, own_cap
    from overhand.policy.budget import own_spending, parse_budget, say_budget, say_tokens, say_usd, tally_reports
    from overhand.policy.budget import tighter_cap, total_used, usage_figures, usage_of_task, usage_with_nodes
    from overhand.policy.caller import Actor, Caller, current_call, find_caller, inside_run, require_known
    from overhand.policy.caller import require_person, require_readable_record, run_of_place, signs_of_process
    from overhand.policy.caller import user_name
    from overhand.policy.config import AGENT_MARKS, Config, Kind, Notify, config_of_task, load_config, parse_setting
    from overhand.policy.config import read_project_file, settings_files, settings_marks, user_folder
    from overhand.policy.settings import Route, agent_of_route, check_route_mode, route_of
    from overhand.policy.trust import content_digest, existing_files, file_digests, is_trusted_content, mark_trusted
    from overhand.policy.trust import move_trust, require_trusted, trust_file, trusted_config, untrusted_files
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "budget": "CHECKPOINT_LEVEL NODE_MEASURES STOP_LEVEL WARN_LEVEL add_amounts amount_used budget_level "
            "capped_measures child_holds child_share context_level estimate_usage larger_amount make_amount "
            "own_cap own_spending parse_budget say_budget say_tokens say_usd tally_reports tighter_cap "
            "total_used usage_figures usage_of_task usage_with_nodes",
            "caller": "Actor Caller current_call find_caller inside_run require_known require_person "
            "require_readable_record run_of_place signs_of_process user_name",
            "config": "AGENT_MARKS Config Kind Notify config_of_task load_config parse_setting read_project_file "
            "settings_files settings_marks user_folder",
            "settings": "Route agent_of_route check_route_mode route_of",
            "trust": "content_digest existing_files file_digests is_trusted_content mark_trusted move_trust "
            "require_trusted trust_file trusted_config untrusted_files",
        },
    )
