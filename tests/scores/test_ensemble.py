from __future__ import annotations

import numpy as np
import pytest

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.scores import Scores
from calibrail.scores.base import state_bytes, with_state
from calibrail.scores.ensemble import BLUR, Ensemble, Fused, _ranks
from calibrail.testing import check_score


def answer(length: float, other: float | None) -> Example:
    return Example("q", ("c",), "x", columns={"a": length, "b": other})


SPEC = "column:column=a,higher=hallucinated,column:column=b,higher=faithful"
FIT = [answer(value, -value) for value in (1.0, 2.0, 2.0, 4.0)]


def test_a_value_becomes_its_rank_in_the_fit_split() -> None:
    score = Ensemble(scores=SPEC).fit(FIT)
    result = score.score([answer(2.0, -3.0), answer(0.0, 9.0), answer(5.0, -9.0)])
    # 2 lies above one of four and equals two; 3 lies above three.
    assert result.values.tolist() == pytest.approx([(0.5 + 0.75) / 2, 0.0, 1.0])


def test_a_member_that_points_the_wrong_way_gets_no_weight_and_is_named() -> None:
    examples = [
        Example("q", ("c",), "x", label=i % 2, columns={"a": i % 2 + i / 100, "b": i % 2 + i / 90})
        for i in range(20)
    ]
    fitted = Ensemble(scores=SPEC).fit(examples)
    assert fitted.lessons[0].startswith("b points the wrong way on the fit split (AUROC 0.")
    again = with_state(Ensemble(scores=SPEC), state_bytes(fitted))
    for score in (fitted, again):
        low, high = score.score([answer(0.5, -9.0), answer(0.5, 9.0)]).values
        assert low == high
    with pytest.raises(InputError, match="every score of the ensemble points the wrong way"):
        Ensemble(scores=SPEC.replace("a,higher=hallucinated", "a,higher=faithful")).fit(examples)


def test_a_row_alone_gets_what_it_gets_in_a_batch() -> None:
    spec = ",".join(f"column:column=c{i},higher=hallucinated" for i in range(5))
    rng = np.random.default_rng(0)
    examples = [
        Example("q", ("c",), "x", columns={f"c{i}": float(rng.normal()) for i in range(5)})
        for _ in range(200)
    ]
    score = Ensemble(scores=spec).fit(examples)
    whole = score.score(examples).values.tolist()
    assert whole == [score.score([example]).values[0] for example in examples]


def test_an_undefined_member_leaves_the_mean_to_the_others() -> None:
    result = Ensemble(scores=SPEC).fit(FIT).score([answer(2.0, None), answer(np.nan, None)])
    assert result.values[0] == pytest.approx(0.5)
    assert result.evidence[0]["items"][1] == {
        "score": "b",
        "value": None,
        "reason": "column b is empty",
        "rank": None,
    }
    assert np.isnan(result.values[1])
    assert "column b is empty" in result.reasons[1]


def test_a_smoothed_rank_moves_little_where_rounding_does() -> None:
    reference = np.sort(np.random.default_rng(0).normal(size=50))
    reference[10:30] = reference[10]
    tolerance, width = 1e-6, BLUR * 1e-6
    x = np.linspace(-3, 3, 50_001)
    moved = np.abs(_ranks(x + tolerance, reference, width) - _ranks(x, reference, width))
    assert moved.max() <= 0.5 / BLUR * 1.000001
    # It is the mean of the plain rank over the window.
    for centre in (-0.5, reference[10] + width / 3, 0.7):
        near = np.linspace(centre - width, centre + width, 200_001)
        exact = _ranks(near, reference, 0.0).mean()
        assert _ranks(np.array([centre]), reference, width)[0] == pytest.approx(exact, abs=1e-4)


