"""What stands before an agent: quick where the system allows it, and the agent sees nothing of it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from overhand.system import Members, detached, exit_code, lives, start_detached, wait_for_exit
from support.scene import until

if TYPE_CHECKING:
    from pathlib import Path

RUN = f"shim-{os.getpid()}"  # other tests run at the same time, and end what has their mark
PERL = pytest.mark.skipif(not os.access(detached._PERL, os.X_OK), reason="there is no Perl here")
WAYS = [pytest.param({}, marks=PERL), {"PERL5LIB": "/nowhere"}]
DETACHED = "(setsid sh -c 'until test -e go; do sleep 0.01; done; grep PPid /proc/$$/status >parent' &) ; env >seen"


def run(place: Path, env: dict[str, str], script: str) -> int:
    """A shim and its script until the script has ended; the shim's pid."""
    shim = start_detached(
        str(place), ["/bin/sh", "-c", script], cwd=str(place), env={"PATH": os.environ["PATH"], **env}
    )
    assert wait_for_exit(str(place), shim, 30)
    assert exit_code(str(place)) == 0, (place / "stderr").read_text()
    return shim


@pytest.mark.parametrize("more", WAYS)
def test_what_the_agent_detaches_stays_below_the_shim(tmp_path: Path, more: dict[str, str]) -> None:
    shim = run(tmp_path, more, DETACHED)
    (tmp_path / "go").touch()
    os.waitpid(shim, 0)  # it stays for what was left
    assert (tmp_path / "parent").read_text().split() == ["PPid:", str(shim)]


@pytest.mark.parametrize("more", WAYS)
def test_the_agent_sees_its_own_environment_and_no_word_about_a_locale(tmp_path: Path, more: dict[str, str]) -> None:
    env = {"LC_ALL": "xx_XX.UTF-8", "GREETING": "hello = world", **more}
    os.waitpid(run(tmp_path, env, "env >seen"), 0)
    seen = dict(line.split("=", 1) for line in (tmp_path / "seen").read_text().splitlines())
    assert {name: seen.get(name) for name in env} == env
    assert "PERL_BADLANG" not in seen
    assert (tmp_path / "stderr").read_text() == ""


def test_who_only_looks_at_a_run_is_no_member_of_it(tmp_path: Path) -> None:
    """A verb that probes `life` has it open for writing for a moment; a process of the run has it open for reading."""
    life = detached.hold_life(str(tmp_path))
    quiet = {"PATH": os.environ["PATH"]}
    holder = subprocess.Popen(["sleep", "60"], pass_fds=[life], env=quiet, start_new_session=True)
    os.close(life)
    looked_at = [os.open(tmp_path / "life", flags) for flags in (os.O_WRONLY | os.O_NONBLOCK, os.O_PATH)]
    looker = subprocess.Popen(["sleep", "60"], pass_fds=looked_at, env=quiet, start_new_session=True)
    try:
        assert list(Members(str(tmp_path), f"OVERHAND_RUN={RUN}", frozenset()).scan()) == [holder.pid]
    finally:
        for process in (holder, looker):
            process.kill()
            process.wait()
        for fd in looked_at:
            os.close(fd)


def test_what_the_supervisor_started_itself_is_nobodys_orphan(tmp_path: Path) -> None:
    """Whoever is to become a shim has no command line for a moment, and would be ended with another run."""
    quiet = {"PATH": os.environ["PATH"]}
    child = subprocess.Popen(["sleep", "60"], env=quiet, start_new_session=True)
    try:
        started, orphaned = (Members(str(tmp_path / name), f"OVERHAND_RUN={RUN}", frozenset()) for name in "so")
        started.take_orphans(os.getpid(), [], lambda pid: pid == child.pid)
        assert child.pid not in started.sessions
        orphaned.take_orphans(os.getpid(), [], lambda _: False)
        assert child.pid in orphaned.sessions
    finally:
        child.kill()
        child.wait()


STALLS = """
import itertools, sys, time
from overhand.system import detached
clock = itertools.count(0, 10)
time.monotonic = lambda: next(clock)  # ten seconds pass between any two looks at it
print(detached.stop_detached(sys.argv[1], f"OVERHAND_RUN={sys.argv[2]}", grace=0.0))
"""


def test_nobody_is_given_up_because_the_machine_stalled(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "OVERHAND_RUN": RUN}
    shim = start_detached(str(tmp_path), ["/bin/sleep", "600"], cwd=str(tmp_path), env=env)
    until((tmp_path / "pid").exists, "the agent")
    argv = [sys.executable, "-c", STALLS, str(tmp_path), RUN]
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout == "[]\n"
    os.waitpid(shim, 0)
    assert not lives(str(tmp_path))
