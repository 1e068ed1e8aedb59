"""Settings of every transaction: schema, time-outs, planner; and the statements that begin transactions.

Plans must not depend on statistics: a table that is empty now may hold a million rows in an hour, and every statement
has an index made for it. So the planner uses no scan or join that reads a whole table, and no sort, wherever an index
will do. It uses no bitmap either, because only a plain index scan marks index entries of dead rows. Each statement is
planned once: for a page of a long shelf the server would otherwise compare plans at every call. No parallel workers: a
page of a shelf takes less time than their start, but a planner that sees a hundred thousand rows, and not the LIMIT's
small number, believes otherwise.
"""

from __future__ import annotations

from laneway.stores.postgres.server.address import Address

_IDLE = 5000  # ms after which the server disconnects a process that stands still while it holds the lock

_CUT_OFF_FROZEN = (
    "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_locks JOIN pg_catalog.pg_stat_activity USING (pid)"
    " WHERE locktype = 'advisory' AND granted AND (classid::bigint << 32 | objid::bigint) = {lock} AND objsubid = 1"
    " AND database = datid AND datname = current_database()"
    " AND wait_event = 'ClientRead' AND state_change < clock_timestamp() - interval '{idle} ms'"
)

POSTED = "EXISTS (SELECT 1 FROM inbox WHERE NOT aside)"  # the inbox has submissions to accept
NOW = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"


def settings(address: Address) -> dict[str, str]:
    """Return the settings of a session, as SQL writes them."""
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


# For statements that read whole tables, as `doctor` does, until the transaction ends: a new plan each time, with
# everything that is off above, and without nested loops. The last is needed because the planner believes that a table
# which was analyzed while it was empty is still empty, however many pages it has.
WHOLE = "SELECT set_config('plan_cache_mode', 'force_custom_plan', true), " + ", ".join(
    [f"set_config('enable_{name}', 'on', true)" for name in ("seqscan", "bitmapscan", "sort", "hashjoin", "mergejoin")]
    + ["set_config('enable_nestloop', 'off', true)"]
)


def set_up(address: Address) -> str:
    """Return the statements that set up a connection; none behind a pooler, where each transaction has another one."""
    return "" if address.pooled else "".join(f"SET {name} TO {value}; " for name, value in settings(address).items())


def _begun(address: Address, mode: str) -> list[str]:
    local = settings(address) if address.pooled else {}
    return [f"BEGIN {mode}", *(f"SET LOCAL {name} TO {value}" for name, value in local.items())]


def begin_to_write(address: Address) -> list[str]:
    """Return the statements that begin a transaction which excludes all other writers.

    Race: the lock is taken by a statement of its own. So the statements after it see everything that was committed
    before the lock was got; a statement that itself waited for a lock would go on with its older snapshot. For the same
    reason the isolation level is set, whatever the server's default is. The last statement returns the number of the
    transaction.
    """
    watched = f"EXISTS (SELECT 1 FROM watcher WHERE until > {NOW})"  # noqa: S608 - no part of it comes from users
    begun = _begun(address, "ISOLATION LEVEL READ COMMITTED")
    lock = f"SELECT pg_advisory_xact_lock({address.lock})"
    return [*begun, lock, f"SELECT nextval('writes'), {NOW}, {POSTED}, {watched}"]


# A server that failed may have lost a worker's last steps, and still offer a step to claim ahead that the worker has
# already made: the worker would ignore the reply, and its runs would be lost. So a process that connects again revokes
# the offers of its workers. They offer again with their next idle step.
STOP_CLAIMS_AHEAD = "UPDATE worker SET room = NULL WHERE socket = {} AND room IS NOT NULL"


def stop_claims_ahead(address: Address, channel: str) -> str:
    """Return the statements that do so in a transaction of their own. The channel is laneway's."""
    lock, ours = f"SELECT pg_advisory_xact_lock({address.lock})", STOP_CLAIMS_AHEAD.format(f"'{channel}'")
    return f"BEGIN; {lock}; SELECT nextval('writes'); {ours}; COMMIT"


def cut_off_frozen(address: Address) -> str:
    """Return the statement that ends the connection of a process which holds the lock and stands still.

    The server itself disconnects a session that is idle in a transaction, but not one in a pipeline: there it waits for
    more statements. So a writer that waited for the lock in vain does it, if both have the same database user.
    """
    return _CUT_OFF_FROZEN.format(lock=address.lock, idle=_IDLE - 1000)


def begin_to_read(address: Address) -> list[str]:
    """Return the statements that begin a transaction which reads one snapshot."""
    return [*_begun(address, "ISOLATION LEVEL REPEATABLE READ READ ONLY"), f"SELECT {NOW}, {POSTED}"]
