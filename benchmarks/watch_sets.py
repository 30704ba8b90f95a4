"""Traffic that changes, simulated and replayed; imported by ``watch_power.py``."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calibrail.data import read
from calibrail.scores import build, parse_spec

Floats = NDArray[np.float64]
#: Rows of this shape, all drawn alike and independently.
Draw = Callable[[np.random.Generator, tuple[int, ...]], Floats]

DATA = Path(os.environ.get("CALIBRAIL_DATA", Path(__file__).parents[2] / "shared" / "data"))
#: Hallucinated answers score so much higher; both classes have standard deviation 1.
DISTANCE = 1.5
#: Shares of three languages.
LANGUAGES = (0.8, 0.15, 0.05)


@dataclass(frozen=True)
class Change:
    """One column of a stream, before and after it changes.

    Attributes
    ----------
    name : str
        What changes, and how much.
    column : str
        Streams with the same column are alike before the change.
    before, after : callable
    named : bool
        Whether its values are names, without an order.
    rows : pair of ndarray, optional
        All there are, where they are real.
    """

    name: str
    column: str
    before: Draw
    after: Draw
    named: bool = False
    rows: tuple[Floats, Floats] | None = None


def scores(share: float, scale: float = 1.0, shift: float = 0.0) -> Draw:
    """Return scores of which a share belongs to hallucinated answers."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        value = rng.standard_normal(shape) + DISTANCE * (rng.random(shape) < share)
        return value * scale + shift

    return draw


def lengths(longer: float = 1.0) -> Draw:
    """Return lengths of answers in characters, longer by a factor."""
    return lambda rng, shape: np.floor(longer * rng.lognormal(6.0, 0.5, shape))


def languages(shares: tuple[float, ...]) -> Draw:
    """Return numbers of languages."""
    edges = np.cumsum(shares)[:-1]
    return lambda rng, shape: np.searchsorted(edges, rng.random(shape)).astype(np.float64)


def rows_of(values: Floats) -> Draw:
    """Return rows of real data, each drawn anew from all of them."""
    return lambda rng, shape: values[rng.integers(0, len(values), shape)]


def simulated() -> Iterator[Change]:
    """Yield the simulated changes."""
    start = scores(0.2)
    for share in (0.25, 0.3, 0.4):
        name = f"prevalence: 20 % hallucinated, then {share:.0%}"
        yield Change(name, "score", start, scores(share))
    for longer in (1.1, 1.25):
        name = f"covariates: answers {longer - 1:.0%} longer"
        yield Change(name, "length", lengths(), lengths(longer))
    for more in (0.05, 0.15):
        shares = (LANGUAGES[0] - more, LANGUAGES[1] + more, LANGUAGES[2])
        name = f"covariates: second language {LANGUAGES[1]:.0%}, then {shares[1]:.0%}"
        yield Change(name, "language", languages(LANGUAGES), languages(shares), named=True)
    fourth = (*(0.97 * share for share in LANGUAGES), 0.03)
    yield Change(
        "covariates: a new language, 3 %", "language", languages(LANGUAGES), languages(fourth), True
    )
    yield Change("detector: scores times 0.8", "score", start, scores(0.2, 0.8))
    yield Change("detector: scores times 1.25", "score", start, scores(0.2, 1.25))
    yield Change("detector: scores + 0.2", "score", start, scores(0.2, shift=0.2))


def real() -> Iterator[Change]:
    """Yield the changes between parts of real data, where these lie beside the project."""
    yield from frank()
    yield from ragtruth()
    yield from faithbench()


def frank() -> Iterator[Change]:
    """News of one source, then of another, by three metrics."""
    for column in ("bertscore_p_article", "rouge_l", "factcc"):
        parts = {"cnndm": [], "bbc": []}
        for row in table("frank/metric_scores.csv"):
            if row[column].strip():
                parts[row["dataset"]].append(float(row[column]))
        if parts["cnndm"]:
            yield replay(f"FRANK {column}: cnndm, then bbc", parts["cnndm"], parts["bbc"])


def ragtruth() -> Iterator[Change]:
    """Answers of one model, then of another; the score is the number of new words."""
    folder = DATA / "ragtruth"
    if not folder.is_dir():
        return
    lines = (folder / "response.jsonl").read_text(encoding="utf-8").split("\n")
    answers = [json.loads(line) for line in lines if line]
    models = {answer["id"]: answer["model"] for answer in answers}
    examples = list(read(folder))
    values = build(parse_spec("novel_count")).score(examples).values
    model = np.array([models[example.id] for example in examples])
    pairs = (
        ("gpt-4-0613", "gpt-3.5-turbo-0613"),
        ("gpt-4-0613", "mistral-7B-instruct"),
        ("gpt-4-0613", "llama-2-70b-chat"),
    )
    for one, other in pairs:
        parts = (values[model == name] for name in (one, other))
        yield replay(f"RAGTruth novel_count: {one}, then {other}", *parts)


def faithbench() -> Iterator[Change]:
    """One version of a detector, then another; summaries of some models, then of others."""
    rows = table("faithbench/summaries.csv")
    if not rows:
        return
    for one, other in (("hhem_2_1", "hhem_2_1_english"), ("true_nli", "true_teacher")):
        parts = ([float(row[name]) for row in rows if row[name].strip()] for name in (one, other))
        yield replay(f"FaithBench: detector {one}, then {other}", *parts)
    first = [float(row["hhem_2_1"]) for row in rows if row["summarizer"].startswith("openai")]
    then = [float(row["hhem_2_1"]) for row in rows if not row["summarizer"].startswith("openai")]
    yield replay("FaithBench hhem_2_1: OpenAI's models, then the eight others", first, then)


def replay(name: str, before: object, after: object) -> Change:
    rows = (np.asarray(before, np.float64), np.asarray(after, np.float64))
    return Change(name, name.split(", then")[0], rows_of(rows[0]), rows_of(rows[1]), rows=rows)


def table(file: str) -> list[dict[str, str]]:
    path = DATA / file
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))
