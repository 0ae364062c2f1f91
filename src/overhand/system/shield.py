"""The shield: a program and everything it starts cannot write to folders that it must not change.

On Linux a program can have mounts of its own, without root and without a monitor process: `plan_mounts` says what must
be mounted, `shield_words` is a small entry (enter_shield.py) in front of the program's arguments. `probe_shield`
tries once whether this kernel allows it. docs/security.md says what was tried, what held and what stays open.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from overhand.errors import OverhandError
from overhand.system import files, machine
from overhand.words import SHIELDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, Literal

    How = Literal["pin", "ro", "rw", "hide"]

# Imports the entry, because a module is compiled only once; a script would be at every start.
_ENTER = """\
import sys
sys.path.insert(0, sys.argv.pop(1))
try:
    from enter_shield import main
except Exception as error:
    sys.stderr.write(f"overhand: not started, because the shield failed: {error!r}\\n")
    sys.exit(126)
main(sys.argv[1:])
"""
_MAX_LINKS = 40  # as in the kernel


class Walls(NamedTuple):
    """Which folders a program may not change. The innermost folder that contains a path decides.

    Folders, never single files: the mount of a file is gone as soon as another file is renamed onto it from outside.
    """

    read_only: tuple[str, ...]
    writable: tuple[str, ...]  # below read-only ones
    hidden: tuple[str, ...]  # shown as an empty folder
    cwd: str


class Plan(NamedTuple):
    """What to mount, outer folders first; or why these walls would not hold, and then no mounts."""

    mounts: tuple[tuple[How, str], ...]
    cwd: str
    why: str = ""


class ShieldProbe(NamedTuple):
    """Whether this machine lets us put up a shield, else why not; and whether signals stay inside it."""

    how: Literal["exec", "bwrap", "off"]
    why: str = ""
    signals: Literal["scoped", "open"] = "open"
    bwrap: str = ""  # the program that mounts, where we may not


class Entry(NamedTuple):
    """What is at a path, its last part not followed."""

    kind: Literal["folder", "link", "file", "missing"]
    target: str = ""  # of a link
    changeable: bool = False  # a folder in which this user can rename entries, if need be after a chmod
    identity: tuple[int, int] = (0, 0)


# planning


def look_at(path: str) -> Entry:
    """What is at a path, for this user."""
    try:
        found = os.lstat(path)
        kind = found.st_mode & 0o170000
        if kind == 0o120000:
            return Entry("link", os.readlink(path))
        changeable = found.st_uid == os.geteuid() or os.access(path, os.W_OK)
    except OSError:
        return Entry("missing")
    return Entry("folder" if kind == 0o040000 else "file", "", changeable, (found.st_dev, found.st_ino))


def mount_table() -> str:
    """The mounts of this process, as the kernel prints them."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def plan_mounts(walls: Walls, look: Callable[[str], Entry] = look_at, mounts: str | None = None) -> Plan:
    """Decide what to mount so that these walls hold.

    Besides the walls themselves these are pins: a folder on the way to a wall, in a place where the user could rename
    it and put another in its place, is mounted onto itself, and a mount point cannot be renamed. A link in such a place
    cannot be pinned, so the walls don't hold. Other mounts that show the same folder get the same wall.
    """
    try:
        kinds = _resolved(walls, look)
    except _DoesNotHold as error:
        return Plan((), walls.cwd, str(error))
    kinds = {**_twins(kinds, mount_table() if mounts is None else mounts, look), **kinds}
    planned: dict[str, How] = {}
    for path in sorted(kinds, key=_depth):  # ancestors first
        around = _wall_around(path, planned)
        if kinds[path] == "rw" and around == "hide":
            return Plan((), walls.cwd, f"{path} should be writable, but lies in a hidden folder")
        if kinds[path] != (around or "rw") and around != "hide":
            planned[path] = kinds[path]
    everything = dict(planned)
    for path, how in planned.items():
        if how != "rw":
            everything.update(dict.fromkeys(_pins(path, planned, look), "pin"))
    return Plan(tuple((everything[path], path) for path in sorted(everything, key=_depth)), walls.cwd)


