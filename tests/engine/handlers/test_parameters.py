"""Arguments: checked against the handler's signature before anything is stored, and converted for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, NewType, Optional, TypedDict
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway import BadArguments, Context
from laneway.engine.handlers.parameters import Parameters
from tests.support.arguments import NOON, Colour, Model, Point, deep, summarize

if TYPE_CHECKING:
    pass

LIMIT = 1000


class Size(msgspec.Struct):
    width: int


class Place(TypedDict):
    city: str


class Pair(NamedTuple):
    left: int
    right: str


UserId = NewType("UserId", int)


def of(function: Callable[..., Any]) -> Parameters:
    return Parameters("work", function, Context)


def refusal(function: Callable[..., Any], args: Any, limit: int = LIMIT) -> str:
    with pytest.raises(BadArguments) as caught:
        of(function).pack(args, limit)
    return str(caught.value)


# Names


def nothing() -> None: ...


def anything(**more: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "args", "message"),
    [
        (summarize, {"dok": "42"}, "work has no argument 'dok', did you mean 'doc'?"),
        (summarize, {"doc": "42", "colour": 1}, "work has no argument 'colour'; it takes doc, length"),
        (nothing, {"doc": "42"}, "work has no argument 'doc'; it takes none"),
        (summarize, {"doc": "42", "ctx": {}}, "work has no argument 'ctx'; it takes doc, length"),
        (summarize, {}, "work needs 'doc'"),
        (lambda a, b, c=1: None, {"c": 2}, "work needs 'a' and 'b'"),
        (summarize, {"doc": 42}, "work, argument 'doc': expected str, got int"),
        (summarize, {"doc": None}, "work, argument 'doc': expected str, got null"),
        (summarize, {"doc": "42", "length": "7"}, "work, argument 'length': expected int, got str"),
        (summarize, {"doc": "42", "length": True}, "work, argument 'length': expected int, got bool"),
        (summarize, {1: 2}, "work has no argument '1'; it takes doc, length"),
        (summarize, ["42"], "the arguments of work must be a dict of names and values, not list"),
        (summarize, "doc", "the arguments of work must be a dict of names and values, not str"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_what_to_change(
    function: Callable[..., Any], args: Any, message: str
) -> None:
    assert refusal(function, args) == message


def test_arguments_that_fit_become_json_text() -> None:
    text = of(summarize).pack({"doc": "ä", "length": 3}, LIMIT)

    assert text == '{"doc":"ä","length":3}'


def measure(count: int, share: float, name: str, sure: bool) -> None: ...


NUMBERS = st.one_of(st.integers(), st.floats(), st.sampled_from([2**53, 2.0**53, 2**63, 2**64, 10**400, -0.0]))


@given(
    st.fixed_dictionaries(
        {"count": NUMBERS | st.text(), "name": st.text() | st.integers() | st.none()},
        optional={"share": NUMBERS | st.none(), "sure": st.booleans() | st.integers(), "more": st.booleans()},
    )
)
def test_what_is_of_its_very_type_needs_no_second_look(args: dict[str, Any]) -> None:
    parameters = of(measure)

    def packed(pack: Callable[[Any, int], str]) -> str:
        try:
            return pack(args, LIMIT)
        except BadArguments as error:
            return str(error)

    assert packed(parameters.pack) == packed(parameters._pack_with_care)  # noqa: SLF001 - the short way stands for it


def count_up(number: int, text: str) -> None: ...


@given(
    st.lists(
        st.fixed_dictionaries(
            {"number": st.integers() | st.sampled_from([1.0, True, 2**64, 10**400])},
            optional={"text": st.text() | st.just("x" * LIMIT) | st.just("ä" * (LIMIT // 3)), "more": st.booleans()},
        )
    )
)
def test_many_are_packed_as_each_of_them_is(many: list[dict[str, Any]]) -> None:
    parameters = of(count_up)

    def packed(pack: Callable[[], list[str]]) -> list[str] | str:
        try:
            return pack()
        except BadArguments as error:
            return str(error)

    one_by_one = packed(lambda: [parameters.pack(args, LIMIT) for args in many])
    assert packed(lambda: parameters.pack_all(many, LIMIT)) == one_by_one


def test_a_default_is_left_to_the_handler() -> None:
    parameters = of(summarize)

    text = parameters.pack({"doc": "42"}, LIMIT)

    assert parameters.unpack(text) == {"doc": "42"}


def test_any_mapping_will_do() -> None:
    assert of(summarize).pack(MappingProxyType({"doc": "42"}), LIMIT) == '{"doc":"42"}'


def test_a_handler_with_keyword_arguments_takes_any_name_and_still_checks_its_own() -> None:
    def work(doc: str, when: date, **more: Any) -> None: ...

    parameters = of(work)
    text = parameters.pack({"doc": "42", "when": "2026-01-02", "colour": "red"}, LIMIT)

    assert parameters.unpack(text) == {"doc": "42", "when": date(2026, 1, 2), "colour": "red"}
    assert refusal(work, {"colour": "red"}) == "work needs 'doc' and 'when'"
    assert of(anything).unpack(of(anything).pack({"a": 1}, LIMIT)) == {"a": 1}


def test_parameters_may_have_names_that_mean_something_elsewhere() -> None:
    def work(self: int, cls: int, args: int, __weird__: int, match: int, p_match: int) -> None: ...

    parameters = of(work)
    values = {"self": 1, "cls": 2, "args": 3, "__weird__": 4, "match": 5, "p_match": 6}

    assert parameters.unpack(parameters.pack(values, LIMIT)) == values


# Types


@dataclass
class Letter:
    body: bytes
    title: str


def takes(hint: Any) -> Parameters:
    def work(value: Any) -> None: ...

    work.__annotations__["value"] = hint
    return of(work)


@pytest.mark.parametrize(
    ("hint", "given", "received"),
    [
        (Any, {"a": [1, None, "x"]}, {"a": [1, None, "x"]}),
        (int, 2**70, 2**70),
        (float, 0.1, 0.1),
        (str, "a\x00b", "a\x00b"),
        (str, "🦊", "🦊"),
        (list[int], (1, 2), [1, 2]),
        (dict[str, list[int]], {"a": [1]}, {"a": [1]}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (set[int], [1, 2], {1, 2}),
        (int | None, None, None),
        (int | None, 5, 5),
        (int | str, "a", "a"),
        (Optional[int], None, None),  # noqa: UP045 - the old spelling is what is tested
        (Literal["fast", "slow"], "slow", "slow"),
        (datetime, NOON, NOON),
        (datetime | None, NOON.isoformat(), NOON),
        (date, date(2026, 1, 2), date(2026, 1, 2)),
        (timedelta, timedelta(seconds=90), timedelta(seconds=90)),
        (Decimal, Decimal("1.10"), Decimal("1.10")),
        (UUID, UUID(int=5), UUID(int=5)),
        (bytes, b"\x00\xff", b"\x00\xff"),
        (bytes | None, "aGVsbG8=", b"hello"),
        (bytearray, b"hello", bytearray(b"hello")),
        (list[bytes], (b"a", b"b"), [b"a", b"b"]),
        (dict[str, bytes], {"a": b""}, {"a": b""}),
        (Letter, Letter(b"hello", "x"), Letter(b"hello", "x")),
        (Colour, Colour.RED, Colour.RED),
        (Colour, "blue", Colour.BLUE),
        (list[Colour], ["blue", "red"], [Colour.BLUE, Colour.RED]),
        (Point, Point(1, 2), Point(1, 2)),
        (Point, {"x": 1}, Point(1)),
        (dict[str, Point], {"a": {"x": 1}}, {"a": Point(1)}),
        (Size, Size(5), Size(5)),
        (Place, {"city": "Rome"}, {"city": "Rome"}),
        (Pair, Pair(1, "a"), Pair(1, "a")),
        (UserId, 5, 5),
        (Annotated[int, "a note"], 5, 5),
    ],
)
def test_a_value_reaches_the_handler_as_its_annotation_says(hint: Any, given: Any, received: Any) -> None:
    parameters = takes(hint)

    arrived = parameters.unpack(parameters.pack({"value": given}, LIMIT))["value"]

    assert arrived == received
    assert type(arrived) is type(received)


@pytest.mark.parametrize(
    ("hint", "given", "message"),
    [
        (int, 1.5, "work, argument 'value': expected int, got float"),
        (int | None, "5", "work, argument 'value': expected int | null, got str"),
        (list[int], [1, "a"], "work, argument 'value[1]': expected int, got str"),
        (dict[str, int], {"a": "b"}, "work, argument 'value[...]': expected int, got str"),
        (Colour, "green", "work, argument 'value': invalid enum value 'green'"),
        (Literal["fast", "slow"], "medium", "work, argument 'value': invalid enum value 'medium'"),
        (datetime, "tomorrow", "work, argument 'value': invalid RFC3339 encoded datetime"),
        (Point, {"y": 1}, "work, argument 'value': object missing required field x"),
        (Point, {"x": "1"}, "work, argument 'value.x': expected int, got str"),
        (Model, {"title": "x"}, "work, argument 'value': name: field required"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_where_it_is_wrong(hint: Any, given: Any, message: str) -> None:
    with pytest.raises(BadArguments) as caught:
        takes(hint).pack({"value": given}, LIMIT)

    assert str(caught.value) == message


@pytest.mark.parametrize("hint", [Model, Model | None, list[Model]])
def test_an_object_that_validates_itself_is_made_by_its_own_class(hint: Any) -> None:
    parameters = takes(hint)
    given: Any = {"name": "ann"}

    arrived = parameters.unpack(parameters.pack({"value": [given] if hint == list[Model] else given}, LIMIT))["value"]

    model = arrived[0] if isinstance(arrived, list) else arrived
    assert isinstance(model, Model)
    assert model.name == "ann"


def test_a_parameter_with_a_default_may_have_any_of_these_types() -> None:
    def work(when: datetime = NOON, point: Point | None = None, model: Model | None = None, n: Any = 5) -> None: ...

    parameters = of(work)

    assert parameters.unpack(parameters.pack({}, LIMIT)) == {}
    assert parameters.unpack(parameters.pack({"point": {"x": 3}, "n": [1]}, LIMIT)) == {"point": Point(3), "n": [1]}


# JSON


def endless() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "the arguments of work are not JSON: value is nan, which JSON has no word for"),
        (
            [1, {"a": float("-inf")}],
            "the arguments of work are not JSON: value[1].a is -inf, which JSON has no word for",
        ),
        (object(), "the arguments of work are not JSON: Encoding objects of type object is unsupported"),
        (1j, "the arguments of work are not JSON: Encoding objects of type complex is unsupported"),
        (
            {(1, 2): 3},
            "the arguments of work are not JSON: Only dicts with str-like or number-like keys are supported",
        ),
        (
            "\ud800",
            (
                "the arguments of work are not JSON: 'utf-8' codec can't encode character '\\ud800' in position 0:"
                " surrogates not allowed"
            ),
        ),
        (
            endless(),
            "the arguments of work are not JSON: maximum recursion depth exceeded while serializing an object",
        ),
        (
            deep(100_000),
            "the arguments of work are not JSON: maximum recursion depth exceeded while serializing an object",
        ),
        (
            [b"hello"],
            (
                "the arguments of work are not JSON: value[0] is bytes; JSON has only text: decode it, or write it as"
                " text, such as base64"
            ),
        ),
        ("a" * 989, "the arguments of work take 1001 bytes as JSON; at most 1000 are allowed"),
        ("ä" * 500, "the arguments of work take 1012 bytes as JSON; at most 1000 are allowed"),
    ],
    ids=["nan", "inside", "object", "complex", "key", "surrogate", "endless", "deep", "bytes", "large", "size"],
)
def test_what_is_not_json_or_too_large_is_refused(value: Any, message: str) -> None:
    assert refusal(lambda value: None, {"value": value}) == message


@pytest.mark.parametrize(
    ("hint", "given", "where"),
    [
        (str, b"hello", "value"),
        (int, b"hello", "value"),
        (Any, b"hello", "value"),
        (str | None, bytearray(b"hello"), "value"),
        (bytes | str, b"hello", "value"),
        (list[str], ["a", b"b"], "value[1]"),
        (dict[str, Any], {"a": {"b": b"c"}}, "value.a.b"),
        (Letter, Letter(b"hello", b"x"), "value.title"),  # type: ignore[arg-type]  # that is the mistake
        (Model, {"name": b"x"}, "value.name"),
    ],
    ids=repr,
)
def test_bytes_are_refused_but_where_the_annotation_makes_bytes_of_their_text(
    hint: Any, given: Any, where: str
) -> None:
    with pytest.raises(BadArguments) as caught:
        takes(hint).pack({"value": given}, LIMIT)

    kind = "bytearray" if isinstance(given, bytearray) else "bytes"
    assert str(caught.value).startswith(f"the arguments of work are not JSON: {where} is {kind}; ")


def test_arguments_of_just_the_allowed_size_are_taken() -> None:
    text = of(lambda value: None).pack({"value": "a" * 988}, LIMIT)

    assert len(text) == LIMIT


# Context


def test_a_context_is_found_by_its_annotation_whatever_its_name() -> None:
    def work(doc: str, me: Context) -> None: ...

    parameters = of(work)

    # Annotations are strings in this file, so this also shows that they are resolved.
    assert inspect.get_annotations(work)["me"] == "Context"
    assert parameters.context == "me"
    assert parameters.names == ["doc"]


def test_without_the_annotation_a_parameter_called_ctx_is_an_argument() -> None:
    def work(ctx: dict[str, Any]) -> None: ...

    assert of(work).context is None
    assert of(work).names == ["ctx"]


def test_a_handler_without_a_context_has_none() -> None:
    assert of(nothing).context is None
