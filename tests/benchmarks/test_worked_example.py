"""The figures of docs/worked-example.md are those of the public data, where it is there."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from calibrail import calibrate
from calibrail.scores.registry import build_column


@pytest.fixture
def example(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    return importlib.import_module("worked_example")


@pytest.fixture
def page(repository: Path) -> str:
    text = (repository / "docs" / "worked-example.md").read_text(encoding="utf-8")
    return " ".join(text.split())


def test_the_rejected_detector(real_data: Path, page: str) -> None:
    score = build_column("bertscore_p_article", higher="faithful")
    table = real_data / "frank" / "metric_scores.csv"
    run = calibrate(table, score, alpha=0.1, max_fpr=0.6)
    fpr = run.report.test.fpr
    assert run.verdict == "rejected"
    assert f"The threshold, {run.calibration.threshold:.4f}, catches" in page
    assert f"It flags {fpr.count} of {fpr.n} faithful summaries, {fpr.estimate:.1%}" in page
    assert f"AUROC of {run.report.test.auroc.estimate:.3f}" in page
    alone = calibrate(table, score, alpha=0.1, max_fpr=0.6, assume_independent=True)
    said = f"{alone.calibration.threshold:.4f}, {alone.report.test.fpr.estimate:.0%} false alarms"
    assert f"you get {said}, and *{alone.verdict}*" in page


def test_the_two_newspapers(real_data: Path, page: str) -> None:
    score = build_column("bertscore_p_article", higher="faithful")
    run = calibrate(real_data / "frank" / "metric_scores.csv", score, alpha=0.1, by="dataset")
    bbc, cnndm = run.report.to_dict()["by_group"]["rows"]
    for row in (bbc, cnndm):
        assert f"{row['shared_coverage']['estimate']:.1%}" in page
        assert f"{row['coverage']['estimate']:.1%}" in page
    assert f"{cnndm['fpr']['estimate']:.1%} false alarms" in page


def test_the_certified_detector(
    example: ModuleType, real_data: Path, page: str, tmp_path: Path
) -> None:
    if not (scores := real_data / "aggrefact" / "scores.csv").is_file():
        pytest.skip(f"no {scores}")
    example.write_claims(scores, tmp_path / "claims.csv")
    score = build_column("factcg_base", higher="faithful")
    run = calibrate(tmp_path / "claims.csv", score, alpha=0.2, max_fpr=0.3, group_column="block")
    fpr = run.report.test.fpr
    assert run.verdict == "certified"
    interval = f"{100 * fpr.lower:.1f} to {100 * fpr.upper:.1f}"
    assert f"It flags {fpr.count} of {fpr.n} faithful claims" in page
    assert f"{fpr.estimate:.1%} ({interval})" in page
    assert f"The threshold is {run.calibration.threshold:.4f}" in page
    assert f"blocks of {example.BLOCK} neighbouring rows" in page
