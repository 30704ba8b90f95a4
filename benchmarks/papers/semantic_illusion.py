"""Are the tables of "The Semantic Illusion" (arXiv 2512.15068) reproduced?

Tables 1 to 6 and the matched coverage of section 4.6. Natural Questions is measured twice: with
swapped answers on their gold passages, as the paper says, and as the code of its repository makes
it, with a one-line document that states the right answer and a refusal as the hallucination.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from cells import Cell, Measured, Section
from natural_questions import swapped_answers
from page import write
from rates import Study, alpha_of, figures, held_out, rates, score_of
from sources import MODELS, PUBLISHED_AT, Model, Setup, parse

from calibrail.data import Example, read_all
from calibrail.data.splits import group_numbers
from calibrail.engine import score_examples
from calibrail.evaluation.stats.intervals import wilson
from calibrail.scores import ScoreSpec, available, build, parse_spec

REFUSALS: Final = (
    "The information is not available.",
    "This cannot be determined.",
    "No answer found.",
)
ENDPOINT: Final = "no endpoint; give one with --judge"


def main(arguments: Sequence[str] | None = None) -> None:
    setup = parse(
        "semantic_illusion", "Are the tables of The Semantic Illusion reproduced?", arguments
    )
    sections = [
        natural_questions(setup, swapped=True),
        natural_questions(setup, swapped=False),
        halueval(setup),
        ragtruth(setup),
        wikibio(setup),
    ]
    text = (
        "Sinha, arXiv 2512.15068. Thresholds by the paper's own rank. The estimate is the mean "
        "over 300 random splits by question; the interval resamples the questions, splits and "
        "calibrates anew, and is at least Wilson's. Accuracy is taken at the paper's share of "
        "hallucinated answers; overlap is that of the paper's code (median crossing)."
    )
    write(
        "semantic_illusion",
        "The Semantic Illusion, published and measured",
        text,
        sections,
        setup.command,
    )


def natural_questions(setup: Setup, *, swapped: bool) -> Section:
    title = "Natural Questions, " + (
        "answers swapped (as the paper says)" if swapped else "refusals (as its code does)"
    )
    path = setup.file("natural_questions/nq_open_gold.jsonl")
    if isinstance(path, str):
        return missing(title, "NQ", path)
    examples = some(swapped_answers(path), setup.most)
    if not swapped:
        examples = refusals(examples)
    return measured(setup, "NQ", title, examples, ("rad", "tfg", "sec", "nli", "crg"))


def refusals(examples: Sequence[Example], seed: int = 42) -> list[Example]:
    """Return the construction of the paper's code: a document that states the answer, a refusal."""
    rng = np.random.default_rng(seed)
    made = []
    for example in examples:
        if example.label == 0:
            document = f"The answer to '{example.question}' is {example.response}."
            faithful = replace(example, contexts=(document,))
            refusal = REFUSALS[int(rng.integers(len(REFUSALS)))]
            other = replace(faithful, response=refusal, label=1, id=f"{example.id}-refused")
            made += [faithful, other]
    return made


def halueval(setup: Setup) -> Section:
    title = "HaluEval QA"
    path = setup.file("halueval/qa_data.json")
    if isinstance(path, str):
        return missing(title, "HaluEval", path)
    names = ("rad", "tfg", "sec", "nli", "crg", "reranker", "redeep", "halt")
    return measured(setup, "HaluEval", title, some(read_all(path)[0], setup.most), names)


def ragtruth(setup: Setup) -> Section:
    title = "RAGTruth"
    path = setup.file("ragtruth/response.jsonl")
    if isinstance(path, str):
        return missing(title, "RAGTruth", path)
    examples, _ = read_all(
        path,
        format="ragtruth",
        require=("contexts", "response"),
        keep=("task",),
        options={"split": "test"},
    )
    tasks = {str(example.columns["task"]) for example in examples}
    less = "" if len(tasks) == 3 else f"{' and '.join(sorted(tasks))} answers only"
    return measured(
        setup, "RAGTruth", title, some(examples, setup.most), ("rad", "tfg", "sec", "crg"), less
    )


def wikibio(setup: Setup) -> Section:
    folder = setup.file("wikibio")
    if isinstance(folder, str):
        return missing("WikiBio GPT-3", "WikiBio", folder)
    # Tables of single sentences, which the leaderboard compares, have no contexts.
    whole = [file for file in sorted(folder.iterdir()) if not file.match("sentences_*.csv")]
    if not whole:
        there = f"no passages in the data folder's wikibio; published at {PUBLISHED_AT['wikibio']}"
        return missing("WikiBio GPT-3", "WikiBio", there)
    examples, _ = read_all(whole[0], format="wikibio", require=("contexts", "response"))
    return measured(setup, "WikiBio", "WikiBio GPT-3", examples, ("rad", "tfg", "sec", "crg"))


def missing(title: str, name: str, reason: str) -> Section:
    return Section(title, "Not measured.", [Cell(f, reason=reason) for f in figures(name)])


def some(examples: Sequence[Example], most: int, seed: int = 0) -> list[Example]:
    """Return whole questions by lot, at most so many answers."""
    if len(examples) <= most:
        return list(examples)
    numbers = group_numbers([example.group for example in examples], len(examples))
    order = np.random.default_rng(seed).permutation(numbers.max() + 1)
    sizes = np.bincount(numbers)[order].cumsum()
    kept = np.isin(numbers, order[sizes <= most])
    return [example for example, keep in zip(examples, kept.tolist(), strict=True) if keep]


