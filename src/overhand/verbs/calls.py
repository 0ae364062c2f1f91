"""Verbs that are called inside a run: they reach the supervisor by a file.

Behind a shield or in a sandbox a run can neither write to the record nor connect to a socket. Only what changes
something goes this way, and `wait`; verbs that read do it themselves.
"""

from __future__ import annotations

import os
import time

from overhand.errors import NotFound, OverhandError, Refused, TimedOut, from_json, storage_failed
from overhand.record import BELL, CALL_ID, CALLS, GONE, NEW, PROGRESS, REPLY, Call, stale_run
from overhand.system import MAX_PLAN, load_line, random_text, read_file, read_given, remove_file, write_file
from overhand.verbs.verb import Reply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from overhand.policy import Caller
    from overhand.verbs.verb import Session

LATER = ("step", "checkpoint", "finish")  # are done as soon as a supervisor runs, if none does now
_PATIENCE = 30.0  # seconds until a call counts as not taken; OVERHAND_CALL_WAIT says otherwise
_LATER_PATIENCE, _ASK_PATIENCE = 10.0, 100.0
_LOOK_EVERY = 2.0  # seconds between looks whether a supervisor is there that takes it
_SLOWLY = 120.0  # the same once it is taken
_MAX_REPLY = 256 * 1024 * 1024


def call_by_file(session: Session, caller: Caller, verb: str, values: dict[str, Any]) -> Reply:
    """Have the supervisor carry out a verb for the run that this process is in."""
    return _Request(session, caller, verb, values).reply(caller)


