"""A handler's parameters: submissions are checked against its signature before anything is stored.

Arguments travel as JSON text, and the same text is checked twice: at submission, so that the caller gets an error; and
again by the worker if the call itself fails, because the handler may have changed since. Annotations that JSON can
express are checked, and converted for dataclasses, datetimes, enums, pydantic models and similar types. A parameter
without an annotation takes any JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import itemgetter
from typing import Any

import msgspec

from laneway.core.records import codec
from laneway.engine.handlers.annotations import checkable, hints_of, is_native, mentions, signature_of
from laneway.errors import BadArguments, did_you_mean

EXACT = 2**53  # every whole number up to this is a float
_NUMBERS = (int, float)
_PLAIN = (*_NUMBERS, str, bool)  # types that JSON returns unchanged


class Parameters:
    """The parameters of one handler, without those that the worker gives: the Context, and resources by name."""

    def __init__(
        self, task: str, function: Callable[..., Any], context_type: type, resources: Collection[str] = ()
    ) -> None:
        self._task, self._what = task, f"the arguments of {task}"
        parameters, hints = signature_of(task, function), hints_of(function)
        self.context = next((p.name for p in parameters if mentions(hints.get(p.name), context_type)), None)
        self.resources = [p.name for p in parameters if p.name in resources and p.name != self.context]
        given = {self.context, *self.resources}
        named = [p for p in parameters if p.name not in given and p.kind is not p.VAR_POSITIONAL]
        self._open = any(p.kind is p.VAR_KEYWORD for p in named)
        named = [p for p in named if p.kind is not p.VAR_KEYWORD]
        self.names = [p.name for p in named]
        self._required = {p.name for p in named if p.default is p.empty}
        self.types = {name: checkable(hints.get(name, Any)) for name in self.names}
        self._decode = msgspec.json.Decoder(self._form(), dec_hook=_convert).decode
        self._plain = tuple((name, type_) for name, type_ in self.types.items() if type_ in _PLAIN)
        self._looks = [(itemgetter(name), {type_}) for name, type_ in self._plain]
        self._all_plain = len(self._plain) == len(self.names)
        # Whether all of them are whole numbers, texts, true or false.
        self.flat = self._all_plain and all(type_ is not float for _, type_ in self._plain)
        native = all(is_native(type_) for type_ in self.types.values() if type_ not in _NUMBERS)
        # Text that was checked at submission is checked again only if values have to be converted.
        self.unpack: Callable[[str], dict[str, Any]] = codec.from_json if native else self._converted

    def pack(self, args: Mapping[str, Any], limit: int) -> str:
        """Return the arguments as JSON text. Raises BadArguments, which names the argument and what it should be."""
        if type(args) is not dict:
            args = _as_dict(self._task, args)
        for name, wanted in self._plain:
            if type(args.get(name)) is not wanted:
                return self._pack_with_care(args, limit)
        if self.flat and len(args) == len(self._plain):
            return codec.flat_json(args, self._what, limit)
        text = codec.to_json(args, self._what, limit, read=self._converted)
        # Each plain argument has exactly its type. If there are no others, and none is unknown, the text fits.
        if not self._all_plain or len(args) != len(self._plain):
            self.check(text)
        return text

    def pack_all(self, many: Sequence[dict[str, Any]], limit: int) -> list[str]:
        """Return what `pack` returns for each of these dicts."""
        if self.flat and self._are_flat(many):
            return codec.flat_jsons(many, self._what, limit)
        return [self.pack(args, limit) for args in many]

    def _are_flat(self, many: Sequence[dict[str, Any]]) -> bool:
        # One pass per name over all dicts: a plain loop takes twice as long.
        if set(map(len, many)) != {len(self._plain)}:
            return False
        try:
            for value_of, wanted in self._looks:
                if set(map(type, map(value_of, many))) != wanted:
                    return False
        except KeyError:
            return False
        return True

    def _pack_with_care(self, args: Mapping[str, Any], limit: int) -> str:
        # 1 and 1.0 are the same number in JSON, but not in Python: they are written as the annotation says.
        for name, wanted in self._plain:
            value: Any = args.get(name)
            if wanted in _NUMBERS and type(value) in _NUMBERS and abs(value) < EXACT and value == int(value):
                args = {**args, name: wanted(value)}
        text = codec.to_json(args, self._what, limit, read=self._converted)
        self.check(text)
        return text

    def check(self, text: str) -> None:
        """Raise BadArguments if this text does not fit the signature."""
        try:
            self._decode(text)
        except msgspec.ValidationError as error:
            raise self._explained(codec.from_json(text), error) from None

    def _converted(self, text: str) -> dict[str, Any]:
        form = self._decode(text)
        values = {name: getattr(form, f"p_{name}") for name in self.names}
        given = {name: value for name, value in values.items() if value is not msgspec.UNSET}
        return {**codec.from_json(text), **given} if self._open else given

    def _form(self) -> type[msgspec.Struct]:
        # The fields have a prefix, because a parameter may have a name that a Struct cannot use.
        fields: list[Any] = []
        for name in sorted(self.names, key=lambda name: name not in self._required):
            if name in self._required:
                fields.append((f"p_{name}", self.types[name]))
            else:
                fields.append((f"p_{name}", self.types[name] | msgspec.UnsetType, msgspec.UNSET))
        rename = {f"p_{name}": name for name in self.names}
        return msgspec.defstruct("Arguments", fields, rename=rename, forbid_unknown_fields=not self._open)

    def _explained(self, args: Any, error: msgspec.ValidationError) -> BadArguments:
        missing = sorted(self._required - set(args))
        unknown = [] if self._open else [name for name in args if name not in self.names]
        if unknown:
            takes = ", ".join(self.names) or "none"
            hint = did_you_mean(unknown[0], self.names) or f"; it takes {takes}"
            return BadArguments(f"{self._task} has no argument {unknown[0]!r}{hint}")
        if missing:
            return BadArguments(f"{self._task} needs {' and '.join(repr(name) for name in missing)}")
        what, _, where = str(error).partition(" - at ")
        argument = where.strip("`").removeprefix("$.")
        return BadArguments(f"{self._task}, argument {argument!r}: {what[:1].lower()}{what[1:].replace('`', '')}")


def _convert(type_: Any, value: Any) -> Any:
    # Pydantic models are recognised by their method, so pydantic need not be installed.
    validate = getattr(type_, "model_validate", None)
    if validate is None:
        return value
    return validate(value)


def _as_dict(task: str, args: object) -> dict[str, Any]:
    if not isinstance(args, Mapping):
        raise BadArguments(f"the arguments of {task} must be a dict of names and values, not {type(args).__name__}")
    return dict(args)
