from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
from mapie.risk_control import BinaryClassificationController
from numpy.typing import NDArray
from scipy.stats import binom, norm
from statsmodels.stats.multitest import multipletests

from calibrail.conformal.risk_control import (
    RISKS,
    CandidateSearch,
    Risk,
    RiskControl,
    control_risks,
    counts,
    p_values,
    parse_risk,
    parse_risks,
)
from calibrail.errors import CalibrailError, InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
BASE_RATE = 0.3


def controlled(scores: Any, labels: Any, risks: Any, **options: Any) -> RiskControl:
    """Control risks with the options of the search among the others."""
    names = ("grid", "method", "candidates", "learn_share", "seed")
    search = CandidateSearch(**{name: options.pop(name) for name in names if name in options})
    return control_risks(scores, labels, risks, search=search, **options)


def draw(n: int, gap: float, seed: int) -> tuple[Floats, Ints]:
    rng = np.random.default_rng(seed)
    labels = (rng.random(n) < BASE_RATE).astype(np.int64)
    return rng.normal(gap * labels), labels


def keeps(thresholds: Floats, risks: tuple[Risk, ...], gap: float) -> NDArray[np.bool_]:
    """Which thresholds keep all promises on the population that ``draw`` draws from."""
    recall, fpr = norm.sf(thresholds - gap), norm.sf(thresholds)
    flagged = BASE_RATE * recall + (1 - BASE_RATE) * fpr
    true = {
        "recall": recall,
        "fpr": fpr,
        "abstention": flagged,
        "precision": BASE_RATE * recall / flagged,
        "accuracy": BASE_RATE * recall + (1 - BASE_RATE) * (1 - fpr),
    }
    return np.all(
        [
            true[risk.name] >= risk.level
            if risk.relation == ">="
            else true[risk.name] <= risk.level
            for risk in risks
        ],
        axis=0,
    )


def counted(
    scores: Floats, labels: Ints, thresholds: Floats, risk: Risk
) -> tuple[list[int], list[int]]:
    """Wrong decisions and trials, by the definition, one threshold at a time."""
    wrong, trials = [], []
    for threshold in thresholds:
        flag = scores >= threshold
        loss, counts = {
            "precision": (labels == 0, flag),
            "recall": (~flag, labels == 1),
            "accuracy": (flag != (labels == 1), np.ones_like(flag)),
            "fpr": (flag, labels == 0),
            "abstention": (flag, np.ones_like(flag)),
        }[risk.name]
        wrong.append(int((loss & counts).sum()))
        trials.append(int(counts.sum()))
    return wrong, trials


def exact_p(scores: Floats, labels: Ints, thresholds: Floats, risks: tuple[Risk, ...]) -> Floats:
    rows = []
    for risk in risks:
        wrong, trials = counted(scores, labels, thresholds, risk)
        rows.append(
            [
                binom.cdf(k, m, risk.tolerated) if m else 1.0
                for k, m in zip(wrong, trials, strict=True)
            ]
        )
    return np.max(rows, axis=0)


