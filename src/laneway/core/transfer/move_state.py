"""A store's part in a move, and what it refuses meanwhile.

```
source:   open --shut--> shut --freeze--> frozen          (reopen: back to open)
target:   empty --arrive--> arriving --open_up--> arrived  (reopen: empty and open again)
```

*Shut*: the store accepts, claims and fires nothing new. What was claimed is settled, and people may still cancel,
answer and read. *Frozen*: nothing changes any more, so it can be copied, in as many tries as it takes. *Arriving*: it
is being filled, and nobody else may use it. A store that has *arrived* is an ordinary store again. It remembers the
move, so the same move, started again, finds that it is done.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from laneway.core.transfer.pieces import Mark
from laneway.errors import StoreMoved, StoreUnavailable


class MovePhase(StrEnum):
    """How far a store has come in a move."""

    SHUT = "shut"
    FROZEN = "frozen"
    ARRIVING = "arriving"
    ARRIVED = "arrived"


class Moving(msgspec.Struct, frozen=True, kw_only=True):
    """A store's part in a move.

    `place` is the address of the other store as it may be shown. `mark` is how far its pieces have come.
    """

    phase: MovePhase
    move: str  # its id
    place: str
    mark: Mark | None = None

    @property
    def leaves(self) -> bool:
        """Whether it is the source of the move."""
        return self.phase in (MovePhase.SHUT, MovePhase.FROZEN)


def refuse_new(moving: Moving | None) -> None:
    """Raise for a call that brings something new: StoreMoved, or StoreUnavailable while the store is being filled."""
    if moving is not None and moving.leaves:
        raise StoreMoved(moving.place)
    refuse_change(moving)


def refuse_change(moving: Moving | None) -> None:
    """Raise for a call that changes anything, if nothing may change now."""
    if moving is None:
        return
    if moving.phase is MovePhase.FROZEN:
        raise StoreMoved(moving.place)
    if moving.phase is MovePhase.ARRIVING:
        raise filling(moving.place)


def filling(place: str) -> StoreUnavailable:
    """Return the error of a store that is being filled from that place."""
    return StoreUnavailable(f"this store is being filled by a move from {place}; it opens when that is done")


def is_still(moving: Moving | None) -> bool:
    """Tell whether nothing may change now, so that work which can wait must wait."""
    return moving is not None and moving.phase in (MovePhase.FROZEN, MovePhase.ARRIVING)


def in_words(runs: int, jobs: int, keys: int, settings: int, circuits: int, workers: int) -> list[str]:
    """Return what a store holds, in words.

    >>> in_words(1, 0, 3, 0, 0, 0)
    ['1 run', '3 idempotency keys']
    """
    counts = {
        "run": runs,
        "job": jobs,
        "idempotency key": keys,
        "operator's setting": settings,
        "circuit": circuits,
        "live worker": workers,
    }
    return [f"{count} {noun}{'s' * (count != 1)}" for noun, count in counts.items() if count]
