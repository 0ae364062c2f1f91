"""Alerts: raised and resolved as files, told to every new task, never lost to a writer or a name that is taken."""

from __future__ import annotations

import shlex
import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from overhand.documents import Alert, Handoff
from overhand.drafts import raise_alert, resolve_alert, with_alerts
from overhand.errors import BadInput, NotFound, Refused
from overhand.policy import Config
from support.warm import make_project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from overhand.testing.project import ProjectDir

CONFIG = Config()
DOWN = Alert("The tile server is down", "It was switched off.", "Tests fail.", "until Friday", "Use `make local`.")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[ProjectDir]:
    project = make_project(tmp_path / "project")
    yield project
    project.cleanup()


def test_from_raise_to_resolve_by_command(desk: ProjectDir) -> None:
    words = ("--what", "Switched off.", "--impact", "Tests fail.", "--duration", "a day", "--workaround", "make local")
    raised = desk.run("alert", "raise", "Tiles", "are", "down", *words, "--json", check=True).json
    assert (raised["path"], raised["state"]) == ("alerts/ALERT_TILES_ARE_DOWN.md", "active")
    assert desk.run("check", raised["path"], check=True).out.endswith("alert, 0 errors, 0 warnings\n")
    assert [one["title"] for one in desk.run("alert", "list", "--json").json["alerts"]] == ["Tiles are down"]
    task = desk.run("delegate", "Draw the map", "--context", "It is small.", "--no-start", "--json", check=True).json
    handoff = (desk.path / ".agent-workspaces" / task["task_id"] / "HANDOFF.md").read_text()
    told = "Alerts in force:\n- **Tiles are down**: make local (alerts/ALERT_TILES_ARE_DOWN.md)\n"
    assert f"## Context\nIt is small.\n\n{told}" in handoff
    assert "Tests fail." not in handoff
    done = desk.run("alert", "resolve", "tiles", "--note", "it is back", "--json", check=True).json
    assert done["state"] == "done"
    assert done["resolved"].endswith(": it is back")
    text = (desk.path / raised["path"]).read_text()
    assert "**Tags**: #done-alert\n" in text
    assert desk.run("alert", "list").out == "No alert is in force.\n"
    assert "Tiles are down" in desk.run("alert", "list", "--all").out
    assert desk.run("item", "list", "--all", "--json", check=True).json["items"] == [], "an alert is no item"
    task = desk.run("delegate", "Draw it again", "--no-start", "--json", check=True).json
    assert "Alerts" not in (desk.path / ".agent-workspaces" / task["task_id"] / "HANDOFF.md").read_text()
    assert desk.run("alert", "resolve", "tiles").code == 3
    assert desk.run("alert", "resolve", "nothing").code == 4
    assert desk.run("alert", "raise").code == 2


def test_an_agent_may_raise_one_and_is_named(desk: ProjectDir) -> None:
    python = shlex.quote(sys.executable)
    raising = f"{python} -m overhand alert raise Disk full && {python} -m overhand.testing.agent output"
    desk.agent("worker", command=["sh", "-c", raising])
    desk.run("delegate", "Look", "--wait", check=True)
    found = desk.run("alert", "list", "--json").json["alerts"]
    assert [one["title"] for one in found] == ["Disk full"]
    assert "by run sess_" in found[0]["raised"]
    assert found[0]["raised"].endswith("of worker")


def test_the_same_title_twice_is_two_files(tmp_path: Path) -> None:
    threads = [threading.Thread(target=raise_alert, args=(str(tmp_path), CONFIG, DOWN)) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    names = sorted(path.name for path in (tmp_path / "alerts").iterdir())
    assert names == [
        "ALERT_THE_TILE_SERVER_IS_DOWN.md",
        *(f"ALERT_THE_TILE_SERVER_IS_DOWN_{n}.md" for n in range(2, 9)),
    ]
    with pytest.raises(BadInput, match="fits several"):
        resolve_alert(str(tmp_path), CONFIG, "tile", "over")
    assert not resolve_alert(str(tmp_path), CONFIG, f"alerts/{names[3]}", "over").alert.active


def test_resolving_touches_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "alerts").mkdir()
    raw = b"\xef\xbb\xbf# Alert: Tiles\r\n\r\n**Tags**: #P1 #active-alert #S\r\n\r\n"
    raw += b"`#active-alert` \xff stays\r\n\r\n## Impact\r\nx"
    (tmp_path / "alerts/tiles.md").write_bytes(raw)
    resolve_alert(str(tmp_path), CONFIG, "tiles", "over")
    after = (tmp_path / "alerts/tiles.md").read_bytes()
    assert after == raw.replace(b"#P1 #active-alert", b"#P1 #done-alert") + b"\r\n\r\n## Resolved\r\n\r\nover\r\n"
    with pytest.raises(Refused, match="not in force"):
        resolve_alert(str(tmp_path), CONFIG, "tiles", "over")
    with pytest.raises(NotFound):
        resolve_alert(str(tmp_path), CONFIG, "roads", "over")


def test_what_is_told(tmp_path: Path) -> None:
    root = str(tmp_path)
    task = Handoff("Draw the map")
    assert with_alerts(root, CONFIG, task) is task
    (tmp_path / "alerts").mkdir()
    (tmp_path / "alerts/notes.md").write_text("# Notes\n\nThe tag is called `#active-alert`.\n")
    (tmp_path / "alerts/broken.md").symlink_to("nowhere")
    assert with_alerts(root, CONFIG, task) is task
    for number in range(12):
        raise_alert(root, CONFIG, replace(DOWN, title=f"Alert {number:02}", workaround="wait\n## now " + "x" * 999))
    shown = with_alerts(root, CONFIG, task).context.split("\n")
    assert len(shown) == 12
    assert shown[1].startswith("- **Alert 00**: wait ## now xxx")
    assert max(map(len, shown)) < 400
    assert shown[-1] == "- and 2 more in alerts/"
