"""The configuration of a tree's git dirs: the project's own, without what would reach outside or run a program of ours.

It is written as a file from what git lists in the checkout, so that includes are resolved and the settings of a linked
worktree are in it. Git in the tree then converts, ignores and signs off as it does in the checkout.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from overhand.system import Git

    Pairs = list[tuple[str, str | None]]  # keys and values, as they are written

WITHHELD = "push is withheld in a task's tree; land the work with  overhand merge"
_OWN_SCOPES = ("system", "global")
_PROJECT_SCOPES = ("local", "worktree")
_LEFT_OUT = {
    *("core.worktree", "core.bare", "core.fsmonitor", "core.hookspath", "core.repositoryformatversion"),
    *("core.splitindex", "core.untrackedcache", "core.sharedrepository", "core.alternaterefscommand"),
    *("core.gitproxy", "core.editor", "commit.gpgsign", "commit.template", "tag.gpgsign", "push.gpgsign", "gc.auto"),
}
_LEFT_OUT_SECTIONS = {"include", "includeif", "extensions", "maintenance", "hook", "alias", "worktree"}
_KEPT_EXTENSIONS = ("extensions.objectformat", "extensions.partialclone")
# What names a program; it counts only for a project that is trusted.
_PROGRAMS = {
    *("core.sshcommand", "core.pager", "core.askpass", "diff.external", "sequence.editor", "gpg.program"),
    *("uploadpack.packobjectshook", "interactive.difffilter", "web.browser"),
}
_PROGRAM_SECTIONS = {"filter", "credential", "pager", "difftool", "mergetool", "gpg", "browser", "man", "sendemail"}
_PROGRAM_NAMES = {"driver", "command", "textconv", "uploadpack", "receivepack", "vcs", "program", "path", "args"}
_AGENTS = (
    *(("commit.gpgsign", "false"), ("tag.gpgsign", "false"), ("gc.auto", "0"), ("maintenance.auto", "false")),
    *(("core.fsmonitor", "false"), ("push.default", "nothing")),
)


@dataclass(frozen=True)
class Setting:
    """A setting as git lists it; one without a value stays without."""

    scope: str
    key: str
    value: str | None

    @property
    def section(self) -> str:
        return self.key.partition(".")[0]

    @property
    def name(self) -> str:
        return self.key.rpartition(".")[2]


@dataclass(frozen=True)
class Settings:
    """Everything that git lists for a repository."""

    every: tuple[Setting, ...]

    def last(self, key: str) -> str:
        """The value that counts; empty for none."""
        return next((one.value or "" for one in reversed(self.every) if one.key == key), "")

    @property
    def format(self) -> str:
        return self.last("extensions.objectformat") or "sha1"

    @property
    def project_filters(self) -> set[str]:
        """The filters that only the project's own configuration defines."""
        names: dict[str, set[bool]] = {}
        for one in self.every:
            if one.section == "filter" and one.name in ("clean", "smudge", "process"):
                names.setdefault(one.key.split(".", 1)[1].rpartition(".")[0], set()).add(one.scope in _OWN_SCOPES)
        return {name for name, own in names.items() if True not in own}


def read_settings(git: Git) -> Settings:
    """What git's configuration says here, with what it includes."""
    words = git.lines("config", "--list", "-z", "--show-scope")
    found = []
    for scope, entry in zip(words[::2], words[1::2], strict=False):
        key, has_value, value = entry.partition("\n")
        found.append(Setting(scope, key, value if has_value else None))
    return Settings(tuple(found))


def own_settings(theirs: Settings, top: str, *, trusted: bool) -> Pairs:
    """What a git dir of ours is configured with: the project's settings that concern its files and its remotes."""
    extensions = [(one.key, one.value) for one in theirs.every if one.key in _KEPT_EXTENSIONS]
    extensions = [pair for pair in extensions if pair != ("extensions.objectformat", "sha1")]
    found: Pairs = [
        ("core.repositoryformatversion", "1" if extensions else "0"),
        ("core.bare", "false"),
        ("core.logallrefupdates", "true"),
        *extensions,
    ]
    for one in theirs.every:
        if one.scope in _PROJECT_SCOPES and not _is_left_out(one) and (trusted or not _names_a_program(one)):
            found.append((one.key, _absolute(one, top)))
    for one in theirs.every:  # hooks that the user has in the configuration, of git 2.54 or later
        if one.section == "hook" and one.scope in _OWN_SCOPES and one.key.count(".") > 1:
            found.append((f"{one.key.rpartition('.')[0]}.enabled", "false"))
    return list(dict.fromkeys(found))


def conditional(theirs: Settings, ours: Settings) -> Pairs:
    """The user's settings that hold for the checkout and not elsewhere: identities by `includeIf gitdir:`."""
    here = [(one.key, one.value) for one in ours.every if one.scope in _OWN_SCOPES]
    found: Pairs = []
    for one in theirs.every:
        pair = (one.key, one.value)
        if one.scope not in _OWN_SCOPES or _is_left_out(one):
            continue
        if pair in here:
            here.remove(pair)
        else:
            found.append(pair)
    return found


def has_conditions(settings: Settings) -> bool:
    """Whether the user's own configuration includes files by a condition."""
    return any(one.section == "includeif" and one.scope in _OWN_SCOPES for one in settings.every)


def agents_settings(ours: Sequence[tuple[str, str | None]], *, hooks: bool) -> Pairs:
    """What the agent's git dir is configured with: it commits and fetches, and leaves signing and pushing to people."""
    remotes = dict.fromkeys(key.split(".", 1)[1].rpartition(".")[0] for key, _ in ours if key.startswith("remote."))
    off = [("core.hookspath", "/dev/null")] if not hooks else []
    return [*ours, *_AGENTS, *off, *((f"remote.{name}.pushurl", WITHHELD) for name in remotes if name)]


def as_text(settings: Iterable[tuple[str, str | None]]) -> bytes:
    """A configuration file."""
    lines, last = [], ""
    for key, value in settings:
        section, _, rest = key.partition(".")
        subsection, has_subsection, name = rest.rpartition(".")
        head = f'[{section} "{_escaped(subsection)}"]' if has_subsection else f"[{section}]"
        if head != last:
            lines.append(head)
            last = head
        lines.append(f"\t{name}" if value is None else f"\t{name} = {_quoted(value)}")
    return os.fsencode("\n".join([*lines, ""]))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'.replace("\n", "\\n").replace("\t", "\\t")


def _is_left_out(one: Setting) -> bool:
    is_push_url = one.section == "remote" and one.name == "pushurl"
    return one.key in _LEFT_OUT or one.section in _LEFT_OUT_SECTIONS or is_push_url


def _names_a_program(one: Setting) -> bool:
    if one.key in _PROGRAMS or one.section in _PROGRAM_SECTIONS:
        return True
    return one.key.count(".") > 1 and one.section != "submodule" and one.name in _PROGRAM_NAMES


def _absolute(one: Setting, top: str) -> str | None:
    """A remote that is named relative to the checkout is named by its path."""
    if one.value and one.section == "remote" and one.name == "url" and one.value.startswith(("./", "../")):
        return os.path.normpath(os.path.join(top, one.value))
    return one.value
