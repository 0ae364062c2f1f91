"""Which globs may name the same file."""

from __future__ import annotations

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
