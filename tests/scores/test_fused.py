from __future__ import annotations

import numpy as np
import pytest

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.scores import build, parse_spec
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
    [([1] * 20, "holds 0 faithful"), ([0] * 17 + [1] * 3, "holds 3 hallucinated"),
     ([0, 1, None] * 8, "has none; label it 0")],
)  # fmt: skip
def test_both_classes_are_needed(labels: list, message: str) -> None:
    examples = [
        Example("q", ("c",), "x", label=label, id=str(i), columns={"a": float(i), "b": 1.0})
        for i, label in enumerate(labels)
    ]
    with pytest.raises(InputError, match=message):
        Fused(scores=SPEC).fit(examples)


@pytest.mark.parametrize(
    "params", [{"model": "forest"}, {"strength": 0}, {"strength": "much"}, {"seed": -1}]
)
def test_bad_parameters_are_refused(params: dict) -> None:
    with pytest.raises(InputError, match=next(iter(params))):
        Fused(scores=SPEC, **params)
