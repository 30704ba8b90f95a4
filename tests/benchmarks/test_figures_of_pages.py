"""Figures that the pages on promises state are those that come out here."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import beta, betabinom, binom

from calibrail import Promise, Requirement, calibrate
from calibrail.conformal import ClassCounts, calibrate_groups, certify_groups
from calibrail.conformal.threshold import minimum_n, rank
from calibrail.options.guarantee import TAKEN

Page = Callable[[str], str]


@pytest.fixture
def page(repository: Path) -> Page:
    def read(name: str) -> str:
        return " ".join((repository / "docs" / f"{name}.md").read_text(encoding="utf-8").split())

    return read


def test_the_fewest_labels(page: Page) -> None:
    rows = re.findall(r"\| (\d+)% \| (\d+) \| (\d+) \| (\d+) \|", page("guarantees"))
    assert len(rows) == 3
    for row in rows:
        share, *fewest = map(int, row)
        alpha = (100 - share) / 100
        pac = [minimum_n(alpha, "pac", delta) for delta in (0.1, 0.025)]
        assert fewest == [minimum_n(alpha), *pac]


def test_missed_by_thresholds_that_pass_the_undefined(page: Page) -> None:
    n, undefined = 100, 0.09
    k = rank(n, 0.1)
    # A threshold comes out where fewer than k are undefined.
    passed = np.arange(k)
    chance = binom.pmf(passed, n, undefined)
    missed = undefined + (1 - undefined) * (k - passed) / (n - passed + 1)
    assert f"do come out miss {chance @ missed / chance.sum():.1%}" in page("thresholds")


def test_hallucinated_among_the_passed(page: Page) -> None:
    passed = 0.2 * 0.1 / (0.2 * 0.1 + 0.8 * 0.7)
    assert f"{passed:.1%} of the passed answers" in page("assumptions")


def test_a_drop_that_twelve_answers_show(page: Page) -> None:
    k, n = rank(100, 0.1), 100
    misses = np.arange(13)
    seen = betabinom.sf(misses - 1, 12, k, n + 1 - k) <= 0.05
    assert binom.pmf(misses, 12, 0.3)[seen].sum() == pytest.approx(0.5, abs=0.02)
    said = "with twelve hallucinated answers a drop from 90 to 70% goes unseen in half"
    assert said in page("shift")


def wrongly_certified(caught: np.ndarray, n: np.ndarray | int) -> np.ndarray:
    """Return where a limit of 90% is certified at 95% confidence, as if all were independent."""
    return beta.ppf(0.05, caught, n - caught + 1) >= 0.9


def test_six_copies_of_each_answer(page: Page) -> None:
    caught = np.arange(1, 301)
    wrong = wrongly_certified(6 * caught, 1800 + 1e-9)
    share = binom.pmf(caught, 300, 0.9)[wrong].sum()
    assert f"six copies of each of 300 answers, a verdict at 5% errs in {share:.0%}" in page(
        "groups-and-clusters"
    )


def test_answers_to_one_question_taken_for_independent(page: Page) -> None:
    rng, runs, correlation = np.random.default_rng(0), 2_000, 0.8
    sizes = rng.integers(1, 16, (runs, 120))
    spread = (1 - correlation) / correlation
    caught = rng.binomial(sizes, rng.beta(0.9 * spread, 0.1 * spread, sizes.shape)).sum(axis=1)
    share = wrongly_certified(caught, sizes.sum(axis=1)).mean()
    (said,) = re.findall(r"made (\d+)% of simulated verdicts wrong", page("groups-and-clusters"))
    assert share == pytest.approx(int(said) / 100, abs=3 * (0.3 * 0.7 / runs) ** 0.5)


def test_labels_for_certified_groups(page: Page) -> None:
    (said,) = re.findall(r"five groups are certified from (\d+)", page("groups-and-clusters"))
    rng, n, runs = np.random.default_rng(1), int(said), 60
    names, certified = list("abcde"), 0
    required = Requirement(max_false_alarms=0.5, min_caught=0.9)
    promise = Promise(alpha=0.1, guarantee="pac", delta=0.025)
    for _ in range(runs):
        # Two standard deviations apart: AUROC 0.92.
        scores = {name: (rng.normal(2, 1, n), rng.normal(0, 1, n)) for name in names}
        every = np.concatenate([both[0] for both in scores.values()])
        groups = [name for name in names for _ in range(n)]
        made = calibrate_groups(every, groups, promise, together=True).groups
        counts = {
            name: ClassCounts(
                *(
                    number
                    for values in both
                    for number in (int((values >= made[name].threshold).sum()), n)
                )
            )
            for name, both in scores.items()
        }
        verdicts = certify_groups(counts, required, made)
        certified += sum(item.certificate.verdict == "certified" for item in verdicts.values())
    assert certified / (5 * runs) == pytest.approx(0.8, abs=0.08)


def test_the_first_run_of_the_quickstart(page: Page) -> None:
    said = page("quickstart")
    [command] = re.findall(r"calibrail calibrate example:facts (.*?) -o runs/first", said)
    assert command == "--score novelty \\ --alpha 0.2 --max-false-alarms 0.6"
    found = calibrate(
        "example:facts", score="novelty", alpha=0.2, max_false_alarms=0.6
    ).report.to_dict()
    fpr, both = found["test"]["fpr"], found["certificate"]["region"]
    assert found["verdict"] == "certified" and both["coverage"]["lower"] >= 0.8
    for sentence in (
        f"`example:facts`, {found['data']['n_examples']} [synthetic]",
        f"The threshold is {found['threshold']:.4f}. It catches at least 80%",
        f"It flags {fpr['count']} of the {fpr['n']} faithful answers, {fpr['estimate']:.1%}, and "
        f"at most {both['fpr']['upper']:.1%} of those to come; both bounds together have "
        f"{both['confidence']:.0%} confidence",
    ):
        assert sentence in said


def ever_rejected(levels: list[float]) -> float:
    """Return how often looks at data that grows reject a truth on the limit, at their worst.

    Before each look whoever knows the truth chooses by the last normal score z how many times as
    many answers there are to be; the levels are those of the looks.
    """
    z, ever = np.linspace(-6.0, 5.0, 221), np.zeros(221)
    first, *others = -ndtri(levels)

    def expected(mean: np.ndarray, spread: float, limit: float) -> np.ndarray:
        weights = np.exp(-0.5 * ((z - mean[:, None]) / spread) ** 2) * (z[1] - z[0])
        later = weights @ np.where(z < limit, ever, 0.0) / spread / np.sqrt(2.0 * np.pi)
        return ndtr((mean - limit) / spread) + later

    for limit in others[::-1]:
        times = 1.0 + np.geomspace(0.05, 60.0, 20)
        ways = [expected(z / n**0.5, (1.0 - 1.0 / n) ** 0.5, limit) for n in times]
        ever = np.max(ways, axis=0)
    return float(expected(np.zeros(1), 1.0, first)[0])


def test_numbers_of_answers_that_hang_on_the_last_look(page: Page) -> None:
    said = re.search(r"5% may become ([\d.]+)%, with `--looks 6` ([\d.]+)%", page("certificates"))
    assert said is not None
    spent = [0.05 * TAKEN * (1.0 - TAKEN) ** look for look in range(6)]
    for figure, levels in zip(said.groups(), (spent, [0.05 / 6] * 6), strict=True):
        assert ever_rejected(levels) == pytest.approx(float(figure) / 100.0, abs=0.004)
