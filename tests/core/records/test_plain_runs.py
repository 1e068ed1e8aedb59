"""A plain run is one whose optional fields all equal their defaults, whatever fields there are."""

import msgspec
import pytest

from laneway.core.records.run import NewRun

PLAIN = NewRun(id="a", task="noop", args="{}", lane="main")
OPTIONAL = {field.name: field.default for field in msgspec.structs.fields(NewRun) if not field.required}
OTHERS: tuple[object, ...] = ("x", 1)  # for each field, one of them is not its default


def test_a_run_without_options_is_plain() -> None:
    assert PLAIN.is_plain
    assert msgspec.structs.replace(PLAIN, id="b", task="mail", args='{"n":1}', lane="slow").is_plain


@pytest.mark.parametrize("name", OPTIONAL)
def test_a_run_with_any_option_is_not_plain(name: str) -> None:
    other = next(value for value in OTHERS if value != OPTIONAL[name])

    assert not msgspec.structs.replace(PLAIN, **{name: other}).is_plain


@pytest.mark.parametrize("name", OPTIONAL)
def test_an_option_that_is_given_as_its_default_leaves_a_run_plain(name: str) -> None:
    assert msgspec.structs.replace(PLAIN, **{name: OPTIONAL[name]}).is_plain
