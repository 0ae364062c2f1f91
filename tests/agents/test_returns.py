"""What real agents return: mended in the same session, denied where they may only read, refused below the limit."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from overhand.agents.drivers import gemini
from support.real_agents import FIRST, REST, house, returns

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.soak  # real agents

HOOKED = ("claude", "codex", "qwen")  # agents that run a hook of ours before they stop
BROKEN = {"ops": [{"write": {"path": "{output}", "content": "I did it, believe me.\n"}}]}
SORRY = {"text": "That is all."}


@pytest.mark.case("repair")
@pytest.mark.parametrize("name", HOOKED)
@pytest.mark.parametrize("how", ["broken", "missing"])
def test_caught_before_it_stops(name: str, how: str, tmp_path: Path) -> None:
    first = [BROKEN, SORRY] if how == "broken" else [SORRY]
    with house(name, tmp_path, {"bad": [*first, returns(summary="Mended."), SORRY]}) as place:
        done = place.delegate("Do it. script:bad")
        assert (done["status"], done["summary"]) == ("completed", "Mended."), place.stream(done["runs"][-1])
        assert (len(done["runs"]), done["repairs"]) == (1, 0), place.turns("bad")
        told = next(row for row in place.rows("bad") if row["turn"] == len(first))
        assert "could not be accepted" in told["said"]
        assert ("no status" if how == "broken" else "without a return") in told["said"]
        assert place.turns("bad") == list(range(len(first) + 2))
        used = done["usage"]
        assert (used["input"], used["output"], used["estimated"]) == (*place.spent(), False)


@pytest.fixture
def roots_own(pytestconfig: pytest.Config) -> Iterator[Path]:
    """A folder that only root can change, all the way up; a temporary one never is."""
    with tempfile.TemporaryDirectory(prefix=".overhand-test-", dir=pytestconfig.rootpath) as folder:
        if not gemini.belongs_to_root(folder):
            pytest.skip("Gemini takes settings of one run only where root alone can write")
        yield Path(folder)


@pytest.mark.parametrize("how", ["broken", "missing"])
def test_gemini_is_caught_where_root_owns_the_place(how: str, roots_own: Path) -> None:
    first = [BROKEN, SORRY] if how == "broken" else [SORRY]
    said = {"mcp": {"server": "overhand", "tool": "finish", "arguments": {"status": "completed", "summary": "Mended."}}}
    with house("gemini", roots_own, {"bad": [*first, {"ops": [said]}, SORRY]}, git=True) as place:
        done = place.delegate("Do it. script:bad")
        assert (done["status"], done["summary"]) == ("completed", "Mended."), place.stream(done["runs"][-1])
        assert (len(done["runs"]), done["repairs"]) == (1, 0), place.turns("bad")
        told = next(row for row in place.rows("bad") if row["turn"] == len(first))
        assert "could not be accepted" in told["said"]


def test_the_persons_own_hooks_stay(tmp_path: Path) -> None:
    with house("claude", tmp_path, {"bad": [SORRY, returns(summary="Mended."), SORRY]}) as place:
        own = [{"hooks": [{"type": "command", "command": f"echo x >>{place.home}/own"}]}]
        (place.home / ".claude").mkdir()
        (place.home / ".claude/settings.json").write_text(json.dumps({"hooks": {"Stop": own}}))
        done = place.delegate("Do it. script:bad")
        assert (done["status"], len(done["runs"])) == ("completed", 1)
        assert (place.home / "own").read_text() == "x\nx\n"


def test_hooks_of_a_repository_are_not_trusted_with_ours(tmp_path: Path) -> None:
    with house("codex", tmp_path, {"bad": [SORRY, returns(summary="Mended."), SORRY]}, git=True) as place:
        with (place.home / ".codex/config.toml").open("a") as config:
            config.write(f'\n[projects."{place.path}"]\ntrust_level = "trusted"\n')
        (place.path / ".codex").mkdir()
        foreign = [{"hooks": [{"type": "command", "command": f"touch {place.home}/foreign"}]}]
        (place.path / ".codex/hooks.json").write_text(json.dumps({"hooks": {"Stop": foreign}}))
        done = place.delegate("Do it. script:bad")
        assert (done["status"], len(done["runs"])) == ("completed", 1)  # ours was run
        assert not (place.home / "foreign").exists()


@pytest.mark.case("repair")
@pytest.mark.parametrize("name", [*FIRST, *REST])
@pytest.mark.parametrize("how", ["broken", "missing"])
def test_mended_in_the_same_session(name: str, how: str, tmp_path: Path) -> None:
    first = [BROKEN, SORRY] if how == "broken" else [SORRY]
    scripts = {"bad": [*first, returns(summary="Mended."), SORRY]}
    with house(name, tmp_path, scripts, config=f"[drivers.{name}]\nhooks = false\n") as place:
        done = place.delegate("Do it. script:bad")
        assert (done["status"], done["summary"]) == ("completed", "Mended."), place.stream(done["runs"][-1])
        mending = next(row for row in place.rows("bad") if row["turn"] == len(first))
        assert "could not be accepted" in mending["said"]
        assert ("no status" if how == "broken" else "without a return") in mending["said"]
        assert len(done["runs"]) == 2
        assert len(set(place.sessions())) == 1
        used = done["usage"]
        assert (used["input"], used["output"], used["estimated"]) == (*place.spent(), False)


@pytest.mark.parametrize("name", FIRST)
def test_mended_at_most_twice(name: str, tmp_path: Path) -> None:
    with house(name, tmp_path, {"bad": [SORRY] * 9}) as place:
        done = place.delegate("Do it. script:bad")
        assert (done["status"], len(done["runs"]), done["repairs"]) == ("failed", 3, 2)
        assert "return-missing" in [problem["code"] for problem in done["problems"]]
        held = 2 if name in HOOKED else 0  # in its first run; who mends was told already
        assert place.turns("bad") == list(range(3 + held))


@pytest.mark.parametrize("name", [*FIRST, *REST])
def test_reading_only_still_returns(name: str, tmp_path: Path) -> None:
    script: list[dict[str, Any]] = [{"ops": [{"read": {"path": "{project}/a.txt"}}]}, returns(summary="Read."), SORRY]
    with house(name, tmp_path, {"read": script}) as place:
        (place.path / "a.txt").write_text("what is in it\n")
        done = place.delegate("Read a.txt. script:read", "--read-only")
        assert (done["status"], done["level"], len(done["runs"])) == ("completed", "read", 1), done["problems"]
        assert "what is in it" in place.rows("read")[1]["results"][0]


@pytest.mark.case("denied", "found afterwards", agent="goose")
def test_goose_is_told_and_found_out(tmp_path: Path) -> None:
    script: list[dict[str, Any]] = [
        {"ops": [{"write": {"path": "{project}/new.txt", "content": "x\n"}}]},
        returns(summary="Wrote it.", files="new.txt"),
        SORRY,
    ]
    with house("goose", tmp_path, {"write": [*script, *[SORRY] * 3]}, git=True) as place:
        words = ("--read-only", "--set", "shield=off")
        told = place.delegate("Write new.txt. script:write", *words, wait=False)
        assert "Goose has no sandbox" in told["may"]
        done = place.judged()
        assert (done["status"], len(done["runs"])) == ("failed", 1)
        assert "read-only-changed" in [problem["code"] for problem in done["problems"]]


@pytest.mark.parametrize(
    ("name", "mcp", "told"), [("claude", True, "becomes a question"), ("claude", False, "is denied")]
)
def test_what_becomes_of_more_is_told_at_the_start(name: str, mcp: bool, told: str, tmp_path: Path) -> None:
    with house(name, tmp_path, {}) as place:
        place.agent("it", driver=name, command=None, mcp=mcp)
        assert told in place.delegate("Look.", "--agent", "it", "--read-only", "--no-start", wait=False)["may"]


COMMANDS = (
    *("touch x.txt", "overhand --version; touch x.txt", "overhand --version > x.txt", "overhand $(touch x.txt)"),
    *("overhand --version && touch x.txt", "overhand --version | tee x.txt", "overhand --version\ntouch x.txt"),
)


@pytest.mark.case("denied")
@pytest.mark.parametrize("name", ["claude", "codex", *REST])
def test_reading_only_writes_nothing_else(name: str, tmp_path: Path) -> None:
    tried = COMMANDS if name in ("claude", "codex", "gemini") else ()  # the others have no shell then
    script: list[dict[str, Any]] = [
        {"ops": [{"write": {"path": "{project}/new.txt", "content": "x\n"}}]},
        *({"ops": [{"bash": {"command": command}}]} for command in tried),
        returns(summary="Wrote it.", files="notes/new.txt"),
        SORRY,
    ]
    with house(name, tmp_path, {"write": script}) as place:
        place.agent("quiet", driver=name, command=None, mcp=False)  # with its server Claude would ask instead
        (place.path / "notes").mkdir()  # what it may write lies there, and nothing else
        words = ("--agent", "quiet", "--read-only", "--deliverable", "notes/new.txt")
        done = place.delegate("Write notes/new.txt. script:write", *words)
        assert done["status"] == "failed"
        assert place.turns("write")[: len(script)] == list(range(len(script)))
        codes = [problem["code"] for problem in done["problems"]]
        assert "deliverable-missing" in codes
        assert list(place.path.glob("*.txt")) == []
        if name != "codex":  # its sandbox tells the command only
            assert "permission-denied" in codes


@pytest.mark.case("nested")
@pytest.mark.parametrize("name", [*FIRST, *REST])
def test_delegating_below_the_limit_is_refused(name: str, tmp_path: Path) -> None:
    delegate = "../bin/overhand delegate 'Go on. script:{}' --agent {} --wait --json; echo code $?"
    below: list[dict[str, Any]] = [
        {"ops": [{"bash": {"command": delegate.format(script, name)}}]} for script in ("two", "three", "four")
    ]
    end = [returns(summary="Handed on."), SORRY]
    scripts = {n: [turn, *end] for n, turn in zip(("one", "two", "three"), below, strict=True)} | {"four": end}
    with house(name, tmp_path, scripts, config=f"[drivers.{name}]\nreentrant = true\n") as place:
        done = place.delegate("Begin. script:one")
        assert done["status"] == "completed", place.stream(done["runs"][-1])
        tasks = place.run("list", "--json").json["tasks"]
        assert len(tasks) == 3, [(one["title"], one["status"]) for one in tasks]
        assert "code 3" in place.rows("three")[1]["results"][0]
        assert not place.rows("four")
        log = place.task_record(tasks[-1]["task_id"]) / "log.jsonl"
        events = [json.loads(line) for line in log.read_text().splitlines()]
        assert [event["code"] for event in events if event["e"] == "refused"] == ["MAX_DEPTH_EXCEEDED"]
