"""Landing: merged work becomes part of a checkout, of a branch that is checked out nowhere, or of another task's tree.

New files are staged on the checkout's own disk by git, so all its conversions are git's. Then the index is locked,
whatever the user has changed is refused with the path's name (overlap.py), and the rest follows a journal (recover.py).
A landing is whole or did not happen, and no byte of the user's is lost.
"""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from overhand.errors import GitFailed, Refused
from overhand.system import Lock, Repository, linked_worktrees, names_in, random_text, read_file
from overhand.trees.committer import give_large_files, give_objects, release_objects
from overhand.trees.files import Files, Foreign, look, mark_of
from overhand.trees.journal import Act, Journal, Mark, Plan
from overhand.trees.overlap import NOTHING, Change, Overlap, joined, read_changes
from overhand.trees.recover import Carrier, Head, IndexLock, Recovered, read_head, recover_all, remove_spares

if TYPE_CHECKING:
    from collections.abc import Iterable

    from overhand.system import Git

_PATIENCE = 600  # seconds
_EMPTY_TREES = {
    40: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    64: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
_UNDER_WAY = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase or `git am`",
}


@dataclass(frozen=True)
class Landing:
    """What is landed where.

    `git` is the checkout's, `folder` a place for landings on its disk. `ours` is the git dir that has the new objects.
    `old` and `new` are commits. For another task's tree `git` is that task's git dir, with an index of the tree's files
    as they are tested, `head` is None, and `old` and `new` may be trees.
    """

    task: str
    git: Git
    ours: Git
    folder: str
    head: Head | None
    old: str
    new: str


@dataclass(frozen=True)
class Landed:
    """A landing that is done: how to undo it, and where text was kept that the user wrote into a replaced file."""

    old: str
    new: str
    undo: str
    late: tuple[tuple[str, str], ...] = ()
    recovered: tuple[Recovered, ...] = ()  # earlier landings that were cut off


def land_work(landing: Landing) -> Landed:
    """Land in a checkout, or in another task's tree; raises Refused, naming every path that is in the way."""
    os.makedirs(landing.folder, mode=0o700, exist_ok=True)
    with Lock(f"{landing.folder}/lock", "A landing") as held:
        git = landing.git._replace(lock=held.fd)
        recovered = recover_all(git, landing.folder)
        folder = f"{landing.folder}/{landing.task}-{random_text(6)}"
        os.mkdir(folder, 0o700)
        attempt = _Attempt(landing, git, Journal(folder))
        try:
            carrier = attempt.prepare()
        except BaseException:
            attempt.drop()
            raise
        try:
            carrier.complete()
        except Foreign as foreign:
            raise _changed_meanwhile(foreign.path, carrier.files.late) from foreign
        except GitFailed as error:
            raise GitFailed(f"{error.message} Nothing was landed.", error.hint, **error.facts) from error
    undo = f"git reset --keep {landing.old}" if landing.old else "git update-ref -d HEAD"
    return Landed(landing.old, landing.new, undo if landing.head else "", tuple(carrier.files.late), tuple(recovered))


def _changed_meanwhile(path: str, late: list[tuple[str, str]]) -> Refused:
    kept = "".join(f" What was written to {one} is kept as {where}." for one, where in late)
    message = f"{path} was changed while the work was being landed; nothing was landed.{kept}"
    return Refused(message, "Look at that file, then try again.", paths={path: "changed meanwhile"})


