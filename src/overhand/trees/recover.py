"""The second half of a landing, from its journal: files, index, ref. A killed one is completed, or taken back, here.

It is the same code for both. As long as HEAD is where it was and every file is the one that was tested, a landing goes
forward; else all of it is taken back. The lock of the landing folder is kept open by every git that a landing started:
whoever holds it knows that none of them is left.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from overhand.errors import Busy, GitFailed, OverhandError
from overhand.system import Git, Lock, Renames, Repository, is_being_written, names_in, read_file, remove_file
from overhand.trees.committer import give_objects, release_objects
from overhand.trees.files import Files, Foreign, is_same, look, mark_of
from overhand.trees.journal import Journal, Mark, Plan
from overhand.trees.overlap import joined

if TYPE_CHECKING:
    from collections.abc import Iterable

LATE = "late"  # what the user wrote into files that were replaced at that moment
LOCK_PATIENCE = 5.0  # seconds that another git may take
_STALE = 0.2
_PATIENCE = 600


@dataclass(frozen=True)
class Recovered:
    """What became of a landing that was cut off; `late` are paths, and where the user's later text was kept."""

    task: str
    landed: bool
    late: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Head:
    """What a checkout is at: its branch (`HEAD` if detached), and its commit, which is empty before the first one."""

    ref: str
    commit: str


def read_head(git: Git) -> Head:
    found = git.call("rev-parse", "HEAD", "--symbolic-full-name", "HEAD")
    if found.status == 0:
        commit, ref = found.output.decode("utf-8", "surrogateescape").split("\n")[:2]
        return Head(ref, commit)
    return Head(git.run("symbolic-ref", "HEAD").decode("utf-8", "surrogateescape").strip(), "")


def spare_name(git_dir: str, folder: str, kind: str) -> str:
    """The name of a file that a landing makes beside the index, to be renamed to it."""
    return f"{git_dir}/overhand-{os.path.basename(folder)}.{kind}"


class IndexLock:
    """Git's own lock of a checkout's index, with our task in it, so that a successor knows whose it is."""

    def __init__(self, git_dir: str, task: str, folder: str) -> None:
        self.path, self._spare = f"{git_dir}/index.lock", spare_name(git_dir, folder, "lock")
        self._text = f"overhand {task} {folder}\n".encode("utf-8", "surrogateescape")

    def is_ours(self) -> bool:
        return read_file(self.path, 8192) == self._text

    def take(self) -> None:
        """Take it; a file of that name appears with its whole text, or not at all."""
        if self.is_ours():
            return
        remove_file(self._spare)
        with open(self._spare, "xb") as file:
            file.write(self._text)
        deadline, renames = time.monotonic() + LOCK_PATIENCE, Renames()
        while True:
            try:
                renames.move(self._spare, self.path)
                return
            except FileExistsError:
                if time.monotonic() >= deadline:
                    remove_file(self._spare)
                    raise Busy(
                        f"Another git command is at work in this checkout: {self.path} exists.",
                        "Try again when it has ended.",
                    ) from None
            time.sleep(0.01)

    def drop(self) -> None:
        if self.is_ours():
            remove_file(self.path)


