"""A run as a transaction holds it, and its row in the table of runs."""

from __future__ import annotations

import msgspec

from laneway.core.common.structs import written_often
from laneway.core.records.run import NewRun, RunLinks
from laneway.stores.tables.sql.statements import Row

decode_ties = msgspec.json.Decoder(RunLinks).decode


def encode_ties(new: NewRun) -> str | None:
    """Return the links of a submission to other runs, as JSON."""
    return None if new.ties is None else msgspec.json.encode(new.ties).decode()


@written_often
class RunRow(msgspec.Struct, eq=False, gc=False):
    """A run as a transaction holds it, with the columns of `shelves.sql` in their order.

    `args` is None if it was not read. `paused` is set for a held run that is paused. `arrival` is its session intent,
    as JSON, for a run that may join its session in this transaction. `tied` are its links to other runs, as JSON.
    `kept` is the number of its memos.
    """

    kind: int
    rank: int
    number: int
    id: str
    task: str
    args: str | None
    lane: str
    user: str | None
    session: str | None
    priority: int
    tied: str | None = None
    paused: bool = False
    arrival: str | None = None
    attempt: int = 1
    crashes: int = 0
    fence: int = 0
    events: int = 0
    checkpoint: str | None = None
    prepared: str | None = None
    messages: int = 0
    kept: int = 0

    @property
    def ties(self) -> RunLinks | None:
        """Its links to other runs."""
        return None if self.tied is None else decode_ties(self.tied)


def row_of(run: RunRow, arrival: str | None, accepted_at: int, due_at: int) -> Row:
    """Return the row to insert for a run. Lookups try its rank first (`find` in `shelves.sql`)."""
    facts = (run.number, run.id, run.task, run.lane, run.user, run.session, run.priority)
    return *facts, arrival, accepted_at, due_at, run.rank, run.args, run.tied
