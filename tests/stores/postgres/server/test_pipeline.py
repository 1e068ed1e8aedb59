"""Statements that are sent without waiting, and whose answers are read later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from psycopg.pq import PipelineStatus, TransactionStatus

from laneway.stores.postgres.server import arrays
from laneway.stores.postgres.server.address import Address
from laneway.stores.postgres.server.connection import ServerConnection, connect_bare
from laneway.stores.postgres.server.errors import TimedOut
from laneway.stores.postgres.server.pipeline import Pipeline
from tests.stores.postgres.tools import with_parameter


@pytest.fixture
def link(postgres_database: str) -> Iterator[ServerConnection]:
    with closing(connect_bare(Address.parse(with_parameter(postgres_database, "timeout=1")))) as link:
        yield link


def _send(link: ServerConnection, *queries: str) -> None:
    with Pipeline(link) as pipe:
        for query in queries:
            pipe.send(query)


def _ask(link: ServerConnection, *queries: str) -> None:
    with Pipeline(link) as pipe:
        *_, last = [pipe.send(query) for query in queries]
        last.fetchall()


def _is_left(link: ServerConnection) -> bool:
    status = link.pgconn.transaction_status
    return link.pgconn.pipeline_status == PipelineStatus.OFF and status == TransactionStatus.IDLE


def test_answers_are_those_of_their_statements_in_whatever_order_they_are_asked_for(link: ServerConnection) -> None:
    with Pipeline(link) as pipe:
        found = [pipe.send("SELECT $1::int + $2::int", (nth, 1)) for nth in range(5)]
        values = [found[nth].fetchall() for nth in (3, 0, 4)]
        more = pipe.send("SELECT 'more'")

        assert values == [[(4,)], [(1,)], [(5,)]]
        assert more.fetchone() == ("more",)
    assert found[1].fetchall() == [(2,)], "it came when the pipe was left"
    assert _is_left(link)


def test_rows_are_fetched_once(link: ServerConnection) -> None:
    with Pipeline(link) as pipe:
        found = pipe.send("SELECT * FROM generate_series(1, 4)")

        assert found.fetchone() == (1,)
        assert next(iter(found)) == (2,)
        assert found.fetchall() == [(3,), (4,)]
        assert found.fetchone() is None


def test_values_arrive_as_they_are(link: ServerConnection) -> None:
    sent = ("Zoë \\ \" ' {} , NULL", "", None, 2**62, -1, True)

    with Pipeline(link) as pipe:
        query = "SELECT $1::text, $2::text, $3::text, $4::bigint, $5::int, $6::int"
        assert pipe.send(query, sent).fetchall() == [(*sent[:5], 1)]


def test_columns_arrive_as_they_are(link: ServerConnection) -> None:
    rows = [('Zoë \\ " {} NULL', 1, 2**62), ("", -(2**31), -(2**62)), (None, None, None), ("x" * 70_000, True, False)]
    texts, ints, bigints = zip(*rows, strict=True)

    with Pipeline(link) as pipe:
        query = "SELECT * FROM unnest($1::text[], $2::int[], $3::bigint[])"
        values = (arrays.texts(texts), arrays.ints(ints), arrays.bigints(bigints))
        assert pipe.send(query, values).fetchall() == [*rows[:3], (rows[3][0], 1, 0)]


def test_a_column_with_a_nul_is_not_sent() -> None:
    with pytest.raises(psycopg.DataError):
        arrays.texts(["a", "b\0"])


@pytest.mark.parametrize("value", ["a\0b", 1.5])
def test_what_the_server_could_not_keep_is_not_sent(link: ServerConnection, value: object) -> None:
    with Pipeline(link) as pipe:
        with pytest.raises((psycopg.DataError, TypeError)):
            pipe.send("SELECT $1::text", (value,))
        assert pipe.send("SELECT 1").fetchall() == [(1,)]


def test_a_text_is_prepared_once_on_a_connection(link: ServerConnection) -> None:
    for _ in range(2):
        with Pipeline(link) as pipe:
            for nth in range(3):
                pipe.send("SELECT $1::int", (nth,))

    with Pipeline(link) as pipe:
        names = pipe.send("SELECT name FROM pg_prepared_statements WHERE statement = 'SELECT $1::int'").fetchall()
    assert names == [(link.prepared["SELECT $1::int"].decode(),)]


def test_behind_a_pooler_nothing_is_prepared(postgres_database: str) -> None:
    address = Address.parse(with_parameter(postgres_database, "pooled=yes"))
    with closing(connect_bare(address)) as link:
        with Pipeline(link) as pipe:
            assert pipe.send("SELECT $1::int", (1,)).fetchall() == [(1,)]
            assert pipe.send("SELECT count(*) FROM pg_prepared_statements").fetchall() == [(0,)]
        assert link.prepared == {}


def test_nothing_behind_what_failed_is_done_and_the_error_is_of_the_first(link: ServerConnection) -> None:
    link.execute("CREATE TEMP TABLE noted (value int)")

    one, two = "INSERT INTO noted VALUES (1)", "INSERT INTO noted VALUES (2)"
    with pytest.raises(psycopg.errors.DivisionByZero):
        _send(link, "BEGIN", one, "SELECT 1/0", two, "COMMIT")

    link.execute("ROLLBACK")
    assert _is_left(link)
    assert link.execute("SELECT value FROM noted").fetchall() == []


def test_an_error_is_raised_to_who_asks_for_an_answer_behind_it(link: ServerConnection) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        _ask(link, "SELECT 1/0", "SELECT 1")

    assert _is_left(link)


def test_a_text_that_was_not_prepared_because_something_failed_is_prepared_when_it_is_used_again(
    link: ServerConnection,
) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        _send(link, "SELECT 1/0", "SELECT 'not reached'")

    assert "SELECT 'not reached'" not in link.prepared
    with Pipeline(link) as pipe:
        assert pipe.send("SELECT 'not reached'").fetchall() == [("not reached",)]
        assert pipe.send("SELECT 'after'").fetchall() == [("after",)]


def test_what_somebody_raises_meanwhile_goes_on_and_nothing_is_left_under_way(link: ServerConnection) -> None:
    def work() -> None:
        with Pipeline(link) as pipe:
            pipe.send("SELECT 1/0")
            raise KeyError

    with pytest.raises(KeyError):
        work()

    assert _is_left(link)
    assert link.execute("SELECT 1").fetchall() == [(1,)]


def test_more_than_either_side_can_hold_goes_both_ways(link: ServerConnection) -> None:
    text = "x" * 1_000_000

    with Pipeline(link) as pipe:
        found = [pipe.send("SELECT $1::text", (text,)) for _ in range(20)]
        assert all(each.fetchall() == [(text,)] for each in found)


def test_a_server_that_does_not_answer_is_waited_for_once(link: ServerConnection) -> None:
    link.patience = 0.3

    with pytest.raises(TimedOut), Pipeline(link) as pipe:
        pipe.send("SELECT pg_sleep(20)").fetchall()

    assert link.patience == 0, "nobody waits for it any more"


def test_a_connection_that_is_cut_says_so(link: ServerConnection) -> None:
    with pytest.raises(psycopg.OperationalError):
        _ask(link, "SELECT pg_terminate_backend(pg_backend_pid())", "SELECT 1")

    with pytest.raises(psycopg.OperationalError):
        _ask(link, "SELECT 1")
