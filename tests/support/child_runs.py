"""The runs that a handler calls and leaves behind, in the form in which a worker writes them."""

from __future__ import annotations

from typing import Unpack

from laneway.core.lifecycle.endings import Ended, called_by, left_by
from laneway.core.records.run import NewRun
from laneway.testing.hand import Fields, new_run


def child_of(run: Ended, name: str = "child", *, tries: int = 0, about: str = "", **fields: Unpack[Fields]) -> NewRun:
    """Return the submission of a run that this one calls under that name."""
    return called_by(run, new_run(name, **fields), name, tries, about)


def follow_up(run: Ended, nth: int = 1, **fields: Unpack[Fields]) -> NewRun:
    """Return the submission that the run's handler holds back as its `nth`."""
    return left_by(run, new_run(f"held back {nth}", **fields), "submit", nth)
