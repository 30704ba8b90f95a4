"""Which detector that needs no model costs least, on sets that did not choose it?

Answers of all sets that hold texts. Every threshold is set on one half of a set's groups, at the
rank that catches 90 % of new answers on average, and tested on the other half, fifty times.
``fused`` learns from the other sets, and so never from the one that tests it; two of its members
were designed on RAGTruth QA, which therefore shows nothing of it. Left out one by one, sets also
say what choosing the default on the others would have cost. Writes results/default_detector.md and
.json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from results import FOLDER, write
from text_sets import TEXTS, missing, read_texts

from calibrail.data import Example
from calibrail.data.splits import group_numbers
from calibrail.engine import score_examples
from calibrail.scores import build, parse_spec
from calibrail.scores.base import Fittable
from calibrail.scores.ensemble import MEMBERS
from calibrail.scores.registry import DEFAULT_SCORE

#: Those that need no training, and the one that does.
CANDIDATES: Final = ("rouge_l", "novel_count", "novelty")
LEARNS: Final = "fused"
DESIGNED_ON: Final = "RAGTruth QA"
ALPHA: Final = 0.1
DRAWS: Final = 50

Floats = NDArray[np.float64]
#: False alarms of every draw, by set and detector.
Costs = Mapping[str, Mapping[str, Floats]]


@dataclass(frozen=True)
class Texts:
    """A set's answers and what the members of ``fused`` say of them."""

    examples: Sequence[Example]
    columns: Mapping[str, Floats]

    @property
    def labels(self) -> NDArray[np.int64]:
        """1 = hallucinated, 0 = faithful."""
        return np.array([example.label for example in self.examples])

    @property
    def groups(self) -> NDArray[np.int64]:
        """The number of each answer's group."""
        return group_numbers([example.group for example in self.examples], len(self.examples))


class Known:
    """A member of ``fused`` that looks its values up: all sets are scored once."""

    def __init__(self, score: object, values: Mapping[int, float], reasons: Mapping[int, str]):
        self._score, self._values, self._reasons = score, values, reasons

    def __getattr__(self, name: str) -> object:
        return getattr(self._score, name)

    def score(self, examples: Sequence[Example]) -> object:
        """Return what is known of these very examples."""
        from calibrail.scores import Scores

        values = np.array([self._values[id(example)] for example in examples])
        gone = np.flatnonzero(np.isnan(values)).tolist()
        return Scores(values, {i: self._reasons[id(examples[i])] for i in gone})


def scored() -> dict[str, Texts]:
    """Return every set with the columns of the candidates, and of ``fused`` of the other sets."""
    read = {name: read_texts(name) for name in TEXTS}
    members = MEMBERS.split(",")
    tables = {
        name: score_examples(examples, [build(parse_spec(item)) for item in members])
        for name, examples in read.items()
    }
    fused = build(parse_spec(LEARNS))
    for key in members:
        values, reasons = {}, {}
        for name, examples in read.items():
            values |= {id(e): v for e, v in zip(examples, tables[name].columns[key], strict=True)}
            reasons |= {id(examples[i]): why for i, why in tables[name].reasons[key].items()}
        fused.members[key] = Known(fused.members[key], values, reasons)  # type: ignore[attr-defined]
    assert isinstance(fused, Fittable)
    found = {}
    for name, examples in read.items():
        others = [example for other in read if other != name for example in read[other]]
        own = fused.fit(others).score(examples).values
        columns = {key: tables[name].columns[key] for key in CANDIDATES}
        found[name] = Texts(examples, {**columns, LEARNS: own})
    return found


