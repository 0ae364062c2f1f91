"""What `.gitignore` leaves out, asked entry by entry on the way down a tree; the rules are git's, read by pathspec."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Pattern

    Rule = tuple[Pattern[str], bool]  # what it matches, and whether that is left out or taken back (`!`)


class Ignored:
    """The rules of a folder and of those above it, up to its repository; each level knows only what it adds."""

    __slots__ = ("_above", "_base", "rules")

    def __init__(self, folder: str, rules: list[Rule], above: Ignored | None = None) -> None:
        self._base = len(folder.rstrip("/")) + 1
        self._above = above
        self.rules = rules

    def __call__(self, path: str, *, is_folder: bool) -> bool | None:
        """Whether this entry is left out; None if no rule speaks of it. What is inside a match is not asked here."""
        entry = f"{path}/" if is_folder else path
        level: Ignored | None = self
        while level is not None:
            name = entry[level._base :]
            for pattern, is_left_out in reversed(level.rules):
                if pattern.fullmatch(name):
                    return is_left_out
            level = level._above
        return None


def ignored(folder: str) -> Ignored:
    """The rules that hold in this folder, which is given as an absolute path."""
    above = os.path.dirname(folder)
    is_top = above == folder or os.path.lexists(f"{folder}/.git")
    return below(folder, None if is_top else ignored(above))


def below(folder: str, above: Ignored | None) -> Ignored:
    """The rules of a folder inside another one; a repository begins anew, with its own `.git/info/exclude`."""
    if os.path.lexists(f"{folder}/.git"):
        above = Ignored(folder, _rules(f"{_git_folder(folder)}/info/exclude"))
    rules = _rules(f"{folder}/.gitignore")
    return Ignored(folder, rules, above) if rules or above is None else above


def _git_folder(folder: str) -> str:
    """Where the repository keeps what all its worktrees share."""
    place = f"{folder}/.git"
    if os.path.isfile(place):
        place = os.path.join(folder, _first_line(place).removeprefix("gitdir:").strip())
        shared = _first_line(f"{place}/commondir")
        place = os.path.join(place, shared) if shared else place
    return place


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.readline().strip()
    except OSError:
        return ""


def _rules(path: str) -> list[Rule]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().removeprefix("\ufeff").split("\n")
    except OSError:
        return []
    return [rule for line in lines if line.strip() and line[0] != "#" and (rule := _rule(line.removesuffix("\r")))]


def _rule(line: str) -> Rule | None:
    """One line of a `.gitignore`; None if it means nothing."""
    import re

    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    try:
        pattern, is_left_out = GitIgnoreSpecPattern.pattern_to_regex(_spelled_out(line))
        return (re.compile(pattern, re.DOTALL), bool(is_left_out)) if pattern is not None else None
    except (ValueError, re.error):
        return None  # a set that makes no sense matches nothing


def _spelled_out(line: str) -> str:
    """The same rule with its stars spelled out: for a bare one pathspec matches a beginning, not the whole path."""
    line = line if line.endswith("\\ ") else line.rstrip()
    mark = "!" if line.startswith("!") else ""
    bare = line[len(mark) :].rstrip("/")
    parts = ["?*" if part == "*" else part for part in bare.split("/")]
    if parts[-1] == "**":
        parts.append("?*")
    return mark + "/".join(parts) + ("/" if line.endswith("/") else "")
