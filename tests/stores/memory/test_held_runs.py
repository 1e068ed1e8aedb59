"""The memory store's queues of runs that sessions hold back."""

from __future__ import annotations

import random

import pytest

from laneway.core.queue.shelves import Shelf
from laneway.stores.memory.state.heaps import Heaps
from laneway.stores.memory.state.records import RunRecord


def held(number: int, session: str = "s") -> RunRecord:
    return RunRecord(number, f"run-{number}", "task", "{}", "main", None, session, 0, 0, 0)


@pytest.mark.parametrize("seed", range(50))
def test_runs_are_taken_by_their_places_however_they_come_and_go(seed: int) -> None:
    chance, heaps = random.Random(seed), Heaps()
    there: list[tuple[int, int, RunRecord]] = []
    last, gone = 0, list[RunRecord]()
    odd = chance.choice([0, 0.1, 0.5])  # the share that goes before others, or is removed

    for number in range(1, 200):
        if not there or chance.random() < 0.6:
            run = gone.pop() if gone and chance.random() < odd else held(number)
            last += 1
            place = chance.randint(-last, 0) if chance.random() < odd else last
            heaps.put_held(run, place)
            there = sorted([*there, (place, run.number, run)], key=lambda item: item[:2])
        elif chance.random() < odd:
            _, _, run = there.pop(chance.randrange(len(there)))
            heaps.remove(run)
            gone.append(run)
            assert run.spot == 0
        else:
            assert heaps.take_held("s") is there.pop(0)[2]

        assert heaps.held_by("s") == [run for _, _, run in there]
        places = {(shelf, place, run.number) for shelf, _, place, run in heaps.places()}
        assert places == {(Shelf.HELD, place, number) for place, number, _ in there}
        assert {run.number for _, _, run in heaps.everything()} == {number for _, number, _ in there}


def test_a_session_that_holds_nothing_any_more_leaves_nothing_behind() -> None:
    heaps = Heaps()
    for session in ("in order", "out of order"):
        for number in (1, 2):
            heaps.put_held(held(number, session), number)
    heaps.put_held(held(3, "out of order"), 0)

    taken = [heaps.take_held("in order").number for _ in range(2)]
    others = [heaps.take_held("out of order").number for _ in range(3)]

    assert (taken, others) == ([1, 2], [3, 1, 2])
    assert (heaps._queues, heaps._held) == ({}, {})
