"""The client of an agent that speaks the Agent Client Protocol: one small process per run, behind the run's shim.

It starts the agent, opens or continues a session, sends the prompt, answers the agent's requests, and prints what
happens as lines of `agents/stream.py`. SIGTERM ends the turn (`session/cancel`), then the agent.
"""

from __future__ import annotations

import os
import sys
import time

from overhand.agents import permissions
from overhand.agents.drivers.acp.wire import TERM, Over, Wire, spawn
from overhand.system import dump_line, load_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from overhand.agents.drivers.acp.wire import Message
    from overhand.record import Store

VERSION = 1
_START = 60.0  # seconds for `initialize`
_SESSION = 120.0  # seconds for a session: its MCP servers start meanwhile
_LEAVE = 0.3  # seconds for an agent to exit once its input is closed
# Modes that agents offer, by level; the first available one is used. A mode that asks fits every level, since we
# answer; in Claude Code and Qwen Code `auto` means that a model decides.
MODES = {
    "read": ("read-only", "approve", "default"),
    "work": ("workspace-write", "approve", "default"),
    "full": ("agent-full-access", "full-access", "bypassPermissions", "yolo", "approve", "default"),
}
_TOLD = ("name", "title", "kind", "rawInput", "locations", "content")  # what an agent reports about a call, piecemeal
# Kinds of tools that report none, by the names that agents give them.
_NAMES = {
    "execute": ("shell", "bash", "exec", "exec_command", "shell_command", "run_shell_command", "terminal"),
    "edit": (
        *("write", "edit", "multiedit", "notebookedit", "write_file", "edit_file", "create_file", "replace"),
        *("apply_patch", "str_replace", "text_editor"),
    ),
    "read": ("read", "view", "read_file", "ls", "tree", "list_directory", "analyze"),
    "search": ("grep", "glob", "find", "search", "search_file_content"),
    "fetch": ("webfetch", "websearch", "web_search", "web_fetch", "fetch"),
    "think": ("task", "todowrite", "todo", "think"),
}
_CALLS = 100  # calls under way that are remembered
_SANDBOXED = ("read-only", "workspace-write")  # in these modes requests are for what lies outside the sandbox
_STOPS = {
    "end_turn": ("clean", ""),
    "cancelled": ("aborted", "Its turn was cancelled."),
    "refusal": ("refused", "The model refused."),
    "max_tokens": ("max-turns", "It reached the largest number of tokens of one turn."),
    "max_turn_requests": ("max-turns", "It reached its largest number of requests in one turn."),
}


def tell(kind: str, text: str = "", **data: object) -> None:
    raw = dump_line({"kind": kind, "text": text, **({"data": data} if data else {})}).encode("utf-8", "replace") + b"\n"
    view = memoryview(raw)
    while view:
        view = view[os.write(1, view) :]


