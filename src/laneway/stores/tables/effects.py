"""What a piece of work asks of its commit, and what follows it."""

from __future__ import annotations

from laneway.stores.tables.remembering import Memory


class Effects:
    """Whom to wake, as (incarnation, its socket), and whether events were written.

    What need not be `durable` survives a crash of any process, and only a crash of the machine may undo it. Work that
    `remembers` finds in `memory` what holds, and leaves there what then holds, or None. After any other, nothing does.
    """

    __slots__ = ("durable", "events", "memory", "remembers", "wake")

    def __init__(self, *, durable: bool = True, remembers: bool = False) -> None:
        self.durable, self.remembers = durable, remembers
        self.memory: Memory | None = None
        self.wake: list[tuple[str, str | None]] = []
        self.events = False
