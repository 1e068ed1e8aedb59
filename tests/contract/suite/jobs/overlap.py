"""What a fire does while an earlier one of its job has not ended: the overlap rules."""

from __future__ import annotations

from laneway.core.common.instants import SECOND
from laneway.core.jobs.fire_decision import by_hand
from laneway.core.jobs.record import FireKind
from laneway.core.records.job_tie import Overlap
from laneway.core.records.policy import SessionPolicy
from laneway.core.records.run import Request
from laneway.core.records.states import RunState
from laneway.core.schedules import Every
from laneway.ports.control import Cancel
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, new_run, new_runs
from laneway.testing.waits import question
from tests.contract.suite.attempts.leases import pass_time
from tests.contract.suite.frame import Part, ids, states
from tests.support.invariants import all_runs
from tests.support.jobs import HOUR, all_fires, fire_due, fired_runs, kept_job, standing
from tests.support.sessions import session_of

P, R, S, C, D = RunState.PENDING, RunState.RUNNING, RunState.SUCCEEDED, RunState.CANCELLED, RunState.DROPPED
MINUTE = 60


async def minutely(store: Store, clock: FakeClock, overlap: Overlap, **fields: object) -> None:
    """Keep a job that fires every minute, and let a minute go by."""
    await kept_job(store, clock.now(), Every(MINUTE), overlap=overlap, **fields)
    await clock.advance(MINUTE)


async def fire_again(store: Store, clock: FakeClock, times: int = 1) -> None:
    """Fire what is due, then again each minute."""
    await fire_due(store)
    for _ in range(times - 1):
        await clock.advance(MINUTE)
        await fire_due(store)


async def told(store: Store) -> list[tuple[str, str | None, int]]:
    """Return what the job's records tell, oldest first."""
    return [(record.kind.value, record.reason, record.count) for record in await all_fires(store)]


