"""What a tree's git dirs are made from: the project's settings, refs and rules, read once."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from overhand.errors import Refused
from overhand.trees import borrowed, config
from overhand.trees.tree import Behind

if TYPE_CHECKING:
    from overhand.system import Git, Repository
    from overhand.trees.config import Pairs, Settings

_REFS = "%(objectname) %(refname) %(symref) %(upstream) %(HEAD)"


@dataclass(frozen=True)
class Source:
    """A repository that lends its objects."""

    theirs: Settings
    settings: Pairs  # of the git dir that borrows
    files: dict[str, bytes]  # of the git dir that borrows
    places: tuple[str, ...]  # with the objects
    refs: bytes  # as packed-refs
    symbolic: dict[str, str]
    commits: dict[str, str]  # by ref
    upstream: str = ""

    @property
    def format(self) -> str:
        return self.theirs.format


def read_source(git: Git, repository: Repository, *, trusted: bool) -> Source:
    """What the repository has that its trees need."""
    theirs = config.read_settings(git)
    places = tuple(borrowed.object_places(f"{repository.common_dir}/objects"))
    files = borrowed.shared_files(repository.git_dir, repository.common_dir)
    files["objects/info/alternates"] = borrowed.alternates(places)
    rows = [
        line.split(" ", 4)
        for line in os.fsdecode(git.run("for-each-ref", f"--format={_REFS}", *REF_NAMES)).splitlines()
    ]
    text, symbolic = borrowed.packed_refs((commit, name, target) for commit, name, target, _, _ in rows)
    upstream = next((row[3] for row in rows if row[4] == "*"), "") or symbolic.get("refs/remotes/origin/HEAD", "")
    return Source(
        theirs=theirs,
        settings=config.own_settings(theirs, repository.top, trusted=trusted),
        files=files,
        places=places,
        refs=text,
        symbolic=symbolic,
        commits={row[1]: row[0] for row in rows},
        upstream=upstream,
    )


REF_NAMES = ("refs/heads", "refs/remotes", "refs/tags", "refs/notes")  # not the stash, nor refs of other tools


def with_conditions(source: Source, ours: Git) -> Source:
    """The same with the user's settings that hold in the checkout only, such as an identity by folder."""
    if not config.has_conditions(source.theirs):
        return source
    more = config.conditional(source.theirs, config.read_settings(ours))
    head = sum(key.startswith(("core.repo", "core.bare", "core.logall", "extensions.")) for key, _ in source.settings)
    return replace(source, settings=[*source.settings[:head], *more, *source.settings[head:]])


def free_branch(name: str, source: Source) -> str:
    """A branch that the project doesn't have, nor a folder of branches of that name."""
    taken = [ref.removeprefix("refs/heads/") for ref in source.commits if ref.startswith("refs/heads/")]
    number, found = 1, name
    while any(one == found or one.startswith(f"{found}/") for one in taken):
        number += 1
        found = f"{name}-{number}"
    return found


def count_behind(git: Git, source: Source, head: str) -> Behind | None:
    """How far a commit is behind the branch that the project follows, as of the last fetch; None without one."""
    there = source.commits.get(source.upstream)
    if not there:
        return None
    number = 0 if there == head else int(git.run("rev-list", "--count", f"{head}..{there}"))
    times = []
    for place in {git.git_dir, os.path.dirname(source.places[0])}:
        try:
            times.append(os.stat(f"{place}/FETCH_HEAD").st_mtime)
        except OSError:
            continue
    return Behind(source.upstream.removeprefix("refs/remotes/"), number, max(times, default=None))


def require_trusted_filters(git: Git, source: Source, paths: list[str]) -> None:
    """Raise if files need a filter that only an untrusted project's own configuration defines."""
    names = source.theirs.project_filters
    if not names or not paths:
        return
    given = os.fsencode("".join(f"{path}\0" for path in paths))
    words = git.lines("check-attr", "-z", "--stdin", "filter", given=given)
    used = sorted({name for name in words[2::3] if name in names})
    if used:
        raise Refused(
            f"Files of this project go through the filter {used[0]}, which its own .git/config defines.",
            "If you trust this project, type: overhand trust; or work in place: --here",
        )
