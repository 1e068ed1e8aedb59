"""What must hold between the books of the flow test; each rule yields what is wrong.

- every receipt is kept: the message is where it says, and what was refused has a reason and is nowhere;
- nothing is answered twice: a message has one place, or its earlier ones were dropped;
- a handler was called with its run's own message and all that were merged into it, in order;
- a steered message was read by the attempt that ended its run, in order, or became a run, or was dropped with it;
- what ended otherwise says why, and was asked to by somebody;
- a session's runs start in the order they became due, its messages are answered in the order they were written;
- lanes, users, workers and sessions are within their limits and caps at every instant;
- the counts agree with all of this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from laneway import Run
from laneway.core.records.events import CANCEL_REQUESTED, DROPPED, STARTED
from laneway.core.records.run import ReceiptOutcome, Why
from laneway.core.records.states import RunState
from tests.system.load.message_app import LANES
from tests.system.load.messages import shape_of
from tests.system.oracle.accounts import Accounts, Place, numbers_of
from tests.system.oracle.ledger import ALWAYS, grouped, most_at_once, over_a_limit

Rule = Callable[[Accounts], Iterator[str]]


# Receipts


def _broken_receipts(accounts: Accounts) -> Iterator[str]:
    for number, answer in accounts.notes.answers.items():
        places = accounts.places.get(number, [])
        if answer.outcome == ReceiptOutcome.REFUSED:
            if answer.reason is None:
                yield f"message {number} was refused without a reason"
            if any(accounts.runs[place.run].state is not RunState.DROPPED for place in accounts.finals.get(number, ())):
                yield f"message {number} was refused ({answer.reason}), and is in {places}"
        elif answer.outcome == ReceiptOutcome.EXISTING:
            if all(place.run != answer.run for place in places):
                yield f"message {number} exists in run {answer.run}, says its receipt; it is in {places}"
        elif Place(answer.run, answer.outcome) not in places:
            yield f"message {number} was {answer.outcome} by run {answer.run}, says its receipt; it is in {places}"


def _never_sent(accounts: Accounts) -> Iterator[str]:
    for number in accounts.places.keys() - accounts.notes.sent.keys():
        yield f"message {number} is in {accounts.places[number]}, and nobody sent it"


def _unanswered(accounts: Accounts) -> Iterator[str]:
    killed = accounts.killed()
    for number in accounts.notes.unsure():
        if accounts.notes.sent[number] not in killed:
            yield f"message {number} got no receipt, and its producer lives"


def _doubled(accounts: Accounts) -> Iterator[str]:
    for number, places in accounts.finals.items():
        if any(accounts.runs[place.run].state is not RunState.DROPPED for place in places[:-1]):
            yield f"message {number} is in {len(places)} places: {places}"


# What handlers were called with, and what they read


def _wrongly_called(accounts: Accounts) -> Iterator[str]:
    for (run, fence), called in accounts.notes.called.items():
        if run in accounts.runs:
            merged = [number for message in accounts.merged(run) for number in numbers_of(message)]
            expected = [*accounts.runs[run].args["numbers"], *merged]
            if called != expected:
                yield f"run {run} was called with {called} under fence {fence}, and not with {expected}"


def _uncalled(accounts: Accounts) -> Iterator[str]:
    for run in accounts.runs.values():
        if run.state is RunState.SUCCEEDED and (run.id, run.fence) not in accounts.notes.called:
            yield f"run {run.id} succeeded, and its handler was never called"


def _unread(accounts: Accounts) -> Iterator[str]:
    for run in accounts.runs.values():
        steered = accounts.steered(run.id)
        came = [number for message in steered for number in numbers_of(message)]
        left = {number for message in steered if message.id in accounts.moved for number in numbers_of(message)}
        if run.state is RunState.CANCELLED:
            # It may have been cut off before it was settled: only what nobody read is known to be unread.
            lost = [number for number in came if number not in left | accounts.ever_read(run)]
            if lost and not shape_of(run.session or "").clears:
                yield f"run {run.id} took {lost} with it, and nothing interrupted it"
            continue
        read = accounts.last_read(run)
        if read != came[: len(read)]:
            yield f"run {run.id} read {read}, and what came for it was {came}"
        if left != set(came[len(read) :]):
            yield f"run {run.id} left {came[len(read) :]} unread, and {sorted(left)} became runs"


# Ends


def _unexplained(accounts: Accounts) -> Iterator[str]:
    for run in accounts.runs.values():
        kinds = accounts.books.kinds(run.id)
        if run.state is RunState.FAILED and run.reason is None:
            yield f"run {run.id} failed without a reason"
        if run.state is RunState.DROPPED and (run.reason is None or DROPPED not in kinds or run.fence):
            yield f"run {run.id} was dropped: reason {run.reason}, fence {run.fence}, events {kinds}"
        if run.state is RunState.CANCELLED and not (shape_of(run.session or "").clears and CANCEL_REQUESTED in kinds):
            yield f"run {run.id} of session {run.session} was cancelled, and nobody asked for that: {kinds}"


def _unstopped(accounts: Accounts) -> Iterator[str]:
    for stop in accounts.notes.stops:
        for run in stop.cancelled:
            if accounts.runs[run].state is not RunState.CANCELLED:
                yield f"run {run} was stopped, and is {accounts.runs[run].state.value}"
        for run in stop.dropped:
            if (accounts.runs[run].state, accounts.runs[run].reason) != (RunState.DROPPED, Why.STOPPED):
                yield f"run {run} was dropped by a stop, and is {accounts.runs[run].state.value}"


# Order


def _out_of_order(accounts: Accounts) -> Iterator[str]:
    books = accounts.books
    for session, runs in books.sessions().items():
        shape = shape_of(session)
        # The claim, by the store's clock: a handler may begin a little later than the one claimed after it.
        claimed = {
            run.id: next(event.at for event in books.logs[run.id] if event.kind == STARTED)
            for run in runs
            if STARTED in books.kinds(run.id) and (shape.single_file or not _is_windowed(accounts, run))
        }
        in_turn = sorted((run for run in runs if run.id in claimed), key=lambda run: _joined(accounts, run))
        for ahead, behind in pairwise(in_turn):
            if claimed[ahead.id] > claimed[behind.id]:
                yield f"session {session}: run {behind.number} started before run {ahead.number}"


def _joined(accounts: Accounts, run: Run) -> tuple[datetime, int]:
    # Not `due_at`, which a retry moves. What was left unread and became a run joined at once, whatever it once said.
    delay = 0.0 if run.id in accounts.moved else run.args["delay"]
    return run.accepted_at + timedelta(seconds=delay), run.number


def _is_windowed(accounts: Accounts, run: Run) -> bool:
    return run.args["debounce"] > 0 and run.id not in accounts.moved


def _answered_out_of_order(accounts: Accounts) -> Iterator[str]:
    begun: dict[str, list[int]] = {}
    seen: set[str] = set()
    for (run, _), numbers in accounts.notes.called.items():
        session = accounts.runs[run].session if run in accounts.runs else None
        if session is not None and run not in seen and shape_of(session).single_file:
            seen.add(run)
            # What was sent again was sent behind others.
            begun.setdefault(session, []).extend(one for one in numbers if one not in accounts.notes.sent_again)
    for session, numbers in begun.items():
        if numbers != sorted(numbers):
            yield f"session {session} was answered out of order: {numbers}"


# Limits


def _over_a_limit(accounts: Accounts) -> Iterator[str]:
    books = accounts.books
    yield from over_a_limit(books, LANES, lambda session: shape_of(session).max_concurrent)
    for lane in LANES:
        attempts = [one for one in books.attempts if books.runs[one.run].lane == lane.name]
        for process, of_one in grouped(attempts, lambda one: one.process).items():
            if lane.worker_limit is not None and most_at_once(of_one) > lane.worker_limit:
                yield f"lane {lane.name}: {most_at_once(of_one)} at once in {process}, the limit is {lane.worker_limit}"


def _over_a_cap(accounts: Accounts) -> Iterator[str]:
    for session, runs in accounts.books.sessions().items():
        shape = shape_of(session)
        if shape.plain:
            # What was left unread joined outside the cap.
            queued = _most_queued(accounts, [run for run in runs if run.id not in accounts.moved])
            if queued > shape.cap:
                yield f"session {session}: {queued} were queued, the cap is {shape.cap}"


def _most_queued(accounts: Accounts, runs: Sequence[Run]) -> int:
    changes = []
    for run in runs:
        log = accounts.books.logs[run.id]
        until = next((event.at for event in log if event.kind == STARTED), run.ended_at)
        assert until is not None
        changes += [(run.accepted_at, 1), (until, -1)]
    now = most = 0
    # Who displaces another comes at the very instant at which that one goes, and after it.
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most


# Counts


def _miscounted(accounts: Accounts) -> Iterator[str]:
    # Whether what a producer sent just before it was killed was refused, only the store has noted.
    unsure = len(accounts.notes.unsure()) + len(accounts.notes.sent_again)
    expected, counted = _expected_counts(accounts), accounts.counts
    for what in sorted(expected.keys() | counted.keys()):
        least, known = expected.get(what, (0, 0))
        most = known + (unsure if what.startswith("refused") else 0)
        if not least <= counted.get(what, 0) <= most:
            yield f"{what}: counted are {counted.get(what, 0)}, and there were {least} to {most}"


def _expected_counts(accounts: Accounts) -> dict[str, tuple[int, int]]:
    exact: Counter[str] = Counter()
    for run in accounts.runs.values():
        if run.state is RunState.DROPPED:
            exact[f"dropped {run.reason}"] += 1
        exact["steered"] += len(accounts.steered(run.id))
        exact["merged"] += sum(message.id not in accounts.moved for message in accounts.merged(run.id))
    for answer in accounts.notes.answers.values():
        if answer.outcome == ReceiptOutcome.REFUSED:
            exact[f"refused {answer.reason}"] += 1
    expected = {what: (count, count) for what, count in exact.items() if count}
    return expected | {"dropped unread": _dropped_unread(accounts)}


def _dropped_unread(accounts: Accounts) -> tuple[int, int]:
    least = most = 0
    for run in accounts.runs.values():
        if run.state is RunState.CANCELLED:
            kept = [message for message in accounts.steered(run.id) if message.id not in accounts.moved]
            most += len(kept)
            least += sum(not accounts.ever_read(run).issuperset(numbers_of(message)) for message in kept)
    return least, most


RULES: Sequence[Rule] = (
    _broken_receipts,
    _never_sent,
    _unanswered,
    _doubled,
    _wrongly_called,
    _uncalled,
    _unread,
    _unexplained,
    _unstopped,
    _out_of_order,
    _answered_out_of_order,
    _over_a_limit,
    _over_a_cap,
    _miscounted,
)


def wrong(accounts: Accounts) -> list[str]:
    """Return what is wrong."""
    of_runs = [line for rule in ALWAYS for line in rule(accounts.books)]
    return of_runs + [line for rule in RULES for line in rule(accounts)]
