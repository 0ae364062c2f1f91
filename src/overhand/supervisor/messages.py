"""Messages between the supervisor's objects: small frozen values in a mailbox, delivered by the loop."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True, slots=True)
class Changed:
    """A task's log may have grown: read it again and do its next step."""

    task_id: str
    env_of: str = ""  # it runs in the environment of this task


@dataclass(frozen=True, slots=True)
class RunOver:
    """A run seems to be over: find out how it ended, and judge it."""

    task_id: str


Message = Changed | RunOver


class Mailbox:
    """Messages in the order in which they were posted; any thread may post, the loop takes them."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._messages: deque[Message] = deque()
        self._wake = wake  # ends the loop's wait, from any thread

    def post(self, message: Message) -> None:
        self._messages.append(message)
        self._wake()

    def take(self) -> Iterator[Message]:
        """Every message, also those that are posted while the others are delivered."""
        while self._messages:
            yield self._messages.popleft()

    @property
    def is_empty(self) -> bool:
        return not self._messages
