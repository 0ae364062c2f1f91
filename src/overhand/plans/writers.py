"""Which nodes may write the same files: globs that may overlap, and the files that are held at a moment."""

from __future__ import annotations

from collections.abc import Iterator

_MAGIC = "*?[{"


def parts_of(glob: str) -> tuple[str, ...]:
    """Its segments, lower case: on some disks README and readme are one file."""
    parts = tuple(part for part in glob.casefold().split("/") if part not in ("", "."))
    if glob.endswith("/"):
        parts = (*parts, "**")
    return ("/", *parts) if glob.startswith(("/", "~")) or ".." in parts else parts


def meet(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether two globs, as `parts_of` has them, may name one file; in doubt yes. A path holds everything below it."""
    if (one[:1] == ("/",)) != (other[:1] == ("/",)):
        return True  # where an absolute path leads is not known here
    seen, todo = set(), [(0, 0)]
    while todo:
        place = i, j = todo.pop()
        if i == len(one) or j == len(other):
            return True
        if place in seen:
            continue
        seen.add(place)
        if one[i] == "**":
            todo.append((i + 1, j))
            todo += _swallow(one, i, other, j)
        elif other[j] == "**":
            todo.append((i, j + 1))
            todo += ((i, j) for j, i in _swallow(other, j, one, i))
        elif _alike(one[i], other[j]):
            todo.append((i + 1, j + 1))
    return False


def _swallow(glob: tuple[str, ...], i: int, other: tuple[str, ...], j: int) -> list[tuple[int, int]]:
    """`**` stands for the other's next folder; what looks like a file's name (`a.py`) is none."""
    is_file = j + 1 == len(other) and "." in other[j][1:] and set(glob[i:]) != {"**"}
    return [] if is_file else [(i, j + 1)]


def _alike(one: str, other: str) -> bool:
    """Whether two segments may be one name: by what stands before the first and after the last joker."""
    if one == other:
        return True
    (head, tail, loose), (begin, end, free) = _ends(one), _ends(other)
    if not loose and not free:
        return False
    if not free:
        return len(other) >= len(head) + len(tail) and other.startswith(head) and other.endswith(tail)
    if not loose:
        return len(one) >= len(begin) + len(end) and one.startswith(begin) and one.endswith(end)
    fits = head.startswith(begin) or begin.startswith(head)
    return fits and (tail.endswith(end) or end.endswith(tail))


def _ends(part: str) -> tuple[str, str, bool]:
    marks = [at for at, sign in enumerate(part) if sign in _MAGIC]
    if not marks:
        return part, part, False
    last = max(part.rfind(sign) for sign in "*?]}")
    return part[: marks[0]], part[max(last, marks[-1]) + 1 :], True


class Lane:
    """The nodes that declare the very same files: one of them at a time, the others in line."""

    __slots__ = ("globs", "line", "paths", "shut")

    def __init__(self, writes: tuple[str, ...]) -> None:
        parts = [parts_of(glob) for glob in writes]
        self.paths = [one for one in parts if one[:1] != ("/",) and not any(set(_MAGIC) & set(part) for part in one)]
        self.globs = [one for one in parts if one not in self.paths]
        self.line: list[int] = []
        """A heap of the ranks of nodes that could start but for their files."""
        self.shut = False
        """One of them runs, or the files of another lane are in the way."""


class Held:
    """The files that are held now; what is asked of plain paths takes no longer with many of them."""

    __slots__ = ("above", "globs", "paths")

    def __init__(self) -> None:
        self.paths: dict[tuple[str, ...], int] = {}
        self.above: dict[tuple[str, ...], int] = {}
        """Per folder: how many held paths are below it."""
        self.globs: dict[tuple[str, ...], int] = {}

    def clash(self, lane: Lane) -> bool:
        """Whether one of the lane's files may be one that is held."""
        if not self.paths and not self.globs:
            return False
        if any(meet(glob, held) for glob in lane.globs for kind in (self.paths, self.globs) for held in kind):
            return True
        return any(
            path in self.above
            or path in self.paths
            or any(folder in self.paths for folder in _folders(path))
            or any(meet(path, glob) for glob in self.globs)
            for path in lane.paths
        )

    def take(self, lane: Lane) -> None:
        """Hold the lane's files."""
        self._count(lane, 1)

    def free(self, lane: Lane) -> None:
        """Let them go."""
        self._count(lane, -1)

    def _count(self, lane: Lane, by: int) -> None:
        for path in lane.paths:
            _add(self.paths, path, by)
            for folder in _folders(path):
                _add(self.above, folder, by)
        for glob in lane.globs:
            _add(self.globs, glob, by)


def _folders(path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    return (path[:length] for length in range(len(path)))


def _add(counts: dict[tuple[str, ...], int], key: tuple[str, ...], by: int) -> None:
    left = counts.get(key, 0) + by
    if left:
        counts[key] = left
    else:
        counts.pop(key, None)
