"""What comes through the supervisor's socket: no message ends it, no client holds it up, no other user is served."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from overhand.supervisor import client
from overhand.supervisor.client import peer_uid
from overhand.supervisor.socket import Server
from overhand.system import Lock
from support.scene import QUICK, until

if TYPE_CHECKING:
    from support.scene import Scene

# Listens, perhaps as another user, and says what it gets.
STRANGER = """
import os, socket, sys
os.chdir(sys.argv[1]); s = socket.socket(socket.AF_UNIX); s.bind("sock")
if sys.argv[2] == "another": os.setresuid(65534, 65534, 65534)
s.listen(1)
print("up", flush=True)
peer, _ = s.accept(); peer.settimeout(5)
try: print(peer.recv(100), flush=True)
except OSError as error: print(type(error).__name__, flush=True)
"""
SPEAKER = """
import os, socket, sys
os.chmod(sys.argv[1], 0o755); os.chdir(sys.argv[1]); os.chmod("sock", 0o777)
os.setresuid(65534, 65534, 65534)
s = socket.socket(socket.AF_UNIX); s.connect("sock"); s.settimeout(5)
try: s.sendall(b'{"tasks": ["worker-1"], "env": {}}\\n'); print(s.recv(100))
except OSError as error: print(b"")
"""


def connected(scene: Scene) -> socket.socket:
    peer = socket.socket(socket.AF_UNIX)
    folder = client.own_folder(scene.store)
    try:
        peer.connect(client.address(scene.store, folder))
    finally:
        os.close(folder)
    return peer


@pytest.fixture
def served(scene: Scene) -> Scene:
    """A supervisor that is alive and idle."""
    scene.shell("worker", QUICK)
    scene.judged(scene.delegate())
    return scene


def frames() -> list[bytes]:
    dice = random.Random(23)
    odd = [
        b'{"tasks":' + b"[" * 100_000 + b"\n",
        b'{"ask":' + b'{"a":' * 100_000 + b"\n",
        b"[" * 100_000 + b"]" * 100_000 + b"\n",
        b'{"tasks": 3, "env": {}}\n',
        b'{"tasks": ["../../etc"], "env": null}\n',
        b'{"tasks": [null], "env": {"a": [1]}}\n',
        b'{"tasks": {}, "env": []}\n',
        b'{"ask": ["daemon"]}\n',
        b"\n",
        b"\xff\n",
    ]
    return odd + [dice.randbytes(dice.randrange(200)).replace(b"\n", b" ") + b"\n" for _ in range(100)]


def test_no_message_ends_it(served: Scene) -> None:
    pid = served.supervisor()
    for frame in frames():
        with connected(served) as peer:
            try:
                peer.sendall(frame)
                while peer.recv(65536):
                    pass
            except ConnectionError:
                continue  # it was dropped before all of it was sent
    assert served.supervisor() == pid
    served.judged(served.delegate())
    assert served.supervisor() == pid


def test_a_client_that_never_finishes_is_dropped(scene: Scene) -> None:
    """It speaks all the time, so that no single read takes long: the limit is for the whole message."""
    scene.store.ensure()
    dropped = threading.Event()
    with Server(client.address(scene.store, client.own_folder(scene.store)), f"{scene.store.own}/sock") as server:

        def drip() -> None:
            with connected(scene) as peer:
                peer.setblocking(False)
                while True:
                    try:
                        peer.send(b" ")
                    except BlockingIOError:
                        continue
                    except OSError:
                        dropped.set()
                        return

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        until(lambda: [*server.receive(lambda _: None)] or dropped.is_set(), "the slow client dropped")
        thread.join()


@pytest.mark.parametrize("user", ["this", "another"])
@pytest.mark.parametrize("lock", ["free", "held"])
def test_a_stranger_that_listens_gets_no_byte(scene: Scene, user: str, lock: str) -> None:
    """Neither another user's program nor one of this user that is not the supervisor, whoever holds its lock."""
    if user == "another" and os.getuid() != 0:
        pytest.skip("only root can become another user")
    scene.store.ensure()
    words = [sys.executable, "-c", STRANGER, scene.store.own, user]
    held = Lock(f"{scene.store.own}/lock", "The lock") if lock == "held" else nullcontext()
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as stranger, held:
        assert stranger.stdout is not None
        assert stranger.stdout.readline() == "up\n"
        assert not client.wake_supervisor(scene.store, ["worker-1"])
        assert stranger.stdout.readline() == "b''\n"


def test_a_supervisor_takes_the_place_of_a_stranger(scene: Scene) -> None:
    """The verb starts one, whose socket replaces the stranger's; the task is done, and nothing was sent elsewhere."""
    scene.store.ensure()
    scene.shell("worker", QUICK)
    words = [sys.executable, "-c", STRANGER, scene.store.own, "this"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as stranger:
        assert stranger.stdout is not None
        assert stranger.stdout.readline() == "up\n"
        assert scene.judged(scene.delegate()).status == "completed"
        assert stranger.stdout.readline() == "b''\n"


def test_another_user_is_not_served(scene: Scene) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    scene.store.ensure()
    with (
        Server(client.address(scene.store, client.own_folder(scene.store)), f"{scene.store.own}/sock") as server,
        subprocess.Popen(
            [sys.executable, "-c", SPEAKER, scene.store.own], stdout=subprocess.PIPE, text=True
        ) as speaker,
    ):
        heard: list[object] = []

        def serve() -> bool:
            heard.extend(server.receive(lambda _: None))
            return speaker.poll() is not None

        until(serve, "its end")
        assert speaker.stdout is not None
        assert (speaker.stdout.read(), heard) == ("b''\n", [])


def test_the_kernel_says_who_is_there() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert peer_uid(ours) in (None, os.getuid())
