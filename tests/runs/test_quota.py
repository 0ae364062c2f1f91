"""A provider's limit pauses its program, not the work: nothing fails, nothing is spent, and it goes on by itself."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from overhand.agents import all_pauses, quota, stream
from overhand.agents.drivers import claude
from overhand.record import fold
from support import player
from support.real_agents import house, returns
from support.real_agents import until as comes
from support.scene import until

if TYPE_CHECKING:
    from support.scene import Scene

NOW = datetime(2026, 11, 16, 12, 0, 30, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Claude AI usage limit reached|1794830500", 1794830500 - NOW),
        ("API Error: Request rejected (429) · Claude AI usage limit reached|1794830500", 1794830500 - NOW),
        ("Rate limit reached for gpt-5. Please try again in 1.5s. Visit …", 1.5),
        ("try again in 250ms", 0.25),
        ("You've hit your usage limit. Try again in 2 hours 5 minutes.", 7500),
        ("Try again in 1 day, 3 hours and 1 minute.", 97260),
        ("Your quota will reset after 2h37m3s.", 9423),
        ("429 Too Many Requests; retry-after: 30", 30),
        ("You\u2019ve hit your usage limit. … or try again at 3:05 PM.", 3 * 3600 + 5 * 60 + 30),
        ("try again at 12:00 PM.", 30),  # this minute: its end
        ("try again at 11:59 AM.", 86400 - 30),  # tomorrow
        ("try again at Nov 20th, 2026 3:05 PM.", 4 * 86400 + 3 * 3600 + 5 * 60 + 30),
        ("You've hit your limit · resets 3pm (UTC)", 3 * 3600 + 30),
        ("5-hour limit reached ∙ resets 4:30pm (Europe/Berlin)", 3 * 3600 + 30 * 60 + 30),
        ("Rate limit reached", None),
        ("It resets 7 things", None),
        ("try again at 25:99", None),
        ("usage limit reached|9999999999", None),  # no time that anybody means
        ("", None),
    ],
)
def test_times_that_programs_name(monkeypatch: pytest.MonkeyPatch, text: str, seconds: float | None) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    found = quota.when(text, NOW)
    assert (None if found is None else round(found - NOW, 3)) == seconds


@pytest.mark.parametrize(
    ("status", "text", "how"),
    [
        (429, "", "rate-limit"),
        (None, "exceeded retry limit, last status: 429 Too Many Requests", "rate-limit"),
        (None, "You've hit your limit · resets 3pm", "rate-limit"),
        (429, "You exceeded your current quota, please check your plan and billing details.", "api-error"),
        (400, "Your credit balance is too low", "api-error"),
        (500, "Overloaded", "api-error"),
    ],
)
def test_what_is_a_limit(status: int | None, text: str, how: str) -> None:
    assert stream.failure(status, text) == how


def test_claude_says_when_its_account_is_reset() -> None:
    lines = (
        {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed_warning", "resetsAt": 5}},
        {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 1794830500}},
        {"type": "result", "subtype": "success", "is_error": True, "api_error_status": 429, "result": "Limit"},
    )
    heard = stream.hear("\n".join(map(json.dumps, lines)).encode(), claude.translate)
    assert (heard.end, heard.retry_at) == ("rate-limit", 1794830500.0)


def test_a_task_that_met_its_limit_keeps_the_place_it_had_before_it_began() -> None:
    """Another one may have been delegated between its own delegation and its start: that is still behind it."""
    events: list[dict[str, object]] = [
        {"e": "created", "agent": "claude"},
        {"e": "accepted"},
        {"e": "run.created", "run": "sess_1_aaaaaa"},
        {"e": "run.ended", "run": "sess_1_aaaaaa", "cause": "exit"},
        {"e": "accepted", "limit": {"driver": "claude", "until": 1794830500.0}},
    ]
    stamped = [{**event, "t": f"2026-11-16T12:00:0{second}.000Z"} for second, event in enumerate(events)]
    task = fold("claude-20261116-120000", stamped)
    assert (task.queued, task.queued_at) == (True, "2026-11-16T12:00:01.000Z")


def paused_for(seconds: float) -> str:
    return f"Claude AI usage limit reached|{int(time.time() + seconds)}"


def test_what_is_not_paused_needs_nothing(scene: Scene, bench: Path) -> None:
    assert scene.json("agents", "claude", "--unpause")["was_paused"] is False
    assert scene.json("agents", "nobody-of-that-name", "--unpause", code=4)["error"]
    assert scene.json("agents", "--unpause", code=2)["error"]["hint"] == "overhand agents NAME --unpause"


@pytest.fixture
def bench(scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the programs `claude` and `codex` are, which play their parts."""
    folder = player.put(tmp_path / "bin", "claude", "codex")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def runs_of(bench: Path) -> list[dict[str, Any]]:
    return [row for row in player.trail(bench) if "session" in row]


