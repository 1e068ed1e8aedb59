"""The fast answer is the slow one: a sample of what `make oracle` asks in full."""

from __future__ import annotations

import os
import random
from zoneinfo import available_timezones

from laneway.core.schedules import Schedule
from tests.oracle.asking import Tally, ask
from tests.oracle.corpus import corpus
from tests.oracle.histories import changes_of

SEED = int(os.environ.get("LANEWAY_ORACLE_SEED", "20261116"))
CHANGES, RULES = 60, 60
# Half an hour, a whole day, midnight, a fold over midnight, and the largest populations.
STRANGE = ("Australia/Lord_Howe", "Pacific/Apia", "Africa/Cairo", "Asia/Beirut", "America/New_York", "Europe/Berlin")


def test_there_are_enough_rules_and_none_twice() -> None:
    rules = corpus()

    assert len(rules) == len(set(rules)) >= 200


def test_a_sample_of_the_oracle_agrees() -> None:
    dice, total = random.Random(SEED), Tally()
    rules: list[Schedule] = corpus()
    zones = [*STRANGE, *dice.sample(sorted(available_timezones()), 40)]
    changes = [change for zone in zones for change in changes_of(zone)]

    for change in dice.sample(changes, CHANGES):
        total.add(ask(change, dice.sample(rules, RULES), dice))

    assert total.mismatches == []
    assert total.cases == CHANGES * RULES
    assert total.answers > total.cases
