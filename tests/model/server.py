"""The server: one request in, one answer out, nothing remembered but the log."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time
from http.server import ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from model.handler import LOOK, Handler
from model.scripts import load
from model.wire import Json, dumps

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class ScriptedModel(ThreadingHTTPServer):
    """The model, listening on 127.0.0.1; `url` is where, `log()` what it was asked."""

    daemon_threads = False  # closing waits for them: no thread outlives the model
    request_queue_size = 128

    def __init__(self, scripts: Mapping[str, object], *, log: str = "", port: int = 0) -> None:
        self.scripts = load(scripts)
        self.closing = threading.Event()
        self._changed = threading.Condition()
        self._rows: list[Json] = []
        self._file = log
        self._connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def log(self) -> list[Json]:
        """A row for each request so far, in the order they came."""
        with self._changed:
            return list(self._rows)

    def wait_for(self, count: int, *, script: str = "", timeout: float = 60) -> list[Json]:
        """The rows (of this script), as soon as there are so many; TimeoutError if they do not come."""

        def rows() -> list[Json]:
            return [row for row in self._rows if not script or row.get("script") == script]

        with self._changed:
            if not self._changed.wait_for(lambda: len(rows()) >= count, timeout):
                raise TimeoutError(f"{len(rows())} requests instead of {count} after {timeout} s.")
            return rows()

    def note(self, row: Json) -> None:
        """Log a request, when it has come and before it is answered."""
        with self._changed:
            row = {"n": len(self._rows), "time": time.time(), **row}
            self._rows.append(row)
            if self._file:
                with open(self._file, "a", encoding="utf-8") as file:
                    file.write(dumps(row) + "\n")
            self._changed.notify_all()

    def connected(self, connection: socket.socket) -> None:
        with self._changed:
            self._connections.add(connection)
            if self.closing.is_set():  # accepted in the last moment: nobody else will end it
                connection.shutdown(socket.SHUT_RDWR)

    def gone(self, connection: socket.socket) -> None:
        with self._changed:
            self._connections.discard(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes in the middle is nothing to report; anything else is a bug and is."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def stop(self) -> None:
        """End every wait and connection, then the threads; call it once, while it serves."""
        self.closing.set()
        self.shutdown()
        with self._changed:
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self.server_close()


@contextlib.contextmanager
def scripted_model(scripts: Mapping[str, object], *, log: str = "") -> Iterator[ScriptedModel]:
    """A scripted model for the time of a `with`; `log` is a file that gets the rows as JSON lines."""
    model = ScriptedModel(scripts, log=log)
    thread = threading.Thread(target=model.serve_forever, kwargs={"poll_interval": LOOK}, name="scripted-model")
    thread.start()
    try:
        yield model
    finally:
        model.stop()
        thread.join()
