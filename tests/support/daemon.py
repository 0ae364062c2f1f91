"""What the tests of the daemon write, wait for and look at."""

from __future__ import annotations

import json
from typing import Any

from overhand.supervisor import daemon_log
from overhand.system import Lock
from support.items import AT, REQUEST, House
from support.scene import until

TYPED = REQUEST.replace("#needs-fix", "#delegated-fix")


class Watched(House):
    """A project whose tags are watched."""

    def begin(self) -> Any:
        """The daemon runs and has read everything."""
        self.json("daemon", "start")
        return until(lambda: now if (now := self.status())["scanned"] else None, "the first scan")

    def status(self) -> Any:
        return self.json("daemon", "status")

    def undecided(self) -> Lock:
        """For as long as it is held nobody approves anything, however long we are held up meanwhile."""
        return Lock(f"{self.store.own}/items.lock", "The list of approvals")

    def seen(self, path: str = AT) -> None:
        """The daemon has heard that the file changed, and is about to look at it."""
        until(lambda: path in self.status()["pending"], f"the change of {path} seen")

    def log(self, what: str = "") -> list[dict[str, Any]]:
        """What the daemon says it did."""
        try:
            with open(daemon_log(self.store), encoding="utf-8") as file:
                found = [json.loads(line) for line in file]
        except FileNotFoundError:
            return []
        return [one for one in found if what in ("", one["what"])]

    def becomes(self, tag: str, path: str = AT) -> None:
        """The file's only tag of an item reads so."""
        until(lambda: (self.path / path).exists() and tag in self.read(path), f"{tag} in {path}")
        until(lambda: self.tag(path) == tag, f"{tag} live in {path}")
