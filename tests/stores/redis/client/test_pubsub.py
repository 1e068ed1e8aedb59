"""Subscriptions at real servers: they take effect again after a restart, and silence is noticed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from laneway.stores.redis.client.address import Address
from laneway.stores.redis.client.background_loop import BackgroundLoop
from laneway.stores.redis.client.client import RedisClient
from laneway.stores.redis.client.pubsub import Subscriptions
from laneway.stores.redis.client.topology import Topology
from laneway.testing.servers import Server, valkey_server
from tests.stores.redis.tools import opened_client

CHANNEL = "laneway:{default}:said"


class Calls:
    """Counts how often it was called, and can be waited for."""

    def __init__(self) -> None:
        self.count = 0
        self._loop = asyncio.get_running_loop()
        self._more = asyncio.Event()

    def __call__(self) -> None:
        self.count += 1
        self._loop.call_soon_threadsafe(self._more.set)

    async def reach(self, count: int) -> None:
        while self.count < count:
            self._more.clear()
            if self.count < count:
                await asyncio.wait_for(self._more.wait(), 20)


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[RedisClient]:
    async with opened_client(redis_url) as client:
        yield client


async def test_a_callback_is_called_when_its_subscription_begins_and_at_every_message(client: RedisClient) -> None:
    calls, others = Calls(), Calls()
    client.subscriptions.subscribe(CHANNEL, calls)
    client.subscriptions.subscribe("other", others)
    await calls.reach(1)
    await others.reach(1)

    for nth in range(2, 5):
        assert await client.command("PUBLISH", CHANNEL, "x") == 1
        await calls.reach(nth)

    assert (calls.count, others.count) == (4, 1)
    assert client.subscriptions.healthy


async def test_callbacks_of_one_channel_are_all_called_until_they_stop(client: RedisClient) -> None:
    first, second = Calls(), Calls()
    stop = client.subscriptions.subscribe(CHANNEL, first)
    await first.reach(1)
    client.subscriptions.subscribe(CHANNEL, second)
    stop()
    stop()

    await client.command("PUBLISH", CHANNEL, "x")
    await second.reach(1)

    assert first.count == 1


async def test_a_callback_that_fails_does_not_stop_the_others(
    client: RedisClient, caplog: pytest.LogCaptureFixture
) -> None:
    calls = Calls()

    def fail() -> None:
        raise RuntimeError("on purpose")

    client.subscriptions.subscribe(CHANNEL, fail)
    client.subscriptions.subscribe(CHANNEL, calls)

    await calls.reach(1)

    assert "a wake-up's callback failed" in caplog.text


async def test_a_thread_without_a_loop_can_subscribe(client: RedisClient) -> None:
    calls = Calls()
    thread = threading.Thread(target=client.subscriptions.subscribe, args=(CHANNEL, calls))
    thread.start()
    thread.join()
    await calls.reach(1)

    assert await client.command("PUBLISH", CHANNEL, "x") == 1

    await calls.reach(2)


async def test_without_subscriptions_no_connection_is_left(redis_server: Server, redis_url: str) -> None:
    def subscribers() -> int:
        return str(redis_server.command("CLIENT", "LIST", "TYPE", "pubsub")).count("name=laneway ")

    before = subscribers()
    async with subscriptions(redis_url, 0.05) as found:
        calls = Calls()
        stop = found.subscribe(CHANNEL, calls)
        kept = found.subscribe("kept", calls)
        await calls.reach(2)
        assert subscribers() == before + 1

        stop()
        await until(lambda: str(redis_server.command("PUBSUB", "NUMSUB", CHANNEL)).endswith(" 0]"))
        kept()
        await until(lambda: subscribers() == before)
        found.subscribe(CHANNEL, calls)
        await calls.reach(3)


def test_a_loop_that_ends_ends_its_subscriptions(redis_url: str) -> None:
    client = RedisClient(Address.parse(redis_url))

    async def use() -> None:
        calls = Calls()
        client.subscriptions.subscribe(CHANNEL, calls)
        await calls.reach(1)

    asyncio.run(use())
    assert client.subscriptions.healthy, "who is gone with its loop counts no more"
    asyncio.run(use())
    asyncio.run(client.close())


async def test_after_a_restart_of_the_server_every_callback_is_called_once_and_gets_messages_again() -> None:
    with valkey_server() as server:
        async with opened_client(server.url) as client:
            calls = Calls()
            client.subscriptions.subscribe(CHANNEL, calls)
            await calls.reach(1)
            server.kill()
            await until(lambda: not client.subscriptions.healthy)
            server.restart()

            await calls.reach(2)
            await client.command("PUBLISH", CHANNEL, "x")
            await calls.reach(3)

            assert client.subscriptions.healthy


async def test_a_subscription_made_before_the_server_is_up_takes_effect_later() -> None:
    with valkey_server() as server:
        server.kill()
        client = RedisClient(Address.parse(server.url))
        calls = Calls()
        client.subscriptions.subscribe(CHANNEL, calls)
        await asyncio.sleep(0.05)
        assert not client.subscriptions.healthy
        server.restart()

        await calls.reach(1)
        await client.close()


async def test_a_server_that_stands_still_is_noticed_and_left() -> None:
    with valkey_server() as server:
        async with subscriptions(server.url, 0.1) as found:
            calls = Calls()
            found.subscribe(CHANNEL, calls)
            await calls.reach(1)
            server.stop()

            await until(lambda: not found.healthy)
            server.cont()

            await calls.reach(2)
            assert found.healthy


async def test_a_connection_that_is_only_quiet_is_kept() -> None:
    with valkey_server() as server:
        async with subscriptions(server.url, 0.05) as found:
            calls = Calls()
            found.subscribe(CHANNEL, calls)
            await calls.reach(1)

            await until(lambda: "calls=4" in server.facts("commandstats").get("cmdstat_ping", ""), healthy=found)

            assert calls.count == 1


async def test_in_a_cluster_a_failover_is_survived() -> None:
    with valkey_server("cluster") as cluster:
        async with opened_client(cluster.url) as client:
            calls = Calls()
            client.subscriptions.subscribe(CHANNEL, calls)
            await calls.reach(1)

            await asyncio.to_thread(cluster.fail_over, client.address.prefix)
            await calls.reach(2)
            cluster.master("another key").command("PUBLISH", CHANNEL, "x")

            await calls.reach(3)


@asynccontextmanager
async def subscriptions(url: str, silence: float) -> AsyncIterator[Subscriptions]:
    """Give subscriptions that send a PING after so many seconds of silence."""
    background = BackgroundLoop()
    found = Subscriptions(Topology(Address.parse(url)), background, silence)
    yield found
    await found.close()
    background.stop()


async def until(fact: Callable[[], bool], healthy: Subscriptions | None = None) -> None:
    """Wait until something is so; what must be healthy is so all the while."""
    async with asyncio.timeout(20):
        while not fact():
            assert healthy is None or healthy.healthy
            await asyncio.sleep(0.01)
