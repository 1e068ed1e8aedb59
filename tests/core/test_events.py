"""Drafts, chunks and numbered events."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.events import DATA_LIMIT, HEAD_LIMIT, RESERVED, Event, Stamped, chunk, draft, numbered, opened
from laneway.core.instants import instant

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
DATA: st.SearchStrategy[Any] = st.none() | TEXT | st.lists(st.integers()) | st.dictionaries(TEXT, TEXT)
STAMPED = st.tuples(TEXT, st.integers(1, 9), st.integers(0, 4 * 10**15), DATA.map(json.dumps))


@given(TEXT, DATA)
def test_a_draft_is_a_kind_and_its_data_as_json(kind: str, data: Any) -> None:
    drafted, text = draft(kind, data)

    assert drafted == kind
    assert json.loads(text) == data


@pytest.mark.parametrize("filler", ["x", "ü", "🦜", '"', "\\", "\x00", "\n"])
@pytest.mark.parametrize("length", [DATA_LIMIT, 20_000])
def test_data_over_the_limit_is_cut_and_marked_and_then_fits(filler: str, length: int) -> None:
    whole = msgspec.json.encode({"text": filler * length})

    _, text = draft("log", {"text": filler * length})

    kept = json.loads(text)
    assert kept["cut"] == len(whole)
    assert len(kept["head"].encode()) > HEAD_LIMIT - 4
    assert whole.decode().startswith(kept["head"])
    assert len(text.encode()) <= DATA_LIMIT


def test_data_of_exactly_the_limit_is_kept() -> None:
    text = "x" * (DATA_LIMIT - 2)

    assert json.loads(draft("log", text)[1]) == text


@given(st.lists(STAMPED, max_size=8))
def test_a_chunk_gives_back_what_was_put_in(stamped: list[Stamped]) -> None:
    rows = opened(chunk(stamped))

    assert rows == [[kind, attempt, at, json.loads(data)] for kind, attempt, at, data in stamped]


@given(st.lists(STAMPED, max_size=8), st.integers(1, 100))
def test_events_are_numbered_from_the_first_without_a_gap(stamped: list[Stamped], first: int) -> None:
    events = numbered("run", first, opened(chunk(stamped)), None)

    assert [event.seq for event in events] == list(range(first, first + len(stamped)))
    assert [(event.run_id, event.kind, event.attempt) for event in events] == [
        ("run", kind, attempt) for kind, attempt, _, _ in stamped
    ]


def test_the_result_is_put_into_its_event_and_into_no_other() -> None:
    rows = opened(chunk([("log", 1, 5, '{"value":1}'), ("result", 1, 6, "null"), ("done", 1, 6, "{}")]))

    events = numbered("run", 3, rows, [42])

    assert events[1] == Event("run", 4, "result", {"value": [42]}, 1, instant(6))
    assert [event.data for event in events] == [{"value": 1}, {"value": [42]}, {}]


def test_the_engines_own_kinds_are_reserved() -> None:
    assert {"started", "retrying", "released", "lapsed", "result", "error", "done"} < RESERVED
    assert {"snoozed", "paused", "resumed", "stopped", "stuck", "overdue"} < RESERVED
    assert {"cancel_requested", "cancel_delivered", "pause_requested"} < RESERVED