class Carrier:
    """One landing whose journal says what is to be done; `complete` does it, or takes it back."""

    def __init__(self, git: Git, journal: Journal, events: dict[str, dict[str, Any]]) -> None:
        began = events["began"]
        self.git, self.journal, self.events, self.began = git, journal, events, began
        self.task, self.ref, self.old, self.new = (str(began[key]) for key in ("task", "ref", "old", "new"))
        self.plan = Plan.from_json(began)
        kept = f"{os.path.dirname(journal.folder)}/{LATE}/{os.path.basename(journal.folder)}"
        self.files = Files(git.work_tree, journal.folder, kept, self.plan)
        self.lock = IndexLock(git.git_dir, self.task, journal.folder)

    def complete(self) -> bool:
        """Bring the landing to its end, and return whether that is the new state; Foreign or GitFailed says why not."""
        if "done" in self.events or "undone" in self.events:
            return self._end(landed="done" in self.events)
        try:
            self._forward()
        except (Foreign, OverhandError, OSError):
            self.take_back()
            raise
        self.journal.write("done")
        return self._end(landed=True)

    def _end(self, *, landed: bool) -> bool:
        """Drop the lock first: what is left is ours alone. The folder stays while a process may write into it."""
        self.lock.drop()
        remove_spares(self.git, self.journal.folder)
        if self.files.finish(landed=landed):
            shutil.rmtree(self.journal.folder)
        return landed

    def _forward(self) -> None:
        if self.ref and self._is_moved():
            return
        self.files.forward()
        self.files.forward()  # once more: every file is where it belongs now, and none was written to meanwhile
        if self.ref:
            self._put_index()
            self._move_ref()

    def take_back(self) -> None:
        """Put files and index back as they were."""
        if self.ref:
            self._put_index_back()
        self.files.back()
        self.journal.write("undone")
        self._end(landed=False)

    # the ref

    def _is_moved(self) -> bool:
        """Whether HEAD is at the new commit; raises Foreign where the user has moved it."""
        moving = self.events.get("moving")
        if moving:
            self._drop_ref_locks(moving["time"])
        head = read_head(self.git)
        if head == Head(self.ref, self.new) and moving:
            return True
        if head != Head(self.ref, self.old):
            raise Foreign("HEAD")
        return False

    def _move_ref(self) -> None:
        self.events["moving"] = {"time": time.time()}
        self.journal.write("moving", **self.events["moving"])
        words = ("update-ref", "-m", f"overhand merge: {self.task}", "HEAD", self.new, self.old)
        for _ in range(2):  # a second time without locks that a killed git left
            done = self.git.call(*words)
            if done.status == 0 or self._is_moved():
                return
        raise GitFailed(f"git update-ref failed: {' '.join(done.messages.split())}", status=done.status)

    def _drop_ref_locks(self, since: float) -> None:
        """Remove locks that our own git left when it was killed: younger than our journal says, and open nowhere."""
        common = Repository(self.git.work_tree, self.git.git_dir).common_dir
        places = {f"{self.git.git_dir}/HEAD.lock", f"{common}/reftable/tables.list.lock"}
        if self.ref != "HEAD":
            places.add(f"{common}/{self.ref}.lock")
        stale = {place: found for place in places if (found := _left_behind(place, since, self.new))}
        if stale:
            time.sleep(_STALE)
        for place, mark in stale.items():
            if is_same((None, place), mark) and not is_being_written(place):
                remove_file(place)

    # the index

    def _put_index(self) -> None:
        index = f"{self.git.git_dir}/index"
        placed = self.events.get("indexed")
        if placed and is_same((None, index), Mark(*placed["mark"])):
            return
        old = self.began["index"]
        if (look((None, index)) is not None) != bool(old) or (old and not is_same((None, index), Mark(*old))):
            raise Foreign("the index")
        new = self._make_index(index)
        self.events["indexed"] = {"mark": mark_of((None, new), os.lstat(new))}
        self.journal.write("indexed", **self.events["indexed"])
        os.rename(new, index)

    def _make_index(self, index: str) -> str:
        """The user's index with the landed files; what else is staged stays."""
        new = spare_name(self.git.git_dir, self.journal.folder, "index")
        for spare in (new, f"{new}.lock"):  # of a landing that was cut off here
            remove_file(spare)
        if self.began["index"]:
            shutil.copy2(index, new)  # with its time: git goes by that
        git = self.git._replace(index_file=new)
        git.run("update-index", "-z", "--index-info", given=joined(self.began["entries"]), patience=_PATIENCE)
        if skipped := self.began["skipped"]:
            git.run("update-index", "-z", "--skip-worktree", "--stdin", given=joined(skipped))
        git.run("update-index", "-q", "--refresh", ok=(0, 1), patience=_PATIENCE)
        return new

    def _put_index_back(self) -> None:
        index, placed = f"{self.git.git_dir}/index", self.events.get("indexed")
        if not placed or not is_same((None, index), Mark(*placed["mark"])):
            return  # it was not replaced, or the user has changed it since
        if not self.began["index"]:
            os.unlink(index)
            return
        spare = spare_name(self.git.git_dir, self.journal.folder, "index")
        shutil.copy2(f"{self.journal.folder}/old.index", spare)
        os.rename(spare, index)


