"""Git, run without hooks, locks, network or a terminal: the only module that runs it.

A repository's own configuration may come from a hostile archive or from an agent, so it may not name a program: those
of its filters and hooks are switched off, call by call. What the user's own configuration names (system, global and
environment; LFS, for example) stays. The repository is found here and named explicitly, so git searches for none and
takes no folder that only looks like one; git then no longer checks its owner, which is done here, too.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from overhand.errors import GitFailed
from overhand.system.files import is_own, names_in, read_file
from overhand.system.machine import find_program

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from subprocess import Popen
    from typing import IO

_PATIENCE = 30  # seconds
_SETTINGS = (
    *("core.hooksPath=/dev/null", "hook.reference-transaction.enabled=false", "hook.post-index-change.enabled=false"),
    *("core.fsmonitor=false", "core.untrackedCache=false", "core.trustctime=true", "core.checkStat=default"),
    *("core.safecrlf=false", "core.pager=cat", "core.editor=:", "core.askPass=", "credential.helper="),
    *("gc.auto=0", "maintenance.auto=false", "submodule.recurse=false", "tag.gpgSign=false"),
    *("tag.forceSignAnnotated=false", "log.showSignature=false", "core.splitIndex=false", "index.sparse=false"),
    *("lfs.url=file:///nonexistent", "lfs.skipdownloaderrors=true", "lfs.transfer.maxretries=1"),  # from its cache only
)
OUR_IDENTITY = tuple(
    (f"GIT_{role}_{part}", value)
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "Overhand"), ("EMAIL", "overhand@localhost"))
)
_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # a partial clone would fetch what is missing, from an address that may be a command
    "GIT_NO_LAZY_FETCH": "1",
    **dict.fromkeys(("GIT_TRACE2", "GIT_TRACE2_EVENT", "GIT_TRACE2_PERF"), "0"),  # ~/.gitconfig can name files for it
    "LC_ALL": "C",
    "PYTHONSAFEPATH": "1",  # a filter of the user's in Python runs in the project and must not import from it
}
_OWN_SCOPES = ("system", "global", "command")
_MAX_CONFIG = 1 << 20
_SUSPECT = (b"filter", b"hook", b"include")  # whatever else names a program is in _SETTINGS, or never used here


class Repository(NamedTuple):
    """A work tree's top and its git dir, both as real paths."""

    top: str
    git_dir: str

    @property
    def common_dir(self) -> str:
        """The git dir of the main work tree, which has the configuration and what all work trees share."""
        named = (read_file(f"{self.git_dir}/commondir", 4096) or b"").decode("utf-8", "surrogateescape").rstrip("\r\n")
        return os.path.realpath(os.path.join(self.git_dir, named)) if named else self.git_dir


class Worktree(NamedTuple):
    """A git worktree: where, on which branch, and whether its folder is gone."""

    path: str
    branch: str = ""
    gone: bool = False


class Finished(NamedTuple):
    """How a git command ended: its exit status, what it printed, and its messages."""

    status: int
    output: bytes
    messages: str


