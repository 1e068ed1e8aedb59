"""No claim, tick or prune scans a table that grows, whatever the planner believes that the tables hold.

Each statement is planned as a writer has it planned: in a store with nothing in it, in a full one, and in one from
which all has gone, as a server knows that has looked just then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest

from laneway.stores.postgres.server.address import Address
from laneway.stores.postgres.server.connection import ServerConnection, connect
from laneway.stores.postgres.server.settings import set_up
from laneway.stores.postgres.transactions.database import TEXTS
from laneway.stores.postgres.transactions.unnest import unnested
from tests.stores.postgres.sample_rows import ROWS

# As long as the lists of lanes and workers, and of what is paused or set aside in them: one may be read whole.
SMALL = {"lane", "pace", "worker", "counter", "heartbeat", "aside", "broken", "disabled", "lane_count"}
# Statements that read whole tables, as their comments say: for people, never for workers.
LONG = {name for name in TEXTS if name.startswith(("check.", "examination."))}
# A move counts, copies and empties whole stores.
MOVES = ("phases.", "pack.", "unpack.", "clear.")
LONG |= {name for name in TEXTS if name.startswith(MOVES) and name != "phases.standing"}
LONG |= {"runs.pending", "runs.count", "runs.workers", "control.unended", "overview.depths"}
LONG |= {"overview.active", "overview.executed", "overview.last_chances", "circuits.all"}
# Only for a lane that drops its oldest, and is full.
LONG |= {"acceptance.oldest"}
# As long as the list of running runs: only a limit per worker needs it.
LONG |= {"wakeups.executed"}
# As long as the runs that stream, and those that ended in the last minute.
LONG |= {"trim.note_ends"}
# Statements of steps, submissions, ticks and pruners whose cost does not depend on a given list.
UNSORTED = [
    "transaction.header",
    "transaction.flags",
    "transaction.next_due",
    "submissions.look",
    "settlements.leased",
]
UNSORTED += [
    "settlements.free",
    "shelves.ready",
    "shelves.parked",
    "shelves.held",
    "shelves.due",
    "shelves.first_parked",
]
UNSORTED += ["shelves.tried", "shelves.bodies", "waits.late", "jobs.due", "prune.outdated", "trim.outdated"]
# With these a server believes of any table that it is long enough to be read by several processes.
EAGER = "SET min_parallel_table_scan_size TO 0; SET min_parallel_index_scan_size TO 0;"
EAGER += "SET parallel_setup_cost TO 0; SET parallel_tuple_cost TO 0"
SCANS = ("Seq Scan", "Index Scan", "Index Only Scan", "Bitmap Index Scan", "Bitmap Heap Scan", "Tid Scan")


@dataclass(frozen=True)
class Scan:
    """How a plan reads a table: by which index and condition, and whether only the first rows."""

    table: str
    index: str | None
    condition: str
    head: bool


class Planner:
    """Explains statements."""

    def __init__(self, link: ServerConnection, *, emptied: bool) -> None:
        self._link, self.emptied = link, emptied
        self._plans: dict[str, list[dict[str, Any]]] = {}

    def plan(self, name: str, query: str | None = None) -> list[dict[str, Any]]:
        """Return the nodes of the generic plan of a statement, or of another query."""
        query = query or TEXTS[name].query
        if query not in self._plans:
            self._plans[query] = self._planned(query)
        return self._plans[query]

    def _planned(self, query: str) -> list[dict[str, Any]]:
        most = max([0, *map(int, re.findall(r"\$(\d+)", query))])
        values = f"({', '.join(['NULL'] * most)})" if most else ""
        self._link.execute(f"PREPARE asked AS {query}".encode())
        try:
            [[[found]]] = self._link.execute(f"EXPLAIN (FORMAT JSON) EXECUTE asked{values}".encode()).fetchall()
        finally:
            self._link.execute("DEALLOCATE asked")
        return list(_nodes(found["Plan"], head=False))

    def scans(self, name: str, query: str | None = None) -> list[Scan]:
        """Return how the statement's tables are read."""
        return [
            Scan(
                node.get("Relation Name", ""),
                node.get("Index Name"),
                node.get("Index Cond") or node.get("TID Cond", ""),
                node["head"],
            )
            for node in self.plan(name, query)
            if node["Node Type"] in SCANS
        ]


def whole(planner: Planner, name: str) -> set[str]:
    """Return the tables that the statement reads from end to end."""
    return {scan.table for scan in planner.scans(name) if not scan.condition and not (scan.index and scan.head)}


