"""Wall-clock times, changes of clocks, and the days of a month."""