class Git(NamedTuple):
    """Git with everything named: no repository is searched for, and nothing but these places is used.

    `settings` and `variables` are added to those that every call has. `lock` is a descriptor that git keeps open, so
    that a lock lasts as long as the last git that its holder started, also when the holder is killed. `enter` are words
    that put up a shield, for what reads files that an agent wrote.
    """

    git_dir: str
    work_tree: str = ""
    index_file: str = ""  # the git dir's own, if empty
    cwd: str = ""  # the work tree, if empty
    settings: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    lock: int = -1
    enter: tuple[str, ...] = ()

    def run(self, *args: str, given: bytes = b"", ok: Collection[int] = (0,), patience: float = _PATIENCE) -> bytes:
        """What a git command prints; raises GitFailed with git's own words if its status is not among those `ok`."""
        finished = self.call(*args, given=given, patience=patience)
        if finished.status not in ok:
            raise _failed(args, finished)
        return finished.output

    def lines(self, *args: str, given: bytes = b"") -> list[str]:
        """The parts of what a command with `-z` prints, such as paths."""
        return os.fsdecode(self.run(*args, given=given)).split("\0")[:-1]

    def call(self, *args: str, given: bytes = b"", patience: float = _PATIENCE) -> Finished:
        """Run a git command, whatever its exit status; raises GitFailed if it can't be run, or takes too long."""
        import subprocess

        process = self._start(args, subprocess.PIPE if given else subprocess.DEVNULL, subprocess.PIPE)
        try:
            output, messages = process.communicate(given or None, patience)
        except BaseException as error:
            _end(process)
            if isinstance(error, subprocess.TimeoutExpired):
                raise _too_slow(args, patience) from error
            raise
        return Finished(process.returncode, output, os.fsdecode(messages))

    def pipe(
        self, *args: str, into: Git, then: Sequence[str], given: bytes = b"", patience: float = _PATIENCE
    ) -> bytes:
        """Feed what a git command prints to a second one; returns what that prints. Both must end with status 0."""
        from signal import SIGPIPE
        from subprocess import PIPE, TimeoutExpired
        from tempfile import TemporaryFile

        with TemporaryFile() as asked, TemporaryFile() as said:
            asked.write(given)
            asked.seek(0)
            first = self._start(args, asked, said)
            started = [first]
            try:
                second = into._start(then, first.stdout, PIPE)
                started.append(second)
                if first.stdout:
                    first.stdout.close()  # the second has it, and the first is to see when that ends
                output, messages = second.communicate(timeout=patience)
                first.wait(patience)
            except BaseException as error:
                for process in started:
                    _end(process)
                if isinstance(error, TimeoutExpired):
                    raise _too_slow(args, patience) from error
                raise
            said.seek(0)
            if first.returncode and first.returncode != -SIGPIPE:  # the second gave up and says why
                raise _failed(args, Finished(first.returncode, b"", os.fsdecode(said.read())))
        if second.returncode or first.returncode:
            raise _failed(then, Finished(second.returncode, b"", os.fsdecode(messages)))
        return output

    def _start(self, args: Sequence[str], given: IO[bytes] | int | None, said: IO[bytes] | int) -> Popen[bytes]:
        from subprocess import PIPE, Popen

        program = find_program("git")
        if program is None:
            raise GitFailed("git is not installed.", "Install git, then try again.", status=127)
        kept = {k: v for k, v in os.environ.items() if not k.startswith("GIT_") or k.startswith("GIT_CONFIG_")}
        folders = kept.get("PATH", os.defpath).split(os.pathsep)  # a filter's program is not looked for in the files
        kept["PATH"] = os.pathsep.join(folder for folder in folders if folder.startswith("/"))
        settings = [word for setting in (*_SETTINGS, *self.settings) for word in ("-c", setting)]
        try:
            return Popen(
                [
                    *self.enter,
                    program,
                    "--no-pager",
                    *settings,
                    "-C",
                    self.cwd or self.work_tree or self.git_dir,
                    *args,
                ],
                stdin=given,
                stdout=PIPE,
                stderr=said,
                env={**kept, **_ENVIRONMENT, **self._places(), **dict(self.variables)},
                pass_fds=(self.lock,) if self.lock >= 0 else (),
            )
        except OSError as error:
            raise GitFailed(f"git {args[0]} can't be started: {error.strerror or error}.", status=126) from error

    def _places(self) -> dict[str, str]:
        found = {
            "GIT_DIR": self.git_dir,
            "GIT_WORK_TREE": self.work_tree,
            "GIT_INDEX_FILE": self.index_file or (self.git_dir and f"{self.git_dir}/index"),
        }
        return {name: place for name, place in found.items() if place}


