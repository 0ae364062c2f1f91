"""What `.gitignore` leaves out, for a walk through a tree without ripgrep; the rules are git's."""

from __future__ import annotations

import os
import re

Rule = tuple[re.Pattern[str], bool, bool]  # what it matches, is it taken back (`!`), only folders


class Ignored:
    """The rules of a folder and of those above it, up to its repository; each level knows only what it adds."""

    __slots__ = ("_above", "_base", "_rules")

    def __init__(self, folder: str, above: Ignored | None = None) -> None:
        self._base = folder.rstrip("/") + "/"
        self._above = None if os.path.lexists(f"{folder}/.git") else above
        self._rules = _rules(f"{folder}/.gitignore")

    def __call__(self, path: str, *, is_folder: bool) -> bool | None:
        """Whether this path is left out; None if no rule speaks of it."""
        level: Ignored | None = self
        while level is not None:
            relative = path[len(level._base) :]
            for pattern, is_back, only_folders in reversed(level._rules):
                if (is_folder or not only_folders) and pattern.match(relative):
                    return not is_back
            level = level._above
        return None


class _Excluded(Ignored):
    """The repository's own list, `.git/info/exclude`, which every `.gitignore` overrules."""

    __slots__ = ()

    def __init__(self, folder: str) -> None:
        self._base = folder.rstrip("/") + "/"
        self._above = None
        self._rules = _rules(f"{git_folder(folder)}/info/exclude")


def ignored(folder: str) -> Ignored:
    """The rules that hold in this folder, which is given as an absolute path."""
    above = os.path.dirname(folder)
    if os.path.lexists(f"{folder}/.git"):
        return _of_repository(folder)
    return Ignored(folder, ignored(above) if above != folder else None)


def below(folder: str, rules: Ignored) -> Ignored:
    """The rules of a folder inside another one."""
    if os.path.lexists(f"{folder}/.git"):
        return _of_repository(folder)
    own = Ignored(folder, rules)
    return own if own._rules else rules


def _of_repository(folder: str) -> Ignored:
    found = Ignored(folder)
    found._above = _Excluded(folder)
    return found


def git_folder(folder: str) -> str:
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
            lines = file.read().removeprefix("\ufeff").splitlines()
    except OSError:
        return []
    return [found for line in lines if (found := rule(line)) is not None]


def rule(line: str) -> Rule | None:
    """One line of a `.gitignore`."""
    if not line or line.startswith("#"):
        return None
    bare = line.rstrip(" \t")
    if bare.endswith("\\") and len(bare) < len(line):
        bare += " "  # a blank that is meant
    is_back = bare.startswith("!")
    bare = bare[1:] if is_back else bare
    only_folders = bare.endswith("/")
    bare = bare.rstrip("/") if only_folders else bare
    if not bare:
        return None
    anchored = "/" in bare
    try:
        pattern = re.compile(("" if anchored else "(?:.*/)?") + _regex(bare.removeprefix("/")) + r"\Z", re.DOTALL)
    except re.error:
        return None  # a set that makes no sense matches nothing
    return pattern, is_back, only_folders


def _regex(glob: str) -> str:
    parts: list[str] = []
    at = 0
    while at < len(glob):
        char = glob[at]
        at += 1
        if char == "*":
            stars = at
            while at < len(glob) and glob[at] == "*":
                at += 1
            alone = at - stars >= 1 and glob[stars - 2 : stars - 1] in ("", "/")
            if alone and glob[at : at + 1] == "/":
                parts.append("(?:.*/)?")
                at += 1
            elif alone and at == len(glob):
                parts.append(".+")
            else:
                parts.append("[^/]*")
        elif char == "?":
            parts.append("[^/]")
        elif char == "[" and (end := glob.find("]", at + 1 + (glob[at : at + 1] in ("!", "^")))) >= 0:
            inside = glob[at:end].replace("\\", "\\\\")
            inside = "^" + inside[1:] if inside[:1] in ("!", "^") else inside
            parts.append(f"(?!/)[{inside}]")
            at = end + 1
        elif char == "\\" and at < len(glob):
            parts.append(re.escape(glob[at]))
            at += 1
        else:
            parts.append(re.escape(char))
    return "".join(parts)
