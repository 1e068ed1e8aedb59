"""A PostgreSQL store whose server dies under load and whose standby takes over: nothing is lost, doubled or stuck.

A synchronous standby has all that was acknowledged. Of an asynchronous one, `loss_rules` says what must hold.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack, suppress
from random import Random
from statistics import median
from typing import Any

import psycopg
import pytest

from laneway import Receipt, Scheduler, StoreUnavailable
from laneway.testing.servers import PostgresServer, postgres_server, postgres_standby
from tests.system.harness.forms import SHORT_LEASE, report, seeded, sized, time_limit
from tests.system.harness.process import Process
from tests.system.harness.stage import Stage
from tests.system.harness.until import until
from tests.system.load.app import hold, hold_in_thread, linger, stroll
from tests.system.oracle.check import check, check_after_loss
from tests.system.oracle.journal import Accepted, Entry, Started, Unanswered

pytestmark = [pytest.mark.system, time_limit()]

RUNS = sized(120, 200)  # per fail-over
SOON = 30  # seconds: a worker whose calls fail waits for 5 of them at most, a client for 8; a machine may be busy


def both(one: PostgresServer, other: PostgresServer, more: str = "") -> str:
    """Return the address that names both servers."""
    hosts = f"127.0.0.1:{one.port},127.0.0.1:{other.port}"
    return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write{more}"


async def _under_load(stage: Stage, random: Random, count: int) -> tuple[list[Process], Process]:
    fleet = [stage.worker(concurrency=8) for _ in range(2)]
    await stage.ready(*fleet)
    producer = stage.producer(seed=random.randrange(1000), count=count, pause=0.08, longest=0.05)
    await stage.submitting(producer)
    return fleet, producer


async def _goes_on(stage: Stage, producer: Process) -> float:
    """Wait until another run starts, and another submission is acknowledged; return the seconds that took."""
    return max(await asyncio.gather(*(_more(stage, what, producer) for what in (Started, Accepted))))


async def _more(stage: Stage, what: type[Entry], producer: Process) -> float:
    before = len(stage.journal.of(what))
    # A producer that has submitted everything shows the same.
    return await until(lambda: len(stage.journal.of(what)) > before or not producer.alive, "the work goes on")


async def _at_rest(stage: Stage, client: Scheduler, fleet: list[Process], producer: Process) -> None:
    assert await producer.ended(sized(60, 600)) == 0
    await stage.drained(client, within=sized(60, 600))
    await stage.stop(*fleet)


# A standby that has everything


async def test_a_standby_takes_over_from_a_killed_primary(stage: Stage) -> None:
    random, times, took = seeded(), sized(2, 20), list[float]()
    with ExitStack() as servers:
        primary: PostgresServer = servers.enter_context(postgres_server())
        standby = servers.enter_context(postgres_standby(primary))
        stage.url = both(primary, standby)
        fleet, producer = await _under_load(stage, random, RUNS * times)
        for nth in range(times):
            await stage.progress(random, 60)
            primary.kill()
            await asyncio.sleep(random.random() if nth % 2 else 0)
            standby.promote()
            took.append(await _goes_on(stage, producer))
            # The former primary comes back as a standby.
            primary, standby = standby, servers.enter_context(postgres_standby(standby, port=primary.port))
        async with stage.client() as client:
            await _at_rest(stage, client, fleet, producer)
            figures = await check(stage, client)
    acknowledged, unsure = len(stage.journal.of(Accepted)), len(stage.journal.of(Unanswered))
    report(f"{times} fail-overs, went on within {max(took):.1f} s; {acknowledged} acknowledged, {unsure} unsure")
    assert (figures.failed, figures.taken_over, figures.twice, unsure) == (0, 0, 0, 0)
    assert acknowledged == figures.runs == RUNS * times
    assert max(took) < SOON


@pytest.mark.chaos
async def test_a_standby_takes_over_from_a_primary_that_stands_still(stage: Stage) -> None:
    # As one whose machine is gone or cannot be reached: clients get no error.
    random = seeded()
    with postgres_server() as primary, postgres_standby(primary) as standby:
        stage.url = both(primary, standby, "&timeout=1")
        fleet, producer = await _under_load(stage, random, 300)
        await stage.progress(random, 60)
        primary.freeze()
        standby.promote()
        took = await _goes_on(stage, producer)
        async with stage.client() as client:
            await _at_rest(stage, client, fleet, producer)
            figures = await check(stage, client)
    report(f"went on within {took:.1f} s")
    assert (figures.failed, figures.taken_over, figures.twice) == (0, 0, 0)
    assert took < 2 * SOON


@pytest.mark.chaos
async def test_a_primary_that_waits_for_its_standby_goes_on_when_that_is_back(stage: Stage) -> None:
    random = seeded()
    with postgres_server() as primary, postgres_standby(primary) as standby:
        stage.url = both(primary, standby, "&timeout=1")
        fleet, producer = await _under_load(stage, random, 300)
        await stage.progress(random, 60)
        standby.freeze()
        await asyncio.sleep(8)
        standby.thaw()
        took = await _goes_on(stage, producer)
        async with stage.client() as client:
            await _at_rest(stage, client, fleet, producer)
            figures = await check(stage, client)
    report(f"went on within {took:.1f} s")
    assert (figures.failed, figures.taken_over, figures.twice) == (0, 0, 0)


@pytest.mark.chaos
async def test_what_is_executed_meanwhile_is_settled_and_who_listens_hears_again(stage: Stage) -> None:
    with postgres_server() as primary, postgres_standby(primary) as standby:
        stage.url = both(primary, standby)
        fleet = [stage.worker(concurrency=8, **SHORT_LEASE) for _ in range(2)]
        await stage.ready(*fleet)
        async with stage.client() as client:
            held = [await client.submit(task, {"gate": stage.gate()}) for task in (hold, hold_in_thread) * 4]
            for receipt in held:
                await stage.started(receipt.run_id)
            following = asyncio.create_task(_followed(client, held[0]))

            primary.kill()
            submitting = asyncio.create_task(client.submit(stroll))
            await asyncio.sleep(SHORT_LEASE["lease"] + 1)
            standby.promote()
            await client.result(await submitting, timeout=30)
            await client.result(await asyncio.to_thread(client.sync.submit, stroll), timeout=30)

            picked_up = [await _picked_up(stage, client) for _ in range(7)]
            stage.open_gate()
            kinds = await asyncio.wait_for(following, 30)
            await stage.drained(client)
            await stage.stop(*fleet)
            figures = await check(stage, client)
            fences = {(await client.get(receipt)).fence for receipt in held}
    report(f"picked up after {median(picked_up) * 1000:.1f} ms")
    assert kinds[-1] == "done"
    assert median(picked_up) < 0.3, "who looks once a second takes longer"
    assert fences == {1}
    assert (figures.failed, figures.taken_over, figures.twice) == (0, 0, 0)


async def _followed(client: Scheduler, receipt: Receipt) -> list[str]:
    return [event.kind async for event in client.events(receipt)]


async def _picked_up(stage: Stage, client: Scheduler) -> float:
    receipt, at = await client.submit(stroll), time.monotonic_ns()
    began = await stage.started(receipt.run_id)
    await client.result(receipt, timeout=30)
    return (began - at) / 1e9


@pytest.mark.chaos
async def test_a_run_and_a_row_of_one_transaction_live_or_die_together(stage: Stage) -> None:
    with postgres_server() as primary, postgres_standby(primary) as standby:
        stage.url = both(primary, standby)
        primary.execute("CREATE TABLE orders (run text)")
        async with stage.client() as client:
            await client.open()
            told, enough = list[str](), asyncio.Event()
            buying = [asyncio.create_task(buy(client, stage.url, told, enough)) for buy in (_buy, _buy_awaiting)]
            await until(lambda: len(told) > 20, "orders are made")
            primary.kill()
            standby.promote()
            before = len(told)
            await until(lambda: len(told) > before + 20, "orders are made again")
            enough.set()
            await asyncio.gather(*buying)
            runs = {run.id for run in await client.runs(limit=100_000)}
        orders = {run for (run,) in standby.execute("SELECT run FROM orders")}
    assert runs == orders
    assert set(told) <= orders


async def _buy(client: Scheduler, url: str, told: list[str], enough: asyncio.Event) -> None:
    while not enough.is_set():
        await asyncio.sleep(0.01)
        with suppress(psycopg.OperationalError, StoreUnavailable), psycopg.connect(url) as link:
            while not enough.is_set():
                receipt = await client.submit(stroll, connection=link)
                link.execute("INSERT INTO orders VALUES (%s)", (receipt.run_id,))
                link.commit()
                told.append(receipt.run_id)


async def _buy_awaiting(client: Scheduler, url: str, told: list[str], enough: asyncio.Event) -> None:
    while not enough.is_set():
        await asyncio.sleep(0.01)
        with suppress(psycopg.OperationalError, StoreUnavailable):
            async with await psycopg.AsyncConnection[Any].connect(url) as link:
                while not enough.is_set():
                    receipt = await client.submit(stroll, connection=link)
                    await link.execute("INSERT INTO orders VALUES (%s)", (receipt.run_id,))
                    await link.commit()
                    told.append(receipt.run_id)


# An address of one server, which becomes a standby


@pytest.mark.chaos
async def test_who_knows_only_a_server_that_becomes_a_standby_is_told_so_and_goes_on_when_it_is_promoted(
    stage: Stage,
) -> None:
    with postgres_server() as former, postgres_standby(former) as primary:
        stage.url = former.url
        worker = stage.worker()
        await stage.ready(worker)
        async with stage.client() as client:
            store = await client.open()
            early = await client.submit(stroll)
            await client.result(early, timeout=30)
            former.kill()
            primary.promote()
            with postgres_standby(primary, port=former.port) as standby:
                with pytest.raises(StoreUnavailable, match="cannot be written: it is a standby") as refusal:
                    await store.submit([])
                state = (await client.get(early)).state
                await stage.printed(worker, "read only")  # between two tries it waits for some seconds
                submitting = [asyncio.create_task(client.submit(stroll)) for _ in range(20)]
                await asyncio.sleep(1.5)  # so that they are refused at least once
                assert not any(task.done() for task in submitting)

                primary.kill()
                standby.promote()
                for receipt in await asyncio.gather(*submitting):
                    await client.result(receipt, timeout=30)
                await stage.stop(worker)
                figures = await check(stage, client)
    assert not refusal.value.maybe_done
    assert state.value == "succeeded", "what only reads is answered"
    assert (figures.runs, figures.attempts, figures.taken_over) == (21, 21, 0)


# A standby that lacks the last moments


async def test_an_asynchronous_standby_may_lose_the_last_moments_and_nothing_is_stuck(stage: Stage) -> None:
    random, times = seeded(), sized(1, 10)
    with ExitStack() as servers:
        primary: PostgresServer = servers.enter_context(postgres_server())
        standby = servers.enter_context(postgres_standby(primary, synchronous=False))
        stage.url = both(primary, standby)
        fleet, producer = await _under_load(stage, random, 2 * RUNS * times)
        for _ in range(times):
            await stage.progress(random, 60)
            standby.stop_streaming()
            fleet.append(stage.worker(concurrency=8))
            await stage.ready(fleet[-1])
            await stage.progress(random, 60)
            primary.kill()
            standby.promote()
            await _goes_on(stage, producer)
            again = postgres_standby(standby, port=primary.port, synchronous=False)
            primary, standby = standby, servers.enter_context(again)
        async with stage.client() as client:
            assert await producer.ended(sized(60, 600)) == 0
            await stage.drained(client, within=sized(60, 600))
            for receipt in await client.submit_many([(linger, {"takes": 0})] * 10):
                await client.result(receipt, timeout=20)
            await stage.stop(*fleet)
            gone = await check_after_loss(stage, client)
    report(f"{times} fail-overs, {gone} acknowledged runs gone")
    assert gone > 0
