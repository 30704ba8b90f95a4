from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import calibrail
from benchmarks.validity.from_files.files import ALONE, LARGE_ARE_HARD, QUESTIONS, Population, zipf
from benchmarks.validity.from_files.thresholds import TOPICS

HARD = replace(QUESTIONS, slope=0.5, topics=TOPICS)


@pytest.mark.parametrize("population", [ALONE, LARGE_ARE_HARD, QUESTIONS, HARD])
def test_the_stated_rates_are_those_of_an_answer_from_a_new_group(population: Population) -> None:
    rng = np.random.default_rng(5)
    drawn = population.draw(rng, 20_000)
    for label, threshold in ((1, 1.0), (0, 0.5)):
        for topic in (None, *population.topics):
            rows = drawn.labels == label
            if topic is not None:
                rows &= drawn.topics == list(population.topics).index(topic)
            below = np.where(rows, drawn.scores[0] < threshold, 0.0)
            n = np.bincount(drawn.groups[rows], minlength=20_000)
            shares = np.bincount(drawn.groups, below, minlength=20_000)[n > 0] / n[n > 0]
            error = shares.std() / len(shares) ** 0.5
            assert abs(shares.mean() - population.below(threshold, label, topic)) < 4.5 * error


def test_a_quantile_misses_its_share() -> None:
    assert LARGE_ARE_HARD.below(LARGE_ARE_HARD.quantile(0.2), 1) == pytest.approx(0.2)


def test_shares_of_sizes_add_up_beyond_the_largest() -> None:
    shares = zipf(1.6, 50)
    assert sum(shares) == pytest.approx(1.0)
    assert shares[-1] > shares[-2]


@pytest.mark.parametrize("population", [HARD, replace(HARD, suffix=".csv")])
def test_a_file_holds_what_was_drawn(population: Population, tmp_path: Path) -> None:
    drawn = population.draw(np.random.default_rng(5), 30)
    path = population.write(tmp_path, "labelled", drawn, part=["test"] * len(drawn))
    table = calibrail.calibrate(path, "column:column=s0,higher=hallucinated", alpha=0.2).table
    assert table is not None and path.suffix == population.suffix
    by_id = dict(zip(table.ids.to_pylist(), range(len(table)), strict=True))
    order = [by_id[name] for name in drawn.names]
    assert table.labels[order].tolist() == drawn.labels.tolist()
    assert np.array_equal(table.columns["s0"][order], drawn.scores[0])
    groups = np.array(table.groups.to_pylist())[order]
    assert groups.tolist() == [f"labelled {number}" for number in drawn.groups]
