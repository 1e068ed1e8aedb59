"""Arguments: checked against the handler's signature before anything is stored, and converted for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, NewType, Optional, TypedDict
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway import BadArguments, Context, Scheduler
from laneway.engine.parameters import Parameters
from laneway.testing import FakeClock

if TYPE_CHECKING:
    from decimal import Decimal as OnlyForTypeCheckers

LIMIT = 1000


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


class Size(msgspec.Struct):
    width: int


class Place(TypedDict):
    city: str


class Pair(NamedTuple):
    left: int
    right: str


class Model:
    """What a pydantic model looks like from outside."""

    def __init__(self, name: str) -> None:
        self.name = name

    @classmethod
    def model_validate(cls, value: Any) -> Model:
        if not isinstance(value, dict) or "name" not in value:
            raise ValueError("name: field required")
        return cls(value["name"])


UserId = NewType("UserId", int)


def of(function: Callable[..., Any]) -> Parameters:
    return Parameters("work", function, Context)


def refusal(function: Callable[..., Any], args: Any, limit: int = LIMIT) -> str:
    with pytest.raises(BadArguments) as caught:
        of(function).pack(args, limit)
    return str(caught.value)


# Names


def summarize(doc: str, length: int = 100, *, ctx: Context) -> None: ...


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

    assert packed(parameters.pack) == packed(parameters._pack_with_care)


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


def takes(hint: Any) -> Parameters:
    def work(value: Any) -> None: ...

    work.__annotations__["value"] = hint
    return of(work)


NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


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


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
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
        ("a" * 989, "the arguments of work take 1001 bytes as JSON; at most 1000 are allowed"),
        ("ä" * 500, "the arguments of work take 1012 bytes as JSON; at most 1000 are allowed"),
    ],
    ids=["nan", "inside", "object", "complex", "key", "surrogate", "endless", "deep", "large", "bytes-not-characters"],
)
def test_what_is_not_json_or_too_large_is_refused(value: Any, message: str) -> None:
    assert refusal(lambda value: None, {"value": value}) == message


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


# Through the scheduler


async def test_what_is_refused_leaves_nothing_behind(app: Scheduler) -> None:
    app.task(summarize)

    for args in ({}, {"doc": 1}, {"dok": "1"}, {"doc": "x" * 300_000}, {"doc": "\udc00"}):
        with pytest.raises(BadArguments):
            await app.submit("summarize", args)

    assert await app.runs() == []


async def test_converted_arguments_arrive_in_the_handler(app: Scheduler) -> None:
    seen: list[tuple[Any, ...]] = []

    @app.task
    def work(point: Point, when: datetime, colour: Colour = Colour.RED, *, who: Model | None = None) -> None:
        seen.append((point, when, colour, who and who.name))

    await work.submit(point=Point(1, 2), when=NOON, colour=Colour.BLUE, who={"name": "ann"})
    await work.submit(point={"x": 3}, when=NOON)
    await app.drain()

    assert sorted(seen, key=lambda row: row[0].x) == [
        (Point(1, 2), NOON, Colour.BLUE, "ann"),
        (Point(3), NOON, Colour.RED, None),
    ]


async def test_what_json_can_barely_hold_comes_back_as_it_went(app: Scheduler) -> None:
    odd = {"nul": "a\x00b", "big": 2**70, "small": 5e-324, "fox": "🦊", "": "", "quote": "\"'\\\u2028", "n": None}

    @app.task
    async def echo(value: dict[str, Any]) -> dict[str, Any]:
        return value

    receipt = await echo.submit(value=odd)
    await app.drain()

    run = await app.get(receipt)
    assert run.args == {"value": odd}
    assert run.result == odd


async def test_the_limits_are_settings(clock: FakeClock) -> None:
    app = Scheduler("memory://", clock=clock, args_limit=20, result_limit=9)

    @app.task(retry=None)
    async def echo(value: str) -> str:
        return value

    with pytest.raises(BadArguments) as caught:
        await echo.submit(value="0123456789")
    receipt = await echo.submit(value="01234567")
    await app.drain()

    assert str(caught.value) == "the arguments of echo take 22 bytes as JSON; at most 20 are allowed"
    assert (await app.get(receipt)).reason == "bad_result"


async def test_one_annotation_that_cannot_be_resolved_leaves_the_others_alone(app: Scheduler) -> None:
    # Annotations of this file are strings, and one of them can be resolved by a type checker only.
    async def work(price: OnlyForTypeCheckers, count: int, ctx: Context) -> str:
        return ctx.task

    task = app.task(work)

    assert task.parameters.context == "ctx"
    with pytest.raises(BadArguments):
        await task.submit(price="1.10", count="many")


async def test_an_optional_context_is_given_too(app: Scheduler) -> None:
    @app.task(retry=None)
    async def work(ctx: Optional[Context] = None) -> bool:  # noqa: UP045 - either spelling
        return ctx is not None

    receipt = await work.submit()
    await app.drain()

    assert await app.result(receipt) is True


async def test_a_context_with_a_note_is_given_too(app: Scheduler) -> None:
    @app.task(retry=None)
    async def work(ctx: Annotated[Context, "mine"]) -> str:
        return ctx.task

    receipt = await work.submit()
    await app.drain()

    assert await app.result(receipt) == "work"


async def test_a_partial_of_a_handler_is_given_its_context(app: Scheduler) -> None:
    async def work(n: int, step: int, ctx: Context) -> str:
        return f"{ctx.task} {n} {step}"

    task = app.task(name="work", retry=None)(partial(work, step=2))
    receipt = await task.submit(n=1)
    await app.drain()

    assert await app.result(receipt) == "work 1 2"


@dataclass
class Order:
    price: OnlyForTypeCheckers


async def test_a_class_with_a_field_that_cannot_be_resolved_takes_any_json(app: Scheduler) -> None:
    @app.task
    async def work(order: Order) -> Any:
        return order

    receipt = await work.submit(order={"price": "1.10"})
    await app.drain()

    assert await app.result(receipt) == {"price": "1.10"}


async def test_a_number_reaches_the_handler_as_its_annotation_says(app: Scheduler) -> None:
    @app.task
    async def work(share: float) -> str:
        return type(share).__name__

    receipt = await work.submit(share=1)
    await app.drain()

    assert await app.result(receipt) == "float"


async def test_what_is_nested_less_than_a_hundred_levels_deep_is_taken(app: Scheduler) -> None:
    @app.task
    async def work(value: Any) -> Any:
        return value

    receipt = await work.submit(value=deep(90))
    await app.drain()

    assert await app.result(receipt) == deep(90)


@pytest.mark.parametrize("levels", [100, 700])
async def test_what_is_nested_deeper_than_any_reader_can_follow_is_refused(app: Scheduler, levels: int) -> None:
    # Otherwise a run could be taken from a shallow stack that nobody can read from a deep one.
    @app.task
    async def work(value: Any) -> None: ...

    with pytest.raises(BadArguments) as caught:
        await work.submit(value=deep(levels))

    assert str(caught.value) == "the arguments of work are not JSON: it is nested more than 100 levels deep"
    assert await app.runs() == []


async def test_a_number_too_large_for_its_annotation_is_refused(app: Scheduler) -> None:
    @app.task
    async def work(share: float) -> None: ...

    with pytest.raises(BadArguments):
        await work.submit(share=10**400)
    assert await app.runs() == []
