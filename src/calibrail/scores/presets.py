"""Which models, at which revisions, and which options did the papers use?"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from calibrail.errors import InputError

JSON = object


def _model(name: str, revision: str | None = None, prefix: str = "") -> dict[str, JSON]:
    """Return the parameters of a model at a commit.

    The commits are those at which the models stood on the hub when they were last changed before
    2026; where none is given, the revision is pinned when a guardrail is frozen.
    """
    pinned = {} if revision is None else {f"{prefix}revision": revision}
    return {f"{prefix}model": name, **pinned}


_MINILM = _model("sentence-transformers/all-MiniLM-L6-v2")
_BGE = _model("BAAI/bge-base-en-v1.5", "a5beb1e3e68b9ab74eb54cfd186867f64f240e1a")
_BART = ("facebook/bart-large-mnli", "d7645e127eaf1aefc7862fd59a17a5aa8558b8ce")
_RERANKER = _model("BAAI/bge-reranker-v2-m3", "953dc6f6f85a1b2dbfca4c34a2796e7dde08d41e")
_PROVENANCE = {
    **_model("vectara/hallucination_evaluation_model"),
    **_model(
        "mixedbread-ai/mxbai-rerank-base-v1",
        "800f24c113213a187e65bde9db00c15a2bb12738",
        prefix="relevance_",
    ),
    "aggregation": "max",
}
_ON_MINILM = (
    "sgi",
    "local_sgi",
    "displacement_magnitude",
    "displacement_consistency",
    "expected_response_deviation",
    "tangent_residual",
    "dgi",
)
# The model of SelfCheckGPT reads the hypothesis first and names no labels: not offered.
_ON_BART = ("nli", "sec", "selfcheck", "claims")

#: Parameters by score and preset.
PRESETS: Final[Mapping[str, Mapping[str, Mapping[str, JSON]]]] = MappingProxyType(
    {
        **{name: {"paper": _MINILM} for name in _ON_MINILM},
        "rad": {"paper": _BGE, "code": {**_BGE, "weighting": "question"}},
        "tfg": {"paper": {**_BGE, "gamma": 0.3}},
        **{name: {"paper": _model(*_BART)} for name in _ON_BART},
        "crg": {
            "paper": {**_BGE, **_model(*_BART, prefix="nli_"), "gamma": 0.3, "weights": "equal"}
        },
        "reranker": {"paper": _RERANKER},
        # The wording of the prompt is ours; the paper's asks for the same two words.
        "judge": {"paper": {"model": "gpt-4o-mini", "mode": "verdict", "max_tokens": 10}},
        "halt": {"paper": {**_model(*_BART), "second": "cross-encoder/nli-deberta-v3-base"}},
        "provenance": {
            "paper": {**_PROVENANCE, "selection": "top_p", "top_p": 0.9},
            "long_context": {**_PROVENANCE, "selection": "top_k", "top_k": 5},
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
