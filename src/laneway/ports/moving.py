"""Moving: letting a store's content go to another store, or taking in that of another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from laneway.core.transfer.move_state import Moving
from laneway.core.transfer.pieces import FIRST, Mark, Page, Piece


class MovingStore(Protocol):
    """Goes through the phases of a move (`core.transfer.move_state`), as its source or as its target.

    What a phase refuses holds for all processes from the same instant on. While a source is shut or frozen, `submit`,
    `fire` and `register` raise StoreMoved (but for an incarnation that knows no tasks, and so cannot claim: it may take
    over from the dead); `step` settles and claims nothing, and its reply's `moved` says where to go. Once it is frozen
    every verb that would change what is moved raises StoreMoved, a step's results are refused, and pruning and trimming
    find nothing; renewing, leaving and reading go on. While a target is arriving, all these raise StoreUnavailable.
    """

    async def moving(self) -> Moving | None:
        """Return how the store stands in a move; None if it never had a part in one, or was reopened."""
        ...

    async def shut_for(self, move: str, place: str) -> Moving:
        """Be the source of this move from now on; `place` is the target's address as it may be shown.

        Wakes all workers, so that they hear of it. Repeatable: of a move that it is the source of already nothing
        changes. Returns how it stands then: as before, if it has a part in another move. One that has arrived from
        somewhere may leave again.
        """
        ...

    async def freeze(self, move: str) -> int:
        """Let nothing change any more, if nothing is executed; return how many leases are left, 0 once it is frozen.

        Submissions that are on their way in other people's transactions count, too. Repeatable.
        """
        ...

    async def reopen(self, move: str) -> bool:
        """Undo this move's part: a source goes on as before, a target that has not arrived is emptied.

        Returns whether this move had a part that could be undone.
        """
        ...

    async def holds(self) -> list[str]:
        """Return what there is that a move into this store would destroy, in words; nothing if it is empty.

        Lanes as code declares them do not count; live incarnations do.
        """
        ...

    async def arrive(self, move: str, place: str) -> Moving:
        """Be the target of this move from now on, and hold nothing; `place` is the source's address.

        Repeatable: what the same move has brought already stays. Returns how it stands then: as before, if it is the
        source of another move.
        """
        ...

    async def pack(self, after: Mark = FIRST, *, limit: int = 500) -> Page:
        """Return the next pieces behind a mark: about `limit`, or more where that is simpler.

        Of a store that does not change (frozen, or arriving) all pages together have every piece once.
        """
        ...

    async def unpack(self, move: str, pieces: Sequence[Piece], mark: Mark | None) -> None:
        """Take in these pieces and, with them, remember the mark; None leaves the one that is remembered.

        What is there already stays as it is, so a page can be brought again. Raises StoreUnavailable if the store is
        not the target of this move.
        """
        ...

    async def open_up(self, move: str) -> None:
        """Be an ordinary store: all that was brought can be used. Repeatable."""
        ...
