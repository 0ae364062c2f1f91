"""What holds for every test."""

from __future__ import annotations

import compileall
import os
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from support import soak
from support.items import House
from support.scene import Scene, until
from support.warm import make_project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overhand.testing.project import ProjectDir

pytest_plugins = ["support.tally"]
sys.dont_write_bytecode = False  # every worker would rewrite every assert again
SOURCE = Path(__file__).parents[1] / "src"
MEMORY = "/dev/shm"

# Whoever starts the suite in the background of a script, or with nohup, has these ignored, and every program that a
# test starts would inherit that: ^C and a lost terminal are among what is tested.
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)

# A property is about what comes out, not about when: a machine that stalls for 200 ms proves nothing against it.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        _prepare(config)
    # nobody's own records, and a folder for all tests of this process: their projects' paths differ
    state = os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="overhand-state-")
    config.add_cleanup(lambda: shutil.rmtree(state, ignore_errors=True))


def _prepare(config: pytest.Config) -> None:
    """Compile what every process of the tests would else compile for itself, where PYTHONDONTWRITEBYTECODE is set."""
    compileall.compile_dir(SOURCE, quiet=2)
    if config.getoption("--memory") and _has_room(MEMORY):
        os.environ["TMPDIR"] = tempfile.tempdir = MEMORY


def _has_room(folder: str) -> bool:
    """Whether projects can be made there, and programs be run."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    return os.access(folder, os.W_OK) and not found.f_flag & os.ST_NOEXEC and found.f_bavail * found.f_frsize > 2**30


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sample", metavar="SEED", help="of the lots of `make soak` take only a sample, chosen by this")
    parser.addoption(
        "--memory",
        action="store_true",
        help=f"make the tests' projects in {MEMORY}, if it has room: no disk to wait for",
    )
    parser.addoption(
        "--shuffle", metavar="SEED", help="run test files, and the tests in each, in an order of this seed"
    )


def pytest_report_header(config: pytest.Config) -> list[str]:
    sample, order = config.getoption("--sample"), config.getoption("--shuffle")
    said = [f"sample: one lot of {soak.SHARE}, SEED={sample}"] if sample else []
    return [*said, f"order: --shuffle={order}"] if order else said


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if seed := config.getoption("--sample"):
        out = soak.left_out(items, seed)
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in out])
        items[:] = [item for item in items if item.nodeid not in out]
    if seed := config.getoption("--shuffle"):
        items[:] = _shuffled(items, seed)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker tells how many processes its tests killed."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["kills"] = dict(soak.KILLS)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    soak.KILLS.update(getattr(node, "workeroutput", {}).get("kills", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for what, number in sorted(soak.KILLS.items()):
        terminalreporter.write_line(f"processes killed {what}: {number}")


def _shuffled(items: list[pytest.Item], seed: str) -> list[pytest.Item]:
    """The files in another order, and the tests in each: a file's own fixtures are still made once."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    dice = random.Random(seed)
    order = dice.sample(sorted(files), len(files))
    return [item for path in order for item in dice.sample(files[path], len(files[path]))]


@pytest.fixture
def overhand_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProjectDir]:
    """What the plugin gives to users' tests, but with commands that need no interpreter of their own."""
    project = make_project(tmp_path / "project")
    for name in [name for name in os.environ if name.startswith("OVERHAND_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(project.config_home))
    try:
        project.trust_files()
        yield project
    finally:
        project.cleanup()


@pytest.fixture
def scene(overhand_project: ProjectDir) -> Iterator[Scene]:
    """A project; afterwards the supervisor is ended and no other process of the project may be left."""
    scene = Scene(overhand_project)
    yield scene
    until(scene.is_quiet, f"no process left of {scene.path}; now {scene.left()}")


@pytest.fixture
def house(overhand_project: ProjectDir) -> Iterator[House]:
    """A project with items, approved without a terminal; it ends as `scene` does."""
    house = House(overhand_project)
    house.settings("approve_without_terminal = true\n")
    yield house
    until(house.is_quiet, f"no process left of {house.path}; now {house.left()}")