def rows(scene: Scene) -> dict[str, Any]:
    return {row["task_id"]: row for row in scene.json("list")["tasks"]}


def test_the_task_goes_back_to_the_queue_with_the_reason(scene: Scene, bench: Path) -> None:
    (bench / "limit").write_text(paused_for(3600))
    first = scene.delegate("first", "--agent", "claude")
    until(lambda: scene.state(first).paused, "the limit recorded")
    second = scene.delegate("second", "--agent", "claude")
    shown = until(lambda: found if (found := rows(scene))[second].get("reason") else None, "the reason shown")
    assert shown[first]["reason"].startswith("claude is paused until ")
    assert shown[first]["reason"].endswith("(its limit)")
    assert (shown[first]["headline"], shown[first]["status"]) == ("working", None)
    assert (shown[second]["headline"], shown[second]["runs"]) == ("queued", 0)
    assert shown[first]["position"] < shown[second]["position"], "it keeps its place"


def test_others_are_not_held_up(scene: Scene, bench: Path) -> None:
    (bench / "limit").write_text(paused_for(3600))
    first = scene.delegate("first", "--agent", "claude", "--read-only")
    until(lambda: scene.state(first).paused, "the limit recorded")
    (bench / "limit").unlink()
    other = scene.delegate("other", "--agent", "codex")
    assert scene.judged(other).status == "completed"
    assert scene.state(first).queued
    assert scene.json("stop", first)["tasks"][0]["status"] == "cancelled"


def test_it_starts_by_itself_when_the_time_has_come(scene: Scene, bench: Path) -> None:
    (bench / "limit").write_text("Rate limit reached. Please try again in 8s.")  # from the end of the run
    tasks = [scene.delegate(title, "--agent", "claude") for title in ("first", "second")]
    event = until(lambda: [e for t in tasks for e in scene.events(t, "accepted") if "limit" in e], "the limit")[0]
    (bench / "limit").unlink()
    assert [scene.judged(task).status for task in tasks] == ["completed", "completed"]
    first, *later = runs_of(bench)
    assert [row["resumed"] for row in later] == [True, False]
    assert later[0]["session"] == first["session"], "in the native session"
    assert "HANDOFF.md" in later[0]["prompt"]
    state = scene.state(tasks[0])
    assert [run.status for run in state.runs] == ["limit", "completed"]
    assert (state.repairs, scene.events(tasks[0], "judged")[0]["status"]) == (0, "completed")
    began = [e["t"] for e in scene.events(tasks[0], "run.created")][1]
    assert datetime.fromisoformat(began).timestamp() >= event["limit"]["until"]


def test_a_new_supervisor_knows(scene: Scene, bench: Path) -> None:
    (bench / "limit").write_text(paused_for(3600))
    task = scene.delegate("first", "--agent", "claude")
    until(lambda: scene.state(task).paused, "the limit recorded")
    scene.kill_supervisor()
    (bench / "limit").unlink()
    waiting = scene.delegate("second", "--agent", "claude")  # starts another one
    until(lambda: rows(scene)[waiting].get("reason"), "the reason shown")
    assert len(runs_of(bench)) == 1
    told = scene.json("agents", "claude", "--unpause")
    assert (told["unpaused"], told["was_paused"]) == ("claude", True)
    assert [scene.judged(one).status for one in (task, waiting)] == ["completed", "completed"]
    assert len(runs_of(bench)) == 3


