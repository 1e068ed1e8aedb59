"""The errors of laneway that stand for errors of the server: one line each, never with a password."""

from __future__ import annotations

import re

import psycopg
from psycopg import errors as pg

from laneway.errors import BadURL, LanewayError, NotAStore, StoreError, StoreUnavailable
from laneway.stores.postgres.server.address import Address

OLDEST = 140000  # the oldest `server_version` that laneway supports

# These may go away when the whole transaction is repeated.
AGAIN = (pg.DeadlockDetected, pg.SerializationFailure)

# A prepared statement belongs to another client, or to another connection.
SHARED = (pg.DuplicatePreparedStatement, pg.InvalidSqlStatementName)


class TimedOut(psycopg.OperationalError):
    """The server did not answer in time."""


def is_answer(error: psycopg.Error) -> bool:
    """Return whether the server refused a statement: then it skips the rest of the pipeline, COMMIT included.

    An error that ends the session, or comes from the system below the server, is no such answer.
    """
    if isinstance(error, pg.QueryCanceled):
        return True
    return error.sqlstate is not None and error.sqlstate[:2] not in {"08", "53", "57", "58", "XX"}


def as_laneway_error(error: psycopg.Error, address: Address, *, maybe_done: bool = False) -> LanewayError:
    """Return the error to raise for an error of the server or of the connection."""
    at, said = address.shown, _line(error)
    if isinstance(error, pg.InsufficientPrivilege):
        return StoreError(
            f"{at}: this user may not do what laneway does in schema {address.schema} ({said}); let its owner GRANT it"
            " USAGE of the schema, and ALL on the tables and sequences in it"
        )
    if isinstance(error, (pg.UndefinedTable, pg.UndefinedColumn, pg.UndefinedFunction)):
        return NotAStore(f"{at}: the tables of schema {address.schema} are not as laneway made them ({said})")
    if isinstance(error, SHARED):
        return StoreError(
            f"{at} lends its connections for a transaction at a time, as poolers do ({said});"
            " give ?pooled=yes in the address"
        )
    for kind, text in _UNAVAILABLE.items():
        if isinstance(error, kind):
            return StoreUnavailable(f"{at} {text}", maybe_done=maybe_done)
    if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        return StoreUnavailable(f"{at} cannot be reached ({said})", maybe_done=maybe_done)
    return StoreError(f"{at} could not do a call ({said})")


def may_be_migrated(error: psycopg.Error) -> bool:
    """Return whether a newer layout may be the cause: unknown names, types or constraints."""
    code = error.sqlstate or ""
    return code.startswith(("0A", "23", "42", "55000")) and not isinstance(error, (pg.InsufficientPrivilege, *SHARED))


def was_cut(error: psycopg.Error) -> bool:
    """Return whether the connection ended, for a reason that a new connection may not have."""
    ended = error.sqlstate is None or error.sqlstate.startswith(("57P", "25P03"))
    return isinstance(error, psycopg.OperationalError) and not isinstance(error, TimedOut) and ended


def as_connect_error(error: psycopg.Error, address: Address, *, again: bool) -> LanewayError:
    """Return the error to raise when no connection could be made, for the first time or `again`."""
    said = str(error)
    for sign, text in _REFUSALS.items():
        if re.search(sign, said):
            # The address worked before, so it is right: the server is being changed.
            return StoreUnavailable(f"{address.shown} {text}") if again else BadURL(f"{address.shown} {text}")
    if re.search(_NOT_WRITABLE, said):
        return StoreUnavailable(
            f"{address.shown} has no server that can be written now: whoever answers is a standby, or set to read only"
        )
    return as_laneway_error(error, address)


_UNAVAILABLE: dict[type[Exception], str] = {
    TimedOut: "did not answer in time",
    pg.DeadlockDetected: "has other programs' locks on laneway's tables, and this call met them again and again",
    pg.SerializationFailure: "could not do a call beside those of other programs, though it was tried again and again",
    pg.LockNotAvailable: "kept others' transactions running, and this one waiting, for too long",
    pg.QueryCanceled: "could not finish a call in time",
    pg.ReadOnlySqlTransaction: "cannot be written: it is a standby, or its transactions are set to read only",
    pg.DiskFull: "has no space left on its disk",
    pg.OutOfMemory: "is out of memory",
    pg.TooManyConnections: "takes no more connections",
    pg.AdminShutdown: "is being shut down",
    pg.CrashShutdown: "is coming back from a crash",
    pg.CannotConnectNow: "is starting or stopping",
    pg.IdleInTransactionSessionTimeout: "ended a transaction in which this process did nothing for too long",
}

# libpq's message if no server accepts writes.
_NOT_WRITABLE = "session is read-only|server is in hot standby mode"
_EACH = re.compile(r"^- host: .*, hostaddr: (?:'[^']*'|None): (.*)$", re.MULTILINE)  # psycopg writes a line per host

_REFUSALS = {
    "password authentication failed": "does not take this user and password",
    "no password supplied": "wants a password, and the address has none: postgresql://user:password@host/database",
    r"no pg_hba\.conf entry": "does not let this user in from this machine (pg_hba.conf)",
    "Peer authentication failed": "lets in by the socket only who has the name of the operating system's user",
    'role ".*" does not exist': "does not know this user",
    'role ".*" is not permitted to log in': "does not let this user in: ALTER ROLE ... LOGIN helps",
    'database ".*" does not exist': "has no such database; create it first: createdb",
    'permission denied for database "': "does not let this user into this database: GRANT CONNECT ON DATABASE helps",
    "invalid sslmode": "has a wrong sslmode in its address",
}


def _line(error: psycopg.Error) -> str:
    """Return the message in one line, without the hints after it; for several hosts, the message of each."""
    said = [line.strip() for line in str(error).splitlines() if line.strip()]
    each = list(dict.fromkeys(_EACH.findall(str(error))))
    return "; ".join(each) or (said[0] if said else type(error).__name__)
