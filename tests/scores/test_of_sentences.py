"""What do scores say of single sentences: of which do they say nothing, and which are refused?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calibrail.data import Example, read
from calibrail.data.sentences import sentence_examples
from calibrail.errors import InputError
from calibrail.scores import build, parse_spec
from calibrail.scores.base import require_sentences
from calibrail.scores.registry import BUILT_IN
from calibrail.text.claims import claims

SCORES = Path(__file__).resolve().parents[2] / "docs" / "scores.md"


def test_every_score_has_its_row() -> None:
    text = SCORES.read_text(encoding="utf-8")
    table = text[text.index("### What each score says of one") : text.index("## Scores that learn")]
    lacking = [name for name in BUILT_IN if f"`{name}`" not in table]
    # These two are told of around the table: one is a score of answers by its sentences.
    assert lacking == ["worst_sentence", "custom"]


def test_a_score_of_whole_answers_is_refused_and_says_why() -> None:
    class Whole:
        name, requires, tolerance, params = "whole", ("response",), 0.0, {}
        whole_answers = "it counts sentences"

        def fingerprint(self) -> dict[str, object]:
            return {}

        def score(self, examples: list[Example]) -> object:
            raise AssertionError

    with pytest.raises(InputError, match="whole says nothing of a single sentence: it counts"):
        require_sentences([Whole()])  # type: ignore[list-item]
    require_sentences([build(parse_spec("rad")), build(parse_spec("fused"))])


def test_the_page_says_how_often_a_sentence_has_no_score(real_data: Path) -> None:
    answers = read(real_data / "ragtruth", by_sentence=True)
    sentences = [item for answer in answers for item in sentence_examples(answer)]
    assert (len(sentences), sum(item.label == 1 for item in sentences)) == (3060, 211)
    none = {
        name: float(np.isnan(build(parse_spec(name)).score(sentences).values).mean())
        for name in ("numbers", "entities", "novelty", "novel_run", "rouge_l", "length")
    }
    claimless = [all(claim.abstains for claim in claims(item.response)) for item in sentences]
    text = SCORES.read_text(encoding="utf-8")
    assert f"without a number ({none['numbers']:.0%}) or" in text
    assert f"or a name ({none['entities']:.0%})," in text
    assert f"without a claim ({np.mean(claimless):.0%}:" in text
    assert max(none["novelty"], none["novel_run"], none["rouge_l"]) < 0.001
    assert none["length"] == 0.0
