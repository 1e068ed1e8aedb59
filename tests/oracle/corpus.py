"""The rules that the oracle asks about: those that people write, and those that fall where clocks are changed."""

from __future__ import annotations

from datetime import UTC, date, datetime

from laneway import AnyOf, Between, Cron, DailyAt, Every, Except, Monthly, Weekly
from laneway.core.schedules import Schedule

# Whether minute and hour begin with `*` decides what happens in gap and fold, so both are here with many hours.
CRON = """
0 0 * * *|30 0 * * *|0 1 * * *|30 1 * * *|59 1 * * *|0 2 * * *|30 2 * * *|59 2 * * *|0 3 * * *|30 3 * * *|0 23 * * *
30 23 * * *|59 23 * * *|45 1 * * *|15 2 * * *|0,30 2 * * *|0,15,30,45 1 * * *|5-55/10 2 * * *|0 1,2,3 * * *|0 0-3 * * *
30 0-23 * * *|0-59 2 * * *|0-59 1-2 * * *|10,20 1,2 * * *|0 0,12 * * *|0 9 * * 1-5|0 9-17 * * 1-5|0 8-18/2 * * *
15 2 * * 0|30 1 * * 0|30 2 * * sun|0 2 * * 7|30 1 * * sat,sun|0 3 * * 6-7|30 2 * * fri-sun|0 0 * * mon|0 0 1 * *
30 2 1 * *|0 2 15,30 * *|30 1 25-31 * *|30 2 8-14 3 *|30 1 1-7 11 *|0 0 13 * 5|30 2 1 * 0|30 1 1,15 * sun|0 2 L * *
30 2 LW * *|30 2 * * 0L|30 1 * * sunL|30 2 * * 0#2|30 1 * * 0#1|30 1 * * 7#4|0 0 * * 5#5|30 2 L * 0#2|0 1 10,L * *
30 2 29 2 *|0 0 31 * *|30 2 31 3 *|30 0 1 1 *|0 0 29 2 mon|30 2 */2 * 0|30 2 * */3 0|15 2 */5 * *|30 2 8-14 * 0
0 0 */2 * *|0 2 * mar,oct *|30 2 * 3-4 *|30 1 * 9-11 *|0 12 * * *|0 6 * * *|45 23 * * 6|0 4 * * *|30 4 * * *
* * * * *|*/2 * * * *|*/5 * * * *|*/7 * * * *|*/15 * * * *|*/20 * * * *|*/30 * * * *|0 * * * *|30 * * * *|45 * * * *
15,45 * * * *|0-10 * * * *|5/20 * * * *|*/20 2 * * *|*/20 1 * * *|*/30 1 * * *|*/30 2 * * *|*/10 0 * * *|*/10 23 * * *
* 2 * * *|* 1 * * *|* 0 * * *|*/15 1-3 * * *|*/45 * * * *|*/59 2 * * *|0 */2 * * *|0 */3 * * *|30 */2 * * *|30 */6 * * *
15 */1 * * *|0 */5 * * *|0,30 */2 * * *|*/30 */2 * * *|*/20 2 * * 0|*/20 1 * * sun|*/30 2 L * *|*/20 1 * * 0#1
*/20 2 * * 0#2|*/15 2 * * 0L|0 * 1 * *|0 * * * 0|*/30 * 31 * *|30 * * 3,10 *|*/20 2 29 2 *|*/20 0 1 1 *|*/30 1 1 11 *
@hourly|@daily|@midnight|@weekly|@monthly|@yearly|@annually|@minutely
0 30 1 * * *|0 30 2 * * *|30 30 2 * * *|15,45 59 1 * * *|*/15 30 2 * * *|* 30 1 * * *|* 59 2 * * *|0 */20 2 * * *
30 */30 * * * *|15 0 * * * *|*/10 * 2 * * *|*/30 * * * * *|*/20 */10 1 * * *|59 59 23 * * *|0 0 0 * * *|59 59 1 * * 0
0 30 2 * * 0#2|30 0 3 * * *|1 0 2 * * *|59 59 0 * * *|*/7 59 1-2 * * *|5-50/15 0,30 2 * * *
"""
HALVES = [(hour, minute) for hour in (0, 1, 2, 3, 23) for minute in (0, 15, 30, 59)]
MONTH_DAYS: list[int | str] = [1, 15, 25, 28, 29, 30, 31, "last", "1st sun", "2nd sun", "4th sun", "last sun"]
MONTH_DAYS += ["1st fri", "last fri", "last thu", "5th sun", "3rd sat", "last sat"]
ANCHOR = datetime(1989, 12, 31, 23, 7, 13, tzinfo=UTC)


def corpus() -> list[Schedule]:
    """Return every rule, in a fixed order, none twice."""
    rules: list[Schedule] = [Cron(text) for line in CRON.split("\n") for text in line.split("|") if text]
    rules += [DailyAt(hour, minute) for hour, minute in HALVES]
    rules += [Weekly(day, 2, 30) for day in range(1, 8)] + [Weekly(("sat", "sun"), 1, 30, 15), Weekly("sun", 0, 0)]
    rules += [Monthly(day, 2, 30) for day in MONTH_DAYS] + [Monthly(day, 1, 30) for day in ("1st sun", "last sun")]
    rules += [Monthly(31, 2, clamp=True), Monthly(29, 0, 30, clamp=True)]
    rules += [Every(period) for period in (1800, 3600, 5400, 86_400, 700)]
    rules += [Every(period, anchor=ANCHOR) for period in (1800, 86_400, 604_800)]
    return list(dict.fromkeys([*rules, *combined()]))


def combined() -> list[Schedule]:
    halves, thirds = Cron("*/30 * * * *"), Cron("*/20 2 * * *")
    christmas = [date(year, 12, 25) for year in range(1990, 2038)]
    sundays = [date(year, 3, day) for year in range(1990, 2038) for day in range(8, 15)]
    octobers = [date(year, 10, day) for year in range(1990, 2038) for day in range(1, 32)]
    windows = [("02:00", "03:00"), ("01:00", "01:30"), ("00:30", "01:30"), ("23:00", "01:30"), ("22:00", "02:30")]
    windows += [("02:30", "04:00"), ("00:00", "00:30"), ("09:00", "17:00"), ("02:15", "02:14")]
    return [
        AnyOf(DailyAt(2), DailyAt(2, 30), DailyAt(3)),
        AnyOf(thirds, DailyAt(2, 30)),
        AnyOf(Weekly("sun", 1, 30), Cron("*/30 1 * * *"), Every(3600, anchor=ANCHOR)),
        AnyOf(Monthly("last sun", 2), Monthly("2nd sun", 2), Monthly("1st sun", 1)),
        Except(halves, christmas),
        Except(DailyAt(2, 30), sundays),
        Except(Cron("*/20 * * * *"), sundays),
        Except(Every(1800), octobers),
        Except(AnyOf(DailyAt(0), DailyAt(23, 59)), octobers),
        *(Between(halves, start, end) for start, end in windows),
        *(Between(Every(600, anchor=ANCHOR), start, end) for start, end in windows),
        Between(Except(Cron("*/15 * * * *"), sundays), "23:30", "02:30"),
        Except(Between(Cron("0 * * * *"), "22:00", "04:00"), octobers),
        AnyOf(Between(Cron("30 * * * *"), "00:00", "03:00"), DailyAt(12)),
    ]
