"""A PostgreSQL server that has lost its last moments: clients of lost transactions begin anew."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from laneway.errors import LeaseLost
from laneway.testing import Hand, new_run
from laneway.testing.servers import PostgresServer, PostgresStandby, postgres_server, postgres_standby
from tests.stores.postgres.tools import opened, until

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]


@pytest.fixture
def primary() -> Iterator[PostgresServer]:
    # A commit without a wait reaches the disk with the next commit that waits.
    with postgres_server(wal_writer_delay="10s") as server:
        yield server


@pytest.fixture
def standby(primary: PostgresServer) -> Iterator[PostgresStandby]:
    with postgres_standby(primary, synchronous=False) as standby:
        yield standby


@pytest.fixture
def url(primary: PostgresServer, standby: PostgresStandby) -> str:
    return f"postgresql://postgres@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/postgres"


async def lose_what_follows(primary: PostgresServer, standby: PostgresStandby) -> None:
    """Let the standby have everything up to now, and nothing more."""
    behind = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::int FROM pg_stat_replication"
    await until(lambda: primary.execute(behind) == [(0,)])
    standby.stop_streaming()


def fail_over(primary: PostgresServer, standby: PostgresStandby) -> None:
    primary.kill()
    standby.promote()


async def test_a_worker_whose_result_is_lost_is_told_and_its_run_is_taken_over(
    url: str, primary: PostgresServer, standby: PostgresStandby
) -> None:
    async with opened(url) as store:
        hand = await Hand(store).register()
        await store.submit([new_run("a"), new_run("b")])
        [run] = await hand.claim()
        await lose_what_follows(primary, standby)
        await hand.succeed(run)
        fail_over(primary, standby)

        with pytest.raises(LeaseLost):
            await hand.claim()
        heir = await Hand(store, "heir").register()
        [lapsed] = (await heir.reclaim()).lapsed
        await heir.lapse(lapsed)

        assert lapsed.id == run.id
        assert [found.id for found in await heir.claim(2)] == ["a", "b"]
        assert await store.check() == []


async def test_a_worker_whose_claim_is_lost_is_told_and_cannot_settle_it(
    url: str, primary: PostgresServer, standby: PostgresStandby
) -> None:
    async with opened(url) as store:
        hand = await Hand(store).register()
        await lose_what_follows(primary, standby)
        await store.submit([new_run("lost")])
        [run] = await hand.claim()
        fail_over(primary, standby)
        await store.submit([new_run("other")])  # under the same number

        with pytest.raises(LeaseLost):
            await hand.succeed(run)
        heir = await Hand(store, "heir").register()

        assert [(found.id, found.number) for found in await heir.claim()] == [("other", run.number)]
        assert await store.check() == []


async def test_a_worker_of_which_only_rests_are_lost_goes_on(
    url: str, primary: PostgresServer, standby: PostgresStandby
) -> None:
    async with opened(url) as store:
        hand = await Hand(store).register()
        await store.submit([new_run("a")])
        [run] = await hand.claim()
        await lose_what_follows(primary, standby)
        for _ in range(3):
            await hand.rest()
        fail_over(primary, standby)

        reply = await hand.succeed(run)

        assert reply.refused == []
        assert (await store.depths()).runs == {"succeeded": 1}


@pytest.mark.parametrize("far", [True, False])
async def test_a_step_is_not_done_for_a_worker_that_has_made_it_in_a_lost_moment(
    primary: PostgresServer, far: bool
) -> None:
    async with opened(primary.url) as store, opened(primary.url) as other:
        hand = await Hand(store).register()
        await hand.offer_step()
        primary.execute("CREATE TABLE waited_for ()")
        await hand.offer_step()  # without waiting for the disk
        primary.kill()
        primary.restart()
        [[known]] = primary.execute("SELECT call FROM laneway.worker")
        assert known == 1, "the second is lost"
        await until(lambda: store.access.runtime.is_listening)

        await (other if far else store).submit([new_run("a")])
        await until(lambda: hand.woken > 0)

        assert [run.id for run in await hand.claim()] == ["a"]


async def test_behind_a_pooler_no_step_is_done_for_another(primary: PostgresServer) -> None:
    async with opened(primary.url, "pooled=yes") as store:
        hand = await Hand(store).register()
        await hand.offer_step()
        await store.submit([new_run("a")])

        assert await hand.hears()
        assert primary.execute("SELECT call, (SELECT count(*) FROM laneway.lease) FROM laneway.worker") == [(1, 0)]
        assert [run.id for run in await hand.claim()] == ["a"]
