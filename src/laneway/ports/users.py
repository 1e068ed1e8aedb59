"""Users: their caps, and how many runs each has."""

from __future__ import annotations

from typing import Protocol

import msgspec


class UserState(msgspec.Struct, frozen=True, kw_only=True):
    """A user in a lane: how many runs are active and how many wait for a turn or at the cap.

    `cap` is what an operator set for this user here, None if the lane's `per_user` holds.
    """

    user: str
    lane: str
    active: int = 0
    waiting: int = 0
    cap: int | None = None
    paused: bool = False


class UserStore(Protocol):
    """Reads how users stand. A user without runs and without settings is not kept."""

    async def users(
        self, *, user: str | None = None, limit: int = 100, after: tuple[str, str] = ("", "")
    ) -> list[UserState]:
        """Return up to `limit` users that have runs or settings in a lane, by (user, lane), after `after`.

        A paused user without runs and without caps is listed once, in the lane "".
        """
        ...
