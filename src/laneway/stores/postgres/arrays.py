"""Arrays as PostgreSQL takes them in binary: what a statement for many rows is given, a column each.

As text each value would be quoted here and unquoted there, which took as long as writing the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat
from struct import Struct, pack
from typing import Any

import psycopg

_HEAD = Struct(">5i")  # dimensions, whether there are NULLs, the type of its values, how many, the number of the first
_TEXT, _INT, _BIGINT = 25, 23, 20  # as the server numbers its types
_LENGTH = Struct(">i").pack
_NULL = _LENGTH(-1)


def texts(column: Sequence[str | None]) -> bytes:
    r"""Return an array of text.

    >>> texts(["ab", None])[-10:]
    b'\x00\x00\x00\x02ab\xff\xff\xff\xff'
    """
    nulls = None in column
    values = [b"" if text is None else text.encode() for text in column]
    if b"\0" in b"".join(values):
        raise psycopg.DataError("PostgreSQL keeps no text with a NUL in it")
    lengths: Iterable[int] = map(len, values)
    if nulls:
        lengths = [-1 if text is None else length for text, length in zip(column, lengths, strict=True)]
    body = b"".join(chain.from_iterable(zip(map(_LENGTH, lengths), values, strict=True)))
    return _HEAD.pack(1, nulls, _TEXT, len(values), 1) + body


def ints(column: Sequence[int | None]) -> bytes:
    r"""Return an array of int.

    >>> ints([1])[-8:]
    b'\x00\x00\x00\x04\x00\x00\x00\x01'
    """
    return _numbers(column, _INT, 4, "i")


def bigints(column: Sequence[int | None]) -> bytes:
    """Return an array of bigint."""
    return _numbers(column, _BIGINT, 8, "q")


ARRAYS: dict[str, Callable[[Sequence[Any]], bytes]] = {"text": texts, "int": ints, "bigint": bigints}


def _numbers(column: Sequence[int | None], kind: int, size: int, code: str) -> bytes:
    if None in column:
        values = b"".join([_NULL if each is None else pack(f">i{code}", size, each) for each in column])
    else:
        values = pack(">" + f"i{code}" * len(column), *chain.from_iterable(zip(repeat(size), column, strict=False)))
    return _HEAD.pack(1, None in column, kind, len(column), 1) + values
