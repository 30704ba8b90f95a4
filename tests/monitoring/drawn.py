"""Answers drawn from a log, as an audit folder holds them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from calibrail.conformal import labelling_probability
from calibrail.labelling.log_sampling import LabelledSample
from calibrail.options import Drawing, Requirement

#: A spring day.
DAY = 1.8e9


def drawn(
    n: int,
    coverage: ArrayLike = 0.95,
    fpr: ArrayLike = 0.1,
    *,
    base: float = 0.4,
    per_batch: int = 10,
    design: str = "uniform",
    groups: int = 1,
    seed: int = 0,
) -> LabelledSample:
    """Return n drawn answers, all of them labelled that the lot hands out, an hour apart."""
    rng = np.random.default_rng(seed)
    hallucinated = rng.random(n) < base
    flagged = rng.random(n) < np.where(
        hallucinated, np.broadcast_to(coverage, n), np.broadcast_to(fpr, n)
    )
    guess, q = np.full(n, np.nan), np.ones(n)
    drawing = Drawing("active") if design == "active" else Drawing()
    if design == "active":
        guess = np.clip(np.where(hallucinated, 0.6, 0.3) + rng.normal(0.0, 0.2, n), 0.01, 0.99)
        q = labelling_probability(flagged, guess, Requirement(0.2, 0.9), drawing, base_rate=base)
    handed_out = rng.random(n) < q
    names, ids = np.empty(n, object), np.empty(n, object)
    names[:] = [f"g{number % groups}" for number in range(n)]
    ids[:] = [f"a{number}" for number in range(n)]
    return LabelledSample(
        flagged=flagged,
        label=np.where(handed_out, hallucinated, np.nan),
        settled=np.ones(n, bool),
        unsure=np.zeros(n, bool),
        handed_out=handed_out,
        probability=q,
        guess=guess,
        share=np.full(n, 0.05),
        time=DAY + 3600.0 * np.arange(n),
        batch=1 + np.arange(n) // per_batch,
        score=rng.random(n),
        group=names,
        language=names,
        id=ids,
        drawing=drawing,
    )
