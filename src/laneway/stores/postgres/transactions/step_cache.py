"""What the writer's last transaction has read and written, for the next step; see `tables.runtime.step_cache`."""

from __future__ import annotations

from laneway.stores.tables.runtime.step_cache import Memory

_LANES = 4  # lanes to ask ahead of


class StepCache:
    """Holds what is known of the tables as long as nobody else has written: their transactions are numbered.

    Behind a pooler nothing is kept: the next transaction may be on another server, which lacks what this one has and
    numbers on from there.
    """

    def __init__(self, *, pooled: bool) -> None:
        self._pooled = pooled
        self.number = 0  # of the last transaction
        self.memory: Memory | None = None  # as the last transaction left it
        self.lanes: list[str] = []  # that the last step claimed from: the next one may, too

    def begin(self, number: int) -> Memory | None:
        """Begin the transaction of that number; return what is known if nobody has written since the last one."""
        memory = self.memory if number == self.number + 1 else None
        self.memory, self.number = None, number
        return memory

    def keep(self, memory: Memory | None) -> None:
        """Keep what is known after a commit."""
        self.memory = None if self._pooled else memory
        if memory is not None:
            self.lanes = list(memory.lanes)[:_LANES] or self.lanes

    def clear(self) -> None:
        """Forget it: the connection is lost."""
        self.memory = None
