"""Are the tables of the Semantic Grounding Index (arXiv 2512.13771) reproduced?

Tables 1 to 5 and the figures of sections 5.2 and 5.5, on HaluEval QA and TruthfulQA. The paper says
that it samples 5,000 answers; its figure 5 has 85 % hallucinated ones, which fits answers of at
least 20 characters only (most right answers are shorter), so that both are measured. Tables 2 to 4
do not name their encoder: the angles of table 2 are not those of all-MiniLM-L6-v2, and the effect
sizes fit all-mpnet-base-v2, which is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Final, NamedTuple

import numpy as np
from cells import Cell, Measured, Published, Section
from numpy.typing import NDArray
from page import write
from published import SGI
from resampling import bootstrap, members
from separation import cohens_d, welch
from sources import MODELS, Model, Setup, parse

from calibrail.data import Example, read_all
from calibrail.engine import score_examples
from calibrail.evaluation.stats.auroc import auroc
from calibrail.models.embeddings import load_encoder
from calibrail.scores import ScoreSpec, build
from calibrail.scores.base import angles, joined

ENCODERS: Final = ("mpnet", "minilm", "bge", "e5", "gte")
#: The encoder of tables 2 to 4 and of section 5.5, as far as can be told.
UNNAMED: Final = "mpnet"
SETTINGS: Final = {
    20: "Answers of at least 20 characters (figure 5 of the paper fits these)",
    0: "All answers (what the paper's text says)",
}
THIRDS: Final = ("short", "medium", "long")

Floats = NDArray[np.float64]
Place = tuple[str, str, str]
Found = dict[Place, Measured]


class Angles(NamedTuple):
    """What one encoder sees of a data set, one entry an answer."""

    index: Floats
    response_question: Floats
    response_context: Floats
    question_context: Floats


def main(arguments: Sequence[str] | None = None) -> None:
    setup = parse("sgi", "Are the tables of the SGI paper reproduced?", arguments)
    sections = [halueval(setup, least, title) for least, title in SETTINGS.items()]
    sections.append(truthfulqa(setup))
    write(
        "sgi",
        "Semantic Grounding Index, published and measured",
        INTRODUCTION,
        sections,
        setup.command,
    )


INTRODUCTION: Final = (
    "Marin, arXiv 2512.13771. Intervals resample questions with all their answers; an effect size "
    "is (valid - hallucinated) / pooled standard deviation. The ends 0.42 and 1.57 of table 2, and "
    "its group sizes, are left out: they follow from the number of answers."
)


def halueval(setup: Setup, least: int, title: str) -> Section:
    """Measure tables 1, 2, 3, 5 and both sections on HaluEval QA."""
    figures = [figure for figure in SGI if figure.table != "4"]
    path = setup.file("halueval/qa_data.json")
    if isinstance(path, str):
        return Section(title, "HaluEval QA.", [Cell(figure, reason=path) for figure in figures])
    examples, _ = read_all(path, options={"min_chars": least})
    examples = sample(examples, setup.most)
    seen: dict[str, Angles] = {}
    absent: dict[str, str] = {}
    for name in ENCODERS:
        model = setup.model(name)
        if isinstance(model, str):
            absent[name] = model
        else:
            seen[name] = measure_angles(examples, model)
    found: Found = {}
    for name, view in seen.items():
        found |= by_encoder(examples, view, name)
    unnamed = setup.model(UNNAMED, "encoder")
    assert isinstance(unnamed, Model)
    view = seen.get(UNNAMED) or measure_angles(examples, unnamed)
    found |= by_stratum(examples, view, unnamed.stand_in)
    found |= calibration(examples, view, unnamed.stand_in)
    if not absent:
        found |= agreement(examples, seen)
        found |= average(examples, seen)
    hallucinated = sum(example.label == 1 for example in examples)
    text = (
        f"HaluEval QA: {hallucinated:,} hallucinated and {len(examples) - hallucinated:,} right "
        f"answers to {len({example.group for example in examples}):,} questions; right answers in "
        f"the thirds by response length: {', '.join(map(str, right_by_length(examples)))}."
    )
    return Section(title, text, [cell(figure, found, absent) for figure in figures])


def right_by_length(examples: Sequence[Example]) -> list[int]:
    """Return how many right answers the short, medium and long third of the responses hold."""
    order = np.argsort([len(example.response) for example in examples], kind="stable")
    labels = np.array([example.label for example in examples])
    return [int(np.sum(labels[part] == 0)) for part in np.array_split(order, 3)]


def cell(figure: Published, found: Found, absent: Mapping[str, str]) -> Cell:
    """Return a figure with its measurement, or with the reason why there is none."""
    measured = found.get((figure.table, figure.row, figure.column))
    if measured is not None:
        return Cell(figure, measured)
    if figure.row in absent:
        return Cell(figure, reason=absent[figure.row])
    if absent and (figure.row in ("mean", "five encoders")):
        return Cell(figure, reason=f"no weights of {', '.join(absent)}")
    return Cell(figure, reason="too few answers of one class to measure it")


def sample(examples: Sequence[Example], most: int, seed: int = 0) -> list[Example]:
    """Return at most so many examples by lot, the classes as they were."""
    if len(examples) <= most:
        return list(examples)
    labels = np.array([example.label for example in examples])
    rng = np.random.default_rng(seed)
    kept: list[int] = []
    for label in (0, 1):
        rows = np.flatnonzero(labels == label)
        kept += rng.choice(rows, round(most * len(rows) / len(labels)), replace=False).tolist()
    return [examples[i] for i in sorted(kept)]


def measure_angles(examples: Sequence[Example], model: Model) -> Angles:
    """Return the index and the three angles of every answer."""
    spec = ScoreSpec("sgi", {"model": model.location})
    index = -next(iter(score_examples(examples, [build(spec)]).columns.values()))
    # The vectors are still known to the encoder, which all scores of a process share.
    encoder = load_encoder(model.location)
    responses = encoder.sentences([example.response for example in examples])
    questions = encoder.sentences([example.question for example in examples])
    contexts = encoder.sentences([joined(example) for example in examples])
    return Angles(
        index,
        angles(responses, questions),
        angles(responses, contexts),
        angles(questions, contexts),
    )


def separate(
    values: Floats,
    examples: Sequence[Example],
    place: tuple[str, str],
    *,
    rows: NDArray[np.intp] | None = None,
    stand_in: str = "",
) -> Found:
    """Return group means, effect size, AUC and p-value of valid against hallucinated answers."""
    labels = np.array([example.label for example in examples])

    def statistics(chosen: NDArray[np.intp]) -> list[float]:
        taken, own = values[chosen], labels[chosen]
        valid, hallucinated = taken[own == 0], taken[own == 1]
        if min(len(valid), len(hallucinated)) < 2:
            return [np.nan] * 5
        p = welch(hallucinated, valid)
        area = auroc(-hallucinated, -valid).estimate
        d = cohens_d(valid, hallucinated)
        return [
            valid.mean(),
            hallucinated.mean(),
            *(np.nan if found is None else found for found in (d, area, p)),
        ]

    groups = members([example.group for example in examples], rows)
    try:
        found = bootstrap(statistics, groups, stand_in=stand_in)
    except ValueError:
        return {}
    columns = ("SGI valid", "SGI halluc", "d", "AUC", "p")
    return {(*place, column): item for column, item in zip(columns, found, strict=True)}


def by_encoder(examples: Sequence[Example], view: Angles, name: str) -> Found:
    """Return an encoder's row of tables 1 and 5."""
    found = separate(view.index, examples, ("1", name))
    for column, values in (
        ("d of theta(r,q)", view.response_question),
        ("d of theta(r,c)", view.response_context),
    ):
        parts = separate(values, examples, ("5", name))
        found["5", name, column] = parts["5", name, "d"]
    return found


