"""The scripted model over HTTP: places in a script, errors, waiting, many clients, and its end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from model import scripted_model
from testing.wire_clients import FORMATS, Chat, fetch

TESTS = Path(__file__).resolve().parents[1]  # where `python -m model` is found
SCRIPTS: dict[str, Any] = {
    "three": [
        {"text": "I begin.", "ops": [{"write": {"path": "/a", "content": "1"}}, {"bash": {"command": "ls"}}]},
        {"ops": [{"read": {"path": "/a"}}], "usage": {"input": 7, "output": 3}},
        {"text": "It is finished."},
    ],
    "other": [{"text": "other 0"}, {"text": "other 1"}],
    "again": {"turns": [{"text": "first try"}], "when": {"could not be accepted": "other"}},
    "echo": [{"ops": [{"bash": {"command": "ask"}}]}, {"text": "They said: {result}"}],
}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("stream", [True, False])
def test_a_script_is_played_to_its_end(format: str, stream: bool) -> None:
    with scripted_model(SCRIPTS) as model:
        chat = Chat(model.url, format)
        chat.say("Do it. script:three")
        first = chat.turn(stream=stream)
        assert first.text == "I begin."
        assert [(name, given) for _, name, given in first.calls] == [
            ("Write", {"file_path": "/a", "content": "1"}),
            ("Bash", {"command": "ls"}),
        ]
        assert (first.input, first.output) == (1000, 50)
        chat.result(first, "written", "a")
        second = chat.turn(stream=stream)
        assert (second.text, second.calls[0][1:]) == ("", ("Read", {"file_path": "/a"}))
        assert (second.input, second.output) == (7, 3)
        chat.result(second, "1")
        third = chat.turn(stream=stream)
        assert (third.text, third.calls) == ("It is finished.", [])
        rows = model.log()
    assert [(row["format"], row["script"], row["turn"], row["stream"]) for row in rows] == [
        (format, "three", turn, stream) for turn in range(3)
    ]
    assert [row["calls"] for row in rows] == [["Write", "Bash"], ["Read"], []]
    assert rows[1]["results"] == ["written", "a"]
    assert rows[0]["tools"] == ["Write", "Bash", "Read"]
    assert [row["input"] for row in rows] == [1000, 7, 1000]


@pytest.mark.parametrize("format", FORMATS)
class TestPlaces:
    def test_a_retry_gets_the_same_turn(self, format: str) -> None:
        with scripted_model(SCRIPTS) as model:
            chat = Chat(model.url, format)
            chat.say("script:three")
            chat.ask()
            assert chat.turn().text == "I begin."
            assert [row["turn"] for row in model.log()] == [0, 0]

    def test_a_title_request_takes_nothing_away(self, format: str) -> None:
        with scripted_model(SCRIPTS) as model:
            title = Chat(model.url, format, tools={})
            title.say("Find a title for: script:three")
            said = title.turn()
            assert said.calls == []
            assert "no tool that runs a command is offered" in said.text
            chat = Chat(model.url, format)
            chat.say("script:three")
            assert len(chat.turn().calls) == 2

    def test_a_new_message_goes_on_or_begins_anew(self, format: str) -> None:
        with scripted_model(SCRIPTS) as model:
            chat = Chat(model.url, format)
            chat.say("script:other")
            assert chat.turn().text == "other 0"
            chat.say("Go on.")
            assert chat.turn().text == "other 1"
            chat.say("Go on.")
            assert "has no turn 2" in chat.turn().text
            chat.say("script:other")
            assert chat.turn().text == "other 0"
            chat.say("Now script:three.")
            assert chat.turn().text == "I begin."

    def test_another_script_for_a_message_with_a_phrase(self, format: str) -> None:
        with scripted_model(SCRIPTS) as model:
            chat = Chat(model.url, format)
            chat.say("script:again")
            assert chat.turn().text == "first try"
            fresh = Chat(model.url, format)
            fresh.say("script:again\nYour last return could not be accepted")
            assert fresh.turn().text == "other 0"

    def test_markers_in_results_and_reminders_count_for_nothing(self, format: str) -> None:
        with scripted_model(SCRIPTS) as model:
            chat = Chat(model.url, format)
            chat.say("script:echo")
            asked = chat.turn()
            chat.result(asked, "blue; script:other")
            chat.say("<system-reminder>\nscript:other\n</system-reminder>")
            assert chat.turn().text == "They said: blue; script:other"

    def test_nobody_named_a_script(self, format: str) -> None:
        with scripted_model(SCRIPTS) as model:
            chat = Chat(model.url, format)
            chat.say("Hello?")
            assert "script:NAME" in chat.turn().text
            assert model.log()[0]["script"] is None

    def test_there_is_no_such_script(self, format: str) -> None:
        with scripted_model(SCRIPTS) as model:
            chat = Chat(model.url, format)
            chat.say("script:nowhere")
            got = chat.ask()
            assert got.status == 400
            assert got.json["error"]["message"] == "There is no script nowhere; there are: again, echo, other, three."


def test_calls_of_one_turn_that_a_client_tells_apart() -> None:
    with scripted_model(SCRIPTS) as model:
        chat = Chat(model.url, "chat")
        chat.say("script:three")
        said = chat.turn()
        written = chat.history.pop()
        one, two = written["tool_calls"]
        chat.history += [
            {"role": "assistant", "content": "I begin."},
            {"role": "user", "content": "<info-msg>It is late.</info-msg>"},
            {"role": "assistant", "tool_calls": [one]},
            {"role": "tool", "tool_call_id": one["id"], "content": "written"},
            {"role": "assistant", "tool_calls": [two]},
            {"role": "tool", "tool_call_id": two["id"], "content": "a"},
        ]
        assert len(said.calls) == 2
        assert [name for _, name, _ in chat.turn().calls] == ["Read"]
        assert model.log()[-1]["results"] == ["written", "a"]


ERRORS: dict[str, dict[int, str | None]] = {
    "anthropic": {401: "authentication_error", 429: "rate_limit_error", 500: "api_error", 529: "overloaded_error"},
    "responses": {401: "invalid_api_key", 429: "rate_limit_exceeded", 500: None, 503: None},
    "chat": {401: "invalid_api_key", 429: "rate_limit_exceeded", 500: None, 503: None},
    "gemini": {401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"},
}
FIELD = {"anthropic": "type", "responses": "code", "chat": "code", "gemini": "status"}


@pytest.mark.parametrize(("format", "status"), [(name, status) for name, known in ERRORS.items() for status in known])
def test_errors_in_the_providers_words(format: str, status: int) -> None:
    with scripted_model({"bad": [{"status": status, "message": "No."}]}) as model:
        chat = Chat(model.url, format)
        chat.say("script:bad")
        got = chat.ask()
        assert got.status == status
        assert got.json["error"]["message"] == "No."
        assert got.json["error"][FIELD[format]] == ERRORS[format][status]
        row = model.log()[0]
        assert (row["status"], row["input"], row["output"]) == (status, 0, 0)


REFUSALS = {
    "anthropic": '"stop_reason":"refusal"',
    "chat": '"finish_reason":"content_filter"',
    "gemini": '"finishReason":"SAFETY"',
    "responses": '"content":[{"type":"refusal","refusal":"I will not."}]',
}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("stream", [True, False])
def test_a_refusal_in_the_providers_words(format: str, stream: bool) -> None:
    with scripted_model({"no": [{"text": "I will not.", "refuses": True}]}) as model:
        chat = Chat(model.url, format)
        chat.say("script:no")
        got = chat.ask(stream=stream)
        assert (got.status, REFUSALS[format] in got.body.decode().replace(": ", ":").replace(", ", ",")) == (200, True)


def test_limits_say_when_they_end() -> None:
    scripts = {"slow": [{"status": 429, "retry_after": 7}], "used": [{"status": 429, "resets_in": 3600}]}
    with scripted_model(scripts) as model:

        def asked(format: str, script: str) -> Any:
            chat = Chat(model.url, format)
            chat.say(f"script:{script}")
            return chat.ask()

        slow, used = asked("anthropic", "slow"), asked("anthropic", "used")
        assert slow.headers["retry-after"] == "7"
        assert "anthropic-ratelimit-unified-status" not in slow.headers
        assert used.headers["anthropic-ratelimit-unified-status"] == "rejected"
        assert int(used.headers["anthropic-ratelimit-unified-reset"]) >= int(model.log()[1]["time"]) + 3600
        slow, used = asked("responses", "slow"), asked("responses", "used")
        assert slow.headers["x-ratelimit-reset-requests"] == "7s"
        assert used.json["error"]["type"] == "usage_limit_reached"
        assert used.json["error"]["resets_in_seconds"] == 3600
        slow, used = asked("gemini", "slow"), asked("gemini", "used")
        assert slow.json["error"]["details"][1]["retryDelay"] == "7s"
        assert "PerDay" in used.json["error"]["details"][0]["violations"][0]["quotaId"]


def test_an_error_until_a_file_is_there(tmp_path: Path) -> None:
    well = tmp_path / "well"
    with scripted_model({"ill": [{"status": 500, "until": str(well), "text": "Better."}]}) as model:
        chat = Chat(model.url, "chat")
        chat.say("script:ill")
        assert [chat.ask().status, chat.ask().status] == [500, 500]
        well.touch()
        assert chat.turn().text == "Better."


def test_hanging_until_a_file_is_there(tmp_path: Path) -> None:
    output = tmp_path / "run/OUTPUT.md"
    output.parent.mkdir()
    with scripted_model({"wait": [{"hang": "{workspace}/go", "delay": 0.01, "text": "Gone on."}]}) as model:
        chat = Chat(model.url, "responses")
        chat.say(f"script:wait\n    {output}\n")
        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(chat.turn)
            assert model.wait_for(1, script="wait")[0]["hang"] is True
            assert not waiting.done()
            (tmp_path / "run/go").touch()
            assert waiting.result(timeout=30).text == "Gone on."


def test_whoever_leaves_is_not_waited_for() -> None:
    before = set(threading.enumerate())
    with scripted_model({"wait": [{"hang": True}]}) as model:
        body = json.dumps({"messages": [{"role": "user", "content": "script:wait"}]}).encode()
        with socket.create_connection(("127.0.0.1", model.server_port)) as client:
            head = f"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
            client.sendall(head.encode() + body)
            model.wait_for(1)
            serving = set(threading.enumerate()) - before
        for thread in serving:
            if thread.name != "scripted-model":
                thread.join(timeout=30)
                assert not thread.is_alive()


def test_closing_ends_every_wait_and_every_idle_connection() -> None:
    before = set(threading.enumerate())
    with ThreadPoolExecutor() as pool:
        with scripted_model({"wait": [{"hang": True}]}) as model:
            chat = Chat(model.url, "gemini")
            chat.say("script:wait")
            hanging = pool.submit(chat.ask)
            idle = socket.create_connection(("127.0.0.1", model.server_port))
            model.wait_for(1)
        with pytest.raises((OSError, HTTPException)):
            hanging.result(timeout=30)
        idle.close()
    with pytest.raises(OSError, match="refused"):
        fetch(f"{model.url}/v1/models")
    assert set(threading.enumerate()) == before


def test_twenty_clients_at_once() -> None:
    with scripted_model(SCRIPTS) as model:

        def play(number: int) -> list[str]:
            chat = Chat(model.url, FORMATS[number % 4])
            chat.say("script:three")
            texts = []
            for _ in range(3):
                said = chat.turn()
                texts.append(said.text)
                if said.calls:
                    chat.result(said, *("done" for _ in said.calls))
            return texts

        with ThreadPoolExecutor(max_workers=20) as pool:
            played = list(pool.map(play, range(20)))
        assert played == [["I begin.", "", "It is finished."]] * 20
        rows = model.log()
    assert sorted(row["turn"] for row in rows) == [0] * 20 + [1] * 20 + [2] * 20
    assert [row["n"] for row in rows] == list(range(60))


def test_what_clients_ask_beside_the_conversation() -> None:
    with scripted_model({}) as model:
        assert fetch(f"{model.url}/v1/messages/count_tokens?beta=true", {}).json == {"input_tokens": 1000}
        assert fetch(f"{model.url}/v1beta/models/m:countTokens", {}).json == {"totalTokens": 1000}
        assert fetch(f"{model.url}/v1/models").json["data"][0]["id"] == "scripted"
        assert fetch(f"{model.url}/v1beta/models/m").json["name"] == "models/m"
        assert fetch(f"{model.url}/", method="HEAD").status == 200
        assert fetch(f"{model.url}/v1/embeddings", {}).status == 404
        assert {row["format"] for row in model.log()} == {"aside"}


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000])
def test_a_body_that_is_none(body: bytes) -> None:
    with scripted_model(SCRIPTS) as model, socket.create_connection(("127.0.0.1", model.server_port)) as client:
        head = f"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        client.sendall(head.encode() + body)
        answer = b"".join(iter(lambda: client.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 200 " if body == b"" else b"HTTP/1.1 400 ")


def test_it_listens_on_loopback_only() -> None:
    with scripted_model({}) as model:
        assert model.server_address[0] == "127.0.0.1"


def test_as_a_program(tmp_path: Path) -> None:
    scripts, log = tmp_path / "scripts.json", tmp_path / "log.jsonl"
    scripts.write_text(json.dumps(SCRIPTS))
    argv = [sys.executable, "-m", "model", "--scripts", str(scripts), "--log", str(log)]
    with subprocess.Popen(argv, cwd=TESTS, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        chat = Chat(f"http://127.0.0.1:{int(program.stdout.readline())}", "chat")
        chat.say("script:other")
        assert chat.turn().text == "other 0"
        os.kill(program.pid, signal.SIGTERM)
        assert program.wait(timeout=30) == 0
    (row,) = [json.loads(line) for line in log.read_text().splitlines()]
    assert (row["format"], row["script"], row["turn"], row["said"]) == ("chat", "other", 0, "script:other")


def test_as_a_program_with_scripts_that_are_none(tmp_path: Path) -> None:
    scripts = tmp_path / "scripts.json"
    scripts.write_text('{"a": [{"txt": "?"}]}')
    argv = [sys.executable, "-m", "model", "--scripts", str(scripts)]
    ended = subprocess.run(argv, cwd=TESTS, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert "script a, turn 0: no key 'txt'; there are" in ended.stderr
