"""The contract of `laneway.ports`, as tests: one class per subject.

The test file of a store gives the fixture `store` and imports the classes, for pytest to collect (with
`asyncio_mode = "auto"`):

    from tests.contract.suite import *

    @pytest.fixture
    async def store(clock: FakeClock) -> AsyncIterator[Store]:
        store = MyStore(..., clock)
        await store.open()
        yield store
        await store.close()

The tests look at what was recorded and at the events, not only at the answers. After each of them the invariants are
checked, and every run is brought to its end.
"""

from __future__ import annotations

from tests.contract.suite.attempts.breakers import TestBreakers
from tests.contract.suite.attempts.checkpoints import TestCheckpoints, TestRequests, TestTimeOuts
from tests.contract.suite.attempts.leases import TestLeases
from tests.contract.suite.attempts.memos import TestMemos
from tests.contract.suite.attempts.repeats import TestRepeats
from tests.contract.suite.attempts.settling import TestSettling
from tests.contract.suite.attempts.user_breakers import TestBreakersAndOperators, TestUserBreakers
from tests.contract.suite.claims.bounds import TestBounds
from tests.contract.suite.claims.claims import TestClaims
from tests.contract.suite.claims.crowds import TestConcurrentCallers
from tests.contract.suite.claims.holding import TestHeldThings, TestPausedAndDisabled
from tests.contract.suite.claims.lanes import TestLanes
from tests.contract.suite.claims.rules import TestLaneRules, TestUserCaps, TestWorkerLimits
from tests.contract.suite.claims.turns import TestTurns
from tests.contract.suite.claims.user_caps import TestCaps
from tests.contract.suite.control.bulk_cancel import TestBulkCancel
from tests.contract.suite.control.cancelling import TestCancelling, TestRunsBehindCancelled
from tests.contract.suite.control.pausing import TestPausedSessions, TestPausing
from tests.contract.suite.jobs.due_jobs import TestDueJobsInOrder
from tests.contract.suite.jobs.fire_records import TestFireRecords
from tests.contract.suite.jobs.fires import TestJobFires
from tests.contract.suite.jobs.job_ends import TestAfterEnds, TestJobEnds
from tests.contract.suite.jobs.job_wakeups import TestJobWakeups, TestLostJobReplies
from tests.contract.suite.jobs.jobs import TestChangedJobs, TestJobs
from tests.contract.suite.jobs.missed import TestMissedFires
from tests.contract.suite.jobs.overlap import TestNamedSessions, TestOverlaps
from tests.contract.suite.moves.moves import TestArriving, TestLeaving
from tests.contract.suite.runs.due_times import TestDueTimes
from tests.contract.suite.runs.keys import TestKeys
from tests.contract.suite.runs.logs import TestLogs
from tests.contract.suite.runs.pruning import TestPruning
from tests.contract.suite.runs.reading import TestReading
from tests.contract.suite.runs.submissions import TestSubmissions
from tests.contract.suite.runs.trimming import TestTrimming
from tests.contract.suite.runs.why import TestWhy
from tests.contract.suite.sessions.answer_by_message import TestAnswerByMessage
from tests.contract.suite.sessions.arrivals import TestArrivals
from tests.contract.suite.sessions.debounce import TestDebounce
from tests.contract.suite.sessions.inboxes import TestInboxes
from tests.contract.suite.sessions.passing import TestPassing
from tests.contract.suite.sessions.session_rules import TestSessionRules
from tests.contract.suite.sessions.sessions import TestSessions
from tests.contract.suite.sessions.stopping import TestStopping
from tests.contract.suite.sessions.while_waiting import TestWhileWaitingCancel, TestWhileWaitingQueue
from tests.contract.suite.waits.call_results import TestCallResults
from tests.contract.suite.waits.call_trees import TestCallTrees
from tests.contract.suite.waits.calls import TestCalls
from tests.contract.suite.waits.deadlines import TestDeadlines
from tests.contract.suite.waits.follow_ups import TestFollowUps
from tests.contract.suite.waits.questions import TestQuestions
from tests.contract.suite.waits.waiting_runs import TestWaitingRuns
from tests.contract.suite.workers.claim_ahead import TestClaimAhead
from tests.contract.suite.workers.wakeups import TestWakeups

__all__ = [
    "TestSubmissions",
    "TestReading",
    "TestDueTimes",
    "TestClaims",
    "TestTurns",
    "TestCaps",
    "TestLanes",
    "TestSessions",
    "TestSettling",
    "TestLogs",
    "TestRepeats",
    "TestLeases",
    "TestWakeups",
    "TestClaimAhead",
    "TestPruning",
    "TestTrimming",
    "TestCancelling",
    "TestRunsBehindCancelled",
    "TestBulkCancel",
    "TestPausing",
    "TestPausedSessions",
    "TestCheckpoints",
    "TestTimeOuts",
    "TestRequests",
    "TestConcurrentCallers",
    "TestBounds",
    "TestLaneRules",
    "TestUserCaps",
    "TestWorkerLimits",
    "TestPausedAndDisabled",
    "TestHeldThings",
    "TestArrivals",
    "TestSessionRules",
    "TestDebounce",
    "TestInboxes",
    "TestStopping",
    "TestKeys",
    "TestPassing",
    "TestWhy",
    "TestQuestions",
    "TestDeadlines",
    "TestWaitingRuns",
    "TestMemos",
    "TestCalls",
    "TestCallResults",
    "TestCallTrees",
    "TestFollowUps",
    "TestWhileWaitingCancel",
    "TestWhileWaitingQueue",
    "TestAnswerByMessage",
    "TestBreakers",
    "TestUserBreakers",
    "TestBreakersAndOperators",
    "TestJobs",
    "TestChangedJobs",
    "TestDueJobsInOrder",
    "TestJobFires",
    "TestFireRecords",
    "TestOverlaps",
    "TestNamedSessions",
    "TestMissedFires",
    "TestJobEnds",
    "TestAfterEnds",
    "TestJobWakeups",
    "TestLostJobReplies",
    "TestLeaving",
    "TestArriving",
]