class _Request:
    """One call: its files in `ipc/calls/`, and the wait for its reply."""

    def __init__(self, session: Session, caller: Caller, verb: str, values: dict[str, Any]) -> None:
        self._session, self._store, self._verb = session, session.store, verb
        self._task, self._run = str(caller.task), str(caller.run)
        self._values = {name: _as_value(value) for name, value in values.items()}
        self._folder = f"{self._store.workspace(self._task)}/{CALLS}"
        self._path = f"{self._folder}/{random_text(CALL_ID)}"
        self._bell = -1

    def reply(self, caller: Caller) -> Reply:
        """Send it, and wait for what comes back."""
        if not caller.current:
            raise stale_run(self._task, self._run)
        call = Call(
            run=self._run,
            verb=self._verb,
            values=self._values,
            via=self._session.via,
            cwd=_folder(),
            documents=_documents(self._session.root, self._verb, self._values),
        )
        try:
            os.makedirs(self._folder, 0o700, exist_ok=True)
            self._hang_bell()
            write_file(self._path + NEW, call.text().encode("utf-8", "surrogatepass"), mode=0o600)
        except OSError as error:
            self._end()
            raise storage_failed(error, "Cannot reach the supervisor") from error
        try:
            return self._wait()
        finally:
            self._end()

    def _hang_bell(self) -> None:
        os.mkfifo(self._path + BELL, 0o600)
        self._bell = self._open_bell()

    def _open_bell(self) -> int:
        """For reading alone: so the kernel says when the supervisor, which has it open for writing, is gone."""
        return os.open(self._path + BELL, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def _rung(self) -> None:
        """Read what woke us; after the supervisor's end the FIFO is opened anew, or it would wake us for ever."""
        if not os.read(self._bell, 4096):
            before, self._bell = self._bell, self._open_bell()
            os.close(before)
            self._see_to_supervisor()

    def _end(self) -> None:
        for suffix in (REPLY, PROGRESS, GONE, BELL):  # the reply first: it has been read
            remove_file(self._path + suffix)
        if self._bell >= 0:
            os.close(self._bell)

    def _wait(self) -> Reply:
        import select

        self._see_to_supervisor()
        began, shown = time.monotonic(), b""
        gone = [self._session.gone] if self._session.gone >= 0 else []
        while True:
            is_new = os.path.lexists(self._path + NEW)
            ready, _, _ = select.select([self._bell, *gone], [], [], _LOOK_EVERY if is_new else _SLOWLY)
            if self._bell in ready:
                self._rung()
            raw = read_file(self._path + REPLY, _MAX_REPLY)
            if (now := read_file(self._path + PROGRESS) or b"") != shown:
                self._session.progress(now.decode("utf-8", "replace"))
                shown = now
            if raw is not None:
                return self._read(raw)
            if not ready:
                self._require_run()
                self._see_to_supervisor()
            if gone and gone[0] in ready:
                self._withdraw()  # if it was taken, the supervisor sees that its caller goes
                raise TimedOut("The client waits no longer.", seq=0)
            if self._is_patience_over(began) and self._withdraw():
                return self._not_taken()

    def _read(self, raw: bytes) -> Reply:
        found = load_line(raw.decode("utf-8", "surrogatepass"))
        for text in found["told"]:
            self._session.tell(text)
        if "error" in found:
            raise from_json(found)
        return Reply(found["payload"], found["code"])

    def _require_run(self) -> None:
        """Refuse a call of a run that has ended meanwhile: no supervisor looks for it any more."""
        try:
            current = self._store.task(self._task).current_run
        except OverhandError:
            return  # the record cannot be read from here
        if current is None or current.id != self._run or current.has_ended:
            self._withdraw()
            raise stale_run(self._task, self._run)

    def _see_to_supervisor(self) -> None:
        """Start a supervisor if there is none and this process may; behind a shield it neither sees one nor may."""
        from overhand.supervisor import hand_to_supervisor, running_supervisor

        if os.access(self._store.own, os.W_OK) and running_supervisor(self._store) is None:
            try:
                hand_to_supervisor(self._store, [self._task])
            except Refused:
                return  # it is tried again

    def _is_patience_over(self, began: float) -> bool:
        return time.monotonic() - began >= self._patience()

    def _patience(self) -> float:
        """Seconds; the time that `ask` is given for an answer counts once there is a supervisor to put the question."""
        from overhand.words import option_duration

        if given := self._session.env.get("OVERHAND_CALL_WAIT"):
            return option_duration("OVERHAND_CALL_WAIT", given)
        if self._verb != "ask":
            return _LATER_PATIENCE if self._verb in LATER else _PATIENCE
        timeout = self._values.get("timeout")
        return _ASK_PATIENCE if timeout is None else max(_PATIENCE, option_duration("--timeout", str(timeout)))

    def _withdraw(self) -> bool:
        """Take the call back; False if it was taken, or its file is gone."""
        try:
            os.rename(self._path + NEW, self._path + GONE)
        except OSError:
            return False
        return True

    def _not_taken(self) -> Reply:
        """No supervisor took it: some calls wait for the next one, the others have not been made."""
        person = "Ask the person who started this run to type: overhand list"
        if self._verb in LATER:
            os.rename(self._path + GONE, self._path + NEW)
            self._session.tell(f"No supervisor answers. It is done as soon as one runs. {person}")
            return Reply({"schema": f"overhand.{self._verb}/1", "task_id": self._task, "later": True, "checks": []})
        if self._verb == "ask":
            raise TimedOut("No supervisor answers; the question could not be asked.", f"{person}. Then ask again.")
        raise Refused("No supervisor answers; nothing was done.", f"{person}. Then try again.")


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "/"  # it is gone


def _as_value(value: object) -> object:
    """As the command line has it; Python callers also give numbers."""
    if isinstance(value, list | tuple):
        return [str(one) for one in value]
    return value if value is None or isinstance(value, str | bool) else str(value)


def _documents(root: str, verb: str, values: dict[str, Any]) -> dict[str, bytes]:
    """The files that the arguments name: read here, as far as this process may."""
    names: list[str] = []
    if verb == "plan":
        names = ["-" if values.get("stdin") else str(values.get("file_or_id"))]
    elif verb == "send" and values.get("file"):
        names = [str(values["file"])]
    elif verb == "delegate":
        names = [str(values[name]) for name in ("handoff", "contract") if values.get(name)]
    found = {name: raw for name in names if (raw := _document(name)) is not None}
    contract = str(values.get("contract") or "")
    if verb == "delegate" and contract.endswith(".json") and contract not in found:
        raise NotFound(f"There is no contract file {os.path.abspath(contract)}.", "Name a JSON Schema file.")
    if verb == "delegate" and (handoff := found.get(str(values.get("handoff")))) and b".json" in handoff:
        from overhand.documents import decode_text, parse_handoff, wanted_contract

        wanted = wanted_contract(parse_handoff(decode_text(handoff)[0])) or ""
        path = os.path.join(root, wanted)
        if wanted.endswith(".json") and (schema := read_given(path)) is not None:
            found[path] = schema
    return found


def _document(name: str) -> bytes | None:
    if name.endswith(".json") or "." in name or "/" in name or name == "-" or os.path.isfile(name):
        return read_given(name, MAX_PLAN)
    return None  # the name of a contract
