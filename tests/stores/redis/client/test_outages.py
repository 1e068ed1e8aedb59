"""Calls to servers that go away, are busy, or take each other's place."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from laneway.errors import BadURL, StoreError, StoreUnavailable
from laneway.stores.redis.client.address import Address
from laneway.stores.redis.client.client import RedisClient
from laneway.testing.servers import valkey_server
from tests.stores.redis.tools import COUNT, ECHO, blocked, is_busy, lua, opened_client, until, with_parameter

WRITE = lua("return redis.call('SET', KEYS[1] .. ':x', ARGV[1])")


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[RedisClient]:
    async with opened_client(redis_url) as client:
        yield client


# Servers that go away


async def test_nobody_there_is_said_at_once_with_the_address() -> None:
    with valkey_server() as server:
        server.kill()
        client = RedisClient(Address.parse(server.url.replace("redis://", "redis://ann:secret@")))
        began = time.monotonic()

        with pytest.raises(StoreUnavailable) as caught:
            await client.open()

        assert time.monotonic() - began < 1
        assert str(caught.value) == (
            f"cannot connect to 127.0.0.1:{server.port}: connection refused; is the server running there?"
        )
        assert not caught.value.maybe_done


async def test_a_name_that_nobody_has_is_said() -> None:
    with pytest.raises(StoreUnavailable, match=r"^cannot connect to no-such-host.invalid:6379: "):
        await RedisClient(Address.parse("redis://no-such-host.invalid")).open()


async def test_a_server_that_was_restarted_between_two_calls_is_not_noticed() -> None:
    with valkey_server(appendonly=True) as server:
        async with opened_client(server.url) as client:
            assert await client.call(COUNT) == 1
            server.kill()
            server.restart()

            assert await asyncio.gather(*(client.call(COUNT) for _ in range(20))) == list(range(2, 22))
            assert client.call_now(COUNT) == 22


async def test_a_server_that_dies_during_a_call_leaves_it_in_doubt() -> None:
    with valkey_server() as server:
        async with opened_client(server.url) as client:
            waiting = asyncio.create_task(client.command("BLPOP", "nothing", 0))
            await until(lambda: blocked(server) == 1)
            server.kill()

            with pytest.raises(StoreUnavailable) as caught:
                await waiting
            with pytest.raises(StoreUnavailable) as later:
                await client.call(ECHO, "x")

    assert caught.value.maybe_done
    assert not later.value.maybe_done


async def test_a_connection_that_breaks_during_a_call_has_it_made_again() -> None:
    with valkey_server() as server:
        async with opened_client(server.url) as client:
            waiting = asyncio.create_task(client.command("BLPOP", "list", 0))
            await until(lambda: blocked(server) == 1)
            server.command("CLIENT", "KILL", "TYPE", "normal")
            await until(lambda: blocked(server) == 1)
            server.command("RPUSH", "list", "came")

            assert await waiting == [b"list", b"came"]


async def test_a_server_that_stands_still_is_given_up_in_time_and_found_again() -> None:
    with valkey_server() as server:
        async with opened_client(server.url, timeout=0.3) as client:
            server.stop()
            began = time.monotonic()

            calls = [asyncio.create_task(client.call(COUNT)) for _ in range(5)]
            failed = await asyncio.gather(*calls, return_exceptions=True)
            took = time.monotonic() - began
            with pytest.raises(StoreUnavailable, match=r"within 0\.3 s") as later:
                await client.call(COUNT)
            server.cont()

            assert took < 2
            assert all(isinstance(error, StoreUnavailable) and error.maybe_done for error in failed)
            assert not later.value.maybe_done
            assert await client.call(ECHO, "x") == b"x"


async def test_a_server_that_is_busy_or_loading_is_asked_again() -> None:
    with valkey_server(config={"lua-time-limit": "10"}) as server:
        async with opened_client(server.url) as client, opened_client(server.url) as other:
            endless = asyncio.create_task(other.call(lua("while true do end")))
            await until(lambda: is_busy(server))

            waiting = asyncio.create_task(client.call(ECHO, "x"))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            server.command("SCRIPT", "KILL")

            assert await waiting == b"x"
            with pytest.raises(StoreError):
                await endless


async def test_a_replica_is_asked_again_until_it_is_a_master() -> None:
    with valkey_server() as server:
        async with opened_client(server.url) as client, opened_client(server.url, timeout=0.2) as impatient:
            server.command("REPLICAOF", "127.0.0.1", 1)
            waiting = asyncio.create_task(client.call(WRITE, "x"))
            with pytest.raises(StoreUnavailable, match="is a replica, which cannot be written to") as caught:
                await impatient.call(WRITE, "x")
            assert not waiting.done()
            server.command("REPLICAOF", "NO", "ONE")

            assert await waiting == b"OK"
            assert not caught.value.maybe_done


# Several servers


async def test_a_cluster_is_called_through_any_node_and_survives_its_master() -> None:
    with valkey_server("cluster") as cluster:
        url = with_parameter(cluster.url, "namespace=a")
        key = Address.parse(url).prefix
        async with opened_client(url) as client, opened_client(with_parameter(cluster.url, "namespace=b")) as other:
            assert (await client.call(COUNT), await other.call(COUNT)) == (1, 1)
            assert await client.read(("GET", f"{key}:count")) == [b"1"]
            killing = asyncio.to_thread(cluster.fail_over, key)

            answers = await asyncio.gather(killing, _calls(client, 20))

            assert len(answers[1]) == 20
            assert await other.call(COUNT) == 2
            assert client.call_now(ECHO, "x") == b"x"


async def test_a_node_of_a_cluster_is_no_single_server() -> None:
    with valkey_server("cluster", replicas=0) as cluster:
        key = Address.parse(cluster.url).prefix
        other = next(node for node in cluster.nodes if node is not cluster.master(key))
        client = RedisClient(Address.parse(other.url))

        with pytest.raises(BadURL, match=r"is a node of a cluster; write redis\+cluster:// instead$"):
            await client.call(ECHO, "x")
        await client.close()


async def test_a_slot_that_has_moved_is_followed() -> None:
    with valkey_server("cluster", replicas=0) as cluster:
        key = Address.parse(cluster.url).prefix
        async with opened_client(cluster.url) as client:
            assert await client.call(ECHO, "before") == b"before"
            old = cluster.master(key)
            new = next(node for node in cluster.nodes if node is not old)
            slot = str(old.command("CLUSTER", "KEYSLOT", key))
            name = str(new.command("CLUSTER", "MYID"))
            for node in (new, old, *cluster.nodes):
                node.command("CLUSTER", "SETSLOT", slot, "NODE", name)

            assert await asyncio.gather(*(client.call(ECHO, nth) for nth in range(5))) == [b"0", b"1", b"2", b"3", b"4"]
            assert int(new.facts("commandstats")["cmdstat_evalsha"].split("calls=")[1].split(",")[0]) > 0


async def test_sentinels_lead_to_the_new_master_in_the_middle_of_calls() -> None:
    with valkey_server("sentinel") as group:
        async with opened_client(group.url) as client:
            assert await client.call(COUNT) == 1
            killing = asyncio.to_thread(group.fail_over)

            answers = await asyncio.gather(killing, _calls(client, 20))

            assert len(answers[1]) == 20


async def test_a_service_that_no_sentinel_knows_is_said() -> None:
    with valkey_server("sentinel") as group:
        client = RedisClient(Address.parse(group.url.replace("/laneway/", "/other/")))

        with pytest.raises(StoreUnavailable, match=r"^the sentinels know no service 'other'$"):
            await client.open()


async def _calls(client: RedisClient, count: int) -> list[int]:
    """Make calls one after the other, each repeated while the store is not to be reached, as the engine does."""
    answers: list[int] = []
    while len(answers) < count:
        try:
            answers.append(await client.call(COUNT))
        except StoreUnavailable:
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.1)
    return answers
