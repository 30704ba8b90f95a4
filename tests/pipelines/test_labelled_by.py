"""Are labels that a judge gave told from people's, from data to card, and never certified?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import calibrail
from calibrail.report.document import Document
from calibrail.report.documents import build_document
from tests.answers import rows, write

JUDGE = "gpt-5, prompt 3"
LIMITS: dict[str, Any] = {"max_fpr": 0.5, "min_coverage": 0.5}


def headline(kind: str, content: Any, **details: Any) -> str:
    document = build_document(kind, content, **details)
    assert isinstance(document, Document)
    return document.headline


@pytest.fixture
def source(tmp_path: Path) -> Path:
    items = [{**item, "detector": 3 * item["label"] + item["detector"]} for item in rows(240)]
    return write(tmp_path / "answers.jsonl", items)


@pytest.fixture
def score() -> Any:
    return calibrail.scores.registry.build_column("detector", higher="hallucinated")


def test_what_agrees_with_a_judge_is_not_certified(source: Path, score: Any) -> None:
    for people, judged in (
        (calibrail.calibrate(source, score, **LIMITS, labelled_by=by) for by in (None, JUDGE)),
        (
            calibrail.test(
                source, score, threshold=3.0, min_caught=0.5, max_false_alarms=0.5, labelled_by=by
            )
            for by in ("people", JUDGE)
        ),
    ):
        assert (people.verdict, judged.verdict) == ("certified", "inconclusive")
        report = judged.report.to_dict()
        assert report["reason_code"] == "labels_of_judge"
        assert report["reason"].startswith(f"Agrees with {JUDGE}: ")
        assert headline("calibrate", report) == f"Inconclusive, on labels of {JUDGE}"
        assert headline("calibrate", people.report.to_dict()) == "Certified"
        assert judged.report.test.coverage == people.report.test.coverage


def test_run_guardrail_and_card_keep_who_labelled(source: Path, score: Any, tmp_path: Path) -> None:
    run = calibrail.calibrate(source, score, labelled_by=JUDGE)
    assert run.report.data["reading"]["settings"]["labelled_by"] == JUDGE
    assert headline("calibrate", run.report.to_dict()) == f"Threshold found, on labels of {JUDGE}"
    file = tmp_path / "guardrail.json"
    run.freeze().save(file)
    card = calibrail.card(file).to_dict()
    assert card["guardrail"]["data"]["reading"]["settings"]["labelled_by"] == JUDGE
    assert headline("card", card) == f"Threshold found, on labels of {JUDGE}"
    fresh = [
        {**item, "detector": 3 * item["label"] + item["detector"]}
        for item in rows(240, seed=5, prefix="New ")
    ]
    heldout = write(tmp_path / "heldout.jsonl", fresh)
    again = calibrail.certify(file, heldout, **LIMITS, looks=False)
    assert again.verdict == "inconclusive"
    assert headline("certify", again.to_dict()) == f"Inconclusive, on labels of {JUDGE}"
    # People's labels may certify a threshold that a judge's set.
    by_people = calibrail.certify(file, heldout, **LIMITS, labelled_by="people", looks=False)
    assert by_people.verdict == "certified"
    assert headline("certify", by_people.to_dict()) == "Certified"


def test_a_comparison_certifies_nothing_by_labels_of_a_judge(source: Path, score: Any) -> None:
    verdicts = [
        {
            report.verdict
            for _, report in calibrail.compare(
                source, [score, "novelty"], **LIMITS, labelled_by=by
            ).comparison.detectors
        }
        for by in (None, JUDGE)
    ]
    assert "certified" in verdicts[0] and "certified" not in verdicts[1]


def test_a_judge_is_no_gate_for_a_judge(tmp_path: Path) -> None:
    from tests.pipelines.test_agree import COLUMNS, LIMITS, standing_in

    path, _ = standing_in(tmp_path, {"judge": (0.02, 0.02)})
    assert calibrail.agree(path, **COLUMNS, **LIMITS).verdict == "certified"
    judged = calibrail.agree(path, **COLUMNS, **LIMITS, labelled_by=JUDGE)
    assert judged.verdict == "inconclusive" and JUDGE in judged.judges[0]["reason"]
