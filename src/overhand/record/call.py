"""A call from inside a run: the file by which a verb reaches the supervisor, and the file with the reply.

The calling process writes `<id>.json` into its task's `ipc/calls/` and waits at a FIFO of its own beside it. The
supervisor takes the call by giving it another name, carries it out in the name of that run, writes `<id>.reply` and
rings. The folder is the agent's, so everything that is read from it may be anything.
"""

from __future__ import annotations

from overhand.errors import BadInput, StaleRun
from overhand.record.log import LOG_FILE, whole_appends
from overhand.record.task import Record
from overhand.system import MAX_DOCUMENT, dump_line, load_line, read_file
from overhand.words import is_run_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from overhand.record.store import Store

CALLS = "ipc/calls"  # in a task's workspace
NEW, TAKEN, GONE, REPLY, PROGRESS, BELL = ".json", ".taken", ".gone", ".reply", ".progress", ".bell"
MAX_CALL = 2 * MAX_DOCUMENT + 1_000_000  # bytes; a document takes up to two for each of its own
CALL_ID = 24  # letters and digits
_MOST = 10_000  # words in one list
_VIAS = ("cli", "mcp", "api")


class Call(Record, frozen=True):
    """What a process inside a run asks for: a verb and its arguments, as the command line has them."""

    run: str
    verb: str
    values: dict[str, Any]
    via: str = "cli"
    cwd: str = "/"
    documents: Mapping[str, bytes] = {}  # files that the arguments name, by the names that they have there

    def text(self) -> str:
        """Its file; any bytes become text and back."""
        documents = {name: raw.decode("latin-1") for name, raw in self.documents.items()}
        return dump_line({**vars(self), "documents": documents})


def stale_run(task_id: str, run_id: str) -> StaleRun:
    return StaleRun(
        f"Run {run_id} no longer holds task {task_id}; what it asks for is not done.",
        "Nothing more is to be done here: end.",
    )


def is_call_id(text: str) -> bool:
    return len(text) == CALL_ID and text.isascii() and text.isalnum()


def read_call(raw: bytes | None) -> Call:
    """The call in a file that an agent wrote; raises BadInput for everything that is none."""
    if raw is None or len(raw) > MAX_CALL:
        raise BadInput("The call is no regular file of yours, or is too big.", "Pass long texts in a file.")
    try:
        found = load_line(raw.decode("utf-8", "surrogatepass"))
    except ValueError as error:
        raise BadInput(f"The call cannot be read: {str(error)[:200]}.", "Use the command itself: overhand") from None
    if not isinstance(found, dict) or found.keys() != {"run", "verb", "values", "via", "cwd", "documents"}:
        raise BadInput("The call has other keys than a call.", "Use the command itself: overhand")
    texts = [found[name] for name in ("run", "verb", "via", "cwd")]
    sound = all(isinstance(text, str) and "\0" not in text for text in texts) and found["cwd"].startswith("/")
    documents, values = found["documents"], found["values"]
    sound = sound and is_run_id(found["run"]) and found["via"] in _VIAS and isinstance(values, dict)
    if not sound or not _are_texts(documents) or not all(map(_is_value, values.values())):
        raise BadInput("The call has values that no argument of a verb has.", "Use the command itself: overhand")
    try:
        brought = {name: text.encode("latin-1") for name, text in documents.items()}
    except UnicodeEncodeError:
        raise BadInput("The call has a document that is no bytes.", "Use the command itself: overhand") from None
    return Call(**{**found, "documents": brought})


def _are_texts(value: object) -> bool:
    return isinstance(value, dict) and len(value) < _MOST and all(isinstance(text, str) for text in value.values())


def _is_value(value: object) -> bool:
    if isinstance(value, list):
        return len(value) < _MOST and all(isinstance(word, str) for word in value)
    return value is None or isinstance(value, str | bool)


def has_lying_calls(store: Store, task_id: str) -> bool:
    """Whether a run has made calls that no supervisor has replied to."""
    return any(name.endswith((NEW, TAKEN)) for name in store.workspace_files(task_id).names(CALLS))


def tasks_of_call(store: Store, call_id: str) -> list[str]:
    """The tasks in whose logs a call has left an event."""
    wanted = f'"call":"{call_id}"'.encode()
    logs = ((task_id, read_file(f"{store.record(task_id)}/{LOG_FILE}") or b"") for task_id in store.ids())
    return [task_id for task_id, raw in logs if wanted in whole_appends(raw)]
