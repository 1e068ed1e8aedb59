"""The frame of every measurement: sides that take turns, rounds of them, a ratio, a verdict.

A *row* is one line of the table: what is measured and what it must reach. An *experiment* measures one row or several.
It lets two or more *sides*, a baseline and laneway, take short *turns*, A B A B A B, so that a noisy machine disturbs
all alike; some turns make a *round*, and each round begins with fresh stores. Both sides of a round are set against
each other, never those of two rounds: a machine may be twice as fast a few seconds later. The best round counts, and
the middle and the worst one are shown beside it.
"""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import asdict, dataclass
from enum import StrEnum
from statistics import harmonic_mean

from bench.plan import Plan

Turn = Callable[[], Awaitable[float]]  # returns a rate
Side = Callable[[], AbstractAsyncContextManager[Turn]]


class Verdict(StrEnum):
    """How a row did."""

    AIM = "aim"
    MUST = "must"
    BELOW = "BELOW MUST"
    INFO = "info"  # it has no must


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table. `better` says which direction is good, for the sides and for their ratio."""

    name: str  # for --rows
    title: str  # may name the plan's sizes in braces
    unit: str  # of the sides: "/s", "us", "ms", ...
    better: str = "more"  # or "less"
    must: float | None = None
    aim: float | None = None

    def reaches(self, figure: float, goal: float) -> bool:
        # By the figure as it is printed, or a row could fail 0.35 with "0.350".
        shown = as_shown(figure)
        return shown >= goal if self.better == "more" else shown <= goal


@dataclass(frozen=True)
class Round:
    """The figures of one round: laneway, and the baseline if the row has one."""

    ours: float
    base: float | None = None

    @property
    def figure(self) -> float:
        return self.ours if self.base is None else self.ours / self.base


@dataclass(frozen=True)
class Result:
    """A row with its rounds."""

    row: Row
    title: str
    rounds: Sequence[Round]

    @property
    def best(self) -> Round:
        return self._ranked()[0]

    @property
    def middle(self) -> Round:
        """The round that as many are better than as are worse; of an even number the worse of two."""
        return self._ranked()[len(self.rounds) // 2]

    @property
    def worst(self) -> Round:
        return self._ranked()[-1]

    def _ranked(self) -> list[Round]:
        """Return the rounds, the best first."""
        return sorted(self.rounds, key=lambda turn: turn.figure, reverse=self.row.better == "more")

    @property
    def verdict(self) -> Verdict:
        if self.row.must is None or self.row.aim is None:
            return Verdict.INFO
        if self.row.reaches(self.best.figure, self.row.aim):
            return Verdict.AIM
        return Verdict.MUST if self.row.reaches(self.best.figure, self.row.must) else Verdict.BELOW


Measure = Callable[[Plan], Awaitable[Sequence[Sequence[Round]]]]


@dataclass(frozen=True)
class Experiment:
    """Measures its rows together: `measure` returns the rounds of each, in the order of the rows."""

    rows: tuple[Row, ...]
    measure: Measure

    async def run(self, plan: Plan) -> list[Result]:
        found = await self.measure(plan)
        sizes = asdict(plan)
        return [Result(row, row.title.format(**sizes), turns) for row, turns in zip(self.rows, found, strict=True)]


def experiment(*rows: Row) -> Callable[[Measure], Experiment]:
    """Make a function that measures these rows an experiment."""
    return lambda measure: Experiment(rows, measure)


async def race(plan: Plan, *sides: Side) -> list[tuple[float, ...]]:
    """Let the sides take turns; return the rate of each, round by round."""
    return [await _round(plan, sides) for _ in range(plan.rounds)]


async def duel(plan: Plan, base: Side, ours: Side) -> list[Round]:
    """Let a baseline and laneway take turns; return the rounds of one row."""
    return [Round(our_rate, base_rate) for base_rate, our_rate in await race(plan, base, ours)]


async def _round(plan: Plan, sides: Sequence[Side]) -> tuple[float, ...]:
    async with AsyncExitStack() as opened:
        takers = [await opened.enter_async_context(side()) for side in sides]
        rates = [[await _alone(turn) for turn in takers] for _ in range(plan.turns)]
    # The turns of a side are of one size, so this is their whole size by their whole time.
    return tuple(map(harmonic_mean, zip(*rates, strict=True)))


async def _alone(turn: Turn) -> float:
    # Garbage of the side before must not be collected in this one's time.
    gc.collect()
    return await turn()


def percentile(samples: Sequence[float], share: float) -> float:
    """Return the smallest sample that at least `share` of all do not exceed.

    >>> percentile([4, 1, 3, 2], 0.5), percentile([4, 1, 3, 2], 0.99)
    (2, 4)
    """
    ranked = sorted(samples)
    return ranked[max(0, -int(-share * len(ranked) // 1) - 1)]


def as_shown(figure: float) -> float:
    """Return the figure with the three digits that are printed.

    >>> as_shown(0.34961), as_shown(123456)
    (0.35, 123000.0)
    """
    return float(f"{figure:.3g}")
