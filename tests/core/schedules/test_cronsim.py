"""Where no clock is changed, cron rules mean what they mean to another library that people trust."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice

import pytest
from cronsim import CronSim

from laneway import Cron
from laneway.core.schedules.cron.cron import SHORT
from tests.oracle.corpus import corpus

STARTS = [datetime(2024, 2, 27, 23, 59, 59, tzinfo=UTC), datetime(2026, 11, 16, 13, 1, tzinfo=UTC)]
# Forms that are ours alone.
OURS = {"30 2 * * fri-sun": "30 2 * * 5-7", "30 1 * * sunL": "30 1 * * 0L"}
RULES = [rule.expression for rule in corpus() if isinstance(rule, Cron)]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("start", STARTS, ids=str)
def test_a_cron_rule_fires_when_cronsim_says(rule: str, start: datetime) -> None:
    theirs = SHORT.get(rule, OURS.get(rule, rule))

    fires = list(islice(Cron(rule).fires(start), 30))

    assert fires == list(islice(CronSim(theirs, start), 30))
