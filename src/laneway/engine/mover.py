"""The mover: moves all that a store has to another one, while workers and clients of it run.

**The order.** Source and target are checked to be two stores. The target is emptied and marked as arriving, so that
nobody uses it. The source is shut: nothing new is accepted, claimed or fired there, by anybody. The mover waits for
running attempts, and takes over those of dead workers. In the step in which no lease is left the source is frozen, and
does not change from then on. The target is filled page by page. Then both are read once more and compared, and the
target is opened only if they are equal. The source stays frozen, and every call gets the new address.

**Crash points.** Both stores know the id of the move, and the target stores each page together with its mark. So a
mover that was killed anywhere is simply started again: it finds the move under way, skips what is done, and brings the
page again that it cannot be sure of, which changes nothing. Until the target is opened the source has everything, and
`abort` opens it again. *Crash here*, after the target was opened: the move is done, and the next mover learns that.

**Races.** Two movers of one move bring the same pages, which is harmless. A mover and an abort meet at the target,
which knows of the move before the source does and forgets it later: either the target is opened first, or emptied
first, and the other one is refused. So there is no moment in which both stores are open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from functools import partial
from typing import NamedTuple, TypeVar

from laneway.core.transfer.digests import Tally
from laneway.core.transfer.move_state import MovePhase, Moving
from laneway.core.transfer.pieces import FIRST, Mark, Piece, RunIn
from laneway.engine.client.client import Client
from laneway.engine.common.ids import new_run_id
from laneway.engine.services.takeover import TakeoverWorker
from laneway.errors import MoveDiffers, MoveRefused, MoveUnfinished, SameStore, StoreUnavailable
from laneway.ports.clock import Clock
from laneway.ports.moves import Arrive, Freeze, Moved, OpenUp, Reopen, Shut
from laneway.ports.store import Store

T = TypeVar("T")

PAGE = 500  # pieces
LOOK_EVERY = 0.2  # seconds between two checks for running attempts


class Side(NamedTuple):
    """A store and its address as it may be shown."""

    store: Store
    place: str


class Stage(StrEnum):
    """The stages of a move."""

    WAITING = "waiting"
    COPYING = "copying"
    CHECKING = "checking"


class Progress(NamedTuple):
    """How far a stage has come, in runs; while waiting, how many are still executed."""

    stage: Stage
    done: int
    total: int


class Done(NamedTuple):
    """What was moved: pieces by kind, and the digest of all of them; `before` if it was done by an earlier mover.

    In that case the target was not compared: it has changed since.
    """

    move: str
    counts: dict[str, int]
    digest: str
    before: bool = False


class Mover:
    """Moves all from `source` to `target`. `report` gets the progress; `wait` bounds how long it waits for attempts."""

    def __init__(
        self,
        source: Side,
        target: Side,
        clock: Clock,
        *,
        wait: float = 60.0,
        overwrite: bool = False,
        report: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        self._source, self._target, self._clock = source, target, clock
        self._wait, self._overwrite, self._report = wait, overwrite, report
        self._calls = Client(source.store, clock)

    async def move(self) -> Done:
        """Move everything, or continue a move.

        Raises SameStore, MoveRefused, MoveUnfinished or MoveDiffers.
        """
        move, is_done = await self._begun()
        if is_done:
            tally = await self._tally(self._source.store, lambda _: None)
            return Done(move, tally.counts, tally.digest, before=True)
        await self._let_end(move)
        await self._copy(move)
        tally = await self._compare()
        await self._again(partial(self._target.store.move, OpenUp(move)))
        return Done(move, tally.counts, tally.digest)

    async def abort(self) -> bool:
        """Open the source again and empty the target; return False if there is no move to abort."""
        source, target = await self._source.store.moving(), await self._target.store.moving()
        # Also if a mover died before it came to the source, or an abort died while it emptied the target.
        fills = target is not None and target.phase is MovePhase.ARRIVING and target.place == self._source.place
        if source is None or not source.leaves:
            return target is not None and fills and await _reopened(self._target, target)
        self._refuse_elsewhere(source)
        is_part = target is not None and target.move == source.move and not target.leaves
        # Race: a mover that still runs may open the target at this moment.
        if target is not None and (is_part or fills) and not await _reopened(self._target, target):
            raise MoveRefused(
                f"the move is done and {self._target.place} is open: what has happened there since would be lost;"
                f" to go back, move {self._target.place} to {self._source.place} with --overwrite"
            )
        return await _reopened(self._source, source)

    # Beginning

    async def _begun(self) -> tuple[str, bool]:
        """Return the id of the current move, or of a new one, and whether it is done already."""
        source, target = await self._source.store.moving(), await self._target.store.moving()
        if source is not None and source.phase is MovePhase.ARRIVING:
            raise MoveRefused(f"{self._source.place} is being filled by a move from {source.place}; wait for that")
        if source is None or not source.leaves:
            return await self._begin(), False
        self._refuse_elsewhere(source)
        if target is not None and target.move == source.move:
            if target.leaves:
                raise SameStore(self._source.place, self._target.place)
            return source.move, target.phase is not MovePhase.ARRIVING
        # An abort has begun, and died before it came to the source.
        await _reopened(self._source, source)
        return await self._begin(), False

    async def _begin(self) -> str:
        """Begin a new move. The target learns of it first, so an abort meets the mover there."""
        await self._refuse_same()
        await self._refuse_full()
        move = new_run_id()
        arrived = await self._again(partial(self._target.store.move, Arrive(move, self._source.place)))
        if not arrived.done:
            # Race: somebody began to move the target away in between.
            raise MoveRefused(
                f"{self._target.place} is itself being moved, to {_elsewhere(arrived)}; finish that first"
            )
        shut = await self._again(partial(self._source.store.move, Shut(move, self._target.place)))
        if not shut.done:
            # Race: somebody else began a move of the source in between.
            await self._target.store.move(Reopen(move))
            raise MoveRefused(f"{self._source.place} is being moved to {_elsewhere(shut)} by somebody else")
        return move

    async def _refuse_same(self) -> None:
        """Refuse two addresses of one store: a worker that registers with the source is then known to the target.

        Invariant: nothing is emptied before this. One store has many addresses, so addresses are not compared.
        Registering changes nothing, so workers of a refused store do not notice it.
        """
        async with TakeoverWorker(self._source.store) as guest:
            is_same = await guest.is_known_to(self._target.store)
            # Race: a mover that stood still meanwhile may have been taken for dead, and was in neither list.
            was_there = await guest.is_known_to(self._source.store)
        if is_same:
            raise SameStore(self._source.place, self._target.place)
        if not was_there:
            raise StoreUnavailable(f"{self._source.place} took this mover for dead; start it again")

    def _refuse_elsewhere(self, moving: Moving) -> None:
        if moving.place != self._target.place:
            done = "was moved" if moving.phase is MovePhase.FROZEN else "is being moved"
            raise MoveRefused(f"{self._source.place} {done} to {moving.place}, not to {self._target.place}")

    async def _refuse_full(self) -> None:
        """Refuse a target that is not empty, unless it may be overwritten, or that takes part in another move."""
        found = await self._target.store.moving()
        if found is not None and found.phase is MovePhase.SHUT:
            raise MoveRefused(f"{self._target.place} is itself being moved, to {found.place}; finish that first")
        if found is not None and found.phase is MovePhase.ARRIVING:
            if found.place != self._source.place:
                raise MoveRefused(f"{self._target.place} is being filled by a move from {found.place}")
            return
        held = await self._target.store.holds()
        if held and not self._overwrite:
            raise MoveRefused(f"{self._target.place} is not empty: it has {', '.join(held)}")

    async def _let_end(self, move: str) -> None:
        """Wait until nothing is executed, and freeze the source in the same instant."""
        freeze = partial(self._source.store.move, Freeze(move))
        busy = (await self._again(freeze)).leases
        if not busy:
            return
        deadline = self._clock.monotonic() + self._wait
        async with TakeoverWorker(self._source.store) as takeover:
            while busy:
                self._report(Progress(Stage.WAITING, 0, busy))
                if self._clock.monotonic() >= deadline:
                    raise MoveUnfinished(self._source.place, busy)
                await takeover.take_over()
                await self._clock.sleep(LOOK_EVERY)
                busy = (await self._again(freeze)).leases

    # Copying and comparing

    async def _copy(self, move: str) -> None:
        source, target = self._source.store, self._target.store
        standing = await self._again(target.moving)
        mark: Mark | None = FIRST if standing is None else standing.mark or FIRST
        total, done = await _size(source), await _size(target)
        while mark is not None:
            page = await self._again(partial(source.pack, mark, limit=PAGE))
            for first in range(0, len(page.pieces) or 1, PAGE):
                pieces = page.pieces[first : first + PAGE]
                last = first + PAGE >= len(page.pieces)
                await self._again(partial(target.unpack, move, pieces, page.mark if last else None))
                done += _runs(pieces)
                self._report(Progress(Stage.COPYING, min(done, total), total))
            mark = page.mark

    async def _compare(self) -> Tally:
        """Return the tally of both. Raises MoveDiffers if they are not equal."""
        total, read = 2 * await _size(self._source.store), 0

        def report(runs: int) -> None:
            nonlocal read
            read += runs
            self._report(Progress(Stage.CHECKING, min(read, total), total))

        here, there = await asyncio.gather(*(self._tally(side.store, report) for side in (self._source, self._target)))
        differences = here.differences(there)
        if differences:
            raise MoveDiffers(self._source.place, self._target.place, differences)
        return there

    async def _tally(self, store: Store, report: Callable[[int], None]) -> Tally:
        tally = Tally()
        mark: Mark | None = FIRST
        while mark is not None:
            page = await self._again(partial(store.pack, mark, limit=PAGE))
            tally.add(page.pieces)
            report(_runs(page.pieces))
            mark = page.mark
        return tally

    async def _again(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a repeatable call, again if it gets no answer."""
        return await self._calls.repeated(call)


async def _reopened(side: Side, standing: Moving) -> bool:
    return (await side.store.move(Reopen(standing.move))).done


def _elsewhere(kept: Moved) -> str:
    return "another place" if kept.standing is None else kept.standing.place


async def _size(store: Store) -> int:
    return sum((await store.depths()).runs.values())


def _runs(pieces: Sequence[Piece]) -> int:
    return sum(isinstance(piece, RunIn) for piece in pieces)