def direct(
    scores: Floats,
    labels: Ints,
    thresholds: Floats,
    risks: dict[str, float],
    method: str = "bonferroni_holm",
) -> BinaryClassificationController:
    """MAPIE used as its documentation says, on scores that are probabilities already."""
    controller = BinaryClassificationController(
        lambda x: np.column_stack([1 - x, x]),
        risk=list(risks),
        target_level=list(risks.values()),
        confidence_level=0.9,
        best_predict_param_choice="fpr",
        list_predict_params=thresholds,
        fwer_method=method,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return controller.calibrate(scores, labels)


# --- reading risks


@pytest.mark.parametrize(
    "text",
    ["precision>=0.9", "  recall >= 0.8 ", "accuracy>=.95", "fpr <=0.2", "abstention<= 3e-1"],
)
def test_a_risk_reads_and_prints(text: str) -> None:
    risk = parse_risk(text)
    assert risk.relation == RISKS[risk.name]
    assert parse_risk(str(risk)) == risk


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("precision<=0.9", "precision takes >=, as in 'precision>=0.9'; got '<='"),
        ("recall<=0.9", "'recall>=0.9'"),
        ("accuracy<=0.9", "'accuracy>=0.9'"),
        ("fpr>=0.1", "fpr takes <=, as in 'fpr<=0.1'; got '>='"),
        ("abstention>0.1", "'abstention<=0.1'; got '>'"),
        ("fpr=0.1", "'fpr<=0.1'; got '='"),
        ("coverage>=0.9", "one of precision, recall, accuracy, fpr, abstention"),
        ("precision>=0", "the level of precision must lie in (0, 1); got 0.0"),
        ("precision>=1", "must lie in (0, 1)"),
        ("precision>=nan", "must lie in (0, 1)"),
        ("fpr<=-0.1", "must lie in (0, 1)"),
        ("precision>=90%", "must end in a number in (0, 1), as in 'precision>=0.9'"),
        ("precision", "must read like 'precision>=0.9' or 'fpr<=0.2'; got 'precision'"),
        ("", "must read like"),
        (">=0.9", "must read like"),
    ],
)
def test_a_wrong_risk_is_answered_with_the_right_form(text: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_risk(text)
    assert says in str(caught.value)


def test_each_risk_is_named_once_and_at_least_one() -> None:
    with pytest.raises(InputError, match=r"name fpr once; got 'fpr<=0\.1' and 'fpr<=0\.2'"):
        parse_risks(["fpr<=0.1", "recall>=0.8", "fpr<=0.2"])
    with pytest.raises(InputError, match=r"at least one, as in 'precision>=0\.9'"):
        parse_risks([])
    assert parse_risks("fpr<=0.1") == (Risk("fpr", "<=", 0.1),)


def test_a_tolerated_share_is_the_decimal_number() -> None:
    assert parse_risk("precision>=0.9").tolerated == 0.1  # 1 - 0.9 is 0.09999999999999998
    assert parse_risk("fpr<=0.2").tolerated == 0.2


# --- oracles


@pytest.mark.parametrize("method", ["bonferroni_holm", "bonferroni"])
@pytest.mark.parametrize(
    "risks",
    [
        {"precision": 0.7, "recall": 0.7},
        {"accuracy": 0.75},
        {"fpr": 0.3, "recall": 0.6, "predicted_positive_fraction": 0.5},
    ],
)
def test_the_valid_set_is_the_one_of_mapie_used_directly(
    risks: dict[str, float], method: str
) -> None:
    """Named risks of MAPIE give the same set, but for how a count is rounded.

    MAPIE recovers the count of wrong decisions as ceil(n * r). Its named performances have r = 1 -
    hits / n, ours r = wrong / n; where one of the two products ends above the whole number, that
    side counts one wrong decision more. Its p-value is then the binomial tail one further, or
    Hoeffding's bound if that is smaller: never below the exact tail.
    """
    ours = [
        f"abstention<={level}"
        if name == "predicted_positive_fraction"
        else f"{name}{RISKS[name]}{level}"
        for name, level in risks.items()
    ]
    agreed = 0
    for seed in range(10):
        scores, labels = draw(600, 2.5, seed)
        scores = norm.cdf(scores - 1)  # probabilities, which MAPIE needs
        thresholds = np.linspace(0.1, 0.9, 33)
        theirs = direct(scores, labels, thresholds, risks, method)
        found = control_risks(
            scores, labels, ours, search=CandidateSearch(method=method, candidates=thresholds)
        )
        exact = exact_p(scores, labels, thresholds, found.risks)
        p, q = np.array(found.p_values), theirs.p_values[:, 0]
        assert (p >= exact * (1 - 1e-9)).all() and (q >= exact * (1 - 1e-9)).all()
        same = np.isclose(p, q, rtol=1e-9)
        for j in np.flatnonzero(~same):
            rounded = False
            for risk in found.risks:
                (k,), (m,) = counted(scores, labels, thresholds[[j]], risk)
                r = 1 - (m - k) / m if risk.relation == ">=" else k / m
                rounded |= np.ceil(m * r) != k or np.ceil(m * (k / m)) != k
            assert rounded
        valid = thresholds[np.array(found.valid)]
        if same.all():
            assert valid.tolist() == theirs.valid_predict_params.tolist()
            agreed += 1
        # Every p-value that is smaller than MAPIE's own can only add thresholds.
        if (p <= q * (1 + 1e-9)).all():
            assert set(theirs.valid_predict_params) <= set(valid)
    assert agreed or any(name in risks for name in ("precision", "recall", "accuracy"))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "risks",
    [
        ("precision>=0.7", "recall>=0.7"),
        ("accuracy>=0.8", "abstention<=0.5", "fpr<=0.4"),
        ("precision>=0.6", "recall>=0.6", "accuracy>=0.7", "fpr<=0.4", "abstention<=0.5"),
    ],
)
def test_the_valid_set_is_the_one_of_exact_tails_and_holm(
    risks: tuple[str, ...], seed: int
) -> None:
    """Against binomial tails and statsmodels: equal but where MAPIE rounds a count up."""
    scores, labels = draw(500, 2.5, seed)
    thresholds = np.linspace(-1, 4, 26)
    found = control_risks(
        scores,
        labels,
        risks,
        search=CandidateSearch(method="bonferroni_holm", candidates=thresholds),
    )
    exact = exact_p(scores, labels, thresholds, found.risks)
    expected = multipletests(exact, alpha=0.1, method="holm")[0]
    p, valid = np.array(found.p_values), np.array(found.valid)
    assert (p >= exact * (1 - 1e-9)).all()
    for j in np.flatnonzero(~np.isclose(p, exact, rtol=1e-9)):
        pairs = [counted(scores, labels, thresholds[[j]], risk) for risk in found.risks]
        assert any(np.ceil(m * (k / m)) != k for (k,), (m,) in pairs if m)
    assert not (valid & ~expected).any()
    again = multipletests(p, alpha=0.1, method="holm")[0]
    assert valid.tolist() == again.tolist()
    for risk, row in zip(found.risks, found.values, strict=True):
        wrong, trials = counted(scores, labels, thresholds, risk)
        for value, k, m in zip(row, wrong, trials, strict=True):
            share = None if not m else 1 - k / m if risk.relation == ">=" else k / m
            assert value == (None if share is None else pytest.approx(share, abs=1e-12))


