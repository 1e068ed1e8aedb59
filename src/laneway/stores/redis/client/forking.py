"""Forking: a child has its parent's connections, and none of the loops and threads that use them.

Whoever wrote to one from both sides would get the other's answers. So a child lets go of them all and makes its own;
the parent notices nothing.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Forgetful(Protocol):
    """What holds connections, and can begin anew without them."""

    def forget(self) -> None:
        """Begin anew, in a child that was just forked; take no lock, somebody may have held it."""
        ...


_HOLDERS: WeakSet[Forgetful] = WeakSet()
_LEFT_BEHIND: list[object] = []


def remember(holder: Forgetful) -> None:
    """Have it told when a child is forked."""
    _HOLDERS.add(holder)


def leave_behind(*things: object) -> None:
    """Keep what belongs to the parent's loops from being taken apart here, which would be loud."""
    _LEFT_BEHIND.extend(things)


def let_go(descriptor: int) -> None:
    """Close this process's share of a socket, and leave its number to the object that it belongs to."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, descriptor, inheritable=False)
    os.close(nothing)


def _forget() -> None:
    for holder in list(_HOLDERS):
        holder.forget()


# Not on Windows, which cannot fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