def remove_spares(git: Git, folder: str) -> None:
    """What a landing, or a git of ours that was killed, left in the user's git dir."""
    begin = os.path.basename(spare_name(git.git_dir, folder, ""))
    for name in names_in(git.git_dir):
        if name.startswith(begin):
            remove_file(f"{git.git_dir}/{name}")
    release_objects(Repository(git.work_tree, git.git_dir).common_dir, os.path.basename(folder))


def _left_behind(path: str, since: float, new: str) -> Mark | None:
    """The mark of a ref's lock that our git can have left: it is empty, or holds the new commit."""
    found = look((None, path))
    if found is None or found.st_mtime < since - 1:
        return None
    text = (read_file(path, 8192) or b"").strip()
    is_known = not text or text == new.encode() or path.endswith("tables.list.lock")
    return mark_of((None, path), found) if is_known else None


# cut-off landings


def recover_landings(git: Git, folder: str) -> list[Recovered]:
    """Complete or take back every landing in this checkout that was cut off; one that is under way is waited for."""
    if not os.path.isdir(folder):
        return []
    with Lock(f"{folder}/lock", "A landing") as held:
        return recover_all(git._replace(lock=held.fd), folder)


def recover_all(git: Git, folder: str) -> list[Recovered]:
    """The same for a caller that holds the lock."""
    found = [
        recovered
        for name in sorted(names_in(folder))
        if name not in (LATE, "lock") and (recovered := _recover(git, Journal(f"{folder}/{name}")))
    ]
    _drop_orphaned_lock(git.git_dir, folder)
    return found


def _recover(git: Git, journal: Journal) -> Recovered | None:
    events = journal.read()
    if "began" not in events:
        _discard(git, journal, events)
        return None
    carrier = Carrier(git, journal, events)
    is_known = "done" in events or "undone" in events
    if carrier.ref and not is_known:
        carrier.lock.take()
    carrier.files.settle()
    if not is_known and carrier.ref:
        _give_again(git, carrier)
    try:
        landed = carrier.complete()
    except (Foreign, GitFailed):
        landed = False
    return None if is_known and not carrier.files.late else Recovered(carrier.task, landed, tuple(carrier.files.late))


def _give_again(git: Git, carrier: Carrier) -> None:
    """The objects of a landing, if the user has pruned the project since."""
    ours = Git(str(carrier.began["ours"]), lock=git.lock)
    project = Repository(git.work_tree, git.git_dir).common_dir
    try:
        give_objects(ours, project, carrier.old, carrier.new, os.path.basename(carrier.journal.folder))
    except GitFailed:
        return  # without them the ref can't be moved, and all is taken back


def _discard(git: Git, journal: Journal, events: dict[str, dict[str, Any]]) -> None:
    """Remove a landing that did not begin."""
    started = events.get("started")
    if started:
        IndexLock(git.git_dir, str(started["task"]), journal.folder).drop()
    remove_spares(git, journal.folder)
    Files(git.work_tree, journal.folder, "", Plan()).drop_beside(_pairs(events.get("beside", {}).get("names", ())))
    shutil.rmtree(journal.folder)


def _pairs(names: Iterable[Iterable[str]]) -> list[tuple[str, str]]:
    return [(path, aside) for path, aside in names]


def _drop_orphaned_lock(git_dir: str, folder: str) -> None:
    """The index's lock of a landing in this folder whose journal is gone."""
    text = (read_file(f"{git_dir}/index.lock", 8192) or b"").decode("utf-8", "surrogateescape")
    words = text.rstrip("\n").split(" ", 2)
    is_ours = len(words) == 3 and words[0] == "overhand" and os.path.dirname(words[2]) == folder
    if is_ours and not os.path.isdir(words[2]):
        remove_file(f"{git_dir}/index.lock")
