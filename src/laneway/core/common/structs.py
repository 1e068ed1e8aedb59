"""Structs whose fields are written all the time."""

from __future__ import annotations

from typing import TypeVar

import msgspec

S = TypeVar("S", bound=type[msgspec.Struct])


def written_often(struct: S) -> S:
    """Let the fields of a Struct be written as fast as any object's slots, which takes a third of the time.

    msgspec writes them in a way of its own, for the sake of the garbage collector. A Struct with `gc=False` is none of
    the collector's business: Python's own way, which the interpreter knows a short cut for, does the same to it.

    >>> @written_often
    ... class Point(msgspec.Struct, gc=False):
    ...     x: int = 0
    >>> point = Point()
    >>> point.x = 7
    >>> point
    Point(x=7)
    """
    assert not struct.__struct_config__.gc, f"{struct.__name__} is the garbage collector's business"
    # Both, because they share a place in the type; now, because msgspec fills that place when it makes the class.
    struct.__delattr__ = object.__delattr__  # type: ignore[method-assign]
    struct.__setattr__ = object.__setattr__  # type: ignore[method-assign]
    return struct
