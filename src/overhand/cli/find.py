"""`tag find` with no option where no daemon is: ripgrep is at work before most of Overhand is imported.

The answer is the one of verbs/tag.py, from the same search.
"""

from __future__ import annotations

import os
import sys

from overhand.items import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_DAEMON = ".agent-workspaces/.supervisor/daemon"


def at_once(words: list[str], tell: Callable[[str], None]) -> bool:
    """Search and print, if these words are nothing but a tag and perhaps a place; False if that is not so simple."""
    if not 0 < len(words) < 3 or any(word.startswith("-") for word in words) or _may_have_daemon():
        return False
    name, where = (*words, ".")[:2]
    pattern = find.hashed(name)
    if find.literal(pattern) == pattern:
        from overhand.documents.tags import is_tag

        if not is_tag(pattern):
            return False  # that is told by others
    found = find.lines(find.relative(where), pattern, warn=tell)
    from overhand.cli.words import verbatim

    for text in verbatim("tag", "\n".join([line for lines in found.values() for line in lines])):
        print(text)
    sys.stdout.flush()
    return True


def _may_have_daemon() -> bool:
    """Whether one may be there that has the answer in memory."""
    try:
        places = {os.getcwd(), os.environ.get("OVERHAND_PROJECT") or "."}
    except OSError:
        return True  # the folder we are in is gone: that is told by others, too
    return any(os.path.exists(f"{folder}/{_DAEMON}") for place in places for folder in _upwards(place))


def _upwards(place: str) -> list[str]:
    folders = [os.path.realpath(place)]
    while (above := os.path.dirname(folders[-1])) != folders[-1]:
        folders.append(above)
    return folders
