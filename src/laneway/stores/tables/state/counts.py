"""All counts of one transaction: those of lanes with their users, and those of sessions."""

from __future__ import annotations

from collections.abc import Collection

from laneway.core.queue.shelves import Pending
from laneway.core.queue.turns import AGAIN
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.state.lane_counts import LaneCounts
from laneway.stores.tables.state.session_counts import SessionCounts
from laneway.stores.tables.state.user_counts import TurnKey


class Counts:
    """The counts of lanes and of sessions."""

    def __init__(self, db: Database, *, capped: bool = True, ruled: bool = True) -> None:
        self.lanes = LaneCounts(db, capped=capped)
        self.sessions = SessionCounts(db, ruled=ruled)

    def fetch(self, runs: Collection[Pending]) -> None:
        """Load what the rules need for these runs, in one query per table and lane instead of one per run."""
        users: dict[str, set[str]] = {}
        turns: dict[str, set[TurnKey]] = {}
        sessions = set[str]()
        for run in runs:
            user, session = run.user, run.session
            if user is not None:
                users.setdefault(run.lane, set()).add(user)
            if not run.kind & AGAIN:
                turns.setdefault(run.lane, set()).add((user, run.priority))
            if session is not None:
                sessions.add(session)
        for load in (*self.lanes.send_query(users, turns), self.sessions.send_query(sessions)):
            load()

    def write(self) -> None:
        """Write back what changed."""
        self.lanes.write()
        self.sessions.write()
