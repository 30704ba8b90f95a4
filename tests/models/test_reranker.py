from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calibrail.errors import ModelError
from calibrail.scores.grounding import Reranker
from tests.installed import need
from tests.tiny_models import PADDING, change_config, make_classifier

need("transformers")

KINDS = ("bert", "xlm-roberta", "deberta-v2")
PAIRS = [
    ("where does the rhine rise?", "the river rhine flows from the alps."),
    ("sea", "the bell of the old tower rings at noon, on monday"),
    ("when is the museum open", "snow"),
    ("train", ""),
]


def logits(folder: Path, pairs: list[tuple[str, str]]) -> np.ndarray:
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        folder, dtype=torch.float32
    ).eval()
    with torch.inference_mode():
        return np.array(
            [
                model(**tokenizer([query], [document], return_tensors="pt")).logits.item()
                for query, document in pairs
            ]
        )


@pytest.mark.parametrize("kind", KINDS)
def test_relevance_is_the_raw_logit_of_query_and_document(tmp_path: Path, kind: str) -> None:
    folder = make_classifier(tmp_path / kind, kind, ("LABEL_0",))
    model = Reranker(str(folder))
    found = model.relevance(PAIRS)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, logits(folder, PAIRS), atol=1e-5)
    turned = Reranker(str(folder)).relevance([(document, query) for query, document in PAIRS])
    assert (np.abs(found - turned) > 1e-4)[:3].all()


def test_the_best_window_of_a_long_document_counts(tmp_path: Path) -> None:
    folder = make_classifier(tmp_path / "bert", labels=("LABEL_0",))
    model = Reranker(str(folder))
    query = PAIRS[0][0]
    document = " ".join(PADDING * 60) + " the river rhine flows from the alps"
    (best,) = model.results([(query, document)])
    assert best.n_windows > 5
    (start, end) = best.spans[0]
    (whole,) = model.relevance([(query, document)])
    assert whole == best.values[0]
    # That stretch by itself, read without windows, has the same logit.
    np.testing.assert_allclose(
        logits(folder, [(query, document[start:end])]), whole, atol=model.tolerance
    )


def test_a_long_query_is_kept_whole(tmp_path: Path) -> None:
    folder = make_classifier(tmp_path / "bert", labels=("LABEL_0",))
    model = Reranker(str(folder))
    model.relevance([("the sea " * 20, " ".join(PADDING * 60))])
    assert model.n_truncated == 0
    model.relevance([("the sea " * 40, " ".join(PADDING * 60))])
    assert model.n_truncated == 1


@pytest.mark.parametrize("labels", [("a", "b"), ("contradiction", "neutral", "entailment")])
def test_more_than_one_output_is_no_reranker(tmp_path: Path, labels: tuple[str, ...]) -> None:
    model = Reranker(str(make_classifier(tmp_path / "bert", labels=labels)))
    for refused in (model.fingerprint, lambda: model.relevance(PAIRS)):
        with pytest.raises(ModelError, match=f"no reranker.*has {len(labels)}.*{labels[0]}"):
            refused()


def test_a_config_that_states_no_labels_has_two(tmp_path: Path) -> None:
    folder = make_classifier(tmp_path / "bert", labels=("LABEL_0",))
    change_config(folder, id2label=None, label2id=None)
    with pytest.raises(ModelError, match="states no labels"):
        Reranker(str(folder)).fingerprint()
    change_config(folder, num_labels=1)
    assert len(Reranker(str(folder)).relevance(PAIRS)) == len(PAIRS)
