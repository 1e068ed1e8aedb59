"""The ports stay small: what says the same of different nouns is one verb."""

from __future__ import annotations

from laneway.ports.store import Store

MOST_VERBS = 42


def verbs(port: type) -> set[str]:
    """Return the names of what a port asks of a store."""
    return {name for part in port.__mro__ for name in vars(part) if not name.startswith("_")}


def test_a_store_has_few_verbs() -> None:
    found = verbs(Store)

    assert {"submit", "step", "renew", "close"} <= found
    assert len(found) <= MOST_VERBS, sorted(found)
