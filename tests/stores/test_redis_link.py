"""Calls to real servers: whose answer is whose, and what a call does when the server goes away."""

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

from laneway.errors import BadURL, NotAStore, StoreError, StoreUnavailable
from laneway.stores.redis.address import Address
from laneway.stores.redis.link import Link
from laneway.stores.redis.trouble import Refusal
from laneway.testing.servers import Server, ValkeyServer, valkey_server
from laneway.testing.servers.single import wait_until
from tests.stores.redis_tools import COUNT, ECHO, linked, lua, with_parameter

WRITE = lua("return redis.call('SET', KEYS[1] .. ':x', ARGV[1])")


@pytest.fixture
async def link(redis_url: str) -> AsyncIterator[Link]:
    async with linked(redis_url) as link:
        yield link


# Asking and answering


async def test_a_script_gets_the_prefix_and_its_arguments(link: Link) -> None:
    answer = await link.call(lua("return {KEYS[1], ARGV[1], ARGV[2], #ARGV, false}"), "text", b"\x00\xff", 3)

    assert answer == [link.address.prefix.encode(), b"text", b"\x00\xff", 3, None]


async def test_a_script_that_the_server_has_forgotten_is_sent_again(link: Link) -> None:
    assert await link.call(ECHO, "before") == b"before"
    await link.command("SCRIPT", "FLUSH")

    assert await link.call(ECHO, "after") == b"after"
    assert await link.command("SCRIPT", "EXISTS", ECHO.sha) == [1]


async def test_what_a_script_refuses_is_told_apart_from_what_goes_wrong(link: Link) -> None:
    with pytest.raises(Refusal) as refused:
        await link.call(lua("return redis.error_reply('LANEWAY unknown 5')"))
    with pytest.raises(StoreError, match=r"could not do a call at test.lua:2: ") as wrong:
        await link.call(lua("local x = nil\nreturn x.y"))

    assert refused.value.text == "unknown 5"
    assert "\n" not in str(wrong.value)


async def test_reads_are_of_one_moment_and_answer_in_order(link: Link) -> None:
    prefix = link.address.prefix
    await link.command("HSET", f"{prefix}:h", "a", 1)

    answers = await link.read(("HGETALL", f"{prefix}:h"), ("GET", f"{prefix}:none"), ("ECHO", "x"))

    assert answers == [[b"a", b"1"], None, b"x"]
    with pytest.raises(NotAStore):
        await link.read(("GET", f"{prefix}:h"))
    with pytest.raises(StoreError, match="NOSUCH"):
        await link.read(("NOSUCH",), ("PING",))
    assert await link.call(ECHO, "fine") == b"fine"


@pytest.mark.parametrize("cancelled_of_ten", [1, 5, 9])
async def test_a_thousand_cancelled_calls_never_give_their_answers_to_others(link: Link, cancelled_of_ten: int) -> None:
    chance = random.Random(cancelled_of_ten)
    asked = cancelled = 0

    async def ask(number: int) -> None:
        assert await link.call(ECHO, number) == str(number).encode()

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
    async with linked(redis_url) as link:
        answers = await asyncio.gather(*(link.call(ECHO, number) for number in range(100)))

        assert answers == [str(number).encode() for number in range(100)]
        assert connections() == before + 1
    await _until(lambda: connections() == before)


async def test_a_large_answer_comes_whole(link: Link) -> None:
    text = "x" * 5_000_000

    assert await link.call(ECHO, text) == text.encode()


# Loops and threads


