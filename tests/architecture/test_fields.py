"""A nullable field of a run is named in few files: a list of a run's fields stands in one place."""

from __future__ import annotations

import re
from pathlib import Path

import laneway

FIELD = "retry_of"  # one that some rules read, and users see
MOST = 15


def test_a_nullable_field_of_a_run_is_named_in_few_files() -> None:
    package = Path(laneway.__file__).parent
    files = [
        file for file in package.rglob("*") if file.suffix in (".py", ".sql", ".lua") and "schema" not in file.parts
    ]

    found = {str(file.relative_to(package)) for file in files if re.search(rf"\b{FIELD}\b", file.read_text("utf-8"))}

    assert "core/records/run.py" in found
    assert len(found) <= MOST, sorted(found)
