"""A supervisor of an older version is ended by the first verb that needs one, and its runs are adopted."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tarfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from overhand.errors import Refused
from overhand.supervisor import client, hand_to_supervisor
from overhand.supervisor.socket import Server
from support.scene import until

if TYPE_CHECKING:
    from support.scene import Scene

ROOT = Path(__file__).resolve().parents[2]
BEFORE = "fce729eb039b8002356b540668846042a9897c68"  # the last commit whose supervisor names no protocol


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The last version without a protocol number, installed from this repository's history."""
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


def test_a_live_run_survives_the_upgrade(scene: Scene, older: str) -> None:
    scene.agent("worker", "touch:up", "until:go", "output")
    scene.json("list")  # trusts what is there now
    env = {**scene.project.environment(), "PYTHONPATH": older}
    words = ["-P", "-m", "overhand", "delegate", "before", "--agent", "worker", "--json"]
    subprocess.run([sys.executable, *words], cwd=scene.path, env=env, check=True, stdout=subprocess.DEVNULL)
    scene.appears("up")
    (first,) = scene.ids()
    scene.running(first)
    old = scene.supervisor()
    assert old is not None

    second = scene.delegate("after")
    new = until(scene.supervisor, "a supervisor")
    assert new != old
    assert not os.path.exists(f"/proc/{old}") or Path(f"/proc/{old}/stat").read_text().split()[2] == "Z"
    scene.running(first)
    (scene.path / "go").touch()
    assert [one["status"] for one in scene.json("wait", first, second)["tasks"]] == ["completed"] * 2
    assert [scene.starts(first), scene.starts(second)] == [1, 1]


def test_a_newer_supervisor_is_left_alone(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.store.ensure()
    monkeypatch.setattr("overhand.supervisor.socket.PROTOCOL", client.PROTOCOL + 1)
    with Server(client.address(scene.store, client.own_folder(scene.store)), f"{scene.store.own}/sock") as server:

        def serve() -> None:
            select.select([server.listener], [], [])
            list(server.receive(lambda _: None))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with pytest.raises(Refused, match="newer version"):
            hand_to_supervisor(scene.store, ["worker-1"])
        thread.join()
