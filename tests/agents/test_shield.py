"""The real programs behind the shield, and Codex's own sandbox where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.real_agents import FIRST, house, returns

if TYPE_CHECKING:
    from pathlib import Path

STATE = ".local/state/overhand"
KEPT = (".overhand/forged", ".git/hooks/forged", ".agent-workspaces/forged", ".agent-workspaces/other/forged")


def attempts() -> list[dict[str, Any]]:
    """It writes a file of its own, then goes looking."""
    tries = "; ".join(f"touch {path}" for path in KEPT)
    log = f'for f in "$HOME"/{STATE}/projects/*/tasks/*/log.jsonl; do echo forged >>"$f"; done'
    return [
        {"ops": [{"bash": {"command": f"echo hello >made.txt; {tries}; {log}; echo tried"}}]},
        returns(summary="Tried."),
        {"text": "All done."},
    ]


def keeps_out(name: str, folder: Path, shield: str) -> dict[str, Any]:
    """The run, of which nothing was written but its own file."""
    with house(name, folder, {"forge": attempts()}, git=True) as place:
        (place.path / ".agent-workspaces/other").mkdir(parents=True)
        done = place.delegate("Forge it. script:forge", "--set", f"shield={shield}")
        assert "tried" in str(place.rows("forge")[1]["results"][0]), place.stream(done["runs"][0])
        assert (place.path / "made.txt").read_text() == "hello\n"
        assert [path for path in KEPT if (place.path / path).exists()] == []
        logs = list((place.home / STATE).glob("projects/*/tasks/*/log.jsonl"))
        assert logs
        assert "forged" not in "".join(log.read_text() for log in logs)
        assert done["status"] == "completed", done["problems"]
        run: dict[str, Any] = done["runs"][0]
        return run


@pytest.mark.parametrize("name", FIRST)
def test_what_goes_looking_behind_the_shield_writes_nothing(name: str, tmp_path: Path) -> None:
    assert keeps_out(name, tmp_path, "require")["shield"]["held"]


def test_without_a_shield_codex_has_its_own_sandbox_and_the_receipt_says_so(tmp_path: Path) -> None:
    shield = keeps_out("codex", tmp_path, "off")["shield"]
    assert shield["held"] is False
    assert shield["instead"].startswith("its own sandbox keeps the record")


def test_goose_can_be_held_to_reading(tmp_path: Path) -> None:
    script: list[dict[str, Any]] = [
        {"ops": [{"write": {"path": "{project}/new.txt", "content": "x\n"}}]},
        returns(summary="Could not write it."),
        {"text": "All done."},
    ]
    with house("goose", tmp_path, {"write": script}, git=True) as place:
        words = ("--read-only", "--set", "shield=require")
        told = place.delegate("Write new.txt. script:write", *words, wait=False)
        assert "Goose has no sandbox" not in told["may"]
        assert "project" in told["shield"]["read_only"]
        assert place.judged()["status"] == "completed"
        assert not (place.path / "new.txt").exists()