def test_every_loop_has_its_own_connection_and_leaves_it_in_peace(redis_url: str) -> None:
    link = Link(Address.parse(redis_url))

    async def use() -> None:
        assert await link.call(ECHO, "x") == b"x"

    asyncio.run(use())
    threads = [threading.Thread(target=asyncio.run, args=(use(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    uvloop.run(use())
    asyncio.run(use())
    asyncio.run(link.close())


def test_a_closed_link_can_be_used_again(redis_url: str) -> None:
    async def use() -> None:
        async with linked(redis_url) as link:
            await link.call(ECHO, "x")
            link.call_now(ECHO, "x")
            await link.close()
            assert await link.call(ECHO, "y") == b"y"
            assert link.call_now(ECHO, "z") == b"z"

    asyncio.run(use())


async def test_a_call_from_a_blocked_loop_is_answered(link: Link) -> None:
    # It runs on the loop's own thread, so nothing else of this loop can run until it returns.
    assert link.call_now(ECHO, "now") == b"now"
    with pytest.raises(Refusal):
        link.call_now(lua("return redis.error_reply('LANEWAY no')"))


async def test_closing_ends_the_calls_that_wait_and_leaves_no_connection_behind() -> None:
    with valkey_server(config={"lua-time-limit": "10"}) as server:
        async with linked(server.url) as link:
            waiting = asyncio.create_task(link.command("BLPOP", "nothing", 0))
            thread = asyncio.create_task(asyncio.to_thread(link.call_now, lua("while true do end")))
            await _until(lambda: _is_busy(server))

            await link.close()

            with pytest.raises(StoreUnavailable, match="the store was closed") as caught:
                await waiting
            with pytest.raises(StoreUnavailable, match="the store was closed"):
                await thread
            assert caught.value.maybe_done
            server.command("SCRIPT", "KILL")
            await _until(lambda: not _is_busy(server))
            await _until(lambda: "name=laneway" not in str(server.command("CLIENT", "LIST")))


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_loop_that_stood_still_finds_its_answers(redis_url: str, run: Callable[[Any], None]) -> None:
    async def use() -> None:
        async with linked(redis_url, timeout=0.1) as link:
            for _ in range(3):
                waiting = [asyncio.create_task(link.call(ECHO, nth)) for nth in range(3)]
                await asyncio.sleep(0)
                time.sleep(0.2)  # noqa: ASYNC251  # a handler that blocks the loop

                assert await asyncio.gather(*waiting) == [b"0", b"1", b"2"]

    run(use())


async def test_calls_from_many_threads_are_each_answered(link: Link) -> None:
    answers = await asyncio.gather(*(asyncio.to_thread(link.call_now, ECHO, number) for number in range(30)))

    assert answers == [str(number).encode() for number in range(30)]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_makes_connections_of_its_own(redis_server: Server, redis_url: str) -> None:
    link = Link(Address.parse(redis_url))

    async def use(who: str) -> None:
        heard = asyncio.Event()
        stop = link.hearing.listen("channel", heard.set)
        while not heard.is_set():
            await link.command("PUBLISH", "channel", who)
        for nth in range(50):
            assert await link.call(ECHO, f"{who}{nth}") == f"{who}{nth}".encode()
            assert link.call_now(ECHO, f"{who}{nth}") == f"{who}{nth}".encode()
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
    asyncio.run(link.close())
    wait_until(lambda: "name=laneway " not in str(redis_server.command("CLIENT", "LIST")), "all have left")


async def test_a_socket_is_as_good_as_a_port(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("s") / "v.sock"
    with valkey_server(config={"unixsocket": str(path)}):
        async with linked(f"unix://{path}?db=3") as link:
            assert await link.call(COUNT) == 1
            assert "db3" in await link.info("keyspace")


# Servers that go away


async def test_nobody_there_is_said_at_once_with_the_address() -> None:
    with valkey_server() as server:
        server.kill()
        link = Link(Address.parse(server.url.replace("redis://", "redis://ann:secret@")))
        began = time.monotonic()

        with pytest.raises(StoreUnavailable) as caught:
            await link.open()

        assert time.monotonic() - began < 1
        assert str(caught.value) == (
            f"cannot connect to 127.0.0.1:{server.port}: connection refused; is the server running there?"
        )
        assert not caught.value.maybe_done


async def test_a_name_that_nobody_has_is_said() -> None:
    with pytest.raises(StoreUnavailable, match=r"^cannot connect to no-such-host.invalid:6379: "):
        await Link(Address.parse("redis://no-such-host.invalid")).open()


async def test_a_server_that_was_restarted_between_two_calls_is_not_noticed() -> None:
    with valkey_server(appendonly=True) as server:
        async with linked(server.url) as link:
            assert await link.call(COUNT) == 1
            server.kill()
            server.restart()

            assert await asyncio.gather(*(link.call(COUNT) for _ in range(20))) == list(range(2, 22))
            assert link.call_now(COUNT) == 22


async def test_a_server_that_dies_during_a_call_leaves_it_in_doubt() -> None:
    with valkey_server() as server:
        async with linked(server.url) as link:
            waiting = asyncio.create_task(link.command("BLPOP", "nothing", 0))
            await _until(lambda: _blocked(server) == 1)
            server.kill()

            with pytest.raises(StoreUnavailable) as caught:
                await waiting
            with pytest.raises(StoreUnavailable) as later:
                await link.call(ECHO, "x")

    assert caught.value.maybe_done
    assert not later.value.maybe_done


async def test_a_connection_that_breaks_during_a_call_has_it_made_again() -> None:
    with valkey_server() as server:
        async with linked(server.url) as link:
            waiting = asyncio.create_task(link.command("BLPOP", "list", 0))
            await _until(lambda: _blocked(server) == 1)
            server.command("CLIENT", "KILL", "TYPE", "normal")
            await _until(lambda: _blocked(server) == 1)
            server.command("RPUSH", "list", "came")

            assert await waiting == [b"list", b"came"]


async def test_a_server_that_stands_still_is_given_up_in_time_and_found_again() -> None:
    with valkey_server() as server:
        async with linked(server.url, timeout=0.3) as link:
            server.stop()
            began = time.monotonic()

            calls = [asyncio.create_task(link.call(COUNT)) for _ in range(5)]
            failed = await asyncio.gather(*calls, return_exceptions=True)
            took = time.monotonic() - began
            with pytest.raises(StoreUnavailable, match=r"within 0\.3 s") as later:
                await link.call(COUNT)
            server.cont()

            assert took < 2
            assert all(isinstance(error, StoreUnavailable) and error.maybe_done for error in failed)
            assert not later.value.maybe_done
            assert await link.call(ECHO, "x") == b"x"


async def test_a_server_that_is_busy_or_loading_is_asked_again() -> None:
    with valkey_server(config={"lua-time-limit": "10"}) as server:
        async with linked(server.url) as link, linked(server.url) as other:
            endless = asyncio.create_task(other.call(lua("while true do end")))
            await _until(lambda: _is_busy(server))

            waiting = asyncio.create_task(link.call(ECHO, "x"))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            server.command("SCRIPT", "KILL")

            assert await waiting == b"x"
            with pytest.raises(StoreError):
                await endless


async def test_a_replica_is_asked_again_until_it_is_a_master() -> None:
    with valkey_server() as server:
        async with linked(server.url) as link, linked(server.url, timeout=0.2) as impatient:
            server.command("REPLICAOF", "127.0.0.1", 1)
            waiting = asyncio.create_task(link.call(WRITE, "x"))
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
        async with linked(url) as link, linked(with_parameter(cluster.url, "namespace=b")) as other:
            assert (await link.call(COUNT), await other.call(COUNT)) == (1, 1)
            assert await link.read(("GET", f"{key}:count")) == [b"1"]
            killing = asyncio.to_thread(cluster.fail_over, key)

            answers = await asyncio.gather(killing, _calls(link, 20))

            assert len(answers[1]) == 20
            assert await other.call(COUNT) == 2
            assert link.call_now(ECHO, "x") == b"x"


async def test_a_node_of_a_cluster_is_no_single_server() -> None:
    with valkey_server("cluster", replicas=0) as cluster:
        key = Address.parse(cluster.url).prefix
        other = next(node for node in cluster.nodes if node is not cluster.master(key))
        link = Link(Address.parse(other.url))

        with pytest.raises(BadURL, match=r"is a node of a cluster; write redis\+cluster:// instead$"):
            await link.call(ECHO, "x")
        await link.close()


async def test_a_slot_that_has_moved_is_followed() -> None:
    with valkey_server("cluster", replicas=0) as cluster:
        key = Address.parse(cluster.url).prefix
        async with linked(cluster.url) as link:
            assert await link.call(ECHO, "before") == b"before"
            old = cluster.master(key)
            new = next(node for node in cluster.nodes if node is not old)
            slot = str(old.command("CLUSTER", "KEYSLOT", key))
            name = str(new.command("CLUSTER", "MYID"))
            for node in (new, old, *cluster.nodes):
                node.command("CLUSTER", "SETSLOT", slot, "NODE", name)

            assert await asyncio.gather(*(link.call(ECHO, nth) for nth in range(5))) == [b"0", b"1", b"2", b"3", b"4"]
            assert int(new.facts("commandstats")["cmdstat_evalsha"].split("calls=")[1].split(",")[0]) > 0


async def test_sentinels_lead_to_the_new_master_in_the_middle_of_calls() -> None:
    with valkey_server("sentinel") as group:
        async with linked(group.url) as link:
            assert await link.call(COUNT) == 1
            killing = asyncio.to_thread(group.fail_over)

            answers = await asyncio.gather(killing, _calls(link, 20))

            assert len(answers[1]) == 20


async def test_a_service_that_no_sentinel_knows_is_said() -> None:
    with valkey_server("sentinel") as group:
        link = Link(Address.parse(group.url.replace("/laneway/", "/other/")))

        with pytest.raises(StoreUnavailable, match=r"^the sentinels know no service 'other'$"):
            await link.open()


async def _calls(link: Link, count: int) -> list[int]:
    """Make calls one after the other, each repeated while the store is not to be reached, as the engine does."""
    answers: list[int] = []
    while len(answers) < count:
        try:
            answers.append(await link.call(COUNT))
        except StoreUnavailable:
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.1)
    return answers


def _blocked(server: ValkeyServer) -> int:
    return int(server.facts("clients")["blocked_clients"])


def _is_busy(server: Server) -> bool:
    try:
        server.command("PING")
    except Exception as error:  # noqa: BLE001  # whatever it raises for BUSY
        return "BUSY" in str(error)
    return False


async def _until(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not fact():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)
