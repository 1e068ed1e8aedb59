"""Handlers, types and values that tests of arguments share."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from laneway import Context

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


class Model:
    """What a pydantic model looks like from outside."""

    def __init__(self, name: str) -> None:
        self.name = name

    @classmethod
    def model_validate(cls, value: Any) -> Model:
        if not isinstance(value, dict) or "name" not in value:
            raise ValueError("name: field required")
        return cls(value["name"])


def summarize(doc: str, length: int = 100, *, ctx: Context) -> None: ...


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value
