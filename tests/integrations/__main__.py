"""Run each adapter in its framework's own environment, where frameworks cannot live together.

``make test-integrations`` runs ``python -m tests.integrations [NAME...]``: for each file of
``environments`` (all of them where no name is given) it makes ``.venv-integrations/NAME`` with the
versions that the file pins, and runs the adapter's tests there with the network cut.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.integrations.frameworks import PINS

ROOT = Path(__file__).resolve().parents[2]
MADE = ROOT / ".venv-integrations"

#: What pip installs, call by call: calibrail with a framework's extra, in the versions of its file.
TOGETHER: Final = ("--constraint {pins} --editable {root}[full,{name}] pytest",)
#: Where a framework asks for other versions than calibrail does: all that its file pins, and then
#: calibrail without what it asks for.
APART: Final = ("--requirement {pins}", "--no-deps --editable {root}")
#: uqlm wants numpy 1.26, with which calibrail runs.
INSTALLED: Final = {"uqlm": APART}

#: Brings up the loopback of a network namespace that has nothing else (SIOCSIFFLAGS, IFF_UP), and
#: goes on as the command that follows.
ALONE = """
import fcntl, os, socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", 1))
os.execv(sys.argv[1], sys.argv[1:])
"""


def names() -> list[str]:
    """Return the environments, by the name of their extra or, without one, of their framework."""
    return sorted(path.stem for path in PINS.glob("*.txt"))


def file_of(name: str) -> Path:
    """Return the file of an environment's tests."""
    return Path(__file__).parent / f"test_{name.replace('-', '_')}.py"


def made(name: str) -> Path:
    """Make an environment unless what it is made of is as it was; return its Python."""
    folder, pins = MADE / name, PINS / f"{name}.txt"
    python, stamp = folder / "bin" / "python", folder / "made-of.txt"
    calls = INSTALLED.get(name, TOGETHER)
    content = pins.read_text(encoding="utf-8") + (ROOT / "pyproject.toml").read_text("utf-8")
    content += "\n".join(calls)
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == content:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    install = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    for call in calls:
        words = [word.format(pins=pins, root=ROOT, name=name) for word in call.split()]
        subprocess.run([*install, *words], check=True)
    stamp.write_text(content, encoding="utf-8")
    return python


def cut(python: Path) -> list[str]:
    """Return what runs a command without a network; nothing where this machine forbids that."""
    before = ["unshare", "--map-root-user", "--net"]
    alone = [*before, str(python), "-c", ALONE, str(python)]
    if shutil.which("unshare"):
        tried = subprocess.run([*alone, "-c", ""], capture_output=True, check=False)
        if tried.returncode == 0:
            return alone
    print("no network namespace can be made here: only Python's own connections are refused")
    return [str(python)]


def run(name: str, further: list[str]) -> int:
    """Run the tests of one environment; return pytest's exit code."""
    print(f"\n{name}: making its environment", flush=True)
    python = made(name)
    pytest = ["-m", "pytest", "--confcutdir", str(PINS.parent), "-p", "no:cacheprovider", *further]
    # Its tests by their file's name, and those by which what it loads is seen to report nothing.
    files = [str(file_of(name)), str(ROOT / "tests" / "test_quiet.py")]
    command = [*cut(python), *pytest, "-k", f"{name} or {name.replace('-', '_')}", *files]
    # What is asked for runs: a framework that is missing here is a failure, not a test to skip.
    environment = os.environ | {"CALIBRAIL_INTEGRATION": name}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def main() -> None:
    """Run what the command line names, one after another."""
    asked = [word for word in sys.argv[1:] if not word.startswith("-")] or names()
    further = [word for word in sys.argv[1:] if word.startswith("-")]
    if unknown := sorted(set(asked) - set(names())):
        sys.exit(f"no environment {', '.join(unknown)}; there are {', '.join(names())}")
    codes = {name: run(name, further) for name in asked}
    failed = [name for name, code in codes.items() if code]
    print(f"\nIn environments of their own: {len(codes) - len(failed)} of {len(codes)} passed")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
