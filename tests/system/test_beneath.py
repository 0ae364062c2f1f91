"""Files in a folder that a hostile program owns: no link is followed, nothing blocks, nothing is written elsewhere."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest

from overhand.errors import OverhandError, Refused, StorageFailed
from overhand.system import Bell
from overhand.system.beneath import Beneath
from overhand.system.wakeup import Inotify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away and make devices")
NEEDS_PROC = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="there is no /proc here")
STEPS = ["ws", "ws/task", "ws/task/ipc"]  # what is replaced with a link to the victim
FILE = "task/ipc/001.answer"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder of the user that looks like the workspace and must not change."""
    there = tmp_path / "victim"
    (there / "task" / "ipc").mkdir(parents=True)
    for folder in (there, there / "task", there / "task" / "ipc"):
        (folder / "001.answer").write_text("secret")
        (folder / "ipc").mkdir(exist_ok=True)
        (folder / "ipc" / "001.answer").write_text("secret")
        os.mkfifo(folder / "1-abcd.bell")
    return there


@pytest.fixture
def files(tmp_path: Path) -> Beneath:
    (tmp_path / "project" / "ws" / "task" / "ipc").mkdir(parents=True)
    return Beneath(str(tmp_path / "project"), "ws")


def everything(folder: Path) -> list[tuple[str, int, int]]:
    """Every name below with what shows a change of it."""
    return sorted(
        (str(path.relative_to(folder)), path.lstat().st_ino, path.lstat().st_mtime_ns)
        for path in [folder, *folder.rglob("*")]
    )


def swapped(files: Beneath, step: str, target: Path) -> None:
    """Put a link in the place of one folder on the way."""
    path = f"{files.top}/{step}"
    os.rename(path, f"{path}.real")
    os.symlink(target, path)


