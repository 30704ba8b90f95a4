"""Which models, at which revisions, and which options did the papers use?"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from calibrail.errors import InputError

JSON = object

#: Revisions are the commits at which the models stood on the hub when they were last changed before
#: 2026; where none is given, the revision is pinned when a guardrail is frozen.
_MINILM = {"model": "sentence-transformers/all-MiniLM-L6-v2"}
_BGE = {
    "model": "BAAI/bge-base-en-v1.5",
    "revision": "a5beb1e3e68b9ab74eb54cfd186867f64f240e1a",
}
_BART = {
    "model": "facebook/bart-large-mnli",
    "revision": "d7645e127eaf1aefc7862fd59a17a5aa8558b8ce",
}
_BGE_RERANKER = {
    "model": "BAAI/bge-reranker-v2-m3",
    "revision": "953dc6f6f85a1b2dbfca4c34a2796e7dde08d41e",
}

#: Parameters by score and preset.
PRESETS: Final[Mapping[str, Mapping[str, Mapping[str, JSON]]]] = MappingProxyType(
    {
        "sgi": {"paper": _MINILM},
        "local_sgi": {"paper": _MINILM},
        "displacement_magnitude": {"paper": _MINILM},
        "displacement_consistency": {"paper": _MINILM},
        "expected_response_deviation": {"paper": _MINILM},
        "tangent_residual": {"paper": _MINILM},
        "dgi": {"paper": _MINILM},
        "rad": {"paper": _BGE, "code": {**_BGE, "weighting": "question"}},
        "tfg": {"paper": {**_BGE, "gamma": 0.3}},
        "nli": {"paper": _BART},
        "sec": {"paper": _BART},
        # The model of SelfCheckGPT reads the hypothesis first and names no labels: not offered.
        "selfcheck": {"paper": _BART},
        "claims": {"paper": _BART},
        "crg": {
            "paper": {
                **_BGE,
                "nli_model": _BART["model"],
                "nli_revision": _BART["revision"],
                "gamma": 0.3,
                "weights": "equal",
            }
        },
        "reranker": {"paper": _BGE_RERANKER},
        # The wording of the prompt is ours; the paper's asks for the same two words.
        "judge": {"paper": {"model": "gpt-4o-mini", "mode": "verdict", "max_tokens": 10}},
        "halt": {"paper": {**_BART, "second": "cross-encoder/nli-deberta-v3-base"}},
        "provenance": {
            "paper": {
                "model": "vectara/hallucination_evaluation_model",
                "relevance_model": "mixedbread-ai/mxbai-rerank-base-v1",
                "relevance_revision": "800f24c113213a187e65bde9db00c15a2bb12738",
                "selection": "top_p",
                "top_p": 0.9,
                "aggregation": "max",
            },
            "long_context": {
                "model": "vectara/hallucination_evaluation_model",
                "relevance_model": "mixedbread-ai/mxbai-rerank-base-v1",
                "relevance_revision": "800f24c113213a187e65bde9db00c15a2bb12738",
                "selection": "top_k",
                "top_k": 5,
                "aggregation": "max",
            },
        },
    }
)


def preset(score: str, name: object) -> Mapping[str, JSON]:
    """Return the parameters of a score's preset.

    Raises
    ------
    InputError
        If the score has no such preset.
    """
    known = PRESETS.get(score, {})
    if name not in known:
        raise InputError(
            f"the score {score} has no preset {name!r}; its presets: {', '.join(known) or 'none'}"
        )
    return known[str(name)]
