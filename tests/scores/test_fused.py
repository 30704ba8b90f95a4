from __future__ import annotations

import numpy as np
import pytest

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.scores import Scores, build, parse_spec
from calibrail.scores.fused import Fused
from calibrail.scores.learned import learns, state_bytes, with_state
from calibrail.testing import check_score

SPEC = "column:column=a,higher=hallucinated,column:column=b,higher=hallucinated"


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
    score = Fused(scores=SPEC, model=model).fit(answers())
    fresh = answers(400, seed=1)
    values = score.score(fresh).values
    labels = np.array([example.label for example in fresh])
    assert values[labels == 1].mean() - values[labels == 0].mean() > 0.3
    assert ((values >= 0.0) & (values <= 1.0)).all()


def test_a_member_that_points_the_wrong_way_is_named_and_not_turned_around() -> None:
    turned = SPEC.replace("column=a,higher=hallucinated", "column=a,higher=faithful")
    straight, wrong = (Fused(scores=spec).fit(answers()) for spec in (SPEC, turned))
    assert straight.state()["weights"][0] > 0.0 == wrong.state()["weights"][0]
    assert straight.lessons == ()
    assert wrong.lessons[0].startswith("a points the wrong way on the fit split (AUROC 0.")


def test_what_was_learnt_can_be_given_back() -> None:
    score = Fused(scores=SPEC).fit(answers())
    again = with_state(build(parse_spec(f'fused:scores="{SPEC}"')), state_bytes(score))
    assert not learns(again)
    fresh = answers(50, seed=2)
    assert again.score(fresh).values.tolist() == score.score(fresh).values.tolist()


def test_the_evidence_is_what_each_member_says() -> None:
    score = Fused(scores=SPEC).fit(answers())
    items = score.score(answers(1)).evidence[0]["items"]
    assert [item["score"] for item in items] == ["a", "b"]
    assert items[1]["reason"] == "column b is empty"


def test_it_is_undefined_where_every_member_is() -> None:
    empty = Example("q", ("c",), "x", columns={"a": None, "b": None})
    result = Fused(scores=SPEC).fit(answers()).score([empty])
    assert result.reasons == {0: "a: column a is empty; b: column b is empty"}


@pytest.mark.parametrize("model", ["logistic", "boosted"])
def test_it_conforms(model: str) -> None:
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
        Fused(scores=SPEC).fit(examples)


@pytest.mark.parametrize("params", [{"model": "forest"}, {"strength": 0}, {"strength": "much"}])
def test_bad_parameters_are_refused(params: dict) -> None:
    with pytest.raises(InputError, match=next(iter(params))):
        Fused(scores=SPEC, **params)


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

    score = Fused(scores=SPEC)
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
    fitted = Fused(scores=SPEC, model="boosted").fit(answers())
    steps = [Example("q", ("c",), "x", columns={"a": a, "b": 0.0}) for a in np.linspace(-3, 5, 80)]
    assert (np.diff(fitted.score(steps).values) >= 0.0).all()
