"""Calls to real servers, from any loop and thread: each caller gets its own reply."""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import uvloop

from laneway.errors import NotAStore, StoreError, StoreUnavailable
from laneway.stores.redis.client.address import Address
from laneway.stores.redis.client.client import RedisClient
from laneway.stores.redis.client.errors import Refusal
from laneway.testing.servers import Server, valkey_server
from laneway.testing.servers.single import wait_until
from tests.stores.redis.tools import COUNT, ECHO, is_busy, lua, opened_client, until

WRITE = lua("return redis.call('SET', KEYS[1] .. ':x', ARGV[1])")


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[RedisClient]:
    async with opened_client(redis_url) as client:
        yield client


# Asking and answering


async def test_a_script_gets_the_prefix_and_its_arguments(client: RedisClient) -> None:
    answer = await client.call(lua("return {KEYS[1], ARGV[1], ARGV[2], #ARGV, false}"), "text", b"\x00\xff", 3)

    assert answer == [client.address.prefix.encode(), b"text", b"\x00\xff", 3, None]


async def test_a_script_that_the_server_has_forgotten_is_sent_again(client: RedisClient) -> None:
    assert await client.call(ECHO, "before") == b"before"
    await client.command("SCRIPT", "FLUSH")

    assert await client.call(ECHO, "after") == b"after"
    assert await client.command("SCRIPT", "EXISTS", ECHO.sha) == [1]


async def test_what_a_script_refuses_is_told_apart_from_what_goes_wrong(client: RedisClient) -> None:
    with pytest.raises(Refusal) as refused:
        await client.call(lua("return redis.error_reply('LANEWAY unknown 5')"))
    with pytest.raises(StoreError, match=r"could not do a call at test.lua:2: ") as wrong:
        await client.call(lua("local x = nil\nreturn x.y"))

    assert refused.value.text == "unknown 5"
    assert "\n" not in str(wrong.value)


async def test_reads_are_of_one_moment_and_answer_in_order(client: RedisClient) -> None:
    prefix = client.address.prefix
    await client.command("HSET", f"{prefix}:h", "a", 1)

    answers = await client.read(("HGETALL", f"{prefix}:h"), ("GET", f"{prefix}:none"), ("ECHO", "x"))

    assert answers == [[b"a", b"1"], None, b"x"]
    with pytest.raises(NotAStore):
        await client.read(("GET", f"{prefix}:h"))
    with pytest.raises(StoreError, match="NOSUCH"):
        await client.read(("NOSUCH",), ("PING",))
    assert await client.call(ECHO, "fine") == b"fine"


@pytest.mark.parametrize("cancelled_of_ten", [1, 5, 9])
async def test_a_thousand_cancelled_calls_never_give_their_answers_to_others(
    client: RedisClient, cancelled_of_ten: int
) -> None:
    chance = random.Random(cancelled_of_ten)
    asked = cancelled = 0

    async def ask(number: int) -> None:
        assert await client.call(ECHO, number) == str(number).encode()

    while cancelled < 1000:
        tasks = [asyncio.create_task(ask(asked + nth)) for nth in range(20)]
        asked += len(tasks)
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)
        for task in tasks:
            if chance.randrange(10) < cancelled_of_ten:
                cancelled += task.cancel()
        await asyncio.wait(tasks)
        assert all(task.cancelled() or task.exception() is None for task in tasks)
        await ask(-asked)


async def test_a_hundred_callers_share_one_connection(redis_server: Server, redis_url: str) -> None:
    def connections() -> int:
        return str(redis_server.command("CLIENT", "LIST")).count("name=laneway ")

    before = connections()
    async with opened_client(redis_url) as client:
        answers = await asyncio.gather(*(client.call(ECHO, number) for number in range(100)))

        assert answers == [str(number).encode() for number in range(100)]
        assert connections() == before + 1
    await until(lambda: connections() == before)


async def test_a_large_answer_comes_whole(client: RedisClient) -> None:
    text = "x" * 5_000_000

    assert await client.call(ECHO, text) == text.encode()


# Loops and threads


