"""Structs that are written often are Structs all the same."""

from __future__ import annotations

import gc

import msgspec
import pytest

from laneway.core.common.structs import written_often
from laneway.engine.attempts.running_attempt import RunningAttempt
from laneway.stores.memory.state.records import RunRecord


class Plain(msgspec.Struct, gc=False):
    number: int
    names: tuple[str, ...] = ()


@written_often
class Often(msgspec.Struct, gc=False):
    number: int
    names: tuple[str, ...] = ()


def test_it_is_written_read_compared_copied_and_encoded_as_any_struct() -> None:
    often, plain = Often(1), Plain(1)
    for one in (often, plain):
        one.number = 2
        one.names = ("a", "b")
        del one.names
        one.names = ("c",)

    assert msgspec.to_builtins(often) == msgspec.to_builtins(plain) == {"number": 2, "names": ("c",)}
    assert msgspec.structs.replace(often, number=3) == Often(3, ("c",))
    assert msgspec.json.decode(msgspec.json.encode(often), type=Often) == often


def test_a_field_that_it_has_not_is_refused() -> None:
    with pytest.raises(AttributeError):
        Often(1).nonsense = 1  # type: ignore[attr-defined]


def test_it_stays_unknown_to_the_garbage_collector() -> None:
    often = Often(1)
    often.names = ("a",)

    assert not gc.is_tracked(often)


def test_one_that_the_garbage_collector_must_know_is_refused() -> None:
    class Tracked(msgspec.Struct):
        names: list[str]

    with pytest.raises(AssertionError, match="Tracked"):
        written_often(Tracked)


@pytest.mark.parametrize("struct", [RunRecord, RunningAttempt])
def test_what_every_run_writes_is_written_as_python_writes(struct: type[msgspec.Struct]) -> None:
    assert struct.__setattr__ is object.__setattr__
