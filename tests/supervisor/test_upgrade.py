"""A supervisor of an older version is ended by the first verb that needs one, and its runs are adopted."""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
import tarfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from overhand.errors import Refused
from overhand.supervisor import client, hand_to_supervisor
from overhand.supervisor.socket import Server
from overhand.system import Lock
from support.scene import until

if TYPE_CHECKING:
    from support.scene import Scene

ROOT = Path(__file__).resolve().parents[2]
BEFORE = "fce729eb039b8002356b540668846042a9897c68"  # a version that keeps its record in the project


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A version that keeps its record in the project, installed from this repository's history."""
    place = tmp_path_factory.mktemp("older")
    packed = place / "source.tar"
    archived = subprocess.run(
        ["git", "-C", str(ROOT), "archive", "-o", str(packed), BEFORE], capture_output=True, text=True, check=False
    )
    if archived.returncode:
        pytest.skip(f"this is no clone with its history: {archived.stderr.strip()}")
    with tarfile.open(packed) as archive:
        archive.extractall(place / "source", filter="data")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--no-deps"]
    target = place / "installed"
    subprocess.run([*pip, "--no-build-isolation", "--target", str(target), str(place / "source")], check=True)
    return str(target)


def test_tasks_of_the_old_layout_stay_with_their_own_version(scene: Scene, older: str) -> None:
    """Their record lies in the project, where an agent could have written it: to this version they are documents."""
    scene.agent("worker", "touch:up", "until:go", "output")
    scene.json("list")  # trusts what is there now
    env = {**scene.project.environment(), "PYTHONPATH": older}

    def old(*words: str) -> Any:
        argv = [sys.executable, "-P", "-m", "overhand", *words, "--json"]
        return json.loads(subprocess.run(argv, cwd=scene.path, env=env, check=True, stdout=subprocess.PIPE).stdout)

    first = old("delegate", "before", "--agent", "worker")["task_id"]
    scene.appears("up")
    assert scene.ids() == []
    assert [row["task_id"] for row in scene.json("list", "--prepared")["tasks"]] == [first]
    second = scene.delegate("after")
    (scene.path / "go").touch()
    assert scene.json("wait", second)["status"] == "completed"
    assert old("wait", first)["status"] == "completed"
    assert [scene.starts(first), scene.starts(second)] == [1, 1]


OLDER = {  # what stands in the first line of its replies
    "no number": "send = socket._send; socket._send = lambda peer, told: send(peer, told.partition(b' ')[0] + b'\\n')",
    "a lower one": "socket.PROTOCOL = 0",
}


@pytest.mark.parametrize("says", OLDER)
def test_a_live_run_survives_the_upgrade(scene: Scene, says: str) -> None:
    scene.agent("worker", "touch:up", "until:go", "output")
    scene.json("list")  # trusts what is there now
    first = scene.accepted("before")
    begin = "import sys; from overhand.supervisor import socket; from overhand.supervisor.__main__ import main"
    script = f"{begin}; {OLDER[says]}; sys.exit(main(sys.argv[1:]))"
    argv = [sys.executable, "-P", "-c", script, str(scene.path), scene.store.home, "-m", "overhand.supervisor"]
    old = subprocess.Popen(argv, env=scene.project.environment(), start_new_session=True)
    until(lambda: scene.supervisor() == old.pid, "the older one")
    scene.appears("up")
    scene.running(first)

    second = scene.delegate("after")
    new = until(scene.supervisor, "a supervisor")
    assert new != old.pid
    assert old.wait() == -signal.SIGTERM or old.returncode == 0
    scene.running(first)
    (scene.path / "go").touch()
    assert [one["status"] for one in scene.json("wait", first, second)["tasks"]] == ["completed"] * 2
    assert [scene.starts(first), scene.starts(second)] == [1, 1]


def test_a_newer_supervisor_is_left_alone(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.store.ensure()
    monkeypatch.setattr("overhand.supervisor.socket.PROTOCOL", client.PROTOCOL + 1)
    address = client.address(scene.store, client.own_folder(scene.store))
    with Lock(f"{scene.store.own}/lock", "The lock"), Server(address, f"{scene.store.own}/sock") as server:

        def serve() -> None:
            select.select([server.listener], [], [])
            list(server.receive(lambda _: None))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with pytest.raises(Refused, match="newer version"):
            hand_to_supervisor(scene.store, ["worker-1"])
        thread.join()
