"""HTTP: which format a path speaks, and answers sent whole, as a stream, late or never."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import time
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

from model import anthropic, chat, gemini, responses
from model.answering import Reply, reply
from model.scripts import Usage
from model.wire import Format, Json, Problem, dumps

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from model.server import ScriptedModel

LOOK = 0.02  # seconds between two looks whether a file has come or the client has gone
MOST = 64 * 1024 * 1024  # bytes of one request

FORMATS: dict[str, Format] = {
    "/messages": anthropic,
    "/responses": responses,
    "/chat/completions": chat,
    ":generateContent": gemini,
    ":streamGenerateContent": gemini,
}


def aside(path: str) -> Json | None:
    """Answers to what clients ask beside the conversation: counting tokens, which models there are."""
    place = path.partition("?")[0].rstrip("/")
    if place.endswith("/count_tokens"):
        return {"input_tokens": Usage().input}
    if place.endswith(":countTokens"):
        return {"totalTokens": Usage().input}
    head, _, last = place.rpartition("/")
    if last == "models":
        return {"object": "list", "data": [_model("scripted")], "models": [_model("scripted")], "has_more": False}
    if head.endswith("/models"):
        return _model(last)
    return {} if not place else None


def _model(name: str) -> Json:
    return {"id": name, "object": "model", "type": "model", "owned_by": "overhand", "name": f"models/{name}"}


class Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: ScriptedModel

    def setup(self) -> None:
        super().setup()
        self.server.connected(self.connection)

    def finish(self) -> None:
        self.server.gone(self.connection)
        with contextlib.suppress(OSError):
            super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: the log has what counts."""

    def do_GET(self) -> None:
        self._aside()

    def do_HEAD(self) -> None:
        self._aside()

    def do_POST(self) -> None:
        body = self._body()
        if body is None:
            return
        path = self.path.partition("?")[0]
        speaks = next((FORMATS[end] for end in FORMATS if path.endswith(end)), None)
        if speaks is None:
            self._aside()
            return
        if speaks is gemini:
            body |= gemini.named_in(path)
        replied = reply(speaks.read(body), self.server.scripts)
        self.server.note({"format": speaks.NAME, "method": self.command, "path": self.path, **replied.row()})
        if not self._waited(replied):
            self.close_connection = True
        elif replied.failing:
            self._fail(speaks, replied)
        elif replied.request.stream:
            self._stream(speaks.stream(replied.answer))
        else:
            self._send(200, speaks.whole(replied.answer))

    def _aside(self) -> None:
        found = aside(self.path)
        status = 404 if found is None else 200
        self.server.note({"format": "aside", "method": self.command, "path": self.path, "status": status})
        self._send(status, {"error": {"message": f"Nothing is at {self.path}."}} if found is None else found)

    def _body(self) -> Json | None:
        try:
            length = int(self.headers.get("content-length") or 0)
            if not 0 <= length <= MOST:
                raise ValueError(f"{length} bytes")
            body = json.loads(self.rfile.read(length) or b"{}")
            if not isinstance(body, dict):
                raise ValueError("something else")  # noqa: TRY004 - a wrong request, not a wrong call
        except (ValueError, RecursionError) as why:
            self.close_connection = True
            self._send(400, {"error": {"message": f"The body is not one JSON object: {why}."}})
            return None
        return body

    def _waited(self, replied: Reply) -> bool:
        """Wait as the turn says; false if there is nobody left to answer."""
        turn, path = replied.turn, replied.hang_until
        end = time.monotonic() + turn.delay
        while time.monotonic() < end or (turn.hang and not (path and os.path.exists(path))):
            if self.server.closing.wait(LOOK) or self._left():
                return False
        return True

    def _left(self) -> bool:
        readable, _, _ = select.select([self.connection], [], [], 0)
        try:
            return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return True

    def _fail(self, speaks: Format, replied: Reply) -> None:
        turn = replied.turn
        wait = 1 if turn.retry_after is None else turn.retry_after
        message = turn.message or f"Scripted error {turn.status}."
        headers, body = speaks.failure(Problem(turn.status, message, time.time(), wait, turn.resets_in))
        self._send(turn.status, body, headers)

    def _stream(self, frames: Iterator[bytes]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("cache-control", "no-cache")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for frame in frames:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(frame), frame))
        self.wfile.write(b"0\r\n\r\n")

    def _send(self, status: int, body: Json, headers: Mapping[str, str] | None = None) -> None:
        data = dumps(body).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
