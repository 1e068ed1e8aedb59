"""What a store object that is alone with its data may do in another way than two that share it."""

from __future__ import annotations

from tests.contract.suite.attempts.breakers import Breakers
from tests.contract.suite.attempts.leases import Leases
from tests.contract.suite.attempts.repeats import Repeats
from tests.contract.suite.attempts.settling import Settling
from tests.contract.suite.claims.claims import Claims
from tests.contract.suite.claims.lanes import Lanes
from tests.contract.suite.claims.user_caps import Caps
from tests.contract.suite.jobs.job_wakeups import JobWakes, LostJobReplies
from tests.contract.suite.runs.logs import Logs
from tests.contract.suite.runs.reading import Reading
from tests.contract.suite.runs.submissions import Submissions
from tests.contract.suite.sessions.sessions import Sessions
from tests.contract.suite.workers.wakeups import Wakeups


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
