"""Put up the shield around this process, then become the program: same pid, same exit code, no monitor between.

Its arguments: pin=/home/u ro=/home/u/state rw=/home/u/state/tree hide=/home/u/state/x cwd=/home/u/state/tree -- argv…

Where the kernel lets only bubblewrap do this, `bwrap=/usr/bin/bwrap` comes first: then that program does the mounting
and stays as a monitor, and this entry runs once more inside (`inside=SIGNALS`), looks at the walls and lets go.

It runs by `python -I -S` before every agent, so it imports only what is built in and the core of ctypes, whose rest
takes 4 ms to import. The program is never started without its shield: whatever fails ends it with exit status 126
and one line on stderr.
"""

import _signal  # type: ignore[import-not-found] # `signal` takes 3 ms to import
import posix
import sys
from _ctypes import FUNCFLAG_CDECL, FUNCFLAG_USE_ERRNO, CFuncPtr, _SimpleCData, dlopen, dlsym, get_errno

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

ENCODING = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 0x4000, 0x40000
AT_FDCWD, AT_EMPTY_PATH, AT_RECURSIVE = -100, 0x1000, 0x8000
OPEN_TREE_CLONE = 1
MOVE_MOUNT_BY_DESCRIPTORS = 0x4 | 0x40  # F_EMPTY_PATH, T_EMPTY_PATH
MOUNT_ATTR_RDONLY = 1
RESOLVE_NO_SYMLINKS = 4
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 24, 38
ST_RDONLY = 1
CAP_SETFCAP = 31
CAPABILITY_VERSION_3 = 0x20080522
LANDLOCK_CREATE_RULESET_VERSION, LANDLOCK_SCOPE_SIGNAL, ABI_WITH_SCOPES = 1, 2, 6
EPERM, ENOENT = 1, 2

# System calls that the C library has no function for; from 424 on they have the same number on all architectures.
NUMBERS = {
    "open_tree": 428,
    "move_mount": 429,
    "openat2": 437,
    "mount_setattr": 442,
    "landlock_create_ruleset": 444,
    "landlock_restrict_self": 446,
}


class _Int(_SimpleCData):  # type: ignore[type-arg] # it has none at run time
    _type_ = "i"


class _Text(_SimpleCData):  # type: ignore[type-arg]
    _type_ = "z"


class _Function(CFuncPtr):
    _flags_ = FUNCFLAG_CDECL | FUNCFLAG_USE_ERRNO
    _restype_ = _Int


_LIBC = dlopen(None, 0)  # type: ignore[arg-type] # this process, which has the C library


def call(name: str, *arguments: object, path: str = "") -> int:
    """Call a function of the C library or a system call; raises OSError that names it and the path."""
    number = NUMBERS.get(name)
    function = _Function(dlsym(_LIBC, "syscall" if number else name))
    result: int = function(number, *arguments) if number else function(*arguments)
    if result < 0:
        error = get_errno()
        raise OSError(error, posix.strerror(error), f"{name} {path}".rstrip())
    return result


def words(*values: int, size: int = 8) -> bytes:
    """The memory of a C struct whose members all have this size."""
    return b"".join(value.to_bytes(size, sys.byteorder) for value in values)


def open_folder(path: str) -> int:
    """A descriptor of a folder, as the mounts are now, without following any link on the way."""
    how = words(posix.O_PATH | posix.O_DIRECTORY | posix.O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS)
    return call("openat2", AT_FDCWD, path.encode(*ENCODING), how, len(how), path=path)


def write_map(name: str, text: str) -> None:
    """Write one of the files that say which users and groups exist in a user namespace."""
    fd = posix.open(f"/proc/self/{name}", posix.O_WRONLY | posix.O_CLOEXEC)
    try:
        posix.write(fd, text.encode())
    finally:
        posix.close(fd)