def test_another_agent_takes_over(scene: Scene, bench: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = player.put(tmp_path / "free", "codex")  # where there is no limit
    monkeypatch.setenv("PATH", f"{free}:{bench}:/usr/bin:/bin")
    scene.project.config('on_limit = "switch:codex"\n')
    (bench / "limit").write_text(paused_for(3600))
    task = scene.delegate("first", "--agent", "claude")
    until(lambda: [e for e in scene.events(task, "accepted") if e.get("limit", {}).get("to") == "codex"], "the switch")
    state = scene.judged(task)
    assert (state.agent, state.status) == ("codex", "completed")
    assert [row["name"] for row in (*runs_of(bench), *runs_of(free))] == ["claude", "codex"]
    assert "Previous Worker Context" in runs_of(free)[0]["prompt"]
    waiting = scene.delegate("second", "--agent", "claude")  # claude is still paused: it does not wait for it
    assert (scene.judged(waiting).agent, scene.state(waiting).status) == ("codex", "completed")


def test_both_at_their_limit_wait(scene: Scene, bench: Path) -> None:
    scene.project.config('on_limit = "switch:codex"\n[drivers.codex]\non_limit = "switch:claude"\n')
    (bench / "limit").write_text("You\u2019ve hit your usage limit. Try again in 2 hours.")
    task = scene.delegate("first", "--agent", "claude")
    until(lambda: len(all_pauses(scene.store)) == 2, "both paused")
    until(lambda: scene.state(task).queued, "it waits")
    assert len(scene.state(task).runs) == 2
    assert len(runs_of(bench)) == 2


@pytest.mark.parametrize("other", ["nobody", "goose"])
def test_somebody_who_cannot_take_over_is_told_beforehand(scene: Scene, bench: Path, other: str) -> None:
    scene.project.config(f'on_limit = "switch:{other}"\n')
    (bench / "limit").write_text("You\u2019ve hit your usage limit. Try again in 2 hours.")
    ran = scene.project.run("delegate", "first", "--agent", "claude", check=True)
    assert f"on_limit names {other}: " in ran.err
    assert "claude will wait" in ran.err
    until(lambda: all_pauses(scene.store), "the pause")
    task = until(lambda: next((s for s in scene.store.tasks() if s.queued and s.runs), None), "it waits")
    assert task.agent == "claude"


@pytest.mark.parametrize("rule", ["switch", "switch:", "switch:No Name", "wait", 3])
def test_a_rule_that_is_none(scene: Scene, rule: object) -> None:
    scene.project.trust = False
    scene.project.config(f"on_limit = {rule!r}\n")
    ran = scene.project.run("delegate", "x", "--agent", "worker")
    assert (ran.code, "on_limit" in ran.err) == (2, True)


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_a_real_agent_waits_for_its_reset(name: str, tmp_path: Path) -> None:
    until_there = tmp_path / "go"
    reset = int(time.time()) + 30
    message = {"claude": f"Claude AI usage limit reached|{reset}", "codex": "Slow down."}[name]
    limit = {"status": 429, "message": message, "retry_after": 0, "until": str(until_there)}
    if name == "codex":
        limit["resets_in"] = 1
    scripts = {"it": [{"ops": [{"bash": {"command": "echo begun"}}]}, {**returns(), **limit}, {"text": "Done."}]}
    with house(name, tmp_path, scripts) as place:
        place.delegate("do it script:it", wait=False)
        shown = comes(lambda: found if (found := place.show()).get("reason") else {}, "the pause")
        assert shown["reason"].startswith(f"{name} is paused until ")
        assert (shown["status"], [run["status"] for run in shown["runs"]]) == (None, ["limit"])
        until_there.touch()
        if name == "codex":  # it says the minute only: lifted by hand, as a person would
            (place.record / "supervisor/paused-codex").unlink()
        done = place.judged()
        assert (done["status"], [run["status"] for run in done["runs"]]) == ("completed", ["limit", "completed"])
        first, second = (place.task_record(done["task_id"]) / "runs" / run["id"] for run in done["runs"])
        session = json.loads((second / "spec.json").read_text())["session"]
        assert session in (first / "stdout").read_text()
