"""What operators set: limits and caps, what is held or disabled, rules of sessions, circuits that they close."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import msgspec

from laneway.core.records.policy import Lane, Rule
from laneway.ports.gates import Held


class LaneSetting(msgspec.Struct, frozen=True):
    """Create this lane, or change the one that exists: it holds until it is set again or unset.

    A lower limit stops no run; it holds new starts. A higher one takes effect at once and wakes workers.
    """

    lane: Lane


class LaneUnset(msgspec.Struct, frozen=True):
    """Let what is declared of the lane hold again. Raises UnknownLane."""

    name: str


class UserCap(msgspec.Struct, frozen=True):
    """Limit how many runs of the user may be active in this lane; None lets the lane's `per_user` hold again.

    A higher cap takes effect at once; a lower one stops no run. Raises UnknownLane.
    """

    user: str
    lane: str
    cap: int | None


class SessionSetting(msgspec.Struct, frozen=True):
    """Set the given parts of the session's rule: they win over what messages give, and are kept while it is idle.

    An empty rule takes back all that was set. `throttled` limits the session to one run at a time, or ends that, until
    a load function says otherwise or the session is idle; None leaves it. More room takes effect at once.
    """

    name: str
    rule: Rule
    throttled: bool | None = None


class Hold(msgspec.Struct, frozen=True):
    """Pause or resume a lane, user, session or task: its pending runs do not start, its running ones go on.

    Resuming takes effect at once. Raises UnknownLane.
    """

    what: Held
    name: str
    held: bool


class TaskDisabled(msgspec.Struct, frozen=True):
    """Refuse new runs of the task (`task_disabled`), or accept them again. Accepted runs are kept and go on.

    Enabling a task closes its circuit.
    """

    task: str
    disabled: bool


class BreakerClosed(msgspec.Struct, frozen=True):
    """Close the task's circuit, or that of one of its users. Runs that wait for it may start at once."""

    task: str
    user: str | None = None


Setting: TypeAlias = LaneSetting | LaneUnset | UserCap | SessionSetting | Hold | TaskDisabled | BreakerClosed


class SettingStore(Protocol):
    """Keeps what operators set, for all processes."""

    async def set(self, setting: Setting) -> None:
        """Set this; each kind of setting says what it does and raises.

        Runs that may start because of it may start from the same instant on, and workers are woken for them. Repeating
        it is harmless.
        """
        ...