def _end(process: Popen[bytes]) -> None:
    """End git at once; what it printed is not wanted any more."""
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def _failed(args: Sequence[str], finished: Finished) -> GitFailed:
    """The error for a git that failed; it names the command, and quotes git."""
    words = " ".join(finished.messages.split()) or f"exit status {finished.status}"
    return GitFailed(f"git {args[0]} failed: {words[:2000]}", status=finished.status)


def _too_slow(args: Sequence[str], patience: float) -> GitFailed:
    return GitFailed(f"git {args[0]} took more than {patience:.0f} s and was ended.", status=124)


def repository_of(root: str) -> str | None:
    """The top of the git work tree around a folder, if there is one."""
    found = find_repository(root)
    return found.top if found else None


def find_repository(root: str) -> Repository | None:
    """The repository of the work tree around a folder. A bare one that a folder may contain is none of a work tree."""
    folder = root
    while True:
        place = f"{folder}/.git"
        if os.access(place, os.F_OK):  # a no costs less than an exception
            if os.path.isfile(place):
                git_dir = _named_git_dir(folder)
                return Repository(folder, git_dir) if git_dir else None
            if _is_git_dir(place):
                return Repository(folder, os.path.realpath(place))
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def _named_git_dir(folder: str) -> str | None:
    """The git dir that a file `.git` names, as in a linked worktree or a submodule."""
    raw = read_file(os.path.realpath(f"{folder}/.git"), 4096) or b""
    if not raw.startswith(b"gitdir: "):
        return None
    named = os.path.realpath(os.path.join(folder, os.fsdecode(raw[8:].rstrip(b"\r\n"))))
    return named if _is_git_dir(named) else None


def _is_git_dir(path: str) -> bool:
    return os.path.lexists(f"{path}/HEAD") and (os.path.isdir(f"{path}/objects") or os.path.isfile(f"{path}/commondir"))


def linked_worktrees(root: str) -> list[Worktree]:
    """The repository's linked worktrees, without the main one."""
    repository = find_repository(root)
    place = f"{repository.common_dir}/worktrees" if repository else ""
    found = []
    for name in sorted(names_in(place)) if place else ():
        where = (read_file(f"{place}/{name}/gitdir", 4096) or b"").rstrip(b"\r\n")
        if where:
            path = os.path.dirname(os.path.join(place, name, os.fsdecode(where)))
            head = os.fsdecode((read_file(f"{place}/{name}/HEAD", 4096) or b"").rstrip(b"\r\n"))
            branch = head.removeprefix("ref: ") if head.startswith("ref: ") else ""
            locked = os.path.lexists(f"{place}/{name}/locked")
            found.append(Worktree(os.path.normpath(path), branch, not locked and not os.path.lexists(f"{path}/.git")))
    return found


def tag_commit(root: str, name: str, message: str) -> str | None:
    """Tag the current commit; None if git fails."""
    fallback = ("-c", "user.name=Overhand", "-c", "user.email=overhand@localhost")  # for a git without an identity
    for identity in ((), fallback):
        if run_git(root, *identity, "tag", "-a", "--no-sign", "-m", message, "--", name, writes=True) is not None:
            return name
    return None


def is_untracked(root: str, path: str) -> bool:
    """Whether this is a git checkout that doesn't track the file."""
    return run_git(root, "ls-files", "-z", "--", path) == ""


def tracked_files(root: str, path: str) -> list[str]:
    """The files below a path that git tracks."""
    return (run_git(root, "ls-files", "-z", "--", path) or "").split("\0")[:-1] if repository_of(root) else []


def run_git(root: str, *args: str, enter: Sequence[str] = (), writes: bool = False) -> str | None:
    """The output of a git command in the repository around a folder; None if there is none, or git fails.

    `enter` are words that put up a shield, for what reads files that an agent wrote. Only what `writes` has hooks.
    """
    git = find_git(root, enter, writes=writes)
    return None if git is None else _output(git, *args)


