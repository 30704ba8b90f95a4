"""Do scores and comparisons give the figures that are known for public data?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from calibrail.data import Example, read
from calibrail.data.sentences import sentence_examples
from calibrail.engine import score_examples
from calibrail.pipelines.compare import compare
from calibrail.scores import ScoreTable, build, parse_specs
from calibrail.scores.registry import ColumnScore
from tests.answers import write as write_rows

FIELDS = ("question", "contexts", "response", "label", "group", "id")


def scored(answers: Iterable[Example], names: str) -> ScoreTable:
    return score_examples(answers, [build(spec) for spec in parse_specs(names)])


def sides(table: ScoreTable, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    values = table.columns[name]
    defined = ~np.isnan(values)
    return values[defined & (table.labels == 0)], values[defined & (table.labels == 1)]


def auroc(table: ScoreTable, name: str) -> tuple[float, float]:
    """Return the AUROC and its standard error (Hanley and McNeil, 1982)."""
    faithful, hallucinated = sides(table, name)
    n, m = len(faithful), len(hallucinated)
    below = np.searchsorted(np.sort(faithful), hallucinated, side="left").sum()
    upto = np.searchsorted(np.sort(faithful), hallucinated, side="right").sum()
    area = float(below + upto) / (2 * n * m)
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    spread = (m - 1) * (q1 - area**2) + (n - 1) * (q2 - area**2)
    return area, float(np.sqrt((area * (1 - area) + spread) / (n * m)))


def effect(table: ScoreTable, name: str) -> tuple[float, float]:
    """Return Cohen's d and its standard error (Hedges and Olkin, 1985)."""
    faithful, hallucinated = sides(table, name)
    n, m = len(faithful), len(hallucinated)
    pooled = ((n - 1) * faithful.var(ddof=1) + (m - 1) * hallucinated.var(ddof=1)) / (n + m - 2)
    d = float((hallucinated.mean() - faithful.mean()) / np.sqrt(pooled))
    return d, float(np.sqrt((n + m) / (n * m) + d**2 / (2 * (n + m))))


class TestHaluEval:
    @pytest.fixture(scope="class")
    @staticmethod
    def table(real_data: Path) -> ScoreTable:
        answers = islice(read(real_data / "halueval" / "qa_data.json"), 800)
        return scored(answers, "sgi,rad")

    @pytest.fixture(scope="class")
    @staticmethod
    def longer(real_data: Path, table: ScoreTable) -> ScoreTable:
        # As in the repository of the paper: answers of at least 20 characters.
        source = real_data / "halueval" / "qa_data.json"
        ids = {example.id for example in read(source, options={"min_chars": 20})}
        kept = np.array([item in ids for item in table.ids.to_pylist()])
        values = {name: column[kept] for name, column in table.columns.items()}
        return replace(table, labels=table.labels[kept], columns=values)

    def test_sgi_reproduces_the_row_of_the_paper(self, longer: ScoreTable) -> None:
        # Table 1 of arXiv 2512.13771, all-MiniLM-L6-v2; its values are the negated ones.
        for values, published in zip(sides(longer, "sgi"), (1.203, 0.856), strict=True):
            error = values.std(ddof=1) / np.sqrt(len(values))
            assert abs(-values.mean() - published) < 3 * error
        for (found, error), published in (
            (effect(longer, "sgi"), 1.28),
            (auroc(longer, "sgi"), 0.824),
        ):
            assert abs(found - published) < 3 * error

    def test_sgi_over_answers_of_any_length(self, table: ScoreTable) -> None:
        faithful, hallucinated = sides(table, "sgi")
        assert -faithful.mean() == pytest.approx(1.12, abs=0.01)
        assert -hallucinated.mean() == pytest.approx(0.85, abs=0.01)
        assert effect(table, "sgi")[0] == pytest.approx(1.08, abs=0.05)
        assert auroc(table, "sgi")[0] == pytest.approx(0.80, abs=0.02)

    def test_length_alone_is_hard_to_beat(self, real_data: Path) -> None:
        table = scored(read(real_data / "halueval" / "qa_data.json"), "length")
        assert auroc(table, "length")[0] == pytest.approx(0.975, abs=0.001)

    def test_rad_would_flag_nearly_every_faithful_answer(self, table: ScoreTable) -> None:
        faithful, hallucinated = sides(table, "rad")
        assert np.mean(faithful >= np.quantile(hallucinated, 0.05)) > 0.95


