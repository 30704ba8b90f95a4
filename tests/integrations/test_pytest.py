"""Does a test suite pass with a certified guardrail only?"""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import calibrail
from calibrail.errors import DataError
from calibrail.testing import NotCertifiedError, assert_certified

pytest_plugins = ("pytester",)

ROOT = Path(__file__).resolve().parents[2]

ASKED = {"max_fpr": 0.1, "min_coverage": 0.85, "fresh": True}


def answers(path: Path, n: int, apart: float, seed: int) -> Path:
    """Write answers with a score; hallucinated ones score higher by ``apart``."""
    rng = random.Random(seed)
    rows = [
        {"id": f"{seed}-{i}", "risk": rng.gauss(apart * (i % 2), 1.0), "label": i % 2}
        for i in range(n)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def guardrail(tmp_path: Path) -> Path:
    run = calibrail.calibrate(
        answers(tmp_path / "labelled.jsonl", 2000, 4.0, 1),
        score="column:column=risk,higher=hallucinated",
        alpha=0.1,
    )
    run.freeze().save(tmp_path / "guardrail.json")
    return tmp_path / "guardrail.json"


def test_a_certified_guardrail_passes_and_passes_again(guardrail: Path, tmp_path: Path) -> None:
    fresh = answers(tmp_path / "fresh.jsonl", 1000, 4.0, 2)
    for _ in range(2):
        certification = assert_certified(guardrail, fresh, **ASKED)
        assert certification.verdict == "certified"
    assert guardrail.with_suffix(".looks.json").is_file()


@pytest.mark.parametrize(
    ("n", "apart", "verdict"), [(1000, 1.0, "rejected"), (20, 4.0, "inconclusive")]
)
def test_any_other_verdict_fails_with_its_intervals(
    guardrail: Path, tmp_path: Path, n: int, apart: float, verdict: str
) -> None:
    fresh = answers(tmp_path / "fresh.jsonl", n, apart, 3)
    with pytest.raises(NotCertifiedError, match=verdict.capitalize()) as caught:
        assert_certified(guardrail, fresh, **ASKED)
    assert caught.value.certification.verdict == verdict
    assert "%" in str(caught.value)


def test_a_missing_file_is_an_error_and_no_verdict(guardrail: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.jsonl"):
        assert_certified(guardrail, tmp_path / "none.jsonl", max_fpr=0.1)


def test_the_fixture_fails_a_test_and_the_summary_says_why(
    guardrail: Path, tmp_path: Path, pytester: pytest.Pytester
) -> None:
    good = answers(tmp_path / "good.jsonl", 1000, 4.0, 2)
    bad = answers(tmp_path / "bad.jsonl", 1000, 1.0, 3)
    pytester.makepyfile(
        f"""
        def test_good(assert_certified):
            assert_certified({str(guardrail)!r}, {str(good)!r}, **{ASKED})

        def test_bad(assert_certified):
            assert_certified({str(guardrail)!r}, {str(bad)!r}, **{ASKED})
        """
    )
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*= guardrails =*", "*::test_good", "*::test_bad", "*Rejected*"])


def test_pytest_loads_nothing_heavy_with_the_plugin() -> None:
    code = "import sys, calibrail.integrations.pytest; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    heavy = {"numpy", "scipy", "pyarrow", "pydantic", "matplotlib", "torch", "sklearn"}
    assert not heavy & {name.partition(".")[0] for name in loaded.split()}
    assert "calibrail.integrations.pytest" in loaded


def test_the_page_runs(guardrail: Path, tmp_path: Path, pytester: pytest.Pytester) -> None:
    page = (ROOT / "docs" / "integrations" / "pytest.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    pytester.makepyfile(shown)
    shutil.copy(guardrail, pytester.path / "guardrail.json")
    answers(pytester.path / "heldout.jsonl", 4000, 4.5, 2)
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1)
