"""Skip a module of tests where a library is missing, without importing it: some take seconds."""

from __future__ import annotations

from importlib.util import find_spec

import pytest


def need(*libraries: str) -> None:
    """Skip the calling module where one of the libraries is not installed."""
    for library in libraries:
        if find_spec(library) is None:
            pytest.skip(f"needs {library}", allow_module_level=True)
