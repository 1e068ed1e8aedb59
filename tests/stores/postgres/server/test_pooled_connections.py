"""Behind a pooler connections are others' too, and the server may be replaced by another while none is cut."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from laneway.errors import StoreError
from laneway.ports.gates import Held
from laneway.ports.settings import Hold
from laneway.stores.postgres.server.address import Address
from laneway.stores.postgres.server.connection import connect_bare
from laneway.testing import Hand, new_run
from laneway.testing.servers import PostgresServer, PostgresStandby, postgres_server, postgres_standby
from tests.stores.postgres.tools import opened, until, with_parameter

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def primary() -> Iterator[PostgresServer]:
    with postgres_server(fsync=True) as server:
        yield server


@pytest.fixture
def standby(primary: PostgresServer) -> Iterator[PostgresStandby]:
    with postgres_standby(primary, synchronous=False) as standby:
        yield standby


async def test_what_was_remembered_does_not_hold_for_a_server_that_stands_in_for_another(
    primary: PostgresServer, standby: PostgresStandby
) -> None:
    async with opened(primary.url, "pooled=yes") as store:
        writer = store._runtime.writer
        hand = await Hand(store).register()
        await store.submit([new_run("a")])
        await store.set(Hold(Held.TASK, "work", held=True))
        behind = "SELECT 1 FROM pg_stat_replication WHERE replay_lsn < pg_current_wal_lsn()"
        await until(lambda: primary.execute(behind) == [])
        standby.stop_streaming()

        # A standby's sequence is ahead by what its primary takes at once; here both give the same number next.
        [[ahead]] = standby.execute("SELECT last_value FROM laneway.writes")
        await store.set(Hold(Held.TASK, "work", held=False))
        while writer._number < ahead:
            await hand.step()
        standby.promote()
        assert writer.connection.link is not None
        writer.connection.link.close()
        writer.connection.link = connect_bare(Address.parse(with_parameter(standby.url, "pooled=yes")))

        assert await hand.claim() == []
        assert writer._number == ahead + 1
        assert await store.check() == []


@pytest.mark.parametrize("by_another", ["PREPARE laneway_{} AS SELECT 1", "DEALLOCATE ALL"], ids=["taken", "gone"])
async def test_who_is_behind_a_pooler_and_does_not_say_so_is_told_what_to_say(
    postgres_url: str, by_another: str
) -> None:
    async with opened(postgres_url) as store:
        writer = store._runtime.writer
        assert writer.connection.link is not None
        if "{}" in by_another:
            # Another client was lent the connection, and calls what it prepares as we will.
            writer.connection.link.execute(by_another.format(next(writer.connection.link.names)).encode())
            writer.connection.link.names = count(len(writer.connection.link.prepared))
        else:
            writer.connection.link.execute(by_another.encode())

        with pytest.raises(StoreError) as refused:
            await store.submit([new_run("a")])

        assert "lends its connections for a transaction at a time, as poolers do" in str(refused.value)
        assert str(refused.value).endswith("; give ?pooled=yes in the address")
        assert "\n" not in str(refused.value)
        await store.submit([new_run("a")])  # over a connection of its own