def test_a_learnt_order_is_walked_until_one_fails() -> None:
    scores, labels = draw(800, 2.5, 3)
    risks = ["precision>=0.7", "recall>=0.7"]
    found = control_risks(scores, labels, risks, search=CandidateSearch(seed=5, learn_share=0.25))
    assert found.method == "split_fixed_sequence" and found.n_learn == 200
    learn = np.zeros(800, dtype=bool)
    learn[np.random.default_rng(5).permutation(800)[:200]] = True
    thresholds = np.array(found.candidates)
    assert set(thresholds) <= set(scores[learn])
    assert found.n_hallucinated == labels[~learn].sum()
    assert found.n_faithful == (1 - labels[~learn]).sum()
    positions = np.searchsorted(thresholds, scores, side="right")
    seen = counts(positions[learn], labels[learn], len(thresholds), found.risks)
    learnt = p_values(*seen, found.risks)
    order = np.argsort(learnt, kind="stable")
    failed = np.flatnonzero(np.array(found.p_values)[order] > 0.1)
    assert np.flatnonzero(found.valid).tolist() == sorted(order[: failed[0]].tolist())
    # More than a correction for the number of candidates would accept.
    assert max(p for p, ok in zip(found.p_values, found.valid, strict=True) if ok) > 0.1 / len(
        order
    )
    tested = exact_p(scores[~learn], labels[~learn], thresholds, found.risks)
    assert (tested[np.array(found.valid)] <= 0.1).all()


