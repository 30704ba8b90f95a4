from __future__ import annotations

import numpy as np
import pytest

from calibrail.data import Example
from calibrail.errors import InputError
from calibrail.scores.papers.tfg import Tfg
from tests.scores.fakes import FakeEncoder, plane, with_encoder

WORDS = {
    "r": [plane(0), plane(60), plane(80), plane(180)],
    "c1": [plane(5)],
    "c2": [plane(-10), plane(-20)],
    "none": [],
}
ENCODER = FakeEncoder(words=WORDS)


def tfg(contexts: tuple[str, ...], gamma: float = 0.3) -> float:
    score = with_encoder(Tfg(gamma=gamma), ENCODER)
    return float(score.score([Example("", contexts, "r")]).values[0])


def test_words_without_a_match_above_gamma_count() -> None:
    # Best cosines with c1: cos 5, cos 55 = 0.57, cos 75 = 0.26, cos 175 < 0.
    assert tfg(("c1",)) == 0.5
    assert tfg(("c1",), gamma=0.6) == 0.75
    assert tfg(("c1",), gamma=0.2) == 0.25


def test_any_chunk_may_ground_a_word() -> None:
    assert tfg(("c2", "c1")) == 0.5
    assert tfg(("c2",)) == 0.5
    assert tfg(("none", "c1")) == 0.5


def test_tiles_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    words = {"r": rng.normal(size=(23, 8)).tolist(), "c": rng.normal(size=(31, 8)).tolist()}
    score = with_encoder(Tfg(gamma=0.5), FakeEncoder(words=words))
    whole = score.score([Example("", ("c",), "r")]).values[0]
    monkeypatch.setattr("calibrail.scores.papers.tfg.TILE", 7)
    assert score.score([Example("", ("c",), "r")]).values[0] == whole
    assert 0 < whole < 1


def test_what_has_no_content_word_is_undefined() -> None:
    encoder = FakeEncoder(words={**WORDS, "the": []})
    result = with_encoder(Tfg(), encoder).score(
        [Example("", ("c1",), "the"), Example("", ("none",), "r"), Example("", ("c1",), "r")]
    )
    assert result.reasons == {
        0: "the response holds no content word",
        1: "the contexts hold no content word",
    }
    assert result.values[2] == 0.5


@pytest.mark.parametrize("gamma", [1.0, -1.0, float("nan"), "high", True])
def test_gamma_outside_its_domain_is_refused(gamma: object) -> None:
    with pytest.raises(InputError, match=r"gamma must lie in \(-1, 1\)"):
        Tfg(gamma=gamma)
