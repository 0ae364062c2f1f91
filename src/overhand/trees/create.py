"""Make a tree: a git dir of ours, the start with the user's uncommitted files, and the agent's own repository.

In the project's repository one ref is written, which keeps what is borrowed from being pruned; nothing else there is
touched. A kill anywhere before `tree.json` exists leaves what the next call deletes and makes again.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from overhand.errors import NotFound, Refused, storage_failed
from overhand.system import Git, find_git, find_repository, remove_file
from overhand.trees import borrowed, config
from overhand.trees.agents_git import DOT_GIT, agents_files, masked, write_agents_git
from overhand.trees.place import branch_of, prepare_place
from overhand.trees.snapshot import LONG, changed_between, find_candidates, find_filters, own_objects, stage
from overhand.trees.source import count_behind, free_branch, read_source, require_trusted_filters, with_conditions
from overhand.trees.submodules import add_submodules
from overhand.trees.tree import BASE, LAST, Tree, has_tree, load_tree, save_tree, tree_lock, write_ref

if TYPE_CHECKING:
    from overhand.trees.snapshot import Filters
    from overhand.trees.source import Source

EMPTY_TREE = {
    "sha1": "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "sha256": "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
_MADE = "made"  # in a git dir of ours: the tree's folder was made by us
_CARRY = "carry.index"
_TIMEOUTS = ("core.filesRefLockTimeout", "core.packedRefsTimeout", "reftable.lockTimeout")


@dataclass(frozen=True)
class Request:
    """A tree that is wanted."""

    project: str  # a folder in the user's checkout
    ours: str  # the git dir in the task's record
    path: str  # of the tree
    task: str
    ref: str = "HEAD"  # a commit of the project to start from; another one than HEAD starts without uncommitted files
    ours_of: str = ""  # or another task's git dir of ours, to start from its work
    committed: bool = False  # leave uncommitted files behind
    trusted: bool = False  # the programs that the project's own configuration names may run
    hooks: bool = False  # the project's hooks run in the tree

    @property
    def carries(self) -> bool:
        """Whether the user's uncommitted files come along."""
        return not self.committed and not self.ours_of and self.ref == "HEAD"


def create_tree(wanted: Request) -> Tree:
    """Make a tree, or return it if it is there; what a killed call left is deleted first."""
    os.makedirs(os.path.dirname(wanted.ours), mode=0o700, exist_ok=True)
    with tree_lock(wanted.ours) as lock:
        if has_tree(wanted.ours):
            return load_tree(wanted.ours)
        _discard(wanted)
        try:
            return _make(wanted, lock.fd)
        except BaseException:
            _discard(wanted)
            raise


def _discard(wanted: Request) -> None:
    """Delete what was made so far; a folder that we did not make is left alone."""
    try:
        if os.path.lexists(f"{wanted.ours}/{_MADE}") and os.path.lexists(wanted.path):
            shutil.rmtree(wanted.path)
        elif os.path.isdir(wanted.path) and not os.path.islink(wanted.path) and not os.listdir(wanted.path):
            os.rmdir(wanted.path)
        if os.path.lexists(wanted.ours):
            shutil.rmtree(wanted.ours)
    except OSError as error:
        raise storage_failed(error, "Cannot delete an unfinished tree") from error


def _make(wanted: Request, lock: int) -> Tree:
    project = _project_git(wanted.project)._replace(lock=lock)
    tree, source = _probe(wanted, project)
    tree = replace(tree, note=prepare_place(wanted.path, tree.top))
    keep_base(project, tree)
    source = _make_ours(tree, source)
    _make_folder(tree)
    git = tree.git(lock)
    if wanted.ours_of:
        _take_objects(wanted.ours_of, git, tree)
    filters = find_filters(git, tree.format)
    tree, carried = _start(tree, git, filters) if wanted.carries else (tree, ())
    if not wanted.trusted:
        paths = git.lines("ls-tree", "-r", "-z", "--name-only", tree.base_tree) if source.theirs.project_filters else []
        require_trusted_filters(git._replace(work_tree=tree.top), source, paths)
    tree = replace(tree, base=tree.base or _commit(git, tree.base_tree, ""))
    check_out(git, tree.base, filters, cautious=bool(wanted.ours_of))
    tree = _make_exact(tree, git, carried)
    tree = add_submodules(tree, git, trusted=wanted.trusted)
    for name in (BASE, LAST, f"refs/heads/{tree.branch}"):
        write_ref(tree.ours, name, tree.base)
    files = agents_files(source, tree, [], hooks=wanted.hooks)
    files["info/exclude"] = files.get("info/exclude", b"") + masked(tree)
    borrowed.make_git_dir(f"{tree.ours}/{DOT_GIT}", files)
    write_agents_git(tree)
    save_tree(tree)
    return tree