def enter_namespaces() -> None:
    """Have mounts of our own, in a user namespace in which we are who we were."""
    user, group = posix.geteuid(), posix.getegid()
    call("unshare", CLONE_NEWUSER | CLONE_NEWNS)
    write_map("setgroups", "deny")
    write_map("uid_map", f"{user} {user} 1")
    write_map("gid_map", f"{group} {group} 1")
    call("mount", None, b"/", None, MS_REC | MS_PRIVATE, None)


def mount_all(mounts: list[tuple[str, str]]) -> None:
    """Mount in order, outer folders first. Every source is opened before: later ones lie below earlier mounts."""
    trees = [-1 if how == "hide" else _copy(path, read_only=how == "ro") for how, path in mounts]
    for (how, path), tree in zip(mounts, trees, strict=True):
        target = open_folder(path)
        if how == "hide":
            empty = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
            place = f"/proc/self/fd/{target}".encode()
            call("mount", b"overhand", place, b"tmpfs", empty, b"mode=555,size=4k", path=path)
        else:
            call("move_mount", tree, b"", target, b"", MOVE_MOUNT_BY_DESCRIPTORS, path=path)


def _copy(path: str, *, read_only: bool) -> int:
    """A copy of the mount of a folder, with all that is mounted below it, not yet anywhere."""
    flags = OPEN_TREE_CLONE | posix.O_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH
    tree = call("open_tree", open_folder(path), b"", flags, path=path)
    if read_only:
        attributes = words(MOUNT_ATTR_RDONLY, 0, 0, 0)
        call("mount_setattr", tree, b"", AT_EMPTY_PATH | AT_RECURSIVE, attributes, len(attributes), path=path)
    return tree


def drop_rights() -> None:
    """Give up every capability. As root keep SETFCAP: a sandbox inside needs it to map user 0, mounts don't heed it."""
    kept = CAP_SETFCAP if posix.geteuid() == 0 else None
    with open("/proc/sys/kernel/cap_last_cap", "rb", buffering=0) as file:
        last = int(file.read())
    for capability in range(last + 1):
        if capability != kept:
            call("prctl", PR_CAPBSET_DROP, capability, 0, 0, 0)
    keep_rights(kept)
    call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def keep_rights(capability: int | None) -> None:
    """Have this capability at most, and let programs inherit none."""
    kept = 0 if capability is None else 1 << capability
    call("capset", words(CAPABILITY_VERSION_3, 0, size=4), words(kept, kept, 0, 0, 0, 0, size=4))


def scope_signals() -> None:
    """Let signals reach only what was started from here; the supervisor and the shim are outside. Linux 6.12."""
    try:
        if call("landlock_create_ruleset", None, 0, LANDLOCK_CREATE_RULESET_VERSION) < ABI_WITH_SCOPES:
            return
    except OSError:
        return  # the kernel has no Landlock: signals stay open, as the probe says
    ruleset = words(0, 0, LANDLOCK_SCOPE_SIGNAL)
    call("landlock_restrict_self", call("landlock_create_ruleset", ruleset, len(ruleset), 0), 0)


def close_folders() -> None:
    """Close inherited descriptors of folders: they lead around the mounts."""
    for name in posix.listdir("/proc/self/fd"):
        try:
            if int(name) > 2 and posix.fstat(int(name)).st_mode & 0o170000 == 0o040000:
                posix.close(int(name))
        except OSError:
            continue  # the one that the listing itself had open


def undo_python() -> None:
    """Restore what the interpreter changed and the program would inherit: two ignored signals, and a locale it set."""
    _signal.signal(_signal.SIGPIPE, _signal.SIG_DFL)
    _signal.signal(_signal.SIGXFSZ, _signal.SIG_DFL)
    with open("/proc/self/environ", "rb", buffering=0) as file:
        if b"LC_CTYPE" in posix.environ and b"\0LC_CTYPE=" not in b"\0" + file.readall():
            posix.unsetenv("LC_CTYPE")


