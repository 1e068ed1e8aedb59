"""Every kind of handler x everything that can stop it x every store.

The lane has one slot, so every handler that begins must find no other code running: neither another run's nor an
earlier attempt's of its own. `kill -9` of the worker is in `tests/system/crashes/test_handlers.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from laneway import Context, Lane, Run, Scheduler
from laneway.core.records.states import RunState
from tests.support.run_logs import kinds_of
from tests.support.stoppable_handlers import KINDS, Kind, Notes
from tests.support.waits import lingerers, soon, until

GRACE = 0.3
LANE = Lane("one", limit=1)


class Play:
    """A scheduler with a run of one kind of handler, and another run that waits for its slot."""

    def __init__(self, app: Scheduler, kind: Kind, notes: Notes) -> None:
        self.app, self.kind, self.notes = app, kind, notes
        self.run = self.next = ""

    async def begin(self, *, saves: bool = False) -> None:
        """Submit both runs, and wait until the first one's code runs."""
        args = {"folder": str(self.notes.folder), "saves": saves and self.kind.saves}
        self.run, self.next = [
            receipt.run_id
            for receipt in await self.app.submit_many([("work", args), ("follow", {"folder": args["folder"]})])
        ]
        await until(lambda: self.notes.begun(self.run))

    async def is_stuck(self) -> None:
        """Wait until the handler is reported; see that it keeps its lease and its slot, and let it end."""
        await until(lambda: bool(self.app.status().stuck))
        [stuck] = self.app.status().stuck
        run = await self.app.get(self.run)
        assert (stuck.run_id, stuck.task) == (self.run, "work")
        assert "stoppable_handlers.py" in stuck.stack
        assert run.state is RunState.RUNNING
        assert run.worker is not None
        assert not self.notes.begun(self.next)
        self.notes.let_end()

    async def ended(self) -> Run:
        """Wait until both runs have ended; return the first."""
        self.next_run = await soon(self.app.wait(self.next))
        return await soon(self.app.wait(self.run))

    async def check(self, state: RunState, *kinds: str) -> None:
        """See how the run ended, what its log says, that nothing ran beside anything and that nothing is lost."""
        run = await self.ended()
        store = await self.app.open()
        [taken] = [lane.active for lane in await store.lanes() if lane.lane.name == "one"]
        assert run.state is state
        assert await kinds_of(self.app, self.run) == [kind for kind in kinds if kind]
        assert self.next_run.state is RunState.SUCCEEDED
        assert not any(self.notes.beside())
        assert self.notes.running() == []
        assert taken == 0
        assert sum((await store.depths()).runs.values()) == 2


@pytest_asyncio.fixture(params=KINDS, ids=lambda kind: kind.name.replace(" ", "-"))
async def play(request: pytest.FixtureRequest, url: str, tmp_path: Path) -> AsyncIterator[Play]:
    kind: Kind = request.param
    async with Scheduler(url, lanes=[LANE], grace=GRACE) as app:
        # A child process must have begun by then.
        timeout = (3.0 if kind.process else 0.1) if "time_out" in request.node.name else None
        app.task(name="work", lane="one", process=kind.process, timeout=timeout, retry=None)(kind.handler)

        @app.task(lane="one")
        async def follow(folder: str, *, ctx: Context) -> None:
            with Notes(folder).code(ctx):
                pass

        play = Play(app, kind, Notes(tmp_path))
        yield play
        play.notes.let_end()
        await lingerers()


async def test_a_cancelled_handler_has_stopped_before_the_next_run_starts(play: Play) -> None:
    async with play.app.running():
        await play.begin()

        await play.app.cancel(play.run)
        if not play.kind.can_be_stopped:
            await play.is_stuck()
        await play.ended()

    stuck = "" if play.kind.can_be_stopped else "stuck"
    told = ("started", "cancel_requested", "cancel_delivered")
    await play.check(RunState.CANCELLED, *told, stuck, "stopped", "done")


async def test_a_handler_past_its_time_out_has_stopped_before_the_next_run_starts(play: Play) -> None:
    async with play.app.running():
        await play.begin()
        if not play.kind.can_be_stopped:
            await play.is_stuck()
        run = await play.ended()

    assert (run.reason, run.attempt) == ("timed_out", 1)
    await play.check(
        RunState.FAILED, "started", "overdue", "" if play.kind.can_be_stopped else "stuck", "error", "done"
    )


async def test_a_pause_takes_hold_at_a_checkpoint_and_leaves_the_slot_to_the_next_run(play: Play) -> None:
    async with play.app.running():
        await play.begin(saves=True)

        asked = await play.app.pause(play.run)
        if play.kind.saves:
            # Paused, it has no slot: the next run has its turn meanwhile.
            await soon(play.app.wait(play.next))
            paused = await play.app.get(play.run)
            await play.app.resume(play.run)
            play.notes.let_end()
        else:
            # It never comes to a checkpoint, so it is executed to its end.
            paused = await play.app.get(play.run)
            play.notes.let_end()
        run = await play.ended()

    assert asked.state in {RunState.RUNNING, RunState.PAUSED}
    assert paused.state is (RunState.PAUSED if play.kind.saves else RunState.RUNNING)
    assert run.result == (1 if play.kind.saves else None)
    stopped = ("paused", "resumed", "started") if play.kind.saves else ()
    await play.check(RunState.SUCCEEDED, "started", "pause_requested", *stopped, "result", "done")


async def test_a_stop_gives_the_run_back_unless_its_code_goes_on(play: Play) -> None:
    async with play.app.running():
        await play.begin()
        left = await soon(play.app.stop(0.05))  # though nothing ends by itself
        stopped = await play.app.get(play.run)

    async with play.app.running():
        if not play.kind.can_be_stopped:
            # Nobody could stop its code, so it keeps lease and slot although its worker is gone.
            assert stopped.state is RunState.RUNNING
            assert not play.notes.begun(play.next)
        play.notes.let_end()
        run = await play.ended()

    assert left == ([] if play.kind.can_be_stopped else [play.run])
    assert (run.attempt, run.crashes) == (1, 0)
    if play.kind.can_be_stopped:
        assert stopped.state is RunState.PENDING
    again = ("released", "started") if play.kind.can_be_stopped else ()
    await play.check(RunState.SUCCEEDED, "started", *again, "result", "done")


async def test_an_abandoned_run_leaves_its_slot_at_once_whatever_its_code_does(play: Play) -> None:
    async with play.app.running():
        await play.begin()
        await play.app.cancel(play.run)
        if not play.kind.can_be_stopped:
            await until(lambda: bool(play.app.status().stuck))

        run = await play.app.cancel(play.run, abandon=True)
        follow = await soon(play.app.wait(play.next))
        beside = play.notes.beside()
        play.notes.let_end()
        await until(lambda: not play.notes.running())
        await until(lambda: not play.app.status().stuck)

    # Its slot was free at once, and what the code still did was refused.
    assert run.state is RunState.CANCELLED
    assert follow.state is RunState.SUCCEEDED
    if not play.kind.can_be_stopped:
        assert run.reason == "abandoned"
        assert beside == [[], [play.run]]
        assert (await play.app.get(play.run)).result is None
    assert (await kinds_of(play.app, play.run)).count("done") == 1
    assert (await kinds_of(play.app, play.run))[-1] == "done"
