"""What tells the arguments of two submissions apart."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.common.keys import digest

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def text(value: object) -> str:
    return msgspec.json.encode(value).decode()


@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=4))
def test_the_order_of_names_does_not_matter(args: dict[str, object]) -> None:
    assert digest(text(args)) == digest(text(dict(reversed(args.items()))))


@given(VALUES, VALUES)
def test_different_arguments_differ(one: object, other: object) -> None:
    assert (digest(text(one)) == digest(text(other))) == (text_sorted(one) == text_sorted(other))


def text_sorted(value: object) -> bytes:
    return msgspec.json.encode(value, order="sorted")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('{"a": {"x": 1, "y": 2}}', '{"a":{"y":2,"x":1}}', True),
        ('{"a":[1,2]}', '{"a":[2,1]}', False),
        ('{"a":1}', '{"a":"1"}', False),
        ('{"a":1}', '{"a":true}', False),
        ('{"a":null}', "{}", False),
        ('{"a":"\\u00e9"}', '{"a":"é"}', True),
    ],
)
def test_what_is_the_same(one: str, other: str, same: bool) -> None:
    assert (digest(one) == digest(other)) is same
