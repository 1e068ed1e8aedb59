"""What the engine asks of a store, one Protocol per capability; `Store` is their sum.

Their docstrings are the contract, and `tests/contract` checks it. What holds for every verb:

- **Atomic.** It happens whole or not at all, also if the process dies in the middle.
- **Repeatable.** Called again with the same ids or call number, it changes nothing and returns the same answer.
- **Concurrent.** Any number of processes, tasks and threads may call at once; the store decides the order.
- **Errors.** `StoreUnavailable(maybe_done=...)` when the store cannot be reached; nothing else for a healthy caller
  unless the verb says so. After an error the same call can be made again.
"""

from laneway.ports.clock import Clock
from laneway.ports.control import ControlStore, Swept
from laneway.ports.events import EventStore
from laneway.ports.lanes import LaneState, LaneStore
from laneway.ports.moves import MovingStore
from laneway.ports.runs import RunStore
from laneway.ports.sessions import SessionState, SessionStore
from laneway.ports.store import Store
from laneway.ports.upkeep import Examination, UpkeepStore
from laneway.ports.workers import WorkerStore

__all__ = [
    "Clock",
    "ControlStore",
    "EventStore",
    "Examination",
    "LaneState",
    "LaneStore",
    "MovingStore",
    "RunStore",
    "SessionState",
    "SessionStore",
    "Store",
    "UpkeepStore",
    "Swept",
    "WorkerStore",
]