def test_it_conforms() -> None:
    check_score(Ensemble(scores="novelty,novel_count"))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"scores": "novelty"}, "at least two"),
        ({"scores": "novelty,novelty"}, "each score once"),
        ({"scores": 'novelty,ensemble:scores="length,novelty"'}, "learn themselves"),
        ({"scores": "novelty,length", "weights": "1"}, "2 numbers above 0"),
        ({"scores": "novelty,length", "weights": "1,0"}, "2 numbers above 0"),
        ({"scores": 3}, "must be text"),
    ],
)
def test_bad_parameters_are_refused(params: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Ensemble(**params)


def test_a_member_that_is_never_defined_cannot_be_ranked() -> None:
    with pytest.raises(InputError, match="undefined on all of them"):
        Ensemble(scores=SPEC).fit([answer(1.0, None), answer(2.0, None)])


FUSED_SPEC = "column:column=a,higher=hallucinated,column:column=b,higher=hallucinated"


def answers(n: int = 80, seed: int = 0) -> list[Example]:
    rng = np.random.default_rng(seed)
    found = []
    for index in range(n):
        label = index % 2
        columns = {"a": float(rng.normal(2.0 * label)), "b": float(rng.normal())}
        if index % 10 == 0:
            columns["b"] = None
        found.append(Example("q", ("c",), "x", label=label, id=str(index), columns=columns))
    return found


@pytest.mark.parametrize("model", ["logistic", "boosted"])
def test_it_learns_which_member_tells_the_classes_apart(model: str) -> None:
    score = Fused(scores=FUSED_SPEC, model=model).fit(answers())
    fresh = answers(400, seed=1)
    values = score.score(fresh).values
    labels = np.array([example.label for example in fresh])
    assert values[labels == 1].mean() - values[labels == 0].mean() > 0.3
    assert ((values >= 0.0) & (values <= 1.0)).all()


@pytest.mark.parametrize("model", ["logistic", "boosted"])
def test_fused_conforms(model: str) -> None:
    check_score(Fused(scores="novelty,novel_count,length", model=model))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1] * 20, "holds 0 faithful"),
        ([0] * 17 + [1] * 3, "holds 3 hallucinated"),
        ([0, 1, None] * 8, "has none; label it 0"),
    ],
)
def test_both_classes_are_needed(labels: list, message: str) -> None:
    examples = [
        Example("q", ("c",), "x", label=label, id=str(i), columns={"a": float(i), "b": 1.0})
        for i, label in enumerate(labels)
    ]
    with pytest.raises(InputError, match=message):
        Fused(scores=FUSED_SPEC).fit(examples)


@pytest.mark.parametrize("params", [{"model": "forest"}, {"strength": 0}, {"strength": "much"}])
def test_bad_parameters_of_fused_are_refused(params: dict) -> None:
    with pytest.raises(InputError, match=next(iter(params))):
        Fused(scores=FUSED_SPEC, **params)


def test_nothing_is_made_up_where_a_field_is_missing() -> None:
    score = Fused(scores="length,novel_count,rouge_l").fit(
        [
            Example("q", ("one two",), "one two three four"[: 3 + i % 15], label=i % 2, id=str(i))
            for i in range(40)
        ]
    )
    result = score.score([Example("q", (), "It was built in 1999.")])
    assert result.reasons == {0: "there is no context"}


def test_rounding_is_magnified_no_more_than_the_tolerance_says() -> None:
    class Wobbly:
        requires: tuple[str, ...] = ()
        tolerance = 1e-4

        def __init__(self, column: str) -> None:
            self.name, self.shift = column, 0.0

        def score(self, examples: list[Example]) -> Scores:
            return Scores(np.array([0.01 * float(e.columns["a"]) + self.shift for e in examples]))

    score = Fused(scores=FUSED_SPEC)
    score.members = {"x": Wobbly("x"), "y": Wobbly("y")}
    examples = answers()
    fitted = score.fit(examples)
    before = fitted.score(examples).values
    for member in fitted.members.values():
        member.shift = 1e-4
    moved = np.abs(fitted.score(examples).values - before).max()
    assert 1e-4 < moved <= fitted.tolerance


def test_trees_take_exact_members_only_and_never_fall() -> None:
    with pytest.raises(InputError, match="values of rad round differently"):
        Fused(scores="novelty,rad", model="boosted")
    fitted = Fused(scores=FUSED_SPEC, model="boosted").fit(answers())
    steps = [Example("q", ("c",), "x", columns={"a": a, "b": 0.0}) for a in np.linspace(-3, 5, 80)]
    assert (np.diff(fitted.score(steps).values) >= 0.0).all()