def _project_git(project: str) -> Git:
    """Git for the user's repository, or the reason why there is none."""
    folder = os.path.realpath(project)
    repository = find_repository(folder)
    if repository is None:
        raise NotFound(f"{project} is not in a git repository.", "Make one with git init, or work in place: --here")
    git = find_git(folder, writes=True)
    if git is None:
        raise Refused(
            f"The repository {repository.top} belongs to another user, or its configuration can't be used.",
            f"If you trust it, type: git config --global --add safe.directory {repository.top}",
        )
    return git._replace(settings=(*git.settings, *(f"{name}=10000" for name in _TIMEOUTS)))


def _probe(wanted: Request, project: Git) -> tuple[Tree, Source]:
    """What the project is, where the tree starts, and what it is made from."""
    found = find_repository(project.cwd)
    if found is None:
        raise NotFound(f"{wanted.project} is not in a git repository.")
    source = read_source(project, found, trusted=wanted.trusted)
    tree = Tree(
        task=wanted.task,
        ours=wanted.ours,
        path=wanted.path,
        top=found.top,
        git_dir=found.git_dir,
        common_dir=found.common_dir,
        branch=free_branch(branch_of(wanted.path), source),
        format=source.format,
        prefix=os.path.relpath(project.cwd, found.top) if project.cwd != found.top else "",
    )
    if wanted.ours_of:
        other = load_tree(wanted.ours_of)
        start = _commit_and_tree(Git(wanted.ours_of), other.last)
        return replace(tree, head=other.head, base=start[0], base_tree=start[1]), source
    start = _commit_and_tree(project, wanted.ref)
    if start[0]:
        behind = count_behind(project, source, start[0])
        return replace(tree, head=start[0], base=start[0], base_tree=start[1], behind=behind), source
    if wanted.ref != "HEAD":
        raise NotFound(f"{wanted.ref} is no commit of {found.top}.", "See: git log, git branch --all")
    if project.call("rev-parse", "-q", "--verify", "HEAD").status == 0:
        project.run("cat-file", "-e", "HEAD^{tree}")  # says what is wrong with it
    return replace(tree, base_tree=EMPTY_TREE[source.format]), source


def _commit_and_tree(git: Git, ref: str) -> tuple[str, str]:
    """A commit and its tree; both empty if there is no such commit."""
    words = git.call("log", "-1", "--no-show-signature", "--format=%H %T", "--end-of-options", ref, "--").output.split()
    return (words[0].decode(), words[1].decode()) if len(words) == 2 else ("", "")


def keep_base(project: Git, tree: Tree) -> None:
    """Keep what the tree borrows from being pruned. A lock on that ref is of a git that was killed: the ref is ours."""
    if tree.head:
        remove_file(f"{tree.common_dir}/{tree.project_ref}.lock")
        project.run("update-ref", "--no-deref", tree.project_ref, tree.head)


def _make_ours(tree: Tree, source: Source) -> Source:
    files = {**source.files, "HEAD": f"ref: refs/heads/{tree.branch}\n".encode()}
    borrowed.make_git_dir(tree.ours, {**files, "config": config.as_text(source.settings)})
    wider = with_conditions(source, Git(tree.ours))
    if wider is not source:
        borrowed.make_git_dir(tree.ours, {"config": config.as_text(wider.settings)})
    return wider


def _take_objects(lender: str, git: Git, tree: Tree) -> None:
    """Copy another task's work: its git dir may go before this one does."""
    asked = f"{tree.base}\n" + (f"^{tree.head}\n" if tree.head else "")
    given, pack = asked.encode(), ("pack-objects", "-q", "--revs", "--thin", "--stdout")
    Git(lender).pipe(*pack, given=given, into=git, then=("index-pack", "--stdin", "--fix-thin"), patience=LONG)