class _DoesNotHold(Exception):
    """The reason is its text."""


def _resolved(walls: Walls, look: Callable[[str], Entry]) -> dict[str, How]:
    """The real path of every wall, and what is to be there."""
    found: dict[str, How] = {}
    given: list[tuple[How, tuple[str, ...]]] = [("ro", walls.read_only), ("rw", walls.writable), ("hide", walls.hidden)]
    for how, paths in given:
        for path in paths:
            real = _real_path(path, look)
            if found.setdefault(real, how) != how:
                raise _DoesNotHold(f"{path} should be both {_WORDS[found[real]]} and {_WORDS[how]}")
    return found


_WORDS: dict[How, str] = {"ro": "read-only", "rw": "writable", "hide": "hidden"}


def _real_path(path: str, look: Callable[[str], Entry]) -> str:
    """Follow the links of a path, but none that an agent could replace."""
    if not path.startswith("/"):
        raise _DoesNotHold(f"{path} is not an absolute path")
    real, rest, links = "/", path.split("/")[::-1], 0
    while rest:
        part = rest.pop()
        if part in ("", "."):
            continue
        if part == "..":
            real = os.path.dirname(real)
            continue
        step = os.path.join(real, part)
        entry = look(step)
        if entry.kind == "link":
            links += 1
            if links > _MAX_LINKS:
                raise _DoesNotHold(f"{path} has too many links on the way")
            if look(real).changeable:
                raise _DoesNotHold(f"{path} goes through the link {step}, which an agent could replace")
            rest += entry.target.split("/")[::-1]
            real = "/" if entry.target.startswith("/") else real
        elif entry.kind != "folder":
            raise _DoesNotHold(f"{step} " + ("doesn't exist" if entry.kind == "missing" else "is not a folder"))
        else:
            real = step
    if real == "/":
        raise _DoesNotHold("the root folder can't be walled off")
    return real


def _depth(path: str) -> tuple[int, str]:
    return path.count("/"), path


def _ancestors(path: str) -> Iterator[str]:
    """The folders above it, innermost first, without the root."""
    while (path := os.path.dirname(path)) != "/":
        yield path


def _wall_around(path: str, planned: Mapping[str, How]) -> How | None:
    return next((planned[above] for above in _ancestors(path) if above in planned), None)


def _pins(path: str, planned: Mapping[str, How], look: Callable[[str], Entry]) -> Iterator[str]:
    """The folders above a wall that could be renamed: not those that are mount points, or in a read-only folder."""
    for above in _ancestors(path):
        exposed = above not in planned and (_wall_around(above, planned) or "rw") == "rw"
        if exposed and look(os.path.dirname(above)).changeable:
            yield above


def _twins(kinds: Mapping[str, How], table: str, look: Callable[[str], Entry]) -> dict[str, How]:
    """Where else protected folders, or folders in them, are mounted: the same file systems at other places."""
    rows = [line.split(" ")[2:5] for line in table.split("\n") if line]  # other blanks are part of a path
    mounts = [(device, _unescaped(root), _unescaped(point)) for device, root, point in rows]
    found: dict[str, How] = {}
    for path, how in kinds.items():
        around = [mount for mount in mounts if _is_in(path, mount[2])]
        if how == "rw" or not around:
            continue
        device, root, point = max(reversed(around), key=lambda mount: len(mount[2]))  # the last one covers the others
        inside = _joined(root, path[len(point.rstrip("/")) :])  # its path in the file system
        for other_device, other_root, other_point in mounts:
            if other_device != device:
                continue
            if _is_in(inside, other_root):
                here, there = path, _joined(other_point, inside[len(other_root.rstrip("/")) :])
            elif _is_in(other_root, inside):
                here, there = path + other_root[len(inside) :], other_point
            else:
                continue
            kept = kinds.get(here) or _wall_around(here, kinds)
            if here != there != "/" and kept == how and look(here).identity == look(there).identity:
                found[there] = how
    return found


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _joined(folder: str, rest: str) -> str:
    return folder.rstrip("/") + rest or "/"


