"""Scenes in which a run leaves something behind and its process dies while the store writes that.

`python -m tests.system.faults.death_scenes SCENE FOLDER SEED MOST` plays a scene once to its end, and then once for
every point at which its process can die (at most MOST of the numbered points). Each play has a store file of its own in
the folder and prints a line of JSON. The processes that die are forked: to import laneway takes longer than a play.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from laneway import Context, GiveUp, Retry, Scheduler, SessionPolicy, Submission
from laneway.core.lifecycle.outcome import Settlement
from laneway.core.lifecycle.step import Step
from laneway.core.records.states import RunState
from laneway.ports.jobs import AddJob
from tests.support.jobs import fire_due, new_job
from tests.system.faults.death_points import NAMED, NOWHERE, Death
from tests.system.harness.die_with_parent import PR_SET_PDEATHSIG

VICTIM = "victim"  # the user of the run that a scene is about
JOB = "job"  # the id of the job that a scene is about


class Play(msgspec.Struct, frozen=True):
    """One play of a scene: where it died, what it ended with, and how many statements its call took."""

    point: str
    file: str
    status: int  # as of `os.waitpid`
    statements: int = 0

    @property
    def died(self) -> bool:
        """Whether it came to the point."""
        return os.WIFSIGNALED(self.status) and os.WTERMSIG(self.status) == signal.SIGKILL


async def note(n: int) -> int:
    return n


async def confirm(n: int, *, ctx: Context) -> Any:
    return await ctx.ask(f"{n}?", name="confirm")


async def leave(*, ctx: Context) -> str:
    for n in (1, 2):
        ctx.submit("note", {"n": n})
    return "left"


async def leave_at_last(*, ctx: Context) -> str:
    ctx.submit("note", {"n": ctx.attempt})
    if ctx.attempt == 1:
        raise ValueError("the first attempt fails")
    return "left"


async def give_up() -> None:
    raise GiveUp("at once")


async def ask(*, ctx: Context) -> Any:
    return await ctx.ask("go on?")


async def call(task: str, *, ctx: Context) -> Any:
    return await ctx.call(task, {"n": 1})


async def poison() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def stage_on(file: str) -> Scheduler:
    """Return a scheduler on that file that knows the tasks of all scenes."""
    app = Scheduler(f"sqlite:///{file}")
    for handler in (note, confirm, leave, leave_at_last, give_up, ask, call):
        app.task(name=handler.__name__, retry=Retry.delays(0))(handler)
    app.task(max_crashes=1)(poison)

    @app.task
    async def pay(*, ctx: Context) -> int:
        def send_money() -> int:
            with Path(f"{file}.paid").open("a") as paid:
                paid.write("paid\n")
            return ctx.fence

        return int(await ctx.step("pay", send_money))

    return app


Act = Callable[[Scheduler], Awaitable[object]]


@dataclass(frozen=True)
class Scene:
    """What is submitted, what the process does that dies, and during which call of the store it dies.

    `leaves` are the tasks of the runs that the victim submits or calls in that call. `taken_over`: another process has
    executed the victim before, and died.
    """

    submission: Submission
    verb: str = "step"
    is_it: Callable[..., bool] = lambda *_: True
    leaves: tuple[str, ...] = ()
    after: Act | None = None  # once everything due has been executed; by default nothing
    taken_over: bool = False

    async def play(self, app: Scheduler) -> None:
        """Submit, execute, and whatever comes then."""
        if not await app.runs():
            await app.submit_many([self.submission, Submission("note", {"n": 0}, session="chat")])
        await app.drain()
        if self.after is not None:
            await self.after(app)


def _settles(state: RunState, *, has: Callable[[Settlement], object] = lambda _: True) -> Callable[[Step], bool]:
    return lambda step: any(one.settlement.state is state and has(one.settlement) for one in step.results)


def _of(task: str, args: dict[str, Any] | None = None, **options: Any) -> Submission:
    policy = SessionPolicy(while_waiting="queue")
    return Submission(task, args or {}, user=VICTIM, session="chat", session_policy=policy, **options)


async def _waiting(app: Scheduler) -> list[Any]:
    return [run for run in await app.runs(state="waiting") if run.wait is not None and run.wait.questions]


async def _cancel_it(app: Scheduler) -> None:
    [run] = [run for run in await app.runs(state="waiting") if run.parent is None]
    await app.cancel(run)


async def _answer_it(app: Scheduler) -> None:
    [run] = await _waiting(app)
    await app.answer(run, "yes")


async def _fire_it(app: Scheduler) -> None:
    store = await app.open()
    now = round(time.time() * 1_000_000)
    await store.change_job(AddJob(new_job(now, id=JOB, task="give_up", run_on_start=True)))
    await fire_due(store)
    await app.drain()


_LEFT = _settles(RunState.SUCCEEDED, has=lambda settlement: settlement.leaves)
_TWO = ("note", "note")
_BOTH = [("note", {"n": 1}), "leave"]
SCENES = {
    "held back": Scene(_of("leave"), is_it=_LEFT, leaves=_TWO),
    "held back after a failure": Scene(_of("leave_at_last"), is_it=_LEFT, leaves=("note",)),
    "held back by an attempt that fails": Scene(
        _of("leave_at_last"), is_it=_settles(RunState.PENDING, has=lambda settlement: settlement.failure)
    ),
    "then": Scene(
        _of("pay", then=[("note", {"n": 1}), ("note", {"n": 2})]), is_it=_settles(RunState.SUCCEEDED), leaves=_TWO
    ),
    "on failure": Scene(_of("give_up", on_failure=_BOTH), is_it=_settles(RunState.FAILED), leaves=("note", "leave")),
    "on failure, by another worker": Scene(
        _of("poison", on_failure=_BOTH), is_it=_settles(RunState.FAILED), leaves=("note", "leave"), taken_over=True
    ),
    "ask": Scene(_of("ask"), is_it=_settles(RunState.WAITING)),
    "call": Scene(_of("call", {"task": "note"}), is_it=_settles(RunState.WAITING), leaves=("note",)),
    "return": Scene(_of("call", {"task": "note"}), is_it=_settles(RunState.SUCCEEDED)),
    "step": Scene(_of("pay"), is_it=lambda step: any(one.memo for one in step.saved)),
    "answer": Scene(_of("ask"), verb="change_run", after=_answer_it),
    "cancel": Scene(_of("call", {"task": "confirm"}), verb="change_run", after=_cancel_it),
    "fire": Scene(_of("note", {"n": 1}), verb="fire", is_it=bool, after=_fire_it),
    "end of a fire": Scene(_of("note", {"n": 1}), is_it=_settles(RunState.FAILED), after=_fire_it),
}


# The process that plays them


def main(name: str, folder: str, seed: str, most: str) -> None:
    """Play the scene at all points, and print what happened."""
    scene = SCENES[name]
    whole = _play(scene, Path(folder, "whole.db"), NOWHERE)
    _print(whole)
    numbers = range(1, whole.statements + 1)
    chosen = sorted(Random(int(seed)).sample(numbers, min(int(most), len(numbers))))
    for point in (*NAMED, *map(str, chosen)):
        _print(_play(scene, Path(folder, f"{point}.db"), point))


def _play(scene: Scene, file: Path, point: str) -> Play:
    count = file.with_suffix(".count")
    if scene.taken_over:
        _fork(scene, file, NOWHERE, count)
    status = _fork(scene, file, point, count)
    return Play(point, str(file), status, int(count.read_text()) if count.exists() else 0)


def _fork(scene: Scene, file: Path, point: str, count: Path) -> int:
    child = os.fork()
    if child == 0:
        try:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            count.write_text(str(asyncio.run(_perform(scene, str(file), point))))
        except BaseException:  # noqa: BLE001 - whatever it is, the child must not go on as its parent
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return status


async def _perform(scene: Scene, file: str, point: str) -> int:
    app = stage_on(file)
    death = Death(point, scene.verb, scene.is_it)
    await death.install(app)
    async with app:
        await scene.play(app)
    return death.statements


def _print(play: Play) -> None:
    sys.stdout.write(msgspec.json.encode(play).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
