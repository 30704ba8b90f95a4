"""Is the framework that a file of tests needs here, in a version that calibrail takes?"""

from __future__ import annotations

import os
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def requirements(extra: str) -> list[Requirement]:
    """Return what an extra of calibrail asks for."""
    content = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))
    return [Requirement(item) for item in content["project"]["optional-dependencies"][extra]]


def need(extra: str) -> None:
    """Skip the calling module where the frameworks of an extra are not installed.

    In the environment that is made for them (``make test-integrations``) that is a failure.
    """
    for requirement in requirements(extra):
        try:
            installed = version(requirement.name)
        except PackageNotFoundError:
            installed = None
        if installed is not None and requirement.specifier.contains(installed, prereleases=True):
            continue
        why = f"needs {requirement}, and has {installed or 'none'}: make test-integrations"
        if os.environ.get("CALIBRAIL_INTEGRATION") == extra:
            pytest.fail(why, pytrace=False)
        pytest.skip(why, allow_module_level=True)