def test_a_class_that_the_split_leaves_out_of_the_tests() -> None:
    scores = np.arange(10.0)
    drawn = np.random.default_rng(0).permutation(10)[:2]
    labels = np.zeros(10, dtype=np.int64)
    labels[drawn[0]] = 1
    found = control_risks(scores, labels, ["recall>=0.5", "accuracy>=0.5"])
    assert (found.n_hallucinated, found.n_faithful, found.n_learn) == (0, 8, 2)
    assert set(found.p_values) == {1.0} and found.n_empty == len(found.candidates)
    assert found.reason is not None and "recall is undefined" in found.reason


def test_monotone_risks_need_neither_a_split_nor_a_correction() -> None:
    scores, labels = draw(600, 2.5, 0)
    one = control_risks(
        scores, labels, ["fpr<=0.2", "abstention<=0.5"], search=CandidateSearch(grid=600)
    )
    two = control_risks(
        scores, labels, ["recall>=0.8", "fpr<=0.2"], search=CandidateSearch(grid=600)
    )
    # Two kinds of risk, falling and rising with the threshold, share the error between them.
    for found, level in ((one, 0.1), (two, 0.05)):
        assert found.method == "monotone" and found.n_learn == 0
        assert found.n_hallucinated + found.n_faithful == 600
        assert found.valid == tuple(p <= level for p in found.p_values)
        # The level is told from its half and its double.
        assert any(level / 2 < p <= level for p in found.p_values)
        assert any(level < p <= 2 * level for p in found.p_values)


# --- the promise itself


def wrong_and_found(
    runs: int, gap: float, n: int, risks: list[str], level: float = 0.0, **options: Any
) -> tuple[int, int, int]:
    """Runs with a wrong valid threshold, with any valid one, wrong at an uncorrected level."""
    asked = parse_risks(risks)
    wrong = some = uncorrected = 0
    for seed in range(runs):
        scores, labels = draw(n, gap, seed)
        found = controlled(scores, labels, asked, seed=seed, **options)
        good = keeps(np.array(found.candidates), asked, gap)
        wrong += bool((np.array(found.valid) & ~good).any())
        some += any(found.valid)
        uncorrected += bool(((np.array(found.p_values) <= level) & ~good).any())
    return wrong, some, uncorrected


RUNS = 200
#: A share of wrong runs that is at most 0.2 gives more than so many once in 10,000 suites.
LIMIT = int(binom.ppf(1 - 1e-4, RUNS, 0.2))


@pytest.mark.parametrize(
    ("gap", "risks", "options"),
    [
        (1.5, ["precision>=0.7"], {}),
        (2.5, ["precision>=0.7", "recall>=0.7"], {}),
        (2.0, ["accuracy>=0.8", "abstention<=0.4"], {}),
        (2.5, ["precision>=0.7", "recall>=0.7"], {"method": "bonferroni_holm"}),
        (2.0, ["recall>=0.75", "fpr<=0.2"], {}),
        # A quarter of the scores are candidates, and none is corrected for.
        (2.0, ["fpr<=0.2"], {"grid": 100}),
    ],
)
def test_valid_thresholds_keep_their_promises(
    gap: float, risks: list[str], options: dict[str, Any]
) -> None:
    options = {"grid": 20, **options}
    wrong, some, _ = wrong_and_found(RUNS, gap, 400, risks, confidence=0.8, **options)
    assert wrong <= LIMIT
    assert some > RUNS / 10


@pytest.mark.parametrize("options", [{}, {"candidates": norm.isf(np.linspace(0.05, 0.95, 20))}])
def test_a_useless_score_is_rarely_trusted_and_the_correction_is_needed(
    options: dict[str, Any],
) -> None:
    """Precision is the base rate everywhere, a hair below the promise: every acceptance is wrong.

    Without a correction for the number of candidates the same p-values are wrong too often.
    """
    wrong, some, uncorrected = wrong_and_found(
        RUNS, 0.0, 400, ["precision>=0.3001"], level=0.2, confidence=0.8, grid=20, **options
    )
    assert 0 < wrong == some <= LIMIT < uncorrected