class Client:
    """One run: a session, a prompt, and the agent's requests."""

    def __init__(self, spec: Message) -> None:
        self.spec = spec
        self.session = ""
        self.live = False  # updates before the prompt are a replay of the old session
        self.stopping = False
        self.cost = [0.0, 0.0]  # of the whole session: before the prompt, and now
        self.speaking: object = None
        allow, deny, workspace = spec["allow"], spec["deny"], spec["workspace"]
        self.policy = permissions.Policy(spec["level"], spec["project"], spec["desk"], allow, deny, workspace)
        self.calls: dict[str, Message] = {}  # what the agent reported about the calls under way
        self.waiting: dict[int, tuple[Message, permissions.ToolRequest, permissions.Waiting]] = {}
        self.store: Store | None = None
        self.wire: Wire

    def run(self, prompt: str) -> None:
        """Run from `initialize` to the end of the turn; raises Over if that is not reached."""
        params = {"protocolVersion": VERSION, "clientCapabilities": {"fs": {}, "terminal": False}}
        params["clientInfo"] = {"name": "overhand", "title": "Overhand", "version": self.spec["version"]}
        agent = self.wire.call("initialize", params, _START)
        if agent.get("protocolVersion") != VERSION:
            raise Over("error", f"The agent speaks version {agent.get('protocolVersion')} of ACP; needed: {VERSION}.")
        if self.spec.get("auth"):
            self.wire.call("authenticate", {"methodId": self.spec["auth"]}, _SESSION)
        self.prepare(self.open(agent.get("agentCapabilities") or {}))
        tell("session", self.session)
        self.live = True
        self.cost[0] = self.cost[1]
        content = [{"type": "text", "text": prompt}]
        self.finish(self.wire.ask("session/prompt", {"sessionId": self.session, "prompt": content}))

    def open(self, can: Message) -> Message:
        """Load the previous run's session if there is one and the agent can; else open a new one."""
        mine = [{"name": k, "value": v} for k, v in os.environ.items() if k.startswith(("OVERHAND_", "PYTHONPATH"))]
        ours = self.spec["mcp"]
        servers = [{"name": "overhand", "command": ours[0], "args": ours[1:], "env": mine}] if ours else []
        where = {"cwd": self.spec["project"], "mcpServers": servers}
        if self.spec["session"]:
            resumes = (can.get("sessionCapabilities") or {}).get("resume") is not None
            method = "session/resume" if resumes else "session/load" if can.get("loadSession") else ""
            try:
                if method:
                    self.session = self.spec["session"]
                    return self.wire.call(method, {"sessionId": self.session, **where}, _SESSION)
            except Over as error:
                if self.wire.ended:
                    raise
                os.write(2, f"{method}: {error.why}; a new session is opened.\n".encode("utf-8", "replace"))
        opened = self.wire.call("session/new", where, _SESSION)
        self.session = str(opened.get("sessionId") or "")
        return opened

    def prepare(self, opened: Message) -> None:
        """Set mode and model, if the agent offers a choice."""
        modes = [str(mode.get("id")) for mode in (opened.get("modes") or {}).get("availableModes") or ()]
        option: Message = {}  # newer agents offer the mode among the settings of a session
        if not modes:
            settings = [one for one in opened.get("configOptions") or () if isinstance(one, dict)]
            is_mode = (one for one in settings if one.get("category") == "mode" and one.get("type") == "select")
            option = next(is_mode, {})
        modes += [str(one.get("value")) for one in option.get("options") or ()]
        asks = self.policy.deny and self.spec["level"] == "full"  # a `deny` pattern can only be applied to requests
        wanted = (self.spec["mode"],) if self.spec.get("mode") else MODES["work" if asks else self.spec["level"]]
        chosen = next((mode for mode in wanted if mode in modes), "")
        if chosen:
            self.policy.beyond = chosen in _SANDBOXED
            method, params = "session/set_mode", {"modeId": chosen}
            if option:
                method, params = "session/set_config_option", {"configId": str(option.get("id")), "value": chosen}
            self.wire.call(method, {"sessionId": self.session, **params}, _START)
        elif self.spec.get("mode"):
            raise Over("error", f"The agent has no mode {wanted[0]}; it has {', '.join(modes) or 'none'}.")
        if self.spec.get("model"):
            self.wire.call("session/set_model", {"sessionId": self.session, "modelId": self.spec["model"]}, _START)

    def finish(self, number: int) -> None:
        """Wait until the turn has ended or must end."""
        until = None
        while not self.wire.has(number):
            if self.stopping and until is None:
                until = time.monotonic() + _grace(self.spec["place"]) / 2
                self.wire.send({"method": "session/cancel", "params": {"sessionId": self.session}})
                self.give_up()
            left = 3600.0 if until is None else until - time.monotonic()
            if left <= 0:
                raise Over("aborted", "It was told to end its turn and did not.")
            self.wire.turn(left)
        result = self.wire.result(number)
        self.count(result.get("usage"))
        stop = str(result.get("stopReason"))
        how, why = _STOPS.get(stop, ("error", f"Its turn ended with {stop!r}, which is no reason of ACP."))
        tell("ended", why, how=how)
        if how != "clean":
            raise Over("told")

    def count(self, usage: Any) -> None:
        """Report the turn's tokens; all that is not output is input, cached or not."""
        used = usage if isinstance(usage, dict) else {}
        total, out = used.get("totalTokens") or 0, used.get("outputTokens") or 0
        usd = max(0.0, self.cost[1] - self.cost[0])
        if total or usd:
            tell("used", input=max(0, total - out), output=out, usd=usd, turns=1)

    def hear(self, message: Message) -> None:
        """Handle a notification or a request of the agent."""
        given = message.get("params")
        params: Message = given if isinstance(given, dict) else {}
        if "id" not in message:
            if message["method"] == "session/update" and params.get("sessionId") == self.session:
                self.update(params.get("update") or {})
        elif message["method"] == "session/request_permission":
            self.permit(message, params)
        else:
            error = {"code": -32601, "message": f"No {message['method']} here: use your own tools."}
            self.wire.send({"id": message["id"], "error": error})

    def update(self, update: Message) -> None:
        """Report the agent's text, tools and usage; a replay of an old session doesn't belong to this run."""
        kind = update.get("sessionUpdate")
        if kind == "usage_update":
            cost = update.get("cost")
            if isinstance(cost, dict) and cost.get("currency") == "USD":
                self.cost[1] = float(cost.get("amount") or 0.0)
        if not self.live:
            return
        if kind == "agent_message_chunk":
            content = update.get("content") or {}
            if content.get("type") == "text" and content.get("text"):
                if self.speaking != update.get("messageId"):
                    tell("next")
                self.speaking = update.get("messageId")
                tell("said", str(content["text"]), part=True)
        elif kind in ("tool_call", "tool_call_update"):
            asked = self.read(self.merged(update))
            if kind == "tool_call":
                tell("did", asked.kind, title=str(update.get("title"))[:300], command=asked.command[:2000])

    def merged(self, call: Message) -> Message:
        """A call merged with what was reported about it before: an agent need not repeat that in its request."""
        name = str(call.get("toolCallId"))
        whole = {**self.calls.pop(name, {}), **{key: call[key] for key in _TOLD if call.get(key)}}
        whole["content"] = [one for one in whole.get("content") or () if isinstance(one, dict) and "path" in one]
        if call.get("status") not in ("completed", "failed"):
            self.calls[name] = whole
            for old in list(self.calls)[:-_CALLS]:
                del self.calls[old]
        return {**whole, "toolCallId": name}

    def read(self, call: Message) -> permissions.ToolRequest:
        parts = (*(call.get("locations") or ()), *(call.get("content") or ()))
        places = [str(one["path"]) for one in parts if isinstance(one, dict) and "path" in one]
        name = str(call.get("name") or call.get("title") or call["toolCallId"])
        given = call.get("rawInput") or {"content": call.get("content")}
        return request(call.get("kind"), name, given, places, self.spec["project"])

    def permit(self, message: Message, params: Message) -> None:
        """Answer a permission request at once, from the record, or ask a person."""
        call = params.get("toolCall")
        if not isinstance(call, dict) or not isinstance(params.get("options"), list):
            error = {"code": -32602, "message": "toolCall and options are needed."}
            self.wire.send({"id": message["id"], "error": error})
            return
        asked = self.read(self.merged(call))
        found = self.decide(asked)
        if isinstance(found, str):
            self.reply(message, asked, found)
        else:
            self.waiting[found.fd] = (message, asked, found)
            self.wire.bells.add(found.fd)

    def decide(self, asked: permissions.ToolRequest) -> permissions.Waiting | str:
        """`allow`, `deny`, `cancel`, or a question to wait for."""
        found = permissions.rule(asked, self.policy)
        if self.stopping or not self.live:
            return "cancel"
        if found != "ask":
            return found
        from overhand.errors import OverhandError
        from overhand.record import Store

        self.store = self.store or Store(self.spec["home"])
        task, run = self.spec["task"], self.spec["run"]
        try:
            question = permissions.begin(self.store, task, run, asked, self.policy, "acp")
            return question if isinstance(question, str) else permissions.Waiting(self.store, task, run, question)
        except (OverhandError, OSError) as error:
            os.write(2, f"a permission could not be asked for: {error}\n".encode("utf-8", "replace"))
            return "deny"

    def look(self) -> None:
        """Check for answers to open questions, and for a stop that came before the start."""
        if self.stopping and not self.live:
            raise Over("aborted", "It was ended before its turn began.")
        for fd, (message, asked, waiting) in list(self.waiting.items()):
            if (answer := waiting.answer()) is not None:
                self.drop(fd)
                self.reply(message, asked, permissions.verdict(answer))

    def drop(self, fd: int) -> None:
        self.waiting.pop(fd)[2].end()
        self.wire.bells.discard(fd)

    def give_up(self) -> None:
        """Cancel open requests because the turn must end: neither allowed nor denied, and their questions stay open."""
        for fd, (message, asked, _) in list(self.waiting.items()):
            self.drop(fd)
            self.reply(message, asked, "cancel")

    def reply(self, message: Message, asked: permissions.ToolRequest, found: str) -> None:
        """Answer with one of the agent's options, preferably «once»: longer-lasting answers are in our own record."""
        kinds = {"allow": ("allow_once", "allow_always"), "deny": ("reject_once", "reject_always"), "cancel": ()}
        offered = [one for one in message["params"]["options"] if isinstance(one, dict)]
        chosen = next((o for kind in kinds[found] for o in offered if o.get("kind") == kind), None)
        if found == "deny" or (found == "allow" and chosen is None):
            tell("denied", str(asked)[:300])
        outcome = {"outcome": "selected", "optionId": chosen["optionId"]} if chosen else {"outcome": "cancelled"}
        self.wire.send({"id": message["id"], "result": {"outcome": outcome}})

    def stop(self, *_: object) -> None:
        self.stopping = True


