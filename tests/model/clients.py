"""How each real agent is pointed at a scripted model: private HOME, dummy keys, and no other host.

Everything is environment and files of the private HOME, so that the command line stays whatever is to be tested.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

KEY = "key-of-the-tests"  # no secret: it opens nothing but a scripted model

# The same for all. The temporary folder is private too: some leave reports there.
COMMON = {
    "HOME": "{home}",
    "XDG_CONFIG_HOME": "{home}/.config",
    "XDG_DATA_HOME": "{home}/.local/share",
    "XDG_STATE_HOME": "{home}/.local/state",
    "XDG_CACHE_HOME": "{home}/.cache",
    "TMPDIR": "{home}/tmp",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
}


@dataclass(frozen=True)
class Client:
    """One agent: its environment, the files of its HOME, and a headless command to which the prompt is added.

    In all of them `{url}` is the model's address and `{home}` the private HOME.
    """

    environ: Mapping[str, str]
    headless: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)


def _json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"


CLAUDE = Client(
    environ={
        "ANTHROPIC_BASE_URL": "{url}",
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CONFIG_DIR": "{home}/.claude",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "CLAUDE_CODE_MCP_STARTUP_WAIT_MS": "60000",  # else it begins without the tools of a server that starts slowly
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_TELEMETRY": "1",
        "ENABLE_TOOL_SEARCH": "false",  # else MCP tools are hidden behind a search that no script makes
    },
    headless=(
        *("claude", "--output-format", "stream-json", "--verbose", "--model", "claude-sonnet-4-5"),
        *("--permission-mode", "acceptEdits", "--allowedTools", "Bash", "-p"),
    ),
)

CODEX = Client(
    environ={"CODEX_HOME": "{home}/.codex", "SCRIPTED_KEY": KEY},
    headless=("codex", "exec", "--json", "--skip-git-repo-check", "-s", "workspace-write"),
    files={
        ".codex/config.toml": """\
model = "gpt-5-codex"
model_provider = "scripted"
check_for_update_on_startup = false

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false

[features]
plugins = false # without this it asks github.com and chatgpt.com
"""
    },
)

GOOSE = Client(
    environ={
        "GOOSE_PROVIDER": "openai",
        "GOOSE_MODEL": "scripted",
        "GOOSE_MODE": "auto",
        "GOOSE_DISABLE_KEYRING": "1",
        "OPENAI_HOST": "{url}",
        "OPENAI_BASE_PATH": "v1/chat/completions",
        "OPENAI_API_KEY": KEY,
    },
    headless=(
        *("goose", "run", "--output-format", "stream-json", "--with-builtin", "developer", "--no-profile"),
        "-t",
    ),
)

GEMINI = Client(
    environ={
        "GEMINI_API_KEY": KEY,
        "GOOGLE_GEMINI_BASE_URL": "{url}",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    },
    headless=("gemini", "--output-format", "stream-json", "--approval-mode", "yolo", "-m", "gemini-2.5-pro", "-p"),
    files={
        ".gemini/settings.json": _json(
            {
                "general": {"enableAutoUpdate": False},
                "privacy": {"usageStatisticsEnabled": False},
                "security": {"auth": {"selectedType": "gemini-api-key"}},
            }
        )
    },
)

OPENCODE = Client(
    environ={
        "OPENCODE_PURE": "1",
        "npm_config_registry": "http://127.0.0.1:9",  # else it fetches a package into its configuration folder
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    },
    headless=("opencode", "run", "--format", "json"),
    files={
        ".config/opencode/opencode.json": _json(
            {
                "model": "scripted/scripted",
                "permission": {"*": "allow"},
                "provider": {
                    "scripted": {
                        "npm": "@ai-sdk/openai-compatible",
                        "name": "scripted",
                        "options": {"baseURL": "{url}/v1", "apiKey": KEY},
                        "models": {"scripted": {"name": "scripted"}},
                    }
                },
            }
        )
    },
)

QWEN = Client(
    environ={"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "{url}/v1", "OPENAI_MODEL": "scripted"},
    headless=("qwen", "--output-format", "stream-json", "--approval-mode", "yolo", "-p"),
    files={
        ".qwen/settings.json": _json(
            {
                "general": {"enableAutoUpdate": False},
                "privacy": {"usageStatisticsEnabled": False},
                "security": {"auth": {"selectedType": "openai"}},
            }
        )
    },
)

CLIENTS: Mapping[str, Client] = {
    "claude": CLAUDE,
    "codex": CODEX,
    "gemini": GEMINI,
    "goose": GOOSE,
    "opencode": OPENCODE,
    "qwen": QWEN,
}


def point(name: str, url: str, home: str) -> dict[str, str]:
    """Make `home` the private HOME of this agent; its whole environment, in which it knows only the model at `url`."""
    client = CLIENTS[name]
    for path, text in {"tmp/.keep": "", **client.files}.items():
        place = f"{home}/{path}"
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "w", encoding="utf-8") as file:
            file.write(text.replace("{url}", url))
    values = {**COMMON, **client.environ}
    return {key: value.replace("{url}", url).replace("{home}", home) for key, value in values.items()}
