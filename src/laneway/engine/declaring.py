"""What is declared of lanes before anything runs: in code, in `laneway.toml`, in the environment; the last one wins."""

from __future__ import annotations

import logging
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from laneway.core.policy import DEFAULT_LANES, Lane
from laneway.errors import BadSetting

log = logging.getLogger("laneway")

FILE = "laneway.toml"
PREFIX = "LANEWAY_LANE_"
_FIELDS = [field for field in Lane.__struct_fields__ if field != "name"]


def declared(code: Iterable[Lane], environment: Mapping[str, str], file: Path) -> tuple[Lane, ...]:
    """Return the lanes that are declared anywhere, each as the last word about it says."""
    given = tuple(code)
    for lane in given:
        if not isinstance(lane, Lane):
            raise BadSetting(f"lanes takes Lane objects, not {lane!r}")
    lanes = {lane.name: lane for lane in given}
    known = {lane.name: lane for lane in DEFAULT_LANES} | lanes
    for name, fields in _in_file(file).items():
        lanes[name] = known[name] = _changed(known.get(name) or Lane(name), fields, str(file))
    for variable, value in sorted(environment.items()):
        if variable.startswith(PREFIX):
            meant = _named(variable.removeprefix(PREFIX), known)
            if meant is None:
                log.warning("%s names no lane; there are %s", variable, ", ".join(sorted(known)))
            else:
                lanes[meant.name] = known[meant.name] = _changed(meant, {"limit": _number(variable, value)}, variable)
    return tuple(lanes.values())


def _in_file(file: Path) -> Mapping[str, Mapping[str, Any]]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        if not os.path.exists(file):  # noqa: PTH110  # Path's own raises where nobody may look
            return {}
        raise BadSetting(f"{file} cannot be read: {error}") from error
    try:
        lanes = tomllib.loads(text).get("lanes", {})
    except tomllib.TOMLDecodeError as error:
        raise BadSetting(f"{file} is not TOML: {error}") from error
    if not isinstance(lanes, dict) or not all(isinstance(fields, dict) for fields in lanes.values()):
        raise BadSetting(f"{file}: write each lane as a table: [lanes.main], and below it limit = 40")
    return lanes


def _changed(lane: Lane, fields: Mapping[str, Any], where: str) -> Lane:
    for field in fields:
        if field not in _FIELDS:
            raise BadSetting.unknown(f"field of lane {lane.name!r} in {where}:", field, _FIELDS)
    return msgspec.structs.replace(lane, **fields)


def _named(shouted: str, known: Mapping[str, Lane]) -> Lane | None:
    """Return the lane that a variable's name means: letters large, what is no letter or digit an underscore."""
    return next((lane for name, lane in known.items() if _shouted(name) == shouted.upper()), None)


def _shouted(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name).upper()


def _number(variable: str, value: str) -> int:
    if not value.isascii() or not value.isdecimal() or int(value) < 1:
        raise BadSetting(f"{variable} is {value!r}; it must be a whole number, 1 or more")
    return int(value)
