"""The lanes that are declared before anything runs: in code, in `laneway.toml`, in the environment; the last wins."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from laneway.core.records.policy import DEFAULT_LANES, Lane
from laneway.engine.config.tomlfile import contents, tables
from laneway.errors import BadSetting

log = logging.getLogger("laneway")

EXAMPLE = "[lanes.main], and below it limit = 40"
PREFIX = "LANEWAY_LANE_"
_FIELDS = [field for field in Lane.__struct_fields__ if field != "name"]


def declared(
    code: Iterable[Lane], environment: Mapping[str, str], file: Path, found: Mapping[str, Any] | None = None
) -> tuple[Lane, ...]:
    """Return all declared lanes, each with the values of its last declaration.

    `found` is the content of the file, if it was read already.
    """
    given = tuple(code)
    for lane in given:
        if not isinstance(lane, Lane):
            raise BadSetting(f"lanes takes Lane objects, not {lane!r}")
    lanes = {lane.name: lane for lane in given}
    known = {lane.name: lane for lane in DEFAULT_LANES} | lanes
    said = contents(file) or {} if found is None else found
    for name, fields in tables(said, "lanes", file, EXAMPLE).items():
        lanes[name] = known[name] = _changed(known.get(name) or Lane(name), fields, str(file))
    for variable, value in sorted(environment.items()):
        if value and variable.startswith(PREFIX):  # compose files and units use an empty value for "not set"
            meant = _named(variable.removeprefix(PREFIX), known)
            if meant is None:
                log.warning("%s names no lane; there are %s", variable, ", ".join(sorted(known)))
            else:
                lanes[meant.name] = known[meant.name] = _changed(meant, {"limit": _number(variable, value)}, variable)
    return tuple(lanes.values())


def redeclared(before: Iterable[Lane], now: Iterable[Lane]) -> tuple[Lane, ...]:
    """Return what to declare now, after `before`: a default lane that is not declared any more gets its defaults."""
    lanes = {lane.name: lane for lane in now}
    forgotten = {lane.name for lane in before} - set(lanes)
    return (*lanes.values(), *(lane for lane in DEFAULT_LANES if lane.name in forgotten))


def _changed(lane: Lane, fields: Mapping[str, Any], where: str) -> Lane:
    for field in fields:
        if field not in _FIELDS:
            raise BadSetting.unknown(f"field of lane {lane.name!r} in {where}:", field, _FIELDS)
    try:
        return msgspec.structs.replace(lane, **fields)
    except BadSetting as error:
        raise BadSetting(f"{where}: {error}") from None


def _named(shouted: str, known: Mapping[str, Lane]) -> Lane | None:
    """Return the lane that a variable's name means: in capitals, with underscores for other characters."""
    return next((lane for name, lane in known.items() if _shouted(name) == shouted.upper()), None)


def _shouted(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name).upper()


def _number(variable: str, value: str) -> int:
    if not value.isascii() or not value.isdecimal() or int(value) < 1:
        raise BadSetting(f"{variable} is {value!r}; it must be a whole number, 1 or more")
    return int(value)