def test_every_loop_has_its_own_connection_and_leaves_it_in_peace(redis_url: str) -> None:
    client = RedisClient(Address.parse(redis_url))

    async def use() -> None:
        assert await client.call(ECHO, "x") == b"x"

    asyncio.run(use())
    threads = [threading.Thread(target=asyncio.run, args=(use(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    uvloop.run(use())
    asyncio.run(use())
    asyncio.run(client.close())


def test_a_closed_link_can_be_used_again(redis_url: str) -> None:
    async def use() -> None:
        async with opened_client(redis_url) as client:
            await client.call(ECHO, "x")
            client.call_now(ECHO, "x")
            await client.close()
            assert await client.call(ECHO, "y") == b"y"
            assert client.call_now(ECHO, "z") == b"z"

    asyncio.run(use())


async def test_a_call_from_a_blocked_loop_is_answered(client: RedisClient) -> None:
    # It runs on the loop's own thread, so nothing else of this loop can run until it returns.
    assert client.call_now(ECHO, "now") == b"now"
    with pytest.raises(Refusal):
        client.call_now(lua("return redis.error_reply('LANEWAY no')"))


async def test_closing_ends_the_calls_that_wait_and_leaves_no_connection_behind() -> None:
    with valkey_server(config={"lua-time-limit": "10"}) as server:
        async with opened_client(server.url) as client:
            waiting = asyncio.create_task(client.command("BLPOP", "nothing", 0))
            thread = asyncio.create_task(asyncio.to_thread(client.call_now, lua("while true do end")))
            await until(lambda: is_busy(server))

            await client.close()

            with pytest.raises(StoreUnavailable, match="the store was closed") as caught:
                await waiting
            with pytest.raises(StoreUnavailable, match="the store was closed"):
                await thread
            assert caught.value.maybe_done
            server.command("SCRIPT", "KILL")
            await until(lambda: not is_busy(server))
            await until(lambda: "name=laneway" not in str(server.command("CLIENT", "LIST")))


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_loop_that_stood_still_finds_its_answers(redis_url: str, run: Callable[[Any], None]) -> None:
    async def use() -> None:
        async with opened_client(redis_url, timeout=0.1) as client:
            for _ in range(3):
                waiting = [asyncio.create_task(client.call(ECHO, nth)) for nth in range(3)]
                await asyncio.sleep(0)
                time.sleep(0.2)  # noqa: ASYNC251  # a handler that blocks the loop

                assert await asyncio.gather(*waiting) == [b"0", b"1", b"2"]

    run(use())


async def test_calls_from_many_threads_are_each_answered(client: RedisClient) -> None:
    answers = await asyncio.gather(*(asyncio.to_thread(client.call_now, ECHO, number) for number in range(30)))

    assert answers == [str(number).encode() for number in range(30)]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_makes_connections_of_its_own(redis_server: Server, redis_url: str) -> None:
    client = RedisClient(Address.parse(redis_url))

    async def use(who: str) -> None:
        heard = asyncio.Event()
        stop = client.subscriptions.subscribe("channel", heard.set)
        while not heard.is_set():
            await client.command("PUBLISH", "channel", who)
        for nth in range(50):
            assert await client.call(ECHO, f"{who}{nth}") == f"{who}{nth}".encode()
            assert client.call_now(ECHO, f"{who}{nth}") == f"{who}{nth}".encode()
        stop()

    async def fork() -> int:
        await use("before")
        child = os.fork()
        if not child:
            with ThreadPoolExecutor(1) as pool:
                failure = pool.submit(asyncio.run, use("child")).exception(30)
            os._exit(1 if failure else 0)
        await use("parent")
        return child

    child = asyncio.run(fork())

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    asyncio.run(client.close())
    wait_until(lambda: "name=laneway " not in str(redis_server.command("CLIENT", "LIST")), "all have left")


async def test_a_socket_is_as_good_as_a_port(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("s") / "v.sock"
    with valkey_server(config={"unixsocket": str(path)}):
        async with opened_client(f"unix://{path}?db=3") as client:
            assert await client.call(COUNT) == 1
            assert "db3" in await client.info("keyspace")
