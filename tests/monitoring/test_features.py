"""Are values counted in bins that say what they are, those never seen before among them?"""

from __future__ import annotations

import numpy as np
import pytest

from calibrail.monitoring.history import (
    FEATURES,
    MOST_BINS,
    MOST_LANGUAGES,
    Bins,
    Rows,
    learn_bins,
    table,
)

NOTHING = np.full(50, np.nan)


def learnt(feature: str, values: list[float] | np.ndarray, languages: list[str]) -> Bins:
    sample = np.full((len(FEATURES), len(values)), np.nan)
    sample[FEATURES.index(feature)] = values
    (bins,) = learn_bins(sample, languages)
    assert Bins.from_dict(bins.to_dict()) == bins
    return bins


def test_few_values_and_the_gaps_between_them_have_bins_of_their_own() -> None:
    bins = learnt("chunks", [3, 5, 3, 5, np.nan, 5], [])
    assert bins.n == 5
    assert bins.assign(np.array([2, 3, 4, 5, 6, np.nan]), []).tolist() == [0, 1, 2, 3, 4, -1]
    assert bins.summary(np.array([0, 2, 0, 3, 0]), 21.0) == {"n": 5, "mean": 4.2, "median": 5.0}


def test_other_numbers_are_cut_at_quantiles_finer_at_the_ends() -> None:
    values = np.random.default_rng(0).normal(0.0, 1.0, 5_000)
    bins = learnt("score", values, [])
    counts = np.bincount(bins.assign(values, []), minlength=bins.n)
    assert bins.n == MOST_BINS and counts.sum() == 5_000
    # Below the least and above the greatest value there is nothing yet.
    assert counts[0] == counts[-1] == 0
    assert counts[1] < 0.02 * 5_000 and counts[4:-4].max() < 0.06 * 5_000
    assert bins.assign(np.array([-9.0, 9.0]), []).tolist() == [0, MOST_BINS - 1]
    summary = bins.summary(counts, float(values.sum()))
    assert summary["median"] == pytest.approx(np.median(values), abs=0.02)
    assert summary["mean"] == pytest.approx(values.mean())


def test_a_value_that_many_share_is_not_cut() -> None:
    values = np.concatenate([np.zeros(400), np.linspace(1.0, 2.0, 40)])
    bins = learnt("response_length", values, [])
    assert len(set(bins.assign(np.zeros(9), []).tolist())) == 1
    assert (
        bins.assign(np.array([0.0, -0.0, -1.0]), [])[:2].tolist()
        == [bins.assign(np.zeros(1), [])[0]] * 2
    )
    assert bins.assign(np.array([-1.0]), [])[0] == 0


def test_undefined_is_no_or_yes() -> None:
    bins = learnt("undefined", [0, 0, 0], [])
    assert bins.assign(np.array([0.0, 1.0, np.nan]), []).tolist() == [0, 1, -1]
    assert bins.summary(np.array([3, 1]), 1.0) == {"n": 4, "share": 0.25}


def test_languages_are_ordered_by_frequency_and_new_ones_share_a_bin() -> None:
    names = ["de", "en", "fr"]
    bins = learnt("language", [1, 0, 1, 1, 2, 2], names)
    assert bins.languages == ("en", "fr", "de") and not bins.rare
    later = [*names, "it"]
    assert bins.assign(np.array([0, 1, 2, 3, MOST_LANGUAGES]), later).tolist() == [2, 0, 1, 4, 4]
    counts = np.array([5, 3, 1, 0, 1])
    assert bins.summary(counts, 0.0)["shares"] == {"en": 0.5, "fr": 0.3, "de": 0.1, "other": 0.1}


def test_more_languages_than_bins_share_one() -> None:
    names = [f"l{at}" for at in range(40)]
    bins = learnt("language", [at for at in range(40) for _ in range(41 - at)], names)
    assert bins.n == MOST_BINS and bins.languages == tuple(names[:30])
    assert bins.assign(np.array([29, 30, 39, 40]), [*names, "new"]).tolist() == [29, 30, 30, 31]
    counts = np.arange(MOST_BINS)
    assert bins.summary(counts, 0.0)["shares"]["rarer"] == 30 / counts.sum()


def test_a_table_numbers_languages_as_they_come_and_no_more_than_it_keeps() -> None:
    codes: dict[str, int] = {}
    first = Rows.of([0.1, 0.2], [0, 0], language=["de", None])
    second = Rows.of([0.1, None], [0, 1], language=["en", "de"], failed=[False, True])
    assert table(first, codes)[-1].tolist()[0] == 0 and np.isnan(table(first, codes)[-1, 1])
    values = table(second, codes)
    assert values[-1].tolist() == [1, 0] and codes == {"de": 0, "en": 1}
    assert values[1, 0] == 0.0 and np.isnan(values[:2, 1]).all()
    many = [f"x{at}" for at in range(400)]
    last = table(Rows.of([0.1] * 400, [0] * 400, language=many), codes)[-1]
    assert len(codes) == MOST_LANGUAGES and last[-1] == MOST_LANGUAGES
    assert learnt("language", last, [*codes]).assign(last[-1:], [*codes]).tolist() == [31]


def test_numbers_beyond_all_measure_stay_finite() -> None:
    values = table(Rows.of([1e308, -1e308], [1, 0]), {})[0]
    assert np.isfinite(values.sum()) and np.isfinite(learnt("score", values, []).edges).all()
