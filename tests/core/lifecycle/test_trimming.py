"""Trimming a log: every stretch of deltas becomes one mark; everything else keeps its number."""

from __future__ import annotations

import json
from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from laneway.core.lifecycle.trim import Chunk, trimmed
from laneway.core.records.events import Event, Stamped, chunk, counted, numbered, opened

LOGS = st.lists(st.lists(st.sampled_from(["delta", "delta", "log"]), min_size=1, max_size=6), max_size=8)


def chunked(kinds: list[list[str]]) -> list[Chunk]:
    """Return a log of these kinds, chunk by chunk; the number of each event is its data."""
    chunks: list[Chunk] = []
    seq = 1
    for at, part in enumerate([*kinds, ["done"]]):
        rows: list[Stamped] = [(kind, 1, at, json.dumps({"n": seq + index})) for index, kind in enumerate(part)]
        chunks.append((seq, rows))
        seq += len(rows)
    return chunks


def read(chunks: list[Chunk]) -> list[Event]:
    """Return the events of chunks that were stored and opened again."""
    rows = [numbered_row for first, part in chunks for numbered_row in counted(first, opened(chunk(part)))]
    return numbered("run", rows, None)


@given(LOGS)
def test_everything_but_deltas_keeps_its_number_and_they_become_marks(kinds: list[list[str]]) -> None:
    before = read(chunked(kinds))

    after = read(trimmed(chunked(kinds)))

    assert [event for event in after if event.kind != "trimmed"] == [e for e in before if e.kind != "delta"]
    stretches = [list(group) for kind, group in groupby(before, lambda event: event.kind) if kind == "delta"]
    assert [(mark.seq, mark.at, mark.data) for mark in after if mark.kind == "trimmed"] == [
        (part[-1].seq, part[-1].at, {"first": part[0].seq, "last": part[-1].seq, "events": len(part)})
        for part in stretches
    ]


@given(LOGS)
def test_a_chunk_is_found_by_any_number_that_it_covers(kinds: list[list[str]]) -> None:
    chunks = trimmed(chunked(kinds))
    everything = read(chunks)

    for cursor in range(everything[-1].seq):
        # As a store looks for it: the last chunk that does not begin behind the next number.
        at = max(index for index, (first, _) in enumerate(chunks) if first <= cursor + 1)
        found = [event for event in read(chunks[at:]) if event.seq > cursor]
        assert found == [event for event in everything if event.seq > cursor]


@given(LOGS)
def test_trimming_twice_is_trimming_once(kinds: list[list[str]]) -> None:
    once = trimmed(chunked(kinds))

    assert trimmed(once) == once
