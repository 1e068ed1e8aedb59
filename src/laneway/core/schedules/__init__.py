"""Schedules: pure rules of when. `next_after` is asked, and answers; nothing here knows what time it is.

The heart is `calendar`: what a clock on the wall shows (`walls`), and what happens when it is changed (`zones`). People
write `at_every`, `daily`, `monthly`, `cron`, `anyof` and `filtered`. `form` turns a schedule into plain values, `text`
reads one from a line of text, `preview` lists its fires, and `notes` says what a change of a clock does to a
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
