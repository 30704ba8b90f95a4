"""The public surface: its names, their entries in the reference, and what importing it loads."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import calibrail
import calibrail.conformal

SOURCE = Path(calibrail.__file__).parents[1]
DOCS = Path(__file__).resolve().parents[1] / "docs"
REFERENCE = [DOCS / "reference.md", *sorted((DOCS / "reference").glob("*.md"))]

#: A name that is added or renamed is so on purpose: here, in the reference and in the changes.
PUBLIC = [
    "CalibrailError",
    "CallLimits",
    "Client",
    "Decision",
    "Example",
    "Guardrail",
    "Monitor",
    "Promise",
    "ReadOptions",
    "Report",
    "Requirement",
    "Run",
    "Score",
    "SplitOptions",
    "agree",
    "audit",
    "audit_sample",
    "calibrate",
    "card",
    "certify",
    "compare",
    "diagnose",
    "judge_on_labels",
    "label",
    "limit_calls",
    "monitor",
    "read",
    "recalibrate",
    "repeat",
    "score_sentences",
    "select",
    "shift",
    "test",
    "use_engine",
    "versus",
]

#: What no name of the package may load before it is used.
HEAVY = ("numpy", "scipy", "pandas", "pyarrow", "sklearn", "torch", "transformers", "matplotlib")


def referred_to() -> dict[str, object]:
    """Return what each entry of the reference stands for."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in REFERENCE)
    entries = re.findall(r"^::: (\S+)\.(\w+)$", text, re.MULTILINE)
    return {
        f"{module}.{name}": getattr(importlib.import_module(module), name)
        for module, name in entries
    }


def test_the_public_names_are_these() -> None:
    assert list(calibrail.__all__) == PUBLIC
    assert dir(calibrail) == PUBLIC


def test_names_that_the_package_offered_before_are_still_found() -> None:
    entries = referred_to().values()
    home = calibrail.defined_in("calibrail")
    former = {name: getattr(calibrail, name) for name in home.keys() - {*PUBLIC}}
    assert len(former) > 40 and {*PUBLIC} < home.keys()
    assert [name for name, value in former.items() if value not in entries] == []


@pytest.mark.parametrize("module", [calibrail, calibrail.conformal], ids=lambda item: item.__name__)
def test_every_public_class_and_function_has_its_entry_in_the_reference(module: object) -> None:
    entries = {id(value) for value in referred_to().values()}
    names = {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    ours = {
        name: value
        for name, value in names.items()
        if str(getattr(value, "__module__", "")).startswith("calibrail")
    }
    assert len(ours) > 25
    assert [name for name, value in ours.items() if id(value) not in entries] == []


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'calibrated'"):
        calibrail.calibrated  # noqa: B018


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, calibrail; dir(calibrail); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(HEAVY) & set(done.stdout.split())


@pytest.mark.parametrize(
    "used", ["calibrail.monitor; calibrail.Guardrail", "import calibrail.serve.app"]
)
def test_a_guardrail_is_watched_and_served_without_what_takes_long_to_import(used: str) -> None:
    code = f"import sys, calibrail; {used}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "scipy.special" in loaded and not {"scipy.stats", "matplotlib"} & loaded


def test_the_annotations_of_every_public_name_can_be_evaluated() -> None:
    """As tools for documentation, pydantic and frameworks of services do."""
    stubs = (SOURCE / "calibrail").rglob("__init__.pyi")
    paths = (stub.relative_to(SOURCE).parent.parts for stub in stubs)
    packages = [importlib.import_module(".".join(parts)) for parts in paths]
    public = [getattr(package, name) for package in packages for name in dir(package)]
    failed = []
    for item in {id(item): item for item in (*public, *referred_to().values())}.values():
        for part in (item, *(vars(item).values() if isinstance(item, type) else ())):
            part = part.fget if isinstance(part, property) else getattr(part, "__func__", part)
            ours = str(getattr(part, "__module__", "")).startswith("calibrail")
            if ours and (isinstance(part, type) or inspect.isfunction(part)):
                try:
                    typing.get_type_hints(part)
                except NameError as error:
                    failed.append(f"{part.__module__}.{part.__qualname__}: {error}")
    assert len(public) > 150 and failed == []
