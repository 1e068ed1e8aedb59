"""Drafts, chunks and numbered events."""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.common.instants import instant
from laneway.core.records.events import (
    DATA_LIMIT,
    DELTA_LIMIT,
    HEAD_LIMIT,
    NEVER_CUT,
    RESERVED,
    TEXT_LIMIT,
    Draft,
    Event,
    Stamped,
    chunk,
    condensed,
    counted,
    deltas,
    draft,
    numbered,
    opened,
)

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

    _, text = draft("mine", {"text": filler * length})

    kept = json.loads(text)
    assert kept["cut"] == len(whole)
    assert len(kept["head"].encode()) > HEAD_LIMIT - 4
    assert whole.decode().startswith(kept["head"])
    assert len(text.encode()) <= DATA_LIMIT


def test_data_of_exactly_the_limit_is_kept() -> None:
    text = "x" * (DATA_LIMIT - 2)

    assert json.loads(draft("log", text)[1]) == text


@pytest.mark.parametrize("filler", ["x", "ü", '"', "\n"])
@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("log", {"text": "LONG"}),
        ("progress", {"fraction": 0.5, "text": "LONG"}),
        ("tool_start", {"name": "search", "input": {"q": "LONG", "limit": 5}}),
        ("tool_end", {"name": "search", "seconds": 1.5, "output": ["LONG", {"more": "short"}]}),
    ],
)
def test_a_typed_event_that_is_cut_keeps_its_shape(kind: str, data: Any, filler: str) -> None:
    long = filler * 9_000
    whole = json.loads(json.dumps(data).replace('"LONG"', json.dumps(long)))

    _, text = draft(kind, whole)

    kept = json.loads(text)
    assert kept.pop("cut") == len(msgspec.json.encode(whole))
    assert kept == json.loads(json.dumps(data).replace('"LONG"', json.dumps(filler * TEXT_LIMIT)))
    assert len(text.encode()) <= DATA_LIMIT


@pytest.mark.parametrize(
    "data", [{str(n): "x" * 2_000 for n in range(9)}, {"text": "\x00" * 9_000}, {"n": [1] * 9_000}]
)
def test_what_is_still_too_long_with_its_texts_cut_becomes_its_head(data: Any) -> None:
    _, text = draft("tool_end", data)

    assert json.loads(text).keys() == {"cut", "head"}
    assert len(text.encode()) <= DATA_LIMIT


@pytest.mark.parametrize("kind", sorted(NEVER_CUT))
def test_results_questions_and_deltas_are_never_cut(kind: str) -> None:
    data = {"text": "x" * 20_000}

    assert json.loads(draft(kind, data)[1]) == data


ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('"\\\x00ü🦜'), max_size=400)


@given(ANY_TEXT, st.integers(0, 200))
def test_streamed_text_is_split_and_nothing_of_it_is_lost(text: str, times: int) -> None:
    drafts = deltas(text * times)

    assert "".join(_text(one) for one in drafts) == text * times
    assert all(0 < len(data.encode()) <= DELTA_LIMIT + 9 for _, data in drafts)


DRAFTS = st.lists(
    st.one_of(
        ANY_TEXT.filter(bool).map(lambda text: deltas(text * 9)),
        st.floats(0, 1).map(lambda share: [draft("progress", {"fraction": share})]),
        st.integers().map(lambda number: [draft("log", number)]),
    ),
    max_size=40,
).map(lambda groups: [one for group in groups for one in group])


@given(DRAFTS)
def test_condensing_loses_no_text_no_order_and_no_newest_progress(drafts: list[Draft]) -> None:
    fewer = condensed(drafts)

    assert _essence(fewer) == _essence(drafts)
    assert all(len(data.encode()) <= DATA_LIMIT for _, data in fewer)
    assert not any(one[0] == other[0] == "progress" for one, other in pairwise(fewer))
    assert condensed(fewer) == fewer


@given(DRAFTS)
def test_neighbouring_deltas_stay_apart_only_if_together_they_are_too_long(drafts: list[Draft]) -> None:
    for one, other in pairwise(condensed(drafts)):
        if one[0] == other[0] == "delta":
            assert len(one[1].encode()) + len(other[1].encode()) > DATA_LIMIT - DELTA_LIMIT


def _essence(drafts: Sequence[Draft]) -> list[tuple[str, str]]:
    """Return stretches of text as one, and of neighbouring progress the last."""
    found: list[tuple[str, str]] = []
    for kind, data in drafts:
        text = _text((kind, data)) if kind == "delta" else data
        if found and found[-1][0] == kind in ("delta", "progress"):
            text = found.pop()[1] + text if kind == "delta" else (found.pop(), text)[1]
        found.append((kind, text))
    return found


def _text(one: Draft) -> str:
    text: str = json.loads(one[1])["text"]
    return text


@given(st.lists(STAMPED, max_size=8))
def test_a_chunk_gives_back_what_was_put_in(stamped: list[Stamped]) -> None:
    rows = opened(chunk(stamped))

    assert rows == [[kind, attempt, at, json.loads(data)] for kind, attempt, at, data in stamped]


@given(st.lists(STAMPED, max_size=8), st.integers(1, 100))
def test_events_are_numbered_from_the_first_without_a_gap(stamped: list[Stamped], first: int) -> None:
    events = numbered("run", counted(first, opened(chunk(stamped))), None)

    assert [event.seq for event in events] == list(range(first, first + len(stamped)))
    assert [(event.run_id, event.kind, event.attempt) for event in events] == [
        ("run", kind, attempt) for kind, attempt, _, _ in stamped
    ]


def test_the_result_is_put_into_its_event_and_into_no_other() -> None:
    rows = opened(chunk([("log", 1, 5, '{"value":1}'), ("result", 1, 6, "null"), ("done", 1, 6, "{}")]))

    events = numbered("run", counted(3, rows), [42])

    assert events[1] == Event("run", 4, "result", {"value": [42]}, 1, instant(6))
    assert [event.data for event in events] == [{"value": 1}, {"value": [42]}, {}]


def test_the_engines_own_kinds_are_reserved() -> None:
    assert {"started", "retrying", "released", "lapsed", "result", "error", "done"} < RESERVED
    assert {"snoozed", "paused", "resumed", "stopped", "stuck", "overdue"} < RESERVED
    assert {"cancel_requested", "cancel_delivered", "pause_requested"} < RESERVED
    assert {"delta", "tool_start", "tool_end", "trimmed", "question"} < RESERVED