def specifications(setup: Setup) -> tuple[dict[str, ScoreSpec], dict[str, str], dict[str, str]]:
    """Return what can be built here, whose place a model takes, and why the rest is missing."""
    encoder, bart = setup.model("bge", "encoder"), setup.model("bart", "sec")
    assert isinstance(encoder, Model)
    specs = {name: ScoreSpec(name, {"model": encoder.location}) for name in ("rad", "tfg")}
    stand_ins = dict.fromkeys(("rad", "tfg"), encoder.stand_in)
    specs["redeep"] = ScoreSpec("redeep")
    stand_ins["redeep"] = "all-MiniLM-L6-v2 (the paper names no model)"
    absent = {}
    if isinstance(bart, Model):
        specs |= {name: ScoreSpec(name, {"model": bart.location}) for name in ("sec", "nli")}
        specs["crg"] = ScoreSpec("crg", {"model": encoder.location, "nli_model": bart.location})
        stand_ins |= dict.fromkeys(("sec", "nli"), bart.stand_in)
        stand_ins["crg"] = " and ".join(filter(None, (encoder.stand_in, bart.stand_in)))
    else:
        absent = dict.fromkeys(("sec", "nli", "crg"), bart)
    absent["openai"] = "text-embedding-3-large is behind an endpoint; calibrail embeds locally"
    reranker, deberta = setup.model("bge-reranker"), setup.model("deberta")
    if isinstance(reranker, Model):
        specs["reranker"] = ScoreSpec("reranker", {"model": reranker.location})
    else:
        absent["reranker"] = reranker
    own = isinstance(bart, Model) and not bart.stand_in
    if own and isinstance(bart, Model) and isinstance(deberta, Model):
        params: dict[str, object] = {"model": bart.location, "second": deberta.location}
        specs["halt"] = ScoreSpec("halt", params)
    else:
        absent["halt"] = f"no weights of {MODELS['deberta'] if own else MODELS['bart']}"
    return specs, stand_ins, absent


def measured(
    setup: Setup,
    name: str,
    title: str,
    examples: Sequence[Example],
    names: Sequence[str],
    less: str = "",
) -> Section:
    """Score a data set once and measure all of its figures.

    ``less`` says what keeps the data from being the paper's.
    """
    specs, stand_ins, absent = specifications(setup)
    stand_ins = {
        key: ", ".join(filter(None, (less, stand_ins.get(key, "")))) for key in (*specs, "judge")
    }
    plain = [key for key in names if key in specs and key != "halt"]
    table = score_examples(examples, [build(specs[key]) for key in plain])
    values = dict(zip(plain, table.columns.values(), strict=True))
    study = Study(name, examples, values, stand_ins, absent)
    found = rates(study)
    if "halt" in names and "halt" in specs:
        found |= rates(held_out(study, specs["halt"]))
    cells = []
    for figure in figures(name):
        score = score_of(figure)
        measurement = found.get((score, alpha_of(figure), figure.column))
        if score == "judge" and setup.judge:
            cells.append(Cell(figure, judged(setup, examples)[figure.column]))
        elif measurement is not None:
            cells.append(Cell(figure, measurement))
        else:
            cells.append(Cell(figure, reason=absent.get(score, ENDPOINT)))
    return Section(title, described(examples, less), cells)


def described(examples: Sequence[Example], less: str) -> str:
    hallucinated = sum(example.label == 1 for example in examples)
    groups = len({example.group for example in examples})
    text = (
        f"{hallucinated:,} hallucinated and {len(examples) - hallucinated:,} faithful answers to "
        f"{groups:,} questions or sources."
    )
    return text + (f" Not the paper's data: {less}." if less else "")


def judged(setup: Setup, examples: Sequence[Example], each: int = 100) -> dict[str, Measured]:
    """Ask the endpoint about so many answers of each class: the judge's raw verdicts.

    ``--judge SPEC`` names the score, e.g. ``judge:mode=verdict,model=gpt-4o-mini``; whatever it
    needs to reach its endpoint is in its parameters or in the environment.
    """
    spec = parse_spec(setup.judge)
    if spec.name not in available():
        raise SystemExit(f"--judge: there is no score {spec.name}")
    rng = np.random.default_rng(0)
    labels = np.array([example.label for example in examples])
    rows = np.concatenate([rng.permutation(np.flatnonzero(labels == k))[:each] for k in (1, 0)])
    table = score_examples([examples[i] for i in rows.tolist()], [build(spec)])
    values = next(iter(table.columns.values()))
    # An answer that the judge could not decide is flagged, as in the guardrail.
    flagged, labels = np.isnan(values) | (values >= 0.5), labels[rows]
    stand_in = "" if "gpt-4o-mini" in setup.judge else setup.judge
    result = {}
    for column, hits in (
        ("coverage", flagged[labels == 1]),
        ("FPR", flagged[labels == 0]),
        ("accuracy", flagged == (labels == 1)),
    ):
        bound = wilson(int(hits.sum()), len(hits))
        estimate = float(hits.mean())
        result[column] = Measured(estimate, bound.lower, bound.upper, len(hits), stand_in)
    return result


if __name__ == "__main__":
    main()
