"""After a repair of the memory store a session continues by its rules."""

from laneway.core.records.states import RunState
from laneway.ports.control import Pause, Resume
from laneway.stores.memory.store import MemoryStore
from laneway.testing import FakeClock, Hand, new_runs
from tests.support.invariants import check_drains, check_invariants


async def test_a_repaired_session_goes_on_and_what_is_paused_in_it_keeps_its_place() -> None:
    clock = FakeClock()
    store = MemoryStore(clock)
    hand = await Hand(store).register()
    await store.submit(new_runs(3, "s", session="chat"))
    first = await hand.claim(1)
    await store.change_run("call", "s-00001", Pause())
    store._state.sessions["chat"].admitted.append(999)
    assert (await hand.succeed(*first, room=9)).claimed == []

    findings = await store.check(repair=True)

    assert [finding.what for finding in findings] == ["session chat"]
    assert await hand.claim(9) == []
    assert (await store.get("s-00001")).state is RunState.PAUSED
    await store.change_run("again", "s-00001", Resume())
    assert [run.id for run in await hand.claim(9)] == ["s-00001"]
    await check_invariants(store)
    await check_drains(store, clock)
