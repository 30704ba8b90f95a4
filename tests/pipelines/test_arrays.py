"""Are scores and labels in arrays calibrated and certified as a file of them is?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from calibrail import ReadOptions, calibrate, certify
from calibrail.errors import InputError

RNG = np.random.default_rng(0)
LABELS = np.arange(400) % 2
SCORES = RNG.normal(LABELS * 2.0)
GROUPS = [f"g{i // 4}" for i in range(400)]
COLUMN = "column:column=score,higher=hallucinated"
IDS = [f"a{i}" for i in range(400)]


def test_arrays_and_a_file_of_them_give_the_same_report(tmp_path: Path) -> None:
    path = tmp_path / "scores.jsonl"
    columns = {"score": SCORES.tolist(), "label": LABELS.tolist(), "group": GROUPS, "id": IDS}
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    asked: dict[str, Any] = {"alpha": 0.1, "max_fpr": 0.5, "clustered": True}
    from_file = calibrate(path, "column:column=score,higher=hallucinated", **asked)
    given: dict[str, Any] = {"labels": pd.Series(LABELS), "groups": GROUPS, "ids": np.array(IDS)}
    from_arrays = calibrate(scores=SCORES, **given, **asked)
    turned = calibrate(scores=-SCORES, higher="faithful", **given, **asked)
    assert from_file.report.test == from_arrays.report.test
    assert from_file.calibration_examples == from_arrays.calibration_examples
    assert turned.calibration.threshold == -from_file.calibration.threshold
    from_columns = calibrate(columns, "column:column=score,higher=hallucinated", **asked)
    assert from_columns.report.test == from_file.report.test


def test_a_guardrail_on_scores_is_certified_on_arrays(tmp_path: Path) -> None:
    guardrail = calibrate(scores=SCORES, labels=LABELS, ids=IDS, alpha=0.1).freeze()
    fresh = [f"b{i}" for i in range(400)]
    result = certify(guardrail, scores=SCORES, labels=LABELS, ids=fresh, max_fpr=0.9)
    path = tmp_path / "guardrail.json"
    guardrail.save(path)
    table = pd.DataFrame({"score": SCORES, "label": LABELS, "id": fresh})
    of_table = certify(path, table, max_fpr=0.9).to_dict()
    # What the data is called in memory differs.
    assert {**of_table, "data": None} == {**result.to_dict(), "data": None}
    of_texts = calibrate("example:facts", "novelty", alpha=0.2).freeze()
    with pytest.raises(InputError, match="computes its score from texts"):
        certify(of_texts, scores=SCORES, labels=LABELS, max_fpr=0.9)


def test_values_that_cannot_be_used_are_set_aside_by_row_and_field(tmp_path: Path) -> None:
    labels = [*LABELS.tolist()[:-3], float("nan"), "maybe", 7]
    aside = tmp_path / "quarantine.jsonl"
    run = calibrate(scores=SCORES, labels=labels, alpha=0.1, reading=ReadOptions(quarantine=aside))
    entries = [json.loads(line) for line in aside.read_text(encoding="utf-8").splitlines()]
    assert [(entry["row"], entry["field"]) for entry in entries] == [
        (398, "label"),
        (399, "label"),
        (400, "label"),
    ]
    assert run.data["n_quarantined"] == 3


def test_series_are_matched_by_their_index() -> None:
    scores, labels = pd.Series(SCORES, index=IDS), pd.Series(LABELS, index=IDS)
    expected = calibrate(scores=scores, labels=labels, ids=IDS, alpha=0.1).report
    turned = calibrate(scores=scores, labels=labels[::-1], ids=IDS, alpha=0.1)
    assert turned.report == expected
    columns = {"score": scores, "label": labels.sample(frac=1.0, random_state=1), "id": IDS}
    assert calibrate(columns, COLUMN, alpha=0.1).report.test == expected.test
    # Arrays have no index, and the same one twice is one order.
    twice = ["a"] * 400
    doubled = {"scores": pd.Series(SCORES, twice), "labels": pd.Series(LABELS, twice), "ids": IDS}
    assert calibrate(**doubled, alpha=0.1).report.test == expected.test
    by_place = calibrate(scores=scores, labels=LABELS, ids=IDS, alpha=0.1)
    assert by_place.report.test == expected.test


@pytest.mark.parametrize("index", [range(1, 401), ["a0", *IDS[:-1]], [*IDS[:-2], IDS[0], IDS[0]]])
def test_indexes_of_other_rows_are_refused_by_name(index: Any) -> None:
    scores, labels = pd.Series(SCORES, index=IDS), pd.Series(LABELS, index=list(index))
    with pytest.raises(InputError, match=r"indexes of scores and labels .*labels\.to_numpy"):
        calibrate(scores=scores, labels=labels, alpha=0.1)
    with pytest.raises(InputError, match="indexes of score and label differ"):
        calibrate({"score": scores, "label": labels}, COLUMN, alpha=0.1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "no data was given.*scores= and labels="),
        ({"scores": SCORES}, "need labels="),
        ({"labels": LABELS}, "need scores="),
        ({"scores": SCORES, "labels": LABELS[:-1]}, "lengths: scores 400, labels 399"),
        ({"scores": "0.5", "labels": LABELS}, r"scores must be a list.*'0.5' \(str\)"),
        ({"scores": SCORES, "labels": 1}, r"labels must be a list.*1 \(int\)"),
        ({"scores": np.zeros((400, 2)), "labels": LABELS}, r"one value per answer.*\(400, 2\)"),
        ({"scores": SCORES, "labels": LABELS, "source": "example:facts"}, "not both"),
        ({"scores": SCORES, "labels": LABELS, "score": "rad"}, "not both"),
        ({"scores": SCORES, "labels": LABELS, "higher": "better"}, "higher must be"),
        ({"source": "example:facts", "higher": "faithful"}, "name the column"),
        ({"scores": SCORES, "labels": pd.Series(LABELS, name="is_faithful")}, "1 = hallucinated"),
        ({"scores": SCORES, "labels": pd.Series(LABELS == 0, name="thumbs_up")}, "'thumbs_up'"),
    ],
)
def test_what_is_no_column_of_numbers_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        calibrate(alpha=0.1, **given)
