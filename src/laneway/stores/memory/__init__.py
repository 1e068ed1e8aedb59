"""The memory store: the reference, in the memory of one process."""

from __future__ import annotations

from laneway.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
