"""Upkeep: delete what is old, check the store, and examine it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeAlias

import msgspec

from laneway.core.queue.audit import Finding
from laneway.core.records.liveness import WorkerInfo
from laneway.core.records.states import RunState


class Examination(msgspec.Struct, frozen=True, kw_only=True):
    """What a store is, and in which condition. A field that is None could not be read (see `damage`, `layout`)."""

    engine: str  # "SQLite 3.51.3"
    layout: int  # 0 where it cannot be told
    newest_layout: int  # this laneway's
    kept: str | None = None  # what a restart of the store's server keeps; None where there is no server
    warnings: list[str] = []  # what an operator should change about the engine
    sizes: Mapping[str, int] = {}  # bytes, by what takes them: file, log, unused; memory, and its limit if it has one
    damage: list[str] = []  # what the engine itself finds wrong with its data
    findings: list[Finding] | None = None
    runs: Mapping[str, int] | None = None  # by state
    workers: list[WorkerInfo] | None = None
    newest_at: int | None = None  # the latest instant anything was written at; None also where nothing was
    set_back: int | None = None  # microseconds: the farthest the clock was set back while the newest runs were accepted


class OldRuns(msgspec.Struct, frozen=True):
    """Delete runs that ended longer ago than their state is kept, with all that belongs to them.

    `keep` is in microseconds since the run ended; a state that is absent is kept for ever.
    """

    keep: Mapping[RunState, int]


class OldDeltas(msgspec.Struct, frozen=True):
    """Trim the logs of runs that ended longer ago than so many microseconds and have `delta` events.

    Each unbroken stretch of deltas becomes one event `trimmed {first, last, events}` under the number of the last one,
    with its attempt and time; all other events keep their numbers. So a page from any cursor, also from inside the
    stretch, has the mark that covers what is gone, and no other gap. The cost does not grow with runs without deltas.
    """

    age: int


Old: TypeAlias = OldRuns | OldDeltas


class UpkeepStore(Protocol):
    """Keeps the store small and right."""

    async def prune(self, old: Old, *, limit: int = 500) -> int:
        """Delete what is old of up to `limit` runs; each kind says what that is.

        The run that ended first goes first (of the same instant: the one accepted first). A run that has not ended is
        never touched. Returns how many runs there were; fewer than `limit` means that nothing old is left. Any number
        of callers may prune at once: each run is counted by one of them. Repeating it is harmless, though the count is
        another one then.
        """
        ...

    async def check(self, *, repair: bool = False) -> list[Finding]:
        """Return what disagrees: counts with what they count, leases with runs, shelves with leases.

        A healthy store has no findings, also while others use it. With `repair`, everything found is corrected in the
        same atomic step: counts are counted again, and a run that no claim could find becomes claimable. It reads all
        pending and running runs.
        """
        ...

    async def examine(self, *, deep: bool = True) -> Examination:
        """Return the condition of the store. It changes nothing and needs no `open`: damaged stores can be examined.

        `deep` reads everything there is; without it, `damage` and `findings` are left out.
        Raises NotAStore, StoreTooNew or StoreUnavailable if there is nothing to examine.
        """
        ...
