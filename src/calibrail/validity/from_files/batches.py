"""Do released batches and drift audits keep their promises, from file to file?"""

from collections.abc import Iterator
from typing import Final

import numpy as np

import calibrail
from calibrail.conformal import Selection
from calibrail.validity.check import Check, MeanCheck, Setting
from calibrail.validity.from_files.certificates import PROMISE
from calibrail.validity.from_files.commands import SCORE, folder
from calibrail.validity.from_files.population import ALONE, QUESTIONS

#: Answers of a batch, one of each group.
_BATCH: Final = 100
#: Share of hallucinated ones among them.
_SHARE: Final = 0.5


def released(at: Setting) -> Iterator[Check | MeanCheck]:
    """Release hallucinated answers: on average at most a share alpha, by each method.

    By ``bh`` at most alpha times their share of the batch. That the bound for all cut-offs is
    exceeded at any: at most 0.05.
    """
    for population in (ALONE, QUESTIONS):
        rng, exceeded = at.rng(f"select, {population.name}"), []
        shares: dict[str, list[float]] = {}
        with folder() as place:
            for _ in range(at.runs):
                path = population.write(place, "labelled", population.draw(rng, at.n))
                guardrail = calibrail.calibrate(path, SCORE, PROMISE).freeze()
                batch = population.draw(rng, _BATCH).one_per_group(rng)
                path = population.write(place, "batch", batch)
                result = calibrail.select(guardrail, path, fdr=at.alpha)
                hallucinated = set(batch.names[batch.labels == 1])
                bad = np.array([name in hallucinated for name in result.ids])
                for method, found in ((result.method, result.selection), *result.others.items()):
                    if isinstance(found, Selection):
                        wrong = np.sum(found.released & bad) / max(1, found.n_released)
                        shares.setdefault(method, []).append(float(wrong))
                p_values = result.selection.p_values
                exceeded.append(
                    any(
                        np.sum(bad & (p_values <= row["cutoff"])) > row["most_hallucinated"]
                        for row in result.table()
                    )
                )
        for name, items in shares.items():
            promised = at.alpha * (_SHARE if name == "bh" else 1.0)
            design = f"{name}, {population.name}"
            yield at.mean("select, hallucinated among released", items, promised, design=design)
        what = "select, bound exceeded at a cut-off"
        yield at.check(what, exceeded, 0.05, design=population.name)


def drift_seen(at: Setting) -> Iterator[Check]:
    """Call a promise broken where both files come from one population: at most 1 - confidence."""
    for population in (ALONE, QUESTIONS):
        rng, seen = at.rng(f"shift, {population.name}"), []
        with folder() as place:
            for _ in range(at.runs):
                path = population.write(place, "before", population.draw(rng, at.n))
                later = population.write(place, "after", population.draw(rng, at.n))
                run = calibrail.shift(
                    path, SCORE, test=later, alpha=PROMISE.alpha, confidence=1.0 - at.alpha
                )
                seen.append(run.to_dict()["tests"][0]["finding"] == "broken")
        yield at.check("shift, drift where there is none", seen, at.alpha, design=population.name)
