"""What holds for every transaction of laneway's: where its tables are, how long it may take, how it is planned.

Plans must not depend on statistics: tables that are empty now hold a million rows in an hour, and every statement has
an index made for it. So scans and joins that read a whole table are out of the question wherever an index will do.
"""

from __future__ import annotations

from laneway.stores.postgres.address import Address

_IDLE = 5000  # ms: a process that is frozen while it has the lock holds up the others for so long at most

POSTED = "EXISTS (SELECT 1 FROM inbox WHERE NOT aside)"  # there are submissions to be taken in
NOW = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"


def settings(address: Address) -> dict[str, str]:
    """Return what is set, as SQL has it."""
    most = round(address.timeout * 1000)
    return {
        "search_path": address.schema,
        "statement_timeout": str(most),
        "lock_timeout": str(most),
        "idle_in_transaction_session_timeout": str(_IDLE),
        "default_transaction_isolation": "'read committed'",
        "enable_seqscan": "off",
        "enable_hashjoin": "off",
        "enable_mergejoin": "off",
        "jit": "off",
    }


def set_up(address: Address) -> str:
    """Return the statements that set it for a connection; nothing for one that is another's after each transaction."""
    return "" if address.pooled else "".join(f"SET {name} TO {value}; " for name, value in settings(address).items())


def _begun(address: Address, mode: str, more: dict[str, str]) -> str:
    local = {**(settings(address) if address.pooled else {}), **more}
    return f"BEGIN {mode}; " + "".join(f"SET LOCAL {name} TO {value}; " for name, value in local.items())


def begin_to_write(address: Address, *, durable: bool) -> str:
    """Return the statements that begin a transaction which is alone with the tables.

    Race: the lock is taken by a statement of its own. What follows sees all that was committed before it was got; a
    statement that waits for a row goes on with the snapshot that it began with, and would not.
    """
    more = {} if durable else {"synchronous_commit": "off"}
    first = f"SELECT nextval('writes'), {NOW}, {POSTED}, EXISTS (SELECT 1 FROM watcher WHERE until > {NOW})"  # noqa: S608
    return _begun(address, "READ WRITE", more) + f"SELECT pg_advisory_xact_lock({address.lock}); " + first


def begin_to_read(address: Address) -> str:
    """Return the statements that begin a transaction which sees one state of the tables."""
    return _begun(address, "ISOLATION LEVEL REPEATABLE READ READ ONLY", {}) + f"SELECT {NOW}, {POSTED}"
