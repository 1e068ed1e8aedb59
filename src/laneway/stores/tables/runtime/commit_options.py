"""What the caller of a writer says of its work before it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple

from laneway.stores.tables.runtime.step_cache import StepCache
from laneway.stores.tables.sql.database import Query

# What a piece of work reads first, by what is in the cache.
Prefetch = Callable[[StepCache], Iterable[Query]]


class Durability(Enum):
    """When the work must be on the disk. It survives a crash of any process in each case."""

    LATER = "later"  # a crash of the machine may undo it
    BEFORE_ANSWER = "before_answer"  # others may see it before; but not what it changed of runs that existed before it
    AT_COMMIT = "at_commit"  # nobody sees it before


def _nothing(_: StepCache) -> Iterable[Query]:
    return ()


class CommitOptions(NamedTuple):
    """How a piece of work is committed.

    `keeps_cache`: the work writes nothing that the writer's `StepCache` holds without keeping it true; after any other
    work the cache is cleared. What it will `prefetch` can be sent with what begins the transaction.
    """

    durability: Durability = Durability.AT_COMMIT
    keeps_cache: bool = False
    prefetch: Prefetch = _nothing


DEFAULT = CommitOptions()
