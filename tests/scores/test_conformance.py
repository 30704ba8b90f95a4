from __future__ import annotations

from pathlib import Path

import pytest

from calibrail.scores import BASELINES, build, build_column, parse_spec
from calibrail.testing import check_score
from tests.tiny_models import make_classifier, make_hhem, make_matcher, make_minicheck

#: Scores that find answers of another kind than those on another topic.
OTHER_POLARITY = (
    "length",
    "sgi",
    "local_sgi:context=closest",
    "displacement_magnitude",
    "displacement_consistency",
    "expected_response_deviation:k=5",
    "tangent_residual:k=5",
    "dgi",
)


@pytest.mark.parametrize("spec", [*BASELINES, "novel_stretch", "novel_run"])
def test_scores_without_a_model_conform(spec: str) -> None:
    check_score(build(parse_spec(spec)), polarity=spec not in OTHER_POLARITY)


@pytest.mark.parametrize(
    "spec", [*OTHER_POLARITY[1:], "rad", "rad:weighting=question", "tfg:gamma=0.5"]
)
def test_scores_on_embeddings_conform(spec: str) -> None:
    # tfg looks at each word of a context by itself.
    huge = 2_000 if spec.startswith("tfg") else 20_000
    check_score(build(parse_spec(spec)), polarity=spec not in OTHER_POLARITY, huge=huge)


def test_a_column_conforms() -> None:
    check_score(build_column("detector", "faithful"), polarity=False, columns={"detector": 0.25})


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {
        "matcher": make_matcher(folder / "matcher", max_length=500),
        "bart": make_classifier(folder / "bart", "bart", max_length=500),
        "deberta": make_classifier(folder / "deberta", "deberta-v2", max_length=500),
        "hhem": make_hhem(folder / "hhem"),
        "minicheck": make_minicheck(folder / "minicheck"),
        "reranker": make_classifier(
            folder / "reranker", "xlm-roberta", ["relevance"], max_length=500
        ),
    }


@pytest.mark.parametrize(
    "spec",
    [
        "sec:model={matcher}",
        "claims:model={minicheck}",
        "claims:model={deberta},threshold=0.4",
        "provenance:model={hhem},relevance_model={reranker}",
        "provenance:model={bart},relevance=cosine,aggregation=weighted",
        "reranker:model={reranker}",
        "crg:nli_model={bart},weights=learned",
    ],
)
def test_scores_of_other_models_conform(spec: str, models: dict[str, Path]) -> None:
    score = build(parse_spec(spec.format(**models)))
    check_score(score, polarity=False, huge=2_000)
