"""How does each published kind of entailment model say how likely a hypothesis follows?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from calibrail.errors import ModelError
from calibrail.models.layout import Tokens, read_pairs, read_prompts
from calibrail.models.loading import Network, open_network
from calibrail.models.location import Location, locate_tokenizer
from calibrail.models.nli_labels import ENTAILMENT, NOT_ENTAILMENT, HeadKind
from calibrail.models.windows import Window

HHEM_FOUNDATION: Final = "google/flan-t5-base"
HHEM_PROMPT: Final = (
    "<pad> Determine if the hypothesis is true given the premise?\n\n"
    "Premise: {long}\n\nHypothesis: {short}"
)
#: The figures of flan-t5-base; the folder's own config.json may state others.
_FLAN_T5_BASE: Final = {
    "vocab_size": 32128,
    "d_model": 768,
    "d_kv": 64,
    "d_ff": 2048,
    "num_layers": 12,
    "num_decoder_layers": 12,
    "num_heads": 12,
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
    "layer_norm_epsilon": 1e-6,
    "feed_forward_proj": "gated-gelu",
}
MINICHECK_PROMPT: Final = "predict: {long}</s>{short}"


class EntailmentHead(Protocol):
    """An opened entailment model."""

    labels: tuple[str, ...]

    def read(self, longs: Sequence[str], shorts: Sequence[str]) -> list[Tokens]:
        """Tokenise premises with their hypotheses."""
        ...

    def values(self, windows: Sequence[Window]) -> NDArray[np.float64]:
        """Return the probability of each label, shape (windows, labels)."""
        ...


def open_head(place: Location, kind: HeadKind, *, model: str, dtype: str) -> EntailmentHead:
    """Load an entailment model of a known kind.

    Raises
    ------
    ModelError
        If it cannot be loaded as that.
    """
    if kind.name == "hhem":
        return Hhem(place, model=model, dtype=dtype)
    if kind.name == "minicheck":
        return MiniCheck(place, model=model, dtype=dtype)
    return Classifier(place, kind.labels, model=model, dtype=dtype)


class Classifier:
    """A sequence classifier with named classes: softmax of its logits."""

    def __init__(self, place: Location, labels: tuple[str, ...], *, model: str, dtype: str) -> None:
        self.labels = labels
        self._network = open_network(
            place,
            "AutoModelForSequenceClassification",
            model=model,
            purpose="an entailment model",
            dtype=dtype,
        )

    def read(self, longs: Sequence[str], shorts: Sequence[str]) -> list[Tokens]:
        """Tokenise as pairs, premise first."""
        return read_pairs(self._network.tokenizer, longs, shorts, long_first=True)

    def values(self, windows: Sequence[Window]) -> NDArray[np.float64]:
        """Return the probability of each label."""
        import torch

        with torch.inference_mode():
            logits = self._network.module(**self._network.inputs(windows)).logits
        return _softmax(logits)


class Hhem:
    """vectara/hallucination_evaluation_model, without the code that its repository brings.

    A token classifier on the encoder of flan-t5-base; the first position's second class is
    consistency. The published weights carry the prefix ``t5.``.
    """

    labels: tuple[str, ...] = (NOT_ENTAILMENT, ENTAILMENT)

    def __init__(self, place: Location, *, model: str, dtype: str) -> None:
        stated = {key: place.setting("config.json", key) for key in _FLAN_T5_BASE}
        figures = {**_FLAN_T5_BASE, **{key: v for key, v in stated.items() if v is not None}}
        self._prompt = hhem_prompt(place)
        self._network = open_network(
            place,
            "T5ForTokenClassification",
            model=model,
            purpose="a hallucination evaluation model",
            dtype=dtype,
            tokenizer=("T5Tokenizer", hhem_tokenizer(place).folder),
            strict=True,
            configuration=("T5Config", {**figures, "num_labels": 2, "tie_word_embeddings": False}),
            key_mapping={r"^t5\.": ""},
        )

    def read(self, longs: Sequence[str], shorts: Sequence[str]) -> list[Tokens]:
        """Tokenise the prompt with premise and hypothesis in it."""
        return read_prompts(self._network.tokenizer, self._prompt, longs, shorts)

    def values(self, windows: Sequence[Window]) -> NDArray[np.float64]:
        """Return the probabilities of inconsistent and consistent."""
        import torch

        with torch.inference_mode():
            logits = self._network.module(**self._network.inputs(windows)).logits[:, 0]
        return _softmax(logits)


def hhem_prompt(place: Location) -> str:
    """Return the prompt of a hallucination evaluation model, its own where its config has one."""
    own = place.setting("config.json", "prompt")
    if isinstance(own, str) and own.count("{text1}") == own.count("{text2}") == 1:
        return own.replace("{text1}", "{long}").replace("{text2}", "{short}")
    return HHEM_PROMPT


def hhem_tokenizer(place: Location) -> Location:
    """Return where its tokenizer lies: beside the weights, or with the model it was made from."""
    if place.has_tokenizer():
        return place
    foundation = place.setting("config.json", "foundation")
    return locate_tokenizer(foundation if isinstance(foundation, str) else HHEM_FOUNDATION)


class MiniCheck:
    """lytang/MiniCheck-Flan-T5-Large: one decoder step, the token of "1" against that of "0".

    Tang, Laban and Durrett, "MiniCheck" (EMNLP 2024), and its published inference code.
    """

    labels: tuple[str, ...] = (NOT_ENTAILMENT, ENTAILMENT)

    def __init__(self, place: Location, *, model: str, dtype: str) -> None:
        self._network = open_network(
            place,
            "T5ForConditionalGeneration",
            model=model,
            purpose="a MiniCheck model",
            dtype=dtype,
        )
        self._answers = answer_tokens(self._network, model)
        self._start = self._network.module.config.decoder_start_token_id or 0

    def read(self, longs: Sequence[str], shorts: Sequence[str]) -> list[Tokens]:
        """Tokenise document and claim with the end sign between them."""
        return read_prompts(self._network.tokenizer, MINICHECK_PROMPT, longs, shorts)

    def values(self, windows: Sequence[Window]) -> NDArray[np.float64]:
        """Return the probabilities of "0" (unsupported) and "1" (supported)."""
        return _softmax(self._logits(windows)[:, list(self._answers)])

    def answered(self, windows: Sequence[Window]) -> NDArray[np.float64]:
        """Return how likely the answer is one of the two at all, shape (windows,)."""
        shares: NDArray[np.float64] = _softmax(self._logits(windows))[:, list(self._answers)]
        total: NDArray[np.float64] = shares.sum(axis=1)
        return total

    def _logits(self, windows: Sequence[Window]) -> Any:
        import torch

        network = self._network
        start = torch.full((len(windows), 1), self._start, device=network.device)
        with torch.inference_mode():
            inputs = network.inputs(windows)
            return network.module(**inputs, decoder_input_ids=start, use_cache=False).logits[:, 0]


def answer_tokens(network: Network, model: str) -> tuple[int, int]:
    """Return the first tokens of the answers "0" and "1".

    The vocabulary of flan-t5 has no word "0": its first token is the bare word boundary, which is
    what the published code reads as "0".

    Raises
    ------
    ModelError
        If they are the same, so that one decoder step cannot tell the answers apart.
    """
    zero, one = (
        network.tokenizer(answer, add_special_tokens=False)["input_ids"][:1]
        for answer in ("0", "1")
    )
    unknown = [network.tokenizer.unk_token_id]
    if not zero or not one or zero == one or unknown in (zero, one):
        raise ModelError(
            f'{model}: its tokenizer does not begin the answers "0" and "1" with tokens of their '
            "own, as a MiniCheck model's does"
        )
    return zero[0], one[0]


def _softmax(logits: Any) -> NDArray[np.float64]:
    import torch

    result: NDArray[np.float64] = torch.softmax(logits.double(), dim=-1).cpu().numpy()
    return result