def _unescaped(text: str) -> str:
    """A path of the table, in which blank, tab, newline and backslash are octal."""
    for code in ("040", "011", "012", "134"):
        text = text.replace(f"\\{code}", chr(int(code, 8)))
    return text


# entering


def shield_words(plan: Plan, bwrap: str = "") -> list[str]:
    """What stands before a program's arguments: it puts up the shield and becomes the program in the same process.

    It ends with the program's exit status, or with 126 and one line on stderr if the shield can't be put up. With
    `bwrap`, that program stays between as a monitor.
    """
    if plan.why:
        raise ValueError(plan.why)
    walls = [*([f"bwrap={bwrap}"] if bwrap else []), *(f"{how}={path}" for how, path in plan.mounts)]
    return [sys.executable, "-I", "-S", "-c", _ENTER, os.path.dirname(__file__), *walls, f"cwd={plan.cwd}", "--"]


# probing

_TRY = 'readlink /proc/self/ns/user; kill -0 "$1" 2>/dev/null && echo open || echo scoped; : >"$0/written"'
_KERNEL_SETTINGS = (
    "user/max_user_namespaces",
    "user/max_mnt_namespaces",
    "kernel/unprivileged_userns_clone",
    "kernel/apparmor_restrict_unprivileged_userns",
)
_CACHE = "shield.json"
_probed: dict[str, ShieldProbe] = {}


def probe_shield(folder: str, *, anew: bool = True) -> ShieldProbe:
    """Whether a write behind the shield really fails here; `folder` is one that only this user writes.

    The result is kept there until the next boot or change of the kernel's settings; with `anew`, a kept failure is
    tried again, once in this process.
    """
    if sys.platform != "linux":
        return ShieldProbe("off", "it needs Linux")
    settings = {name: _read(f"/proc/sys/{name}") for name in _KERNEL_SETTINGS}
    key = json.dumps([machine.boot_id(), os.geteuid(), sys.executable, _place_in_the_kernel(), settings])
    if key not in _probed:
        found = _remembered(folder, key)
        if found is not None and found.how == "off" and not anew:
            return found
        if found is None or found.how == "off":
            found = _try_all(folder, settings)
            _remember(folder, key, found)
        _probed[key] = found
    return _probed[key]


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _place_in_the_kernel() -> list[str]:
    """What tells one container or sandbox from another; they may share a boot and a folder."""
    status = [line for line in _read("/proc/self/status").splitlines() if line.startswith(("Seccomp", "NoNewPrivs"))]
    return [
        os.readlink("/proc/self/ns/mnt"),
        os.readlink("/proc/self/ns/user"),
        _read("/proc/self/attr/current"),
        *status,
    ]


def _remembered(folder: str, key: str) -> ShieldProbe | None:
    try:
        known = json.loads(_read(f"{folder}/{_CACHE}"))
        return ShieldProbe(*(known[field] for field in ShieldProbe._fields)) if known["key"] == key else None
    except (ValueError, TypeError, KeyError):
        return None


def _remember(folder: str, key: str, probe: ShieldProbe) -> None:
    try:
        files.write_file(f"{folder}/{_CACHE}", json.dumps({"key": key, **probe._asdict()}))
    except OverhandError:
        return  # a full disk: the next process tries again


def _try_all(folder: str, settings: Mapping[str, str]) -> ShieldProbe:
    """By ourselves, else by bubblewrap: an older kernel has what it needs, and AppArmor may have a profile for it."""
    found = _try(folder, settings)
    if found.how == "off" and (program := machine.find_program("bwrap")):
        other = _try(folder, settings, program)
        return other if other.how != "off" else found
    return found