WRITES: dict[str, Callable[[Beneath], object]] = {
    "write": lambda files: files.write(FILE, "text"),
    "write-make": lambda files: files.write(FILE, "text", make=True),
    "write_if_missing": lambda files: files.write_if_missing("task/ipc/new", "text"),
    "append": lambda files: files.append(FILE, "text"),
    "edit": lambda files: files.edit(FILE, lambda _: (0, 1, b"X")),
    "make_folder": lambda files: files.make_folder("task/ipc/calls"),
    "make_new_folder": lambda files: files.make_new_folder("task/ipc/calls"),
    "open_folder": lambda files: files.open_folder("task/ipc"),
    "move_aside": lambda files: files.move_aside(FILE),
    "hang": lambda files: files.hang(Bell(), "task/ipc"),
}
QUIET: dict[str, tuple[Callable[[Beneath], object], object]] = {
    "read": (lambda files: files.read(FILE), None),
    "open_file": (lambda files: files.open_file(FILE), None),
    "copy_out": (lambda files: files.copy_out(FILE, f"{files.top}/copy"), None),
    "look": (lambda files: files.look(FILE), None),
    "exists": (lambda files: files.exists(FILE), False),
    "names": (lambda files: files.names("task/ipc"), []),
    "is_locked": (lambda files: files.is_locked(FILE), False),
    "remove": (lambda files: files.remove(FILE), False),
    "rename": (lambda files: files.rename(FILE, "task/ipc/else"), False),
    "bells": (lambda files: files.bells("task/ipc"), []),
    "ring": (lambda files: files.ring("task/ipc"), None),
    "has_reader": (lambda files: files.has_reader("task/ipc/1-abcd.bell"), False),
    "watch": (lambda files: files.watch(Inotify(), "task/ipc"), None),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("what", WRITES)
def test_no_write_goes_through_a_link(files: Beneath, victim: Path, step: str, what: str) -> None:
    swapped(files, step, victim)
    before = everything(victim)
    with pytest.raises(Refused) as caught:
        WRITES[what](files)
    assert caught.value.message == f"{files.top}/{step} is a symbolic link, which is not followed."
    assert everything(victim) == before


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("what", QUIET)
def test_nothing_is_read_through_a_link(files: Beneath, victim: Path, step: str, what: str) -> None:
    swapped(files, step, victim)
    before = everything(victim)
    call, nothing = QUIET[what]
    assert call(files) == nothing
    assert everything(victim) == before
    assert not os.path.exists(f"{files.top}/copy")


@pytest.mark.parametrize("step", STEPS)
def test_removing_a_tree_leaves_what_a_link_leads_to(files: Beneath, victim: Path, step: str) -> None:
    swapped(files, step, victim)
    before = everything(victim)
    files.remove_tree(FILE)
    files.remove_tree("task/ipc")
    files.remove_tree("task")
    assert everything(victim) == before


def test_a_link_in_the_place_of_the_file(files: Beneath, victim: Path) -> None:
    target = victim / "001.answer"
    place = f"{files.top}/ws/{FILE}"
    os.symlink(target, place)
    assert files.read(FILE) is None
    assert files.copy_out(FILE, f"{files.top}/copy") is None
    assert files.exists(FILE)
    assert not files.is_file(FILE)
    assert not files.write_if_missing(FILE, "text")
    with pytest.raises(Refused, match=r"001\.answer is a link or no regular file of yours"):
        files.append(FILE, "text")
    with pytest.raises(Refused, match=r"001\.answer is a link or no regular file of yours"):
        files.edit(FILE, lambda _: (0, 1, b"X"))
    files.write(FILE, "text")  # the link is replaced, not followed
    assert files.read(FILE) == b"text"
    assert target.read_text() == "secret"


def test_a_link_that_leads_nowhere_makes_nothing_there(files: Beneath, tmp_path: Path) -> None:
    os.symlink(tmp_path / "made", f"{files.top}/ws/task/calls")
    with pytest.raises(Refused, match="calls is a symbolic link"):
        files.write("task/calls/x", "text", make=True)
    assert not (tmp_path / "made").exists()
    files.make_folder("task/calls", aside=True)
    assert os.path.isdir(files.shown("task/calls"))
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("path", ["../x", "task/../../x", "/etc/passwd", "a\0b", "\ud800", "task/ipc/.."])
def test_a_path_that_leaves_the_folder_is_refused(files: Beneath, path: str) -> None:
    for call in (files.read, files.exists, files.names, files.remove, files.open_folder):
        with pytest.raises(Refused, match="is no path inside"):
            call(path)
    with pytest.raises(Refused, match="is no path inside"):
        files.write(path, "text", make=True)


@pytest.mark.parametrize("path", ["", ".", "./"])
def test_a_file_needs_a_name(files: Beneath, path: str) -> None:
    with pytest.raises(Refused, match="names no file"):
        files.write(path, "text")
    assert files.read(path) is None
    assert not files.remove(path)
    assert os.path.isdir(files.shown(path))


def fifo(path: str) -> None:
    os.mkfifo(path)


def sock(path: str) -> None:
    here = os.getcwd()
    os.chdir(os.path.dirname(path))  # the path of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(os.path.basename(path))
    finally:
        os.chdir(here)


def device(path: str) -> None:
    os.mknod(path, 0o20666, os.makedev(1, 5))  # endless zeroes
    try:
        os.close(os.open(path, os.O_RDONLY))
    except PermissionError:
        pytest.skip("devices cannot be opened on this file system")


@pytest.mark.parametrize("make", [fifo, sock, os.mkdir, pytest.param(device, marks=ROOT)])
def test_what_is_no_regular_file_is_not_read_and_blocks_nothing(files: Beneath, make: Callable[[str], None]) -> None:
    make(f"{files.top}/ws/{FILE}")
    assert files.read(FILE) is None
    assert files.copy_out(FILE, f"{files.top}/copy") is None
    assert not os.path.exists(f"{files.top}/copy")
    assert not files.is_file(FILE)
    assert not files.has_reader(FILE)
    assert not files.is_locked(FILE)
    with pytest.raises(Refused):
        files.append(FILE, "text")
    with pytest.raises(Refused):
        files.edit(FILE, lambda _: (0, 1, b"X"))
    if make is not os.mkdir:
        with pytest.raises(Refused, match="is no folder"):
            files.write(f"{FILE}/x", "text", make=True)
    files.write(FILE, "text")
    assert files.read(FILE) == b"text"


def test_a_fifo_with_a_reader_is_not_written_to(files: Beneath) -> None:
    path = f"{files.top}/ws/{FILE}"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(Refused):
            files.append(FILE, "text")
        assert os.read(reader, 10) == b""
    finally:
        os.close(reader)


def test_a_folder_in_the_place_of_a_file_is_moved_aside(files: Beneath) -> None:
    os.makedirs(f"{files.top}/ws/{FILE}/full")
    files.write(FILE, "text")
    (aside,) = [name for name in files.names("task/ipc") if "-aside-" in name]
    assert os.path.isdir(files.shown(f"task/ipc/{aside}/full"))
    assert files.move_aside(f"task/ipc/{aside}") in {f"task/ipc/{name}" for name in files.names("task/ipc")}
    assert files.move_aside("task/ipc/nothing") is None


def test_a_file_that_is_too_big_is_cut_one_byte_later(files: Beneath, tmp_path: Path) -> None:
    with open(f"{files.top}/ws/{FILE}", "wb") as file:
        file.truncate(60 << 30)  # it takes no room
    assert files.read(FILE, 1000) == bytes(1001)
    copied = files.copy_out(FILE, str(tmp_path / "copy"), 3 << 20)
    assert copied == (hashlib.sha256(bytes((3 << 20) + 1)).hexdigest(), (3 << 20) + 1)
    assert (tmp_path / "copy").stat().st_size == (3 << 20) + 1


def test_what_was_copied_stays_although_the_agent_kept_the_file_open(files: Beneath, tmp_path: Path) -> None:
    place = f"{files.top}/ws/{FILE}"
    with open(place, "wb", buffering=0) as kept:
        kept.write(b"first")
        os.link(place, f"{place}.second")
        copied = files.copy_out(FILE, str(tmp_path / "copy"))
        kept.seek(0)
        kept.write(b"later")
    assert copied == (hashlib.sha256(b"first").hexdigest(), 5)
    assert (tmp_path / "copy").read_bytes() == b"first"
    assert sorted(os.listdir(tmp_path)) == ["copy", "project"]  # and no temporary file


def test_a_file_with_a_second_name_is_not_appended_to(files: Beneath, victim: Path) -> None:
    os.link(victim / "001.answer", f"{files.top}/ws/{FILE}")
    with pytest.raises(Refused):
        files.append(FILE, "text")
    files.write(FILE, "text")  # a new file
    assert (victim / "001.answer").read_text() == "secret"


@ROOT
def test_a_file_of_another_user_is_not_read(files: Beneath) -> None:
    files.write(FILE, "text")
    os.chown(f"{files.top}/ws/{FILE}", 1234, 1234)
    assert files.read(FILE) is None
    assert files.copy_out(FILE, f"{files.top}/copy") is None
    with pytest.raises(Refused):
        files.append(FILE, "text")
    os.chown(files.top, 1234, 1234)  # whoever owns the project can replace everything in it
    assert files.read(FILE) == b"text"


def test_ordinary_work(files: Beneath) -> None:
    files.write("task/runs/r1/OUTPUT.md", "# Döne\n", make=True)
    assert files.read("task/runs/r1/OUTPUT.md") == "# Döne\n".encode()
    assert os.stat(f"{files.top}/ws/task/runs").st_mode & 0o777 == 0o700
    desk = files.at("task/runs/r1")
    assert desk.names() == ["OUTPUT.md"]
    assert desk.shown("x") == f"{files.top}/ws/task/runs/r1/x"
    assert desk.write_if_missing("x", b"1")
    assert not desk.write_if_missing("x", b"2")
    desk.append("x", b"2")
    assert desk.read("x") == b"12"
    assert desk.edit("x", lambda _: (1, 2, b"34")) == b"134"
    assert desk.edit("x", lambda _: (0, 1, b"9")) == b"934"
    assert desk.read("x") == b"934"
    assert desk.rename("x", "y")
    assert not desk.rename("x", "y")
    assert files.rename("task/runs/r1/y", "task/kept/y", make=True)
    assert files.read("task/kept/y") == b"934"
    assert files.make_new_folder("task/new")
    assert not files.make_new_folder("task/new")
    assert files.remove("task/kept/y")
    assert not files.remove("task/kept/y")
    assert files.remove_tree("task")
    assert files.names() == []
    assert files.remove_tree("task")


def test_what_is_missing_is_said_with_its_whole_path(files: Beneath) -> None:
    with pytest.raises(StorageFailed) as caught:
        files.write("task/gone/x", "text")
    assert caught.value.message == (
        f"Cannot write x: No such file or directory ({files.top}/ws/task/gone). Nothing was half-written."
    )
    with pytest.raises(OverhandError, match=rf"There is no y \({files.top}/ws/task/y\)"):
        files.edit("task/y", lambda _: None)


def test_a_failed_write_leaves_nothing(files: Beneath) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        for call in (files.write, files.write_if_missing):
            with pytest.raises(StorageFailed, match="Cannot write x"):
                call("task/x", bytes(2000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert files.names("task") == ["ipc"]


def test_too_many_open_files_do_not_pass_as_a_missing_file(files: Beneath) -> None:
    import resource

    files.write(FILE, "text")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    opened = []
    try:
        try:
            while True:
                opened.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        for call in (files.read, files.exists, files.names, files.remove):
            with pytest.raises(StorageFailed, match="too many files are open"):
                call(FILE)
    finally:
        for fd in opened:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert files.read(FILE) == b"text"


def test_no_descriptor_is_left_open(files: Beneath, victim: Path) -> None:
    def count() -> int:
        return len(os.listdir("/dev/fd"))

    files.write(FILE, "text")
    before = count()
    for call in (*WRITES.values(), *(call for call, _ in QUIET.values())):
        if call not in (WRITES["open_folder"], WRITES["hang"], QUIET["open_file"][0], QUIET["watch"][0]):
            call(files)
    swapped(files, STEPS[2], victim)
    for call in (*WRITES.values(), *(call for call, _ in QUIET.values() if call is not QUIET["watch"][0])):
        try:
            call(files)
        except OverhandError:
            continue
    assert count() == before


def test_locks_are_seen(files: Beneath) -> None:
    import fcntl

    files.write("task/mark", "")
    assert not files.is_locked("task/mark")
    with open(f"{files.top}/ws/task/mark", "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert files.is_locked("task/mark")


def test_bells_ring_and_are_taken_down(files: Beneath, victim: Path) -> None:
    with Bell() as bell, Bell() as other:
        fd = files.hang(bell, "task/ipc", "7-")
        files.hang(other, "task/ipc", "8-")
        (name,) = files.bells("task/ipc", "7-")
        assert files.has_reader(f"task/ipc/{name}")
        assert len(files.bells("task/ipc")) == 2
        files.ring("task/ipc", "7-")
        assert os.read(fd, 10) == b"\n"
        with pytest.raises(BlockingIOError):
            os.read(fd, 10)
    assert files.names("task/ipc") == []


def test_a_bell_that_is_no_fifo_is_left_alone_and_a_dead_one_removed(files: Beneath, victim: Path) -> None:
    ipc = f"{files.top}/ws/task/ipc"
    os.link(victim / "001.answer", f"{ipc}/1.bell")
    os.symlink(victim / "001.answer", f"{ipc}/2.bell")
    os.mkdir(f"{ipc}/3.bell")
    os.mkfifo(f"{ipc}/4.bell")
    sock(f"{ipc}/5.bell")
    files.ring("task/ipc")
    assert (victim / "001.answer").read_text() == "secret"
    assert not os.path.lexists(f"{ipc}/4.bell")
    assert {"1.bell", "2.bell", "3.bell"} <= set(files.names("task/ipc"))


@NEEDS_PROC
def test_a_real_folder_is_watched(files: Beneath) -> None:
    news = Inotify()
    try:
        number = files.watch(news, "task/ipc")
        assert number is not None
        files.write(FILE, "text")
        assert news.read() == {number}
    finally:
        news.close()


SWAPPER = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
one, two = map(os.fsencode, sys.argv[1:])
print("swapping", flush=True)
while True:
    if libc.renameat2(-100, one, -100, two, 2):  # exchanges the names
        sys.exit(os.strerror(ctypes.get_errno()))
"""


@pytest.fixture
def swapping(files: Beneath, tmp_path: Path) -> Iterator[Path]:
    """A process that exchanges `ipc` with a link to a folder of the user, all the time; that folder."""
    victim = tmp_path / "victim"
    victim.mkdir()
    link = f"{files.top}/ws/task/link"
    os.symlink(victim, link)
    with subprocess.Popen(
        [sys.executable, "-c", SWAPPER, f"{files.top}/ws/task/ipc", link], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            if process.stdout.readline() != "swapping\n":
                pytest.skip("names cannot be exchanged on this system")
            yield victim
            assert process.poll() is None, "the swapper ended early"
        finally:
            process.kill()


def test_no_write_lands_in_a_folder_that_is_swapped_in(files: Beneath, swapping: Path) -> None:
    wrote = refused = 0
    for number in range(3000):
        name = f"task/ipc/{number % 50}"
        calls: list[Callable[[], object]] = [
            partial(files.write, f"{name}.answer", "text"),
            partial(files.append, f"{name}.log", "text"),
            partial(files.write, f"{name}/deep/x", "text", make=True),
            partial(files.rename, f"{name}.answer", f"{name}.kept"),
            partial(files.ring, "task/ipc"),
        ]
        for call in calls:
            try:
                call()
                wrote += 1
            except Refused:
                refused += 1
    with Bell() as bell:
        for _ in range(100):
            try:
                files.hang(bell, "task/ipc")
            except Refused:
                refused += 1
    assert os.listdir(swapping) == []
    assert wrote > 100
    assert refused > 100  # both places were met

    (swapping / "secret").write_text("secret")
    read = {files.read("task/ipc/secret") for _ in range(3000)}
    assert read == {None}
    listed = {tuple(name for name in files.names("task/ipc") if name == "secret") for _ in range(3000)}
    assert listed == {()}


def test_the_swapping_process_misleads_a_plain_path(files: Beneath, swapping: Path) -> None:
    """Shows that the test above would find a write that goes astray."""
    for number in range(10_000):
        with open(f"{files.top}/ws/task/ipc/{number}", "w", encoding="utf-8"):
            pass
        if os.listdir(swapping):
            return
    pytest.fail("not one of 10,000 writes went through the link")
