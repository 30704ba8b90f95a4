"""Do data, seed and split decide every figure, whatever the order of detectors and rows?"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from calibrail import calibrate, compare
from calibrail.data.splits import TEST
from calibrail.options import SplitOptions
from calibrail.pipelines.certify import certify
from calibrail.pipelines.scoring import tie_break_keys

A, B = (f"column:column={name},higher=hallucinated" for name in "ab")
#: What names a source, not what was measured of it.
NAMES = {"sha256", "source", "reproduce", "versions"}
NO_TEXTS = ("question", "contexts", "response")


def answers(*, copies: bool = False, per_group: int = 3) -> list[dict[str, Any]]:
    """Return answers in groups; with copies, those of a group have one text and other scores."""
    rng = random.Random(0)
    rows = []
    for number in range(240):
        group, label = number // per_group, int(rng.random() < 0.4)
        said = f"answer {group}" if copies else f"answer {number} of {group} {rng.random():.5f}"
        rows.append(
            {
                "id": f"a{number}",
                "group": f"g{group}",
                "question": f"what of {group}",
                "contexts": [f"context {group} with {group * 7}"],
                "response": said,
                "label": label,
                "a": round(rng.gauss(label, 1.0), 3),
                "b": round(rng.gauss(0.7 * label, 1.0), 3),
            }
        )
    return rows


def without(rows: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    return [{key: cell for key, cell in row.items() if key not in names} for row in rows]


def numbers(content: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Yield every number of a report, by where it stands."""
    if isinstance(content, dict):
        for name, value in content.items():
            if name not in NAMES:
                yield from numbers(value, f"{path}.{name}")
    elif isinstance(content, list):
        for place, value in enumerate(content):
            name = value.get("name", place) if isinstance(value, dict) else place
            yield from numbers(value, f"{path}.{name}")
    elif isinstance(content, int | float):
        yield path, float(content)


def same(one: Any, other: Any) -> bool:
    """Return whether two reports hold the same numbers, but for the last digits of sums."""
    first, second = dict(numbers(one)), dict(numbers(other))
    close = (math.isclose(first[key], second.get(key, math.nan), rel_tol=1e-9) for key in first)
    return first.keys() == second.keys() and all(close)


CASES = {
    "groups": answers(),
    "no groups": answers(per_group=1),
    "no ids": without(answers(), "id"),
    "copies": answers(copies=True),
    "copies without ids": without(answers(copies=True), "id"),
    "scores": without(answers(), "id", *NO_TEXTS),
    "scores alone": without(answers(), "id", "group", *NO_TEXTS),
}


@pytest.mark.parametrize("rows", CASES.values(), ids=CASES)
@pytest.mark.parametrize("seed", [0, 7])
def test_no_order_and_no_further_detector_changes_a_figure(
    rows: list[dict[str, Any]], seed: int
) -> None:
    mixed = random.Random(5).sample(rows, len(rows))
    # With a test half: the guarantee that a verdict has otherwise leaves none.
    options: dict[str, Any] = {"alpha": 0.2, "max_fpr": 0.6, "baselines": False}
    options["guarantee"] = "marginal"
    options["splitting"] = SplitOptions(seed=seed)
    both = compare(rows, [A, B], **options).to_dict()
    assert same(both, compare(rows, [B, A], **options).to_dict())
    assert same(both, compare(mixed, [A, B], **options).to_dict())
    alone = calibrate(rows, A, **options).report.to_dict()
    assert same(alone, calibrate(mixed, A, **options).report.to_dict())
    (beside,) = (row for row in both["detectors"] if row["score"]["params"]["column"] == "a")
    (compared,) = (single := compare(rows, A, **options)).to_dict()["detectors"]
    further = calibrate(rows, [A, B], **options).report.to_dict()
    # A comparison shows of the same test answers those that choose.
    for one, other in ((alone, further), (compared, beside)):
        assert same(one["test"], other["test"]) and one["threshold"] == other["threshold"]
    assert alone["threshold"] == compared["threshold"]
    chosen = np.bincount(single.scored.table.labels[single.codes == TEST], minlength=2)
    assert chosen.tolist() == [
        compared["test"][f"n_{name}"] for name in ("faithful", "hallucinated")
    ]


@pytest.mark.parametrize("copies", [False, True])
def test_certify_counts_the_same_answers_whatever_the_scores_and_the_order(copies: bool) -> None:
    rows = [row | {"b": 2.0 * row["a"] + 1.0} for row in answers(copies=copies)]
    fresh = [row | {"response": f"{row['response']} anew {row['group']}"} for row in rows]
    fresh = [row | {"question": f"anew {row['group']}", "contexts": ["new"]} for row in fresh]
    mixed = random.Random(5).sample(fresh, len(fresh))
    results = []
    for name, source in ((A, fresh), (A, mixed), (B, fresh)):
        guardrail = calibrate(rows, name, alpha=0.2, baselines=False).freeze()
        made = certify(guardrail, source, max_fpr=0.9, min_coverage=0.1, looks=False).to_dict()
        results.append({key: made[key] for key in ("coverage", "fpr", "needed", "n_set_aside")})
    assert results[0] == results[1] == results[2] and results[0]["n_set_aside"] > 0


def test_lots_follow_from_content_label_and_seed() -> None:
    digests = np.array([5, 5, 5, 6], np.uint64)
    labels, values = np.array([1, 1, 0, 1], np.int8), np.array([0.5, 0.25, 0.5, 0.5])

    def lots(*names: str, scores: Any = values, seed: int = 0) -> list[int]:
        keys = tie_break_keys(digests, labels, names.__getitem__, [scores], seed)
        return [int(key) for key in keys]

    named = lots("a", "b", "c", "d")
    assert len(set(named)) == 4
    # With ids no score takes part, and with another seed others are drawn.
    assert lots("a", "b", "c", "d", scores=np.zeros(4)) == named != lots("a", "b", "c", "d", seed=1)
    assert lots("b", "a", "c", "d") == [named[1], named[0], *named[2:]]
    # Without ids the bits of scores tell the same texts apart.
    assert len(set(lots("", "", "", ""))) == 4