def by_stratum(examples: Sequence[Example], view: Angles, stand_in: str) -> Found:
    """Return tables 2 and 3: thirds by angle and by length in characters."""
    found: Found = {}
    strata = {
        "theta(q,c)": view.question_context,
        "question": np.array([float(len(example.question)) for example in examples]),
        "context": np.array([float(len(joined(example))) for example in examples]),
        "response": np.array([float(len(example.response)) for example in examples]),
    }
    for name, values in strata.items():
        number = "2" if name == "theta(q,c)" else "3"
        levels = ("low", "medium", "high") if number == "2" else THIRDS
        parts = np.array_split(np.argsort(values, kind="stable"), 3)
        for level, rows in zip(levels, parts, strict=True):
            place = (number, f"{level} {name}")
            found |= separate(view.index, examples, place, rows=rows, stand_in=stand_in)

    def bounds(chosen: NDArray[np.intp]) -> list[float]:
        return np.quantile(view.question_context[chosen], [1 / 3, 2 / 3]).tolist()

    ends = bootstrap(bounds, members([example.group for example in examples]), stand_in=stand_in)
    for level, end in zip(("low", "medium"), ends, strict=True):
        found["2", f"{level} theta(q,c)", "theta(q,c) up to"] = end
    return found


def calibration(examples: Sequence[Example], view: Angles, stand_in: str) -> Found:
    """Return section 5.5: ECE of the min-max scaled index in ten equal bins, and deciles."""
    labels = np.array([example.label for example in examples], dtype=np.float64)

    def statistics(chosen: NDArray[np.intp]) -> list[float]:
        index, own = view.index[chosen], labels[chosen]
        likely = (index.max() - index) / np.ptp(index)
        bins = np.array_split(np.argsort(index, kind="stable"), 10)
        gaps = [len(b) * abs(float(likely[b].mean() - own[b].mean())) for b in bins]
        return [sum(gaps) / len(own), float(own[bins[0]].mean()), float(own[bins[-1]].mean())]

    groups = members([example.group for example in examples])
    names = ("ECE", "lowest decile", "highest decile")
    found = bootstrap(statistics, groups, stand_in=stand_in)
    return {("section 5.5", "calibration", n): f for n, f in zip(names, found, strict=True)}


