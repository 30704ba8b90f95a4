"""Does the attention on the context come from the model that is named?"""

from __future__ import annotations

from calibrail.data.example import Example
from calibrail.models.loading import DEFAULT_MODEL
from calibrail_papers.redeep import Redeep

CONTEXT = "The museum is closed on Mondays."


def test_one_model_serves_all_scores_of_a_specification() -> None:
    score, short = Redeep(), Redeep(model="all-MiniLM-L6-v2")
    assert short.attention is score.attention
    assert short.params["model"] == score.params["model"] == DEFAULT_MODEL
    assert Redeep(layers=2).attention is not score.attention


def test_an_answer_that_looks_elsewhere_has_the_higher_value() -> None:
    answers = [
        Example("", (CONTEXT,), text) for text in (CONTEXT, "Bananas ripen after the harvest.")
    ]
    copied, other = Redeep().score(answers).values
    assert copied < other
