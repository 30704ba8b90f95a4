from __future__ import annotations

import numpy as np

from calibrail.data.example import Example
from calibrail.scores.papers.reranker import CrossEncoder
from tests.scores.fakes import FakeRanker


def test_the_most_relevant_chunk_counts_with_its_raw_logit() -> None:
    score = CrossEncoder()
    asked = []

    def logit(query: str, document: str) -> float:
        asked.append((query, document))
        return {"near": 17.5, "far": -3.0}[document]

    score.reranker = FakeRanker(logit)
    result = score.score(
        [Example("q", ("far", "", "near"), "yes"), Example("q", ("far",), "yes"), Example()]
    )
    assert result.values[:2].tolist() == [-17.5, 3.0]
    assert np.isnan(result.values[2])
    assert result.reasons == {2: "the response is empty"}
    # The response is what is looked for.
    assert set(asked) == {("yes", "near"), ("yes", "far")}
    assert [(item["chunk"], item["relevance"]) for item in result.evidence[0]["items"]] == [
        (0, -3.0),
        (2, 17.5),
    ]
