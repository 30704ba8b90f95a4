"""At reduced size; ``make validate`` runs the same simulations in full."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.validity import KINDS, Check, failures, sentences
from benchmarks.validity.check import Setting
from benchmarks.validity.sentences import ALIKE, DESIGNS, IN_TURN, KEY, KNOWN, Written
from calibrail.evaluation.measures import Outcomes
from calibrail.scores.table import SentenceTable

Run = Callable[[Setting], Iterator[Check]]
ERROR = 1e-4


@pytest.mark.parametrize("written", KNOWN)
def test_the_stated_rates_are_those_of_drawn_answers(written: Written) -> None:
    rng, n = np.random.default_rng(5), 20_000
    bad, good = (written.draw(rng, n, hallucinated=label) for label in (True, False))
    near = 5.0 * 0.5 / n**0.5
    for threshold in (0.0, 1.0):
        values = bad.values(KEY, "flag")
        assert np.mean(values < threshold) == pytest.approx(written.missed(threshold), abs=near)
        highest = good.values(KEY, "flag")
        assert np.mean(highest < threshold) == pytest.approx(written.untouched(threshold), abs=near)
        supported = bad.labels == 0
        kept, of = (bad.count(supported & (bad.columns[KEY] < threshold)), bad.count(supported))
        assert np.mean(kept[of > 0] / of[of > 0]) == pytest.approx(
            written.kept(threshold), abs=near
        )
    limit = sentences.threshold_of(written, 0.2)
    assert written.missed(limit) == pytest.approx(0.2)


@pytest.mark.parametrize("written", DESIGNS)
def test_answers_have_1_to_50_sentences_and_are_as_alike_as_stated(written: Written) -> None:
    table = written.draw(np.random.default_rng(5), 20_000)
    sizes = np.diff(table.first)
    assert (sizes.min(), sizes.max()) == (1, 50)
    assert table.any(table.labels == 1).all() and (table.labels == 0).any()
    supported = np.where(table.labels == 0, table.columns[KEY], np.nan)
    both = (table.answers[1:] == table.answers[:-1]) & ~np.isnan(supported[1:] * supported[:-1])
    alike = np.corrcoef(supported[1:][both], supported[:-1][both])[0, 1]
    expected = written.shared + (1.0 - written.shared) * written.step
    # Neighbours that are alike count for fewer pairs than there are: 50 at most for one.
    assert alike == pytest.approx(expected, abs=5.0 * (50 / both.sum()) ** 0.5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("run", "runs"),
    [
        (sentences.removed, 1000),
        (sentences.removed_undefined, 500),
        (sentences.removed_pac, 1000),
        (sentences.removed_clustered, 100),
        (sentences.removed_by_topic, 100),
        (sentences.stopped, 100),
    ],
    ids=lambda item: getattr(item, "__name__", str(item)),
)
def test_all_unsupported_sentences_are_removed_as_promised(run: Run, runs: int, kind: str) -> None:
    if run is sentences.removed_pac and kind != "continuous":
        pytest.skip("the true rates of its thresholds are known of continuous scores alone")
    checks = tuple(run(Setting(kind, 30, 0.1, runs, seed=7)))  # type: ignore[arg-type]
    assert failures(checks, ERROR) == ()
    assert all(check.runs == runs for check in checks)


def highest_of_unsupported(table: SentenceTable, key: str, undefined: str) -> np.ndarray:
    """The answer's value as if one unsupported sentence, not all of them, had to go."""
    turned = replace(table, columns={key: -table.columns[key]})
    return -VALUES(turned, key, undefined)  # type: ignore[arg-type]


VALUES = SentenceTable.values


@pytest.mark.parametrize("run", [sentences.removed, sentences.removed_pac])
def test_a_wrong_value_of_an_answer_is_noticed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SentenceTable, "values", highest_of_unsupported)
    assert failures(tuple(run(Setting("continuous", 30, 0.1, 500, seed=7))), ERROR)


@pytest.mark.parametrize("run", [sentences.kept_bound, sentences.wrong_verdicts])
def test_verdicts_about_trimming_err_as_seldom_as_stated(run: Run) -> None:
    checks = tuple(run(Setting("continuous", 30, 0.05, 60, seed=7)))
    assert failures(checks, ERROR) == ()


def test_a_bound_that_takes_shares_for_normal_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def normal(values: np.ndarray, confidence: float) -> float:
        return float(np.mean(values) - 1.64 * np.std(values) / len(values) ** 0.5)

    monkeypatch.setattr(sentences, "mean_at_least", normal)
    checks = tuple(sentences.kept_bound(Setting("continuous", 30, 0.05, 300, seed=7)))
    assert failures(checks, ERROR)


def test_shares_in_the_order_of_a_file_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are sorted by score; a bet that knows the order wins whatever the mean is."""
    shares = Outcomes.shares
    monkeypatch.setattr(Outcomes, "shares", lambda *given: np.sort(shares(*given))[::-1])
    monkeypatch.setattr(sentences, "JUDGED", sentences.JUDGED[1:])
    checks = tuple(sentences.wrong_verdicts(Setting("continuous", 30, 0.05, 40, seed=7)))
    assert [check.design for check in failures(checks, ERROR)] == [
        f"kept just too low, {sentences.JUDGED[0].name}"
    ]


def test_scores_that_are_lost_are_as_many_as_stated() -> None:
    table = replace(IN_TURN, lost=0.1).draw(np.random.default_rng(5), 5000)
    lost = np.isnan(table.columns[KEY])
    assert lost.mean() == pytest.approx(0.1, abs=5.0 * 0.3 / len(lost) ** 0.5)
    assert not np.isnan(ALIKE.draw(np.random.default_rng(5), 50).columns[KEY]).any()