def find_git(root: str, enter: Sequence[str] = (), *, writes: bool = False) -> Git | None:
    """Git for the repository around a folder, which can run no program that this names; None if there is none to use.

    None, too, for a repository of another owner that the user does not call safe, and for one that can't be disarmed.
    """
    repository = find_repository(root)
    if repository is None or not _may_be_used(repository):
        return None
    git = Git(repository.git_dir, repository.top, cwd=root, enter=tuple(enter))
    more = _disarmed(repository, git, hooks=writes)
    return None if more is None else git._replace(settings=tuple(more))


def is_safe_directory(folder: str) -> bool:
    """Whether the user's own git configuration names a folder of another owner as safe."""
    asked = ("config", "-z", "--type=path", "--show-scope", "--get-all", "safe.directory")
    told = _output(Git("", cwd="/"), *asked) or ""
    words = told.split("\0")
    safe = False
    for scope, value in zip(words[::2], words[1::2], strict=False):
        if scope not in _OWN_SCOPES:
            continue
        if not value:
            safe = False  # an empty one takes back those before it
        elif value.endswith("/*"):
            safe = safe or folder.startswith(os.path.realpath(value[:-2]).rstrip("/") + "/")
        else:
            safe = safe or value == "*" or os.path.realpath(value) == folder
    return safe


def _may_be_used(repository: Repository) -> bool:
    """Git's own rule: a repository of another user can name programs, so the user must call it safe."""
    parts = (repository.top, f"{repository.top}/.git", repository.git_dir)
    return all(is_own(part) for part in parts) or is_safe_directory(repository.top)


def _disarmed(repository: Repository, git: Git, *, hooks: bool) -> list[str] | None:
    """Settings that switch off the programs that the repository's own configuration names; None if that is impossible.

    It is the same list that the next git reads, with all that it includes. Hooks are switched off by their names, also
    the user's: before git 2.55 an event cannot be.
    """
    paths = (f"{repository.common_dir}/config", f"{repository.git_dir}/config.worktree")
    texts = [_config_text(path) for path in paths]
    if None in texts:
        return None
    if not hooks and not any(word in text for word in _SUSPECT for text in texts if text):
        return []
    told = _output(git, "config", "--list", "-z", "--show-scope")
    if told is None:
        return None
    words = told.split("\0")
    own: dict[str, str] = {}  # what the user set
    switched_off: set[str] = set()
    for scope, entry in zip(words[::2], words[1::2], strict=False):
        key, has_value, value = entry.partition("\n")
        section, _, rest = key.partition(".")
        name, has_name, _ = rest.rpartition(".")
        if scope in _OWN_SCOPES:
            own[key] = value if has_value else "true"
        if section == "hook" and has_name:
            switched_off.add(f"hook.{name}.enabled")
        elif section == "filter" and has_name and scope not in _OWN_SCOPES:
            switched_off.add(key)
    for key in switched_off:
        beside = key.removesuffix("process")
        hides = key != beside and key not in own and (f"{beside}clean" in own or f"{beside}smudge" in own)
        if "=" in key or hides:  # a setting cannot name it; or git would pass over the user's own filter
            return None
    off = {key: "false" if key.endswith((".enabled", ".required")) else "" for key in switched_off}
    return [f"{key}={own.get(key, off[key]) if key.startswith('filter.') else off[key]}" for key in sorted(off)]


def _config_text(path: str) -> bytes | None:
    """A configuration in lower case, empty if there is none; None for what is no regular file, or too big."""
    if not os.path.lexists(path):
        return b""
    raw = read_file(os.path.realpath(path), _MAX_CONFIG)
    return None if raw is None or len(raw) > _MAX_CONFIG else raw.lower()


def _output(git: Git, *args: str) -> str | None:
    """What git prints; None if it fails, is missing or takes too long."""
    try:
        return git.run(*args).decode("utf-8", "surrogateescape")
    except GitFailed:
        return None