# --- two traps of the engine


def test_only_thresholds_that_flag_nothing() -> None:
    found = control_risks(
        [0.1, 0.2, 0.3], [0, 1, 1], ["precision>=0.7"], search=CandidateSearch(candidates=[5, 6])
    )
    assert (found.n_empty, found.p_values, found.threshold) == (2, (1.0, 1.0), None)
    assert found.reason is not None and "precision is undefined" in found.reason


def test_without_mapie_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mapie.risk_control", None)
    with pytest.raises(CalibrailError, match=r"pip install 'calibrail.risks"):
        control_risks([0.1, 0.2], [0, 1], ["fpr<=0.2"])


def test_mapie_is_imported_only_when_needed() -> None:
    code = (
        "import sys, calibrail.conformal.risk_control; "
        "print(any('mapie' in m for m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# --- what is chosen, and why nothing is


def test_the_chosen_threshold_follows_its_rule() -> None:
    scores, labels = draw(2000, 3.0, 0)
    low = control_risks(scores, labels, ["precision>=0.7"])
    high = control_risks(scores, labels, ["precision>=0.7", "recall>=0.7"])
    for found, pick in ((low, min), (high, max)):
        accepted = [t for t, ok in zip(found.candidates, found.valid, strict=True) if ok]
        assert len(accepted) > 1 and found.threshold == pick(accepted)
        assert found.reason is None
    assert low.rule.startswith("the lowest") and high.rule.startswith("the highest")
    at = high.candidates.index(high.threshold or 0.0)
    assert high.attained == {"precision": high.values[0][at], "recall": high.values[1][at]}


def test_the_reason_names_the_obstacle() -> None:
    scores, labels = draw(1000, 1.0, 0)
    hopeless = control_risks(scores, labels, ["precision>=0.99", "recall>=0.9"])
    assert hopeless.threshold is None and hopeless.attained == {}
    assert hopeless.reason is not None and "which breaks precision>=0.99" in hopeless.reason
    few = control_risks([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1], ["fpr<=0.2"])
    assert few.reason is not None and "may be chance: p = 0.64" in few.reason
    assert "at most 0.1 would do" in few.reason


def test_all_scores_equal_flags_everything_or_finds_nothing() -> None:
    labels = np.tile([1, 1, 1, 0], 100)
    found = control_risks(np.full(400, 7.0), labels, ["precision>=0.6", "recall>=0.9"])
    assert (found.candidates, found.threshold, found.attained["recall"]) == ((7.0,), 7.0, 1.0)
    none = control_risks(np.full(400, 7.0), labels, ["fpr<=0.5", "recall>=0.9"])
    assert none.threshold is None
    assert none.reason is not None and "fpr is 1 (100 of 100), which breaks fpr<=0.5" in none.reason


# --- input


@pytest.mark.parametrize(("undefined", "like"), [("flag", 9.0), ("review", 9.0), ("pass", -9.0)])
def test_an_undefined_score_follows_the_policy(undefined: Any, like: float) -> None:
    scores, labels = draw(300, 2.5, 0)
    gone = np.arange(0, 300, 10)
    missing, stand_in = scores.copy(), scores.copy()
    missing[gone], stand_in[gone] = np.nan, like
    options: dict[str, Any] = {"candidates": np.linspace(-1, 3, 9), "undefined": undefined}
    risks = ["precision>=0.5", "recall>=0.5"]
    found = controlled(missing, labels, risks, **options)
    expected = controlled(stand_in, labels, risks, **options)
    assert found.n_undefined == 30
    assert found.p_values == expected.p_values and found.values == expected.values
    assert found.valid == expected.valid and found.threshold == expected.threshold


SCORES, LABELS = [0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]
