"""Jitter: a part of a wait that looks random and is the same in every process that computes it.

Every process that plans a retry or a fire computes the same time, without communication. The source is SHA-1 of a text,
the one hash that Redis offers to scripts: `rules/common/jitter.lua` computes the same. The values are no promise to
users: a later release may compute others.
"""

from __future__ import annotations

from hashlib import sha1


def share(text: str) -> float:
    """Return a number in [0, 1) that depends on `text` alone: the first 48 bits of its SHA-1.

    >>> share("a") == share("a"), 0 <= share("b") < 1
    (True, True)
    """
    return int.from_bytes(sha1(text.encode(), usedforsecurity=False).digest()[:6], "big") / 2**48


def part(text: str, whole: int) -> int:
    """Return the text's share of a whole number below 2**53, rounded down.

    >>> part("a", 1000)
    527
    """
    return int(share(text) * whole)  # in doubles, as Lua multiplies
