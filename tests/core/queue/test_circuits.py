"""Circuits: what a breaker counts, when it opens, whom it tries, and what a claim makes of that."""

from __future__ import annotations

import pytest

from laneway.core.common.instants import SECOND
from laneway.core.lifecycle.outcome import (
    Cancelled,
    Failed,
    Lapsed,
    Outcome,
    Paused,
    Released,
    Settlement,
    Snoozed,
    Succeeded,
    overruled,
    settle,
)
from laneway.core.queue.circuits import FOREVER, Charge, Circuits, key_of
from laneway.core.queue.shelves import Entry
from laneway.core.records.breakers import CLOSED, Breaker, Circuit, Phase
from laneway.core.records.policy import Lane, TaskPolicy
from laneway.core.records.run import Claimed, Failure, Request
from tests.core.queue.plain_shelves import Floor, Item

MINUTE = 60 * SECOND
BREAKER = Breaker(2, open_for=60)
FAILED, WELL = Charge(BREAKER, failed=True), Charge(BREAKER, failed=False)
HELD = Claimed(1, "a", "work", "{}", 1, 1, 0, "main", None, None, 0, "w")
POLICY = TaskPolicy(breaker=BREAKER)


def lease(number: int, user: str | None = None, fence: int = 1) -> Entry:
    run = Entry(number, "work", "main", user, None, 0)
    run.fence = fence
    return run


def opened(circuits: Circuits, now: int = 0) -> Circuits:
    for number in range(BREAKER.failures):
        circuits.end(lease(number), FAILED, now)
    return circuits


def test_it_opens_at_the_number_and_is_half_open_when_its_time_is_over() -> None:
    circuits = Circuits()
    circuits.end(lease(1), FAILED, 0)
    assert (circuits.get("work").phase(0), circuits.tasks) == (Phase.CLOSED, frozenset())

    circuits.end(lease(2), FAILED, 5)

    circuit = circuits.get("work")
    phases = [circuit.phase(now) for now in (5, 4 + MINUTE, 5 + MINUTE)]
    assert phases == [Phase.OPEN, Phase.OPEN, Phase.HALF_OPEN]
    assert circuits.tasks == {"work"}
    assert circuits.holds("work", "ann", 5) == "work"
    assert circuits.holds("mail", "ann", 5) is None


def test_a_success_leaves_nothing_behind() -> None:
    circuits = Circuits()
    circuits.end(lease(1), FAILED, 0)

    circuits.end(lease(2), WELL, 0)

    assert list(circuits.keys) == []


def test_one_probe_at_a_time() -> None:
    circuits = opened(Circuits())
    assert circuits.start(lease(7, fence=0), MINUTE) == ["work"]

    assert circuits.get("work").probe == (7, 1)
    assert circuits.holds("work", None, 2 * MINUTE) == "work"


@pytest.mark.parametrize(
    ("charge", "after"),
    [(WELL, CLOSED), (FAILED, Circuit(failures=3, until=3 * MINUTE)), (None, Circuit(failures=2, until=MINUTE))],
)
def test_the_probe_decides(charge: Charge | None, after: Circuit) -> None:
    circuits = opened(Circuits())
    circuits.start(lease(7, fence=0), MINUTE)
    circuits.end(lease(8), FAILED, MINUTE)
    circuits.end(lease(9), WELL, MINUTE)
    circuits.end(lease(7, fence=2), WELL, MINUTE)  # another lease of the same run

    circuits.end(lease(7), charge, 2 * MINUTE)

    assert circuits.get("work") == after


def test_users_of_a_breaker_per_user_are_counted_apart() -> None:
    charge = Charge(Breaker(1, open_for=60, per="user"), failed=True)
    circuits = Circuits()

    circuits.end(lease(1, "ann"), charge, 0)
    circuits.end(lease(2), charge, 0)

    held = [circuits.holds("work", user, 0) for user in ("ann", "bob", None)]
    assert held == [key_of("work", "ann"), None, key_of("work", "")]


