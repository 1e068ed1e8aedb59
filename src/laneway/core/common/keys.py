"""Idempotency keys: one submission per task, user and key. A repeat returns the run of the first."""

from __future__ import annotations

import hashlib

import msgspec

from laneway.core.common.instants import SECOND

KEPT = 24 * 3600 * SECOND  # a key is kept for so long and until its run is pruned

_encode = msgspec.json.Encoder(order="sorted").encode


class KeyEntry(msgspec.Struct, frozen=True, gc=False):
    """What a key stands for: its run, and a digest of the arguments."""

    run_id: str
    number: int
    digest: str
    at: int


def digest(args: str) -> str:
    """Return a digest of arguments, given as JSON text. The order of their names does not matter.

    >>> digest('{"a":1,"b":2}') == digest('{"b":2,"a":1}')
    True
    """
    return hashlib.blake2b(_encode(msgspec.json.decode(args)), digest_size=16).hexdigest()