class TestRagTruth:
    @pytest.fixture(scope="class")
    @staticmethod
    def answers(real_data: Path) -> list[Example]:
        return list(read(real_data / "ragtruth", format="ragtruth"))

    @pytest.fixture(scope="class")
    @staticmethod
    def table(answers: list[Example]) -> ScoreTable:
        return scored(answers, "sgi,rad,novel_count")

    @pytest.mark.parametrize(
        ("name", "known"), [("novel_count", 0.81), ("sgi", 0.52), ("rad", 0.60)]
    )
    def test_the_known_areas(self, table: ScoreTable, name: str, known: float) -> None:
        found, error = auroc(table, name)
        assert abs(found - known) < error

    def test_new_words_stand_ahead_of_embeddings(
        self, answers: list[Example], table: ScoreTable, tmp_path: Path
    ) -> None:
        """On human labels: novel_count ranks better than SGI, and raises fewer false alarms."""
        rows = [
            {name: getattr(answer, name) for name in FIELDS} | {"by_angle": float(value)}
            for answer, value in zip(answers, table.columns["sgi"], strict=True)
        ]
        file = write_rows(tmp_path / "answers.jsonl", rows)
        by_angle = ColumnScore(column="by_angle", higher="hallucinated")
        winner = compare(file, [by_angle, "novel_count"], alpha=0.1).comparison.winner
        assert winner.candidate == "novel_count"
        (test,) = (test for test in winner.choosing if test.name == "by_angle")
        assert test.fpr.estimate is not None and test.fpr.estimate > 0.0
        # Corrected for all pairs of detectors and baselines and both measures, it is not separated.
        assert test.fpr.p_value < 0.01 < test.fpr.p_adjusted < 0.1
        assert test.auroc.estimate is not None and test.auroc.estimate < 0.0
        assert test.auroc.p_adjusted < 0.005
        # A count of new words is no better than the other plain baselines.
        assert winner.name is None
        assert set(winner.not_separated) <= {"length", "novelty", "rouge_l", "by_angle"}


class TestMarks:
    """What people marked in public data, in its original files."""

    def test_ragtruth_s_marks_agree_with_its_labels(self, real_data: Path) -> None:
        reading = read(real_data / "ragtruth", by_sentence=True, require=("response",), strict=True)
        answers = list(reading)
        assert (len(answers), sum(bool(e.spans) for e in answers)) == (458, 85)
        assert all((e.label == 1) == bool(e.spans) for e in answers)
        sentences = [item for e in answers for item in sentence_examples(e)]
        assert all(item.label in (0, 1) for item in sentences)
        unsupported = sum(item.label == 1 for item in sentences)
        assert (unsupported, len(sentences)) == (211, 3060)

    def test_faithbench_s_labels_are_those_of_its_marks(self, real_data: Path) -> None:
        folder = real_data / "faithbench"
        answers = list(read(folder, by_sentence=True, require=("response",), strict=True))
        table = list(read(folder / "summaries.csv", require=("response",)))
        assert [(e.digest(), e.label) for e in answers] == [(e.digest(), e.label) for e in table]
        assert (len(answers), sum(bool(e.spans) for e in answers)) == (750, 511)

    @pytest.mark.parametrize(
        ("name", "n", "n_answers", "n_unsupported"),
        [("sentences_119", 959, 119, 705), ("sentences_237", 1900, 237, 1384)],
    )
    def test_wikibio_s_sentences_are_gathered(
        self, real_data: Path, name: str, n: int, n_answers: int, n_unsupported: int
    ) -> None:
        reading = read(
            real_data / "wikibio" / f"{name}.csv",
            by_sentence=True,
            require=("response",),
            strict=True,
        )
        answers = list(reading)
        sentences = [item for e in answers for item in sentence_examples(e)]
        assert (reading.n_rows, len(answers), len(sentences)) == (n, n_answers, n)
        assert sum(item.label or 0 for item in sentences) == n_unsupported
        assert all(
            e.label == max(item.label or 0 for item in sentence_examples(e)) for e in answers
        )
