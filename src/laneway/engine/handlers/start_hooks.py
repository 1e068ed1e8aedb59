"""How a task's runs start: how merged messages become one, and the hook that is called before the first start."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from laneway.core.records import codec
from laneway.core.records.run import Message, MessageKind
from laneway.errors import BadSetting

Args = dict[str, Any]
Fold = Callable[[list[Args]], Any]


def last(messages: Sequence[Args]) -> Args:
    """Return the last message.

    >>> last([{"text": "a"}, {"text": "b"}])
    {'text': 'b'}
    """
    return messages[-1]


def join(messages: Sequence[Args]) -> Args:
    r"""Return one message: texts of the same name are joined by newlines, other values are those of the last message.

    >>> join([{"text": "a", "n": 1}, {"text": "b", "n": 2}])
    {'text': 'a\nb', 'n': 2}
    """
    values: dict[str, list[Any]] = {}
    for message in messages:
        for name, value in message.items():
            values.setdefault(name, []).append(value)
    return {
        name: "\n".join(given) if all(isinstance(value, str) for value in given) else given[-1]
        for name, given in values.items()
    }


MERGES: Mapping[str, Fold] = {"join": join, "last": last}


class StartHooks(NamedTuple):
    """A task's options for the start of its runs."""

    merge: Fold = join
    before_start: Callable[[Args, Any], Any] | None = None

    @classmethod
    def of(cls, *, merge: object, before_start: object) -> StartHooks:
        """Return the options from those of `@app.task`."""
        if isinstance(merge, str):
            if merge not in MERGES:
                raise BadSetting.unknown("merge", merge, MERGES)
            merge = MERGES[merge]
        if not callable(merge):
            raise BadSetting(f"merge is {merge!r}; it must be 'join', 'last' or a function that takes a list of dicts")
        if before_start is not None and not callable(before_start):
            raise BadSetting(f"before_start is {before_start!r}; it must be a function that takes (args, ctx)")
        return cls(merge, before_start)

    def folded(self, args: str, messages: Sequence[Message]) -> Args:
        """Return the arguments of a run and its merged messages as one. Raises what `merge` raises."""
        texts = [args, *(message.args for message in messages if message.kind is MessageKind.MERGED)]
        value = self.merge([codec.from_json(text) for text in texts])
        if not isinstance(value, dict):
            raise TypeError(f"merge returned {value!r}; it must return the arguments, a dict")
        return value
