"""Acceptance in the memory store: the `Intake` that `core.lifecycle.acceptance` needs, on records."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.core.common import keys
from laneway.core.common.keys import KeyEntry
from laneway.core.lifecycle.acceptance import Acceptance, note
from laneway.core.records.policy import MAIN, SessionIntent
from laneway.core.records.run import COME_AGAIN, MessageKind, NewRun, Receipt, ReceiptOutcome, Why
from laneway.core.records.states import RunState
from laneway.stores.memory.rules.control import RecordControl
from laneway.stores.memory.rules.endings import RecordEndings
from laneway.stores.memory.rules.inboxes import RecordInboxes
from laneway.stores.memory.state.records import RunRecord
from laneway.stores.memory.state.state import MemoryState


class RecordIntake:
    """Accepts submissions, one by one; fulfils `core.lifecycle.acceptance.Intake`."""

    def __init__(
        self, state: MemoryState, control: RecordControl, inboxes: RecordInboxes, endings: RecordEndings
    ) -> None:
        self._state, self._control, self._inboxes = state, control, inboxes
        endings.accept, state.jobs.accept = self.accept, self.fire
        self._acceptance: Acceptance[RunRecord, RunRecord] = Acceptance(state.flow, control, self)
        self._now = 0  # of the submission under way

    def accept(self, new: NewRun, now: int) -> Receipt:
        """Accept a submission or refuse it; return its receipt. See `RunStore.submit`."""
        self._now = now
        lane = new.lane if new.lane in self._state.lanes else MAIN
        return self._again(new) or self._acceptance.accept(new, lane, now)

    def fire(self, new: NewRun, now: int) -> Receipt | None:
        """Accept a run of a job; return its receipt, None if the run is known. See `JobStore.fire`."""
        return None if new.id in self._state.by_id else self.accept(new, now)

    def _again(self, new: NewRun) -> Receipt | None:
        taker = self._state.takers.get(new.id)
        if taker is not None:
            message = next(message for message in taker.taken if message.id == new.id)
            if message.kind is MessageKind.ANSWERED:
                return Receipt(ReceiptOutcome.STEERED, taker.id, Why.ANSWERED.value)
            return Receipt(ReceiptOutcome(message.kind.value), taker.id, note(message.lane, new))
        known = self._state.by_id.get(new.id)
        return None if known is None else Receipt(ReceiptOutcome.ACCEPTED, known.id, note(known.lane, new))

    # The intake

    def key(self, new: NewRun) -> KeyEntry | None:
        """Return what the submission's key stands for; see `Intake`."""
        return self._state.keys.get((new.task, new.user, new.key or ""))

    def remember(self, new: NewRun, run_id: str, number: int) -> None:
        """Let the submission's key stand for a run; see `Intake`."""
        if new.key is not None:
            key = (new.task, new.user, new.key)
            self._state.keys[key] = KeyEntry(run_id, number, keys.digest(new.args), self._now)
            self._state.by_id[run_id].keyed += (key,)

    def state_of(self, run_id: str) -> RunState | None:
        """Return the state of a run; see `Intake`."""
        run = self._state.by_id.get(run_id)
        return None if run is None else run.state

    def is_disabled(self, task: str) -> bool:
        """Return whether the task is disabled; see `Intake`."""
        return task in self._state.disabled_tasks

    def oldest(self, lane: str, most: int) -> Sequence[RunRecord]:
        """Return the oldest runs that were never started; see `Intake`."""
        return self._state.heaps.oldest(lane, most)

    def append(self, taker: RunRecord, new: NewRun, lane: str, kind: MessageKind) -> None:
        """Let a run take a message; see `Intake`."""
        self._inboxes.append(taker, new, lane, kind, self._now)
        if kind is MessageKind.STEERED:
            self._control.tell(taker)

    def put_off(self, taker: RunRecord, due_at: int) -> None:
        """Let a run be due later; see `Intake`."""
        self._state.heaps.remove(taker)
        taker.due_at = due_at
        self._state.heaps.put_due(taker)

    def make(self, new: NewRun, lane: str, due_at: int) -> RunRecord:
        """Make a run; see `Intake`."""
        run = self._inboxes.make(new, lane, self._now, due_at)
        if new.retry_of is not None:
            self._inboxes.inherit(run, new.retry_of, self._now)
        return run

    def keep(self, run: RunRecord, due_at: int, arrival: SessionIntent | None) -> None:
        """Put a run on the due shelf; see `Intake`."""
        run.arrival = arrival
        self._state.heaps.put_due(run)

    def is_behind(self) -> bool:
        """Return whether due runs wait to be moved; see `Intake`."""
        return self._state.heaps.is_due(self._now)

    def count(self, lane: str, what: str) -> None:
        """Count an outcome of a submission; see `Intake`."""
        self._state.counts[lane, what] += 1

    def refuse(self, lane: str, why: Why) -> None:
        """Count a refusal; see `Intake`."""
        if why not in COME_AGAIN:
            self.count(lane, f"refused {why}")
