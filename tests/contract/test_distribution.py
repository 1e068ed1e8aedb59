"""A store made elsewhere takes the suite from the source distribution, as docs/testing.md says."""

import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.system
def test_the_source_distribution_runs_the_suite_on_a_store_made_elsewhere(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [archive] = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    unpacked = archive.with_suffix("").with_suffix("")
    page = (unpacked / "docs/testing.md").read_text()
    [example] = re.findall(r"```python\n# (tests/contract/\w+\.py)\n(.*?)```", page, flags=re.DOTALL)
    (unpacked / example[0]).write_text(f"import pytest\n{example[1]}")
    (unpacked / "my_store.py").write_text("from laneway.stores.memory.store import MemoryStore as MyStore\n")

    suite = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", example[0], "-k", "TestLanes"]
    run = subprocess.run(suite, cwd=unpacked, check=False, capture_output=True, text=True)

    assert run.returncode == 0, run.stdout
    assert "passed" in run.stdout
