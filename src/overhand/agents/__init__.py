"""Agents: a name for something that can be run. Each driver is one module of `agents/drivers`."""

from overhand import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overhand.agents.driver import UNANSWERED, Agent, Job, McpClient, OpenPermission, Permit, all_drivers
    from overhand.agents.driver import check_programs, find_driver, installable, lookup, translator
    from overhand.agents.drivers.function import Call, Inquiry, as_return, encode_return, failure_return
    from overhand.agents.drivers.function import read_inputs, unanswered_error
    from overhand.agents.files import PLAN_SUFFIXES, agent_files, choose_agent, default_agent, every_agent_file
    from overhand.agents.files import find_agent, load_agent, program_files, read_agent, runnable_files
    from overhand.agents.permissions import describe_level
    from overhand.agents.programs import asks_permission, mcp_server_command, program_versions, session_command
    from overhand.agents.quota import QuotaPause, all_pauses, describe_pause, driver_of_task, end_pause
    from overhand.agents.quota import find_stand_in, hand_to_stand_in, limit_met, pause_of, stand_in_problem
    from overhand.agents.stream import STREAM_ENDS, StreamEvent, StreamSummary, brief_tool_use, json_lines
    from overhand.agents.stream import last_activity, native_session, read_end, session_to_resume, stream_summary
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "driver": "UNANSWERED Agent Job McpClient OpenPermission all_drivers check_programs find_driver "
            "installable lookup translator",
            "drivers.function": "Call Inquiry as_return encode_return failure_return read_inputs unanswered_error",
            "files": "PLAN_SUFFIXES agent_files choose_agent default_agent every_agent_file find_agent load_agent "
            "program_files read_agent runnable_files",
            "permissions": "describe_level",
            "programs": "asks_permission mcp_server_command program_versions session_command",
            "quota": "QuotaPause all_pauses describe_pause driver_of_task end_pause find_stand_in hand_to_stand_in "
            "limit_met pause_of stand_in_problem",
            "stream": "STREAM_ENDS StreamEvent StreamSummary brief_tool_use json_lines last_activity native_session "
            "read_end session_to_resume stream_summary",
        },
    )