def false_alarms(texts: Texts, draws: int = DRAWS) -> dict[str, Floats]:
    """Return the share of faithful answers flagged in each draw, by detector.

    One half of the groups sets the threshold, the other one tests it.
    """
    labels, groups = texts.labels, texts.groups
    n = int(groups.max()) + 1
    costs: dict[str, list[float]] = {name: [] for name in texts.columns}
    for seed in range(draws):
        first = np.isin(groups, np.random.default_rng(seed).permutation(n)[: n // 2])
        for name, values in texts.columns.items():
            # What is undefined is flagged, as the guardrail does.
            ranked = np.where(np.isnan(values), np.inf, values)
            bad = np.sort(ranked[first & (labels == 1)])
            place = int(ALPHA * (len(bad) + 1) + 1e-9)
            threshold = bad[place - 1] if place else -np.inf
            costs[name].append(float(np.mean(ranked[~first & (labels == 0)] >= threshold)))
    return {name: np.array(values) for name, values in costs.items()}


def mean(costs: Costs, name: str, sets: Sequence[str]) -> float:
    """Return what a detector costs over some sets, each counting the same."""
    return float(np.mean([costs[item][name].mean() for item in sets]))


def chosen(costs: Costs, sets: Sequence[str]) -> str:
    """Return the candidate that needs no training and costs least over some sets."""
    return min(CANDIDATES, key=lambda name: mean(costs, name, sets))


def left_out(costs: Costs) -> dict[str, str]:
    """Return what each set's fellows would choose for it."""
    return {name: chosen(costs, [item for item in costs if item != name]) for name in costs}


def page(costs: Costs) -> list[str]:
    """Return the page of results."""
    lines = [
        f"False alarms at {1 - ALPHA:.0%} caught, thresholds set on half of a set's groups and "
        f"tested on the other, the mean of {DRAWS} draws, with their standard deviation: it holds "
        f"the luck of a split, not that of the answers. `{LEARNS}` is fitted on the other sets. †: "
        "two of its members were designed on these answers, so that this is no result, nor is the "
        "mean.",
        "",
        f"| detector | {' | '.join(costs)} | mean |",
        "|---" * (2 + len(costs)) + "|",
    ]
    for name in (*CANDIDATES, LEARNS):
        cells = [
            f"{100 * costs[item][name].mean():.1f}% ({100 * costs[item][name].std():.1f})"
            + " †" * (name == LEARNS and item == DESIGNED_ON)
            for item in costs
        ]
        average = f"{100 * mean(costs, name, [*costs]):.1f}%" + " †" * (name == LEARNS)
        lines.append(f"| `{name}` | {' | '.join(cells)} | {average} |")
    lines += [
        "",
        "## Chosen on the other sets",
        "",
        "| left out | chosen | costs there |",
        "|---" * 3 + "|",
    ]
    for name, choice in left_out(costs).items():
        lines.append(f"| {name} | `{choice}` | {100 * costs[name][choice].mean():.1f}% |")
    best = chosen(costs, [*costs])
    second = min((n for n in CANDIDATES if n != best), key=lambda n: mean(costs, n, [*costs]))
    ahead = mean(costs, second, [*costs]) - mean(costs, best, [*costs])
    lines += [
        "",
        f"Over all sets `{best}` costs least, {100 * ahead:.1f} points less than `{second}`. The "
        f"default is `{DEFAULT_SCORE}`.",
    ]
    return lines


def main() -> None:
    if gone := missing():
        sys.exit(f"nothing was made: no {', no '.join(gone)}; CALIBRAIL_DATA names the data")
    costs = {name: false_alarms(texts) for name, texts in scored().items()}
    content = {
        "schema": "calibrail.default-detector/1",
        "false_alarms": {
            name: {key: float(values.mean()) for key, values in row.items()}
            for name, row in costs.items()
        },
        "spread": {
            name: {key: float(values.std()) for key, values in row.items()}
            for name, row in costs.items()
        },
        "left_out": left_out(costs),
        "best": chosen(costs, [*costs]),
    }
    text = json.dumps(content, indent=1, ensure_ascii=False)
    (FOLDER / "default_detector.json").write_text(text + "\n", encoding="utf-8")
    write("default_detector", "The default detector", page(costs))


if __name__ == "__main__":
    main()
