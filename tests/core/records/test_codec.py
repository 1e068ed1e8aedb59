"""Text and back."""

import dataclasses
import decimal
import enum
import json
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.common.instants import instant
from laneway.core.records.codec import flat_json, flat_jsons, from_json, run_from_dict, to_dict, to_json
from laneway.core.records.events import Event
from laneway.core.records.run import Failure, Receipt, ReceiptOutcome, Run
from laneway.core.records.states import RunState
from laneway.errors import BadArguments, StoreTooNew

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**200), 2**200)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=20,
)
INSTANTS = st.integers(0, 4 * 10**15).map(instant)
RUNS = st.builds(
    Run,
    id=TEXT,
    number=st.integers(1, 2**60),
    task=TEXT,
    args=st.dictionaries(TEXT, JSON, max_size=4),
    lane=TEXT,
    user=st.none() | TEXT,
    session=st.none() | TEXT,
    priority=st.integers(-100, 100),
    state=st.sampled_from(RunState),
    attempt=st.integers(1, 9),
    fence=st.integers(0, 9),
    crashes=st.integers(0, 9),
    accepted_at=INSTANTS,
    due_at=INSTANTS,
    started_at=st.none() | INSTANTS,
    ended_at=st.none() | INSTANTS,
    result=JSON,
    error=st.none() | st.builds(Failure, TEXT, TEXT, TEXT, st.none() | TEXT),
    reason=st.none() | TEXT,
    worker=st.none() | TEXT,
)


@given(JSON)
def test_every_json_value_comes_back_as_it_was(value: Any) -> None:
    text = to_json(value, "the value", 10**7)

    assert from_json(text) == value
    assert json.loads(text) == value


@given(RUNS)
def test_a_run_comes_back_from_its_dict_and_from_json(run: Run) -> None:
    plain = to_dict(run)

    assert plain["v"] == 1
    assert run_from_dict(plain) == run
    assert run_from_dict(json.loads(json.dumps(plain))) == run


def test_a_dict_is_plain_and_instants_are_text() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)

    assert to_dict(Event("a", 1, "log", {"n": 1}, 2, at)) == {
        "v": 1,
        "run_id": "a",
        "seq": 1,
        "kind": "log",
        "data": {"n": 1},
        "attempt": 2,
        "at": "2026-01-02T03:04:05.000678Z",
    }
    assert to_dict(Receipt(ReceiptOutcome.REFUSED, "a", "session_busy", 3))["outcome"] == "refused"


def test_a_reader_ignores_names_it_does_not_know() -> None:
    run = Run(id="a", number=1, task="t", args={}, lane="main", accepted_at=instant(1), due_at=instant(1))

    assert run_from_dict(to_dict(run) | {"colour": "blue"}) == run


def test_a_reader_refuses_a_newer_form() -> None:
    with pytest.raises(StoreTooNew, match="written in form 2; this laneway reads up to 1: upgrade"):
        run_from_dict({"v": 2, "id": "a"})


@dataclasses.dataclass
class Point:
    x: float


class Struct(msgspec.Struct):
    points: list[Point]


@dataclasses.dataclass
class Letter:
    body: Any


