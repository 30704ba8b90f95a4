"""Does a further look at the same data certify nothing, as a user gets it?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrail
from calibrail.workflow.looks import Look, Looks
from tests.command_line import calibrail as run_command

OPTIONS = "--score-column s --higher hallucinated --alpha 0.1 --min-coverage 0.8 --max-fpr 0.4"


def write(path: Path, start: int, stop: int, separation: float = 2.8) -> Path:
    """Write rows ``start`` to ``stop`` of one endless table."""
    rng = np.random.default_rng(1)
    labels = (rng.random(4000) < 0.4).astype(int)
    scores = rng.normal(separation * labels)
    rows = [f"r{i},{scores[i]:.6f},{labels[i]}" for i in range(start, stop)]
    path.write_text("\n".join(["id,s,label", *rows]) + "\n")
    return path


def calibrated(data: Path, folder: Path, *more: str) -> dict[str, Any]:
    run_command("calibrate", str(data), *OPTIONS.split(), "-o", str(folder), *more)
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return report


def test_one_look_certifies_and_the_same_one_again_says_the_same(tmp_path: Path) -> None:
    data, run = write(tmp_path / "a.csv", 0, 600), tmp_path / "run"
    first = calibrated(data, run)
    assert first["verdict"] == "certified" and first["looks"] == []
    before = (run / "looks.json").read_bytes(), (run / "report.json").read_bytes()
    assert calibrated(data, run)["verdict"] == "certified"
    assert ((run / "looks.json").read_bytes(), (run / "report.json").read_bytes()) == before


def test_more_of_the_data_or_another_seed_is_a_second_chance(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert calibrated(write(tmp_path / "a.csv", 0, 600), run)["verdict"] == "certified"
    grown = calibrated(write(tmp_path / "b.csv", 0, 1300), run)
    assert grown["verdict"] == "inconclusive"
    assert grown["certificate"]["verdict"] == "inconclusive"
    assert "600 answers with seed 0 (certified)" in grown["reason"]
    assert "new answers alone" in grown["reason"]
    again = calibrated(tmp_path / "a.csv", run, "--seed", "1")
    assert again["verdict"] == "inconclusive"
    assert [look["n"] for look in again["looks"]] == [600, 1300]
    # Another question is looked at for the first time.
    other = calibrated(write(tmp_path / "b.csv", 0, 1300), run, "--alpha", "0.05")
    assert other["verdict"] == "certified"


def test_other_data_is_no_second_chance_and_a_rejection_stands(tmp_path: Path) -> None:
    run = tmp_path / "run"
    calibrated(write(tmp_path / "a.csv", 0, 600), run)
    assert calibrated(write(tmp_path / "b.csv", 600, 1300), run)["verdict"] == "certified"
    poor = tmp_path / "poor"
    assert calibrated(write(tmp_path / "c.csv", 0, 600, 0.0), poor)["verdict"] == "rejected"
    assert calibrated(write(tmp_path / "d.csv", 0, 900, 0.0), poor)["verdict"] == "rejected"


def test_a_guardrail_is_certified_on_one_look_at_fresh_answers(tmp_path: Path) -> None:
    run, file = tmp_path / "run", tmp_path / "guardrail.json"
    calibrated(write(tmp_path / "a.csv", 0, 800), run)
    calibrail.Run.load(run).freeze().save(file)

    def certified(data: Path) -> dict[str, Any]:
        options = ["--max-fpr", "0.4", "--min-coverage", "0.8", "--json"]
        done = run_command("certify", str(file), str(data), *options)
        content: dict[str, Any] = json.loads(done.stdout)
        return content

    assert certified(write(tmp_path / "f.csv", 1000, 1400))["verdict"] == "certified"
    grown = certified(write(tmp_path / "g.csv", 1000, 1900))
    assert grown["verdict"] == "inconclusive" and len(grown["looks"]) == 1
    assert "looked at before: 400 answers (certified)" in grown["reason"]
    assert certified(write(tmp_path / "f.csv", 1000, 1400))["verdict"] == "certified"
    assert certified(write(tmp_path / "h.csv", 2000, 2400))["verdict"] == "certified"
    # From Python nothing is kept unless a file is named.
    result = calibrail.certify(file, tmp_path / "g.csv", max_fpr=0.4, min_coverage=0.8)
    assert result.verdict == "certified"


def test_what_is_left_to_label_is_said_for_new_answers_with_the_verdict(tmp_path: Path) -> None:
    run = tmp_path / "run"
    text = run_command(
        "calibrate",
        str(write(tmp_path / "a.csv", 0, 300, 2.0)),
        *["--score-column", "s", "--higher", "hallucinated", "--alpha", "0.1", "--max-fpr", "0.25"],
        *("--min-coverage", "0.6", "-o", str(run)),
    ).stdout
    report = json.loads((run / "report.json").read_text())
    assert report["verdict"] == "inconclusive"
    assert report["certificate"]["fpr"]["estimate"] > 0.25
    assert "settles it as rejected" in " ".join(text.split())


def test_half_of_the_data_is_known_again_and_other_data_is_not() -> None:
    rng = np.random.default_rng(0)
    digests = rng.integers(0, 2**63, 20_000, dtype=np.uint64)
    first = Look.at(digests[:8000], 0)
    assert Look.at(digests[4000:12_000], 0).shares(first)
    assert first.shares(Look.at(digests[7000:20_000]))
    assert not Look.at(digests[8000:], 0).shares(first)
    assert Look.at(digests[:8000][::-1], 0).same(first)


def test_a_damaged_file_of_looks_is_an_error_with_its_remedy(tmp_path: Path) -> None:
    for text in ("{", "[]", '{"schema": "other"}', '{"schema": "calibrail.looks/1"}', "[" * 9999):
        (tmp_path / "looks.json").write_text(text)
        with pytest.raises(calibrail.CalibrailError, match="restore it"):
            Looks.of(tmp_path / "looks.json", "x")


def test_a_comparison_by_another_seed_certifies_nobody(tmp_path: Path) -> None:
    data, run = write(tmp_path / "a.csv", 0, 1300), tmp_path / "run"

    def verdict(seed: int) -> str:
        run_command("compare", str(data), *OPTIONS.split(), "-o", str(run), "--seed", str(seed))
        detectors = json.loads((run / "compare.json").read_text())["detectors"]
        return str(detectors[0]["verdict"])

    assert [verdict(seed) for seed in (0, 1, 0)] == ["certified", "inconclusive", "certified"]
