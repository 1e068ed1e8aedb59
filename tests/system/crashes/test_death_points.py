"""Kill -9 at every point between a handler's return and the end of its settlement: all effects are stored, or none.

And so for a step that is kept, an answer, a cancel that reaches called runs, and a job's fire: each is one transaction
of the store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from laneway import NotWaiting, Run, Scheduler
from laneway.core.records.states import RunState
from tests.support.invariants import all_runs, check_invariants
from tests.support.jobs import fire_due, standing
from tests.system.faults.death_points import NAMED, NOWHERE, UNSENT
from tests.system.faults.death_scenes import JOB, SCENES, VICTIM, Play, Scene, stage_on
from tests.system.harness.forms import report, seeded, sized, time_limit
from tests.system.harness.stage import Stage

pytestmark = pytest.mark.system

MOST = sized(4, 1000)  # numbered points of each scene; the named ones are always there


@dataclass(frozen=True)
class Aftermath:
    """What a play left in its store; another process goes on with it."""

    scene: Scene
    play: Play
    app: Scheduler

    @property
    def done(self) -> bool:
        """Whether the call in which the process died must have had its effect."""
        return self.play.point != UNSENT and not self.play.point.isdecimal()

    async def victim(self) -> Run:
        """Return the run that the scene is about."""
        return next(run for run in await self.runs() if run.user == VICTIM and run.parent is None)

    async def runs(self) -> list[Run]:
        """Return all runs, oldest first."""
        return await all_runs(await self.app.open())

    async def left(self) -> list[Run]:
        """Return the runs that the victim has submitted or called."""
        victim = await self.victim()
        return [run for run in await self.runs() if run.parent == victim.id]

    def paid(self) -> int:
        """Return how often money was sent."""
        path = Path(f"{self.play.file}.paid")
        return len(path.read_text().splitlines()) if path.exists() else 0

    async def kept(self) -> int:
        """Return how much the victim has kept."""
        store = await self.app.open()
        return len((await store.recall((await self.victim()).id)).memos)

    async def kinds(self) -> Counter[str]:
        """Return how many events of each kind the victim has, once it has ended."""
        return Counter([event.kind async for event in self.app.events(await self.victim())])

    async def go_on(self) -> None:
        """Execute everything, and answer all questions."""
        await self.app.drain()
        while asking := [run for run in await self.app.runs(state="waiting") if run.wait and run.wait.questions]:
            for run in asking:
                await self.app.answer(run, "later")
            await self.app.drain()


# What the store must hold after the death, and when everything has been executed


async def leaves(aftermath: Aftermath) -> None:
    expected = Counter(aftermath.scene.leaves) if aftermath.done else Counter[str]()
    assert Counter(run.task for run in await aftermath.left()) == expected
    assert (await aftermath.victim()).ended is aftermath.done


async def has_left_once(aftermath: Aftermath) -> None:
    left = await aftermath.left()
    assert Counter(run.task for run in left) == Counter(aftermath.scene.leaves)
    assert [run.args.get("n") for run in left if run.task == "note"] in ([1, 2], [1], [2])
    # Each took its place at the session's end, behind the queued runs.
    begun = sorted(await aftermath.runs(), key=lambda run: (run.started_at, run.number))
    assert [run.number for run in begun] == sorted(run.number for run in begun)


async def leaves_nothing(aftermath: Aftermath) -> None:
    assert await aftermath.left() == []
    assert (await aftermath.victim()).attempt == (2 if aftermath.done else 1)


async def has_left_of_its_last_attempt(aftermath: Aftermath) -> None:
    assert [run.args for run in await aftermath.left()] == [{"n": 2}]


async def asks(aftermath: Aftermath) -> None:
    run = await aftermath.victim()
    assert run.state is (RunState.WAITING if aftermath.done else RunState.RUNNING)


async def has_asked_once(aftermath: Aftermath) -> None:
    kinds = await aftermath.kinds()
    assert (kinds["question"], kinds["answered"]) == (1, 1)
    assert (await aftermath.victim()).result == "later"


async def calls(aftermath: Aftermath) -> None:
    run = await aftermath.victim()
    assert run.state is (RunState.WAITING if aftermath.done else RunState.RUNNING)
    assert [child.task for child in await aftermath.left()] == (["note"] if aftermath.done else [])


async def is_told(aftermath: Aftermath) -> None:
    run = await aftermath.victim()
    [child] = await aftermath.left()
    # The step that ends the child may have claimed its parent, too.
    assert (run.state is not RunState.WAITING) is aftermath.done
    assert child.ended is aftermath.done
    assert await aftermath.kept() == aftermath.done


async def has_called_once(aftermath: Aftermath) -> None:
    kinds = await aftermath.kinds()
    assert (kinds["called"], kinds["returned"]) == (1, 1)
    assert len(await aftermath.left()) == 1
    assert (await aftermath.victim()).result == 1


async def keeps(aftermath: Aftermath) -> None:
    assert await aftermath.kept() == aftermath.done
    assert aftermath.paid() == 1


async def has_paid_once_if_it_was_kept(aftermath: Aftermath) -> None:
    run = await aftermath.victim()
    # A step that is not stored is executed again; `ctx.step_token` is for systems that must not do it twice.
    again = not aftermath.done and aftermath.play.point != NOWHERE
    assert (aftermath.paid(), run.result, run.fence) == ((2, 2, 2) if again else (1, 1, 1 + aftermath.done))


async def is_answered(aftermath: Aftermath) -> None:
    run = await aftermath.victim()
    assert run.state is (RunState.PENDING if aftermath.done else RunState.WAITING)
    if aftermath.done:
        with pytest.raises(NotWaiting):
            await aftermath.app.answer(run, "too late")


async def has_been_answered_once(aftermath: Aftermath) -> None:
    kinds = await aftermath.kinds()
    assert (kinds["question"], kinds["answered"]) == (1, 1)
    early = aftermath.done or aftermath.play.point == NOWHERE
    assert (await aftermath.victim()).result == ("yes" if early else "later")


async def is_cancelled(aftermath: Aftermath) -> None:
    run = await aftermath.victim()
    [child] = await aftermath.left()
    state = RunState.CANCELLED if aftermath.done else RunState.WAITING
    assert (run.state, child.state) == (state, state)
    await aftermath.app.cancel(run)  # as its user does after no answer


async def has_been_cancelled_with_its_child(aftermath: Aftermath) -> None:
    [child] = await aftermath.left()
    assert (child.state, child.reason) == (RunState.CANCELLED, "parent_ended")
    assert (await aftermath.victim()).state is RunState.CANCELLED


async def fires(aftermath: Aftermath) -> None:
    store = await aftermath.app.open()
    made = [run.id for run in await aftermath.runs() if run.job is not None]
    state = (await standing(store, JOB)).state
    assert len(made) == state.fired == aftermath.done
    assert [record.run_id for record in await store.fires(JOB)] == made
    assert ([] if state.last_run is None else [state.last_run]) == made


async def has_fired_once(aftermath: Aftermath) -> None:
    store = await aftermath.app.open()
    await fire_due(store)  # as a ticker does: the job is still due if it was not fired
    await aftermath.go_on()
    [run] = [run for run in await aftermath.runs() if run.job is not None]
    state = (await standing(store, JOB)).state
    assert [record.run_id for record in await store.fires(JOB)] == [run.id]
    assert (state.last_run, state.last_state, state.failures) == (run.id, RunState.FAILED, 1)


async def tells_its_job(aftermath: Aftermath) -> None:
    [run] = [run for run in await aftermath.runs() if run.job is not None]
    state = (await standing(await aftermath.app.open(), JOB)).state
    assert run.ended is aftermath.done
    assert (state.last_state, state.failures) == ((RunState.FAILED, 1) if aftermath.done else (None, 0))


Check = Callable[[Aftermath], Awaitable[None]]
CHECKS: dict[str, tuple[Check, Check]] = {
    "held back": (leaves, has_left_once),
    "held back after a failure": (leaves, has_left_once),
    "held back by an attempt that fails": (leaves_nothing, has_left_of_its_last_attempt),
    "then": (leaves, has_left_once),
    "on failure": (leaves, has_left_once),
    "on failure, by another worker": (leaves, has_left_once),
    "ask": (asks, has_asked_once),
    "call": (calls, has_called_once),
    "return": (is_told, has_called_once),
    "step": (keeps, has_paid_once_if_it_was_kept),
    "answer": (is_answered, has_been_answered_once),
    "cancel": (is_cancelled, has_been_cancelled_with_its_child),
    "fire": (fires, has_fired_once),
    "end of a fire": (tells_its_job, has_fired_once),
}


@pytest.mark.parametrize("name", SCENES)
@time_limit()
async def test_who_dies_while_the_store_writes_leaves_all_of_it_or_nothing(stage: Stage, name: str) -> None:
    seed = seeded().randrange(1_000_000)
    arguments = (name, str(stage.folder), str(seed), str(MOST))
    process = stage.python("scenes", "-m", "tests.system.faults.death_scenes", *arguments)
    assert await process.ended(within=sized(90, 600)) == 0
    plays = [msgspec.json.decode(line, type=Play) for line in process.stdout.splitlines()]

    for play in plays:
        await _check(name, play)

    assert [play.point for play in plays if not play.died] == [NOWHERE]
    assert {play.point for play in plays} >= {*NAMED}
    report(f"{name}: died at {len(plays) - 1} points of {plays[0].statements + len(NAMED)}")


async def _check(name: str, play: Play) -> None:
    after_death, at_rest = CHECKS[name]
    async with stage_on(play.file) as app:
        aftermath = Aftermath(SCENES[name], play, app)
        if play.died:
            await after_death(aftermath)
        await aftermath.go_on()
        await at_rest(aftermath)
        runs = await aftermath.runs()
        assert [run for run in runs if not run.ended] == [], play
        await check_invariants(await app.open())
