"""Schedules: pure rules of when. `next_after` is asked, and answers; nothing here knows what time it is.

`zones` and `walls` are the heart: what a clock on the wall shows, and what happens when it is changed. `days` and
`fields` say which days and times; `plain`, `daily`, `monthly`, `cron`, `anyof` and `filtered` are what people write;
`form`, `words` and `notes` turn them into plain values, read them from a line of text, and say what is strange about a
fire.
"""

from __future__ import annotations

from laneway.core.schedules.anyof import AnyOf
from laneway.core.schedules.base import Schedule
from laneway.core.schedules.cron import Cron
from laneway.core.schedules.daily import DailyAt, Weekly
from laneway.core.schedules.filtered import Between, Except
from laneway.core.schedules.monthly import Monthly
from laneway.core.schedules.plain import At, Every

__all__ = ["AnyOf", "At", "Between", "Cron", "DailyAt", "Every", "Except", "Monthly", "Schedule", "Weekly"]