class TestOverlaps(Part):
    """`Overlap`, within `JobStore.fire`."""

    async def test_skip_leaves_out_a_fire_while_one_runs(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await minutely(store, clock, Overlap.SKIP)
        await fire_again(store, clock)
        [claimed] = await hand.claim()
        await clock.advance(MINUTE)
        await fire_again(store, clock, 2)
        await hand.succeed(claimed)
        await clock.advance(MINUTE)

        await fire_again(store, clock)

        assert await told(store) == [("fired", None, 1), ("skipped", "overlap", 2), ("fired", None, 1)]
        assert await states(store, *await fired_runs(store)) == [S, P]

    async def test_skip_counts_one_that_waits_for_an_answer_as_going_on(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await minutely(store, clock, Overlap.SKIP)
        await fire_again(store, clock)
        [claimed] = await hand.claim()
        await hand.wait(claimed, question("ok", timeout=HOUR))
        await clock.advance(MINUTE)

        await fire_again(store, clock)

        assert await told(store) == [("fired", None, 1), ("skipped", "overlap", 1)]

    async def test_queue_lets_one_wait_the_earliest(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await minutely(store, clock, Overlap.QUEUE)
        await fire_again(store, clock)
        [claimed] = await hand.claim()
        await clock.advance(MINUTE)

        await fire_again(store, clock, 3)

        assert await told(store) == [("fired", None, 1), ("fired", None, 1), ("skipped", "overlap", 2)]
        first, second = await all_runs(store)
        assert (first.state, second.state) == (R, P)
        assert first.job is not None
        assert second.job is not None
        assert second.job.at == first.job.at + MINUTE * SECOND
        assert await hand.claim() == []
        assert ids((await hand.succeed(claimed, room=1)).claimed) == [second.id]

    async def test_interrupt_ends_what_goes_on_and_drops_what_waits(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await minutely(store, clock, Overlap.INTERRUPT)
        await fire_again(store, clock)
        [claimed] = await hand.claim()
        for _ in range(2):
            await pass_time(clock, MINUTE, hand)
            await fire_due(store)

        first, second, third = await all_runs(store)

        assert (first.state, first.request) == (R, Request.CANCEL)
        assert (second.state, third.state) == (D, P)
        assert await hand.claim() == []
        assert ids((await hand.stop(claimed, room=1)).claimed) == [third.id]
        job = await standing(store)
        assert (job.state.fired, job.state.skipped, job.state.last_run) == (3, 0, third.id)

    async def test_allow_lets_them_run_side_by_side(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await minutely(store, clock, Overlap.ALLOW)

        await fire_again(store, clock, 3)

        assert len(await hand.claim(9)) == 3
        assert {run.session for run in await all_runs(store)} == {"job:j"}
        assert await session_of(store, "job:j") is None
        assert await told(store) == [("fired", None, 1)] * 3

    async def test_a_fire_by_hand_goes_by_the_same_rule(self, store: Store, clock: FakeClock) -> None:
        await minutely(store, clock, Overlap.SKIP)
        await fire_again(store, clock)

        [fired] = await store.fire([by_hand(await standing(store), "mine", clock.now())])

        assert [receipt and receipt.reason for receipt in fired.receipts] == ["session_busy"]
        assert (await all_fires(store))[-1].kind is FireKind.SKIPPED
        assert len(await all_runs(store)) == 1

    async def test_jobs_of_one_name_or_task_do_not_meet(self, store: Store, clock: FakeClock) -> None:
        await kept_job(store, clock.now(), Every(MINUTE), id="k", name="j", owner="bob")
        await minutely(store, clock, Overlap.SKIP, name="j", owner="ann")

        await fire_again(store, clock)

        assert {run.session for run in await all_runs(store)} == {"job:j", "job:k"}


class TestNamedSessions(Part):
    """Fires in a session that their job names, and that others use too."""

    async def test_skip_is_about_all_that_goes_on_in_the_session(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await minutely(store, clock, Overlap.SKIP, session="chat")
        await store.submit([new_run("talk", session="chat")])

        await fire_again(store, clock)
        await hand.succeed(*await hand.claim())
        await clock.advance(MINUTE)
        await fire_again(store, clock)

        assert await told(store) == [("skipped", "overlap", 1), ("fired", None, 1)]

    async def test_queue_counts_only_fires_of_the_job(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await kept_job(store, clock.now(), Every(MINUTE), id="k", overlap=Overlap.QUEUE, session="chat")
        await minutely(store, clock, Overlap.QUEUE, session="chat")
        await store.submit(new_runs(3, "talk", session="chat"))
        await hand.claim()

        await fire_again(store, clock, 2)

        assert await told(store) == [("fired", None, 1), ("skipped", "overlap", 1)]
        assert (await standing(store, "k")).state.fired == 1
        assert [run.state for run in await all_runs(store)] == [R, P, P, P, P]

    async def test_interrupt_is_about_all_that_goes_on_in_the_session(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await minutely(store, clock, Overlap.INTERRUPT, session="chat")
        hand.renew()
        await store.submit(new_runs(2, "talk", session="chat"))
        await hand.claim()

        await fire_again(store, clock)

        assert await states(store, "talk-00000", "talk-00001") == [R, D]
        assert (await store.get("talk-00000")).request is Request.CANCEL

    async def test_the_cap_of_a_session_does_not_bind_fires_and_they_fill_no_place(
        self, store: Store, clock: FakeClock
    ) -> None:
        hand = await Hand(store).register()
        await minutely(store, clock, Overlap.QUEUE, session="chat")
        policy = SessionPolicy(cap=1, drop="new")
        await store.submit([new_run("first", session="chat", policy=policy)])
        await hand.claim()
        await store.submit([new_run("second", session="chat", policy=policy)])

        await fire_again(store, clock)

        assert await told(store) == [("fired", None, 1)]
        await store.change_run("c", "second", Cancel())
        [receipt] = await store.submit([new_run("third", session="chat", policy=policy)])
        assert receipt.outcome.value == "accepted"

    async def test_a_message_drops_no_fire_to_make_room(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("first", session="chat")])
        await hand.claim()
        await minutely(store, clock, Overlap.QUEUE, session="chat")
        await fire_again(store, clock)
        policy = SessionPolicy(cap=1, drop="old")

        await store.submit([new_run(name, session="chat", policy=policy) for name in ("a", "b")])

        assert await states(store, *await fired_runs(store), "a", "b") == [P, D, P]
