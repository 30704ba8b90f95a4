"""What is installed with calibrail, or with one of its extras, has a permissive licence."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent

#: SPDX names, and how older metadata spells them.
PERMISSIVE = re.compile(
    r"(the )?apache([- ]software)?([- ]license)?(,? version)?[- ]?(2(\.0)?)?( license)?"
    r"( with llvm-exception)?"
    r"|mit(-0|-cmu)?( license)?"
    r"|(new |modified )?([023]-clause )?bsd([- ][23]([- ]clause)?)?( license)?|0bsd"
    r"|isc( license)?( \(iscl\))?|zlib|bsl-1\.0|cc0-1\.0|unlicense"
    r"|psf(-2\.0|l)?|python software foundation license|cnri-python",
    re.IGNORECASE,
)
#: What is not permissive, and why it may be installed all the same.
EXCEPTIONS = {
    # Copyleft of single files, which we do not change.
    "certifi": "MPL-2.0: a list of certificates",
    "orjson": "MPL-2.0 AND (Apache-2.0 OR MIT): single files of it",
    "tqdm": "MPL-2.0 AND MIT: single files of it",
    # Its licence forbids to offer it as a service, which calibrail does not; in its extra alone.
    "arize-phoenix-evals": "Elastic-2.0",
    # Their metadata says nothing; the file with their licence does.
    "agent-client-protocol": "Apache-2.0",
    "huey": "MIT",
    "skops": "MIT",
}
#: Extras of which nothing is delivered: they test and build.
OWN = {"dev", "docs"}


def _licences(package: Distribution) -> list[str]:
    """Return the names that a package's metadata gives its licence; any of a dual one."""
    about = package.metadata
    if expression := about.get("License-Expression"):
        return [expression]
    classified = [
        item.rpartition("::")[2].strip()
        for item in about.get_all("Classifier", [])
        if item.startswith("License ::")
    ]
    named = [name for name in classified if name not in ("OSI Approved", "Freely Distributable")]
    first = (about.get("License") or "").strip().partition("\n")[0]
    return named or ([first] if first else [])


def _is_permissive(expression: str) -> bool:
    """Say whether an SPDX expression lets anyone choose permissive licences alone."""
    parts = re.sub(r"[()]", " ", expression) if re.search(r" (AND|OR) ", expression) else expression
    every = all if " AND " in parts else any
    return every(PERMISSIVE.fullmatch(part.strip()) for part in re.split(r" AND | OR ", parts))


def _installed(extra: str | None) -> dict[str, Distribution]:
    """Return what is installed of the core, or of an extra, with all that it needs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    waiting = [Requirement(it) for it in (extras[extra] if extra else project["dependencies"])]
    found: dict[str, Distribution] = {}
    seen = set[tuple[str, str]]()
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        if name == "calibrail":
            waiting += [Requirement(it) for part in wanted.extras for it in extras[part]]
            continue
        for part in ("", *wanted.extras):
            if (name, part) in seen or not _applies(wanted, ""):
                continue
            seen.add((name, part))
            try:
                found[name] = distribution(name)
            except PackageNotFoundError:
                continue
            needed = map(Requirement, found[name].requires or ())
            waiting += [item for item in needed if _applies(item, part)]
    return found


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _extras() -> list[str | None]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return [None, *(name for name in project["optional-dependencies"] if name not in OWN)]


@pytest.mark.parametrize("extra", _extras())
def test_all_that_is_installed_is_permissive(extra: str | None) -> None:
    packages = _installed(extra)
    if extra is None:
        assert {"numpy", "pyarrow", "pydantic"} <= packages.keys()
    refused = {
        name: _licences(package)
        for name, package in packages.items()
        if name not in EXCEPTIONS
        and (not (said := _licences(package)) or not any(map(_is_permissive, said)))
    }
    assert refused == {}


@pytest.mark.parametrize(
    "licence",
    [
        "GPL-3.0-or-later",
        "LGPL-2.1",
        "AGPL-3.0",
        "MPL-2.0",
        "MIT AND GPL-2.0",
        "Elastic-2.0",
        "SSPL",
    ],
)
def test_what_is_not_permissive_is_told(licence: str) -> None:
    assert not _is_permissive(licence)


@pytest.mark.parametrize("extra", ["", "judge", "learning", "models", "probability"])
def test_a_lock_of_the_image_has_the_versions_of_the_constraints_and_their_hashes(
    extra: str,
) -> None:
    name = f"requirements-{extra}.txt" if extra else "requirements.txt"
    lock = (ROOT / "examples/production" / name).read_text("utf-8")
    locked = dict(re.findall(r"^([a-z0-9-]+)==(\S+) ", lock, re.MULTILINE))
    pinned = (ROOT / "constraints.txt").read_text("utf-8")
    pins = {canonicalize_name(n): v for n, v in re.findall(r"^([\w.-]+)==(\S+)$", pinned, re.M)}
    assert {name: pins[name] for name in locked} == locked
    assert not re.search(r"(http|file)s?://|--index", lock)
    extras = [None, "serve", "signing", *filter(None, [extra])]
    needed = {package for item in extras for package in _installed(item)}
    # Of an index of its own, and for other machines.
    elsewhere = re.compile(r"torch|triton|(cuda|nvidia)-.+")
    assert {item for item in needed if not elsewhere.fullmatch(item)} <= locked.keys()
    assert not [item for item in locked if elsewhere.fullmatch(item)]
    # A version of one package without a hash makes pip refuse the whole file.
    parts = re.split(r"^(?=[a-z0-9])", lock, flags=re.MULTILINE)[1:]
    assert len(parts) == len(locked)
    assert all("--hash=sha256:" in part for part in parts)