def _start(tree: Tree, git: Git, filters: Filters) -> tuple[Tree, tuple[str, ...]]:
    """The start with the user's uncommitted files, hashed into our own objects; and the paths that were looked at."""
    index = f"{tree.ours}/{_CARRY}"
    borrowed.copy_file(f"{tree.git_dir}/index", index)
    for name in os.listdir(tree.git_dir):
        if name.startswith("sharedindex."):
            borrowed.copy_file(f"{tree.git_dir}/{name}", f"{tree.ours}/{name}")
    looking = git._replace(work_tree=tree.top, index_file=index)
    found = find_candidates(looking)
    refused = stage(looking, found, filters)
    written = looking.run("write-tree", patience=LONG).decode().strip()
    remove_file(index)
    tree = replace(tree, left=(*found.left, *refused))
    names = {one.path for one in refused}
    taken = tuple(path for path in found.taken if path not in names)
    return tree if written == tree.base_tree else _with_start(tree, git, written), taken


def _with_start(tree: Tree, git: Git, written: str) -> Tree:
    """The start from this tree of files on the commit of the project."""
    committed = f"{tree.head}^{{tree}}" if tree.head else EMPTY_TREE[tree.format]
    own_objects(git, committed, written)
    carried = changed_between(git, committed, written)
    return replace(tree, base=_commit(git, written, tree.head), base_tree=written, carried=carried)


def _commit(git: Git, written: str, parent: str) -> str:
    words = ("-p", parent) if parent else ()
    return git.run("commit-tree", *words, "-m", "Start of the task, with uncommitted files", written).decode().strip()


def _make_folder(tree: Tree) -> None:
    try:
        os.mkdir(tree.path, 0o700)
        with open(f"{tree.ours}/{_MADE}", "xb"):
            pass
    except FileExistsError as error:
        raise Refused(f"{tree.path} exists already.", "Move it away, then try again.") from error
    except OSError as error:
        raise storage_failed(error, "Cannot make the tree") from error


def check_out(git: Git, commit: str, filters: Filters, *, cautious: bool) -> None:
    """Write a commit's files into an empty tree; cautiously, if an agent wrote some that a filter could import."""
    remove_file(f"{git.git_dir}/index")
    if not cautious or not filters.names:
        git.run("read-tree", "--reset", "-u", commit, patience=LONG)
        return
    off = filters.off(git)
    off.run("read-tree", "--reset", "-u", commit, patience=LONG)
    concerned = filters.concerned(git, git.lines("ls-files", "-z"))
    filters.check_out_apart(git, commit, concerned)


def _make_exact(tree: Tree, git: Git, paths: tuple[str, ...]) -> Tree:
    """Bring uncommitted files byte by byte, whatever git converts; one that changed meanwhile counts anew."""
    outside = tuple(path for path in paths if not os.path.lexists(f"{tree.path}/{path}"))  # of a sparse checkout
    rewritten = [path for path in paths if _copy_if_different(f"{tree.top}/{path}", f"{tree.path}/{path}")]
    if not rewritten:
        return tree
    given = os.fsencode("".join(f"{path}\0" for path in rewritten))
    git.run("update-index", "--add", "-z", "--stdin", given=given, patience=LONG)
    written = git.run("write-tree").decode().strip()
    tree = replace(tree, outside=outside)
    return tree if written == tree.base_tree else _with_start(tree, git, written)


def _copy_if_different(source: str, target: str) -> bool:
    try:
        if os.path.islink(source):
            return False  # git writes links as they are
        with open(source, "rb") as file:
            data = file.read()
            mode = os.fstat(file.fileno()).st_mode
    except OSError:
        return False  # it is gone by now, and was part of the start a moment ago
    try:
        with open(target, "rb") as file:
            if file.read() == data:
                return False
        os.unlink(target)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(target), exist_ok=True)  # the sparse rules left it out
    try:
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o777 if mode & 0o100 else 0o666)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
    except OSError as error:
        raise storage_failed(error, "Cannot copy an uncommitted file") from error
    return True
