"""Is the framework that a file of tests needs here, in a version that calibrail takes?"""

from __future__ import annotations

import os
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
PINS = Path(__file__).parent / "environments"


def requirements(extra: str) -> list[Requirement]:
    """Return what an extra of calibrail asks for.

    A framework that no extra names is asked for in the version that its environment pins.
    """
    content = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))
    asked = content["project"]["optional-dependencies"].get(extra)
    if asked is None:
        rows = (PINS / f"{extra}.txt").read_text(encoding="utf-8").splitlines()
        asked = [row for row in rows if row.startswith(f"{extra}==")]
    return [Requirement(item) for item in asked]


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
