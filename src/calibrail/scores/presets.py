"""Which models, at which revisions, and which options did the papers use?

The commits are those at which the models stood on the hub when they were last changed before 2026;
where none is given, the revision is pinned when a guardrail is frozen.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_MINILM = {"model": "sentence-transformers/all-MiniLM-L6-v2"}
_BGE = {"model": "BAAI/bge-base-en-v1.5", "revision": "a5beb1e3e68b9ab74eb54cfd186867f64f240e1a"}
_BART = {
    "model": "facebook/bart-large-mnli",
    "revision": "d7645e127eaf1aefc7862fd59a17a5aa8558b8ce",
}
_RERANKER = {
    "model": "BAAI/bge-reranker-v2-m3",
    "revision": "953dc6f6f85a1b2dbfca4c34a2796e7dde08d41e",
}
_PROVENANCE = {
    "model": "vectara/hallucination_evaluation_model",
    "relevance_model": "mixedbread-ai/mxbai-rerank-base-v1",
    "relevance_revision": "800f24c113213a187e65bde9db00c15a2bb12738",
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
PRESETS: Final[Mapping[str, Mapping[str, Mapping[str, object]]]] = MappingProxyType(
    {
        **{name: {"paper": _MINILM} for name in _ON_MINILM},
        "rad": {"paper": _BGE, "code": {**_BGE, "weighting": "question"}},
        "tfg": {"paper": {**_BGE, "gamma": 0.3}},
        **{name: {"paper": _BART} for name in _ON_BART},
        "crg": {
            "paper": _BGE
            | {f"nli_{key}": value for key, value in _BART.items()}
            | {"gamma": 0.3, "weights": "equal"}
        },
        "reranker": {"paper": _RERANKER},
        # The wording of the prompt is ours; the paper's asks for the same two words.
        "judge": {"paper": {"model": "gpt-4o-mini", "mode": "verdict", "max_tokens": 10}},
        # The large model is the paper's best.
        "tokens": {"paper": {"model": "KRLabsOrg/lettucedect-large-modernbert-en-v1"}},
        "provenance": {
            "paper": {**_PROVENANCE, "selection": "top_p", "top_p": 0.9},
            "long_context": {**_PROVENANCE, "selection": "top_k", "top_k": 5},
        },
    }
)
