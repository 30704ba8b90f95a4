"""Does mutation testing sample, recognise and count mutants as it says?"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

FILE = "src/calibrail/conformal/threshold.py"
DIFF = f"""\
--- {FILE}
+++ {FILE}
@@ -1,3 +1,3 @@
 def rank(n):
-    return n + 1
+    return n - 1
"""


@pytest.fixture
def mutants(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    return importlib.import_module("mutants")


def run(
    mutants: ModuleType, codes: list[int | None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> int:
    """Run in a folder where mutmut has made mutants and found these exit codes."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mutants" / f"{FILE}.meta"
    path.parent.mkdir(parents=True, exist_ok=True)
    names = {f"rank__mutmut_{place}": code for place, code in enumerate(codes)}
    path.write_text(json.dumps({"exit_code_by_key": names}), encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["mutants.py", "--all"])
    monkeypatch.setattr(mutants, "mutmut", lambda *arguments: DIFF)
    return mutants.main()


def test_nine_of_ten_must_die_and_survivors_are_shown(
    mutants: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(mutants, [1] * 9 + [0], monkeypatch, tmp_path) == 0
    assert "9 of 10 mutants died: 90.0% (0 equivalent ones left out)" in capsys.readouterr().out
    assert run(mutants, [1] * 8 + [36, 0, 33], monkeypatch, tmp_path) == 1
    printed = capsys.readouterr().out
    assert "9 of 11 mutants died: 81.8%" in printed
    assert "rank__mutmut_9\n- return n + 1\n+ return n - 1" in printed


def test_what_is_known_to_change_nothing_does_not_count(
    mutants: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    known = tmp_path / mutants.EQUIVALENT
    known.parent.mkdir()
    known.write_text(
        f'[[mutant]]\nfile = "{FILE}"\nbefore = "return n + 1"\nafter = "return n - 1"\n'
        'reason = "as an example"\n'
    )
    assert run(mutants, [1, 0], monkeypatch, tmp_path) == 0
    assert "1 of 1 mutants died: 100.0% (1 equivalent ones left out)" in capsys.readouterr().out


def test_a_mutant_that_was_not_tested_is_no_success(
    mutants: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert run(mutants, [1, None], monkeypatch, tmp_path) == 2
    assert run(mutants, [], monkeypatch, tmp_path) == 2


def test_a_seed_draws_the_same_sample_and_another_another(mutants: ModuleType) -> None:
    names = [f"m{place}" for place in range(100)]
    first = mutants.sample(names, 10, 0, FILE)
    assert first == mutants.sample(names[::-1], 10, 0, FILE)
    assert first != mutants.sample(names, 10, 1, FILE)
    assert len(set(first)) == 10
    assert sorted(mutants.sample(names[:3], 10, 0, FILE)) == names[:3]
