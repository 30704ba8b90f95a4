"""Is the verdict after every label the one that the wealths call for, whatever the way there?"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrail.conformal import (
    SequentialTest,
    confidence_sequence,
    estimated_labels,
    labelling_probability,
    log_wealth,
)
from calibrail.conformal.sequential.betting import weighted_bets
from calibrail.errors import InputError
from calibrail.options import Drawing, Requirement

REQUIRED = Requirement(max_fpr=0.2, min_coverage=0.8, confidence=0.9)
DESIGNS = [
    Drawing(),
    Drawing("active"),
    Drawing(whole_groups=True),
    Drawing("active", 0.3, whole_groups=True),
]


def stream(
    drawing: Drawing, n: int, *, coverage: float = 0.95, fpr: float = 0.05, seed: int = 0
) -> dict[str, Any]:
    """Return the arguments of ``update`` for n answers, groups of three where groups are drawn."""
    rng = np.random.default_rng(seed)
    hallucinated = rng.random(n) < 0.4
    flagged = rng.random(n) < np.where(hallucinated, coverage, fpr)
    answers: dict[str, Any] = {"flagged": flagged, "hallucinated": hallucinated.astype(float)}
    if drawing.design == "active":
        guess = np.clip(np.where(hallucinated, 0.7, 0.2) + rng.normal(0.0, 0.2, n), 0.0, 1.0)
        q = labelling_probability(flagged, guess, REQUIRED, drawing)
        answers |= {"probability": q, "guess": guess}
        answers["hallucinated"][rng.random(n) >= q] = np.nan
    if drawing.whole_groups:
        answers["groups"] = np.arange(n) // 3
    return answers


def part(answers: dict[str, Any], start: int, stop: int) -> dict[str, Any]:
    return {name: values[start:stop] for name, values in answers.items()}


def restored(test: SequentialTest) -> SequentialTest:
    return SequentialTest.from_dict(json.loads(json.dumps(test.to_dict(), allow_nan=False)))


@pytest.mark.parametrize("drawing", DESIGNS)
def test_batches_single_answers_and_cut_streams_give_the_same_bytes(drawing: Drawing) -> None:
    answers, step = stream(drawing, 300), 3 if drawing.whole_groups else 1
    whole = SequentialTest(REQUIRED, drawing).update(**answers)
    single = SequentialTest(REQUIRED, drawing)
    for start in range(0, 300, step):
        single = restored(single.update(**part(answers, start, start + step)))
    cut = restored(SequentialTest(REQUIRED, drawing).update(**part(answers, 0, 147)))
    cut = cut.update(**part(answers, 147, 300))
    assert whole.decided is not None and whole.verdict == "certified"
    expected = json.dumps(whole.to_dict())
    assert json.dumps(single.to_dict()) == json.dumps(cut.to_dict()) == expected
    assert single == cut == whole and restored(whole) == whole
    assert whole.certificate() == single.certificate()


@pytest.mark.parametrize("drawing", DESIGNS)
def test_the_state_does_not_grow(drawing: Drawing) -> None:
    few, many = (
        SequentialTest(REQUIRED, drawing).update(**stream(drawing, n)).to_dict() for n in (30, 3000)
    )
    for name in ("mass", "hits", "highest"):
        assert len(few[name]) == len(many[name])
    assert len(few["log_wealth"] or []) == len(many["log_wealth"] or []) <= 1600


@pytest.mark.parametrize(
    "coverage, fpr, verdict, reasons",
    [
        (0.97, 0.03, "certified", ("coverage_shown", "fpr_shown")),
        (0.6, 0.03, "rejected", ("coverage_refuted", "fpr_shown")),
        (0.97, 0.4, "rejected", ("coverage_shown", "fpr_refuted")),
    ],
)
@pytest.mark.parametrize("drawing", DESIGNS)
def test_the_verdict_falls_where_the_answers_say_so(
    drawing: Drawing, coverage: float, fpr: float, verdict: str, reasons: tuple[str, ...]
) -> None:
    answers = stream(drawing, 2100, coverage=coverage, fpr=fpr)
    test = SequentialTest(REQUIRED, drawing).update(**answers)
    certificate = test.certificate()
    assert (certificate.verdict, certificate.reasons) == (verdict, reasons)
    assert certificate.decided is not None and certificate.decided.labelled <= certificate.labelled
    assert certificate.coverage.lower <= coverage <= certificate.coverage.upper
    assert certificate.fpr.lower <= fpr <= certificate.fpr.upper
    assert certificate.coverage.estimate == pytest.approx(coverage, abs=0.06)
    assert certificate.fpr.estimate == pytest.approx(fpr, abs=0.06)


def test_drawn_uniformly_the_wealths_are_those_of_the_counts() -> None:
    answers = stream(Drawing(), 400)
    flagged, labels = answers["flagged"], answers["hallucinated"]
    test, best = SequentialTest(REQUIRED), np.zeros(4)
    for row in range(400):
        test = test.update(flagged[row], labels[row])
        rates = ((test.caught, test.n_hallucinated, 0.8), (test.false_alarms, test.n_faithful, 0.2))
        wealth = [float(log_wealth(*rate, above=side)) for rate in rates for side in (True, False)]
        best = np.maximum(best, [wealth[0], wealth[1], wealth[3], wealth[2]])
        assert test.highest == pytest.approx(best, abs=0.0)
        certified = min(best[0], best[2]) >= np.log(10.0)
        assert (test.verdict == "certified") == certified
        if certified:
            assert test.decided is not None and test.decided.labelled <= row + 1
    assert test.verdict == "certified"
    found = test.certificate()
    assert (found.coverage.lower, found.coverage.upper) == tuple(
        map(float, confidence_sequence(test.caught, test.n_hallucinated, 0.9))
    )


def test_drawn_by_a_guess_the_wealths_are_those_of_the_weights() -> None:
    drawing = Drawing("active", 0.15)
    answers = stream(drawing, 400)
    w = estimated_labels(answers["hallucinated"], answers["probability"], answers["guess"])
    flagged = answers["flagged"].astype(float)
    test = SequentialTest(REQUIRED, drawing).update(**answers)
    kept = weighted_bets(w * flagged, w, 0.8, drawing.floors, above=True).from_start
    low = weighted_bets((1 - w) * flagged, 1 - w, 0.2, drawing.floors, above=False).from_start
    assert test.highest[0] == pytest.approx(max(0.0, kept.max()))
    assert test.highest[2] == pytest.approx(max(0.0, low.max()))
    first = np.flatnonzero(np.maximum.accumulate(kept) >= np.log(10.0))[0]
    second = np.flatnonzero(np.maximum.accumulate(low) >= np.log(10.0))[0]
    row = max(int(first), int(second))
    assert test.decided is not None and test.decided.drawn == row + 1
    assert test.decided.labelled == int(np.sum(~np.isnan(answers["hallucinated"][: row + 1])))


@pytest.mark.parametrize("drawing", DESIGNS)
def test_the_end_that_a_verdict_rests_on_is_the_bet_inverted(drawing: Drawing) -> None:
    answers = stream(drawing, 300, coverage=0.95, fpr=0.08)
    test = SequentialTest(REQUIRED, drawing)
    for row in range(0, 300, 12):
        test = test.update(**part(answers, row, row + 12))
        made = test.certificate()
        assert made.coverage.lower <= made.coverage_at_least
        assert made.fpr_at_most <= made.fpr.upper
        shown = (made.log_wealth["coverage_kept"], made.log_wealth["fpr_kept"])
        assert (made.coverage_at_least >= made.min_coverage) == (shown[0] >= made.kept_at)
        assert (made.fpr_at_most <= made.max_fpr) == (shown[1] >= made.kept_at)
        if not test.weighted and test.caught:
            won = log_wealth(test.caught, test.n_hallucinated, made.coverage_at_least)
            assert won == pytest.approx(made.kept_at, abs=1e-6) or shown[0] >= made.kept_at


def test_a_group_weighs_by_its_share_of_hallucinated_answers() -> None:
    """Of ten answers nine are hallucinated and missed in one group, one is, and caught, in another.

    One answer drawn of each finds a tenth of what is hallucinated.
    """
    labels, flagged = [1] * 9 + [0] + [1] + [0] * 9, [0] * 10 + [1] + [0] * 9
    test = SequentialTest(REQUIRED, Drawing(whole_groups=True))
    test = test.update(flagged, labels, groups=[0] * 10 + [1] * 10)
    assert test.certificate().coverage.estimate == pytest.approx(0.1)


def test_a_verdict_stays_while_labels_go_on() -> None:
    good = stream(Drawing(), 200, coverage=1.0, fpr=0.0)
    test = SequentialTest(REQUIRED).update(**good)
    decided = test.decided
    later = test.update([False] * 400, [True] * 400)
    assert test.verdict == later.verdict == "certified" and later.decided == decided
    assert later.certificate().reasons[0] == "coverage_refuted"


def test_a_group_counts_once_however_many_answers_it_has() -> None:
    drawing = Drawing(whole_groups=True)
    few = SequentialTest(REQUIRED, drawing).update([1, 0, 1], [1, 0, 1], groups=[7, 7, 2])
    many = SequentialTest(REQUIRED, drawing).update(
        [1, 0] * 50 + [1], [1, 0] * 50 + [1], groups=[7] * 100 + [2]
    )
    assert few.highest == pytest.approx(many.highest) and few.drawn == many.drawn == 2
    assert (few.labelled, many.labelled) == (3, 101)


@given(st.integers(0, 2**31), st.floats(0.05, 1.0))
@settings(deadline=None, max_examples=20)
def test_probabilities_keep_to_the_floor_and_follow_what_is_open(seed: int, floor: float) -> None:
    rng, drawing = np.random.default_rng(seed), Drawing("active", floor)
    flagged, guess = rng.random(50) < 0.5, rng.random(50)
    q = labelling_probability(flagged, guess, REQUIRED, drawing)
    assert (q >= np.where(flagged, *drawing.floors)).all() and (q <= 1.0).all()
    coverage, fpr = (
        labelling_probability(flagged, guess, REQUIRED, drawing, undecided=claims)
        for claims in ((True, False), (False, True))
    )
    assert (coverage <= fpr)[flagged].all() and (coverage >= fpr)[~flagged].all()
    assert (labelling_probability(flagged, guess, REQUIRED, Drawing()) == 1.0).all()
    test = SequentialTest(REQUIRED, drawing)
    assert test.probability(flagged, guess) == pytest.approx(q)


@pytest.mark.parametrize(
    "drawing, arguments, message",
    [
        (Drawing(), {"flagged": [2.0], "hallucinated": [1]}, "flagged"),
        (Drawing(), {"flagged": [1], "hallucinated": [0.5]}, "hallucinated"),
        (Drawing(), {"flagged": [1, 1], "hallucinated": [1]}, "hallucinated must have 2"),
        (Drawing(), {"flagged": 1, "hallucinated": 1, "probability": 1.0}, "probability"),
        (Drawing(), {"flagged": 1, "hallucinated": 1, "groups": 1}, "groups"),
        (Drawing("active"), {"flagged": 1, "hallucinated": 1, "guess": 0.5}, "probability"),
        (
            Drawing("active"),
            {
                "flagged": [1, 0],
                "hallucinated": [1, 1],
                "probability": [0.15] * 2,
                "guess": [0.5] * 2,
            },
            r"at least 0\.2 for a passed answer .* got 0\.15 in row 2",
        ),
        (Drawing(whole_groups=True), {"flagged": 1, "hallucinated": 1}, "groups is needed"),
        (
            Drawing(whole_groups=True),
            {"flagged": 1, "hallucinated": None, "groups": 1},
            "every answer of a group",
        ),
        (
            Drawing(whole_groups=True),
            {"flagged": 1, "hallucinated": 1, "groups": "a"},
            "whole numbers",
        ),
    ],
)
def test_bad_answers_are_named(drawing: Drawing, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SequentialTest(REQUIRED, drawing).update(**arguments)


def test_a_damaged_state_is_refused() -> None:
    content = SequentialTest(REQUIRED, Drawing("active")).to_dict()
    for change in ({"log_wealth": [0.0] * 7}, {"schema": "calibrail.plan/1"}, {"more": 1}):
        with pytest.raises(InputError):
            SequentialTest.from_dict({**content, **change})
