"""Every statement finds what it needs by an index: no hot one gets slower by finished or waiting runs."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from laneway.stores.sqlite.connection import StoreFile, connect
from laneway.stores.sqlite.database import TEXTS

# Tables as long as the list of running runs, of lanes or of workers: a rare statement may read them whole.
SMALL = {"CONSTANT", "lease", "worker", "lane", "aside", "pace", "other", "wanted", "json_each"}
SMALL |= {"disabled", "lane_count"}  # disabled tasks, and a few counts per lane
SMALL |= {"broken", "guarded"}  # runs that wait for a breaker, and tasks whose breaker is open
# Statements that read a whole shelf or index, as their comments say: for people, never for workers.
LONG = {"runs.pending", "runs.count", "counts.parked_users", "control.unended"}
LONG |= {name for name in TEXTS if name.startswith("check.")} | {"circuits.all"}
# Only for a lane that drops its oldest, and is full.
LONG |= {"acceptance.oldest"}
LONG |= {"overview.users", "overview.depths"}
# A move reads all there is, once.
LONG |= {"phases.holds", "phases.note_asides", "phases.note_broken"}
LONG |= {"pack.caps", "pack.circuits", "pack.paused", "pack.rules"}
# As long as the runs that stream, and those that ended in the last minute.
LONG |= {"trim.note_ends"}


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    path: Path = tmp_path_factory.mktemp("plans") / "laneway.db"
    with closing(connect(StoreFile(path, 1.0))) as db:
        yield db


def plan(db: sqlite3.Connection, statement: str) -> list[str]:
    # A statement for rows that are alike leaves places for each row's own; any row will do here.
    statement = statement.format(nth=0, id=8, args=9)
    named = dict.fromkeys(re.findall(r":(\w+)", statement))
    numbers = re.findall(r"\?(\d+)", statement)
    unnamed = [None] * (max(map(int, numbers)) if numbers else statement.count("?"))
    rows = db.execute(f"EXPLAIN QUERY PLAN {statement}", named or unnamed)
    return [row[3] for row in rows]


def scanned(db: sqlite3.Connection, name: str) -> set[str]:
    """Return the tables that the statement reads from end to end."""
    return {match[1] for step in plan(db, TEXTS[name]) if (match := re.match(r"SCAN (\w+)(?!\w| VIRTUAL)", step))}


def test_no_statement_reads_a_growing_table_from_end_to_end(db: sqlite3.Connection) -> None:
    # One test looks at all of them, because each takes a moment; those that may do it must be planned as well.
    found = {name: scanned(db, name) - SMALL for name in sorted(TEXTS)}

    assert {name: tables for name, tables in found.items() if tables and name not in LONG | {"runs.any"}} == {}


@pytest.mark.parametrize("name", ["ready", "parked", "held", "due"])
def test_the_front_of_a_shelf_is_found_and_read_in_order(db: sqlite3.Connection, name: str) -> None:
    steps = plan(db, TEXTS[f"shelves.{name}"])

    assert re.match(r"SEARCH shelf USING PRIMARY KEY \(.*(\(rank,number\)>\(\?,\?\)|rank<\?)\)", steps[0])
    assert steps[1].startswith("SEARCH run USING INTEGER PRIMARY KEY")
    assert not [step for step in steps if "TEMP B-TREE" in step]


@pytest.mark.parametrize("name", ["drop_ready", "drop_parked", "drop_held", "drop_due"])
def test_what_was_taken_is_deleted_as_a_range(db: sqlite3.Connection, name: str) -> None:
    [step] = plan(db, TEXTS[f"shelves.{name}"])

    assert re.match(r"SEARCH \w+ USING PRIMARY KEY \(.*\(rank,number\)<\(\?,\?\)\)", step)


def test_a_run_is_looked_for_by_whole_keys_first_and_never_in_what_cannot_have_it(db: sqlite3.Connection) -> None:
    steps = [step for step in plan(db, TEXTS["shelves.find"]) if step.startswith(("SEARCH", "SCAN"))]

    assert [re.sub(r" USING PRIMARY KEY", "", step) for step in steps] == [
        "SEARCH due (rank=? AND number=?)",
        "SEARCH ready (lane=? AND rank=? AND number=?)",
        "SEARCH held (session=? AND rank=? AND number=?)",
        "SEARCH parked (lane=? AND gate=? AND rank=? AND number=?)",
        "SEARCH parked (lane=? AND gate=? AND rank=? AND number=?)",
        "SEARCH held (session=?)",
        "SEARCH parked (lane=? AND gate=?)",
        "SEARCH parked (lane=? AND gate=?)",
        "SEARCH parked (lane=? AND gate=?)",
        "SEARCH parked (lane=? AND gate=?)",
        "SEARCH ready (lane=?)",
    ]


@pytest.mark.parametrize("name", ["remove_ready", "remove_parked", "remove_held", "remove_due"])
def test_a_run_is_taken_out_by_its_whole_key(db: sqlite3.Connection, name: str) -> None:
    [step] = plan(db, TEXTS[f"shelves.{name}"])

    assert re.match(r"SEARCH \w+ USING PRIMARY KEY \(.*rank=\? AND number=\?\)", step)


def test_what_has_ended_is_not_read_to_find_what_has_not(db: sqlite3.Connection) -> None:
    steps = plan(db, TEXTS["control.unended"])

    [outcome] = [step for step in steps if "outcome" in step]
    assert "outcome_kept" in outcome
    assert {step for step in steps if " run " in step} == {"SEARCH run USING INTEGER PRIMARY KEY (rowid=?)"}


def test_a_step_glances_at_indexes_only(db: sqlite3.Connection) -> None:
    steps = [step for name in ("header", "flags") for step in plan(db, TEXTS[f"transaction.{name}"])]
    used = {match[1] for step in steps if (match := re.search(r"INDEX (\w+)", step))}

    assert used == {"wait_until", "worker_idle", "lease_requested", "outcome_resumed", "message_open", "job_due"}


@pytest.mark.parametrize("name", ["any", "running", "ended", "kept"])
def test_runs_are_listed_without_sorting(db: sqlite3.Connection, name: str) -> None:
    assert not [step for step in plan(db, TEXTS[f"runs.{name}"]) if "TEMP B-TREE" in step]


def test_what_is_old_is_found_by_its_age_and_nothing_young_is_read(db: sqlite3.Connection) -> None:
    [step] = plan(db, TEXTS["prune.outdated"])

    assert step == "SEARCH outcome USING COVERING INDEX outcome_age (state=? AND ended_at<?)"


@pytest.mark.parametrize("name", ["drop_events", "drop_outcomes", "drop_runs"])
def test_what_is_pruned_is_found_by_its_number(db: sqlite3.Connection, name: str) -> None:
    first, *_ = plan(db, TEXTS[f"prune.{name}"])

    assert re.match(r"SEARCH \w+ USING .*(PRIMARY KEY|INDEX sqlite_autoindex_\w+) \((rowid|number)=\?\)", first)
