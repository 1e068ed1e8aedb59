"""A pipeline of statements: each is sent without waiting, and its result is read when it is needed.

**Why not psycopg's pipeline.** It makes a cursor per statement, polls the socket for each, and sends it at once. That
takes a tenth of a millisecond, more than most statements take on the server. Here a statement is some bytes in libpq's
buffer; all of them are sent together when a result is needed. `flush` sends them earlier, so that the server works
while this process computes.

**Preparing.** A statement is prepared at its first use on a connection; the server infers types. Behind a pooler
nothing is prepared, because the next transaction uses another connection.

**Errors** are raised when the result, or a later one, is read. The server skips all statements behind the one that
failed. Before it waits, the pipeline sends a sync: it tells the server that no more statements are under way, so that
the server's time-out for idle transactions works for a process that stands still.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Sequence
from operator import index
from types import TracebackType
from typing import Any

import psycopg
from psycopg.abc import PQGen
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.waiting import Ready, Wait

from laneway.stores.postgres.server.connection import ServerConnection

_SYNC = ""  # the queue has this for a sync, and the text of a statement for its preparation
_FAILED = {ExecStatus.FATAL_ERROR, ExecStatus.PIPELINE_ABORTED}


class Result:
    """The result of a statement, which is read when it is needed."""

    __slots__ = ("_pipe", "_rows", "nth", "result")

    def __init__(self, pipe: Pipeline, nth: int) -> None:
        self._pipe, self.nth = pipe, nth
        self._rows: Iterator[Any] | None = None
        self.result: PGresult | None = None

    @property
    def rowcount(self) -> int:
        """The number of changed rows."""
        return self._pipe.answer_to(self).command_tuples or 0

    def fetchone(self) -> Any:
        """Return the next row, if there is one."""
        return next(iter(self), None)

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""
        return list(self)

    def __iter__(self) -> Iterator[Any]:
        """Go through the rows that are left."""
        if self._rows is None:
            self._rows = iter(self._pipe.rows_of(self))
        return self._rows


class Pipeline:
    """A connection in pipeline mode, as a context manager; at its end the server has executed everything."""

    def __init__(self, link: ServerConnection) -> None:
        self._link, self._pgconn = link, link.pgconn
        self._loads = Transformer.from_context(link)
        self._queue: deque[Result | str] = deque()  # sent, without a result yet
        self._sent = self._synced = 0  # numbers of statements: all, and those before the last sync

    def __enter__(self) -> Pipeline:
        """Enter pipeline mode."""
        self._pgconn.enter_pipeline_mode()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Wait for all results and raise the first error, unless an error is being raised already."""
        try:
            if error is None:
                self._sync()
                while self._queue:
                    self._take()
        finally:
            self._leave()

    def send(self, query: str, values: Sequence[Any] = ()) -> Result:
        """Send a statement; the server executes it after all that were sent before."""
        params = [_said(value) for value in values]
        formats = [isinstance(value, bytes) for value in values] if bytes in map(type, values) else None
        if self._link.prepares:
            name = self._link.prepared.get(query) or self._prepare(query)
            self._pgconn.send_query_prepared(name, params, param_formats=formats)
        else:
            self._pgconn.send_query_params(query.encode(), params, param_formats=formats)
        self._sent += 1
        found = Result(self, self._sent)
        self._queue.append(found)
        return found

    def flush(self) -> None:
        """Send what is in the buffer, so that the server begins."""
        self._pgconn.flush()

    def answer_to(self, found: Result) -> PGresult:
        """Return the result of a statement; wait for it if needed."""
        if found.nth > self._synced:
            self._sync()
        while found.result is None:
            self._take()
        return found.result

    def rows_of(self, found: Result) -> list[Any]:
        """Return the rows that a statement found."""
        result = self.answer_to(found)
        self._loads.set_pgresult(result)
        return self._loads.load_rows(0, result.ntuples, tuple)

    def _prepare(self, query: str) -> bytes:
        name = self._link.prepared[query] = b"laneway_%d" % next(self._link.names)
        self._pgconn.send_prepare(name, query.encode())
        self._queue.append(query)
        return name

    def _sync(self) -> None:
        self._pgconn.pipeline_sync()
        self._queue.append(_SYNC)
        self._synced = self._sent

    def _take(self) -> None:
        """Read the next result. Raises the server's error."""
        sent, result = self._pull()
        if result.status in _FAILED:
            error = error_from_result(result, encoding="utf-8")
            # An error of libpq itself has no code: the connection is lost.
            raise error if error.sqlstate is not None else psycopg.OperationalError(str(error))
        if isinstance(sent, Result):
            sent.result = result

    def _leave(self) -> None:
        """Wait for all results, and ignore errors: a lost connection shows at its next use."""
        with contextlib.suppress(psycopg.Error):
            if self._queue:
                self._sync()
            while self._queue:
                self._pull()
            self._pgconn.exit_pipeline_mode()

    def _pull(self) -> tuple[Result | str, PGresult]:
        """Return the oldest entry of the queue, and its result."""
        sent, result = self._queue.popleft(), self._next()
        assert result is not None
        if sent != _SYNC:
            self._next()  # None: the end of this result
            if isinstance(sent, str) and result.status in _FAILED:
                del self._link.prepared[sent]
        return sent, result

    def _next(self) -> PGresult | None:
        pgconn = self._pgconn
        if pgconn.is_busy():
            self._link.wait(_arriving(pgconn))
        result = pgconn.get_result()
        if result is None and pgconn.status == ConnStatus.BAD:
            raise psycopg.OperationalError("the connection is lost")
        return result


def _arriving(pgconn: PGconn) -> PQGen[None]:
    """Wait, in the form that psycopg expects, until everything is sent and a result has arrived."""
    while pgconn.flush():
        if (yield Wait.RW) & Ready.R:
            pgconn.consume_input()
    while pgconn.is_busy():
        if (yield Wait.R):
            pgconn.consume_input()


def _said(value: Any) -> bytes | None:
    r"""Return a value in the server's text format; bytes are in its binary format already.

    >>> _said("Zo\u00eb"), _said(7), _said(True), _said(None)
    (b'Zo\xc3\xab', b'7', b'1', None)
    """
    if value is None:
        return None
    if isinstance(value, str):
        text = value.encode()
        if b"\0" in text:
            # libpq would end the text there.
            raise psycopg.DataError("PostgreSQL cannot store text that contains a NUL")
        return text
    return value if isinstance(value, bytes) else b"%d" % index(value)
