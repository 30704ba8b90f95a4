"""Are the files that a detector's source leads to found, and nothing run of them?"""

from __future__ import annotations

import importlib
import py_compile
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from calibrail.scores.custom import CustomScore, find_source, sources

Write = Callable[..., None]

DETECT = "def detect(example):\n    return 1.0\n"


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write modules below a folder where they are found; forget them afterwards."""
    before = set(sys.modules)

    def written(**modules: str) -> None:
        for name, source in modules.items():
            path = tmp_path / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source, encoding="utf-8")
        importlib.invalidate_caches()

    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield written
    for name in set(sys.modules) - before:
        if name.startswith("own_"):
            del sys.modules[name]
    importlib.invalidate_caches()


def used(module: str) -> set[str]:
    importlib.import_module(module)
    return set(sources([module]))


@pytest.mark.parametrize(
    "line",
    [
        "from own_helper import FACTOR",
        "from own_helper import *",
        "import own_helper as h; FACTOR = h.FACTOR; del h",
        "def late():\n    from own_helper import FACTOR\n",
        "try:\n    import own_missing\nexcept ImportError:\n    from own_helper import FACTOR",
        "from own_between import TWICE",
        "from own_circle import ONCE",
    ],
)
def test_what_a_source_imports_is_part_of_it(write: Write, line: str, tmp_path: Path) -> None:
    write(
        own_det=f"import json, numpy as np, calibrail.formatting\n{line}\n{DETECT}",
        own_helper="FACTOR = 1.0\n",
        own_between="def twice():\n    from own_helper import FACTOR\n\nTWICE = 2\n",
        own_circle="ONCE = 1\nimport own_det\nfrom own_helper import FACTOR\n",
    )
    importlib.import_module("own_det")
    imported = set(sys.modules)
    before = sources(["own_det"])
    assert {"own_det", "own_helper"} <= set(before)
    assert set(before) <= {"own_det", "own_helper", "own_between", "own_circle"}
    assert set(sys.modules) == imported
    (tmp_path / "own_helper.py").write_text("FACTOR = 2.0\n")
    after = sources(["own_det"])
    assert {name for name in before if before[name] != after[name]} == {"own_helper"}


def test_relative_imports_and_the_packages_around_are_part_of_it(
    write: Write, tmp_path: Path
) -> None:
    write(
        own_pack__det="from . import one\nfrom .two import B\n"
        f"def late():\n    from ...beyond import C\n\n{DETECT}",
        own_pack__inner__low="def late():\n    from ..one import A\n    from .. import two\n",
        own_pack__one="A = 1\n",
        own_pack__two="B = 1\n",
        own_pack__apart="D = 1\n",
    )
    (tmp_path / "own_pack" / "__init__.py").write_text("E = 1\n")
    around = {"own_pack", "own_pack.one", "own_pack.two"}
    assert used("own_pack.det") == {"own_pack.det", *around}
    assert used("own_pack.inner.low") == {"own_pack.inner.low", *around}


def test_packages_without_a_file_are_looked_through(write: Write, tmp_path: Path) -> None:
    write(
        own_space__deep__det=f"def late():\n    import own_other.deep.low\n\n{DETECT}",
        own_other__deep__low="from .beside import X\n",
        own_other__deep__beside="X = 1\n",
    )
    assert used("own_space.deep.det") == {
        "own_space.deep.det",
        "own_other.deep.low",
        "own_other.deep.beside",
    }
    assert "own_other" not in sys.modules
    assert find_source("own_other.deep.low") == tmp_path / "own_other" / "deep" / "low.py"


def test_what_is_loaded_later_does_not_make_it_another(write: Write) -> None:
    write(
        own_det=f"def late():\n    import own_late\n\n{DETECT}",
        own_late="import importlib\nbeyond = importlib.import_module('own_beyond')\n",
        own_beyond="X = 1\n",
    )
    before = used("own_det")
    sys.modules["own_det"].late()
    assert "own_beyond" in sys.modules and set(sources(["own_det"])) == before


def test_installed_packages_are_not_looked_into(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        own_det=f"from own_installed import X\n{DETECT}",
        **{"site-packages__own_installed": "from own_helper import X\n"},
        own_helper="X = 1\n",
    )
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "site-packages")])
    assert used("own_det") == {"own_det"}


def test_modules_without_source_are_known_by_their_file(write: Write, tmp_path: Path) -> None:
    write(own_compiled=DETECT, own_zipped=DETECT)
    source = tmp_path / "own_compiled.py"
    py_compile.compile(str(source), cfile=str(tmp_path / "own_compiled.pyc"))
    source.unlink()
    with zipfile.ZipFile(archive := tmp_path / "own.zip", "w") as file:
        file.write(tmp_path / "own_zipped.py", "own_zipped.py")
    (tmp_path / "own_zipped.py").unlink()
    importlib.invalidate_caches()
    sys.path.append(str(archive))
    for name in ("own_compiled", "own_zipped"):
        assert used(name) == {name}
        assert len(str(CustomScore(f"{name}:detect").fingerprint()["source_sha256"])) == 64
