"""The plug-in as an environment has it: installed, or else found by its entry points alone."""

from __future__ import annotations

import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path
from tempfile import TemporaryDirectory

PLUG_IN = Path(__file__).resolve().parents[3] / "benchmarks" / "papers"
#: Kept as long as the tests run.
METADATA = TemporaryDirectory(prefix="calibrail-papers-")


def install(folder: Path) -> None:
    """Put the plug-in on the path, with the metadata that pip would write."""
    project = tomllib.loads((PLUG_IN / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    name, version = project["name"], project["version"]
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    sys.path[:0] = [str(folder), str(PLUG_IN / "src")]


if not any(item.name == "calibrail-papers" for item in distributions()):
    install(Path(METADATA.name))
