"""Are the errors on the page those of the test part, with their texts, and only where wanted?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrail import Example, calibrate, read
from calibrail.errors import ModelError
from calibrail.models.llm.transport import CallLimits, account, limit_calls
from calibrail.pipelines import examples as error_examples
from calibrail.pipelines.loading import Context
from calibrail.pipelines.run import Run
from calibrail.report.messages import say
from calibrail.scores.base import Scores
from tests.answers import rows, write

SPEC = "column:column=detector,higher=hallucinated"


class Words:
    """A score whose evidence is the answer's first word; changes its mind, or fails, if told to."""

    name = "words"
    requires = ("response",)
    tolerance = 0.0

    def __init__(self, *, drift: float = 0.0, fails: bool = False, sends: bool = False) -> None:
        self.params = {"drift": drift, "fails": fails, "sends": sends}
        self.calls: list[int] = []
        self.sent = 0

    def fingerprint(self) -> dict[str, Any]:
        return {}

    def score(self, examples: Sequence[Example]) -> Scores:
        again = bool(self.calls)
        self.calls.append(len(examples))
        if again and self.params["fails"]:
            raise ModelError("the model is gone")
        if again and self.params["sends"]:
            account().spend()
            self.sent += 1
        values = np.array([float(len(item.response) % 17) for item in examples])
        evidence = [
            {"kind": "words", "items": [{"text": item.response[:5], "start": 0, "end": 5}]}
            for item in examples
        ]
        return Scores(values + again * self.params["drift"], {}, tuple(evidence))


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("data") / "answers.jsonl", rows())


@pytest.fixture(scope="module")
def run(answers: Path) -> Run:
    return calibrate(answers, SPEC, alpha=0.2)


@pytest.fixture(scope="module")
def saved(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run's folder, in which an earlier run has left a figure."""
    folder = tmp_path_factory.mktemp("saved")
    (folder / "figures").mkdir()
    (folder / "figures" / "groups.svg").write_text("old")
    return run.save(folder, force=True)


def worst(run: Run, label: int, count: int = 5) -> list[str]:
    """Return the ids of the worst errors, from the table alone."""
    assert run.table is not None and run.codes is not None
    values = next(iter(run.table.columns.values()))
    flagged = values >= run.calibration.threshold
    wrong = (run.codes == 2) & (run.table.labels == label) & (flagged != bool(label))
    sign = 1.0 if label else -1.0
    order = sorted(np.flatnonzero(wrong), key=lambda row: (sign * values[row], row))
    return [run.table.ids[int(row)].as_py() for row in order[:count]]


def test_the_worst_errors_of_the_test_part_are_shown_with_their_texts(
    answers: Path, run: Run, saved: Path
) -> None:
    assert run.examples is not None
    assert [item["id"] for item in run.examples["misses"]] == worst(run, 1)
    assert [item["id"] for item in run.examples["alarms"]] == worst(run, 0)
    coverage, fpr = run.report.test.coverage, run.report.test.fpr
    assert run.examples["n_misses"] == coverage.n - coverage.count
    assert run.examples["n_alarms"] == fpr.count
    known = {example.id: example for example in read(answers)}
    for item in (*run.examples["misses"], *run.examples["alarms"]):
        assert item["response"] == known[item["id"]].response
        assert item["score"] is not None and item["p_value"] is not None
        assert item["p_value"] == run.calibration.p_value([item["score"]])[0]
        assert item["threshold"] == run.calibration.threshold
    page = (saved / "report.html").read_text(encoding="utf-8")
    first = run.examples["misses"][0]
    assert first["response"] and first["response"] in page


@pytest.mark.parametrize("early", [False, True])
def test_no_text_leaves_names_and_scores_and_changes_no_other_file(
    answers: Path, run: Run, saved: Path, tmp_path: Path, early: bool
) -> None:
    bare = calibrate(answers, SPEC, alpha=0.2, context=Context(text=False)) if early else run
    folder = bare.save(tmp_path / "bare", text=False)
    for name in ("report.json", "calibration.json", "scores.parquet"):
        assert (saved / name).read_bytes() == (folder / name).read_bytes()
        assert b"metres high" not in (saved / name).read_bytes()
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "metres high" not in page and "How high" not in page
    assert "Texts are left out" in page
    assert worst(run, 1)[0] in page


def test_figures_are_files_and_old_ones_go(saved: Path) -> None:
    names = {path.name for path in (saved / "figures").iterdir()}
    assert names == {"distributions.svg", "target.svg"}


def test_an_iterator_is_read_once_and_lends_its_texts(answers: Path) -> None:
    examples = list(read(answers, keep=["detector"]))
    from_list = calibrate(examples, SPEC, alpha=0.2).examples
    from_iterator = calibrate(iter(examples), SPEC, alpha=0.2).examples
    assert from_list is not None and from_list["misses"][0]["response"]
    assert from_iterator == from_list


def test_evidence_comes_with_the_same_value_or_not_at_all(answers: Path) -> None:
    examples = list(read(answers))
    for options, note in (
        ({}, ""),
        ({"drift": 0.5}, say("example.differs")),
        ({"fails": True}, "ModelError: the model is gone"),
        ({"sends": True}, say("example.not_sent")),
    ):
        score = Words(**options)
        with limit_calls(CallLimits(cache=None)):
            found = calibrate(examples, score, alpha=0.3).examples
        assert found is not None
        items = (*found["misses"], *found["alarms"])
        assert 0 < len(items) <= 2 * error_examples.MOST
        # Once for all examples, and once for each of the few that are shown.
        assert score.calls[0] == len(examples) and set(score.calls[1:]) == {1}
        assert len(score.calls) == 1 + len(items)
        assert score.sent == 0
        for item in items:
            assert (item["evidence"] is None) == bool(note)
            assert note in item["note"]


def test_scores_without_texts_go_through(tmp_path: Path) -> None:
    lines = ["id,label,detector"]
    lines += [f"{row['id']},{row['label']},{row['detector']}" for row in rows()]
    path = tmp_path / "scores.csv"
    path.write_text("\n".join(lines))
    run = calibrate(path, SPEC, alpha=0.2)
    assert run.examples is not None
    assert "scores alone" in run.examples["note"]
    assert run.report.confounds is None
    page = (run.save(tmp_path / "run") / "report.html").read_text(encoding="utf-8")
    assert worst(run, 1)[0] in page


def test_groups_and_undefined_scores_are_decided_as_the_rule_does(tmp_path: Path) -> None:
    items = rows()
    for index, item in enumerate(items):
        item["kind"] = "even" if int(item["group"][1:]) % 2 else "odd\u202e<b>"
        if index % 9 == 0:
            item["detector"] = None
    path = write(tmp_path / "a.jsonl", items)
    run = calibrate(
        path, SPEC, alpha=0.2, by="kind", guarantee="marginal", undefined="pass", max_fpr=0.5
    )
    assert run.examples is not None and run.rule.groups is not None
    for item in run.examples["misses"]:
        assert item["outcome"] == "pass" and item["group"] is not None
        assert item["threshold"] == run.rule.thresholds(1, [item["group"]])[0]
    folder = run.save(tmp_path / "run")
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "\u202e" not in page and "odd<b>" not in page
    assert (folder / "figures" / "groups.svg").is_file()
    assert json.loads((folder / "report.json").read_text(encoding="utf-8"))["by_group"]["rows"]