# where only bubblewrap may do it


def become_bwrap(program: str, walls: list[tuple[str, str]], split: int) -> None:
    """Have bubblewrap mount the same, and come back inside.

    Its monitor must not end at a signal to the group, or the program would lose its grace: it ignores them, and the
    program gets them as they were.
    """
    for _, path in walls:
        open_folder(path)  # no link on the way
    close_folders()
    mounts = [word for how, path in walls for word in MOUNTED_AS[how](path)]
    rights = ["--cap-add", "CAP_SETFCAP"] if posix.geteuid() == 0 else []
    signals = [str(int(one)) for one in GROUP_SIGNALS if _signal.getsignal(one) != _signal.SIG_IGN]
    for one in GROUP_SIGNALS:
        _signal.signal(one, _signal.SIG_IGN)
    begin, rest = sys.orig_argv[: -len(sys.argv[1:])], sys.argv[1:]
    again = [*begin, f"inside={','.join(signals)}", *(word for word in rest[:split] if not word.startswith("bwrap="))]
    argv = [program, "--unshare-user", "--cap-drop", "ALL", *rights, "--dev-bind", "/", "/", *mounts, "--"]
    execute([*argv, *again, *rest[split:]])


GROUP_SIGNALS = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGQUIT, _signal.SIGTERM)
MOUNTED_AS = {
    "pin": lambda path: ["--dev-bind", path, path],
    "rw": lambda path: ["--dev-bind", path, path],
    "ro": lambda path: ["--ro-bind", path, path],
    "hide": lambda path: ["--tmpfs", path, "--remount-ro", path],
}


def come_back(walls: list[tuple[str, str]], signals: str) -> None:
    """Inside bubblewrap's mounts: see that they are where they should be; end with the monitor, which is our pid."""
    for number in filter(None, signals.split(",")):
        _signal.signal(int(number), _signal.SIG_DFL)
    keep_rights(CAP_SETFCAP if posix.geteuid() == 0 else None)
    call("prctl", PR_SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0)
    for how, path in walls:
        folder = open_folder(path)
        if how in ("ro", "hide") and not posix.fstatvfs(folder).f_flag & ST_RDONLY:
            raise OSError(EPERM, "bwrap did not mount it", path)
        posix.close(folder)


def end(code: int, text: str) -> "NoReturn":
    """End with one line on stderr."""
    line = " ".join(f"overhand: {text}".splitlines())
    posix.write(2, line.encode("utf-8", "backslashreplace") + b"\n")
    posix._exit(code)


def execute(argv: list[str]) -> None:
    """Become another program, found on PATH."""
    program = [word.encode(*ENCODING) for word in argv]
    call("execvp", program[0], (_Text * (len(program) + 1))(*program), path=argv[0])


def main(arguments: list[str]) -> "NoReturn":
    """Enter, and become the program."""
    try:
        split = arguments.index("--")
        options = [word.partition("=")[::2] for word in arguments[:split]]
        undo_python()
        walls = [option for option in options if option[0] in MOUNTED_AS]
        given = dict(options)
        if "bwrap" in given:
            become_bwrap(given["bwrap"], walls, split)
        if "inside" in given:
            come_back(walls, given["inside"])
        else:
            enter_namespaces()
            mount_all(walls)
            drop_rights()
        scope_signals()
        close_folders()
        for how, path in options:
            if how == "cwd":
                posix.chdir(path)
    except OSError as error:
        end(126, f"not started, because the shield failed: {error.filename}: {error.strerror}")
    except Exception as error:  # noqa: BLE001 -- whatever it is, the program must not run
        end(126, f"not started, because the shield failed: {error!r}")
    try:
        execute(arguments[split + 1 :])
    except OSError as error:
        end(127 if error.errno == ENOENT else 126, f"cannot start {arguments[split + 1]}: {error.strerror}")
    end(126, "not started")
