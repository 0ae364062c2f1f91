"""Driver `qwen`: Qwen Code, headless; its stream is like Claude Code's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from overhand.agents.driver import Agent, Driver, Job, Launch, Login, Place, tokens_of_session
from overhand.agents.drivers import claude, gemini
from overhand.agents.programs import HOOK_SECONDS, stop_hook
from overhand.agents.stream import StreamEvent, failure

if TYPE_CHECKING:
    from collections.abc import Iterator

_OTHERS = ("/etc/qwen-code/system-defaults.json", "/Library/Application Support/QwenCode/system-defaults.json")


def launch(agent: Agent, job: Job) -> Launch:
    """`qwen` with the prompt on stdin."""
    argv = gemini.command_line(agent, job)
    if job.level == "read":  # it still returns; a rule for one command would also allow redirecting its output
        for path in (f"{job.desk}/**", *job.asked_for):
            argv += ["--allowed-tools", f"write_file(/{path})", "--allowed-tools", f"edit(/{path})"]
    argv += [str(word) for word in agent.options.get("args", ())]
    found = gemini.defaults("Stop", HOOK_SECONDS, stop_hook(agent, job), job.mcp)
    if job.mcp:
        found["mcpServers"]["overhand"]["alwaysLoadTools"] = True  # else they are hidden behind a search
    return Launch(tuple(argv), files=gemini.settings_file("QWEN_CODE_SYSTEM_DEFAULTS_PATH", _OTHERS, found))


def translate(line: dict[str, Any]) -> Iterator[StreamEvent]:
    """One line; an error of the model's service may stand in the text of a success."""
    for event in claude.translate(line):
        text = event.text
        if event.kind == "ended" and event.data.get("how") != "max-turns":
            error = line.get("error")
            message = str(error.get("message", "")) if isinstance(error, dict) else text
            if "[API Error" in message:
                code = message.partition("[API Error: ")[2][:3]
                how = failure(int(code) if code.isdigit() else None, message)
                yield StreamEvent("ended", message[:500], {"how": how})
                continue
        yield event


DRIVER = Driver(
    rank=15,
    title="Qwen Code",
    launch=launch,
    translate=translate,
    program="qwen",
    install="npm install -g @qwen-code/qwen-code",
    login=Login(
        variables=("OPENAI_API_KEY", "DASHSCOPE_API_KEY"),
        files=(Place("", "~/.qwen", "oauth_creds.json"),),
        settings=(Place("", "~/.qwen", "settings.json"),),
        command="qwen, then /auth",
    ),
    open_session=("--resume",),
    session_totals=tokens_of_session,
    project_files=(".qwen/settings.json",),
)