class Mark(enum.Enum):
    RED = "red"
    RAW = b"raw"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param({"x": object()}, "the arguments are not JSON: .*object", id="an object"),
        ({"x": 1j}, "the arguments are not JSON: .*complex"),
        ({(1, 2): 3}, "the arguments are not JSON: Only dicts with str-like or number-like keys"),
        ("\ud800", "the arguments are not JSON: .*surrogates not allowed"),
        (float("nan"), "the arguments are not JSON: the value is nan, which JSON has no word for"),
        ({"a": [1, {"b": float("inf")}]}, r"the arguments are not JSON: a\[1\].b is inf"),
        ({"a": (None, -float("inf"))}, r"the arguments are not JSON: a\[1\] is -inf"),
        (Point(float("nan")), "the arguments are not JSON: x is nan"),
        ({"s": Struct([Point(1), Point(float("nan"))])}, r"the arguments are not JSON: s.points\[1\].x is nan"),
    ],
    ids=repr,
)
def test_what_json_cannot_say_is_refused_and_named(value: Any, message: str) -> None:
    with pytest.raises(BadArguments, match=message):
        to_json(value, "the arguments", 1000)


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (b"hello", "the value is bytes"),
        ({"text": b"hello"}, "text is bytes"),
        ({"a": [1, {"b": b""}]}, r"a[1].b is bytes"),
        ({"a": (None, bytearray(b"x"))}, r"a[1] is bytearray"),
        pytest.param([memoryview(b"x")], "[0] is memoryview", id="memoryview"),
        pytest.param({"long": ["x" * 300, b"x"]}, "long[1] is bytes", id="long"),
        ({b"x"}, "[0] is bytes"),
        (Letter(b"x"), "body is bytes"),
        ({"s": Struct([Letter({"c": b"x"})])}, "s.points[0].body.c is bytes"),  # type: ignore[list-item]  # unchecked
        ({"mark": Mark.RAW}, "mark is bytes"),
        ({b"a": 1}, "the key b'a' of the value is bytes"),
        ({"a": [{b"a": 1}]}, "the key b'a' of a[0] is bytes"),
    ],
    ids=repr,
)
def test_bytes_are_refused_wherever_they_are(value: Any, where: str) -> None:
    with pytest.raises(BadArguments) as caught:
        to_json(value, "the result", 1000, plural=False)

    advice = "JSON has only text: decode it, or write it as text, such as base64"
    assert str(caught.value) == f"the result is not JSON: {where}; {advice}"


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ({1: 2, "1": 3}, "1"),
        ({"a": [{"1.5": None, 1.5: 3}]}, "1.5"),
        ({"red": 1, Mark.RED: 2}, "red"),
        (Letter({uuid.UUID(int=0): 1, str(uuid.UUID(int=0)): 2}), "00000000-0000-0000-0000-000000000000"),
    ],
    ids=repr,
)
def test_keys_that_become_the_same_text_are_refused(value: Any, key: str) -> None:
    with pytest.raises(BadArguments) as caught:
        to_json(value, "the arguments", 1000)

    assert str(caught.value) == (
        f"the arguments are not JSON: two keys of one dict are {key!r} as text, and JSON's keys are text; rename one"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({1: "a", 2: "b"}, '{"1":"a","2":"b"}'),
        ({Mark.RED: [1.5]}, '{"red":[1.5]}'),
        ({"a": {1: 2}, "b": {"1": 3}}, '{"a":{"1":2},"b":{"1":3}}'),
        pytest.param({"raw": msgspec.Raw(b"[1, null]"), "n": 1}, '{"raw":[1, null],"n":1}', id="raw"),
    ],
    ids=repr,
)
def test_keys_that_are_not_text_become_text(value: Any, text: str) -> None:
    assert to_json(value, "the arguments", 1000) == text


def test_what_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)

    with pytest.raises(BadArguments, match=r"the arguments are not JSON: .*recursion"):
        to_json(endless, "the arguments", 1000)


def test_what_is_too_large_is_refused_with_its_size() -> None:
    assert len(to_json("x" * 98, "the result", 100)) == 100
    with pytest.raises(BadArguments, match="the result take 101 bytes as JSON; at most 100 are allowed"):
        to_json("x" * 99, "the result", 100)


def test_size_is_counted_in_bytes() -> None:
    with pytest.raises(BadArguments, match="take 102 bytes"):
        to_json("ä" * 50, "the result", 100)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Point(1.5), '{"x":1.5}'),
        (decimal.Decimal("1.10"), '"1.10"'),
        (uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        ((1, None, "null"), '[1,null,"null"]'),
        (datetime(2026, 1, 1, tzinfo=UTC), '"2026-01-01T00:00:00Z"'),
    ],
    ids=repr,
)
def test_values_with_one_obvious_text_are_taken(value: Any, text: str) -> None:
    assert to_json(value, "the result", 100) == text


FLAT = st.dictionaries(TEXT, TEXT | st.booleans() | st.integers(-(2**63), 2**64 - 1), max_size=3)


@given(st.lists(FLAT, max_size=5))
def test_flat_values_have_the_same_texts_together_as_each_alone(values: list[dict[str, Any]]) -> None:
    each = [flat_json(value, "the arguments", 1_000_000) for value in values]

    assert flat_jsons(values, "the arguments", 1_000_000) == each


@given(st.lists(st.integers(0, 70), min_size=1, max_size=8), st.sampled_from(["x", "ä", "🦊"]))
def test_the_limit_is_of_each_flat_value_and_not_of_all_together(sizes: list[int], letter: str) -> None:
    values = [{"text": size * letter} for size in sizes]

    def texts(make: Callable[[], list[str]]) -> list[str] | str:
        try:
            return make()
        except BadArguments as error:
            return str(error)

    each = texts(lambda: [flat_json(value, "the arguments", 100) for value in values])
    assert texts(lambda: flat_jsons(values, "the arguments", 100)) == each
