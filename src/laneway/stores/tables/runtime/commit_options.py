"""What the caller of a writer says of its work before it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple

from laneway.stores.tables.sql.database import Query

# What a piece of work reads first.
Prefetch = Callable[[], Iterable[Query]]


class Durability(Enum):
    """When the work must be on the disk. It survives a crash of any process in each case."""

    LATER = "later"  # a crash of the machine may undo it
    BEFORE_ANSWER = "before_answer"  # others may see it before; but not what it changed of runs that existed before it
    AT_COMMIT = "at_commit"  # nobody sees it before


def _nothing() -> Iterable[Query]:
    return ()


class CommitOptions(NamedTuple):
    """How a piece of work is committed. What it will `prefetch` can be sent with what begins the transaction."""

    durability: Durability = Durability.AT_COMMIT
    prefetch: Prefetch = _nothing


DEFAULT = CommitOptions()
