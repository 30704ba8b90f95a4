from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def repository() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of public data sets; tests that need it skip where it is absent."""
    folder = Path(os.environ.get("CALIBRAIL_DATA", ROOT / ".." / "shared" / "data")).resolve()
    if not folder.is_dir():
        pytest.skip(f"no public data sets at {folder}; set CALIBRAIL_DATA")
    return folder
