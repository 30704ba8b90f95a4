"""Are lines of a log drawn by lot, uniformly, and weighed by probabilities that are true?"""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from calibrail.data.example import Example
from calibrail.labelling.ledger import Label, LabelLedger, SessionPlan, Traces
from calibrail.labelling.log_sampling import LogCandidate, LogSampler, draw_lines, probabilities
from calibrail.options import Drawing

LIMITS = (0.9, 0.2)


def candidate(seq: int, score: float | None = 0.0) -> LogCandidate:
    flagged = score is None or score >= 0.5
    return LogCandidate("chain", seq, None, score, flagged, None, None, Example(id=f"t{seq}"))


def urn(seed: int, items: list[LogCandidate], most: int = 100) -> LogSampler:
    found = LogSampler(seed, most)
    for item in items:
        found.offer(item.chain, item.seq, item.time, lambda item=item: item)
    return found


def files(seed: int, drawing: Drawing) -> Any:
    plan = SessionPlan("watch", Traces(), drawing, seed, guardrail="sha256:0")
    return SimpleNamespace(plan=plan, ledger=LabelLedger(plan), agreed_on="0" * 64)


def test_every_line_is_as_likely_drawn_and_every_place_as_likely_its_own() -> None:
    items, budget, seeds = [candidate(seq) for seq in range(24)], 6, 2000
    drawn = np.zeros(24)
    first = np.zeros(24)
    pairs = np.zeros((24, 24))
    for seed in range(seeds):
        found = urn(seed, items)
        lines = draw_lines(
            found.candidates(), files(seed, Drawing()), LIMITS, budget=budget, n_rows=24
        )
        seqs = [line.seq for line in lines]
        assert len(seqs) == budget and lines[0].share == budget / 24
        drawn[seqs] += 1
        first[seqs[0]] += 1
        pairs[np.ix_(seqs, seqs)] += 1
    # The squared deviations of samples without replacement have (N - 1) / N of a binomial's mean.
    share = budget / 24
    deviation = ((drawn - seeds * share) ** 2 / (seeds * share * (1 - share))).sum() * 23 / 24
    assert deviation < chi2.isf(1e-4, 23)
    assert ((first - seeds / 24) ** 2 / (seeds / 24)).sum() < chi2.isf(1e-4, 23)
    both = pairs[np.triu_indices(24, 1)]
    chance = budget * (budget - 1) / (24 * 23)
    assert np.abs(both - seeds * chance).max() < 5.0 * np.sqrt(seeds * chance)


def test_the_order_of_reading_and_what_else_is_kept_change_no_draw() -> None:
    items = [candidate(seq) for seq in range(300)]
    there = [item.seq for item in urn(3, items, most=20).candidates()]
    random.Random(1).shuffle(items)
    assert [item.seq for item in urn(3, items, most=20).candidates()] == there
    assert [item.seq for item in urn(3, items, most=300).candidates()][:20] == there
    assert [item.seq for item in urn(4, items, most=20).candidates()] != there


def active(seed: int) -> Any:
    """Return a folder in which 30 answers are drawn and labelled: high scores hallucinated."""
    found = files(seed, Drawing("active", floor=0.1))
    rng = np.random.default_rng(seed)
    items = [candidate(seq, float(rng.random())) for seq in range(1000, 1030)]
    for line in draw_lines(items, found, LIMITS, budget=30, n_rows=30):
        found.ledger.add_draw(line)
        if line.handed_out:
            assert line.score is not None
            label = int(line.score > rng.random())
            found.ledger.add_label(Label(line.id, label, "ada", "", line.probability, line.order))
    return found


def test_weighted_by_their_probabilities_labels_stand_for_all_lines_drawn() -> None:
    rng = np.random.default_rng(5)
    scores = rng.random(80)
    truths = (rng.random(80) < scores).astype(int)
    errors, totals, handed_out = [], [], []
    for seed in range(400):
        items = urn(seed, [candidate(seq, float(scores[seq])) for seq in range(80)]).candidates()
        known = active(seed)
        lines = draw_lines(items, known, LIMITS, budget=8, n_rows=80)
        chances = probabilities(items, known, LIMITS)[1]
        assert len(lines) == round(8 * 80 / sum(chances))
        handed_out.append(sum(line.handed_out for line in lines))
        assert all(line.probability >= (0.1 if line.flagged else 0.2) for line in lines)
        weights = np.array([line.handed_out / line.probability for line in lines])
        truth = np.array([truths[line.seq] for line in lines])
        guess = np.array([line.guess for line in lines])
        errors.append(float((weights - 1.0) @ truth))
        # Each draw stands for as many lines as its batch says, whatever the lots.
        totals.append(float(np.sum(guess + weights * (truth - guess))) / (lines[0].share or 1.0))
    assert np.mean(handed_out) == pytest.approx(8, abs=0.6) and np.ptp(handed_out) > 1
    for found, due in ((errors, 0.0), (totals, truths.sum())):
        assert abs(np.mean(found) - due) < 4.0 * np.std(found) / np.sqrt(len(found))
    assert np.std(errors) > 0.5


def test_probabilities_follow_the_labels_so_far_and_none_of_the_lines_own() -> None:
    items = [candidate(seq, score) for seq, score in enumerate((0.05, 0.45, 0.55, 0.95, None))]
    fresh = draw_lines(items, files(0, Drawing("active")), LIMITS, budget=9, n_rows=5)
    learnt = draw_lines(items, active(0), LIMITS, budget=9, n_rows=5)
    assert {line.guess for line in fresh} == {0.5}
    guesses = [line.guess for line in learnt[:4]]
    assert all(guess is not None for guess in guesses) and guesses == sorted(guesses)
    assert learnt[0].probability < learnt[1].probability
    # Nobody said how many faithful answers may be flagged: coverage alone counts.
    coverage = draw_lines(items, active(0), (0.9, None), budget=9, n_rows=5)
    assert coverage[3].probability < coverage[1].probability
