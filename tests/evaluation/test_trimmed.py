from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrail.conformal import fit_rule
from calibrail.conformal.mean_bound import mean_bound
from calibrail.evaluation import Origin, Sample, evaluate
from calibrail.evaluation.sample import CALIBRATION, TEST
from calibrail.evaluation.sections.sentences import sentences_section, simplest
from calibrail.evaluation.trimmed import Trimmed
from calibrail.scores.sentence_table import SentenceTable
from calibrail.settings import Promise, Requirement

near = pytest.approx


def made(
    n: int, seed: int, groups: Any = None, tied: bool = False, strength: float = 1.5
) -> tuple[Sample, SentenceTable]:
    """Return n answers of one to eight sentences; every second one holds unsupported ones."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, n)
    answers = np.repeat(np.arange(n), sizes)
    labels = ((answers % 2 == 1) & (rng.random(len(answers)) < 0.3)).astype(np.int8)
    first = np.concatenate(([0], np.cumsum(sizes)))[:-1]
    labels[first[1::2]] = 1
    scores = rng.normal(strength * labels)
    if tied:
        scores = np.round(scores)
    table = SentenceTable.of(sizes, labels, rad=scores, other=rng.normal(size=len(labels)))
    split = np.where(np.arange(n) % 4 < 2, CALIBRATION, TEST).astype(np.int8)
    of_answers = table.any(labels == 1).astype(np.int8)
    lot = rng.permutation(n).astype(np.uint64)
    return Sample(table.values("rad", "flag"), of_answers, split, groups, lot=lot), table


def at(threshold: float, sample: Sample, table: SentenceTable, key: str = "rad") -> Trimmed:
    return Trimmed.at(np.full(len(sample), threshold), sample, table, key, "flag")


@given(seed=st.integers(0, 10_000), tied=st.booleans(), threshold=st.sampled_from([-1.0, 0.0, 1.0]))
def test_shares_freed_and_touched_are_what_values_reach(
    seed: int, tied: bool, threshold: float
) -> None:
    sample, table = made(40, seed, tied=tied)
    trimmed = at(threshold, sample, table)
    counts = trimmed.counts
    reached = sample.values >= threshold
    assert counts == sample.counts(reached)
    delivered = trimmed.delivered(0.9)
    assert (delivered.freed.count, delivered.freed.n) == (counts.caught, counts.n_hallucinated)
    assert delivered.untouched.n == delivered.emptied.n == int((sample.split == TEST).sum())
    assert delivered.emptied.count + delivered.untouched.count <= delivered.untouched.n


def test_one_answer_of_each_group_counts_whatever_its_class() -> None:
    sample, table = made(80, 1, groups=np.repeat(np.arange(20), 4))
    delivered = at(0.5, sample, table).delivered(0.95)
    # Two test answers in each group: a faithful one and a hallucinated one.
    assert delivered.freed.n == 20
    assert delivered.untouched.n == 20
    everyone = at(0.5, sample, table).everyone
    assert len(np.unique(sample.groups[everyone])) == 20  # type: ignore[index]
    assert np.all(np.diff(sample.lots[everyone].astype(np.int64)) > 0)
    free = Sample(
        sample.values, sample.labels, sample.split, sample.groups, independent=True, lot=sample.lot
    )
    assert at(0.5, free, table).delivered(0.95).untouched.n == 40


def test_what_one_score_keeps_beyond_another_is_paired() -> None:
    sample, table = made(400, 2)
    mine, other = at(0.5, sample, table), at(0.5, sample, table, "other")
    gap = other.kept_beyond(mine, 0.95)
    rows = mine.everyone
    pairs = other.outcomes.shares(rows) - mine.outcomes.shares(rows)
    assert gap.estimate == near(pairs.mean())
    bound = mean_bound((pairs + 1.0) / 2.0, 0.95)
    assert (gap.lower, gap.upper) == near((2 * bound.lower - 1, 2 * bound.upper - 1))
    assert mine.kept_beyond(mine, 0.95).estimate == 0.0


def test_the_interval_of_the_ranking_is_that_of_answers() -> None:
    sample, table = made(200, 3)
    alone = at(0.0, sample, table).auroc(0.95)
    together = Sample(
        sample.values, sample.labels, sample.split, np.arange(200) // 20, lot=sample.lot
    )
    grouped = at(0.0, together, table).auroc(0.95)
    assert alone.estimate == grouped.estimate
    # Every sentence twice is no new evidence: the answers are as many as before.
    twice = SentenceTable.of(
        np.diff(table.first) * 2,
        np.repeat(table.labels, 2),
        rad=np.repeat(table.columns["rad"], 2),
    )
    again = at(0.0, sample, twice).auroc(0.95)
    assert (again.lower, again.upper) == near((alone.lower, alone.upper))


def test_the_curve_holds_what_other_thresholds_do() -> None:
    sample, table = made(120, 4, tied=True)
    section = sentences_section(at(1.0, sample, table), 0.95)
    curve = section["curve"]
    for threshold, freed, kept in zip(*curve.values(), strict=True):
        delivered = at(threshold, sample, table).delivered(0.95)
        assert freed == delivered.freed.estimate
        assert kept == near(delivered.kept_supported.estimate)
    assert np.all(np.diff(curve["freed"]) <= 0.0) and np.all(np.diff(curve["kept"]) >= 0.0)


def test_withholding_answers_whole_frees_as_many_and_keeps_less() -> None:
    sample, table = made(200, 5)
    trimmed = at(0.5, sample, table)
    whole = sentences_section(trimmed, 0.95)["flagged_whole"]
    cut = trimmed.delivered(0.95)
    assert whole["freed"]["count"] >= cut.freed.count
    assert whole["kept_supported"]["estimate"] < (cut.kept_supported.estimate or 0.0)
    assert whole["untouched"]["count"] == cut.untouched.count


def test_the_simplest_rules_free_nothing_and_keep_nothing() -> None:
    nothing, everything = simplest(at(0.5, *made(80, 6)), 0.95)
    assert (nothing["freed"]["estimate"], nothing["kept_supported"]["estimate"]) == (0.0, 1.0)
    assert (everything["freed"]["estimate"], everything["kept_supported"]["estimate"]) == (1, 0)
    assert everything["emptied"]["estimate"] == 1.0


def evaluated(n: int = 400, seed: int = 7, **limits: Any) -> Any:
    sample, table = made(n, seed, strength=2.5)
    promise = Promise(alpha=0.2, unit="sentence")
    rule = fit_rule(sample.values, sample.labels, sample.rows(CALIBRATION), promise)
    origin = Origin(score={"name": "rad", "key": "rad", "params": {}}, data={"n_alike": 0})
    return evaluate(rule, sample, promise, Requirement(**limits), origin, sentences=table)


def test_a_report_of_sentences_comes_back_from_its_dictionary() -> None:
    report = evaluated(min_kept=0.3, min_coverage=0.6)
    content = report.to_dict()
    assert content["unit"] == "sentence" and report.verdict == "certified"
    again = type(report).from_dict(content)
    assert again.to_dict() == content
    assert again.test.kept_supported == report.test.kept_supported


def test_a_report_of_answers_holds_nothing_of_sentences() -> None:
    sample, _ = made(200, 8)
    rule = fit_rule(sample.values, sample.labels, sample.rows(CALIBRATION), Promise(alpha=0.2))
    origin = Origin(score={"name": "rad", "params": {}}, data={"n_alike": 0})
    content = evaluate(rule, sample, Promise(alpha=0.2), Requirement(), origin).to_dict()
    assert content["unit"] == "answer"
    assert "sentences" not in content and "freed" not in content["test"]
    assert "unit" not in content["promise"] and "min_kept" not in content["requirement"]


def test_the_means_are_those_of_sentences() -> None:
    report = evaluated()
    means = report.test.means
    assert means["hallucinated"].n + means["faithful"].n == report.sentences["n_sentences"]
    assert report.test.overlap.lower is None and report.test.welch.p_value is None
