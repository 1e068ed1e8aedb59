"""Staying alive and taking over: leases, lapses, graces, and the dead that never come back."""

from __future__ import annotations

import asyncio

import pytest

from laneway.core.common.instants import SECOND
from laneway.core.lifecycle.outcome import Succeeded
from laneway.core.records.liveness import LEASE
from laneway.core.records.policy import Lane
from laneway.core.records.run import Claimed
from laneway.core.records.states import RunState
from laneway.errors import LeaseLost
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, new_run, new_runs
from tests.contract.suite.frame import Part, ids, states

SECONDS = LEASE / SECOND  # a lease, in seconds


async def pass_time(clock: FakeClock, seconds: float, *alive: Hand) -> None:
    """Let time go by while these workers renew as they should."""
    while seconds > 0:
        await clock.advance(min(5, seconds))
        seconds -= 5
        for hand in alive:
            hand.renew()


async def dead_and_heir(store: Store, runs: int = 1) -> tuple[Hand, list[Claimed], Hand]:
    """Return a worker that executes some runs, the runs, and another worker."""
    dead, heir = await Hand(store, "dead").register(), await Hand(store, "heir").register()
    await store.submit(new_runs(runs, "r"))
    return dead, await dead.claim(runs), heir


class TestLeases(Part):
    """`WorkerStore.register`, `renew`, `reclaim`, `leave` and `workers`."""

    async def test_workers_are_listed_oldest_first(self, store: Store, clock: FakeClock) -> None:
        first = await Hand(store, "z-first", tasks={"a", "b"}).register()
        await clock.advance(2)
        await Hand(store, "a-second").register()
        await store.submit([new_run(task="a")])
        await first.claim()

        one, two = await store.workers()

        assert (one.incarnation, two.incarnation.id) == (first.incarnation, "a-second")
        assert (one.running, one.idle, one.renewed_at) == (1, False, clock.now() - 2 * SECOND)
        assert (two.running, two.idle, two.renewed_at) == (0, False, clock.now())

    async def test_a_renewal_lists_the_leases_the_store_knows(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(3, "r"))
        assert hand.renew().leases == []
        first, second, third = await hand.claim(3)
        await hand.succeed(second)
        await clock.advance(3)

        reply = hand.renew()

        assert sorted(reply.leases) == sorted([(first.number, 1), (third.number, 1)])
        [info] = await store.workers()
        assert info.renewed_at == reply.now == clock.now()

    async def test_a_renewal_can_be_made_from_a_thread_of_its_own(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(20, "r"))

        steps = [hand.claim(1) for _ in range(1)]
        replies = await asyncio.gather(*(asyncio.to_thread(hand.renew) for _ in range(8)), *steps)

        assert len(replies) == 9
        assert len((await asyncio.to_thread(hand.renew)).leases) == 1

    async def test_a_lapsed_lease_makes_the_run_claimable_again(self, store: Store, clock: FakeClock) -> None:
        _, [claimed], heir = await dead_and_heir(store)

        await pass_time(clock, SECONDS, heir)
        assert (await heir.reclaim()).lapsed == []
        await pass_time(clock, 1, heir)
        [lapsed] = (await heir.reclaim()).lapsed

        assert (lapsed.id, lapsed.fence, lapsed.lapsed, lapsed.worker) == (claimed.id, claimed.fence, True, "dead")
        assert await states(store, claimed.id) == [RunState.RUNNING]
        await heir.lapse(lapsed)
        [again] = await heir.claim()
        assert (again.id, again.fence, again.crashes, again.worker) == (claimed.id, 2, 1, "heir")

    async def test_a_worker_that_renews_is_never_reclaimed(self, store: Store, clock: FakeClock) -> None:
        busy, [claimed], heir = await dead_and_heir(store)

        for _ in range(20):
            await pass_time(clock, 5, busy, heir)
            assert (await heir.reclaim()).lapsed == []

        assert (await busy.succeed(claimed)).refused == []

    async def test_a_worker_that_was_silent_goes_on_if_nobody_acted_on_it(self, store: Store, clock: FakeClock) -> None:
        slow, [claimed], heir = await dead_and_heir(store)
        await pass_time(clock, SECONDS + 10, heir)

        slow.renew()

        assert (await heir.reclaim()).lapsed == []
        assert (await slow.succeed(claimed)).refused == []

    async def test_a_lapsed_incarnation_never_becomes_valid_again(self, store: Store, clock: FakeClock) -> None:
        dead, [claimed], heir = await dead_and_heir(store)
        await pass_time(clock, SECONDS + 1, heir)
        await heir.reclaim()

        with pytest.raises(LeaseLost):
            dead.renew()
        with pytest.raises(LeaseLost):
            await dead.succeed(claimed)
        with pytest.raises(LeaseLost):
            await dead.reclaim()

        assert [worker.incarnation.id for worker in await store.workers()] == ["heir"]
        assert await states(store, claimed.id) == [RunState.RUNNING]

    async def test_a_lapsed_incarnation_that_held_nothing_is_gone_too(self, store: Store, clock: FakeClock) -> None:
        dead, heir = await Hand(store, "dead").register(), await Hand(store, "heir").register()
        await pass_time(clock, SECONDS + 1, heir)

        await heir.reclaim()

        with pytest.raises(LeaseLost):
            dead.renew()
        assert [info.incarnation.id for info in await store.workers()] == ["heir"]

    async def test_slots_stay_taken_until_the_lapse_is_settled(self, store: Store) -> None:
        await store.declare_lanes([Lane("main", limit=1)])
        dead, _, heir = await dead_and_heir(store, 2)
        await dead.leave()

        assert await heir.claim(5) == []
        lapsed = (await heir.reclaim()).lapsed
        assert await heir.claim(5) == []

        assert ids((await heir.lapse(*lapsed, room=5)).claimed) == ["r-00000"]

    async def test_an_outage_of_half_a_lease_starts_a_grace_in_which_nobody_is_reclaimed(
        self, store: Store, clock: FakeClock
    ) -> None:
        slow, [claimed], heir = await dead_and_heir(store)

        await clock.advance(SECONDS + 1)
        assert (await heir.reclaim()).lapsed == []
        await pass_time(clock, SECONDS - 1, heir)
        assert (await heir.reclaim()).lapsed == []

        slow.renew()
        assert (await slow.succeed(claimed)).refused == []

    async def test_after_the_grace_the_dead_are_reclaimed(self, store: Store, clock: FakeClock) -> None:
        _, [claimed], heir = await dead_and_heir(store)
        await clock.advance(SECONDS + 1)
        heir.renew()

        await pass_time(clock, SECONDS, heir)

        assert ids((await heir.reclaim()).lapsed) == [claimed.id]

    async def test_a_reclaim_judges_the_grace_before_the_lapse(self, store: Store, clock: FakeClock) -> None:
        _, _, heir = await dead_and_heir(store)

        await clock.advance(SECONDS * 3)

        assert (await heir.reclaim()).lapsed == []

    async def test_a_worker_that_registers_after_an_outage_starts_the_grace_too(
        self, store: Store, clock: FakeClock
    ) -> None:
        slow, [claimed], _ = await dead_and_heir(store)
        await clock.advance(SECONDS + 1)

        young = await Hand(store, "young").register()

        assert (await young.reclaim()).lapsed == []
        assert (await slow.succeed(claimed)).refused == []

    async def test_a_process_seen_to_be_gone_is_reclaimed_at_once(self, store: Store) -> None:
        dead, [claimed], heir = await dead_and_heir(store)

        reply = await heir.reclaim("dead", "never heard of")

        assert ids(reply.lapsed) == [claimed.id]
        with pytest.raises(LeaseLost):
            dead.renew()

    async def test_a_process_seen_to_be_gone_is_reclaimed_also_in_a_grace(self, store: Store, clock: FakeClock) -> None:
        _, [claimed], heir = await dead_and_heir(store)
        await clock.advance(SECONDS * 2)
        heir.renew()

        reply = await heir.reclaim("dead")

        assert ids(reply.lapsed) == [claimed.id]

    async def test_a_worker_that_left_is_reclaimed_at_once_and_also_in_a_grace(
        self, store: Store, clock: FakeClock
    ) -> None:
        left, [claimed], heir = await dead_and_heir(store)
        await clock.advance(SECONDS * 2)

        await left.leave()

        assert ids((await heir.reclaim()).lapsed) == [claimed.id]

    async def test_a_worker_that_left_is_not_alive(self, store: Store) -> None:
        left, [claimed], _ = await dead_and_heir(store)

        await left.leave()

        with pytest.raises(LeaseLost):
            left.renew()
        with pytest.raises(LeaseLost):
            await left.succeed(claimed)
        with pytest.raises(LeaseLost):
            await left.reclaim()

    async def test_a_worker_that_left_is_listed_while_it_holds_leases(self, store: Store) -> None:
        left, claimed, heir = await dead_and_heir(store, 2)

        await left.leave()
        one, two = await store.workers()
        assert (one.incarnation.id, one.left, one.running) == ("dead", True, 2)
        assert (two.incarnation.id, two.left, two.running) == ("heir", False, 0)
        await heir.reclaim(limit=1)
        assert [(worker.left, worker.running) for worker in await store.workers()] == [(True, 1), (False, 1)]
        await heir.reclaim()

        [info] = await store.workers()
        assert (info.incarnation.id, info.left, info.running) == ("heir", False, len(claimed))

    async def test_a_worker_that_left_and_holds_nothing_is_not_listed(self, store: Store) -> None:
        left, [claimed], _ = await dead_and_heir(store)
        await left.succeed(claimed)

        await left.leave()

        assert [worker.incarnation.id for worker in await store.workers()] == ["heir"]

    async def test_only_a_live_incarnation_reclaims(self, store: Store) -> None:
        dead, _, _ = await dead_and_heir(store)
        await dead.leave()

        with pytest.raises(LeaseLost):
            await store.reclaim("stranger", ["heir"])

    async def test_a_worker_never_reclaims_from_itself(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a")])
        [claimed] = await hand.claim()

        assert (await hand.reclaim("hand")).lapsed == []

        assert (await hand.succeed(claimed)).refused == []

    async def test_a_repeated_reclaim_returns_what_was_not_settled_yet(self, store: Store) -> None:
        dead, _, heir = await dead_and_heir(store, 3)
        await dead.leave()
        reply = await heir.reclaim()

        again = await heir.reclaim()

        assert again == reply
        first, *rest = reply.lapsed
        await heir.lapse(first)
        assert ids((await heir.reclaim()).lapsed) == ids(rest)

    async def test_two_heirs_never_take_over_the_same_run(self, store: Store) -> None:
        dead, _, heir = await dead_and_heir(store, 4)
        other = await Hand(store, "other").register()
        await dead.leave()

        mine, yours = await heir.reclaim(limit=2), await other.reclaim()

        assert len(ids(mine.lapsed)) == len(ids(yours.lapsed)) == 2
        assert not set(ids(mine.lapsed)) & set(ids(yours.lapsed))
        assert (await other.lapse(*mine.lapsed)).refused == [(run.number, run.fence) for run in mine.lapsed]

    async def test_a_reclaim_is_bounded_and_says_more(self, store: Store) -> None:
        dead, claimed, heir = await dead_and_heir(store, 7)
        await dead.leave()
        settled: list[str] = []
        sizes: list[tuple[int, bool]] = []

        while len(settled) < 7:
            reply = await heir.reclaim(limit=3)
            sizes.append((len(reply.lapsed), reply.more))
            settled += ids(reply.lapsed)
            await heir.lapse(*reply.lapsed)

        assert sizes == [(3, True), (3, True), (1, False)]
        assert sorted(settled) == sorted(ids(claimed))

    async def test_a_reclaim_hands_over_no_more_while_what_it_gave_is_not_settled(self, store: Store) -> None:
        dead, _, heir = await dead_and_heir(store, 7)
        await dead.leave()
        first = await heir.reclaim(limit=3)

        again = await heir.reclaim(limit=3)

        assert again == first
        assert (len(again.lapsed), again.more) == (3, True)
        await heir.lapse(*again.lapsed[:2])
        assert len((await heir.reclaim(limit=3)).lapsed) == 3

    async def test_a_dead_incarnation_stays_dead_between_two_bounded_reclaims(self, store: Store) -> None:
        dead, claimed, heir = await dead_and_heir(store, 4)

        await heir.reclaim("dead", limit=1)

        with pytest.raises(LeaseLost):
            await dead.step(results=[dead.result(run, Succeeded("1")) for run in claimed])
        assert len((await heir.reclaim()).lapsed) == 4

    async def test_many_hundreds_are_reclaimed(self, store: Store) -> None:
        await store.declare_lanes([Lane("main", limit=1000)])
        dead, claimed, heir = await dead_and_heir(store, 900)
        await dead.leave()
        lapsed: list[str] = []

        more = True
        while more:
            reply = await heir.reclaim()
            more = reply.more
            lapsed += ids(reply.lapsed)
            await heir.lapse(*reply.lapsed)

        assert sorted(lapsed) == sorted(ids(claimed))

    async def test_an_heir_that_dies_leaves_what_it_took_over_to_the_next(self, store: Store) -> None:
        dead, [claimed], heir = await dead_and_heir(store)
        last = await Hand(store, "last").register()
        await dead.leave()
        await heir.reclaim()
        await heir.leave()

        [lapsed] = (await last.reclaim()).lapsed
        await last.lapse(lapsed)

        assert (lapsed.id, lapsed.worker) == (claimed.id, "dead")
        run = await store.get(claimed.id)
        assert (run.state, run.crashes) == (RunState.PENDING, 1)

    async def test_a_renewal_lists_leases_that_were_taken_over(self, store: Store) -> None:
        dead, [claimed], heir = await dead_and_heir(store)
        await dead.leave()
        await heir.reclaim()

        assert heir.renew().leases == [(claimed.number, claimed.fence)]

    async def test_a_clock_that_jumped_ahead_is_not_a_death(self, store: Store, clock: FakeClock) -> None:
        slow, [claimed], heir = await dead_and_heir(store)

        clock.step(86_400)
        assert (await heir.reclaim()).lapsed == []
        slow.renew()
        await pass_time(clock, SECONDS * 2, slow, heir)

        assert (await heir.reclaim()).lapsed == []
        assert (await slow.succeed(claimed)).refused == []

    async def test_a_clock_that_was_set_back_is_not_a_death_and_hides_none(
        self, store: Store, clock: FakeClock
    ) -> None:
        slow, _, heir = await dead_and_heir(store)
        dead = await Hand(store, "really dead").register()
        await store.submit([new_run("lost")])
        await dead.claim()
        clock.step(86_400)
        for hand in (slow, heir, dead):
            hand.renew()

        clock.step(-86_400)
        assert (await heir.reclaim()).lapsed == []
        await pass_time(clock, SECONDS + 5, slow, heir)

        assert ids((await heir.reclaim()).lapsed) == ["lost"]

    async def test_leases_may_have_different_lengths(self, store: Store, clock: FakeClock) -> None:
        short = await Hand(store, "short", lease=4 * SECOND).register()
        long = await Hand(store, "long", lease=60 * SECOND).register()
        heir = await Hand(store, "heir").register()
        await store.submit(new_runs(2, "r"))
        [mine], _ = await short.claim(1), await long.claim(1)

        await pass_time(clock, 30, heir)

        assert ids((await heir.reclaim()).lapsed) == [mine.id]
        assert long.renew().leases
