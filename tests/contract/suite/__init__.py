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

from tests.contract.suite.attempts.breakers import Breakers
from tests.contract.suite.attempts.checkpoints import Checkpoints, Requests, TimeOuts
from tests.contract.suite.attempts.leases import Leases
from tests.contract.suite.attempts.memos import Memos
from tests.contract.suite.attempts.repeats import Repeats
from tests.contract.suite.attempts.settling import Settling
from tests.contract.suite.attempts.user_breakers import BreakersAndOperators, UserBreakers
from tests.contract.suite.claims.bounds import Bounds
from tests.contract.suite.claims.claims import Claims
from tests.contract.suite.claims.crowds import Crowds
from tests.contract.suite.claims.holding import HeldThings, Holding
from tests.contract.suite.claims.lanes import Lanes
from tests.contract.suite.claims.rules import LaneRules, UserCaps, WorkerLimits
from tests.contract.suite.claims.turns import Turns
from tests.contract.suite.claims.user_caps import Caps
from tests.contract.suite.control.bulk_cancel import Sweeping
from tests.contract.suite.control.cancelling import Behind, Cancelling
from tests.contract.suite.control.pausing import PausedSessions, Pausing
from tests.contract.suite.jobs.due_jobs import DueJobsInOrder
from tests.contract.suite.jobs.fire_records import FireRecords
from tests.contract.suite.jobs.fires import JobFires
from tests.contract.suite.jobs.job_ends import AfterEnds, JobEnds
from tests.contract.suite.jobs.job_wakeups import JobWakes, LostJobReplies
from tests.contract.suite.jobs.jobs import ChangedJobs, Jobs
from tests.contract.suite.jobs.missed import MadeUpFor
from tests.contract.suite.jobs.overlap import NamedSessions, Overlaps
from tests.contract.suite.moves.moves import Arriving, Leaving
from tests.contract.suite.runs.due_times import DueTimes
from tests.contract.suite.runs.keys import Keys
from tests.contract.suite.runs.logs import Logs
from tests.contract.suite.runs.pruning import Pruning
from tests.contract.suite.runs.reading import Reading
from tests.contract.suite.runs.submissions import Submissions
from tests.contract.suite.runs.trimming import Trimming
from tests.contract.suite.runs.why import Why
from tests.contract.suite.sessions.answer_by_message import WhileWaitingAnswer
from tests.contract.suite.sessions.arrivals import Arrivals
from tests.contract.suite.sessions.debounce import Windows
from tests.contract.suite.sessions.inboxes import Inboxes
from tests.contract.suite.sessions.passing import Passing
from tests.contract.suite.sessions.session_rules import SessionRules
from tests.contract.suite.sessions.sessions import Sessions
from tests.contract.suite.sessions.stopping import Stopping
from tests.contract.suite.sessions.while_waiting import WhileWaitingCancel, WhileWaitingQueue
from tests.contract.suite.waits.call_results import Returning
from tests.contract.suite.waits.call_trees import Families
from tests.contract.suite.waits.calls import Calls
from tests.contract.suite.waits.deadlines import Deadlines
from tests.contract.suite.waits.follow_ups import FollowUps
from tests.contract.suite.waits.questions import Questions
from tests.contract.suite.waits.waiting_runs import Waiting
from tests.contract.suite.workers.lending import Lending
from tests.contract.suite.workers.wakeups import Wakeups


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