def test_one_that_disables_stays_open() -> None:
    circuits = Circuits()

    assert circuits.end(lease(1), Charge(Breaker(1, disable=True), failed=True), 0)

    assert circuits.get("work").until == FOREVER


FAILURE = Failure("error", "ValueError", "no")


@pytest.mark.parametrize(
    ("outcome", "failed"),
    [
        (Succeeded("1"), False),
        (Failed(FAILURE), True),
        (Failed(Failure("timed_out", "TimeoutError", "no")), True),
        (Failed(Failure("gave_up", "GiveUp", "no")), True),
        (Failed(Failure("refused", "ValueError", "no")), None),
        (Lapsed(), True),
        (Lapsed(charged=False), None),
        (Released(), None),
        (Snoozed(5), None),
        (Cancelled(), None),
        (Paused(), None),
    ],
)
def test_a_settlement_says_what_the_breaker_hears(outcome: Outcome, failed: bool | None) -> None:
    assert settle(HELD, outcome, POLICY).charge == (None if failed is None else Charge(BREAKER, failed=failed))
    assert settle(HELD, outcome, TaskPolicy()).charge is None


def heard(request: Request) -> Settlement:
    return overruled(settle(HELD, Failed(FAILURE), POLICY), request, 1)


def test_what_a_cancel_overrules_tells_nothing_and_what_a_pause_does_still_failed() -> None:
    assert heard(Request.CANCEL).charge is None
    assert heard(Request.PAUSE).charge == FAILED


# Over a lane


def floor_with(number: int, **fields: str) -> tuple[Floor, list[Item]]:
    floor = Floor(Lane("main", limit=9))
    return floor, [floor.join(**fields) for _ in range(number)]  # type: ignore[arg-type]  # fields that are text


def claim(floor: Floor, now: int, room: int = 9) -> list[Item]:
    lanes = floor.flow.with_broken(sorted(floor.books), {"work"}, now)
    started, _ = floor.flow.claim(lanes, room, {"work"}, 0, now=now)
    return started


def test_a_claim_parks_what_may_not_start_and_takes_it_up_again_in_order() -> None:
    floor, runs = floor_with(3)
    opened(floor.flow.circuits)
    ranks = [run.rank for run in runs]

    assert claim(floor, 1) == []
    assert [run.shelf for run in runs] == ["breaker:work"] * 3
    assert [run.rank for run in runs] == ranks
    assert floor.books["main"].ready() == 0
    late = floor.join()
    assert claim(floor, MINUTE) == runs[:1]
    floor.flow.circuits.put("work", CLOSED)
    assert claim(floor, MINUTE) == [*runs[1:], late]
    assert floor.books["main"].ready() == 0


def test_a_parked_run_can_be_cancelled_and_paused() -> None:
    floor, runs = floor_with(3, user="ann")
    opened(floor.flow.circuits)
    claim(floor, 1)

    floor.cancel(runs[0])
    floor.pause(runs[1])
    floor.resume(runs[1])
    floor.flow.circuits.put("work", CLOSED)

    assert set(claim(floor, 2)) == {runs[1], runs[2]}


def test_a_claim_moves_a_bounded_number_aside() -> None:
    floor, runs = floor_with(600)
    opened(floor.flow.circuits)

    started, more = floor.flow.claim(["main"], 9, {"work"}, 0, now=1)

    assert (started, more) == ([], True)
    assert sum(run.shelf == "breaker:work" for run in runs) == 500


def test_the_tasks_of_open_circuits_are_found_once_and_not_for_every_claim() -> None:
    circuits = Circuits()
    for user in "abc":
        circuits.put(key_of("mail", user), Circuit(failures=2, until=MINUTE))

    first = circuits.tasks
    circuits.put(key_of("mail", "a"), Circuit(failures=2, until=MINUTE, probe=(1, 1)))
    circuits.put(key_of("work", "a"), Circuit(failures=1))
    same = circuits.tasks
    for user in "abc":
        circuits.put(key_of("mail", user), CLOSED)

    assert first is same == {"mail"}
    assert circuits.tasks == set()
