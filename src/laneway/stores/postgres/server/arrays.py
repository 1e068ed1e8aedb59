"""Arrays in PostgreSQL's binary format: the parameters of a statement for many rows, one array per column.

In text format each value is quoted here and parsed there, which takes as long as writing the rows. A column whose
values are all equal is packed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat
from struct import Struct, pack
from typing import Any

import psycopg

_HEAD = Struct(">5i")  # dimensions, whether there are NULLs, type of the values, their number, index of the first
_TEXT, _INT, _BIGINT = 25, 23, 20  # type numbers of the server
_LENGTH = Struct(">i").pack
_SMALL, _BIG = Struct(">ii"), Struct(">iq")  # a value behind its length
_NULL = _LENGTH(-1)
_encoded: Callable[[Any], bytes] = str.encode


def texts(column: Sequence[str | None]) -> bytes:
    r"""Return an array of text.

    >>> texts(["ab", None])[-10:]
    b'\x00\x00\x00\x02ab\xff\xff\xff\xff'
    """
    if _is_one(column):
        return _array(_TEXT, len(column), _text(column[0]) * len(column), nulls=column[0] is None)
    if None in column:
        return _array(_TEXT, len(column), b"".join(map(_text, column)), nulls=True)
    values = list(map(_encoded, column))
    _refuse_nul(b"".join(values))
    pairs: Iterable[tuple[bytes, bytes]] = zip(map(_LENGTH, map(len, values)), values, strict=True)
    return _array(_TEXT, len(values), b"".join(chain.from_iterable(pairs)))


def ints(column: Sequence[int | None]) -> bytes:
    r"""Return an array of int.

    >>> ints([1])[-8:]
    b'\x00\x00\x00\x04\x00\x00\x00\x01'
    """
    return _numbers(column, _INT, "i", _SMALL)


def bigints(column: Sequence[int | None]) -> bytes:
    r"""Return an array of bigint.

    >>> bigints([1, 2]) == _array(_BIGINT, 2, b"".join(_BIG.pack(8, value) for value in (1, 2)))
    True
    """
    return _numbers(column, _BIGINT, "q", _BIG)


ARRAYS: dict[str, Callable[[Sequence[Any]], bytes]] = {"text": texts, "int": ints, "bigint": bigints}


def _numbers(column: Sequence[int | None], kind: int, code: str, pair: Struct) -> bytes:
    count, size = len(column), pair.size - 4
    if _is_one(column):
        first = column[0]
        return _array(kind, count, (_NULL if first is None else pair.pack(size, first)) * count, nulls=first is None)
    if None in column:
        values = b"".join([_NULL if each is None else pair.pack(size, each) for each in column])
        return _array(kind, count, values, nulls=True)
    pairs = zip(repeat(size), column, strict=False)
    return _array(kind, count, pack(">" + f"i{code}" * count, *chain.from_iterable(pairs)))


def _array(kind: int, count: int, values: bytes, *, nulls: bool = False) -> bytes:
    return _HEAD.pack(1, nulls, kind, count, 1) + values


def _is_one(column: Sequence[object]) -> bool:
    return bool(column) and column.count(column[0]) == len(column)


def _text(text: str | None) -> bytes:
    if text is None:
        return _NULL
    value = text.encode()
    _refuse_nul(value)
    return _LENGTH(len(value)) + value


def _refuse_nul(values: bytes) -> None:
    if b"\0" in values:
        raise psycopg.DataError("PostgreSQL cannot store text that contains a NUL")