class _Attempt:
    """The first half of a landing: nothing of the user's is changed in it."""

    def __init__(self, landing: Landing, git: Git, journal: Journal) -> None:
        self.landing, self.git, self.journal = landing, git, journal
        self.stage = f"{journal.folder}/stage"
        self.index = git.index_file or f"{git.git_dir}/index"
        self.lock = IndexLock(git.git_dir, landing.task, journal.folder)
        self.beside: list[tuple[str, str]] = []

    def drop(self) -> None:
        self.lock.drop()
        remove_spares(self.git, self.journal.folder)
        Files(self.git.work_tree, self.journal.folder, "", Plan()).drop_beside(self.beside)
        shutil.rmtree(self.journal.folder)

    def prepare(self) -> Carrier:
        """Stage, lock, test and write down; what follows can be completed by any process."""
        landing = self.landing
        old = landing.old or _EMPTY_TREES[len(landing.new)]
        changes = read_changes(landing.ours, old, landing.new)
        self._refuse_own_folder(changes)
        if landing.head:
            give_large_files(landing.ours, _common(self.git), (one.new for one in changes if one.has_file))
        tags = self._stage_files(changes)
        if landing.head:
            self.journal.write("started", task=landing.task)
            self.lock.take()
            self._test_head(landing.head)
        test = Overlap(self.git._replace(index_file=self.index), changes, self.journal.folder)
        test.run()
        skipped = {
            one.path for one in changes if test.is_skipped(one) or (not one.had_file and tags.get(one.path) == "S")
        }
        plan = self._plan(test, skipped)
        if landing.head:
            ours, holder = landing.ours._replace(lock=self.git.lock), os.path.basename(self.journal.folder)
            give_objects(ours, _common(self.git), landing.old, landing.new, holder)
        return self._begin(plan, changes, skipped)

    def _refuse_own_folder(self, changes: list[Change]) -> None:
        own = os.path.relpath(self.landing.folder, self.git.work_tree)
        for one in changes:
            if one.path == own or one.path.startswith(f"{own}/"):
                message = f"The work has {one.path}, which is a place for Overhand's own files."
                raise Refused(message, "Remove it from the task's tree.", paths={one.path: "reserved"})

    # staging

    def _stage_files(self, changes: list[Change]) -> dict[str, str]:
        """Check out the new files into a folder of ours, as git would in the checkout; returns git's tags by path."""
        os.mkdir(self.stage)
        os.mkdir(f"{self.journal.folder}/old")
        wanted = {one.path: f"{one.new_mode} {one.new}\t{one.path}" for one in changes if one.has_file}
        if not wanted:
            return {}
        for entry in self.landing.ours.lines("ls-tree", "-r", "-z", "--full-tree", self.landing.new):
            if entry.endswith(".gitattributes"):  # with them git converts what it checks out
                about, _, path = entry.partition("\t")
                if path == ".gitattributes" or path.endswith("/.gitattributes"):
                    wanted.setdefault(path, f"{about.split()[0]} {about.split()[2]}\t{path}")
        objects = ("GIT_OBJECT_DIRECTORY", f"{self.landing.ours.git_dir}/objects")
        git = self.git._replace(
            work_tree=self.stage,
            cwd=self.stage,
            index_file=f"{self.journal.folder}/stage.index",
            settings=(*self.git.settings, "checkout.workers=1"),
            variables=(*self.git.variables, objects),
        )
        git.run("update-index", "-z", "--index-info", given=joined(wanted.values()), patience=_PATIENCE)
        tree = git.run("write-tree").decode().strip()
        os.unlink(git.index_file)
        git.run("read-tree", "--reset", "-u", tree, patience=_PATIENCE)
        if not os.path.isfile(f"{self.git.git_dir}/info/sparse-checkout"):
            return {}
        tags = {row[2:]: row[0] for row in git.lines("ls-files", "-t", "-z")}
        if any(tags.get(one.path) == "S" and one.had_file for one in changes):  # it may be there all the same
            whole = git._replace(settings=(*git.settings, "core.sparseCheckout=false"))
            whole.run("read-tree", "--reset", "-u", tree, patience=_PATIENCE)
        return tags

    # testing

    def _test_head(self, head: Head) -> None:
        for name, what in _UNDER_WAY.items():
            if os.path.lexists(f"{self.git.git_dir}/{name}"):
                raise Refused(f"{what.capitalize()} is under way in this checkout.", "Finish it, then try again.")
        found = read_head(self.git)
        if found != Head(head.ref, self.landing.old):
            where = found.ref.removeprefix("refs/heads/") if found.ref != head.ref else found.commit[:10] or "no commit"
            message = f"The checkout is at {where} by now, so this merge is out of date; nothing was landed."
            raise Refused(message, "Try again.", moved=True)

    # planning

    def _plan(self, test: Overlap, skipped: set[str]) -> Plan:
        disk = os.lstat(self.journal.folder).st_dev
        acts, made = [], dict[str, None]()
        for number, one in enumerate(test.changes):
            if one.path in skipped or not (one.had_file or one.has_file):
                continue
            found = test.marks.get(one.path)
            beside = test.disk_of(one.path) != disk
            aside = f"stage/{one.path}" if one.has_file else f"old/{number}"
            if beside:
                aside = f".overhand-{os.path.basename(self.journal.folder)}-{number}"
                self.beside.append((one.path, aside))
            made.update(dict.fromkeys(test.missing_folders.get(one.path, ())))
            acts.append(Act(one.path, aside, found if one.had_file else None, None, beside))
        if self.beside:
            self._copy_beside(acts)
        has_file = {one.path for one in test.changes if one.has_file}
        ready = tuple(act._replace(new=self._new_mark(act)) if act.path in has_file else act for act in acts)
        return Plan(ready, tuple(test.cleared), tuple(made))

    def _copy_beside(self, acts: Iterable[Act]) -> None:
        """On another disk nothing can be exchanged with the stage, so the new files wait beside the old ones."""
        self.journal.write("beside", names=self.beside)
        for act in acts:
            source = f"{self.stage}/{act.path}"
            if act.beside and os.path.lexists(source):
                target = os.path.join(self.git.work_tree, os.path.dirname(act.path), act.aside)
                shutil.copy2(source, target, follow_symlinks=False)

    def _new_mark(self, act: Act) -> Mark:
        folder = os.path.join(self.git.work_tree, os.path.dirname(act.path)) if act.beside else self.journal.folder
        place = (None, f"{folder}/{act.aside}")
        return mark_of(place, os.lstat(place[1]))

    def _begin(self, plan: Plan, changes: list[Change], skipped: set[str]) -> Carrier:
        landing = self.landing
        index = look((None, self.index)) if landing.head else None
        if index:
            shutil.copy2(self.index, f"{self.journal.folder}/old.index")
        zeros = "0" * len(landing.new)
        gone = [f"0 {zeros}\t{one.path}" for one in changes if one.new_mode == NOTHING]
        there = [f"{one.new_mode} {one.new}\t{one.path}" for one in changes if one.new_mode != NOTHING]
        began = {
            "task": landing.task,
            "ref": landing.head.ref if landing.head else "",
            "old": landing.old,
            "new": landing.new,
            "ours": landing.ours.git_dir,
            "index": mark_of((None, self.index), index) if index else None,
            "entries": [*gone, *there] if landing.head else [],
            "skipped": sorted(one.path for one in changes if one.path in skipped and one.new_mode != NOTHING),
            **plan.as_json(),
        }
        self.journal.write("began", **began)
        return Carrier(self.git, self.journal, self.journal.read())


