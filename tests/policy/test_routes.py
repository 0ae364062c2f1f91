"""Which agent takes which kind of work, and what a project may not decide for its user."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from overhand.errors import BadInput, Refused
from overhand.policy import Config, Route, agent_of_route, check_route_mode, load_config, route_of
from overhand.policy.settings import read_routes

if TYPE_CHECKING:
    from pathlib import Path

SEVEN = ["brainstorm", "research", "fix", "implementation", "loop", "chores", "documentation"]


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own folder, and a project beside it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    (tmp_path / "user/overhand").mkdir(parents=True)
    (tmp_path / "project/.overhand").mkdir(parents=True)
    return tmp_path


def load(own: Path, project: str = "", user: str = "", **settings: object) -> Config:
    (own / "project/.overhand/config.toml").write_text(project)
    (own / "user/overhand/config.toml").write_text(user)
    return load_config(str(own / "project"), dict(settings))


def test_seven_kinds_have_a_route_in_this_order(own: Path) -> None:
    config = load(own)
    assert sorted(config.routes, key=lambda kind: config.routes[kind].priority) == SEVEN
    assert config.route("loop") == Route("loop", 4.5)
    assert {route.mode for route in config.routes.values()} == {"agent"}
    assert config.route("poem") is None


def test_the_config_adds_and_changes_routes(own: Path) -> None:
    config = load(
        own,
        '[routes.poem]\nagent = "bard"\nmode = "interactive"\n[routes.fix]\nauto_approve = true\npriority = 0.5\n',
    )
    assert config.route("poem") == Route("poem", 10.0, "interactive", "bard")
    assert config.route("fix") == Route("fix", 0.5, auto_approve=True)


def test_every_problem_of_a_route_is_told(own: Path) -> None:
    text = '[routes.poem]\nagent = "A b"\nmode = "batch"\npriority = "high"\nauto_approve = 1\nagnet = "x"\n'
    with pytest.raises(BadInput) as caught:
        load(own, text + '[routes."Not a kind"]\n')
    for word in ("poem.agent", "poem.mode", "poem.priority", "poem.auto_approve", "poem.agnet", "Not a kind"):
        assert f"routes.{word}" in caught.value.message


def test_a_kind_without_a_route_is_refused_with_what_to_write() -> None:
    routes = read_routes({}, [])
    assert route_of(routes, "fix").kind == "fix"
    with pytest.raises(Refused) as caught:
        route_of(routes, "reserch")
    assert "Did you mean #needs-research?" in caught.value.message
    assert "[routes.reserch]" in (caught.value.hint or "")


def test_who_takes_it() -> None:
    assert agent_of_route(Route("fix", agent="worker"), ["fix"]) == "worker"
    assert agent_of_route(Route("fix"), ["fix"]) == "fix"
    assert agent_of_route(Route("fix"), ["worker"]) == ""


def test_work_that_is_done_elsewhere_needs_an_agent_for_that() -> None:
    check_route_mode(Route("fix"), "worker", "command", elsewhere=False)
    check_route_mode(Route("fix", mode="external"), "farm", "external", elsewhere=True)
    with pytest.raises(Refused, match="worker runs here"):
        check_route_mode(Route("fix", mode="external"), "worker", "command", elsewhere=False)


def test_only_the_user_may_let_scripts_approve(own: Path) -> None:
    assert load(own, user="approve_without_terminal = true\n").approve_without_terminal
    assert not load(own).approve_without_terminal
    with pytest.raises(
        BadInput, match=r"config\.toml: approve_without_terminal counts in .*user/overhand/config\.toml"
    ):
        load(own, project="approve_without_terminal = true\n")
    with pytest.raises(BadInput, match="--set approve_without_terminal"):
        load(own, approve_without_terminal=True)


def test_other_settings_of_items(own: Path) -> None:
    config = load(own, 'approval = "record"\nrequests = "notes/asked"\n')
    assert (config.approval, config.requests) == ("record", "notes/asked")
    assert (load(own).approval, load(own).requests) == ("typed", "requests")
    for wrong in ('approval = "agent"\n', 'requests = "../elsewhere"\n', "approve_without_terminal = 1\n"):
        with pytest.raises(BadInput):
            load(own, wrong)
