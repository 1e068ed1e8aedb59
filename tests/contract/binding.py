"""A SQLite store that binds all it can, though few come together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from laneway.core.run import NewRun
from laneway.stores.sqlite import sheaves
from laneway.stores.tables import submitting
from laneway.stores.tables.plain import look_for


def _is_plain(batch: Sequence[NewRun]) -> bool:
    return bool(batch) and look_for(batch[0]) is not None


@contextmanager
def bound_if_possible() -> Iterator[None]:
    """Have SQLite stores bind whatever may be bound, one run by itself as well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sheaves, "TOGETHER", 1)
        patch.setattr(submitting, "is_short", _is_plain)
        yield