def wrong(found: Mapping[str, object]) -> dict[str, object]:
    """Return the faults by statement: one test checks hundreds, because each takes a moment."""
    return {name: what for name, what in found.items() if what}


def _nodes(node: dict[str, Any], *, head: bool) -> Iterator[dict[str, Any]]:
    # A subplan of one value is an EXISTS: it ends with the first row, as below a LIMIT.
    head = head or node["Node Type"] == "Limit" or node.get("Parent Relationship") == "InitPlan"
    yield {**node, "head": head}
    below = head and node["Node Type"] in {"Limit", "Result", "Nested Loop", "LockRows", "Subquery Scan"}
    for inner in node.get("Plans", ()):
        yield from _nodes(inner, head=below)


@pytest.fixture(scope="module", params=["empty", "full", "emptied"])
def planner(request: pytest.FixtureRequest, postgres_database: str) -> Iterator[Planner]:
    more = "&" if "?" in postgres_database else "?"
    address = Address.parse(f"{postgres_database}{more}schema=plans_{request.param}")
    with closing(connect(address)) as link:
        link.execute(EAGER.encode())
        link.execute(set_up(address).encode())
        if request.param != "empty":
            link.execute(ROWS.encode())
        if request.param == "emptied":
            # As it is found by a server that has just analyzed a store from which all has gone.
            for table in ("ready", "parked", "held", "due", "lease", "turn", "seat", "session"):
                link.execute(f"DELETE FROM {table}".encode())
                link.execute(f"ANALYZE {table}".encode())
        yield Planner(link, emptied=request.param == "emptied")


def test_no_statement_reads_a_growing_table_from_end_to_end(planner: Planner) -> None:
    def allowed(name: str) -> set[str]:
        return SMALL | ({"lease"} if planner.emptied and name in LEASED else set())

    assert wrong({name: whole(planner, name) - allowed(name) for name in sorted(TEXTS.keys() - LONG)}) == {}


# As long as the list of running runs, if the server believes that it is empty: for people, or for calls that wait.
LEASED = {"acceptance.state", "overview.waiting", "workers.inherit", "runs.by_id", "runs.by_numbers"}
# Statements of steps and submissions that are done for many rows at once.
BUSY = ("known_counts.", "counts.", "shelves.", "settlements.", "steps.", "submissions.", "inboxes.", "memos.", "keys.")
MANY = [
    name
    for name in TEXTS
    if name.startswith(BUSY) and re.search(r"(?s)VALUES\s*\(\$1::|^DELETE.*\$1::", TEXTS[name].query)
]


def test_a_statement_for_many_rows_looks_for_each_of_them_by_its_key(planner: Planner) -> None:
    assert wrong({name: list(keyless(planner, name)) for name in sorted(MANY)}) == {}


def keyless(planner: Planner, name: str) -> Iterator[Scan]:
    """Return the scans that do not use the key."""
    query = TEXTS[name].query
    key = {match[2] for match in re.finditer(r"(\w+|\")[.\w\"]* (?:=|<=) \$(\d+)::", query)}
    for scan in planner.scans(name, unnested(query)):
        if not scan.condition:
            yield scan
        elif name.startswith(("counts.drop", "shelves.drop")) and "ctid" not in scan.condition:
            used = set(re.findall(r"(?:given\.c|\$)(\d+)", scan.condition))
            if not used >= key:
                yield scan


def test_a_statement_that_reads_a_shelf_whole_does_not_read_all_runs(planner: Planner) -> None:
    found = {name: whole(planner, name) & {"run"} for name in sorted(LONG)}

    assert [name for name in wrong(found) if not name.startswith(("check.", *MOVES))] == []


# A prefetched answer is dropped when a table is written that it reads: its text must name those tables.
AHEAD = ["steps.worker", "transaction.header", "transaction.next_due", "settlements.leased", "counts.ready_lanes"]
AHEAD += ["counts.lane", "counts.turns", "shelves.ready", "shelves.parked", "shelves.held", "shelves.due"]
AHEAD += ["shelves.due_after", "submissions.look", "acceptance.known", "wakeups.idle", "wakeups.startable"]
AHEAD += ["wakeups.asides", "transaction.flags"]


def test_a_text_that_is_asked_ahead_says_which_tables_it_reads(planner: Planner) -> None:
    read = {name: {scan.table for scan in planner.scans(name)} for name in AHEAD}

    assert wrong({name: tables - {""} - TEXTS[name].reads for name, tables in read.items()}) == {}


