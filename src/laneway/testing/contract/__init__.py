"""The contract of `laneway.ports`, as tests: one class per capability, and `StoreContract`, their sum.

A store author writes this, and nothing else (with `asyncio_mode = "auto"`):

    class TestMyStore(StoreContract):
        @pytest.fixture
        async def store(self, clock: FakeClock) -> AsyncIterator[Store]:
            store = MyStore(..., clock)
            await store.open()
            yield store
            await store.close()

The tests look at what was recorded and at the events, not only at the answers. After each of them the invariants are
checked, and every run is brought to its end.
"""

from __future__ import annotations

from laneway.testing.contract.answering import WhileWaitingAnswer
from laneway.testing.contract.arrivals import Arrivals
from laneway.testing.contract.bounds import Bounds
from laneway.testing.contract.breakers import Breakers
from laneway.testing.contract.breaking import BreakersAndOperators, UserBreakers
from laneway.testing.contract.calls import Calls
from laneway.testing.contract.caps import Caps
from laneway.testing.contract.checkpoints import Checkpoints, Requests, TimeOuts
from laneway.testing.contract.claims import Claims
from laneway.testing.contract.control import Behind, Cancelling
from laneway.testing.contract.crowds import Crowds
from laneway.testing.contract.deadlines import Deadlines
from laneway.testing.contract.due import DueTimes
from laneway.testing.contract.duejobs import DueJobsInOrder
from laneway.testing.contract.families import Families
from laneway.testing.contract.firerecords import FireRecords
from laneway.testing.contract.firing import JobFires
from laneway.testing.contract.followups import FollowUps
from laneway.testing.contract.given import SessionRules
from laneway.testing.contract.holding import HeldThings, Holding
from laneway.testing.contract.inboxes import Inboxes
from laneway.testing.contract.jobends import AfterEnds, JobEnds
from laneway.testing.contract.jobs import ChangedJobs, Jobs
from laneway.testing.contract.jobwakes import JobWakes, LostJobReplies
from laneway.testing.contract.keys import Keys
from laneway.testing.contract.lanes import Lanes
from laneway.testing.contract.leases import Leases
from laneway.testing.contract.lending import Lending
from laneway.testing.contract.logs import Logs
from laneway.testing.contract.memos import Memos
from laneway.testing.contract.missed import MadeUpFor
from laneway.testing.contract.moving import Arriving, Leaving
from laneway.testing.contract.overlap import NamedSessions, Overlaps
from laneway.testing.contract.passing import Passing
from laneway.testing.contract.pausing import PausedSessions, Pausing
from laneway.testing.contract.pruning import Pruning
from laneway.testing.contract.questions import Questions
from laneway.testing.contract.reading import Reading
from laneway.testing.contract.repeats import Repeats
from laneway.testing.contract.returning import Returning
from laneway.testing.contract.rules import LaneRules, UserCaps, WorkerLimits
from laneway.testing.contract.sessions import Sessions
from laneway.testing.contract.settling import Settling
from laneway.testing.contract.stopping import Stopping
from laneway.testing.contract.submissions import Submissions
from laneway.testing.contract.sweeping import Sweeping
from laneway.testing.contract.trimming import Trimming
from laneway.testing.contract.turns import Turns
from laneway.testing.contract.waiting import Waiting
from laneway.testing.contract.wakeups import Wakeups
from laneway.testing.contract.while_waiting import WhileWaitingCancel, WhileWaitingQueue
from laneway.testing.contract.why import Why
from laneway.testing.contract.windows import Windows


class StoreContract(
    Submissions,
    Reading,
    DueTimes,
    Claims,
    Turns,
    Caps,
    Lanes,
    Sessions,
    Settling,
    Logs,
    Repeats,
    Leases,
    Wakeups,
    Lending,
    Pruning,
    Trimming,
    Cancelling,
    Behind,
    Sweeping,
    Pausing,
    PausedSessions,
    Checkpoints,
    TimeOuts,
    Requests,
    Crowds,
    Bounds,
    LaneRules,
    UserCaps,
    WorkerLimits,
    Holding,
    HeldThings,
    Arrivals,
    SessionRules,
    Windows,
    Inboxes,
    Stopping,
    Keys,
    Passing,
    Why,
    Questions,
    Deadlines,
    Waiting,
    Memos,
    Calls,
    Returning,
    Families,
    FollowUps,
    WhileWaitingCancel,
    WhileWaitingQueue,
    WhileWaitingAnswer,
    Breakers,
    UserBreakers,
    BreakersAndOperators,
    Jobs,
    ChangedJobs,
    DueJobsInOrder,
    JobFires,
    FireRecords,
    Overlaps,
    NamedSessions,
    MadeUpFor,
    JobEnds,
    AfterEnds,
    JobWakes,
    LostJobReplies,
    Leaving,
    Arriving,
):
    """Everything a store must show. Subclass it and give it a `store` fixture."""