# branches that are checked out nowhere


def land_on_branch(git: Git, ours: Git, ref: str, old: str, new: str, *, start: str = "") -> Landed:
    """Move a branch from one commit to another, or make it if `old` is empty; refused where it is checked out.

    `start` is the project's commit that a new branch begins at: what that has need not be copied.
    """
    if where := checked_out_at(git, ref):
        name = ref.removeprefix("refs/heads/")
        raise Refused(f"{name} is checked out in {where}.", f"Merge there: cd {shlex.quote(where)}")
    project = _common(git)
    known = old or start
    changes = read_changes(ours, known or _EMPTY_TREES[len(new)], new)
    give_large_files(ours, project, (one.new for one in changes if one.has_file))
    holder = f"{os.getpid()}-{random_text(6)}"
    give_objects(ours, project, known, new, holder)
    before = old or "0" * len(new)
    try:
        git.run("update-ref", "-m", "overhand merge", ref, new, before)
    except GitFailed as error:
        found = git.call("rev-parse", "--verify", "--quiet", ref).output.decode().strip()
        if found == old:
            raise
        message = f"{ref.removeprefix('refs/heads/')} has moved meanwhile; nothing was landed."
        raise Refused(message, "Try again.", moved=True) from error
    finally:
        release_objects(project, holder)
    undo = f"git update-ref {ref} {old} {new}" if old else f"git update-ref -d {ref} {new}"
    return Landed(old, new, undo)


def checked_out_at(git: Git, ref: str) -> str:
    """The work tree that has a branch checked out, or is rebasing it; empty if there is none."""
    common = _common(git)
    places = {common: os.path.dirname(common)}
    for name in names_in(f"{common}/worktrees"):
        places[f"{common}/worktrees/{name}"] = ""
    for tree in linked_worktrees(git.work_tree):
        if tree.branch == ref and not tree.gone:
            return tree.path
    for place, top in places.items():
        for name in ("HEAD", "rebase-merge/head-name", "rebase-apply/head-name"):
            text = (read_file(f"{place}/{name}", 8192) or b"").decode("utf-8", "surrogateescape").strip()
            if text.removeprefix("ref: ") == ref and (top or name != "HEAD"):
                return top or place
    return ""


def _common(git: Git) -> str:
    return Repository(git.work_tree, git.git_dir).common_dir
