"""Does the package that is built work where nothing of this repository is?

``make package`` runs ``python -m tests.package``: it builds sdist and wheel, checks what is in them
and that version, citation, changes and tag agree, installs the wheel with the extra that the README
names into a fresh environment, and runs the README's commands there in an empty folder.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

from packaging.metadata import Metadata

from tests.answers import rows, write

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
VERSION: str = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]

#: The same moment in every archive, so that equal content is equal bytes (1980 is a zip's first).
EPOCH = {"SOURCE_DATE_EPOCH": "315532800"}
#: More than this in a wheel is something that was not meant to be there.
MOST_BYTES = 5 << 20

#: Exit codes of a command that did what it was asked: certify says what it found.
DONE = (0, 3, 4)


def build(into: Path) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from it; return both."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(into), str(ROOT)]
    subprocess.run(command, check=True, env=os.environ | EPOCH, stdout=subprocess.DEVNULL)
    (sdist,), (wheel,) = into.glob("*.tar.gz"), into.glob("*.whl")
    return sdist, wheel


def wrong_in(wheel: Path) -> Iterator[str]:
    """Yield what a wheel should not have, or lacks."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        info = f"calibrail-{VERSION}.dist-info"
        metadata = archive.read(f"{info}/METADATA")
    if other := {name.partition("/")[0] for name in names} - {"calibrail", info}:
        yield f"beside the package stand {', '.join(sorted(other))}"
    source = ROOT / "src"
    files = (path for path in (source / "calibrail").rglob("*") if path.is_file())
    ours = {str(path.relative_to(source)) for path in files if "__pycache__" not in path.parts}
    if missing := ours - names:
        yield f"missing: {', '.join(sorted(missing))}"
    if strange := {name for name in names if name.startswith("calibrail/")} - ours:
        yield f"not of the source tree: {', '.join(sorted(strange))}"
    if f"{info}/licenses/LICENSE" not in names:
        yield "no licence"
    if wheel.stat().st_size > MOST_BYTES:
        yield f"{wheel.stat().st_size:,} bytes"
    # Raises where a registry would refuse it.
    Metadata.from_email(metadata, validate=True)


def disagreeing(tag: str | None = None) -> Iterator[str]:
    """Yield where the version stands otherwise than in ``pyproject.toml``."""
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    if not re.search(rf"^version: {re.escape(VERSION)}$", citation, re.MULTILINE):
        yield f"CITATION.cff does not say {VERSION}"
    if f"CALIBRAIL: calibrail=={VERSION} " not in (ROOT / "ci" / "gitlab.yml").read_text("utf-8"):
        yield f"ci/gitlab.yml does not install {VERSION}"
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first = re.search(r"^## (\S+) \(([^)]+)\)$", changes, re.MULTILINE)
    if first is None or first[1] != VERSION:
        yield f"the first heading of CHANGELOG.md is not {VERSION}"
    elif tag is not None and not re.fullmatch(r"\d{4}-\d\d-\d\d", first[2]):
        yield f"CHANGELOG.md gives {VERSION} no date; got {first[2]!r}"
    if tag not in (None, f"v{VERSION}"):
        yield f"the tag is {tag}, and the version {VERSION}"


def commands() -> list[list[str]]:
    """Return the README's commands, in their order."""
    found = re.findall(r"^    (calibrail .*?)(?:  #.*)?$", README, re.MULTILINE)
    return [shlex.split(command) for command in found]


def run_readme(python: Path, folder: Path, only: int | None = None) -> None:
    """Run the README's commands, or the first few, in an empty folder by an environment's Python.

    Raises
    ------
    SystemExit
        A command failed.
    """
    write(folder / "heldout.jsonl", rows(60, prefix="New "))
    for command in commands()[:only]:
        run = subprocess.run(
            [str(python.parent / command[0]), *command[1:]],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        if run.returncode not in DONE:
            sys.exit(f"{shlex.join(command)}: exit code {run.returncode}\n{run.stderr}")
        print(f"ran {shlex.join(command)}", flush=True)


def install(wheel: Path, folder: Path) -> Path:
    """Install the wheel with what the README names into a fresh environment; return its Python."""
    (extras,) = re.findall(r'^    pip install "calibrail(\[.*?\])"$', README, re.MULTILINE)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    pinned = ["--constraint", str(ROOT / "constraints.txt")]
    # Torch first and alone: its version decides which build the rest finds already there.
    subprocess.run([*pip, *pinned, "torch"], check=True)
    subprocess.run([*pip, *pinned, f"{wheel}{extras}"], check=True)
    return python


def main() -> None:
    """Check all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tag", help="the tag of a release: v and the version")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="where archives go")
    given = parser.parse_args()
    given.dist.mkdir(exist_ok=True)
    for old in (*given.dist.glob("*.whl"), *given.dist.glob("*.tar.gz")):
        old.unlink()
    _, wheel = build(given.dist)
    if wrong := [*disagreeing(given.tag), *wrong_in(wheel)]:
        sys.exit("\n".join(wrong))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "empty"
        folder.mkdir()
        run_readme(install(wheel, Path(place) / "environment"), folder)
    print(f"{wheel.name} installs and does what the README shows")


if __name__ == "__main__":
    main()
