"""What a piece of work asks of its commit, and what follows it."""

from __future__ import annotations


class Effects:
    """Whom to wake, as (incarnation, its socket), and whether events were written.

    What need not be `durable` survives a crash of any process, and only a crash of the machine may undo it.
    """

    __slots__ = ("durable", "events", "wake")

    def __init__(self, *, durable: bool = True) -> None:
        self.durable = durable
        self.wake: list[tuple[str, str | None]] = []
        self.events = False
