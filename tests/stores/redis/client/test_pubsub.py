"""Wake-ups from real servers: they come, they come again after a server's death, and silence is noticed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable

import pytest

from laneway.stores.redis.client.address import Address
from laneway.stores.redis.client.background_loop import Beside
from laneway.stores.redis.client.client import Link
from laneway.stores.redis.client.pubsub import Hearing
from laneway.stores.redis.client.topology import Reach
from laneway.testing.servers import Server, valkey_server
from tests.stores.redis.tools import linked

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
async def link(redis_url: str) -> AsyncIterator[Link]:
    async with linked(redis_url) as link:
        yield link


async def test_a_listener_is_called_when_it_begins_to_hear_and_at_every_message(link: Link) -> None:
    calls, others = Calls(), Calls()
    link.hearing.listen(CHANNEL, calls)
    link.hearing.listen("other", others)
    await calls.reach(1)
    await others.reach(1)

    for nth in range(2, 5):
        assert await link.command("PUBLISH", CHANNEL, "x") == 1
        await calls.reach(nth)

    assert (calls.count, others.count) == (4, 1)
    assert link.hearing.healthy


async def test_listeners_of_one_channel_are_all_called_until_they_stop(link: Link) -> None:
    first, second = Calls(), Calls()
    stop = link.hearing.listen(CHANNEL, first)
    await first.reach(1)
    link.hearing.listen(CHANNEL, second)
    stop()
    stop()

    await link.command("PUBLISH", CHANNEL, "x")
    await second.reach(1)

    assert first.count == 1


async def test_a_callback_that_fails_does_not_keep_others_from_hearing(
    link: Link, caplog: pytest.LogCaptureFixture
) -> None:
    calls = Calls()

    def fail() -> None:
        raise RuntimeError("on purpose")

    link.hearing.listen(CHANNEL, fail)
    link.hearing.listen(CHANNEL, calls)

    await calls.reach(1)

    assert "a wake-up's callback failed" in caplog.text


async def test_a_thread_without_a_loop_can_listen(link: Link) -> None:
    calls = Calls()
    thread = threading.Thread(target=link.hearing.listen, args=(CHANNEL, calls))
    thread.start()
    thread.join()
    await calls.reach(1)

    assert await link.command("PUBLISH", CHANNEL, "x") == 1

    await calls.reach(2)


async def test_nobody_listening_leaves_no_connection_behind(redis_server: Server, redis_url: str) -> None:
    def subscribers() -> int:
        return str(redis_server.command("CLIENT", "LIST", "TYPE", "pubsub")).count("name=laneway ")

    before = subscribers()
    async with hearing(redis_url, quiet=0.05) as hears:
        calls = Calls()
        stop = hears.listen(CHANNEL, calls)
        kept = hears.listen("kept", calls)
        await calls.reach(2)
        assert subscribers() == before + 1

        stop()
        await until(lambda: str(redis_server.command("PUBSUB", "NUMSUB", CHANNEL)).endswith(" 0]"))
        kept()
        await until(lambda: subscribers() == before)
        hears.listen(CHANNEL, calls)
        await calls.reach(3)


def test_a_loop_that_ends_takes_its_listeners_along(redis_url: str) -> None:
    link = Link(Address.parse(redis_url))

    async def use() -> None:
        calls = Calls()
        link.hearing.listen(CHANNEL, calls)
        await calls.reach(1)

    asyncio.run(use())
    assert link.hearing.healthy, "who is gone with its loop counts no more"
    asyncio.run(use())
    asyncio.run(link.close())


async def test_after_a_restart_of_the_server_everybody_is_called_once_and_hears_again() -> None:
    with valkey_server() as server:
        async with linked(server.url) as link:
            calls = Calls()
            link.hearing.listen(CHANNEL, calls)
            await calls.reach(1)
            server.kill()
            await until(lambda: not link.hearing.healthy)
            server.restart()

            await calls.reach(2)
            await link.command("PUBLISH", CHANNEL, "x")
            await calls.reach(3)

            assert link.hearing.healthy


async def test_who_listens_before_the_server_is_up_hears_later() -> None:
    with valkey_server() as server:
        server.kill()
        link = Link(Address.parse(server.url))
        calls = Calls()
        link.hearing.listen(CHANNEL, calls)
        await asyncio.sleep(0.05)
        assert not link.hearing.healthy
        server.restart()

        await calls.reach(1)
        await link.close()


async def test_a_server_that_stands_still_is_noticed_and_left() -> None:
    with valkey_server() as server:
        async with hearing(server.url, quiet=0.1) as hears:
            calls = Calls()
            hears.listen(CHANNEL, calls)
            await calls.reach(1)
            server.stop()

            await until(lambda: not hears.healthy)
            server.cont()

            await calls.reach(2)
            assert hears.healthy


async def test_a_connection_that_is_only_quiet_is_kept() -> None:
    with valkey_server() as server:
        async with hearing(server.url, quiet=0.05) as hears:
            calls = Calls()
            hears.listen(CHANNEL, calls)
            await calls.reach(1)

            await until(lambda: "calls=4" in server.facts("commandstats").get("cmdstat_ping", ""), healthy=hears)

            assert calls.count == 1


async def test_in_a_cluster_a_failover_is_survived() -> None:
    with valkey_server("cluster") as cluster:
        async with linked(cluster.url) as link:
            calls = Calls()
            link.hearing.listen(CHANNEL, calls)
            await calls.reach(1)

            await asyncio.to_thread(cluster.fail_over, link.address.prefix)
            await calls.reach(2)
            cluster.master("another key").command("PUBLISH", CHANNEL, "x")

            await calls.reach(3)


class hearing:  # noqa: N801  # a context manager
    """Hears with a patience of its own."""

    def __init__(self, url: str, quiet: float) -> None:
        self._beside = Beside()
        self._hearing = Hearing(Reach(Address.parse(url)), self._beside, quiet)

    async def __aenter__(self) -> Hearing:
        return self._hearing

    async def __aexit__(self, *_: object) -> None:
        await self._hearing.close()
        self._beside.stop()


async def until(fact: Callable[[], bool], healthy: Hearing | None = None) -> None:
    """Wait until something is so; what must be healthy is so all the while."""
    async with asyncio.timeout(20):
        while not fact():
            assert healthy is None or healthy.healthy
            await asyncio.sleep(0.01)
