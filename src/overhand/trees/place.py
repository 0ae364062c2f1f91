"""Where trees lie: outside the user's checkout, a folder per repository, a folder per task in it.

$OVERHAND_STATE | $XDG_STATE_HOME/overhand | ~/.local/state/overhand
  trees/<repository>-<8 hex of its path>/<handle>-<slug>/    a tree
  trees/<repository>-<8 hex of its path>/.trash/             removed trees; `kept-…` hold what no snapshot has
"""

from __future__ import annotations

import hashlib
import os
import stat

from overhand.errors import Refused, storage_failed
from overhand.record import state_folder
from overhand.system import is_own, random_text, repository_of
from overhand.words import slug

TRASH = ".trash"
_SLUG = 40


def trees_root(setting: str = "") -> str:
    """The folder of all trees: as set, or in the user's state folder."""
    if setting and not os.path.isabs(os.path.expanduser(setting)):
        raise Refused(f"trees_root is {setting}, which is no absolute path.", "Write it from / or ~ on.")
    return os.path.expanduser(setting).rstrip("/") if setting else f"{state_folder()}/trees"


def tree_path(root: str, top: str, handle: str, title: str) -> str:
    """Where the tree of a task lies; names stay short, as tools make long paths of them."""
    name = slug(os.path.basename(top))[:_SLUG] or "project"
    digest = hashlib.sha256(os.fsencode(top)).hexdigest()[:8]
    words = slug(title)[:_SLUG].rstrip("-")
    return f"{root}/{name}-{digest}/{handle}-{words}" if words else f"{root}/{name}-{digest}/{handle}"


def branch_of(path: str) -> str:
    """The name of the tree's own branch, before it is compared with those of the project."""
    name = os.path.basename(path).partition("-")[2] or os.path.basename(path)
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in name).strip("-")
    return plain or "task"


def prepare_place(path: str, top: str) -> str:
    """Make the folder around a tree, for this user alone; returns a note if another repository is around it."""
    parent = os.path.dirname(path)
    real, checkout = os.path.realpath(parent), os.path.realpath(top)
    if real == checkout or real.startswith(f"{checkout}/"):
        raise Refused(
            f"Trees can't lie in the checkout itself ({real}): tools would find every file twice.",
            "Set trees_root to a folder outside the project.",
        )
    try:
        os.makedirs(parent, mode=0o700, exist_ok=True)
        found = os.stat(parent)
        if not is_own(real) or stat.S_IMODE(found.st_mode) & 0o022:
            raise Refused(f"{parent} can be changed by other users.", f"chmod go-w {parent}, or set trees_root.")
        os.makedirs(f"{parent}/{TRASH}", mode=0o700, exist_ok=True)
    except OSError as error:
        raise storage_failed(error, "Cannot make the folder for trees") from error
    around = repository_of(real)
    return f"The tree lies inside another repository, {around}." if around else ""


def trash_place(path: str) -> str:
    """Where a tree that is removed goes first; what lies there can be deleted at any moment."""
    return f"{os.path.dirname(path)}/{TRASH}/{os.path.basename(path)}-{random_text(6)}"


def kept_place(path: str, what: str) -> str:
    """Where something of a tree goes that no snapshot holds: it stays until the task is dismissed."""
    return f"{os.path.dirname(path)}/{TRASH}/kept-{os.path.basename(path)}-{what}-{random_text(6)}"
