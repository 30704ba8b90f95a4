"""Are conformal factuality's thresholds calibrail's, and does the page say what was measured?"""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest


@pytest.fixture
def script(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for folder in ("benchmarks", "benchmarks/papers"):
        monkeypatch.syspath_prepend(str(repository / folder))
    return importlib.import_module("conformal_factuality")


def claims(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return answers of four claims; a right one has the higher score, as a rule."""
    rng, found = np.random.default_rng(seed), []
    for i in range(n):
        right = rng.random(4) < 0.8
        scores = rng.normal(1.5 * right)
        found.append(
            {
                "prompt": f"question {i}",
                "claims": [
                    {
                        "subclaim": f"claim {k}",
                        "annotation": "NY"[int(right[k])],
                        "own-score": scores[k],
                    }
                    for k in range(4)
                ],
            }
        )
    return found


def test_the_threshold_is_the_papers_and_keeps_its_promise(
    script: ModuleType, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"data": claims(400)}), encoding="utf-8")
    every = script.scored(script.read(path), "own")
    known, fresh = every.worst[:200], every.worst[200:]
    for alpha in (0.1, 0.2):
        place = int(np.ceil(round(201 * (1 - alpha), 9)))
        at = script.threshold(known, alpha)
        assert at == np.sort(known)[place - 1]
        # An answer is factual where no wrong claim stays.
        assert np.mean(fresh < at) > 1 - alpha - 0.08
        assert script.threshold(known, alpha, "pac") >= at
    assert np.mean(every.removed(np.inf)) == 1.0 and np.mean(every.removed(-np.inf)) == 0.0


def test_an_annotation_with_blanks_is_wrong_unless_they_are_stripped(
    script: ModuleType, tmp_path: Path
) -> None:
    answer = claims(1)[0]
    answer["claims"] = [{**item, "annotation": "Y  "} for item in answer["claims"]]
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"data": [answer]}), encoding="utf-8")
    assert script.read(path)[0].wrong.all()
    assert not script.read(path, strip=True)[0].wrong.any()


def test_without_the_files_it_says_where_they_are(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        script.main(["--data", str(tmp_path)])
    said = f"{ended.value} {capsys.readouterr()}"
    assert "github.com/tatsu-lab/conformal-factual-lm" in said


def test_the_page_says_what_was_measured(repository: Path) -> None:
    page = (repository / "docs" / "papers.md").read_text(encoding="utf-8")
    part = " ".join(page.split("## Conformal factuality")[1].split("\n## ")[0].split())
    results = repository / "benchmarks" / "results" / "papers_conformal_factuality.md"
    measured = " ".join(results.read_text(encoding="utf-8").split())
    assert "lose 26% of its claims, not 14%" in part
    assert "90% costs 14% of the claims instead of 26%" in measured
    (kept,) = re.findall(r"([\d.]+ times) as many right claims \(([\d.]+ to [\d.]+)\)", part)
    hotpot = measured.split("### HotpotQA")[1].split("### ")[0]
    assert f"| {kept[0].removesuffix(' times')} ({kept[1]}) |" in hotpot
    published = re.findall(r"\| (-?\d\.\d{12,}) \| (-?\d\.\d{12,}) \|", measured)
    assert sum(one == other for one, other in published) == 3