def test_a_text_says_which_tables_it_writes(planner: Planner) -> None:
    def written(name: str) -> set[str]:
        return {node["Relation Name"] for node in planner.plan(name) if node["Node Type"] == "ModifyTable"}

    assert wrong({name: written(name) ^ (TEXTS[name].writes - {"SET"}) for name in sorted(TEXTS)}) == {}


def test_what_workers_ask_all_the_time_is_not_sorted(planner: Planner) -> None:
    kinds = {name: {node["Node Type"] for node in planner.plan(name)} for name in UNSORTED}

    dear = {"Sort", "Incremental Sort", "Hash Join", "Merge Join"}
    assert wrong({name: found & dear for name, found in kinds.items()}) == {}


def test_nothing_is_done_by_several_processes(planner: Planner) -> None:
    kinds = {name: {node["Node Type"] for node in planner.plan(name)} for name in sorted(TEXTS)}

    assert wrong({name: found & {"Gather", "Gather Merge"} for name, found in kinds.items()}) == {}


@pytest.mark.parametrize("name", ["ready", "parked", "held", "due"])
def test_the_front_of_a_shelf_is_found_and_read_in_order(planner: Planner, name: str) -> None:
    [shelf] = [scan for scan in planner.scans(f"shelves.{name}") if scan.table == name]
    [run] = [scan for scan in planner.scans(f"shelves.{name}") if scan.table == "run"]

    assert shelf.index == f"{name}_pkey"
    assert "rank <= $" in shelf.condition if name == "due" else "ROW(rank, number) > ROW(" in shelf.condition
    assert (run.index, run.condition) == ("run_pkey", "(number = shelf.number)")


@pytest.mark.parametrize("name", ["ready", "parked", "held", "due"])
def test_what_was_taken_is_deleted_as_a_range(planner: Planner, name: str) -> None:
    [shelf] = [scan for scan in planner.scans(f"shelves.drop_{name}") if scan.table == name]

    assert shelf.index == f"{name}_pkey"
    assert "ROW(rank, number) <= ROW(" in shelf.condition


@pytest.mark.parametrize("name", ["ready", "parked", "held", "due"])
def test_a_run_is_taken_out_by_its_whole_key(planner: Planner, name: str) -> None:
    [shelf] = planner.scans(f"shelves.remove_{name}")

    assert shelf.index == f"{name}_pkey"
    assert re.search(r"\(rank = \$\d\) AND \(number = \$\d\)", shelf.condition)


def test_a_run_is_looked_for_by_whole_keys_first_and_never_in_what_cannot_have_it(planner: Planner) -> None:
    scans = [scan for scan in planner.scans("shelves.find") if scan.table != "session"]

    assert [scan.table for scan in scans] == [
        *("due", "ready", "held", "parked", "parked", "held"),
        *("parked", "parked", "parked", "parked", "ready"),
    ]
    assert ["(number = $1)" in scan.condition for scan in scans[:5]] == [True] * 5


def test_a_step_glances_at_indexes_only(planner: Planner) -> None:
    names = ("transaction.header", "transaction.flags")
    scans = [scan for name in names for scan in planner.scans(name) if scan.table not in SMALL]

    assert [scan for scan in scans if scan.index is None] == []
    used = {str(scan.index) for scan in scans}
    assert used >= {"wait_until", "lease_requested", "outcome_resumed", "message_open", "job_due", "due_pkey"}


def test_leases_are_found_by_the_numbers_that_a_step_settles(planner: Planner) -> None:
    for name in ("settlements.leased", "settlements.free"):
        [lease] = [scan for scan in planner.scans(name) if scan.table == "lease"]
        assert lease.index == "lease_pkey"
        assert "number = ANY" in lease.condition


def test_what_is_old_is_found_by_its_age_and_nothing_young_is_read(planner: Planner) -> None:
    [scan] = planner.scans("prune.outdated")

    assert (scan.table, scan.index) == ("outcome", "outcome_age")
    assert re.fullmatch(r"\(\(state = \$1\) AND \(ended_at .*< \$2\)\)", scan.condition)


@pytest.mark.parametrize("name", sorted(name for name in TEXTS if name.startswith("prune.drop_")))
def test_what_is_pruned_is_found_by_its_number(planner: Planner, name: str) -> None:
    [scan] = planner.scans(name)

    assert "at <= $1" in scan.condition if name == "prune.drop_keys" else "number = ANY" in scan.condition


@pytest.mark.parametrize("name", ["any", "running", "ended", "kept"])
def test_runs_are_listed_without_sorting(planner: Planner, name: str) -> None:
    assert "Sort" not in {node["Node Type"] for node in planner.plan(f"runs.{name}")}
