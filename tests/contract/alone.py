"""What a store object that is alone with its data may do in another way than two that share it."""

from __future__ import annotations

from laneway.testing import StoreContract  # noqa: F401 - first, because it has pytest rewrite the parts' assertions
from laneway.testing.contract.breakers import Breakers
from laneway.testing.contract.caps import Caps
from laneway.testing.contract.claims import Claims
from laneway.testing.contract.jobwakes import JobWakes, LostJobReplies
from laneway.testing.contract.lanes import Lanes
from laneway.testing.contract.leases import Leases
from laneway.testing.contract.logs import Logs
from laneway.testing.contract.reading import Reading
from laneway.testing.contract.repeats import Repeats
from laneway.testing.contract.sessions import Sessions
from laneway.testing.contract.settling import Settling
from laneway.testing.contract.submissions import Submissions
from laneway.testing.contract.wakeups import Wakeups


class ContractAlone(
    Submissions,
    Reading,
    Claims,
    Caps,
    Lanes,
    Sessions,
    Settling,
    Logs,
    Repeats,
    Leases,
    Wakeups,
    Breakers,
    JobWakes,
    LostJobReplies,
):
    """The parts of the contract in which a store object's own memory and its own wake-ups take part.

    An object may remember what its last step knew, see at once what it has just written, and wake who rests without
    leaving the process; a second one makes it forget. What only asks and writes is the same through both, so
    `make test` shows it once, through two objects, which shows more. `make chaos` shows everything through one as well,
    and in the model test every other store is alone.
    """
