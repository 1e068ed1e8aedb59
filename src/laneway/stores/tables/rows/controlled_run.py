"""A run as control and session policies need it, in whatever state it is."""

from __future__ import annotations

from collections.abc import Collection

from laneway.core.records.states import RunState
from laneway.stores.tables.rows.leased_run import LeasedRun
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import as_json, sql_names

_SQL = sql_names("run_control")


class ControlledRun(LeasedRun, gc=False):
    """A run, leased or not. `hint` is its rank at acceptance, `call` the newest control call that changed it."""

    state: str = RunState.PENDING.value
    holder: str | None = None
    died: str | None = None
    hint: int = 0
    due_at: int = 0
    error: str | None = None
    reason: str | None = None
    call: str | None = None
    ended_at: int | None = None

    @property
    def stands(self) -> RunState:
        """Its state."""
        return RunState(self.state)


def read(db: Database, numbers: Collection[int]) -> list[ControlledRun]:
    """Return these runs, in this order."""
    return [ControlledRun(*row) for row in db.execute(_SQL["steered"], (as_json(numbers),))]


def numbers(db: Database, ids: Collection[str]) -> list[int]:
    """Return the numbers of these runs, in this order; unknown ids are left out."""
    return [number for (number,) in db.execute(_SQL["numbers"], (as_json(ids),))]
