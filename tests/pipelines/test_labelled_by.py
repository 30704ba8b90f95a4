"""Are labels that a judge gave told from people's, from data to card, and never certified?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import calibrail
from calibrail.errors import InputError
from calibrail.guardrail import Guardrail
from calibrail.guardrail.file import FrozenConfig
from calibrail.labelling.exchange.transfer import import_labels
from calibrail.options import ReadOptions
from calibrail.options.data import judge_of
from calibrail.report.document import Document
from calibrail.report.documents import build_document
from calibrail.report.documents.compare import finding
from tests.answers import rows, write
from tests.labelling.test_exchange import begun
from tests.pipelines.test_recalibrate import Product, guardrail

__all__ = ["guardrail"]

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
    told = [
        calibrail.compare(source, [score, "novelty"], labelled_by=by).comparison.to_dict()
        for by in (None, JUDGE)
    ]
    leads = [headline("compare", content) for content in told]
    assert leads[1] == f"{leads[0]}, on labels of {JUDGE}"
    sentences = [finding(content) for content in told]
    assert sentences[1] == sentences[0].replace(leads[0], leads[1], 1)


def test_a_threshold_from_labels_of_people_is_not_told_as_a_judges(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    reading = {"columns": {"label": "label"}, "settings": {"labelled_by": JUDGE}}
    data = guardrail.config.data.model_copy(update={"reading": reading})
    judged = guardrail.config.model_copy(update={"data": data, "digest": ""})
    old = Guardrail(FrozenConfig.from_bytes(judged.to_bytes()))
    audited = Product(tmp_path, old, 0, per_day=60)
    audited.week(600)
    audited.label()
    new = audited.recalibrate().config.data.reading
    assert judge_of(old.config.data.reading) == JUDGE and judge_of(new) is None
    assert new["columns"] == reading["columns"]


def test_labels_of_a_judge_are_not_imported_as_those_of_people(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"labels of {JUDGE} are no labels of people"):
        import_labels(
            begun(tmp_path / "labels"),
            tmp_path / "judged.csv",
            "ada",
            reading=ReadOptions(labelled_by=JUDGE),
        )


def test_a_judge_is_no_gate_for_a_judge(tmp_path: Path) -> None:
    from tests.pipelines.test_agree import COLUMNS, LIMITS, standing_in

    path, _ = standing_in(tmp_path, {"judge": (0.02, 0.02)})
    assert calibrail.agree(path, **COLUMNS, **LIMITS).verdict == "certified"
    judged = calibrail.agree(path, **COLUMNS, **LIMITS, labelled_by=JUDGE)
    assert judged.verdict == "inconclusive" and JUDGE in judged.judges[0]["reason"]
