"""What must hold of messages to sessions: what became of each, by receipts, handlers, runs and counts.

- every receipt is kept: the message is where it says, and a refused one has a reason and is nowhere;
- no message is answered twice: it has one place, or its earlier ones were dropped;
- a handler was called with its run's own message and all that were merged into it, in order;
- a steered message was read by the attempt that ended its run, in order, or became a run, or was dropped with it;
- a run that ended otherwise says why, and somebody asked for it;
- the messages of a session are answered in the order they were written;
- the counts of the lanes agree with all of this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from laneway import Run
from laneway.core.records.events import CANCEL_REQUESTED, DROPPED
from laneway.core.records.run import ReceiptOutcome, Why
from laneway.core.records.states import RunState
from tests.system.oracle.journal import Killed, SessionStopped
from tests.system.oracle.record import Place, Record, numbers_of

# Receipts


def broken_receipts(record: Record) -> Iterator[str]:
    """Yield messages that are not where their receipt says, and refused ones without a reason."""
    for number, receipt in record.receipts.items():
        places = record.places.get(number, [])
        if receipt.outcome == ReceiptOutcome.REFUSED:
            if receipt.reason is None:
                yield f"message {number} was refused without a reason"
            finals = record.final_places.get(number, ())
            if any(record.runs[place.run].state is not RunState.DROPPED for place in finals):
                yield f"message {number} was refused ({receipt.reason}), and is in {places}"
        elif receipt.outcome == ReceiptOutcome.EXISTING:
            if all(place.run != receipt.run for place in places):
                yield f"message {number} exists in run {receipt.run}, says its receipt; it is in {places}"
        elif Place(receipt.run, receipt.outcome) not in places:
            yield f"message {number} was {receipt.outcome} by run {receipt.run}, says its receipt; it is in {places}"


def never_sent(record: Record) -> Iterator[str]:
    """Yield messages in the store that nobody sent."""
    for number in record.places.keys() - record.sent.keys():
        yield f"message {number} is in {record.places[number]}, and nobody sent it"


def unanswered(record: Record) -> Iterator[str]:
    """Yield messages without a receipt whose producer was not killed."""
    killed = {entry.process for entry in record.journal.of(Killed)}
    for number in record.unanswered():
        if record.sent[number] not in killed:
            yield f"message {number} got no receipt, and its producer lives"


def doubled(record: Record) -> Iterator[str]:
    """Yield messages with several places of which not only the last one counts."""
    for number, places in record.final_places.items():
        if any(record.runs[place.run].state is not RunState.DROPPED for place in places[:-1]):
            yield f"message {number} is in {len(places)} places: {places}"


# What handlers were called with, and what they read


def wrongly_called(record: Record) -> Iterator[str]:
    """Yield handlers that were not called with exactly the messages of their run, in order."""
    for (run, fence), called in record.called.items():
        if run in record.runs:
            merged = [number for message in record.merged(run) for number in numbers_of(message)]
            expected = [*record.runs[run].args["numbers"], *merged]
            if called != expected:
                yield f"run {run} was called with {called} under fence {fence}, and not with {expected}"


def uncalled(record: Record) -> Iterator[str]:
    """Yield runs that succeeded without a call of their handler."""
    for run in record.message_runs():
        if run.state is RunState.SUCCEEDED and (run.id, run.fence) not in record.called:
            yield f"run {run.id} succeeded, and its handler was never called"


def unread(record: Record) -> Iterator[str]:
    """Yield runs whose steered messages were neither read nor became runs, or both, or were read out of order."""
    for run in record.message_runs():
        steered = record.steered(run.id)
        came = [number for message in steered for number in numbers_of(message)]
        left = {number for message in steered if message.id in record.moved for number in numbers_of(message)}
        if run.state is RunState.CANCELLED:
            # It may have been cut off before it was settled: only what nobody read is known to be unread.
            lost = [number for number in came if number not in left | record.ever_read(run)]
            if lost and not _may_be_cancelled(record, run):
                yield f"run {run.id} took {lost} with it, and nothing interrupted it"
            continue
        read = record.last_read(run)
        if read != came[: len(read)]:
            yield f"run {run.id} read {read}, and what came for it was {came}"
        if left != set(came[len(read) :]):
            yield f"run {run.id} left {came[len(read) :]} unread, and {sorted(left)} became runs"


def _may_be_cancelled(record: Record, run: Run) -> bool:
    return record.asked.shape_of(run.session or "").clears


# Ends


def unexplained(record: Record) -> Iterator[str]:
    """Yield runs that failed, were dropped or cancelled without a reason, an event or somebody who asked for it."""
    for run in record.message_runs():
        kinds = record.kinds(run.id)
        if run.state is RunState.FAILED and run.reason is None:
            yield f"run {run.id} failed without a reason"
        if run.state is RunState.DROPPED and (run.reason is None or DROPPED not in kinds or run.fence):
            yield f"run {run.id} was dropped: reason {run.reason}, fence {run.fence}, events {kinds}"
        if run.state is RunState.CANCELLED and not (_may_be_cancelled(record, run) and CANCEL_REQUESTED in kinds):
            yield f"run {run.id} of session {run.session} was cancelled, and nobody asked for that: {kinds}"


def unstopped(record: Record) -> Iterator[str]:
    """Yield runs that a stop of their session reported as cancelled or dropped, and that are not."""
    for stop in record.journal.of(SessionStopped):
        for run in stop.cancelled:
            if record.runs[run].state is not RunState.CANCELLED:
                yield f"run {run} was stopped, and is {record.runs[run].state.value}"
        for run in stop.dropped:
            if (record.runs[run].state, record.runs[run].reason) != (RunState.DROPPED, Why.STOPPED):
                yield f"run {run} was dropped by a stop, and is {record.runs[run].state.value}"


# Order


def answered_out_of_order(record: Record) -> Iterator[str]:
    """Yield sessions whose handlers were called with messages in another order than that of writing."""
    begun: dict[str, list[int]] = {}
    seen: set[str] = set()
    for (run, _), numbers in record.called.items():
        session = record.runs[run].session if run in record.runs else None
        if session is not None and run not in seen and record.asked.shape_of(session).single_file:
            seen.add(run)
            # A message that was sent again was sent behind others.
            begun.setdefault(session, []).extend(one for one in numbers if one not in record.sent_again)
    for session, numbers in begun.items():
        if numbers != sorted(numbers):
            yield f"session {session} was answered out of order: {numbers}"


# Counts


def miscounted(record: Record) -> Iterator[str]:
    """Yield counts of the lanes that disagree with runs and receipts."""
    if not record.sent:
        return
    # Only the store knows whether a message was refused that its producer sent just before it was killed.
    unsure = len(record.unanswered()) + len(record.sent_again)
    expected, counted = _expected_counts(record), record.counts
    for what in sorted(expected.keys() | counted.keys()):
        least, known = expected.get(what, (0, 0))
        most = known + (unsure if what.startswith("refused") else 0)
        if not least <= counted.get(what, 0) <= most:
            yield f"{what}: counted are {counted.get(what, 0)}, and there were {least} to {most}"


def _expected_counts(record: Record) -> dict[str, tuple[int, int]]:
    exact: Counter[str] = Counter()
    for run in record.runs.values():
        if run.state is RunState.DROPPED:
            exact[f"dropped {run.reason}"] += 1
        exact["steered"] += len(record.steered(run.id))
        exact["merged"] += sum(message.id not in record.moved for message in record.merged(run.id))
    for receipt in record.receipts.values():
        if receipt.outcome == ReceiptOutcome.REFUSED:
            exact[f"refused {receipt.reason}"] += 1
    expected = {what: (count, count) for what, count in exact.items() if count}
    return expected | {"dropped unread": _dropped_unread(record)}


def _dropped_unread(record: Record) -> tuple[int, int]:
    least = most = 0
    for run in record.runs.values():
        if run.state is RunState.CANCELLED:
            kept = [message for message in record.steered(run.id) if message.id not in record.moved]
            most += len(kept)
            least += sum(not record.ever_read(run).issuperset(numbers_of(message)) for message in kept)
    return least, most


# What became of each message


def fates(record: Record) -> Counter[str]:
    """Return how many messages became what."""
    return Counter(_fate(record, number) for number in record.sent)


def _fate(record: Record, number: int) -> str:
    places, receipt = record.final_places.get(number), record.receipts.get(number)
    if not places:
        return "never stored" if receipt is None else f"{receipt.outcome} {receipt.reason}"
    run, kind = record.runs[places[-1].run], places[-1].kind
    if kind == "steered" and run.state is not RunState.SUCCEEDED and number not in record.ever_read(run):
        return "dropped unread"
    came = "left unread, then " if len(record.places[number]) > len(places) else ""
    became = {"accepted": "a run", "merged": "merged", "steered": "steered and read"}[kind]
    return f"{came}{became}: {run.state.value} {run.reason or ''}".rstrip()


RULES: Sequence[Callable[[Record], Iterator[str]]] = (
    broken_receipts,
    never_sent,
    unanswered,
    doubled,
    wrongly_called,
    uncalled,
    unread,
    unexplained,
    unstopped,
    answered_out_of_order,
    miscounted,
)
