"""The order of one lane, against a simulation written from the prose."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from laneway.core.records.policy import Lane
from tests.core.queue.plain_shelves import Floor
from tests.core.queue.turns_oracle import TRACES, WIDE, Oracle, apply

# One capped user beside runs that have no user, mostly at one priority: parking and coming back happen all the time.
NARROW = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), st.sampled_from([None, "ann"]), st.sampled_from([0, 0, 0, 1]), st.integers(1, 4)),
        st.tuples(st.just("claim"), st.integers(1, 5)),
        st.tuples(st.sampled_from(["end", "end", "again"]), st.integers(0, 9)),
    ),
    max_size=30,
)


@given(TRACES | NARROW, st.sampled_from([None, 1]))
@settings(max_examples=1000, deadline=None)
def test_the_order_is_that_of_the_prose(trace: list[tuple[str, ...]], cap: int | None) -> None:
    floor, oracle = Floor(Lane("main", limit=WIDE, per_user=cap)), Oracle(cap)

    for op, *given_ in trace:
        apply(floor, oracle, op, given_)
        assert placed(floor) == [
            (run.number, run.tag - 1000 * run.priority, run.where) for run in oracle.runs if run.where != "gone"
        ]


def placed(floor: Floor) -> list[tuple[int, int, str]]:
    items = [item for item in floor.shelves.items if item.shelf != "ended"]
    where = {"ready": "ready", "active": "active"}
    return [(item.number, item.rank, where.get(item.shelf, "parked")) for item in sorted(items, key=lambda i: i.number)]
