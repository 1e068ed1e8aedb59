"""How long runs are kept after they ended, per terminal state."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from laneway.core.common.instants import SECOND, duration
from laneway.core.records.states import TERMINAL, RunState
from laneway.errors import BadSetting

KEEP = timedelta(days=7)
# A submission that got no answer is repeated for up to half a minute. If its run were pruned by then, the repeat would
# look like a new run, and would be executed again.
SHORTEST = 60 * SECOND

Length = timedelta | float | None
Retention = Length | Mapping[str, Length]


def kept_for(retention: Retention) -> dict[RunState, int]:
    """Return for how many microseconds runs of each state are kept. A state that is absent is kept for ever.

    One length holds for all four terminal states. A mapping names some of them; the others keep their runs for seven
    days. None and 0 mean for ever. The shortest length is a minute.

    >>> {state.value: length // 1_000_000 for state, length in kept_for({"failed": 60, "dropped": None}).items()}
    {'cancelled': 604800, 'failed': 60, 'succeeded': 604800}
    >>> kept_for({"faild": 60})
    Traceback (most recent call last):
    laneway.errors.BadSetting: unknown state in retention 'faild', did you mean 'failed'?
    >>> kept_for({"running": 60})
    Traceback (most recent call last):
    laneway.errors.BadSetting: retention['running'] cannot be set: such a run has not ended, so it is kept
    """
    if isinstance(retention, Mapping):
        for name in retention:
            _refuse_unknown(name)
        lengths = {state: _length(f"retention[{state.value!r}]", retention.get(state, KEEP)) for state in _ENDINGS}
    else:
        lengths = dict.fromkeys(_ENDINGS, _length("retention", retention))
    return {state: length for state, length in lengths.items() if length}


_ENDINGS = sorted(TERMINAL)


def _refuse_unknown(name: object) -> None:
    if name in _ENDINGS:
        return
    if name in list(RunState):
        raise BadSetting(f"retention[{str(name)!r}] cannot be set: such a run has not ended, so it is kept")
    raise BadSetting.unknown("state in retention", str(name), [state.value for state in _ENDINGS])


def _length(name: str, given: Length) -> int:
    length = 0 if given is None else duration(given, name)
    if 0 < length < SHORTEST:
        raise BadSetting(f"{name} is {given}; the shortest is a minute (0 and None keep for ever)")
    return length
