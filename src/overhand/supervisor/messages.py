"""What the supervisor's objects share, and their messages: small frozen values in a mailbox, delivered by the loop."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import select
    from collections.abc import Callable, Iterator

    from overhand.policy import Actor, Config
    from overhand.record import Store
    from overhand.supervisor.jobs import Jobs


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


@dataclass(frozen=True, slots=True)
class Context:
    """What the loop gives to each of the supervisor's objects."""

    store: Store
    poll: select.poll
    jobs: Jobs
    mail: Mailbox
    actor: Callable[[str], Actor]  # for a job of this task
    config: Callable[[], Config]  # the current settings
    say: Callable[[str], None]  # writes a line to the supervisor's log
