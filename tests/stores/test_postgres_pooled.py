"""Behind a pooler the server may be replaced by another, and nobody's connection is cut."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from laneway.ports.gates import Held
from laneway.stores.postgres.address import Address
from laneway.stores.postgres.connection import connect_bare
from laneway.testing import Hand, new_run
from laneway.testing.servers import PostgresServer, PostgresStandby, postgres_server, postgres_standby
from tests.stores.postgres_tools import opened, until, with_parameter

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def primary() -> Iterator[PostgresServer]:
    with postgres_server(fsync=True) as server:
        yield server


@pytest.fixture
def standby(primary: PostgresServer) -> Iterator[PostgresStandby]:
    with postgres_standby(primary, synchronous=False) as standby:
        yield standby


async def test_what_was_kept_does_not_hold_for_a_server_that_stands_in_for_another(
    primary: PostgresServer, standby: PostgresStandby
) -> None:
    async with opened(primary.url, "pooled=yes") as store:
        writer = store._here.writer
        hand = await Hand(store).register()
        await store.submit([new_run("a")])
        await store.hold(Held.TASK, "work", held=True)
        behind = "SELECT 1 FROM pg_stat_replication WHERE replay_lsn < pg_current_wal_lsn()"
        await until(lambda: primary.execute(behind) == [])
        standby.stop_streaming()

        # A standby's sequence is ahead by what its primary takes at once; here both give the same number next.
        [[ahead]] = standby.execute("SELECT last_value FROM laneway.writes")
        await store.hold(Held.TASK, "work", held=False)
        while writer._number < ahead:
            await hand.step()
        standby.promote()
        assert writer._link is not None
        writer._link.close()
        writer._link = connect_bare(Address.parse(with_parameter(standby.url, "pooled=yes")))

        assert await hand.claim() == []
        assert writer._number == ahead + 1
        assert await store.check() == []
