"""Compare two stores by their pieces: how many there are of each kind, and one digest of them all.

A digest is the sum of the pieces' digests, so the order of the pieces does not matter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from laneway.core.transfer.pieces import JobIn, Piece, RunIn

_ROOM = 2**256
_encode = msgspec.json.Encoder(order="sorted").encode


class Tally:
    """Counts and digests of pieces, by kind."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._sums: dict[str, int] = {}

    def add(self, pieces: Iterable[Piece]) -> None:
        """Count these pieces."""
        for piece in pieces:
            kind = kind_of(piece)
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._sums[kind] = (self._sums.get(kind, 0) + _digest(piece)) % _ROOM

    @property
    def counts(self) -> dict[str, int]:
        """How many there are of each kind."""
        return dict(sorted(self._counts.items()))

    @property
    def digest(self) -> str:
        """One digest of all of them."""
        lines = [f"{kind} {count} {self._sums[kind]:064x}" for kind, count in self.counts.items()]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def differences(self, other: Tally) -> list[str]:
        """Return the kinds that differ, in words; nothing if both are the same."""
        found = []
        for kind in sorted({*self._counts, *other._counts}):
            mine, theirs = self._counts.get(kind, 0), other._counts.get(kind, 0)
            if mine != theirs:
                found.append(f"{kind}: {mine} there, {theirs} here")
            elif self._sums[kind] != other._sums[kind]:
                found.append(f"{kind}: the {mine} differ in what they hold")
        return found


def kind_of(piece: Piece) -> str:
    """Return the kind of a piece, as its tag names it."""
    return str(type(piece).__struct_config__.tag)


def _digest(piece: Piece) -> int:
    return int.from_bytes(hashlib.sha256(canonical(piece)).digest(), "big")


def canonical(piece: Piece) -> bytes:
    """Return the one form that equal pieces have.

    When msgspec leaves out defaults, it leaves out a text or a large number only if it is the identical object. So
    pieces that may hold such defaults, jobs and links, are written whole. For all others it makes no difference.
    """
    if isinstance(piece, JobIn):
        return _encode(_whole(piece))
    if isinstance(piece, RunIn) and piece.ties is not None:
        return _encode([_whole(piece.ties), msgspec.structs.replace(piece, ties=None)])
    return _encode(piece)


def _whole(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        return {name: _whole(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, tuple | list):
        return [_whole(item) for item in value]
    return value
