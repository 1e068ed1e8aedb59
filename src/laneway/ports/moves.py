"""Moving: bring the content of one store to another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import msgspec

from laneway.core.transfer.move_state import Moving
from laneway.core.transfer.pieces import FIRST, Mark, Page, Piece


class Shut(msgspec.Struct, frozen=True):
    """Be the source of this move from now on; `place` is the target's address as it may be shown.

    Wakes all workers, so that they learn of it. A store that is the source of this move already does not change, nor
    does one that has a part in another move; but one that has arrived from another place may leave again.
    """

    move: str
    place: str


class Freeze(msgspec.Struct, frozen=True):
    """Let nothing change any more, if no run is executed: `Moved.leases` are left.

    Submissions that are on their way in other people's transactions count, too. Raises StoreUnavailable if the store is
    not the source of this move.
    """

    move: str


class Reopen(msgspec.Struct, frozen=True):
    """Undo this move's part: a source goes on as before, a target that has not arrived is emptied.

    Done if this call found a part of this move that could be undone.
    """

    move: str


class Arrive(msgspec.Struct, frozen=True):
    """Be the target of this move from now on, and hold nothing; `place` is the source's address.

    What the same move has brought already stays. A store that is shut for another move does not change.
    """

    move: str
    place: str


class OpenUp(msgspec.Struct, frozen=True):
    """Be an ordinary store: all that was brought can be used.

    Raises StoreUnavailable if the store is not the target of this move.
    """

    move: str


Transition: TypeAlias = Shut | Freeze | Reopen | Arrive | OpenUp


class Moved(msgspec.Struct, frozen=True):
    """The answer to a transition: whether it is done, by this call or an earlier one.

    After `Shut` and `Arrive`, `standing` is how the store stands: in this move, or still in the other one that kept it
    from this. After `Freeze`, `leases` is how many leases are left; once there are none, it is done.
    """

    done: bool
    standing: Moving | None = None
    leases: int = 0


class MovingStore(Protocol):
    """Goes through the phases of a move (`core.transfer.move_state`), as its source or as its target.

    What a phase refuses holds for all processes from the same instant on. While a source is shut or frozen, `submit`,
    `fire` and `register` raise StoreMoved (but for an incarnation that knows no tasks, and so cannot claim: it may take
    over from the dead); `step` settles and claims nothing, and its reply's `moved` says where to go. Once it is frozen
    every verb that would change what is moved raises StoreMoved, a step's results are refused, and pruning and trimming
    find nothing; renewing, leaving and reading go on. While a target is arriving, all these raise StoreUnavailable.
    """

    async def moving(self) -> Moving | None:
        """Return the store's part in a move; None if it never had one, or was reopened."""
        ...

    async def move(self, transition: Transition) -> Moved:
        """Make this transition, in one atomic step; each kind says what it does and raises. All can be repeated."""
        ...

    async def holds(self) -> list[str]:
        """Return, in words, what a move into this store would destroy; nothing if the store is empty.

        Lanes as code declares them do not count; live incarnations do.
        """
        ...

    async def pack(self, after: Mark = FIRST, *, limit: int = 500) -> Page:
        """Return the next pieces after a mark: about `limit`, or more if that is simpler for the store.

        If the store does not change (it is frozen, or arriving), all pages together have every piece once.
        """
        ...

    async def unpack(self, move: str, pieces: Sequence[Piece], mark: Mark | None) -> None:
        """Write these pieces and, in the same atomic step, the mark; None leaves the stored mark.

        Existing pieces stay as they are, so a page can be written again. Raises StoreUnavailable if the store is
        not the target of this move.
        """
        ...
