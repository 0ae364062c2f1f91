"""Plans: a DAG of delegations; read, checked, advanced and merged without any I/O or clock."""

from overhand import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overhand.plans.advance import advance_plan, new_plan_state
    from overhand.plans.check import AgentFacts, check_plan, match_agents
    from overhand.plans.executor import PLAN_LOCK, PlanExecutor
    from overhand.plans.formats import as_yaml, plan_document
    from overhand.plans.graph import PICTURE_FORMATS, draw_plan
    from overhand.plans.model import Plan
    from overhand.plans.order import plan_waves
    from overhand.plans.progress import FAILED, HELD, LIVE_STATES, NODE_STATES, PENDING, READY, RUNNING, SKIPPED
    from overhand.plans.progress import STARTING, STOPPED, VERIFIED, VERIFYING, WAITING, PlanEvent, PlanState
    from overhand.plans.progress import plan_event
    from overhand.plans.reader import read_plan_text
    from overhand.plans.results import result_value
    from overhand.plans.skeleton import fitting_agents, outline_plan, plan_slug, plan_template, short_plan
    from overhand.plans.strategy import explain_score, score_plan
    from overhand.plans.task import NodeStart, NodeStarter, abandon_plan, accepted_plan, begin_plan, make_plan_task
    from overhand.plans.task import node_situation
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "advance": "advance_plan new_plan_state",
            "check": "AgentFacts check_plan match_agents",
            "executor": "PLAN_LOCK PlanExecutor",
            "formats": "as_yaml plan_document",
            "graph": "PICTURE_FORMATS draw_plan",
            "model": "Plan",
            "order": "plan_waves",
            "progress": "FAILED HELD LIVE_STATES NODE_STATES PENDING READY RUNNING SKIPPED STARTING STOPPED VERIFIED "
            "VERIFYING WAITING PlanEvent PlanState plan_event",
            "reader": "read_plan_text",
            "results": "result_value",
            "skeleton": "fitting_agents outline_plan plan_slug plan_template short_plan",
            "strategy": "explain_score score_plan",
            "task": "NodeStart NodeStarter abandon_plan accepted_plan begin_plan make_plan_task node_situation",
        },
    )
