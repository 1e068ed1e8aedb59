"""What holds for every transaction of laneway's: where its tables are, how long it may take, how it is planned.

Plans must not depend on statistics: tables that are empty now hold a million rows in an hour, and every statement has
an index made for it. So scans and joins that read a whole table, and sorts, are out of the question wherever an index
will do; a bitmap, too, because only a plain scan of an index leaves a mark on entries of rows that are gone. And a
statement is planned once: for a page of a long shelf the server would else go on comparing plans at every call.
Nothing is done by several processes: a page of a shelf takes less than they take to be started, though a planner that
has seen a hundred thousand rows, and not how few of them are wanted, believes otherwise.
"""

from __future__ import annotations

from laneway.stores.postgres.server.address import Address

_IDLE = 5000  # ms: a process that stands still while it has the lock is cut off after so long

_CUT_OFF_FROZEN = (
    "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_locks JOIN pg_catalog.pg_stat_activity USING (pid)"
    " WHERE locktype = 'advisory' AND granted AND (classid::bigint << 32 | objid::bigint) = {lock} AND objsubid = 1"
    " AND database = datid AND datname = current_database()"
    " AND wait_event = 'ClientRead' AND state_change < clock_timestamp() - interval '{idle} ms'"
)

POSTED = "EXISTS (SELECT 1 FROM inbox WHERE NOT aside)"  # there are submissions to be taken in
NOW = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"


def settings(address: Address) -> dict[str, str]:
    """Return what is set, as SQL has it."""
    most = round(address.timeout * 1000)
    return {
        "search_path": address.schema,
        "statement_timeout": str(most),
        "lock_timeout": str(most - most // 10),
        "idle_in_transaction_session_timeout": str(_IDLE),
        "plan_cache_mode": "force_generic_plan",
        "enable_seqscan": "off",
        "enable_bitmapscan": "off",
        "enable_sort": "off",
        "enable_hashjoin": "off",
        "enable_mergejoin": "off",
        "max_parallel_workers_per_gather": "0",
        "jit": "off",
    }


# For what reads whole tables, as `doctor` does, until the transaction ends: planned anew each time, with all that is
# ruled out above, and not row by row. The last must be said, because a table that was analyzed while it was empty is
# believed to stay so, however many pages it has by now.
WHOLE = "SELECT set_config('plan_cache_mode', 'force_custom_plan', true), " + ", ".join(
    [f"set_config('enable_{name}', 'on', true)" for name in ("seqscan", "bitmapscan", "sort", "hashjoin", "mergejoin")]
    + ["set_config('enable_nestloop', 'off', true)"]
)


def set_up(address: Address) -> str:
    """Return the statements that set it for a connection; nothing for one that is another's after each transaction."""
    return "" if address.pooled else "".join(f"SET {name} TO {value}; " for name, value in settings(address).items())


def _begun(address: Address, mode: str) -> list[str]:
    local = settings(address) if address.pooled else {}
    return [f"BEGIN {mode}", *(f"SET LOCAL {name} TO {value}" for name, value in local.items())]


def begin_to_write(address: Address) -> list[str]:
    """Return the statements that begin a transaction which is alone with the tables.

    Race: the lock is taken by a statement of its own. What follows sees all that was committed before it was got; a
    statement that waits for a row goes on with the snapshot that it began with, and would not. So does a transaction
    of another isolation level, whatever the server's default is. The last one tells the number of the transaction.
    """
    watched = f"EXISTS (SELECT 1 FROM watcher WHERE until > {NOW})"  # noqa: S608 - all of it is ours
    begun = _begun(address, "ISOLATION LEVEL READ COMMITTED")
    lock = f"SELECT pg_advisory_xact_lock({address.lock})"
    return [*begun, lock, f"SELECT nextval('writes'), {NOW}, {POSTED}, {watched}"]


# A server that failed may have lost a worker's last steps, and believe that it lends one that it has made: what it were
# given in that, it would never hear of. So who connects again lets nobody do the steps of its process's workers. They
# lend again when they rest again.
LEND_NOTHING = "UPDATE worker SET room = NULL WHERE socket = {} AND room IS NOT NULL"


def lend_nothing(address: Address, channel: str) -> str:
    """Return the statements that do so by themselves, alone with the tables. The channel is ours."""
    lock, ours = f"SELECT pg_advisory_xact_lock({address.lock})", LEND_NOTHING.format(f"'{channel}'")
    return f"BEGIN; {lock}; SELECT nextval('writes'); {ours}; COMMIT"


def cut_off_frozen(address: Address) -> str:
    """Return the statement that ends the connection of a process which has the lock and stands still.

    The server ends one that is idle in its transaction by itself, but in a pipeline it only waits for more: then
    whoever waited for the lock in vain does it, if it is of the same user.
    """
    return _CUT_OFF_FROZEN.format(lock=address.lock, idle=_IDLE - 1000)


def begin_to_read(address: Address) -> list[str]:
    """Return the statements that begin a transaction which sees one state of the tables."""
    return [*_begun(address, "ISOLATION LEVEL REPEATABLE READ READ ONLY"), f"SELECT {NOW}, {POSTED}"]
