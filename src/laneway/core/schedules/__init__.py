"""Schedules: pure rules of when. `next_after` takes an instant and returns the next fire; nothing here reads a clock.

The base is `calendar`: wall-clock times (`walls`), and what happens when clocks change (`zones`). The rules that people
write are `at_every`, `daily`, `monthly`, `cron`, `anyof` and `filtered`. `form` turns a schedule into plain values,
`text` parses one from a line of text, `preview` lists its fires, and `notes` explains how a change of clocks affects a
fire.
"""

from __future__ import annotations

from laneway.core.schedules.anyof import AnyOf
from laneway.core.schedules.at_every import At, Every
from laneway.core.schedules.base import Schedule
from laneway.core.schedules.cron.cron import Cron
from laneway.core.schedules.daily import DailyAt, Weekly
from laneway.core.schedules.filtered import Between, Except
from laneway.core.schedules.monthly import Monthly

__all__ = ["AnyOf", "At", "Between", "Cron", "DailyAt", "Every", "Except", "Monthly", "Schedule", "Weekly"]
