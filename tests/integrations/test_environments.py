"""Has every framework an environment in which its adapter is tried?"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.integrations.__main__ import APART, INSTALLED, file_of, names
from tests.integrations.frameworks import PINS, PYPROJECT, requirements

PROJECT = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
CONSTRAINTS = PYPROJECT.parent / "constraints.txt"


def pins(file: Path) -> dict[str, Version]:
    """Return the versions that a file pins, by name."""
    rows = file.read_text(encoding="utf-8").splitlines()
    pinned = [Requirement(row) for row in rows if row and not row.startswith("#")]
    assert all(re.fullmatch(r"==[^*]+", str(item.specifier)) for item in pinned), file
    versions = {item.name: Version(str(item.specifier)[2:]) for item in pinned}
    return {name.lower().replace("_", "-"): version for name, version in versions.items()}


def together() -> list[str]:
    """Return the extras that install beside everything else."""
    return [name for item in EXTRAS["integrations"] for name in sorted(Requirement(item).extras)]


@pytest.mark.parametrize("name", names())
def test_an_environment_pins_its_framework_and_has_tests(name: str) -> None:
    pinned = pins(PINS / f"{name}.txt")
    asked = requirements(name)
    assert asked
    for requirement in asked:
        assert requirement.specifier.contains(pinned[requirement.name]), requirement
    assert file_of(name).is_file()


@pytest.mark.parametrize("name", names())
def test_calibrail_installs_with_what_it_asks_for_wherever_that_can_be(name: str) -> None:
    pinned = pins(PINS / f"{name}.txt")
    asked = map(Requirement, PROJECT["dependencies"])
    refused = {item.name for item in asked if pinned[item.name] not in item.specifier}
    apart = INSTALLED.get(name) == APART
    assert refused == ({"numpy"} if apart else set())
    # An extra that no user can install would be none.
    assert (name in EXTRAS) is not apart


def test_frameworks_that_install_together_are_pinned_with_all_else() -> None:
    pinned = pins(CONSTRAINTS)
    for name in together():
        for requirement in requirements(name):
            assert requirement.specifier.contains(pinned[requirement.name]), requirement
            assert ">=" in str(requirement.specifier), f"{requirement} has no lower bound"
        assert file_of(name).is_file()
    assert not set(together()) & set(names())