def agreement(examples: Sequence[Example], seen: Mapping[str, Angles]) -> Found:
    """Return section 5.2: how the encoders' indices correlate, pair by pair."""
    from scipy.stats import rankdata

    def statistics(chosen: NDArray[np.intp]) -> list[float]:
        plain = np.array([view.index[chosen] for view in seen.values()])
        pairs = list(combinations(range(len(plain)), 2))
        linear, ranked = np.corrcoef(plain), np.corrcoef(rankdata(plain, axis=1))
        r, rho = ([matrix[pair] for pair in pairs] for matrix in (linear, ranked))
        return [float(np.mean(r)), float(min(r)), float(max(r)), float(np.mean(rho))]

    found = bootstrap(statistics, members([example.group for example in examples]))
    names = ("mean r", "lowest r", "highest r", "mean rho")
    return {("section 5.2", "five encoders", n): f for n, f in zip(names, found, strict=True)}


def average(examples: Sequence[Example], seen: Mapping[str, Angles]) -> Found:
    """Return the last row of table 1: the means over the encoders."""
    labels = np.array([example.label for example in examples])

    def statistics(chosen: NDArray[np.intp]) -> list[float]:
        rows = []
        for view in seen.values():
            valid = view.index[chosen][labels[chosen] == 0]
            hallucinated = view.index[chosen][labels[chosen] == 1]
            d, area = cohens_d(valid, hallucinated), auroc(-hallucinated, -valid).estimate
            rows.append([valid.mean(), hallucinated.mean(), d, area])
        return np.mean(np.array(rows, dtype=np.float64), axis=0).tolist()

    found = bootstrap(statistics, members([example.group for example in examples]))
    names = ("SGI valid", "SGI halluc", "d", "AUC")
    return {("1", "mean", name): item for name, item in zip(names, found, strict=True)}


def truthfulqa(setup: Setup) -> Section:
    """Measure table 4: the angle between question and answer, without a context."""
    figures = [figure for figure in SGI if figure.table == "4"]
    path = setup.file("truthfulqa/TruthfulQA.csv")
    if isinstance(path, str):
        return Section("TruthfulQA", "", [Cell(figure, reason=path) for figure in figures])
    model = setup.model(UNNAMED, "encoder")
    assert isinstance(model, Model)
    examples, _ = read_all(path, require=("question", "response"))
    encoder = load_encoder(model.location)
    values = angles(
        encoder.sentences([example.response for example in examples]),
        encoder.sentences([example.question for example in examples]),
    )
    found = truth(examples, values, model.stand_in)
    text = (
        f"{len(examples):,} answers, the best and the best incorrect one to each question; AUC and "
        f"signs are those of false minus truthful. Encoder: {MODELS[UNNAMED]} where it is there."
    )
    return Section("TruthfulQA", text, [cell(figure, found, {}) for figure in figures])


def truth(examples: Sequence[Example], values: Floats, stand_in: str) -> Found:
    """Return table 4 from each answer's angle to its question."""
    labels = np.array([example.label for example in examples])

    def statistics(chosen: NDArray[np.intp]) -> list[float]:
        true, false = (values[chosen][labels[chosen] == label] for label in (0, 1))
        p, d = welch(false, true), cohens_d(false, true)
        assert p is not None and d is not None
        area = auroc(false, true).estimate
        assert area is not None
        return [true.mean(), false.mean(), false.mean() - true.mean(), d, p, area]

    groups = members([example.group for example in examples])
    found = bootstrap(statistics, groups, stand_in=stand_in)
    names = ("truthful", "false", "difference", "d", "p", "AUC")
    return {("4", "theta(r,q)", name): item for name, item in zip(names, found, strict=True)}


if __name__ == "__main__":
    main()
