"""What a program tries from behind a shield: `attacks.py NAME JSON` prints how each try ended.

The first line of an attack's docstring is its row in docs/security.md.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import resource
import signal
import socket
import stat
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

HELD, OPEN = "held", "open"
LIBC = ctypes.CDLL(None, use_errno=True)
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MNT_DETACH = 1, 32, 4096, 16384, 2
NUMBERS = {  # x86_64, aarch64
    "ptrace": (101, 117),
    "setns": (308, 268),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "mount_setattr": (442, 442),
}


@dataclass(frozen=True)
class Places:
    """What the attacker knows: everything."""

    base: str
    home: str
    state: str
    project: str
    tree: str
    workspace: str
    supervisor: str
    victim: int  # a process of the same user, outside
    victim_fd: int  # it has the log open for writing
    port: int
    socket: str
    abstract: str

    @property
    def log(self) -> str:
        return f"{self.state}/p/log.jsonl"

    @property
    def trust(self) -> str:
        return f"{self.home}/.config/overhand/trust.json"


@dataclass(frozen=True)
class Attack:
    run: Callable[[Places], list[str]]
    result: str  # HELD, OPEN, or `signals`: as the kernel has Landlock's scope or not

    @property
    def row(self) -> str:
        return (self.run.__doc__ or "").partition("\n")[0].rstrip(".")


ATTACKS: dict[str, Attack] = {}


def attack(result: str) -> Callable[[Callable[[Places], list[str]]], Callable[[Places], list[str]]]:
    def register(run: Callable[[Places], list[str]]) -> Callable[[Places], list[str]]:
        ATTACKS[run.__name__] = Attack(run, result)
        return run

    return register


def tried(*tries: Callable[[], Any]) -> list[str]:
    """How each ended: the name of its error, or `done`."""
    ends = []
    for one in tries:
        try:
            one()
            ends.append("done")
        except OSError as error:
            ends.append(errno.errorcode.get(error.errno or 0, str(error)))
    return ends


def system_call(name: str, *arguments: object) -> int:
    number = NUMBERS[name][os.uname().machine == "aarch64"]
    return checked(LIBC.syscall(number, *arguments), name)


def checked(result: int, name: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name)
    return result


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    words = [os.fsencode(word) for word in (source, target, kind)]
    checked(LIBC.mount(*words, flags, options.encode()), "mount")


def umount(target: str, flags: int = 0) -> None:
    checked(LIBC.umount2(os.fsencode(target), flags), "umount")


def append(path: str, text: str = "FORGED\n") -> None:
    with open(path, "a") as file:
        file.write(text)


def own_namespaces() -> None:
    """Become root in namespaces of our own, with every capability there."""
    user, group = os.geteuid(), os.getegid()
    checked(LIBC.unshare(0x10000000 | 0x20000), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


class Memory(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class Handle(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("data", ctypes.c_ubyte * 128))


# what holds


@attack(HELD)
def change_the_record(at: Places) -> list[str]:
    """Write, truncate, chmod, touch, tag, remove, rename or replace a file of the record"""
    return tried(
        lambda: append(at.log),
        lambda: os.truncate(at.log, 0),
        lambda: os.chmod(at.log, 0o600),
        lambda: os.utime(at.log),
        lambda: os.setxattr(at.log, "user.x", b"x"),
        lambda: os.unlink(at.log),
        lambda: os.rename(at.log, f"{at.log}.old"),
        lambda: os.rename(f"{at.tree}/mine", at.log),
        lambda: os.mkdir(f"{at.state}/p/new"),
        lambda: os.symlink("/etc/passwd", f"{at.state}/p/new"),
        lambda: append(f"/proc/self/root{at.log}"),
        lambda: append(f"/proc/self/cwd/../../p/{os.path.basename(at.log)}"),
    )


@attack(HELD)
def change_others(at: Places) -> list[str]:
    """Write to the checkout, the trees and workspaces of other tasks, or the trust store"""
    return tried(
        lambda: append(f"{at.project}/README"),
        lambda: append(f"{at.state}/trees/other/file"),
        lambda: append(f"{at.project}/.agent-workspaces/other/OUTPUT.md"),
        lambda: append(f"{at.state}/trees/forged"),
        lambda: append(at.trust),
        lambda: append(f"{os.path.dirname(at.trust)}/config.toml"),
    )


@attack(HELD)
def rename_the_walls(at: Places) -> list[str]:
    """Rename or remove a protected folder"""
    return tried(
        lambda: os.rename(at.state, f"{at.base}/gone"),
        lambda: os.rename(at.tree, f"{at.base}/gone"),
        lambda: os.rename(at.workspace, f"{at.base}/gone"),
        lambda: os.rmdir(at.supervisor),
        lambda: os.rename(os.path.dirname(at.trust), f"{at.base}/gone"),
    )


@attack(HELD)
def rename_an_ancestor(at: Places) -> list[str]:
    """Rename a folder above a protected one and put another in its place"""
    return tried(
        lambda: os.rename(f"{at.home}/.config", f"{at.home}/gone"),
        lambda: os.rename(at.home, f"{at.base}/gone"),
        lambda: os.rename(at.base, f"{at.base}-gone"),
    )


@attack(HELD)
def link_to_the_record(at: Places) -> list[str]:
    """Write through a hard link or a symbolic link that is made behind the shield"""
    os.symlink(at.log, f"{at.workspace}/link")
    return tried(
        lambda: os.link(at.log, f"{at.tree}/hard"),
        lambda: os.link(at.log, f"{at.home}/hard"),
        lambda: append(f"{at.workspace}/link"),
    )


@attack(HELD)
def look_behind_the_empty_folder(at: Places) -> list[str]:
    """Read, fill or connect to what is in a hidden folder"""
    there = os.listdir(at.supervisor)
    assert there == [], there
    with socket.socket(socket.AF_UNIX) as client:
        os.chdir(os.path.dirname(at.supervisor))  # the path of a socket is short
        return tried(
            lambda: append(f"{at.supervisor}/socket"),
            lambda: client.connect("supervisor/socket"),
            lambda: umount(at.supervisor),
        )


@attack(HELD)
def undo_the_mounts(at: Places) -> list[str]:
    """Unmount, mount read-write again, or mount something over it"""
    return tried(
        lambda: umount(at.state),
        lambda: umount(at.state, MNT_DETACH),
        lambda: mount("none", at.state, "", MS_REMOUNT | MS_BIND),
        lambda: mount(at.tree, at.state, "", MS_BIND),
        lambda: mount("none", at.state, "tmpfs", 0),
        lambda: checked(LIBC.unshare(0x20000), "unshare"),
        lambda: checked(LIBC.chroot(os.fsencode(at.tree)), "chroot"),
    )


@attack(HELD)
def undo_the_mounts_in_a_namespace(at: Places) -> list[str]:
    """The same as root of a new user and mount namespace; bind mounts, overlays and copies of the mounts too"""
    own_namespaces()
    copy, over = f"{at.tree}/copy", f"{at.tree}/over"
    for path in (copy, over, f"{at.tree}/upper", f"{at.tree}/work"):
        os.mkdir(path)
    clear = (ctypes.c_uint64 * 4)(0, MS_RDONLY, 0, 0)
    here = os.path.relpath(at.state)

    def copied(flags: int) -> None:
        tree = system_call("open_tree", -100, os.fsencode(at.base), 1 | flags)
        system_call("move_mount", tree, b"", -100, os.fsencode(copy), 4)

    ends = tried(
        lambda: umount(at.state),
        lambda: umount(at.state, MNT_DETACH),
        lambda: umount(at.supervisor, MNT_DETACH),
        lambda: mount("none", at.state, "", MS_REMOUNT | MS_BIND),
        lambda: system_call("mount_setattr", -100, os.fsencode(at.state), 0x8000, clear, ctypes.c_size_t(32)),
        lambda: mount(at.base, copy, "", MS_BIND),
        lambda: copied(0),
        lambda: system_call("move_mount", -100, os.fsencode(at.state), -100, os.fsencode(over), 0),
        lambda: mount("/dev/vda", over, "ext4", 0),
    )
    for again in (lambda: mount(at.base, copy, "", MS_BIND | MS_REC), lambda: copied(0x8000)):
        if tried(again) == ["done"]:  # a copy with everything below it is allowed, and as read-only as before
            ends += tried(lambda: append(f"{copy}{at.log[len(at.base) :]}"))
            ends += tried(lambda: mount("none", f"{copy}{at.state[len(at.base) :]}", "", MS_REMOUNT | MS_BIND))
            ends += tried(lambda: umount(f"{copy}{at.state[len(at.base) :]}", MNT_DETACH))
            umount(copy, MNT_DETACH)
    if tried(lambda: mount("none", over, "overlay", 0, f"lowerdir={here},upperdir=upper,workdir=work")) == ["done"]:
        append(f"{over}/p/log.jsonl")  # goes to the upper folder, the record stays as it is
    return [*ends, *tried(lambda: append(at.log))]


@attack(HELD)
def reach_through_a_process(at: Places) -> list[str]:
    """Reach the files of a process outside: /proc/PID/root, cwd, fd, mem, environ"""
    there = f"/proc/{at.victim}"
    return tried(
        lambda: append(f"{there}/root{at.log}"),
        lambda: append(f"{there}/cwd/log.jsonl"),
        lambda: append(f"{there}/fd/{at.victim_fd}"),
        lambda: open(f"{there}/mem", "r+b").close(),
        lambda: open(f"{there}/environ", "rb").close(),
    )


@attack(HELD)
def take_over_a_process(at: Places) -> list[str]:
    """Take over a process outside: ptrace, pidfd_getfd, process_vm_readv and writev, setns"""
    text = ctypes.create_string_buffer(8)
    memory = Memory(ctypes.addressof(text), 8)
    pidfd = system_call("pidfd_open", at.victim, 0)
    return tried(
        lambda: system_call("ptrace", 0x4206, at.victim, 0, 0),  # SEIZE, which does not stop it
        lambda: system_call("pidfd_getfd", pidfd, at.victim_fd, 0),
        lambda: system_call("process_vm_readv", at.victim, ctypes.byref(memory), 1, ctypes.byref(memory), 1, 0),
        lambda: system_call("process_vm_writev", at.victim, ctypes.byref(memory), 1, ctypes.byref(memory), 1, 0),
        lambda: system_call("setns", pidfd, 0x20000),
        lambda: system_call("setns", pidfd, 0x10000000),
        lambda: os.close(os.open(f"/proc/{at.victim}/ns/mnt", os.O_RDONLY)),
    )


@attack(HELD)
def open_by_number(at: Places) -> list[str]:
    """Open files by handle, make device nodes"""
    handle, which = Handle(bytes=128), ctypes.c_int()
    system_call("name_to_handle_at", -100, os.fsencode(f"{at.tree}/mine"), ctypes.byref(handle), ctypes.byref(which), 0)
    folder = os.open(at.tree, os.O_RDONLY)
    disk = os.stat(at.tree).st_dev
    return tried(
        lambda: system_call("open_by_handle_at", folder, ctypes.byref(handle), os.O_RDWR),
        lambda: os.mknod(f"{at.tree}/disk", 0o600 | stat.S_IFBLK, disk),
    )


@attack(HELD)
def gain_rights(at: Places) -> list[str]:
    """Gain capabilities or another user id, also by a setuid program"""
    with open("/proc/self/status") as file:
        status = dict(line.split(":\t", 1) for line in file.read().splitlines())
    assert status["NoNewPrivs"] == "1", status
    setfcap_only = f"{(1 << 31 if os.geteuid() == 0 else 0):016x}"
    assert {status[name] for name in ("CapPrm", "CapEff", "CapBnd")} == {setfcap_only}, status
    assert {status[name] for name in ("CapInh", "CapAmb")} == {f"{0:016x}"}, status
    return tried(lambda: os.setuid(4321), lambda: os.setgroups([4321]), lambda: os.chown(f"{at.tree}/mine", 4321, -1))


@attack("signals")
def send_signals(at: Places) -> list[str]:
    """Signal a process outside: the supervisor, the shim, anything else of the user (Linux 6.12 or later)"""
    pidfd = system_call("pidfd_open", at.victim, 0)
    return tried(
        lambda: os.kill(at.victim, signal.SIGCONT),
        lambda: system_call("pidfd_send_signal", pidfd, signal.SIGCONT, None, 0),
    )


# what stays open


@attack(OPEN)
def hard_link_from_before(at: Places) -> list[str]:
    """Write through a hard link to a protected file that was made before, outside the shield"""
    return tried(lambda: append(f"{at.tree}/linked-before", "x\n"))


@attack(OPEN)
def lock_the_record(at: Places) -> list[str]:
    """Lock a file that can be read (its writers wait)"""
    fd = os.open(at.log, os.O_RDONLY)
    return tried(lambda: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB), lambda: fcntl.flock(fd, fcntl.LOCK_UN))


@attack(OPEN)
def truncate_own_output(at: Places) -> list[str]:
    """Open its own stdout and stderr again, and truncate them"""
    return tried(lambda: os.truncate("/proc/self/fd/2", 0))


@attack(OPEN)
def limit_a_process(at: Places) -> list[str]:
    """Change resource limits of a process outside"""
    return tried(lambda: resource.prlimit(at.victim, resource.RLIMIT_CORE, (0, 0)))


@attack(OPEN)
def ask_a_daemon(at: Places) -> list[str]:
    """Connect to Unix sockets outside hidden folders, also abstract ones: docker, tmux, D-Bus, ssh-agent"""
    with socket.socket(socket.AF_UNIX) as named, socket.socket(socket.AF_UNIX) as abstract:
        os.chdir(os.path.dirname(at.socket))
        return tried(lambda: named.connect(os.path.basename(at.socket)), lambda: abstract.connect(f"\0{at.abstract}"))


@attack(OPEN)
def use_the_network(at: Places) -> list[str]:
    """Use the network"""
    with socket.socket() as client:
        return tried(lambda: client.connect(("127.0.0.1", at.port)))


@attack(OPEN)
def change_the_home(at: Places) -> list[str]:
    """Write to dotfiles in HOME: .bashrc, .gitconfig, .ssh, .config/systemd/user"""
    return tried(
        lambda: append(f"{at.home}/.bashrc", "x\n"),
        lambda: append(f"{at.home}/.gitconfig", "x\n"),
        lambda: append(f"{at.home}/.config/other", "x\n"),
    )


@attack(OPEN)
def read_everything(at: Places) -> list[str]:
    """Read the record, the checkout and everything else that the user can read"""
    return tried(lambda: open(at.log).close(), lambda: os.listdir(at.project), lambda: open(at.trust).close())


if __name__ == "__main__":
    sys.stdout.write(json.dumps(ATTACKS[sys.argv[1]].run(Places(**json.loads(sys.argv[2])))))
