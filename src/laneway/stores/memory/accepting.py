"""The memory store's part in accepting: what `core.lifecycle.acceptance` asks of a store, over records."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.core.common import keys
from laneway.core.common.keys import KeyEntry
from laneway.core.lifecycle.acceptance import Acceptance, note
from laneway.core.records.policy import MAIN, Arrival
from laneway.core.records.run import COME_AGAIN, MessageKind, NewRun, Receipt, ReceiptOutcome, Why
from laneway.core.records.states import RunState
from laneway.stores.memory.endings import Endings
from laneway.stores.memory.inboxes import Inboxes
from laneway.stores.memory.kept import Kept
from laneway.stores.memory.records import Record
from laneway.stores.memory.steering import Steering


class Accepting:
    """Accepts submissions, one by one; fulfils `core.acceptance.Intake`."""

    def __init__(self, kept: Kept, steering: Steering, inboxes: Inboxes, endings: Endings) -> None:
        self._kept, self._steering, self._inboxes = kept, steering, inboxes
        endings.accept, kept.jobs.accept = self.accept, self.fire
        self._acceptance: Acceptance[Record, Record] = Acceptance(kept.flow, steering, self)
        self._now = 0  # of the submission under way

    def accept(self, new: NewRun, now: int) -> Receipt:
        """Return what became of it; see `RunStore.submit`."""
        self._now = now
        lane = new.lane if new.lane in self._kept.lanes else MAIN
        return self._again(new) or self._acceptance.accept(new, lane, now)

    def fire(self, new: NewRun, now: int) -> Receipt | None:
        """Return what became of a job's fire, None if its run is known; see `JobStore.fire`."""
        return None if new.id in self._kept.by_id else self.accept(new, now)

    def _again(self, new: NewRun) -> Receipt | None:
        taker = self._kept.takers.get(new.id)
        if taker is not None:
            message = next(message for message in taker.taken if message.id == new.id)
            if message.kind is MessageKind.ANSWERED:
                return Receipt(ReceiptOutcome.STEERED, taker.id, Why.ANSWERED.value)
            return Receipt(ReceiptOutcome(message.kind.value), taker.id, note(message.lane, new))
        known = self._kept.by_id.get(new.id)
        return None if known is None else Receipt(ReceiptOutcome.ACCEPTED, known.id, note(known.lane, new))

    # What the core asks

    def key(self, new: NewRun) -> KeyEntry | None:
        """Return what the submission's key stands for; see `Intake`."""
        return self._kept.keys.get((new.task, new.user, new.key or ""))

    def remember(self, new: NewRun, run_id: str, number: int) -> None:
        """Let the submission's key stand for a run; see `Intake`."""
        if new.key is not None:
            key = (new.task, new.user, new.key)
            self._kept.keys[key] = KeyEntry(run_id, number, keys.digest(new.args), self._now)
            self._kept.by_id[run_id].keyed += (key,)

    def state_of(self, run_id: str) -> RunState | None:
        """Return the state of a run; see `Intake`."""
        run = self._kept.by_id.get(run_id)
        return None if run is None else run.state

    def is_disabled(self, task: str) -> bool:
        """Tell whether the task is disabled; see `Intake`."""
        return task in self._kept.disabled_tasks

    def oldest(self, lane: str, most: int) -> Sequence[Record]:
        """Return the oldest that were never started; see `Intake`."""
        return self._kept.heaps.oldest(lane, most)

    def append(self, taker: Record, new: NewRun, lane: str, kind: MessageKind) -> None:
        """Let a run take a message; see `Intake`."""
        self._inboxes.append(taker, new, lane, kind, self._now)
        if kind is MessageKind.STEERED:
            self._steering.tell(taker)

    def put_off(self, taker: Record, due_at: int) -> None:
        """Let a run be due later; see `Intake`."""
        self._kept.heaps.remove(taker)
        taker.due_at = due_at
        self._kept.heaps.put_due(taker)

    def make(self, new: NewRun, lane: str, due_at: int) -> Record:
        """Make a run; see `Intake`."""
        run = self._inboxes.make(new, lane, self._now, due_at)
        if new.retry_of is not None:
            self._inboxes.inherit(run, new.retry_of, self._now)
        return run

    def keep(self, run: Record, due_at: int, arrival: Arrival | None) -> None:
        """Put a run on the due shelf; see `Intake`."""
        run.arrival = arrival
        self._kept.heaps.put_due(run)

    def is_behind(self) -> bool:
        """Tell whether runs that are due wait to be moved; see `Intake`."""
        return self._kept.heaps.is_due(self._now)

    def count(self, lane: str, what: str) -> None:
        """Count what became of a submission; see `Intake`."""
        self._kept.counts[lane, what] += 1

    def refuse(self, lane: str, why: Why) -> None:
        """Count a refusal; see `Intake`."""
        if why not in COME_AGAIN:
            self.count(lane, f"refused {why}")
