"""Behind a pooler a connection is shared with other clients."""

from __future__ import annotations

from itertools import count

import pytest

from laneway.errors import StoreError
from laneway.testing import new_run
from tests.stores.postgres.tools import opened


@pytest.mark.parametrize("by_another", ["PREPARE laneway_{} AS SELECT 1", "DEALLOCATE ALL"], ids=["taken", "gone"])
async def test_who_is_behind_a_pooler_and_does_not_say_so_is_told_what_to_say(
    postgres_url: str, by_another: str
) -> None:
    async with opened(postgres_url) as store:
        writer = store.access.runtime.writer
        assert writer.connection.link is not None
        if "{}" in by_another:
            # Another client had the connection, and prepared a statement under a name that we will use.
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
