"""A Redis server has its functions before a caller has to wait for them."""

import pytest

from laneway.stores.redis.client.scripts import library
from laneway.stores.redis.store import RedisStore
from laneway.testing import new_run
from laneway.testing.servers import ValkeyServer, valkey_server


def takes_functions(server: ValkeyServer) -> bool:
    return server.command("COMMAND", "INFO", "fcall") != [None]


async def test_a_store_that_was_opened_has_its_functions() -> None:
    with valkey_server() as server:
        store = RedisStore(server.url)

        await store.open()
        await store.close()

        if takes_functions(server):
            assert library().name in str(server.command("FUNCTION", "LIST"))


@pytest.mark.parametrize("forbidden", ["function", "fcall"])
async def test_who_may_not_use_functions_can_use_a_store(forbidden: str) -> None:
    with valkey_server() as server:
        words = [f"-{forbidden}"] if takes_functions(server) else []
        server.command("ACL", "SETUSER", "ann", "on", ">pw", "~*", "&*", "+@all", *words)
        store = RedisStore(f"redis://ann:pw@127.0.0.1:{server.port}/0")

        await store.open()
        [receipt] = await store.submit([new_run("a")])  # by a script

        assert receipt.accepted
        await store.close()