def request(
    kind: str | None, name: str, raw: object, places: Sequence[str] = (), cwd: str = ""
) -> permissions.ToolRequest:
    """A tool call, whatever the agent calls its tools."""
    given: Message = raw if isinstance(raw, dict) else {}
    tool = name.partition(" · ")[0].strip()
    if given.keys() == {"server", "tool", "arguments"} and tool == f"mcp.{given['server']}.{given['tool']}":
        kind, tool = "other", tool.removeprefix("mcp.")  # a call to an MCP server, as Codex names it
    elif not kind or kind == "other":
        kind = _kind(tool.lower().removeprefix("developer__"), given)
    return permissions.request(kind, tool, raw, places, cwd)


def _kind(name: str, given: Message) -> str | None:
    if name == "text_editor" and given.get("command") == "view":
        return "read"
    runs = bool(given.get("command", given.get("cmd")))
    return next((kind for kind, names in _NAMES.items() if name in names and (kind != "execute" or runs)), None)


def _grace(place: str) -> float:
    """Seconds between a SIGTERM and the SIGKILL that follows it."""
    try:
        with open(f"{place}/spec.json", "rb") as file:
            return float(load_line(file.read().decode("utf-8", "replace"))["grace"])
    except (OSError, ValueError, KeyError):
        return 10.0


def main() -> int:
    """Run one agent through one turn; `OVERHAND_ACP` names the file that says how."""
    import _signal  # type: ignore[import-not-found] # `signal` itself brings `enum`, a megabyte

    with open(os.environ.pop("OVERHAND_ACP"), "rb") as file:
        client = Client(load_line(file.read().decode("utf-8", "replace")))
    _signal.signal(TERM, client.stop)
    how = "clean"
    try:
        client.wire = Wire(client.hear, client.look, spawn(client.spec["command"]))
    except Over as error:
        tell("ended", error.why, how=error.how)
        return 1
    _signal.set_wakeup_fd(client.wire.bell(), warn_on_full_buffer=False)
    try:
        client.run(sys.stdin.buffer.read().decode("utf-8", "replace"))
    except Over as error:
        how = error.how
        if how != "told":
            tell("ended", error.why[:2000], how=how, code=error.code)
    finally:
        client.give_up()
        client.wire.end(_LEAVE)
    return 0 if how == "clean" else 1
