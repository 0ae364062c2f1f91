"""The verb table feeds everything: help, parser, aliases, completion, JSON."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from overhand.cli.parse import parse, verb_help
from overhand.errors import BadInput
from overhand.testing.project import make_project  # every verb starts once in an interpreter of its own
from overhand.verbs import ALIASES, VERBS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from overhand.testing.project import ProjectDir

# words that make each verb answer; demo and mcp have tests of their own, ask and finish answer inside a run only
CALLS: dict[str, list[list[str]]] = {
    "status": [[], ["--all"]],
    "delegate": [["Do it", "--no-start"], ["Do it", "--wait"]],
    "answer": [[]],
    "show": [["1"], ["1", "--output"]],
    "send": [["3", "Mind the gap"]],
    "resume": [["4", "--wait"], ["4", "--from", "latest", "--answer", "Go on", "--wait"]],
    "stop": [["2"], ["--all"]],
    "init": [[]],
    "agents": [[], ["worker"], ["--example"], ["test", "worker"]],
    "trust": [["--yes"]],
    "connect": [["claude"], ["codex", "--here"]],
    "doctor": [[]],
    "projects": [[]],
    "dismiss": [["4"]],
    "clean": [["--dry-run"], ["--gone", "--dry-run"]],
    "version": [[]],
    "completion": [["bash"]],
    "list": [[], ["--live"], ["--delegated"], ["--resumable"], ["--cost"], ["--prepared"]],
    "wait": [["1"], ["1", "1"]],
    "monitor": [["1"]],
    "log": [["1"], ["1", "-o", "-f"]],
    "run": [["2", "--wait"]],
    "item": [["list"], ["new", "fix", "The map pauses"], ["list", "--kind", "fix"]],
    "alert": [["raise", "The server is down"], ["list"], ["list", "--all"]],
    "tag": [["remove", ".overhand/agents/worker.md", "#nothing"]],
    "daemon": [["status"], ["install", "--print"]],
    "plan": [
        ["check", "plan.yaml"],
        ["check", "plan.yaml", "--explain"],
        ["run", "plan.yaml", "--dry-run"],
        ["run", "plan.yaml", "--wait"],
        ["graph", "plan.yaml"],
        ["show", "-"],
        ["show", "-", "--format", "yaml"],
        ["new", "Count the rivers", "--agents", "worker"],
    ],
    "check": [["1"], [".overhand/agents/worker.md"]],
    "step": [["1"], ["3", "1", "done"], ["3"]],
    "checkpoint": [["create", "1"], ["list", "1"], ["list", "3"], ["show", "4"], ["show", "ckpt_here"]],
}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProjectDir]:
    """A finished, checked task, one that can be run again and again, one with a plan, and one to be resumed."""
    agents = {"worker": ("print:hello", "output"), "quitter": ("output:status=failed",)}
    project = make_project(tmp_path_factory.mktemp("desk") / "project", agents, config='default_agent = "worker"\n')
    project.run("delegate", "First", "--verify", "true", "--wait", check=True)
    project.run("delegate", "Second", "--agent", "quitter", "--no-start", check=True)
    project.run("delegate", "Third", "--step", "Read", "--step", "Write", "--no-start", check=True)
    project.run("delegate", "Fourth", "--agent", "quitter", "--wait")
    project.run("checkpoint", "create", "4", "--name", "here", check=True)
    (project.path / "plan.yaml").write_text(
        'plan: x\nnodes:\n  a: {agent: worker, task: "Say hello", verification: kind}\n'
    )
    project.run("trust", "plan.yaml", "--yes", check=True)
    project.run("plan", "run", "plan.yaml", "--wait", check=True)
    try:
        yield project
    finally:
        project.cleanup()


def test_every_verb_is_called_here() -> None:
    elsewhere = {
        "demo",
        "ask",
        "finish",
        "mcp",
        "diff",
        "merge",
    }  # the last two need a tree: tests/runs/test_own_tree.py
    assert CALLS.keys() | elsewhere == {verb.name for verb in VERBS}


@pytest.mark.parametrize(("verb", "words"), [(verb, words) for verb, calls in CALLS.items() for words in calls])
def test_json_is_one_object_with_its_schema(desk: ProjectDir, verb: str, words: list[str]) -> None:
    ran = desk.run(verb, *words, "--json")
    assert ran.err == ""
    objects = [json.loads(line) for line in ran.out.splitlines()]
    assert len(objects) == 1 or verb == "log"
    assert {one["schema"] for one in objects} == {f"overhand.{verb}/1"}


@pytest.mark.parametrize(("verb", "words"), [(verb, words) for verb, calls in CALLS.items() for words in calls])
def test_text_is_readable(desk: ProjectDir, verb: str, words: list[str]) -> None:
    ran = desk.run(verb, *words)
    assert ran.out.strip()
    assert "Traceback" not in ran.out + ran.err
    assert "None" not in ran.out


@pytest.mark.parametrize("verb", [verb.name for verb in VERBS])
def test_every_verb_explains_itself(verb: str) -> None:
    text = verb_help(parse([verb, "--help"]).verb)
    row = next(one for one in VERBS if one.name == verb)
    assert text.startswith(f"overhand {verb}")
    assert all(option.name in text and option.help.split()[0] in text for option in row.options)
    assert parse(["help", verb]).help
    assert parse([verb, "-h"]).help


def test_help_lists_exactly_the_verbs_of_the_table(desk: ProjectDir) -> None:
    text = desk.run("--help", check=True).out
    listed = [line.split()[1] for line in text.splitlines() if line.startswith("  overhand ") and len(line.split()) > 1]
    bare = [word for word in listed if word not in {verb.name for verb in VERBS}]
    assert [word for word in listed if word not in bare] == [v.name for v in VERBS if v.name != "status"]
    assert bare == ["what"], "the bare headline screen stands first"
    assert text == desk.run("help", check=True).out
    assert max(map(len, text.splitlines())) <= 100


def test_show_and_wait_have_the_names_scripts_rely_on(desk: ProjectDir) -> None:
    names = (
        "task_id handle title agent kind headline status verification verified run_state cause runs summary data "
        "deliverables decisions for_primary files_modified errors next_steps questions problems checks usage output"
    )
    for words in (["show", "1"], ["wait", "1"], ["delegate", "Names", "--wait"], ["run", "2", "--wait"]):
        assert set(names.split()) <= desk.run(*words, "--json").json.keys(), words


@pytest.mark.parametrize(("alias", "words"), ALIASES.items())
def test_aliases(alias: str, words: tuple[str, ...]) -> None:
    more = ["1"] if alias == "cancel" else []
    meant, typed = parse([*words, *more]), parse([alias, *more])
    assert (typed.verb.name, typed.values) == (meant.verb.name, meant.values)
    assert {"ps", "inbox", "cancel", "dispatch"} <= ALIASES.keys()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_parse(desk: ProjectDir, tmp_path: Path, shell: str) -> None:
    text = desk.run("completion", shell, check=True).out
    assert all(verb.name in text for verb in VERBS)
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed here")
    (tmp_path / "script").write_text(text)
    done = subprocess.run([shell, "-n", tmp_path / "script"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_completion_offers_verbs_options_and_handles(desk: ProjectDir, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(desk.run("completion", "bash", check=True).out)
    (tmp_path / "overhand").write_text(f'#!/bin/sh\nexec {sys.executable} -m overhand "$@"\n')
    (tmp_path / "overhand").chmod(0o755)

    def offered(*words: str) -> set[str]:
        line = " ".join(f"'{word}'" for word in words)
        code = f'. {script}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _overhand; echo "${{COMPREPLY[@]}}"'
        env = {**desk.environment(), "PATH": f"{tmp_path}:/usr/bin:/bin"}
        done = subprocess.run(["bash", "-c", code], cwd=desk.path, env=env, capture_output=True, text=True, check=True)
        return set(done.stdout.split())

    assert offered("overhand", "del") == {"delegate"}
    assert offered("overhand", "show", "--ou") == {"--output"}
    assert {"1", "2"} <= offered("overhand", "show", "")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["lst"], "Did you mean list?"),
        ([""], "There is no verb"),
        (["list", "--jsn"], "Did you mean --json?"),
        (["delegate", "--agent"], "--agent needs a value"),
        (["delegate", "--wait=yes", "x"], "--wait takes no value"),
        (["delegate", "--priority", "P9", "x"], "One of: P0, P1, P2, P3"),
        (["delegate", "two", "words"], "one word too many"),
        (["show"], "show needs ID"),
        (["completion", "tcsh"], "One of: bash, zsh, fish"),
        (["-x"], "There is no option -x"),
        (["--project"], "--project needs a value"),
    ],
)
def test_bad_usage(words: list[str], part: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse(words)
    assert part in f"{caught.value.message} {caught.value.hint}"
    assert caught.value.hint


def test_words_after_two_dashes_are_no_options() -> None:
    assert parse(["delegate", "--", "--json"]).values == {"title": "--json"}
    assert parse(["show", "-"]).values == {"id": "-"}
    assert parse(["delegate", "x", "--context=a=b", "--context", "c"]).values["context"] == ["a=b", "c"]


LIGHT = (
    "argparse", "yaml", "jsonschema_rs", "asyncio", "dataclasses", "typing", "re", "subprocess", "json", "inspect",
    "tomllib", "psutil", "pathlib", "logging",
)  # fmt: skip


CODE = (
    "import sys; from overhand.cli import main; code = main(sys.argv[1:]);"
    "print('LOADED', *sorted(sys.modules), file=sys.stderr); sys.exit(code)"
)
ALONE = [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {CODE}"]


def loaded(said: str) -> set[str]:
    """What a verb had imported when it ended."""
    names = set(said.partition("LOADED ")[2].split())
    assert "overhand.cli" in names
    return names


LIGHT_CALLS = [
    ["version"], ["list"], ["status"], ["status", "--json"], ["step", "3", "2", "done"], ["step", "3", "--json"],
]  # fmt: skip


@pytest.mark.parametrize("words", LIGHT_CALLS)
def test_light_verbs_import_nothing_heavy(desk: ProjectDir, words: list[str]) -> None:
    done = subprocess.run(
        [*ALONE, *words], cwd=desk.path, env=desk.environment(), capture_output=True, text=True, check=True
    )
    assert loaded(done.stderr).isdisjoint(LIGHT)


def test_asking_and_answering_import_nothing_heavy(desk: ProjectDir) -> None:
    desk.agent("asker", command=[*ALONE, "ask", "Which one?", "--option", "this", "--json"])
    task = desk.run("delegate", "Ask", "--agent", "asker", "--json", check=True).json
    assert desk.run("monitor", task["task_id"], check=True).out
    words = ["answer", str(task["handle"]), "this"]
    done = subprocess.run(
        [*ALONE, *words], cwd=desk.path, env=desk.environment(), capture_output=True, text=True, check=True
    )
    assert loaded(done.stderr).isdisjoint(LIGHT)
    run_folder = desk.path / desk.run("wait", str(task["handle"]), "--json").json["run_folder"]
    assert loaded((run_folder / "stderr").read_text()).isdisjoint(LIGHT)
    told = json.loads((run_folder / "stdout").read_text())
    assert (told["schema"], told["seq"], told["answer"]) == ("overhand.ask/1", 1, "this")
