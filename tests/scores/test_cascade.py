"""Does the cheap score decide what is clear, the expensive one the rest, in one order?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.scores import build, parse_spec
from calibrail.scores.base import Scores, state_bytes, with_state
from calibrail.scores.members import Hybrid, band
from calibrail.scores.registry import ScoreSpec, spell

CHEAP = "column:column=cheap,higher=hallucinated"
EXPENSIVE = "column:column=expensive,higher=hallucinated"


def hybrid(**params: object) -> Hybrid:
    found = build(ScoreSpec("hybrid", {"cheap": CHEAP, "expensive": EXPENSIVE, **params}))
    assert isinstance(found, Hybrid)
    return found


def examples(
    cheap: Sequence[float | None], expensive: Sequence[float | None], labels: Sequence[int] = ()
) -> list[Example]:
    return [
        Example(
            id=str(row),
            columns={"cheap": a, "expensive": b},
            label=labels[row] if labels else None,
        )
        for row, (a, b) in enumerate(zip(cheap, expensive, strict=True))
    ]


def test_the_three_regions_are_one_order() -> None:
    found = hybrid(low=2.0, high=4.0).score(
        examples([1.0, 1.5, 2.0, 3.0, 4.0, 5.0], [0.9, 0.9, 0.1, 0.8, 1.0, 0.0])
    )
    # Cleared: the distance below the band. Judged: the value. Condemned: 1 + the distance.
    assert found.values.tolist() == [-1.0, -0.5, 0.1, 0.8, 1.0, 2.0]
    assert found.evidence is not None
    assert [len(item["items"]) for item in found.evidence] == [1, 1, 2, 2, 2, 1]


def test_only_the_undecided_are_judged() -> None:
    score = hybrid(low=2.0, high=4.0)
    asked: list[str] = []
    inner = score.members["expensive"]

    class Watched:
        name, requires, tolerance = inner.name, inner.requires, 0.0

        def score(self, batch: Sequence[Example]) -> Scores:
            asked.extend(example.id for example in batch)
            return inner.score(batch)

    score.members["expensive"] = Watched()
    items = examples([1.0, 3.0, None, 9.0], [0.5, 0.25, 0.75, 0.5])
    values = score.score(items).values
    assert asked == ["1", "2"]
    assert values.tolist() == [-1.0, 0.25, 0.75, 6.0]
    assert (score.n_scored, score.n_judged) == (4, 2)
    assert score.undecided(items) == [1, 2]


def test_what_the_judge_cannot_say_is_undefined_and_never_made_up() -> None:
    found = hybrid(low=2.0, high=4.0).score(examples([3.0, 1.0], [None, None]))
    assert np.isnan(found.values[0]) and found.values[1] == -1.0
    assert set(found.reasons) == {0}


def test_the_band_is_learnt_from_the_fit_examples() -> None:
    # Hand-worked: of 10 hallucinated one may be lost (lost=0.1), of 10 faithful one.
    hallucinated = [3.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0]
    faithful = [0.0, 1.0, 2.0, 2.5, 3.5, 4.0, 4.5, 5.5, 6.5, 12.5]
    assert band(np.array(hallucinated), np.array(faithful), 0.1) == (5.0, 6.5)
    score = hybrid(lost=0.1)
    assert not score.fitted
    with pytest.raises(InputError, match="fit split"):
        score.score(examples([1.0], [0.5]))
    values = hallucinated + faithful
    taught = [
        replace(example, id=f"fit-{example.id}")
        for example in examples(values, [0.5] * 20, [1] * 10 + [0] * 10)
    ]
    fitted = score.fit(taught)
    assert isinstance(fitted, Hybrid) and fitted.fitted
    # Nobody pays for judging what it was learnt from.
    assert fitted.undecided(taught) == []
    assert np.isnan(fitted.score(taught[:3]).values).all() and fitted.n_judged == 0
    assert fitted.score(examples([4.9, 5.0, 6.5, 6.6], [0.5] * 4)).values.tolist() == pytest.approx(
        [-0.1, 0.5, 0.5, 1.1]
    )
    again = with_state(hybrid(lost=0.1), state_bytes(fitted))
    assert again.score(examples([4.9], [0.5])).values.tolist() == pytest.approx([-0.1])


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60),
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60),
    st.floats(0.0, 0.49),
)
def test_the_band_loses_no_more_than_it_may(
    hallucinated: list[float], faithful: list[float], lost: float
) -> None:
    low, high = band(np.array(hallucinated), np.array(faithful), lost)
    assert low <= high
    if low < high:
        assert sum(value < low for value in hallucinated) <= lost * len(hallucinated)
        assert sum(value > high for value in faithful) <= lost * len(faithful)


def test_a_hybrid_is_rebuilt_from_its_parameters() -> None:
    score = hybrid(low=2.0, high=4.0)
    params = json.loads(json.dumps(dict(score.params)))
    again = build(ScoreSpec("hybrid", params))
    assert again.params == score.params and again.fingerprint() == score.fingerprint()
    named = build(parse_spec(spell(score)))
    assert named.params == score.params
    assert score.columns == ("cheap", "expensive")


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"low": 1.0}, "both or neither"),
        ({"low": 3.0, "high": 2.0}, "low not above high"),
        ({"low": "a", "high": 2.0}, "low and high must be numbers"),
        ({"lost": 0.5}, "lost must be a share"),
        ({"cheap": 3}, "must name a score"),
        ({"expensive": "hybrid:expensive=length"}, "cannot be hybrid itself"),
        ({"cheap": "fused"}, "which learns"),
        ({"expensive": "nothing"}, "unknown score"),
    ],
)
def test_bad_parameters_are_named(params: dict[str, object], why: str) -> None:
    with pytest.raises(InputError, match=why):
        hybrid(**params)


def test_an_expensive_score_outside_0_to_1_is_refused() -> None:
    with pytest.raises(InputError, match=r"must lie in \[0, 1\]"):
        hybrid(low=2.0, high=4.0).score(examples([3.0], [7.0]))
