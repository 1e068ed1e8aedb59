"""Statements on their way to a server, and its answers: nobody waits for one before it is asked for.

**Why not a cursor each.** psycopg's pipeline makes a cursor per statement, looks whether the socket is ready at each,
and sends it at once: a tenth of a millisecond, which is more than most statements take on the server. Here a statement
is some bytes in libpq's buffer, which go out together when an answer is wanted. What is much to do is sent on, so that
the server does it while this process thinks.

**Preparing.** A text is prepared when it is first used on a connection; types are the server's to infer. Behind a
pooler nothing is, because the next transaction is on another connection.

**Errors** are raised where the answer is, or one behind it, is waited for; the server does nothing that was sent behind
what failed. Whoever waits lets the server know that nothing more is under way (a sync), so that its own time-out for
idle transactions holds for a process that stands still meanwhile.
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

from laneway.stores.postgres.server.connection import Link

_SYNC = ""  # what stands in the queue for a sync; a text stands for its being prepared
_FAILED = {ExecStatus.FATAL_ERROR, ExecStatus.PIPELINE_ABORTED}


class Found:
    """What a statement found, once it is asked for."""

    __slots__ = ("_pipe", "_rows", "nth", "result")

    def __init__(self, pipe: Pipe, nth: int) -> None:
        self._pipe, self.nth = pipe, nth
        self._rows: Iterator[Any] | None = None
        self.result: PGresult | None = None

    @property
    def rowcount(self) -> int:
        """How many rows were changed."""
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


class Pipe:
    """A connection in pipeline mode, for as long as it is entered; what was sent has been done when it is left."""

    def __init__(self, link: Link) -> None:
        self._link, self._pgconn = link, link.pgconn
        self._loads = Transformer.from_context(link)
        self._queue: deque[Found | str] = deque()  # what was sent and is not answered
        self._sent = self._synced = 0  # how many statements, and how many of them before the last sync

    def __enter__(self) -> Pipe:
        """Begin to send."""
        self._pgconn.enter_pipeline_mode()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Wait for all that was sent; raise what went wrong with it, unless something went wrong already."""
        try:
            if error is None:
                self._sync()
                while self._queue:
                    self._take()
        finally:
            self._leave()

    def send(self, query: str, values: Sequence[Any] = ()) -> Found:
        """Have a statement done, behind all that was sent before."""
        params = [_said(value) for value in values]
        formats = [isinstance(value, bytes) for value in values] if bytes in map(type, values) else None
        if self._link.prepares:
            name = self._link.prepared.get(query) or self._prepare(query)
            self._pgconn.send_query_prepared(name, params, param_formats=formats)
        else:
            self._pgconn.send_query_params(query.encode(), params, param_formats=formats)
        self._sent += 1
        found = Found(self, self._sent)
        self._queue.append(found)
        return found

    def flush(self) -> None:
        """Let the server begin with what was sent."""
        self._pgconn.flush()

    def answer_to(self, found: Found) -> PGresult:
        """Return what the server said to a statement, once it has."""
        if found.nth > self._synced:
            self._sync()
        while found.result is None:
            self._take()
        return found.result

    def rows_of(self, found: Found) -> list[Any]:
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
        """Take in the next answer. Raises what the server says is wrong."""
        sent, result = self._pull()
        if result.status in _FAILED:
            error = error_from_result(result, encoding="utf-8")
            # What libpq says by itself has no code: the connection is lost.
            raise error if error.sqlstate is not None else psycopg.OperationalError(str(error))
        if isinstance(sent, Found):
            sent.result = result

    def _leave(self) -> None:
        """Wait for what is under way, whatever comes of it. A connection that is at its end shows at its next use."""
        with contextlib.suppress(psycopg.Error):
            if self._queue:
                self._sync()
            while self._queue:
                self._pull()
            self._pgconn.exit_pipeline_mode()

    def _pull(self) -> tuple[Found | str, PGresult]:
        """Return the next of what was sent, and its answer."""
        sent, result = self._queue.popleft(), self._next()
        assert result is not None
        if sent != _SYNC:
            self._next()  # nothing: that was all of it
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
    """Wait, as psycopg has it, until everything is sent and an answer is there."""
    while pgconn.flush():
        if (yield Wait.RW) & Ready.R:
            pgconn.consume_input()
    while pgconn.is_busy():
        if (yield Wait.R):
            pgconn.consume_input()


def _said(value: Any) -> bytes | None:
    r"""Return a value as the server reads it; bytes are in its binary form already.

    >>> _said("Zo\u00eb"), _said(7), _said(True), _said(None)
    (b'Zo\xc3\xab', b'7', b'1', None)
    """
    if value is None:
        return None
    if isinstance(value, str):
        text = value.encode()
        if b"\0" in text:
            raise psycopg.DataError("PostgreSQL keeps no text with a NUL in it")  # libpq would end the text there
        return text
    return value if isinstance(value, bytes) else b"%d" % index(value)
