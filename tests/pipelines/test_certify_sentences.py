"""Is a guardrail that removes sentences certified on what it delivers?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrail
from calibrail.data.reading import read
from calibrail.data.sentences import sentence_examples
from calibrail.errors import InputError
from calibrail.report import render_markdown as printed
from calibrail.report.documents.certify import document
from tests.command_line import calibrail as command
from tests.pipelines.test_calibrate_sentences import rows

PROMISE = {"unit": "sentence", "alpha": 0.2, "baselines": False}


@pytest.fixture(scope="module")
def guardrail() -> calibrail.Guardrail:
    return calibrail.calibrate(rows(200), "novel_count", min_kept=0.2, **PROMISE).freeze()


def fresh(n: int = 120, **changes: Any) -> list[dict[str, Any]]:
    """Return answers that the calibration has not seen."""
    return [{**item, "id": f"new {item['id']}"} for item in rows(200 + n, **changes)[200:]]


def test_it_counts_what_the_decisions_leave(guardrail: calibrail.Guardrail) -> None:
    items = fresh()
    result = calibrail.certify(guardrail, items, min_kept=0.3, min_coverage=0.7)
    freed, shares, touched, emptied = [], [], [], []
    for item in items:
        texts = {name: item[name] for name in ("question", "contexts", "response")}
        decision = guardrail.check(**texts)
        gone = {(part.start, part.end) for part in decision.removed or ()}
        answer = calibrail.Example(
            response=item["response"], spans=tuple(map(tuple, item["spans"]))
        )
        places = [
            (len(part.before or ""), len(part.before or "") + len(part.response), part.label)
            for part in sentence_examples(answer)
        ]
        left = [label for start, end, label in places if (start, end) not in gone]
        assert decision.text is not None
        if item["label"]:
            freed.append(1 not in left)
        else:
            touched.append(bool(gone))
        emptied.append(not left)
        if n := sum(label == 0 for *_, label in places):
            shares.append(left.count(0) / n)
    told = result.to_dict()
    assert told["unit"] == "sentence"
    assert (told["freed"]["count"], told["freed"]["n"]) == (sum(freed), len(freed))
    assert told["coverage"] == told["freed"]
    assert (told["fpr"]["count"], told["fpr"]["n"]) == (sum(touched), len(touched))
    assert told["kept_supported"]["estimate"] == pytest.approx(np.mean(shares))
    assert told["kept_supported"]["n"] == len(shares)
    assert told["emptied"]["count"] == sum(emptied)
    assert told["min_kept"] == 0.3
    assert result.verdict == "certified"


def test_the_report_and_the_guardrail_leave_the_same(guardrail: calibrail.Guardrail) -> None:
    """What the report measured on its test part is what the guardrail does there."""
    run = calibrail.calibrate(rows(200), "novel_count", min_kept=0.2, **PROMISE)
    assert run.table is not None and run.codes is not None
    ids = {run.table.ids[row].as_py() for row in np.flatnonzero(run.codes == 2).tolist()}
    test = [item for item in rows(200) if item["id"] in ids]
    result = calibrail.certify(guardrail, test, min_kept=0.3)
    measured = run.report.to_dict()["test"]
    told = result.to_dict()
    for name in ("freed", "emptied", "untouched", "reviewed"):
        assert told[name] == measured[name]
    # The order of the bets is drawn by lot in both, from other numbers.
    for name in ("estimate", "count", "n"):
        assert told["kept_supported"][name] == pytest.approx(measured["kept_supported"][name])
    # These answers were looked at before.
    assert result.verdict != "certified"


def test_what_was_measured_of_real_answers_is_delivered(real_data: Path) -> None:
    """Lists, introductions and sentences that lean on others are in these."""
    source = real_data / "ragtruth"
    promise = PROMISE | {"assume_independent": True}
    run = calibrail.calibrate(source, "novelty", min_kept=0.5, **promise)
    assert run.table is not None and run.codes is not None
    ids = {run.table.ids[row].as_py() for row in np.flatnonzero(run.codes == 2).tolist()}
    test = [answer for answer in read(source, by_sentence=True) if answer.id in ids]
    result = calibrail.certify(run.freeze(), test, min_kept=0.5, assume_independent=True).to_dict()
    report = run.report.to_dict()
    assert report["sentences"]["also_removed"] and report["test"]["reviewed"]["count"]
    for name in ("freed", "emptied", "untouched", "reviewed"):
        assert result[name] == report["test"][name]
    for name in ("estimate", "n"):
        assert result["kept_supported"][name] == pytest.approx(
            report["test"]["kept_supported"][name]
        )


def test_answers_of_the_calibration_are_left_out(guardrail: calibrail.Guardrail) -> None:
    result = calibrail.certify(guardrail, [*rows(200), *fresh()], min_kept=0.3)
    assert result.n_seen_before == guardrail.calibration.n


@pytest.mark.parametrize(
    ("min_kept", "verdict", "code"), [(0.3, "certified", 0), (0.99, "rejected", 3)]
)
def test_the_command_certifies_from_files(
    tmp_path: Path, min_kept: float, verdict: str, code: int
) -> None:
    for name, items in (("data.jsonl", rows(200)), ("new.jsonl", fresh())):
        text = "".join(json.dumps(item) + "\n" for item in items)
        (tmp_path / name).write_text(text, encoding="utf-8")
    steps = (
        ("calibrate", "data.jsonl", "--unit", "sentence", "--alpha", 0.2, "--score", "novel_count"),
        ("export", "RUN", "-o", "guardrail.json"),
        ("certify", "guardrail.json", "new.jsonl", "--min-coverage", 0.7, "--json"),
    )
    extra: tuple[tuple[object, ...], ...] = (
        ("--no-baselines", "-o", "RUN"),
        (),
        ("--min-kept", min_kept),
    )
    for step, more in zip(steps, extra, strict=True):
        done = command(*step, *more, cwd=tmp_path)
        assert done.returncode == (code if step[0] == "certify" else 0), done.stderr
    told = json.loads(done.stdout)
    assert told["verdict"] == verdict
    assert told["kept"] == told["kept_supported"]


def test_groups_get_a_verdict_each(guardrail: calibrail.Guardrail) -> None:
    items = fresh(200)
    for number, item in enumerate(items):
        item["topic"] = "even" if number % 4 < 2 else "odd"
    result = calibrail.certify(guardrail, items, min_kept=0.3, min_coverage=0.6, by="topic")
    told = {row["group"]: row for row in result.to_dict()["by_group"]["rows"]}
    assert set(told) == {"even", "odd"}
    assert sum(row["coverage"]["n"] for row in told.values()) == result.to_dict()["freed"]["n"]
    assert all(row["kept"]["n"] and row["min_kept"] == 0.3 for row in told.values())


def test_one_answer_of_each_group_counts(guardrail: calibrail.Guardrail) -> None:
    items = fresh()
    for number, item in enumerate(items):
        item["group"] = f"source {number // 4}"
    told = calibrail.certify(guardrail, items, min_kept=0.3).to_dict()
    assert told["untouched"]["n"] == len(items) // 4
    assert told["kept_supported"]["n"] <= len(items) // 4
    assert told["freed"]["n"] == len(items) // 4


@pytest.mark.filterwarnings("ignore:The detector")
def test_a_detector_that_fails_releases_nothing() -> None:
    def fails_now_and_then(example: calibrail.Example) -> float:
        if broken and "quark" in example.response.lower():
            raise RuntimeError("out of memory")
        return float(len(example.response) % 7)

    broken = False
    run = calibrail.calibrate(rows(200), fails_now_and_then, min_kept=0.2, **PROMISE)
    frozen = run.freeze(score=fails_now_and_then)
    broken = True
    told = (result := calibrail.certify(frozen, items := fresh(), min_kept=0.01)).to_dict()
    n_failing = sum("quark" in item["response"].lower() for item in items)
    assert told["n_errors"] == told["failed"]["count"] == n_failing > 0
    # Nobody is asked to look at them.
    assert told["reviewed"]["count"] == told["n_undefined"] == 0
    said = printed(document(told))
    assert "The detector failed" in said and "count as fully cleaned and keep nothing" in said
    assert any("so as fully cleaned, and keep nothing" in item for item in result.warnings)


@pytest.mark.parametrize("policy", ["flag", "review", "pass"])
@pytest.mark.filterwarnings("ignore:The detector")
def test_sentences_without_a_score_are_counted_in_answers_that_have_others(policy: str) -> None:
    def silent(text: str) -> bool:
        return len(text) % 11 == 0

    def now_and_then(example: calibrail.Example) -> float:
        return float("nan") if silent(example.response) else float(len(example.response) % 7)

    promise: dict[str, Any] = PROMISE | {"undefined": policy, "alpha": 0.4}
    run = calibrail.calibrate(rows(200), now_and_then, min_kept=0.2, **promise)
    result = calibrail.certify(run.freeze(score=now_and_then), items := fresh(), min_kept=0.01)
    told = result.to_dict()
    counts = [
        sum(silent(part.response) for part in sentence_examples(answer))
        for answer in read(items, by_sentence=True)
    ]
    assert told["n_undefined_sentences"] == sum(counts) > 0
    assert told["n_undefined"] == sum(n > 0 for n in counts)
    became = {"flag": "removed", "review": "sent to review", "pass": "kept"}[policy]
    named = f"in {told['n_undefined']} answers, have no score and are {became}, by the guardrail's"
    assert any(named in warning for warning in result.warnings)
    said = printed(document(told))
    assert "Unchanged" in said and "Sent to review" in said
    assert "The detector failed" not in said


def test_what_has_to_be_kept_must_be_said(guardrail: calibrail.Guardrail) -> None:
    with pytest.raises(InputError, match=r"min_kept.*must be given"):
        calibrail.certify(guardrail, fresh(20), max_fpr=0.2)


def test_removing_everything_is_not_certified_for_keeping_nothing(
    guardrail: calibrail.Guardrail,
) -> None:
    with pytest.raises(InputError, match=r"min_kept must lie in \(0, 1\]; got 0"):
        calibrail.certify(guardrail, fresh(20), min_kept=0.0)


def test_a_guardrail_of_answers_keeps_no_sentences() -> None:
    answers = calibrail.calibrate("example:facts", "novel_count", alpha=0.1).freeze()
    with pytest.raises(InputError, match="min_kept is about the sentences"):
        calibrail.certify(answers, "example:facts", min_kept=0.5, max_fpr=0.9)


def test_labels_of_answers_certify_no_guardrail_of_sentences(
    guardrail: calibrail.Guardrail, tmp_path: Path
) -> None:
    with pytest.raises(calibrail.errors.CalibrailError):
        calibrail.certify(guardrail, labels=tmp_path, min_kept=0.5)
