"""The mover: brings all that a store has to another one, while workers and clients of it are about.

**The order of things.** Source and target are seen to be two stores. The target is emptied and marked as arriving, so
that nobody uses it. The source is shut: nothing new is accepted, claimed or fired there, by anybody. What is being
executed is waited for, and taken over from whoever is dead. When no lease is left the source is frozen in the same
step, and from then on does not change. The target is filled page by page. Both are then read once more and compared,
and only if they hold the same is the target opened. The source stays frozen and tells whoever comes where to go.

**Crash points.** Both stores know of the move by its id, and the target remembers the mark of the last page that it
took in with that page. So a mover that is killed anywhere is simply started again: it finds the move under way, skips
what is done and brings the page again of which it cannot know, which changes nothing. Until the target is opened the
source has everything, and `abort` opens it again. *Crash here*, after the target was opened: the move is done, and who
comes again is told so.

**Races.** Two movers of one move bring the same pages, which is harmless. A mover and one who aborts meet at the
target, which knows of the move before the source does and forgets it after: it is either opened or emptied first, and
the other one of the two is refused. So there is no moment in which both stores are open.
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
from laneway.ports.moving import Arrive, Freeze, Moved, OpenUp, Reopen, Shut
from laneway.ports.store import Store

T = TypeVar("T")

PAGE = 500  # pieces
LOOK_EVERY = 0.2  # seconds between two looks at what is still executed


class Side(NamedTuple):
    """A store and its address as it may be shown."""

    store: Store
    place: str


class Stage(StrEnum):
    """What a mover is at."""

    WAITING = "waiting"
    COPYING = "copying"
    CHECKING = "checking"


class Progress(NamedTuple):
    """How far a stage has come, in runs; while waiting, how many are still executed."""

    stage: Stage
    done: int
    total: int


class Done(NamedTuple):
    """What was moved: pieces by kind, and the digest of them all on both sides; `before`, if that was done earlier.

    What the target holds now nobody has looked at then: it has gone on.
    """

    move: str
    counts: dict[str, int]
    digest: str
    before: bool = False


class Mover:
    """Moves what `source` has to `target`. `tell` hears of the progress; `wait` is for runs that are executed."""

    def __init__(
        self,
        source: Side,
        target: Side,
        clock: Clock,
        *,
        wait: float = 60.0,
        overwrite: bool = False,
        tell: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        self._source, self._target, self._clock = source, target, clock
        self._wait, self._overwrite, self._tell = wait, overwrite, tell
        self._calls = Client(source.store, clock)

    async def move(self) -> Done:
        """Move everything, or go on with a move that was begun.

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
        # Also if a mover has died before it came to the source, or who aborted while the target was emptied.
        fills = target is not None and target.phase is MovePhase.ARRIVING and target.place == self._source.place
        if source is None or not source.leaves:
            return target is not None and fills and await _reopened(self._target, target)
        self._refuse_elsewhere(source)
        is_part = target is not None and target.move == source.move and not target.leaves
        # Race: a mover that is still about may be opening it this very moment.
        if target is not None and (is_part or fills) and not await _reopened(self._target, target):
            raise MoveRefused(
                f"the move is done and {self._target.place} is open: what has happened there since would be lost;"
                f" to go back, move {self._target.place} to {self._source.place} with --overwrite"
            )
        return await _reopened(self._source, source)

    # Beginning

    async def _begun(self) -> tuple[str, bool]:
        """Return the id of the move that is under way, or of a new one, and whether it is done already."""
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
        # Somebody has begun to abort it and did not come to the source any more.
        await _reopened(self._source, source)
        return await self._begin(), False

    async def _begin(self) -> str:
        """Begin a new move. The target knows of it first: so whoever aborts it meets the mover there."""
        await self._refuse_same()
        await self._refuse_full()
        move = new_run_id()
        arrived = await self._again(partial(self._target.store.move, Arrive(move, self._source.place)))
        if not arrived.done:
            # Race: somebody has begun to move the target away in between.
            raise MoveRefused(
                f"{self._target.place} is itself being moved, to {_elsewhere(arrived)}; finish that first"
            )
        shut = await self._again(partial(self._source.store.move, Shut(move, self._target.place)))
        if not shut.done:
            # Race: somebody else has begun one in between.
            await self._target.store.move(Reopen(move))
            raise MoveRefused(f"{self._source.place} is being moved to {_elsewhere(shut)} by somebody else")
        return move

    async def _refuse_same(self) -> None:
        """Refuse two addresses of one store: who registers with the source is then known to the target.

        Invariant: nothing is emptied before this. One store has many addresses, so they are not compared; and to be
        known there changes nothing, so workers of a store that is refused do not even notice.
        """
        async with TakeoverWorker(self._source.store) as guest:
            is_same = await guest.is_known_to(self._target.store)
            # Race: a mover that stood still meanwhile may have been taken for dead, and was to be seen nowhere.
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
        """Refuse a target that holds something, unless that may be overwritten, or that has a part in another move."""
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
        """Wait until nothing is executed, and freeze the source in that instant."""
        freeze = partial(self._source.store.move, Freeze(move))
        busy = (await self._again(freeze)).leases
        if not busy:
            return
        deadline = self._clock.monotonic() + self._wait
        async with TakeoverWorker(self._source.store) as takeover:
            while busy:
                self._tell(Progress(Stage.WAITING, 0, busy))
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
                self._tell(Progress(Stage.COPYING, min(done, total), total))
            mark = page.mark

    async def _compare(self) -> Tally:
        """Return what both hold; raise MoveDiffers if that is not the same."""
        total, read = 2 * await _size(self._source.store), 0

        def tell(runs: int) -> None:
            nonlocal read
            read += runs
            self._tell(Progress(Stage.CHECKING, min(read, total), total))

        here, there = await asyncio.gather(*(self._tally(side.store, tell) for side in (self._source, self._target)))
        differences = here.differences(there)
        if differences:
            raise MoveDiffers(self._source.place, self._target.place, differences)
        return there

    async def _tally(self, store: Store, tell: Callable[[int], None]) -> Tally:
        tally = Tally()
        mark: Mark | None = FIRST
        while mark is not None:
            page = await self._again(partial(store.pack, mark, limit=PAGE))
            tally.add(page.pieces)
            tell(_runs(page.pieces))
            mark = page.mark
        return tally

    async def _again(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call that may be repeated, again if it gets no answer."""
        return await self._calls.repeated(call)


async def _reopened(side: Side, standing: Moving) -> bool:
    return (await side.store.move(Reopen(standing.move))).done


def _elsewhere(kept: Moved) -> str:
    return "another place" if kept.standing is None else kept.standing.place


async def _size(store: Store) -> int:
    return sum((await store.depths()).runs.values())


def _runs(pieces: Sequence[Piece]) -> int:
    return sum(isinstance(piece, RunIn) for piece in pieces)