def _try(folder: str, settings: Mapping[str, str], bwrap: str = "") -> ShieldProbe:
    import subprocess
    import tempfile

    base = folder if os.path.isdir(folder) else tempfile.gettempdir()  # before the first task nothing is made
    place = f"{os.path.realpath(base)}/shield-{files.random_text(8)}"
    try:
        os.mkdir(place, 0o700)
    except OSError as error:
        return ShieldProbe("off", f"it could not be tried: {error}")
    plan = Plan((("ro", place),), "/")
    argv = [*shield_words(plan, bwrap), "/bin/sh", "-c", _TRY, place, str(os.getpid())]
    try:
        env = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:{os.defpath}"}  # it needs readlink
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, env=env, timeout=30, check=False)
        written = os.path.exists(f"{place}/written")
    except (OSError, subprocess.TimeoutExpired) as error:
        return ShieldProbe("off", f"it could not be tried: {error}")
    finally:
        files.remove_file(f"{place}/written")
        os.rmdir(place)
    if done.returncode == 126:
        said = done.stderr.decode("utf-8", "replace").strip()
        return ShieldProbe("off", explain_failure(said.rpartition("failed: ")[2], settings))
    namespace, _, signals = done.stdout.decode("ascii", "replace").strip().partition("\n")
    if not done.returncode or written or not namespace.startswith("user:"):
        return ShieldProbe("off", "a write behind it was not refused")
    if namespace == os.readlink("/proc/self/ns/user"):
        return ShieldProbe("off", "no user namespace was made")
    return ShieldProbe("bwrap" if bwrap else "exec", "", "scoped" if signals == "scoped" else "open", bwrap)


def explain_failure(error: str, settings: Mapping[str, str]) -> str:
    """Say why the kernel refused, for a person; `error` is what the entry reported."""
    if settings.get("kernel/apparmor_restrict_unprivileged_userns") == "1" and "unshare" not in error:
        return "user namespaces are restricted (AppArmor: kernel.apparmor_restrict_unprivileged_userns=1)"
    if "unshare" in error:
        if settings.get("kernel/unprivileged_userns_clone") == "0":
            return "user namespaces are disabled (kernel.unprivileged_userns_clone=0)"
        if "No space" in error:
            return "no more user namespaces are allowed (user.max_user_namespaces)"
        return f"user namespaces are not allowed here, as in most containers ({error})"
    if "not implemented" in error:
        return f"the kernel is too old, Linux 5.12 is needed ({error})"
    return error or "it failed without a word"


# saying


def wanted_shield(user: str | None, *others: str | None) -> str:
    """The setting that counts: the user's own (`auto` without one), which others can raise but never lower."""
    given = [setting for setting in (user or "auto", *others) if setting is not None]
    return max(given, key=SHIELDS.index)


def open_sockets(env: Mapping[str, str]) -> list[str]:
    """Sockets of other programs that could do something for an agent outside the shield, and are there."""
    runtime = env.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    known = {
        "docker.sock": ("/run/docker.sock", "/var/run/docker.sock", f"{runtime}/docker.sock"),
        "podman.sock": ("/run/podman/podman.sock", f"{runtime}/podman/podman.sock"),
        "D-Bus": (f"{runtime}/bus", "/run/dbus/system_bus_socket"),
        "tmux": (env.get("TMUX", "").partition(",")[0], f"/tmp/tmux-{os.getuid()}/default"),  # noqa: S108
        "ssh-agent": (env.get("SSH_AUTH_SOCK", ""),),
    }
    return [name for name, paths in known.items() if any(path and os.access(path, os.W_OK) for path in paths)]


def shield_facts(probe: ShieldProbe, plan: Plan, protected: Sequence[str], env: Mapping[str, str]) -> dict[str, Any]:
    """What holds and what stays open, or why nothing holds; `protected` are names for the walls."""
    why = probe.why if probe.how == "off" else plan.why
    if why or probe.how == "off":
        return {"held": False, "why": why}
    doors = ["network", "HOME", *(["signals"] if probe.signals == "open" else []), *open_sockets(env)]
    return {"held": True, "how": probe.how, "read_only": [*protected], "open": doors, "root": os.geteuid() == 0}
