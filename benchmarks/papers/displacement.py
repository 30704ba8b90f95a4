"""Are the displacement scores of the SGI repository reproduced, with and without its leakage?

The table stands in the README of github.com/Javihaus/SEMANTIC_GROUNDING_INDEX, without its data,
its encoder, its number of neighbours or what the two domains are. Two of its five methods compare
an answer with reference answers; its notebook takes them from the answers that are tested, so that
every right answer finds itself among its references. Measured on HaluEval QA with calibrail's
preset of the repository.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from cells import Cell, Measured, Section
from numpy.typing import NDArray
from page import write
from published import DISPLACEMENT
from resampling import bootstrap, members
from sources import Setup, parse

from calibrail.data import Example, read_all
from calibrail.data.splits import group_numbers
from calibrail.evaluation.stats.auroc import auroc
from calibrail.scores import ScoreSpec, build
from calibrail.scores.base import Fittable

#: Parts by question; each is scored with references from the others.
FOLDS: Final = 5
LEARNING: Final = ("expected_response_deviation", "tangent_residual")
#: The notebook's value where an answer has one sentence only.
SINGLE: Final = 0.0
Floats = NDArray[np.float64]

#: Title, the neighbours' parameters, whether the references are the tested answers themselves.
WAYS: Final[tuple[tuple[str, Mapping[str, int], bool], ...]] = (
    ("With the leakage: references are the tested answers, 10 neighbours", {"k": 10}, True),
    ("With the leakage: references are the tested answers, 1 neighbour", {"k": 1}, True),
    ("Without leakage: references answer other questions, 10 neighbours", {"k": 10}, False),
)
INTRODUCTION: Final = (
    "The README of the repository of arXiv 2512.13771, its figures to four decimals. AUROC of "
    "hallucinated against right answers, higher = more likely hallucinated, on HaluEval QA answers "
    "of at least 20 characters, as in the repository; below 0.5 a score points the wrong way. "
    "Intervals resample questions. The README does not say what tells the two domains apart: both "
    "columns are compared with the same measurement. An answer of one sentence, for which "
    "displacement consistency is undefined, counts as 0, as in the notebook."
)


def main(arguments: Sequence[str] | None = None) -> None:
    setup = parse("displacement", "Is the displacement table reproduced?", arguments)
    write(
        "displacement",
        "Displacement scores, published and measured",
        INTRODUCTION,
        measured(setup),
        setup.command,
    )


def measured(setup: Setup) -> list[Section]:
    """Return a section for each way of choosing references."""
    path = setup.file("halueval/qa_data.json")
    if isinstance(path, str):
        cells = [Cell(figure, reason=path) for figure in DISPLACEMENT]
        return [Section(title, "HaluEval QA.", cells) for title, _, _ in WAYS]
    examples = read_all(path, options={"min_chars": 20})[0][: setup.most]
    others = sorted({figure.row for figure in DISPLACEMENT} - set(LEARNING))
    plain = dict(
        zip(others, scored(examples, [(name, {}) for name in others], learn=False), strict=True)
    )
    single = int(np.isnan(plain["displacement_consistency"]).sum())
    sections = []
    for title, params, leaking in WAYS:
        specs = [(name, own(name, params)) for name in LEARNING]
        learnt = scored(examples, specs, learn=True) if leaking else out_of_fold(examples, specs)
        values = plain | dict(zip(LEARNING, learnt, strict=True))
        found = {name: area(column, examples) for name, column in values.items()}
        text = (
            f"{len(examples):,} answers, {sum(e.label == 1 for e in examples):,} of them "
            f"hallucinated; {single:,} have one sentence."
        )
        cells = [Cell(figure, found[figure.row]) for figure in DISPLACEMENT]
        sections.append(Section(title, text, cells))
    return sections


def own(name: str, params: Mapping[str, int]) -> dict[str, int]:
    """Return a score's parameters: no more directions than neighbours."""
    if name == "tangent_residual":
        return {**params, "components": min(5, params["k"])}
    return dict(params)


def scored(
    examples: Sequence[Example], specs: Sequence[tuple[str, Mapping[str, Any]]], *, learn: bool
) -> list[Floats]:
    """Return each score's values, those that learn having learnt from the same answers."""
    scores = [build(ScoreSpec(name, {"preset": "paper", **params})) for name, params in specs]
    if learn:
        scores = [score.fit(examples) for score in scores if isinstance(score, Fittable)]
    # Not through the engine, which drops the vectors of the run before.
    return [score.score(examples).values for score in scores]


def out_of_fold(
    examples: Sequence[Example], specs: Sequence[tuple[str, Mapping[str, Any]]], seed: int = 0
) -> list[Floats]:
    """Return each score's values, learnt from the answers to other questions."""
    groups = group_numbers([example.group for example in examples], len(examples))
    fold = np.random.default_rng(seed).permutation(groups.max() + 1)[groups] % FOLDS
    scores = [build(ScoreSpec(name, {"preset": "paper", **params})) for name, params in specs]
    columns = []
    for score in scores:
        assert isinstance(score, Fittable)
        values = np.full(len(examples), np.nan)
        for number in range(FOLDS):
            fitted = score.fit([examples[i] for i in np.flatnonzero(fold != number).tolist()])
            rows = np.flatnonzero(fold == number)
            values[rows] = fitted.score([examples[i] for i in rows.tolist()]).values
        columns.append(values)
    return columns


def area(values: Floats, examples: Sequence[Example]) -> Measured:
    """Return the AUROC with the interval of resampled questions, at least DeLong's."""
    labels = np.array([example.label for example in examples])
    column = np.where(np.isnan(values), SINGLE, values)

    def statistics(rows: NDArray[np.intp]) -> list[float]:
        taken, own_labels = column[rows], labels[rows]
        estimate = auroc(taken[own_labels == 1], taken[own_labels == 0]).estimate
        return [np.nan if estimate is None else estimate]

    (found,) = bootstrap(statistics, members([example.group for example in examples]))
    delong = auroc(column[labels == 1], column[labels == 0])
    assert delong.lower is not None and delong.upper is not None
    lower, upper = min(found.lower, delong.lower), max(found.upper, delong.upper)
    return Measured(found.estimate, lower, upper, found.n)


if __name__ == "__main__":
    main()
